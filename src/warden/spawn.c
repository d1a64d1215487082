/* Processes: what the front asks for becomes a sealed block and a few pipes. */
#include "base/cleanup.h"
#include "base/container.h"
#include "base/text.h"
#include "os/fd.h"
#include "sandbox/interpreter.h"
#include "warden/session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

/* What one SPAWN says. */
struct order {
    const struct json *argv, *env;
    const struct interpreter *interpreter;
    const char *cwd;
    bool tty, has_stdin;
    bool beside; /* as root, where the sandbox has two users */
    uint64_t cols, rows;
};

static bool is_null(const struct json *j)
{
    return !j || json_type(j) == JSON_NULL;
}

static bool all_strings(const struct json *array)
{
    for (size_t i = 0; i < json_count(array); i++)
        if (!json_string(json_at(array, i)))
            return false;
    return true;
}

static bool all_variables(const struct json *object)
{
    for (size_t i = 0; i < json_count(object); i++)
        if (!json_string(json_value_at(object, i)) || !environment_name_ok(json_key_at(object, i)))
            return false;
    return true;
}

static uint64_t size_of(const struct json *j, uint64_t fallback)
{
    bool good = j && json_type(j) == JSON_INT && json_int(j) > 0 && json_int(j) < 10000;
    return good ? (uint64_t)json_int(j) : fallback;
}

/* What is started where only cells of a module run. */
static int check_cells(const struct warden *w, const struct order *o, struct err *err)
{
    if (!cells_only(w->s))
        return 0;
    return o->interpreter ? cells_check(w->s, o->interpreter->name, err)
                          : cells_refuse(w->s, "commands and terminals", err);
}

static int read_order(const struct warden *w, const struct json *j, struct order *o,
                      struct err *err)
{
    const struct json *tty = json_get(j, "tty"), *in = json_get(j, "stdin");
    const struct json *cwd = json_get(j, "cwd"), *language = json_get(j, "interpreter");
    *o = (struct order){.argv = json_get(j, "argv"), .env = json_get(j, "env")};
    if (!is_null(language) &&
        (!json_string(language) || !(o->interpreter = interpreter_find(json_string(language)))))
        return err_set(err, ERR_USAGE, "interpreter: expected " INTERP_LANGUAGES);
    if (check_cells(w, o, err) < 0)
        return err_number(err);
    if (!o->interpreter && (is_null(o->argv) || json_type(o->argv) != JSON_ARRAY ||
                            json_count(o->argv) == 0 || !all_strings(o->argv)))
        return err_set(err, ERR_USAGE, "argv: expected a list of texts");
    if (!is_null(o->env) && (json_type(o->env) != JSON_OBJECT || !all_variables(o->env)))
        return err_set(err, ERR_USAGE, "env: expected an object of texts");
    if (!is_null(cwd) && !json_string(cwd))
        return err_set(err, ERR_USAGE, "cwd: expected a path");
    o->cwd = is_null(cwd) || !json_string(cwd)[0] ? NULL : json_string(cwd);
    int beside = ask_whom(w, json_get(j, "user"), err);
    if (beside < 0)
        return beside;
    o->beside = beside;
    o->has_stdin = in && json_type(in) == JSON_BOOL && json_bool(in);
    o->tty = !is_null(tty) && !o->interpreter;
    if (o->tty && json_type(tty) == JSON_OBJECT) {
        o->cols = size_of(json_get(tty, "cols"), 80);
        o->rows = size_of(json_get(tty, "rows"), 24);
    }
    return 0;
}

/* ---- the block ---- */

static const char *const roots_own[] = {"USER=root", "LOGNAME=root", "PIP_ROOT_USER_ACTION=ignore"};

static bool overridden(const struct json *env, const char *entry)
{
    size_t len = strcspn(entry, "=");
    for (size_t i = 0; !is_null(env) && i < json_count(env); i++) {
        const char *name = json_key_at(env, i);
        if (strncmp(name, entry, len) == 0 && name[len] == '\0')
            return true;
    }
    return false;
}

/* What the template's variables say of the other user's home, and of who that is. PATH above all:
 * what the user installs there is not to be found first by root. */
