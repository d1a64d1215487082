/* process.Process of envd: start, watch, feed, signal.
 *
 * A stream is one client's view of a process. It may leave and come back: the process goes on, and
 * what it says while nobody listens is dropped (the last of it is kept for `brig logs`). */
#include "daemon/e2b/envd.h"
#include "daemon/e2b/frames.h"

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/container.h"
#include "daemon/api/activity.h"
#include "os/signals.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define ARGS_MAX     4096
#define OUTPUT_FRAME (256u * 1024)

struct stream {
    struct activity activity;
    struct process_client *client;
    struct loop_timer keepalive, deadline;
    uint64_t keepalive_ms;
};

/* ---- a stream ---- */

static void stream_stop(struct activity *a)
{
    struct stream *s = container_of(a, struct stream, activity);
    loop_timer_cancel(a->loop, &s->keepalive);
    loop_timer_cancel(a->loop, &s->deadline);
    process_detach(s->client);
}

static void stream_writable(struct activity *a)
{
    process_resume(container_of(a, struct stream, activity)->client);
}

static const struct activity_ops stream_ops = {.stop = stream_stop, .writable = stream_writable};

static void stream_finish(struct stream *s, const char *code, const char *message)
{
    frames_finish(activity_end(&s->activity), code, message);
}

static void event_begin(struct frame *f, const char *what, size_t cap)
{
    frame_begin(f, cap);
    jw_object_begin(&f->w);
    jw_kv_object(&f->w, "event");
    jw_kv_object(&f->w, what);
}

static bool event_send(struct frame *f, struct stream *s)
{
    jw_object_end(&f->w);
    jw_object_end(&f->w);
    jw_object_end(&f->w);
    if (s->keepalive_ms)
        loop_timer_set(s->activity.loop, &s->keepalive, s->keepalive_ms);
    return frame_send(f, s->activity.call);
}

static void on_keepalive(struct loop_timer *t)
{
    struct stream *s = container_of(t, struct stream, keepalive);
    struct frame f;
    event_begin(&f, "keepalive", 256);
    event_send(&f, s);
}

static void on_deadline(struct loop_timer *t)
{
    stream_finish(container_of(t, struct stream, deadline), "deadline_exceeded",
                  "the time of this call is over");
}

/* Base64 needs no escapes: it goes into the frame as it is. */
static void write_output(struct frame *f, const char *key, const void *data, size_t len)
{
    jw_key(&f->w, key);
    buf_chr(&f->text, '"');
    base64_encode(data, len, &f->text);
    buf_chr(&f->text, '"');
    f->w.after_key = false;
    f->w.need_comma = true;
}

static bool on_output(void *ctx, int stream, const void *data, size_t len)
{
    static const char *const keys[] = {"pty", "stdout", "stderr"};
    struct stream *s = ctx;
    bool more = true;
    while (len) {
        size_t n = len < OUTPUT_FRAME ? len : OUTPUT_FRAME;
        struct frame f;
        event_begin(&f, "data", BASE64_SIZE(n) + 256);
        write_output(&f, keys[stream], data, n);
        more = event_send(&f, s);
        data = (const char *)data + n;
        len -= n;
    }
    return more;
}

static void write_status(struct json_writer *w, const struct process_end *how)
{
    char text[16 + SIGNAL_WORDS_SIZE], words[SIGNAL_WORDS_SIZE];
    cleanup_buf struct buf why;
    int status = how->wait_status;
    bool exited = WIFEXITED(status);
    /* One that was killed for want of memory ends as the shell that it may have been run by. */
    int code = exited ? WEXITSTATUS(status) : how->oom ? 128 + SIGKILL : -1;
    if (exited)
        snprintf(text, sizeof text, "exit status %d", code);
    else
        snprintf(text, sizeof text, "signal: %s", signal_words(WTERMSIG(status), words));
    if (code)
        jw_kv_int(w, "exitCode", code);
    if (exited)
        jw_kv_bool(w, "exited", true);
    jw_kv_string(w, "status", text);
    buf_init(&why, 8192);
    if (how->oom)
        buf_fmt(&why, "%s; %s", how->oom->message, how->oom->hint);
    else
        buf_str(&why, text);
    if (how->denied)
        buf_fmt(&why, "; %s", how->denied);
    if (!code)
        return;
    jw_kv_bytes(w, "error", buf_text(&why), why.len); /* names of files may stand in it */
}

