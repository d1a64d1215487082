/* brig mcp: sandboxes as tools of a model, or another server behind walls. */
#include "cli/mcp.h"

#include "base/cleanup.h"
#include "cli/policy_options.h"

#define WRAPPING "Another server"
#define OUTPUT   "Output"

/* clang-format off */
static const struct opt mcp_items[] = {
    {OPT_MCP_WRAP, 0, "wrap", OPT_FLAG, NULL, NULL, NULL, WRAPPING,
     "run another MCP server (stdio) in a sandbox, and pass only the tools that the policy allows"},
    {OPT_MCP_PROJECT, 0, "project", OPT_VALUE, "DIR", NULL, NULL, WRAPPING,
     "level medium: the folder that the server may change; default: the current folder"},
    {OPT_MCP_QUIET, 'q', "quiet", OPT_FLAG, NULL, NULL, NULL, OUTPUT,
     "say nothing on stderr about denials and dropped messages"},
    {OPT_MCP_VERBOSE, 'v', "verbose", OPT_FLAG, NULL, NULL, NULL, OUTPUT,
     "also say what was used: level, tier, time, memory"},
};
/* clang-format on */
static const struct opt_table mcp_table = {
    .items = mcp_items, .count = ARRAY_LEN(mcp_items), .next = &tool_option_table};

static int take(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    return opt ? 0 : OPTIONS_STOP;
}

static int mcp_main(const struct verb *verb, int argc, char *const argv[])
{
    struct err err = ERR_INIT;
    int rest = 0;
    if (mcp_wants_wrap(argc, argv))
        return mcp_wrap_main(verb, argc, argv);
    int r = verb_parse(verb, argc, argv, take, NULL, &rest, &err);
    if (r > 0)
        return 0;
    if (r >= 0) {
        err_set(&err, ERR_UNSUPPORTED, "this version of brig wraps other servers only");
        err_hint(&err, "brig mcp --wrap [OPTIONS] -- SERVER [ARGUMENT…]");
    }
    return verb_fail(verb, &err, false);
}

const struct verb verb_mcp = {
    .name = "mcp",
    .summary = "serve models: sandboxes as tools, or another server behind walls",
    .usage = "mcp --wrap [OPTIONS] [--] SERVER [ARGUMENT…]",
    .about = "With --wrap, SERVER is an MCP server that speaks over stdin and stdout. It runs as\n"
             "`brig run` would run it, with the same options; between it and its client brig\n"
             "reads every message, hides the tools that the policy does not allow and answers\n"
             "calls of them itself. It lives as long as its client.",
    .examples = "# a server that sees one folder, and of which two tools can be used\n"
                "brig mcp --wrap --ro ~/notes:/notes --tool read_file --tool list_directory -- \\\n"
                "  mcp-server-filesystem /notes\n"
                "# one host, and a token that the server never sees\n"
                "brig mcp --wrap --secret 'TOKEN=env:TOKEN@https://api.example.org' -- ./server",
    .statuses = "N    the server's own status; 128+N when signal N ended it\n"
                "124  a time limit ended it\n"
                "125  brig refused or failed; the server was not run\n"
                "126  the server cannot be executed\n"
                "127  the server was not found in the sandbox",
    .options = &mcp_table,
    .main = mcp_main,
};