static void plan_as_root(const char *entry, struct buf *room, struct plan *plan)
{
    static const char *const homely[] = {"HOME=", "PATH=", "npm_config_prefix="};
    const char *home = NULL;
    for (size_t i = 0; i < ARRAY_LEN(roots_own); i++)
        if (strncmp(entry, roots_own[i], strcspn(roots_own[i], "=") + 1) == 0)
            return;
    for (size_t i = 0; i < ARRAY_LEN(homely) && !home; i++)
        if (text_begins(entry, homely[i]))
            home = strstr(entry, HOME_DIR);
    buf_reset(room);
    if (home)
        buf_fmt(room, "%.*s%s%s", (int)(home - entry), entry, ROOT_HOME_DIR,
                home + strlen(HOME_DIR));
    plan_str(plan, OP_ENV, home ? buf_text(room) : entry, NULL, 0);
}

/* Where an engine starts or runs the program, they are the program's and not the engine's: what a
 * client names LD_PRELOAD must not reach a process outside of the program's own walls. */
static void give_variable(const struct warden *w, const char *entry, struct plan *plan)
{
    bool inner = w->s->engine.program[0] || tier_row(w->s->kernel.tier)->machine;
    cleanup_buf struct buf text;
    buf_init(&text, WIRE_TEXT_MAX);
    buf_fmt(&text, "%s%s", inner ? CREDENTIALS_INNER : "", entry);
    plan_str(plan, OP_ENV, buf_text(&text), NULL, 0);
}

static void plan_env(const struct warden *w, const struct order *o, struct plan *plan)
{
    cleanup_buf struct buf entry;
    buf_init(&entry, WIRE_TEXT_MAX);
    for (size_t i = 0; i < w->env.count; i++)
        if (overridden(o->env, w->env.items[i]))
            continue;
        else if (o->beside)
            plan_as_root(w->env.items[i], &entry, plan);
        else
            give_variable(w, w->env.items[i], plan);
    for (size_t i = 0; o->beside && i < ARRAY_LEN(roots_own); i++)
        if (!overridden(o->env, roots_own[i]))
            plan_str(plan, OP_ENV, roots_own[i], NULL, 0);
    if (o->tty && !overridden(o->env, "TERM") && !environment_has(&w->env, "TERM"))
        give_variable(w, "TERM=xterm-256color", plan);
    for (size_t i = 0; !is_null(o->env) && i < json_count(o->env); i++) {
        buf_reset(&entry);
        buf_fmt(&entry, "%s=%s", json_key_at(o->env, i), json_string(json_value_at(o->env, i)));
        give_variable(w, buf_text(&entry), plan);
    }
}

static const char *home(const struct warden *w, bool beside)
{
    if (beside)
        return ROOT_HOME_DIR;
    return w->s->request->policy->workspace ? HOME_DIR : "/";
}

/* A path that does not begin with a slash begins at home, like the shell of somebody who just
 * logged in. */
static void write_cwd(const struct warden *w, const struct order *o, struct buf *path)
{
    if (!o->cwd && w->s->request->review)
        buf_str(path, w->s->request->review_dest);
    else if (!o->cwd || o->cwd[0] != '/')
        buf_fmt(path, "%s/%s", home(w, o->beside), o->cwd ? o->cwd : "");
    else
        buf_str(path, o->cwd);
}

/* Behind the Sentry a folder may be there that is not outside of it, and one that does not answer
 * must hold up nobody but the program. */
static void plan_behind(const struct warden *w, const struct order *o, const char *folder,
                        struct plan *plan)
{
    const struct sentry_program program = {.name = w->sentry.name,
                                           .folder = folder,
                                           .count = o->interpreter ? INTERP_FD_ANSWERS + 1 : 3,
                                           .cols = o->tty ? o->cols : 0,
                                           .rows = o->rows};
    (tier_row(w->s->kernel.tier)->machine ? machine_plan_join : sentry_plan_join)(w->s, &program,
                                                                                  plan);
    plan_op(plan, OP_KEEP_STATUS);
}

/* Each argument with its NUL, and one more after the last: for the receipt. */
static void note_command(struct warden *w, const struct order *o)
{
    struct stream_hash *h = &w->s->commands;
    for (size_t i = 0; i < json_count(o->argv); i++)
        sha256_add(&h->sha, json_string(json_at(o->argv, i)),
                   strlen(json_string(json_at(o->argv, i))) + 1);
    sha256_add(&h->sha, "", 1);
    h->bytes++;
}

