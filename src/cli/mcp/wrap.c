/* brig mcp --wrap: another MCP server in a sandbox, and a process between it and its client.
 *
 *   client ⇄ filter (sealed: judges each message) ⇄ this process (supervisor, as brig run) ⇄ server
 *            └ asker (only where rules say ask)
 *
 * The filter holds one end of a pipe, the lifeline: when it is gone, however it ended, the sandbox
 * is ended. The death of this process takes filter and asker along, and the sandbox by its
 * guardian. */
#include "cli/mcp/wrap.h"
#include "base/cleanup.h"
#include "cli/policy_options.h"
#include "cli/project.h"
#include "cli/term.h"
#include "cli/verdict.h"
#include "mcp/wrap_serve.h"
#include "os/sys.h"
#include "sandbox/image.h"
#include "sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum wrap_option_id { OPT_WRAP = 1, OPT_PROJECT, OPT_QUIET, OPT_VERBOSE };

#define WRAPPING "Another server"
#define OUTPUT   "Output"

/* clang-format off */
static const struct opt wrap_items[] = {
    {OPT_WRAP, 0, "wrap", OPT_FLAG, NULL, NULL, NULL, WRAPPING,
     "this form of brig mcp"},
    {OPT_PROJECT, 0, "project", OPT_VALUE, "DIR", NULL, NULL, WRAPPING,
     "level medium: the folder that the server may change; default: the current folder"},
    {OPT_QUIET, 'q', "quiet", OPT_FLAG, NULL, NULL, NULL, OUTPUT,
     "say nothing on stderr about denials and dropped messages"},
    {OPT_VERBOSE, 'v', "verbose", OPT_FLAG, NULL, NULL, NULL, OUTPUT,
     "also say what was used: level, tier, time, memory"},
};
/* clang-format on */
static const struct opt_table wrap_table = {
    .items = wrap_items, .count = ARRAY_LEN(wrap_items), .next = &tool_option_table};

struct wrap_options {
    struct policy_options policy;
    const char *project;
    bool quiet, verbose;
};

static void wrap_options_done(struct wrap_options *o)
{
    policy_options_done(&o->policy);
}

bool mcp_wants_wrap(int argc, char *const argv[])
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--wrap") == 0)
            return true;
    }
    return false;
}

static int take(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    struct wrap_options *o = ctx;
    if (!opt)
        return OPTIONS_STOP;
    int r = policy_options_take(&o->policy, opt, value, err);
    if (r)
        return r < 0 ? r : 0;
    if (opt->id == OPT_PROJECT)
        o->project = value;
    else if (opt->id == OPT_QUIET)
        o->quiet = true;
    else if (opt->id == OPT_VERBOSE)
        o->verbose = true;
    else if (opt->id != OPT_WRAP)
        return err_set(err, ERR_INTERNAL, "option --%s is not handled", opt->name);
    return 0;
}

/* A server lives as long as its client and says as much as it is asked: the level's limits for one
 * command are not meant for it. */