static void on_end(void *ctx, const struct process_end *how)
{
    struct stream *s = ctx;
    struct frame f;
    if (!box_find_any(s->activity.core, s->activity.call->id)) {
        frames_cut(activity_end(&s->activity));
        return;
    }
    if (how->timed_out) {
        stream_finish(s, "deadline_exceeded", "the command ran longer than it was given");
        return;
    }
    event_begin(&f, "end", 16384);
    write_status(&f.w, how);
    event_send(&f, s);
    stream_finish(s, NULL, NULL);
}

/* From here on the client sees what the process does. */
static void stream_attach(struct call *call, struct process *p, uint64_t deadline_ms)
{
    struct err err = ERR_INIT;
    struct stream *s = activity_new(sizeof(*s), &stream_ops, call->core, call->hold.account, &err);
    const struct process_sink sink = {.output = on_output, .end = on_end, .ctx = s};
    struct frame f;
    if (!s) {
        call_fail_err(call, &err);
        return;
    }
    s->client = process_attach(p, &sink);
    if (!s->client) {
        activity_end(&s->activity);
        call_fail_memory(call);
        return;
    }
    s->keepalive_ms = frames_keepalive_ms(call);
    s->keepalive.fn = on_keepalive;
    s->deadline.fn = on_deadline;
    activity_serve(&s->activity, call);
    frames_start(call);
    event_begin(&f, "start", 256);
    jw_kv_int(&f.w, "pid", process_pid(p));
    event_send(&f, s);
    if (deadline_ms)
        loop_timer_set(s->activity.loop, &s->deadline, deadline_ms);
}

/* ---- Start ---- */

struct start {
    const struct json *process, *pty, *args, *env;
    const char *cmd, *cwd, *tag;
    bool has_stdin;
    int64_t cols, rows;
};

static int read_size(const struct json *pty, int64_t *cols, int64_t *rows, struct err *err)
{
    const struct json *size = NULL;
    const struct field outer[] = {{"size", FIELD_OBJECT, &size}};
    const struct field inner[] = {
        {"cols", FIELD_INT, cols, 1, UINT16_MAX},
        {"rows", FIELD_INT, rows, 1, UINT16_MAX},
    };
    int r = FIELDS_READ(pty, FIELDS_PROTO, outer, err);
    if (r < 0 || !size)
        return r;
    return FIELDS_READ(size, FIELDS_PROTO, inner, err);
}

static int read_start(const struct json *body, struct start *s, struct err *err)
{
    const struct field outer[] = {
        {"process", FIELD_OBJECT, &s->process},
        {"pty", FIELD_OBJECT, &s->pty},
        {"tag", FIELD_STRING, &s->tag},
        {"stdin", FIELD_BOOL, &s->has_stdin},
    };
    const struct field inner[] = {
        {"cmd", FIELD_STRING, &s->cmd},
        {"args", FIELD_STRINGS, &s->args},
        {"envs", FIELD_MAP, &s->env},
        {"cwd", FIELD_STRING, &s->cwd},
    };
    int r = FIELDS_READ(body, FIELDS_PROTO, outer, err);
    if (r < 0)
        return r;
    if (s->process && (r = FIELDS_READ(s->process, FIELDS_PROTO, inner, err)) < 0)
        return r;
    if (!s->cmd || !*s->cmd)
        return err_set(err, ERR_USAGE, "\"process.cmd\" is missing");
    if (s->args && json_count(s->args) > ARGS_MAX)
        return err_set(err, ERR_USAGE, "\"process.args\": more than %d", ARGS_MAX);
    if (s->pty && (r = read_size(s->pty, &s->cols, &s->rows, err)) < 0)
        return r;
    return fields_check_env(s->env, "process.envs", err);
}

static void started(void *ctx, struct process *p, const struct err *err)
{
    struct call *call = ctx;
    if (!call_back(call))
        return; /* it runs on, as if the client had left a moment later */
    if (p)
        stream_attach(call, p, 0);
    else if (err->code == ERR_NOT_EXEC)
        call_fail(call, 403, "%s", err->message);
    else if (err->code == ERR_NOT_FOUND && err->sys_errno) /* no program has the kernel's number */
        call_fail(call, 400, "cwd: %s", err->message);
    else
        call_fail_err(call, err);
}

