/* brig exec: a command in a sandbox of the daemon's. */
#include "base/base64.h"
#include "base/cleanup.h"
#include "base/num.h"
#include "base/text.h"
#include "cli/client/boxes.h"
#include "cli/term.h"
#include "http/connect.h"
#include "os/signals.h"
#include "os/tty.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { OPT_TTY = 1, OPT_NO_STDIN, OPT_CWD, OPT_USER, OPT_VARIABLE, OPT_TIMEOUT };

static const struct opt exec_items[] = {
    {.id = OPT_TTY, .brief = 't', .name = "tty", .group = "Process", .help = "a private terminal"},
    {.id = OPT_NO_STDIN,
     .name = "no-stdin",
     .group = "Process",
     .help = "its standard input is empty"},
    {.id = OPT_CWD,
     .name = "cwd",
     .kind = OPT_VALUE,
     .value = "DIR",
     .group = "Process",
     .help = "where it starts; default the home folder"},
    {.id = OPT_USER,
     .brief = 'u',
     .name = "user",
     .kind = OPT_VALUE,
     .value = "NAME",
     .group = "Process",
     .help = "user (the default) or root, where the template gives it"},
    {.id = OPT_VARIABLE,
     .brief = 'e',
     .name = "env",
     .kind = OPT_LIST,
     .value = "KEY=VALUE",
     .group = "Process",
     .help = "a variable for this command"},
    {.id = OPT_TIMEOUT,
     .name = "timeout",
     .kind = OPT_VALUE,
     .value = "TIME",
     .group = "Process",
     .help = "kill it after this long"},
};
static const struct opt_table exec_table = {
    .items = exec_items, .count = ARRAY_LEN(exec_items), .next = &client_option_table};

#define ENV_MAX 128

struct exec_verb {
    struct boxes boxes;
    bool tty, no_stdin;
    const char *cwd;
    const char *user; /* or NULL */
    const char *env[ENV_MAX];
    unsigned env_count;
    uint64_t timeout_ms;
    char *const *argv;
    int argc;
    /* while it runs */
    char id[64];
    struct call call;
    struct connect_reader frames;
    int64_t pid;
    int stdin_fd, signal_fd;
    unsigned stops; /* asked for so far */
    bool over;
    int status;
};

static int own(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    struct exec_verb *v = ctx;
    switch (opt ? opt->id : 0) {
    case OPT_TTY:
        v->tty = true;
        return 1;
    case OPT_NO_STDIN:
        v->no_stdin = true;
        return 1;
    case OPT_CWD:
        v->cwd = value;
        return 1;
    case OPT_USER:
        v->user = value;
        if (!*value || strlen(value) > 32 ||
            strspn(value, "abcdefghijklmnopqrstuvwxyz0123456789_-") != strlen(value))
            return err_set(err, ERR_USAGE, "'%.60s' is no name of a user", value);
        return 1;
    case OPT_TIMEOUT:
        return num_parse_duration(value, &v->timeout_ms, err) < 0 ? err_number(err) : 1;
    case OPT_VARIABLE:
        if (!strchr(value, '=') || value[0] == '=' || v->env_count == ENV_MAX)
            return err_set(err, ERR_USAGE, "'%.60s' is not KEY=VALUE, or one too many", value);
        v->env[v->env_count++] = value;
        return 1;
    default:
        return 0;
    }
}

/* ---- what is sent ---- */

static void write_env(const struct exec_verb *v, struct json_writer *w)
{
    const char *term = getenv("TERM");
    jw_key(w, "envs");
    jw_object_begin(w);
    if (v->tty && term)
        jw_kv_string(w, "TERM", term);
    for (unsigned i = 0; i < v->env_count; i++) {
        char key[256];
        size_t len = strcspn(v->env[i], "=");
        snprintf(key, sizeof key, "%.*s", (int)(len < 255 ? len : 255), v->env[i]);
        jw_kv_string(w, key, v->env[i] + len + 1);
    }
    jw_object_end(w);
}