static int lift_limits(struct policy *p, struct err *err)
{
    static const enum policy_field fields[] = {FIELD_TIMEOUT, FIELD_OUTPUT};
    const struct origin origin = {.kind = ORIGIN_OPTION, .name = "--wrap"};
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        if (p->origin[fields[i]].kind > ORIGIN_LEVEL)
            continue;
        int r = policy_set(p, fields[i], "unlimited", &origin, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- the processes in between ---- */

enum end { READS, WRITES };

/* All of them start as -1. */
struct pipes {
    int to_server[2];
    int from_server[2];
    int lifeline[2];
    int asker[2];
};

static void pipes_done(struct pipes *p)
{
    int *all = (int *)p;
    for (size_t i = 0; i < sizeof *p / sizeof *all; i++) {
        if (all[i] >= 0)
            close(all[i]);
        all[i] = -1;
    }
}

static void close_end(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static bool has_ask(const struct tools *tools)
{
    for (size_t i = 0; i < tools->count; i++) {
        if (tools->rules[i].verdict == TOOL_ASK)
            return true;
    }
    return false;
}

static int open_pipes(struct pipes *p, bool asks, struct err *err)
{
    if (pipe2(p->to_server, O_CLOEXEC) < 0 || pipe2(p->from_server, O_CLOEXEC) < 0 ||
        pipe2(p->lifeline, O_CLOEXEC) < 0)
        return err_sys(err, "pipe");
    if (asks && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p->asker) < 0)
        return err_sys(err, "socketpair");
    return 0;
}

/* In a new child: it dies with us, and signals for the whole group are for the supervisor. */
static void begin_child(pid_t parent)
{
    static const int ignored[] = {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    for (size_t i = 0; i < ARRAY_LEN(ignored); i++)
        signal(ignored[i], SIG_IGN);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent)
        _exit(125);
}

static _Noreturn void be_asker(struct pipes *p, bool quiet, pid_t parent)
{
    begin_child(parent);
    int socket = fd_steal(&p->asker[1]);
    pipes_done(p);
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    wrap_ask_people(socket, quiet ? NULL : verdict_held);
    _exit(0);
}

static _Noreturn void be_filter(struct pipes *p, const struct tools *tools, bool quiet,
                                pid_t parent)
{
    struct err err = ERR_INIT;
    struct wrap_files files = {.client_in = STDIN_FILENO,
                               .client_out = STDOUT_FILENO,
                               .server_in = fd_steal(&p->to_server[WRITES]),
                               .server_out = fd_steal(&p->from_server[READS]),
                               .asker = fd_steal(&p->asker[0])};
    int lifeline = fd_steal(&p->lifeline[WRITES]);
    begin_child(parent);
    pipes_done(p);
    int r = wrap_seal(&err);
    /* One byte: everything that comes may be judged from here on. */
    if (r >= 0 && write(lifeline, "+", 1) != 1)
        r = err_sys(&err, "report the filter");
    if (r >= 0)
        r = wrap_serve(&files, tools, quiet, &err);
    if (r < 0)
        term_say("%s", err.message);
    _exit(r < 0 ? 125 : 0);
}

static int start(struct pipes *p, const struct tools *tools, bool quiet, pid_t *ret_filter,
                 struct err *err)
{
    pid_t self = getpid();
    char byte;
    ssize_t n;
    if (has_ask(tools)) {
        pid_t asker = fork();
        if (asker == 0)
            be_asker(p, quiet, self);
        if (asker < 0)
            return err_sys(err, "fork");
    }
    pid_t filter = fork();
    if (filter == 0)
        be_filter(p, tools, quiet, self);
    if (filter < 0)
        return err_sys(err, "fork");
    *ret_filter = filter;
    close_end(&p->to_server[WRITES]);
    close_end(&p->from_server[READS]);
    close_end(&p->lifeline[WRITES]);
    close_end(&p->asker[0]);
    close_end(&p->asker[1]);
    while ((n = read(p->lifeline[READS], &byte, 1)) < 0 && errno == EINTR)
        ;
    return n == 1 ? 0 : err_set(err, ERR_SYSTEM, "the filter of the messages did not start");
}

/* What was answered is written out before we end. */
static void finish(struct pipes *p, pid_t filter)
{
    pipes_done(p);
    while (filter > 0 && waitpid(filter, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* ---- the run ---- */

static int run(const struct wrap_options *o, const struct policy *policy,
               struct run_request *request, struct err *err)
{
    struct pipes p;
    struct run_result result;
    pid_t filter = 0;
    memset(&p, 0xff, sizeof p);
    run_result_init(&result);
    int r = open_pipes(&p, has_ask(&policy->tools), err);
    if (r >= 0)
        r = start(&p, &policy->tools, o->quiet, &filter, err);
    if (r >= 0) {
        request->stdin_fd = p.to_server[READS];
        request->stdout_fd = p.from_server[WRITES];
        request->stderr_fd = STDERR_FILENO;
        request->lifeline_fd = p.lifeline[READS];
        r = sandbox_run(request, &result, err);
    }
    finish(&p, filter);
    if (r >= 0 && !o->quiet)
        verdict_say(policy, &result, o->verbose);
    int status = result.exit_status;
    run_result_done(&result);
    return r < 0 ? r : status;
}

static int run_policy(const struct wrap_options *o, const struct policy *policy,
                      const struct image *image, char *const *command, struct err *err)
{
    cleanup_buf struct buf project;
    buf_init(&project, PATH_MAX);
    int r = project_choose(policy, o->project, &project, err);
    if (r < 0)
        return r;
    struct run_request request = {
        .policy = policy,
        .image = image->root_fd >= 0 ? image : NULL,
        .argv = command,
        .project = project.len ? buf_text(&project) : NULL,
        .held = o->quiet ? NULL : verdict_held,
    };
    if (!o->quiet && !policy->tools.given)
        term_say("there are no rules about tools: every tool of the server can be called (--tool)");
    return run(o, policy, &request, err);
}

static int wrap_command(const struct wrap_options *o, char *const *command, struct err *err)
{
    struct policy policy;
    cleanup_image struct image image = IMAGE_INIT;
    if (!command[0] || !command[0][0]) {
        err_set(err, ERR_USAGE, "no server given");
        return err_hint(err, "for example: brig mcp --wrap --tool 'read_*' -- ./server");
    }
    int r = policy_options_build(&o->policy, &policy, err);
    if (r >= 0)
        r = lift_limits(&policy, err);
    if (r >= 0 && !o->quiet)
        policy_options_notes(&o->policy, &policy, o->project);
    if (r >= 0)
        r = sandbox_image_open(&policy, &image, err);
    if (r >= 0)
        r = sandbox_image_apply(&policy, &image, err);
    if (r >= 0)
        r = run_policy(o, &policy, &image, command, err);
    policy_done(&policy);
    return r;
}

static int wrap_main(const struct verb *verb, int argc, char *const argv[])
{
    struct err err = ERR_INIT;
    __attribute__((cleanup(wrap_options_done))) struct wrap_options o = {0};
    int rest = 0;
    int r = policy_options_init(&o.policy, argc, &err);
    if (r >= 0)
        r = verb_parse(verb, argc, argv, take, &o, &rest, &err);
    if (r > 0)
        return 0;
    if (r >= 0)
        r = wrap_command(&o, argv + rest, &err);
    return r < 0 ? verb_fail(verb, &err, false) : r;
}

const struct verb verb_mcp_wrap = {
    .name = "mcp --wrap",
    .summary = "another MCP server in a sandbox, and rules for its tools",
    .usage = "mcp --wrap [OPTIONS] [--] SERVER [ARGUMENT…]",
    .about = "SERVER is an MCP server that speaks over stdin and stdout. It runs as\n"
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
    .options = &wrap_table,
    .main = wrap_main,
};
