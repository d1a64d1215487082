/* brig mcp: sandboxes as the tools of a model, over stdin and stdout. */
#include "cli/mcp/mcp.h"

#include "base/cleanup.h"
#include "cli/mcp/wrap.h"
#include "cli/verb.h"

#include <signal.h>
#include <string.h>

enum { OPT_CONNECT = 1, OPT_STDIO, OPT_TEMPLATES, OPT_PROJECT, OPT_WRAP };

/* clang-format off */
static const struct opt mcp_items[] = {
    {OPT_CONNECT, 0, "connect", OPT_FLAG, NULL, NULL, NULL, "Sandboxes",
     "use the `brig serve` that runs already; default: one of its own, which ends with it"},
    {OPT_TEMPLATES, 0, "templates", OPT_VALUE, "DIR", NULL, NULL, "Sandboxes",
     "templates for sandboxes, one file NAME.yaml or NAME.json each"},
    {OPT_PROJECT, 0, "project", OPT_VALUE, "DIR", NULL, NULL, "Sandboxes",
     "sandboxes work on a view of this folder; changes reach it only when you apply them"},
    {OPT_WRAP, 0, "wrap", OPT_FLAG, NULL, NULL, NULL, "Another server",
     "run another MCP server in a sandbox; brig mcp --wrap --help explains it"},
    {OPT_STDIO, 0, "stdio", OPT_FLAG, NULL, NULL, NULL, "Other",
     "speak on stdin and stdout; this is always so"},
};
/* clang-format on */
static const struct opt_table mcp_table = {
    .items = mcp_items, .count = ARRAY_LEN(mcp_items), .next = &client_option_table};

struct mcp {
    struct client client;
    struct mcp_private_options own;
    bool connect;
};

static int take(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    struct mcp *m = ctx;
    if (!opt)
        return err_set(err, ERR_USAGE, "unexpected argument '%.60s'", value);
    if (client_take(&m->client, opt, value))
        return 0;
    if (opt->id == OPT_CONNECT)
        m->connect = true;
    else if (opt->id == OPT_TEMPLATES)
        m->own.templates = value;
    else if (opt->id == OPT_PROJECT)
        m->own.project = value;
    return 0;
}

static int check(const struct mcp *m, struct err *err)
{
    bool names_daemon = m->client.host || m->client.key_file || m->client.state;
    if (names_daemon && !m->connect) {
        err_set(err, ERR_USAGE, "--host, --key-file and --state name a daemon that runs already");
        return err_hint(err, "add --connect");
    }
    if (m->connect && (m->own.templates || m->own.project)) {
        err_set(err, ERR_USAGE, "--templates, --project: a daemon that runs already has its own");
        return err_hint(err, "give them to `brig serve`");
    }
    return 0;
}

static int serve_own(struct mcp *m, struct err *err)
{
    struct mcp_private p = {.folder_fd = -1, .owner_fd = -1, .pidfd = -1};
    int r = mcp_private_start(&p, &m->own, &m->client, err);
    if (r >= 0)
        r = mcp_bridge_run(&m->client, p.pidfd, m->own.project != NULL, err);
    mcp_private_end(&p);
    return r;
}

static int run(struct mcp *m, struct err *err)
{
    if (check(m, err) < 0)
        return err_number(err);
    signal(SIGPIPE, SIG_IGN);
    if (!m->connect)
        return serve_own(m, err);
    if (client_open(&m->client, err) < 0)
        return err_number(err);
    return mcp_bridge_run(&m->client, -1, false, err);
}

static int mcp_main(const struct verb *verb, int argc, char *const argv[])
{
    struct err err = ERR_INIT;
    struct mcp m = {0};
    int rest = 0;
    if (mcp_wants_wrap(argc, argv))
        return verb_mcp_wrap.main(&verb_mcp_wrap, argc, argv);
    int r = verb_parse(verb, argc, argv, take, &m, &rest, &err);
    if (r > 0)
        return 0;
    if (r >= 0 && rest < argc)
        r = err_set(&err, ERR_USAGE, "unexpected argument '%.60s'", argv[rest]);
    if (r >= 0)
        r = run(&m, &err);
    explicit_bzero(m.client.key, sizeof m.client.key);
    return r >= 0 ? 0 : verb_fail(verb, &err, false);
}

const struct verb verb_mcp = {
    .name = "mcp",
    .summary = "serve models: sandboxes as tools, or another server behind walls",
    .usage = "mcp [OPTIONS]\nmcp --wrap [OPTIONS] [--] SERVER [ARGUMENT…]",
    .about = "Speaks the Model Context Protocol: one JSON-RPC message per line. Starts a\n"
             "`brig serve` of its own, which has no port and a key that nobody sees, and ends\n"
             "with it when stdin ends. A daemon that runs already offers the same at /mcp.",
    .examples = "# what a client's configuration names as its command\n"
                "brig mcp\n"
                "# with the sandboxes of a daemon that runs already\n"
                "brig mcp --connect\n"
                "# the model works on a view of a project; brig diff and brig apply take it over\n"
                "brig mcp --project ~/src/app\n"
                "# another server, of which two tools can be used\n"
                "brig mcp --wrap --tool read_file --tool list_directory -- ./server",
    .statuses = "0    stdin has ended\n"
                "125  it could not start, or its daemon died",
    .options = &mcp_table,
    .form = &verb_mcp_wrap,
    .runs = true,
    .main = mcp_main,
};