static bool is_wanted(void *ctx)
{
    const struct call *call = ctx;
    return call->x != NULL;
}

static void start_process(struct call *call, struct box *b, const struct start *s,
                          uint64_t timeout_ms)
{
    size_t count = s->args ? json_count(s->args) : 0;
    const char **argv = calloc(count + 2, sizeof(*argv));
    if (!argv) {
        call_fail_memory(call);
        return;
    }
    argv[0] = s->cmd;
    for (size_t i = 0; i < count; i++)
        argv[i + 1] = json_string(json_at(s->args, i));
    struct process_request r = {
        .argv = argv,
        .env = s->env,
        .cwd = s->cwd && *s->cwd ? s->cwd : NULL,
        .as_root = call->as_root,
        .tty = s->pty != NULL,
        .cols = (uint16_t)s->cols,
        .rows = (uint16_t)s->rows,
        .has_stdin = s->has_stdin || s->pty,
        .tag = s->tag,
        .config = s->process,
        .timeout_ms = timeout_ms,
        .wanted = is_wanted,
    };
    call_wait(call);
    process_start(b, &r, NULL, started, call);
    call_forget_body(call); /* it was copied, or is on its way */
    free(argv);
}

static void start_body(struct call *call, const struct json *body)
{
    struct err err = ERR_INIT;
    struct start s = {.has_stdin = true, .cols = 80, .rows = 24};
    uint64_t timeout_ms;
    struct box *b;
    if (!frames_timeout(call, &timeout_ms))
        return;
    if (read_start(body, &s, &err) < 0) {
        call_fail_err(call, &err);
        return;
    }
    b = call_sandbox(call);
    if (b)
        start_process(call, b, &s, timeout_ms);
}

/* ---- which process ---- */

/* NULL: there is none, and *err says so. */
static struct process *selected(struct box *b, const struct json *selector, struct err *err)
{
    int64_t pid = 0;
    const char *tag = NULL;
    const struct field fields[] = {
        {"pid", FIELD_INT, &pid, 0, INT32_MAX},
        {"tag", FIELD_STRING, &tag},
    };
    struct process *p;
    if (!selector || FIELDS_READ(selector, FIELDS_PROTO, fields, err) < 0 || (!pid && !tag)) {
        if (err->code == ERR_NONE)
            err_set(err, ERR_USAGE, "\"process\" names neither pid nor tag");
        return NULL;
    }
    p = process_find(b, pid, tag);
    if (!p && tag)
        err_set(err, ERR_NOT_FOUND, "there is no process with tag \"%.64s\"", tag);
    else if (!p)
        err_set(err, ERR_NOT_FOUND, "there is no process %lld", (long long)pid);
    return p;
}

/* Reads what a unary call says besides "process"; NULL: it was answered. */
static struct process *find_process(struct call *call, const struct json *body, const char *other,
                                    const struct json **ret_other)
{
    struct err err = ERR_INIT;
    const struct json *selector = NULL;
    const struct field fields[] = {
        {"process", FIELD_OBJECT, &selector},
        {other ? other : "process", FIELD_OBJECT, other ? ret_other : &selector},
    };
    struct process *p = NULL;
    struct box *b = call_sandbox(call);
    if (!b)
        return NULL;
    if (FIELDS_READ(body, FIELDS_PROTO, fields, &err) == 0)
        p = selected(b, selector, &err);
    if (!p)
        call_fail(call, err.code == ERR_NOT_FOUND ? 404 : 400, "%s", err.message);
    return p;
}

static void reply_nothing(struct call *call)
{
    call_text(call, 200, CONNECT_UNARY, "{}", 2);
}

/* ---- Connect ---- */

static void attach_body(struct call *call, const struct json *body)
{
    uint64_t deadline_ms;
    struct process *p =
        frames_timeout(call, &deadline_ms) ? find_process(call, body, NULL, NULL) : NULL;
    if (p)
        stream_attach(call, p, deadline_ms);
}

/* ---- input ---- */

static void input_taken(void *ctx)
{
    struct call *call = ctx;
    call->on_gone = NULL;
    if (call_back(call))
        reply_nothing(call);
}

/* The process lives: its end would have taken all that waits for it along. */
static void input_gone(struct call *call)
{
    struct process *p = call->data;
    process_input_forget(p, call);
    call_back(call);
}