static void write_size(struct json_writer *w)
{
    struct winsize size = {.ws_col = 80, .ws_row = 24};
    ioctl(STDIN_FILENO, TIOCGWINSZ, &size);
    jw_key(w, "pty");
    jw_object_begin(w);
    jw_key(w, "size");
    jw_object_begin(w);
    jw_kv_uint(w, "cols", size.ws_col);
    jw_kv_uint(w, "rows", size.ws_row);
    jw_object_end(w);
    jw_object_end(w);
}

static void write_start(const struct exec_verb *v, struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out, false);
    jw_object_begin(&w);
    jw_key(&w, "process");
    jw_object_begin(&w);
    jw_kv_string(&w, "cmd", v->argv[0]);
    jw_key(&w, "args");
    jw_array_begin(&w);
    for (int i = 1; i < v->argc; i++)
        jw_string(&w, v->argv[i]);
    jw_array_end(&w);
    write_env(v, &w);
    if (v->cwd)
        jw_kv_string(&w, "cwd", v->cwd);
    jw_object_end(&w);
    if (v->tty)
        write_size(&w);
    jw_kv_bool(&w, "stdin", !v->no_stdin);
    jw_object_end(&w);
}

/* One more request about the process that runs: begun, filled, sent. */
struct told {
    struct buf body;
    struct json_writer w;
};

static void tell_begin(const struct exec_verb *v, struct told *t)
{
    buf_init(&t->body, 1u << 20);
    process_begin(&t->w, &t->body, v->pid);
}

static int tell(struct exec_verb *v, struct told *t, const char *method, struct err *err)
{
    char path[64];
    cleanup_json struct json *none = NULL;
    jw_object_end(&t->w);
    snprintf(path, sizeof path, "/process.Process/%s", method);
    struct ask ask = {.method = "POST",
                      .path = path,
                      .box = v->id,
                      .body = buf_text(&t->body),
                      .body_len = t->body.len};
    int r = client_json(&v->boxes.client, &ask, &none, err);
    buf_done(&t->body);
    return r;
}

static void on_input(struct exec_verb *v)
{
    char block[32768];
    struct err err = ERR_INIT;
    struct told t;
    cleanup_buf struct buf text = {0};
    ssize_t n = read(v->stdin_fd, block, sizeof block);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0)
        v->stdin_fd = -1;
    if (n <= 0 && v->tty)
        return;
    tell_begin(v, &t);
    if (n <= 0) {
        tell(v, &t, "CloseStdin", &err);
        return;
    }
    buf_init(&text, 1u << 20);
    base64_encode(block, (size_t)n, &text);
    jw_kv_object(&t.w, "input");
    jw_kv_string(&t.w, v->tty ? "pty" : "stdin", buf_text(&text));
    jw_object_end(&t.w);
    /* A process that is gone, or does not read any more, is told by the stream. */
    if (tell(v, &t, "SendInput", &err) < 0)
        v->stdin_fd = -1;
}

static void on_signals(struct exec_verb *v)
{
    struct signalfd_siginfo info;
    struct err err = ERR_INIT;
    struct told t;
    while (read(v->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGWINCH) {
            if (v->tty && v->pid) {
                tell_begin(v, &t);
                write_size(&t.w);
                tell(v, &t, "Update", &err);
            }
            continue;
        }
        /* The first asks, the second insists, the third does not wait for the daemon. */
        v->stops++;
        if (v->pid && v->stops <= 2) {
            tell_begin(v, &t);
            jw_kv_string(&t.w, "signal", v->stops == 1 ? "SIGNAL_SIGTERM" : "SIGNAL_SIGKILL");
            tell(v, &t, "SendSignal", &err);
        } else {
            v->over = true;
        }
        v->status = 128 + (int)info.ssi_signo;
    }
}

/* ---- what comes back ---- */

static int put(const struct json *data, const char *name, int fd, struct err *err)
{
    const char *text = json_text(data, name);
    cleanup_buf struct buf bytes = {0};
    if (!text)
        return 0;
    buf_init(&bytes, strlen(text) + 1);
    if (base64_decode(text, strlen(text), &bytes, err) < 0)
        return err_wrap(err, "the daemon's output");
    return term_write(fd, buf_text(&bytes), bytes.len) < 0 ? err_sys(err, "write") : 0;
}