static int make_block(const struct warden *w, const struct order *o, struct err *err)
{
    struct plan plan;
    cleanup_buf struct buf folder;
    bool behind = sentry_wanted(w);
    buf_init(&folder, WIRE_TEXT_MAX);
    write_cwd(w, o, &folder);
    plan_init(&plan);
    bool cells = cells_only(w->s);
    if (behind)
        plan_behind(w, o, buf_text(&folder), &plan);
    if (cells)
        cells_plan(w->s, &plan);
    for (size_t i = 0; !cells && o->interpreter && o->interpreter->argv[i]; i++)
        plan_arg(&plan, o->interpreter->argv[i]);
    for (size_t i = 0; !o->interpreter && i < json_count(o->argv); i++)
        plan_arg(&plan, json_string(json_at(o->argv, i)));
    plan_env(w, o, &plan);
    plan_str(&plan, OP_CWD, behind ? "/" : buf_text(&folder), NULL, 0);
    if (o->tty && !behind)
        plan_add(&plan, &(struct op){.kind = OP_TTY, .a = "/dev/ptmx", .num = {o->cols, o->rows}});
    int fd = plan_finish(&plan, err);
    if (fd >= 0)
        fd = memfd_sealed("brig-spawn", plan.bytes.data, plan.bytes.len, false, err);
    plan_done(&plan);
    return fd;
}

/* ---- the pipes ---- */

/* IN-1 */
static int make_channel(struct ask *a, struct pump_line lines[PUMP_LINES],
                        int fds[static SPAWN_FDS], struct err *err)
{
    if (carrier_lay(a, lines, &fds[SPAWN_REQUESTS], true, err) < 0 ||
        carrier_lay(a, lines, &fds[SPAWN_ANSWERS], false, err) < 0)
        return err_number(err);
    lines[INTERP_ANSWERS].kind = PUMP_WORDS;
    return 0;
}

static int make_null(int *ret, struct err *err)
{
    *ret = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return *ret < 0 ? err_sys(err, "open /dev/null") : 0;
}

/* PU-5: init makes it, and the pump gets it from init. */
static int make_terminal(struct ask *a, struct pump_line lines[PUMP_LINES], int *door,
                         struct err *err)
{
    errno = -pump_lay_handed(lines, door, a->fds);
    a->fd_count = PUMP_TERMINAL;
    return errno ? err_sys(err, "lay the lines of a terminal") : 0;
}

/* It is made behind the Sentry, and reached by pipes: in the order in which the front expects them.
 */
static int make_terminal_behind(struct ask *a, struct pump_line lines[PUMP_LINES],
                                int fds[static SPAWN_FDS], struct err *err)
{
    if (carrier_lay(a, lines, &fds[SPAWN_STDOUT], false, err) < 0 ||
        carrier_lay(a, lines, &fds[SPAWN_STDIN], true, err) < 0)
        return err_number(err);
    return carrier_lay(a, lines, &fds[SPAWN_STDERR], true, err); /* changes of its size */
}

static int make_stdio(struct ask *a, const struct order *o, struct pump_line lines[PUMP_LINES],
                      int fds[static SPAWN_FDS], struct err *err)
{
    if (o->tty)
        return sentry_wanted(a->w) ? make_terminal_behind(a, lines, fds, err)
                                   : make_terminal(a, lines, &fds[SPAWN_TERMINAL], err);
    if (o->interpreter && make_channel(a, lines, fds, err) < 0)
        return err_number(err);
    bool pipe = o->has_stdin && !o->interpreter;
    if ((pipe ? carrier_lay(a, lines, &fds[SPAWN_STDIN], true, err)
              : make_null(&fds[SPAWN_STDIN], err)) < 0)
        return err_number(err);
    if (carrier_lay(a, lines, &fds[SPAWN_STDOUT], false, err) < 0)
        return err_number(err);
    return carrier_lay(a, lines, &fds[SPAWN_STDERR], false, err);
}

/* ---- starting ---- */

static void on_status(struct loop_io *io, uint32_t events)
{
    struct ask *a = container_of(io, struct ask, status);
    (void)events;
    struct warden *w = a->w;
    uint32_t request = a->request;
    /* Read what was sent before the end first; that may have settled the request already. */
    ask_hear(w, a->beside);
    if ((a = ask_find(w, request)))
        spawn_settle(a);
}

