/* What the warden asks of init, and what comes back. */
#include "base/cleanup.h"
#include "warden/session.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* Init answers within a millisecond; on a machine that is far too busy it may have to wait its turn
 * for many seconds. */
#define PATIENCE_MS 60000

#define ASKS_RESERVE 32

/* Whoever reaches a port can make as many connections as there is room for; that must not keep its
 * owner from stopping what runs. */
static unsigned room_for(enum wire_type type)
{
    bool stops = type == WIRE_FREEZE || type == WIRE_SIGNAL || type == WIRE_CLAIM;
    return stops ? SESSION_ASKS_MAX
                 : SESSION_ASKS_MAX - (type == WIRE_CONNECT ? SESSION_ASKS_MAX / 2 : ASKS_RESERVE);
}

struct ask *ask_new(struct warden *w, enum wire_type type, uint32_t front, struct err *err)
{
    struct ask *a = w->ask_count < room_for(type) ? calloc(1, sizeof *a) : NULL;
    if (!a) {
        err_set(err, ERR_LIMIT, "too many requests at one time");
        return NULL;
    }
    if (++w->last_request == 0)
        w->last_request = 1;
    *a = (struct ask){.next = w->asks,
                      .w = w,
                      .type = type,
                      .front = front,
                      .request = w->last_request,
                      .due_ms = loop_now_ms(w->loop) + PATIENCE_MS,
                      .status = {.fd = -1}};
    w->asks = a;
    w->ask_count++;
    return a;
}

static void close_all(struct ask *a)
{
    loop_forget(a->w->loop, &a->status);
    if (a->status.fd >= 0)
        close(a->status.fd);
    a->status.fd = -1;
    for (unsigned i = 0; i < a->fd_count; i++)
        if (a->fds[i] >= 0)
            close(a->fds[i]);
    a->fd_count = 0;
}

void ask_drop(struct ask *a)
{
    struct warden *w = a->w;
    for (struct ask **at = &w->asks; *at; at = &(*at)->next)
        if (*at == a) {
            *at = a->next;
            break;
        }
    w->ask_count--;
    close_all(a);
    free(a);
}

static void tell_failed(const struct ask *a, const struct err *err)
{
    if (a->disowned)
        return; /* it was told */
    if (a->type == WIRE_READY)
        warden_ready(a->w, 0, err, NULL, 0);
    else
        warden_fail(a->w, a->front, err);
}

static int socket_of(const struct warden *w, bool beside)
{
    return beside ? w->s->beside.fd : w->s->ctl_fd;
}

/* The front was told that there is no such process. */
static void end_process(struct warden *w, bool beside, pid_t pid)
{
    struct ctl_msg kill = {.type = CTL_SIGNAL, .pid = -pid, .value = SIGKILL};
    if (pid > 1 && message_ask(socket_of(w, beside), &kill, NULL, 0) < 0)
        warden_end(w, "the sandbox's first process does not listen");
}

/* W-5: the front was told that nothing has changed. It may change yet, when init gets to it, and
 * root's part may have done it already; what is said now comes after that. */
static void stay(struct warden *w, bool frozen)
{
    const int parts[] = {w->s->beside.fd, w->s->ctl_fd};
    struct ctl_msg m = {.type = CTL_FREEZE, .value = frozen};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        if (parts[i] >= 0 && message_ask(parts[i], &m, NULL, 0) < 0)
            warden_end(w, "the sandbox's first process does not listen");
}

/* W-5: as long as init has not answered, it may still start what was asked for. */
void ask_fail(struct ask *a, const struct err *err)
{
    bool starts = a->starts;
    tell_failed(a, err);
    if (a->type == WIRE_FREEZE)
        stay(a->w, !a->freezes);
    if (starts && !a->heard) {
        close_all(a);
        a->disowned = true;
        return;
    }
    if (starts)
        end_process(a->w, a->beside, a->pid);
    ask_drop(a);
}

void ask_done(struct ask *a)
{
    if (a->type == WIRE_READY)
        warden_ready(a->w, a->pid, NULL, a->fds, a->fd_count);
    else
        warden_done(a->w, a->front, a->pid, NULL, 0, a->fds, a->fd_count);
    ask_drop(a);
}

void asks_abandon(struct warden *w)
{
    struct err err = ERR_INIT;
    err_set(&err, ERR_INTERRUPTED, "the sandbox ended");
    while (w->asks) {
        tell_failed(w->asks, &err);
        ask_drop(w->asks);
    }
}

int ask_send(struct ask *a, struct ctl_msg *msg, const int *fds, unsigned count, struct err *err)
{
    msg->request = a->request;
    int r = message_ask(socket_of(a->w, a->beside), msg, fds, count);
    if (r == 0)
        return 0;
    errno = -r;
    err_sys(err, "ask the sandbox's first process");
    ask_drop(a);
    return err_number(err);
}