/* The daemon's words for a process that a signal ended are "signal: killed". */
static int status_of(const struct json *end)
{
    const char *status = json_text(end, "status");
    int number = status && text_begins(status, "signal: ") ? signal_of_words(status + 8) : 0;
    if (number > 0)
        return 128 + number;
    return (int)(member_int(end, "exitCode", 0) & 255);
}

/* A process that was killed for want of memory does not say so itself, and one to which a
 * connection was refused does not know what would allow it. */
static const char *explained(const char *error)
{
    static const char denied[] = "; denied: ";
    if (error && text_begins(error, "oom_killed:"))
        return error;
    const char *at = error ? strstr(error, denied) : NULL;
    return at ? at + strlen("; ") : NULL;
}

static void on_end(struct exec_verb *v, const struct json *end)
{
    const char *words = explained(json_text(end, "error"));
    cleanup_buf struct buf line = {0};
    v->status = status_of(end);
    if (!words)
        return;
    buf_init(&line, 8192);
    buf_str(&line, "brig exec: ");
    term_clean(&line, words);
    buf_chr(&line, '\n');
    term_write(STDERR_FILENO, buf_text(&line), line.len);
}

static int on_event(struct exec_verb *v, const struct json *message, struct err *err)
{
    const struct json *event = json_get(message, "event");
    const struct json *start = event ? json_get(event, "start") : NULL;
    const struct json *data = event ? json_get(event, "data") : NULL;
    const struct json *end = event ? json_get(event, "end") : NULL;
    if (start)
        v->pid = member_int(start, "pid", 0);
    if (data &&
        (put(data, "stdout", STDOUT_FILENO, err) < 0 ||
         put(data, "stderr", STDERR_FILENO, err) < 0 || put(data, "pty", STDOUT_FILENO, err) < 0))
        return err_number(err);
    if (end)
        on_end(v, end);
    return 0;
}

/* The last frame: {} or {"error":{"code","message"}}. */
static int on_last(struct exec_verb *v, const struct json *message, struct err *err)
{
    const struct json *e = json_get(message, "error");
    const char *code = json_text(e, "code"), *text = json_text(e, "message");
    v->over = true;
    if (!e)
        return 0;
    if (code && strcmp(code, "deadline_exceeded") == 0) {
        v->status = 124;
        return 0;
    }
    err_set(err, code && strcmp(code, "not_found") == 0 ? ERR_NOT_FOUND : ERR_SYSTEM, "%.400s",
            text ? text : "the daemon ended the stream with an error");
    return err_number(err);
}

static int on_frames(struct exec_verb *v, struct err *err)
{
    struct connect_frame frame;
    int r;
    while ((r = connect_reader_next(&v->frames, &frame, err)) > 0) {
        cleanup_json struct json *message = NULL;
        r = json_parse(frame.data, frame.len, &json_default_limits, &message, err);
        if (r >= 0)
            r = frame.flags & CONNECT_END ? on_last(v, message, err) : on_event(v, message, err);
        if (r < 0)
            return r;
    }
    return r;
}

/* All that is here already. */
static int on_pieces(struct exec_verb *v, struct err *err)
{
    const char *piece;
    ssize_t n;
    int r = 0;
    while (r >= 0 && (n = call_take(&v->call, &piece, err)) != 0) {
        if (n < 0)
            return (int)n;
        connect_reader_feed(&v->frames, piece, (size_t)n);
        r = on_frames(v, err);
    }
    if (r >= 0 && v->call.done && !v->over)
        return err_set(err, ERR_PROTOCOL, "the sandbox is gone");
    return r;
}

static int loop(struct exec_verb *v, struct err *err)
{
    int r = on_pieces(v, err);
    while (r >= 0 && !v->over) {
        struct pollfd fds[3] = {{.fd = v->call.fd, .events = POLLIN},
                                {.fd = v->pid ? v->stdin_fd : -1, .events = POLLIN},
                                {.fd = v->signal_fd, .events = POLLIN}};
        if (poll(fds, 3, -1) < 0 && errno != EINTR)
            return err_sys(err, "poll");
        if (fds[2].revents)
            on_signals(v);
        if (fds[0].revents && (r = call_fill(&v->call, err)) >= 0)
            r = on_pieces(v, err);
        if (r >= 0 && !v->over && fds[1].revents)
            on_input(v);
    }
    return r;
}

