/* run_command: a shell command line, or a program with its arguments, as they are. */
#include "daemon/mcp/run.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define ARGS_MAX 1024u

static bool on_output(void *ctx, int stream, const void *data, size_t len)
{
    return run_output(ctx, stream, data, len);
}

static void on_end(void *ctx, const struct process_end *how)
{
    struct mcp_run *r = ctx;
    r->wait_status = how->wait_status;
    r->timed_out = how->timed_out;
    r->failed =
        how->timed_out || how->oom || WIFSIGNALED(how->wait_status) || r->error.code != ERR_NONE;
    if (how->oom)
        r->error = *how->oom;
    else if (how->timed_out)
        run_explain_timeout(r);
    r->pid = 0;
    run_finish(r);
}

static void start(struct mcp_run *r, struct box *b);

static void fed(void *ctx)
{
    (void)ctx;
}

/* All of it is taken; what the pipe does not hold waits. -EPIPE: it does not want any. A command
 * whose input there is no room for is ended: with a part of it, it would do something else. */
static void feed(struct mcp_run *r, struct process *p)
{
    if (!r->input)
        return;
    if (process_input(p, r->input, strlen(r->input), fed, NULL) == -ENOBUFS) {
        err_set(&r->error, ERR_LIMIT,
                "killed: \"stdin\" of %zu bytes, and the key has no room for them",
                strlen(r->input));
        err_hint(&r->error, "write them to a file in pieces (write_file), and read that");
        process_signal(p, SIGKILL);
    }
    process_close_input(p);
}

static void on_started(void *ctx, struct process *p, const struct err *err)
{
    struct mcp_run *r = ctx;
    struct box *b = run_box(r);
    if (p && r->c->activity.ended) {
        process_detach(process_first(p));
        process_signal(p, SIGKILL);
    }
    if (!activity_back(&r->c->activity))
        return;
    if (p) {
        r->client = process_first(p);
        r->pid = process_pid(p);
        feed(r, p);
    } else if (b && !r->args && !r->plain_shell && err->code == ERR_NOT_FOUND) {
        r->plain_shell = true;
        start(r, b);
    } else {
        run_fail(r, err);
    }
}

static const char **make_argv(const struct mcp_run *r)
{
    size_t count = r->args ? json_count(r->args) : 2;
    const char **argv = calloc(count + 2, sizeof(*argv));
    if (!argv)
        return NULL;
    if (!r->args) {
        argv[0] = r->plain_shell ? "/bin/sh" : "/bin/bash";
        argv[1] = "-c";
        argv[2] = r->command;
        return argv;
    }
    argv[0] = r->command;
    for (size_t i = 0; i < count; i++)
        argv[i + 1] = json_string(json_at(r->args, i));
    return argv;
}

static void start(struct mcp_run *r, struct box *b)
{
    struct err err = ERR_INIT;
    struct process_sink sink = {.output = on_output, .end = on_end, .ctx = r};
    const char **argv = make_argv(r);
    struct process_request request = {
        .argv = argv,
        .env = r->env,
        .cwd = r->cwd,
        .has_stdin = r->input != NULL,
        .timeout_ms = (uint64_t)r->timeout_ms,
    };
    if (!argv || tool_user(b, r->user, &request.as_root, &err) < 0) {
        if (!argv)
            err_memory(&err);
        free(argv);
        run_fail(r, &err);
        return;
    }
    activity_wait(&r->c->activity);
    process_start(b, &request, &sink, on_started, r);
    free(argv);
}

static void write_members(struct mcp_run *r, struct json_writer *w)
{
    if (WIFSIGNALED(r->wait_status))
        jw_kv_int(w, "signal", WTERMSIG(r->wait_status));
    else
        jw_kv_int(w, "exit_code", WEXITSTATUS(r->wait_status));
}

static const char *default_template(const struct mcp_run *r)
{
    (void)r;
    return "base";
}

static int read_arguments(struct mcp_run *r, const char **ret_session, struct err *err)
{
    const char *session = NULL;
    const struct field fields[] = {
        {"command", FIELD_STRING, &r->command}, {"args", FIELD_STRINGS, &r->args},
        {"cwd", FIELD_STRING, &r->cwd},         {"stdin", FIELD_STRING, &r->input},
        {"user", FIELD_STRING, &r->user},       RUN_FIELDS(r, session),
    };
    if (TOOL_FIELDS(r->c, fields, err) < 0)
        return err_number(err);
    if (!r->command || !*r->command)
        return err_set(err, ERR_USAGE, "\"command\" is missing");
    if (r->args && json_count(r->args) > ARGS_MAX)
        return err_set(err, ERR_LIMIT, "\"args\": more than %u", ARGS_MAX);
    *ret_session = session;
    return 0;
}

void mcp_run_command(struct mcp_call *c)
{
    static const struct run_kind kind = {read_arguments, default_template, start, write_members};
    run_tool(c, &kind);
}