/* The last line is its own. */
static int make_status(struct ask *a, struct pump_line lines[PUMP_LINES], int *theirs,
                       struct err *err)
{
    int ours;
    errno = -pump_lay(a->w->s->pumped ? &lines[PUMP_LINES - 1] : NULL, true, theirs, &ours);
    if (errno)
        return err_sys(err, "pipe");
    warden_watch(a->w, &a->status, ours, on_status);
    return 0;
}

static int connect_all(struct ask *a, const struct order *o, int fds[static SPAWN_FDS],
                       struct err *err)
{
    struct pump_line lines[PUMP_LINES];
    pump_lines_init(lines);
    if (make_status(a, lines, &fds[SPAWN_STATUS], err) < 0 ||
        make_stdio(a, o, lines, fds, err) < 0) {
        pump_close(lines);
        return err_number(err);
    }
    return carrier_start(a->w, lines, err);
}

static int begin(struct warden *w, const struct order *o, enum wire_type type, uint32_t front,
                 struct err *err)
{
    int fds[SPAWN_FDS] = {-1, -1, -1, -1, -1, -1, -1};
    bool own_terminal = o->tty && !sentry_wanted(w);
    unsigned count = own_terminal     ? SPAWN_TERMINAL_FDS
                     : o->interpreter ? SPAWN_FDS
                                      : SPAWN_REQUESTS;
    struct ctl_msg msg = {.type = CTL_SPAWN};
    struct ask *a = sentry_room(w, err) < 0 ? NULL : ask_new(w, type, front, err);
    if (!a)
        return err_number(err);
    a->beside = o->beside;
    a->starts = true;
    int result = fds[SPAWN_BLOCK] = make_block(w, o, err);
    if (result >= 0)
        result = connect_all(a, o, fds, err);
    if (result >= 0)
        result = ask_send(a, &msg, fds, count, err);
    else
        ask_drop(a);
    for (int i = 0; i < SPAWN_FDS; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    return result < 0 ? err_number(err) : 0;
}

int spawn_start(struct warden *w, const struct wire_msg *msg, const struct json *j, struct err *err)
{
    struct order o;
    if (read_order(w, j, &o, err) < 0)
        return err_number(err);
    note_command(w, &o);
    return begin(w, &o, WIRE_SPAWN, msg->request, err);
}

/* ---- connections into a machine ---- */

/* They take streams of the monitor's as programs do (VM-17). */
#define CONNECTIONS_MAX 120u

static int make_connect_block(const struct warden *w, int port, struct err *err)
{
    struct plan plan;
    plan_init(&plan);
    machine_plan_connect(w->s, w->sentry.name, port, &plan);
    plan_op(&plan, OP_KEEP_STATUS);
    plan_str(&plan, OP_CWD, "/", NULL, 0);
    int fd = plan_finish(&plan, err);
    if (fd >= 0)
        fd = memfd_sealed("brig-connect", plan.bytes.data, plan.bytes.len, false, err);
    plan_done(&plan);
    return fd;
}

/* Always by a pump: what comes from inside is a pipe of a process that stands beside hostile code.
 */
static int make_connection(struct ask *a, int port, int fds[static SPAWN_REQUESTS], struct err *err)
{
    struct pump_line lines[PUMP_LINES];
    int theirs[2] = {-1, -1};
    pump_lines_init(lines);
    if ((fds[SPAWN_BLOCK] = make_connect_block(a->w, port, err)) < 0)
        return err_number(err);
    if ((fds[SPAWN_STDERR] = open("/dev/null", O_WRONLY | O_CLOEXEC)) < 0)
        return err_sys(err, "open /dev/null");
    errno = -pump_lay_stream(lines, theirs, &a->fds[0]);
    if (errno)
        err_sys(err, "lay the lines of a connection");
    if (errno || make_status(a, lines, &fds[SPAWN_STATUS], err) < 0) {
        pump_close(lines);
        return err_number(err);
    }
    fds[SPAWN_STDIN] = theirs[0];
    fds[SPAWN_STDOUT] = theirs[1];
    a->fd_count = 1;
    return carrier_start(a->w, lines, err);
}

int spawn_connection(struct warden *w, uint32_t front, int port, struct err *err)
{
    int fds[SPAWN_REQUESTS] = {-1, -1, -1, -1, -1};
    struct ctl_msg msg = {.type = CTL_SPAWN};
    if (w->carrier_count >= CONNECTIONS_MAX)
        return err_set(err, ERR_LIMIT, "%u connections into the virtual machine are the most",
                       CONNECTIONS_MAX);
    struct ask *a = ask_new(w, WIRE_CONNECT, front, err);
    if (!a)
        return err_number(err);
    a->starts = true;
    int result = make_connection(a, port, fds, err);
    if (result >= 0)
        result = ask_send(a, &msg, fds, SPAWN_REQUESTS, err);
    else
        ask_drop(a);
    for (int i = 0; i < SPAWN_REQUESTS; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    return result < 0 ? err_number(err) : 0;
}

int spawn_interpreter(struct warden *w, struct err *err)
{
    struct order o = {.interpreter = interpreter_find(w->template->interpreter)};
    if (!o.interpreter)
        return err_set(err, ERR_INTERNAL, "no interpreter %s", w->template->interpreter);
    if (check_cells(w, &o, err) < 0) /* a request may have made the tier another one */
        return err_number(err);
    return begin(w, &o, WIRE_READY, 0, err);
}

/* ---- ending ---- */

static bool add_started(struct warden *w, pid_t pid, bool beside)
{
    if (w->started_count == w->started_room) {
        size_t room = w->started_room ? w->started_room * 2 : 16;
        struct started *all = reallocarray(w->started, room, sizeof *all);
        if (!all)
            return false;
        w->started = all;
        w->started_room = room;
    }
    w->started[w->started_count++] = (struct started){pid, beside};
    return true;
}

bool spawn_is_beside(const struct warden *w, pid_t pid)
{
    for (size_t i = 0; i < w->started_count; i++)
        if (w->started[i].pid == pid)
            return w->started[i].beside;
    return false;
}

void spawn_adopt(struct warden *w, pid_t pid, const int *fds, unsigned count)
{
    struct err err = ERR_INIT;
    if (add_started(w, pid, false)) {
        warden_ready(w, pid, NULL, fds, count);
        return;
    }
    err_memory(&err);
    warden_ready(w, 0, &err, NULL, 0);
}

static void failed(struct ask *a, struct err *err, ssize_t n)
{
    if (n != (ssize_t)sizeof *err || !err_code_known(err->code))
        *err = (struct err){.code = ERR_PROTOCOL, .message = "the process could not be started"};
    err->message[sizeof err->message - 1] = '\0';
    err->hint[sizeof err->hint - 1] = '\0';
    if (err->boundary < 0 || err->boundary >= BOUNDARY_COUNT)
        err->boundary = BOUNDARY_NONE;
    ask_fail(a, err);
}

void spawn_settle(struct ask *a)
{
    struct err err = ERR_INIT;
    if (!a->executed) {
        ssize_t n = read(a->status.fd, &err, sizeof err);
        if (n < 0)
            return;
        if (n > 0) {
            failed(a, &err, n);
            return;
        }
        a->executed = true;
        loop_forget(a->w->loop, &a->status);
    }
    if (!a->answered)
        return;
    struct warden *w = a->w;
    pid_t pid = a->pid;
    if (a->type == WIRE_CONNECT) { /* its end is that of the connection */
        a->pid = 0;
        ask_done(a);
        return;
    }
    bool exited = a->exited, beside = a->beside;
    int status = a->exit_status;
    if (add_started(w, pid, beside)) {
        ask_done(a);
        if (exited)
            spawn_exited(w, pid, beside, status);
    } else {
        err_memory(&err);
        ask_fail(a, &err);
    }
}

/* init says who ended, and may say anything: only those that were started for the front count. */
void spawn_exited(struct warden *w, pid_t pid, bool beside, int status)
{
    for (struct ask *a = w->asks; a; a = a->next)
        if (a->answered && a->pid == pid && a->beside == beside) {
            /* Whether it was executed may not be known yet: a child of ours that was forked a
             * moment ago (a pump) has the other end of `status` until it gets its turn. */
            a->exited = true;
            a->exit_status = status;
            spawn_settle(a);
            return;
        }
    for (size_t i = 0; i < w->started_count; i++) {
        if (w->started[i].pid != pid || w->started[i].beside != beside)
            continue;
        w->started[i] = w->started[--w->started_count];
        /* Before its end is told, so that whoever hears of it hears why. */
        bool oom = watch_explains_oom(w, status);
        warden_exited(w, pid, status, oom);
        break;
    }
}