int ask_whom(const struct warden *w, const struct json *user, struct err *err)
{
    const char *name = user && json_type(user) != JSON_NULL ? json_string(user) : "";
    bool only_root = w->s->request->policy->uid == 0;
    if (!name)
        return err_set(err, ERR_USAGE, "user: expected a name");
    if (!*name || strcmp(name, "user") == 0 || (only_root && strcmp(name, "root") == 0))
        return false;
    if (strcmp(name, "root") != 0)
        return err_set(err, ERR_USAGE, "there is no such user in the sandbox");
    if (w->s->beside.fd >= 0)
        return true;
    err_set(err, ERR_REFUSED, "there is no root in this sandbox");
    return err_hint(err, "take a template whose policy says kernel: {root: true}");
}

/* ---- the simple ones ---- */

static bool whole_number(const struct json *j, int64_t low, int64_t high, int *ret)
{
    if (!j || json_type(j) != JSON_INT || json_int(j) < low || json_int(j) > high)
        return false;
    *ret = (int)json_int(j);
    return true;
}

int ask_signal(struct warden *w, const struct wire_msg *msg, const struct json *j, struct err *err)
{
    int pid, sig;
    const struct json *group = json_get(j, "group");
    if (!whole_number(json_get(j, "pid"), 2, INT32_MAX, &pid) ||
        !whole_number(json_get(j, "signal"), 1, 64, &sig))
        return err_set(err, ERR_USAGE, "expected a pid and the number of a signal");
    if (sentry_signal(w, &sig, err) < 0)
        return err_number(err);
    struct ask *a = ask_new(w, msg->type, msg->request, err);
    bool all = group && json_type(group) == JSON_BOOL && json_bool(group);
    struct ctl_msg m = {.type = CTL_SIGNAL, .pid = all ? -pid : pid, .value = sig};
    if (a)
        a->beside = spawn_is_beside(w, pid);
    return a ? ask_send(a, &m, NULL, 0, err) : err_number(err);
}

/* PU-5: who has a copy of it inside can lock it, and hold up whoever has it here, with memory that
 * lies on a file system that does not answer. */
static int lay_connection(struct ask *a, int *door, struct err *err)
{
    struct pump_line lines[PUMP_LINES];
    pump_lines_init(lines);
    a->fds[0] = -1;
    errno = -pump_lay_connection(lines, door, &a->fds[0]);
    if (errno) {
        pump_close(lines);
        return err_sys(err, "lay the lines of a connection");
    }
    a->fd_count = 1;
    return carrier_start(a->w, lines, err);
}

int ask_connect(struct warden *w, const struct wire_msg *msg, const struct json *j, struct err *err)
{
    int port;
    if (!whole_number(json_get(j, "port"), 1, 65535, &port))
        return err_set(err, ERR_USAGE, "expected a port");
    if (cells_only(w->s))
        return cells_refuse(w->s, "ports", err);
    if (tier_row(w->s->kernel.tier)->machine)
        return spawn_connection(w, msg->request, port, err);
    struct ask *a = ask_new(w, msg->type, msg->request, err);
    struct ctl_msg m = {.type = CTL_CONNECT, .value = port};
    if (!a)
        return err_number(err);
    cleanup_fd int door = -1;
    if (w->s->pumped && lay_connection(a, &door, err) < 0) {
        ask_drop(a);
        return err_number(err);
    }
    return ask_send(a, &m, &door, door >= 0, err);
}

static void tell_frozen(struct warden *w, uint32_t request, bool freeze, const char *by)
{
    const char *text = JSON_SMALL(JSON_TEXT("by", by));
    w->frozen = freeze;
    watch_pause(w, freeze && strcmp(by, "cgroup") != 0);
    warden_done(w, request, freeze, text, strlen(text), NULL, 0);
}

/* The v1 freezer is not used: what is frozen there cannot be killed, and a sandbox must die with
 * its supervisor. */
int ask_freeze(struct warden *w, const struct wire_msg *msg, struct err *err)
{
    bool freeze = msg->value != 0;
    const struct lifecycle *l = &w->s->lifecycle;
    if (l->cgroup && l->group.version == CGROUP_V2) {
        if (cgroup_freeze(&l->group, freeze, err) < 0)
            return err_number(err);
        tell_frozen(w, msg->request, freeze, "cgroup");
        return 0;
    }
    struct ask *a = ask_new(w, msg->type, msg->request, err);
    struct ctl_msg m = {.type = CTL_FREEZE, .value = freeze};
    if (a) {
        a->freezes = freeze;
        a->beside = w->s->beside.fd >= 0;
    }
    return a ? ask_send(a, &m, NULL, 0, err) : err_number(err);
}

/* ---- answers ---- */

static void clean_err(struct err *e)
{
    if (e->code != ERR_NONE && !err_code_known(e->code))
        e->code = ERR_PROTOCOL;
    if (e->boundary < 0 || e->boundary >= BOUNDARY_COUNT)
        e->boundary = BOUNDARY_NONE;
}