static void send_input(struct call *call, struct process *p, const char *text)
{
    struct err err = ERR_INIT;
    struct buf bytes cleanup_buf = {0};
    int r = 0;
    call_buf(call, &bytes, CALL_JSON_MAX);
    buf_room(&bytes, strlen(text) / 4 * 3 + 3);
    if (bytes.failed && hold_refusal(&call->hold, &err) < 0) {
        call_fail_err(call, &err);
        return;
    }
    if (base64_decode(text, strlen(text), &bytes, NULL) < 0) {
        call_fail(call, 400, "\"input\": expected base64");
        return;
    }
    call_forget_body(call); /* what waits, waits once */
    call_wait(call);
    if (bytes.len)
        r = process_input(p, bytes.data, bytes.len, input_taken, call);
    if (r == -EAGAIN) {
        call->data = p;
        call->on_gone = input_gone;
        return;
    }
    if (!call_back(call))
        return;
    if (r == 0)
        reply_nothing(call);
    else if (r == -EPIPE)
        call_fail(call, 400, "the input of this process is closed");
    else
        call_fail(call, 429, "the process does not read its input");
}

static void input_body(struct call *call, const struct json *body)
{
    struct err err = ERR_INIT;
    const struct json *input = NULL;
    const char *text = NULL;
    const struct field fields[] = {
        {"stdin", FIELD_STRING, &text},
        {"pty", FIELD_STRING, &text},
    };
    struct process *p = find_process(call, body, "input", &input);
    if (!p)
        return;
    if (!input || FIELDS_READ(input, FIELDS_PROTO, fields, &err) < 0)
        call_fail(call, 400, "%s", input ? err.message : "\"input\" is missing");
    else
        send_input(call, p, text ? text : "");
}

static void close_body(struct call *call, const struct json *body)
{
    struct process *p = find_process(call, body, NULL, NULL);
    if (!p)
        return;
    process_close_input(p);
    reply_nothing(call);
}

/* ---- signals, size ---- */

static int signal_of(const struct json *j)
{
    const char *name = json_string(j);
    if (name && !strcmp(name, "SIGNAL_SIGTERM"))
        return SIGTERM;
    if (name && !strcmp(name, "SIGNAL_SIGKILL"))
        return SIGKILL;
    if (j && json_type(j) == JSON_INT && (json_int(j) == SIGTERM || json_int(j) == SIGKILL))
        return (int)json_int(j);
    return 0;
}

static void signal_body(struct call *call, const struct json *body)
{
    int sig = signal_of(json_get(body, "signal")); /* before: who answers the call ends its body */
    struct process *p = find_process(call, body, NULL, NULL);
    if (!p)
        return;
    if (!sig) {
        call_fail(call, 400, "\"signal\": expected SIGNAL_SIGTERM or SIGNAL_SIGKILL");
        return;
    }
    process_signal(p, sig);
    reply_nothing(call);
}

static void update_body(struct call *call, const struct json *body)
{
    struct err err = ERR_INIT;
    const struct json *pty = NULL;
    int64_t cols = 0, rows = 0;
    struct process *p = find_process(call, body, "pty", &pty);
    if (!p)
        return;
    if (pty && read_size(pty, &cols, &rows, &err) < 0) {
        call_fail(call, 400, "%s", err.message);
        return;
    }
    if (cols && rows)
        process_resize(p, (uint16_t)cols, (uint16_t)rows);
    reply_nothing(call);
}

static void stream_input(struct call *call)
{
    call_fail(call, 501, "StreamInput is not offered; use SendInput");
}

const struct route process_routes[] = {
    {"POST", "/process.Process/Start", ERRORS_CONNECT_STREAM, false, .body = start_body},
    {"POST", "/process.Process/Connect", ERRORS_CONNECT_STREAM, false, .body = attach_body},
    {"POST", "/process.Process/List", ERRORS_CONNECT, false, .body = envd_process_list},
    {"POST", "/process.Process/SendInput", ERRORS_CONNECT, false, .body = input_body},
    {"POST", "/process.Process/StreamInput", ERRORS_CONNECT_STREAM, false, stream_input},
    {"POST", "/process.Process/CloseStdin", ERRORS_CONNECT, false, .body = close_body},
    {"POST", "/process.Process/SendSignal", ERRORS_CONNECT, false, .body = signal_body},
    {"POST", "/process.Process/Update", ERRORS_CONNECT, false, .body = update_body},
    {0},
};