static int start(struct exec_verb *v, struct err *err)
{
    cleanup_buf struct buf json = {0}, frame = {0};
    char path[96];
    buf_init(&json, 1u << 20);
    buf_init(&frame, 1u << 20);
    write_start(v, &json);
    connect_frame_write(&frame, 0, buf_text(&json), json.len);
    if (json.failed || frame.failed)
        return err_set(err, ERR_LIMIT, "the command is too long");
    snprintf(path, sizeof path, "/process.Process/Start%s%s", v->user ? "?username=" : "",
             v->user ? v->user : "");
    struct ask ask = {.method = "POST",
                      .path = path,
                      .box = v->id,
                      .type = "application/connect+json",
                      .timeout_ms = v->timeout_ms,
                      .body = frame.data,
                      .body_len = frame.len};
    return call_start(&v->call, &v->boxes.client, &ask, err);
}

static int run(struct exec_verb *v, struct err *err)
{
    sigset_t old;
    static const int watched[] = {SIGINT, SIGTERM, SIGHUP, SIGWINCH};
    if (client_find(&v->boxes.client, v->boxes.words[0], v->id, err) < 0)
        return err_number(err);
    v->stdin_fd = v->no_stdin ? -1 : STDIN_FILENO;
    v->signal_fd = signals_open(watched, ARRAY_LEN(watched), &old, err);
    call_init(&v->call);
    connect_reader_init(&v->frames);
    int r = v->signal_fd < 0 ? v->signal_fd : start(v, err);
    if (r >= 0 && v->tty)
        tty_raw(STDIN_FILENO);
    if (r >= 0)
        r = loop(v, err);
    tty_restore();
    connect_reader_done(&v->frames);
    call_done(&v->call);
    if (v->signal_fd >= 0)
        close(v->signal_fd);
    sigprocmask(SIG_SETMASK, &old, NULL);
    return r;
}

static int exec_main(const struct verb *verb, int argc, char *const argv[])
{
    struct err err = ERR_INIT;
    struct exec_verb v = {.boxes = {.own = own, .stop_at_operand = true}};
    int rest = argc;
    v.boxes.ctx = &v;
    int r = boxes_parse(&v.boxes, verb, argc, argv, &rest, &err);
    if (r > 0)
        return 0;
    v.argv = argv + rest;
    v.argc = argc - rest;
    if (r >= 0 && v.boxes.count == 0)
        r = err_set(&err, ERR_USAGE, "in which sandbox?");
    if (r >= 0 && v.argc == 0) {
        err_set(&err, ERR_USAGE, "no command given");
        r = err_hint(&err, "brig exec %.40s -- COMMAND", v.boxes.words[0]);
    }
    if (r >= 0)
        r = run(&v, &err);
    return r < 0 ? verb_fail(verb, &err, false) : v.status;
}

const struct verb verb_exec = {
    .name = "exec",
    .summary = "run a command in a sandbox of the daemon's",
    .usage = "exec ID [OPTIONS] -- COMMAND [ARGUMENT…]",
    .about = "Input, output and errors go through as for any program; ^C asks it to end, ^C\n"
             "again insists. The sandbox goes on afterwards: what the command left is there\n"
             "for the next one. A command that is killed because the sandbox ran out of memory\n"
             "ends with 137, and stderr says so.",
    .examples = "brig exec 4k2m -- python3 -c 'print(6*7)'\n"
                "brig exec 4k2m -t -- bash\n"
                "tar c src | brig exec 4k2m --cwd /workspace -- tar x",
    .statuses = "N    the command's own; 128+n when it died of signal n\n"
                "124  --timeout is over\n"
                "125  no such sandbox, or there is no daemon\n"
                "126  the command cannot be executed\n"
                "127  there is no such command",
    .options = &exec_table,
    .main = exec_main,
};