/* W-1: a connected TCP socket, and one of the sandbox's own network. */
static bool is_connection(int fd)
{
    int type = 0, protocol = 0;
    socklen_t len = sizeof type;
    struct sockaddr_storage peer;
    socklen_t peer_len = sizeof peer;
    return fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 &&
           type == SOCK_STREAM && getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len) == 0 &&
           protocol == IPPROTO_TCP && getpeername(fd, (struct sockaddr *)&peer, &peer_len) == 0 &&
           !network_is_ours(fd);
}

static void give(struct ask *a, int *fd)
{
    fcntl(*fd, F_SETFL, O_NONBLOCK | O_RDWR);
    a->fds[a->fd_count++] = fd_steal(fd);
}

/* Each part of init can signal those of its own user: root's are done. */
static void freeze_user(struct ask *a)
{
    struct ctl_msg m = {.type = CTL_FREEZE, .value = a->freezes};
    struct warden *w = a->w;
    uint32_t front = a->front;
    struct err err = ERR_INIT;
    a->beside = a->heard = false;
    if (ask_send(a, &m, NULL, 0, &err) < 0) {
        warden_fail(w, front, &err);
        stay(w, !m.value);
    }
}

static void answered(struct ask *a, struct ctl_msg *msg, int *fd)
{
    clean_err(&msg->err);
    a->heard = true;
    if (a->disowned) {
        end_process(a->w, a->beside, msg->err.code == ERR_NONE ? msg->pid : 0);
        ask_drop(a);
        return;
    }
    if (msg->err.code != ERR_NONE) {
        ask_fail(a, &msg->err);
        return;
    }
    if (a->starts) {
        a->answered = msg->pid > 1;
        a->pid = msg->pid;
        spawn_settle(a);
        return;
    }
    switch (a->type) {
    case WIRE_CONNECT:
        if (a->fd_count)
            break; /* its pump has it */
        if (!is_connection(*fd)) {
            err_set(&msg->err, ERR_PROTOCOL, "the sandbox handed out no connection");
            ask_fail(a, &msg->err);
            return;
        }
        give(a, fd);
        break;
    case WIRE_FILE:
        lifecycle_started_own(&a->w->s->lifecycle, msg->pid);
        break;
    case WIRE_CLAIM:
        warden_claimed(a->w, a->front);
        ask_drop(a);
        return;
    case WIRE_FREEZE:
        if (a->beside) {
            freeze_user(a);
            return;
        }
        tell_frozen(a->w, a->front, a->freezes, "signal");
        ask_drop(a);
        return;
    default:
        break;
    }
    a->pid = 0;
    ask_done(a);
}

struct ask *ask_find(struct warden *w, uint32_t request)
{
    struct ask *a = w->asks;
    while (a && a->request != request)
        a = a->next;
    return a;
}

/* W-1: each part of init answers what it was asked, and tells of what it started. */
static void hear(struct warden *w, bool beside, struct ctl_msg *msg, int *fd)
{
    struct ask *a = ask_find(w, msg->request);
    if (!beside && sentry_hear(w, msg))
        return;
    if (a && a->beside != beside)
        a = NULL;
    if (msg->type == CTL_EXITED) {
        spawn_exited(w, msg->pid, beside, msg->value);
    } else if (msg->type == CTL_ANSWER && a) {
        answered(a, msg, fd);
    }
}

/* What init hands out may be a file whose last user waits for whoever serves it: it does not become
 * the warden's, but for a connection that somebody asked for. */
static bool awaits_connection(const struct warden *w, bool beside)
{
    for (const struct ask *a = w->asks; a; a = a->next)
        if (a->type == WIRE_CONNECT && !a->fd_count && a->beside == beside)
            return true;
    return false;
}

/* More than a socket holds: all that was said before is heard. One that never stops talking must
 * not keep the warden from its limits and from the front. */
#define HEARD_AT_ONCE 1024

void ask_hear(struct warden *w, bool beside)
{
    int *from = beside ? &w->s->beside.fd : &w->s->ctl_fd;
    for (int i = 0; *from >= 0 && i < HEARD_AT_ONCE; i++) {
        struct ctl_msg msg;
        cleanup_fd int fd = -1;
        pid_t pid;
        errno = 0;
        int *wanted = awaits_connection(w, beside) ? &fd : NULL;
        int got = message_receive(*from, &msg, wanted, &pid, MSG_DONTWAIT, NULL);
        if (got > 0) {
            hear(w, beside, &msg, &fd);
            continue;
        }
        if (got < 0 && errno == EAGAIN)
            return;
        /* init closed its end or speaks nonsense; the pidfd tells of its death. */
        loop_forget(w->loop, beside ? &w->beside : &w->ctl);
        close(*from);
        *from = -1;
        warden_end(w, "the sandbox's first process ended");
    }
}
