/* brig mcp: sandboxes as tools of a model, or another server behind walls. */
#include "base/cleanup.h"
#include "cli/mcp_wrap.h"

enum { OPT_WRAP = 1 };

/* clang-format off */
static const struct opt mcp_items[] = {
    {OPT_WRAP, 0, "wrap", OPT_FLAG, NULL, NULL, NULL, "Another server",
     "run another MCP server in a sandbox; brig mcp --wrap --help explains it"},
};
/* clang-format on */
static const struct opt_table mcp_table = {
    .items = mcp_items, .count = ARRAY_LEN(mcp_items), .next = &common_options};

static int take(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    return opt ? 0 : OPTIONS_STOP;
}

static int mcp_main(const struct verb *verb, int argc, char *const argv[])
{
    struct err err = ERR_INIT;
    int rest = 0;
    if (mcp_wants_wrap(argc, argv))
        return verb_mcp_wrap.main(&verb_mcp_wrap, argc, argv);
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
    .about = "Speaks the Model Context Protocol: one JSON-RPC message per line.",
    .examples = "# another server, of which two tools can be used\n"
                "brig mcp --wrap --tool read_file --tool list_directory -- ./server",
    .statuses = "125  brig refused or failed",
    .options = &mcp_table,
    .main = mcp_main,
};
