/* Starts brig-tls, feeds it with certificates, and looks after it. */
#include "warden/gatekeeper.h"

#include "base/cleanup.h"
#include "base/container.h"
#include "base/json.h"
#include "os/beside.h"
#include "os/fd.h"
#include "os/peer.h"
#include "os/trusted.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>

#define FILE_MAX     (256u * 1024)
#define ANSWER_S     30
#define BATCH        64 /* of its words, before others have their turn */
#define PAUSE_MIN_MS 100
#define PAUSE_MAX_MS 10000
#define STEADY_MS    60000 /* who lived so long is started again at once */

static const struct tls_pair no_pair = {-1, -1};

static void pair_close(struct tls_pair *p)
{
    if (p->certificate >= 0)
        close(p->certificate);
    if (p->key >= 0)
        close(p->key);
    *p = no_pair;
}

static void say_err(const struct gatekeeper *k, const char *what, const struct err *err)
{
    char text[1000];
    snprintf(text, sizeof text, "%s: %s%s%s", what, err->message, err->hint[0] ? "; " : "",
             err->hint);
    k->warn(k->ctx, text);
}

/* ---- the files ---- */

static int read_file(const char *path, const char *what, enum trusted_kind kind, struct err *err)
{
    cleanup_fd int fd = trusted_open(AT_FDCWD, path, what, kind, err);
    return fd < 0 ? fd : memfd_copied(what, fd, FILE_MAX, err);
}

static int read_pair(const struct gatekeeper *k, struct tls_pair *ret, struct err *err)
{
    cleanup_fd int certificate = read_file(k->certificate, "the certificate", TRUSTED_FILE, err);
    if (certificate < 0)
        return certificate;
    int key = read_file(k->key, "the certificate's key", TRUSTED_PRIVATE, err);
    if (key < 0)
        return key;
    *ret = (struct tls_pair){fd_steal(&certificate), key};
    return 0;
}

/* ---- brig-tls ---- */

/* From now on neither its silence nor its words keep us from anything else. */
static int attend(struct gatekeeper *k)
{
    return fcntl(k->control.fd, F_SETFL, O_RDWR | O_NONBLOCK) < 0
               ? -errno
               : loop_watch(k->loop, &k->control, EPOLLIN);
}

static void on_overdue(struct loop_timer *t)
{
    struct gatekeeper *k = container_of(t, struct gatekeeper, overdue);
    if (!k->asked || k->closing)
        return;
    k->warn(k->ctx, "brig-tls does not say whether it takes the certificate, and is killed");
    gatekeeper_kill(k);
}

static void hang_up(struct gatekeeper *k)
{
    loop_timer_cancel(k->loop, &k->overdue);
    if (k->control.fd < 0)
        return;
    loop_forget(k->loop, &k->control);
    close(k->control.fd);
    k->control.fd = -1;
}

static int send_pair(struct gatekeeper *k, const struct tls_pair *pair, bool again, struct err *err)
{
    cleanup_buf struct buf text;
    struct json_writer w;
    const int fds[] = {pair->certificate, pair->key};
    buf_init(&text, WIRE_TEXT_MAX);
    jw_init(&w, &text, false);
    jw_object_begin(&w);
    jw_kv_string(&w, "certificate", k->certificate);
    jw_kv_string(&w, "key", k->key);
    jw_kv_string(&w, "domain", k->domain);
    jw_kv_bool(&w, "again", again);
    jw_object_end(&w);
    k->asked = true;
    int r = wire_send(k->control.fd, WIRE_PAIR, ++k->request, 0, buf_text(&text), text.len, fds, 2);
    if (r == 0)
        loop_timer_set(k->loop, &k->overdue, ANSWER_S * 1000);
    errno = -r;
    return r < 0 ? err_sys(err, "give brig-tls the certificate") : 0;
}

/* Here, since brig-tls may not: it could else change what it shares with others. */
static int set_up_listeners(const struct gatekeeper *k, struct err *err)
{
    for (unsigned i = 0; i < k->listener_count; i++) {
        int r = tcp_listener_set_up(k->listeners[i]);
        errno = -r;
        if (r < 0)
            return err_sys(err, "set up a socket for TLS");
    }
    return 0;
}

static int send_listeners(struct gatekeeper *k, struct err *err)
{
    for (unsigned i = 0; i < k->listener_count; i++) {
        int r = wire_send(k->control.fd, WIRE_LISTEN, 0, 0, NULL, 0, &k->listeners[i], 1);
        errno = -r;
        if (r < 0)
            return err_sys(err, "give brig-tls a socket to listen on");
    }
    return 0;
}

static int start(struct gatekeeper *k, const struct tls_pair *pair, bool again, struct err *err)
{
    char program[4200];
    char *argv[] = {"brig-tls", NULL}, *envp[] = {NULL};
    int ends[2];
    if (program_beside("brig-tls", program, sizeof program, err) < 0)
        return err_number(err);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return err_sys(err, "socket for brig-tls");
    cleanup_fd int its = ends[1];
    k->control.fd = ends[0];
    k->started_ms = loop_now_ms(k->loop);
    const int fds[] = {its, k->door[1]};
    if (program_start(program, argv, envp, fds, 2, &k->pid, err) < 0 ||
        send_listeners(k, err) < 0 || send_pair(k, pair, again, err) < 0)
        return err_number(err);
    return 0;
}

/* ---- what it answers ---- */

static void on_taken(struct gatekeeper *k, const struct wire_msg *m)
{
    char text[200];
    struct json *root = NULL;
    const char *until = NULL;
    if (json_parse(m->text, m->text_len, &json_default_limits, &root, NULL) == 0)
        until = json_text(root, "until");
    if (k->next.certificate >= 0) {
        pair_close(&k->now);
        k->now = k->next;
        k->next = no_pair;
        snprintf(text, sizeof text, "the certificate is loaded anew, valid until %.40s",
                 until ? until : "?");
        k->say(k->ctx, text);
    }
    json_free(root);
}

static void on_refused(struct gatekeeper *k, const struct wire_msg *m, bool answers)
{
    struct err why = ERR_INIT;
    wire_err_read(m->text, m->text_len, &why);
    if (answers && k->next.certificate >= 0) {
        pair_close(&k->next);
        say_err(k, "the certificate stays as it is", &why);
        return;
    }
    /* It has none to go on with, and another one may do better. */
    say_err(k, "brig-tls", &why);
    gatekeeper_kill(k);
}

static void take_answer(struct gatekeeper *k, const struct wire_msg *m)
{
    bool answers = k->asked && m->request == k->request;
    if (answers) {
        k->asked = false;
        loop_timer_cancel(k->loop, &k->overdue);
    }
    if (m->type == WIRE_DONE && answers)
        on_taken(k, m);
    else if (m->type == WIRE_FAIL)
        on_refused(k, m, answers);
    if (answers && k->once_more) {
        k->once_more = false;
        gatekeeper_reload(k);
    }
}

static void on_control(struct loop_io *io, uint32_t events)
{
    struct gatekeeper *k = container_of(io, struct gatekeeper, control);
    (void)events;
    for (int i = 0; i < BATCH && io->fd >= 0; i++) {
        int r = wire_receive(io->fd, k->msg, MSG_DONTWAIT);
        if (r == -EAGAIN)
            return;
        if (r <= 0) {
            /* It is dead or dying; what it has lost is seen when it is. */
            hang_up(k);
            gatekeeper_kill(k);
            return;
        }
        wire_close_fds(k->msg);
        take_answer(k, k->msg);
    }
}

void gatekeeper_reload(struct gatekeeper *k)
{
    struct err err = ERR_INIT;
    if (!k->certificate || k->closing)
        return;
    if (k->asked || k->control.fd < 0) {
        k->once_more = true;
        return;
    }
    if (read_pair(k, &k->next, &err) < 0 || send_pair(k, &k->next, false, &err) < 0) {
        pair_close(&k->next);
        k->asked = false;
        say_err(k, "the certificate stays as it is", &err);
    }
}

/* ---- life and death ---- */

static void later(struct gatekeeper *k)
{
    uint64_t lived = loop_now_ms(k->loop) - k->started_ms;
    k->pause_ms = lived >= STEADY_MS ? 0 : k->pause_ms ? k->pause_ms * 2 : PAUSE_MIN_MS;
    if (k->pause_ms > PAUSE_MAX_MS)
        k->pause_ms = PAUSE_MAX_MS;
    loop_timer_set(k->loop, &k->again, k->pause_ms);
}

static void on_again(struct loop_timer *t)
{
    struct gatekeeper *k = container_of(t, struct gatekeeper, again);
    struct err err = ERR_INIT;
    /* It was judged when it came into force; what the clock says now is for the clients. */
    int r = start(k, &k->now, true, &err);
    if (r >= 0 && attend(k) == 0)
        return;
    say_err(k, "brig-tls cannot be started again", &err);
    hang_up(k);
    if (k->pid > 0)
        gatekeeper_kill(k);
    else
        later(k);
}

void gatekeeper_child(struct gatekeeper *k, pid_t pid, int status)
{
    char text[200];
    if (pid <= 0 || pid != k->pid)
        return;
    k->pid = 0;
    hang_up(k);
    if (k->closing)
        return;
    /* What was being looked at is read once more. */
    k->once_more |= k->next.certificate >= 0;
    pair_close(&k->next);
    k->asked = false;
    snprintf(text, sizeof text, "brig-tls %s %d; its connections are cut, and it is started again",
             WIFSIGNALED(status) ? "was killed by signal" : "ended with status",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    k->warn(k->ctx, text);
    later(k);
}

/* At the start there is nothing to go on with: its word is waited for. */
static int wait_answer(struct gatekeeper *k, struct err *err)
{
    const struct timeval wait = {.tv_sec = ANSWER_S};
    setsockopt(k->control.fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    int r = wire_receive(k->control.fd, k->msg, 0);
    if (r <= 0)
        return err_set(err, ERR_SYSTEM, "brig-tls %s",
                       r == -EAGAIN ? "does not answer" : "ended at its start");
    wire_close_fds(k->msg);
    k->asked = false;
    if (k->msg->type == WIRE_DONE)
        return 0;
    wire_err_read(k->msg->text, k->msg->text_len, err);
    return err->code ? err_number(err) : err_set(err, ERR_PROTOCOL, "brig-tls says nonsense");
}

void gatekeeper_init(struct gatekeeper *k)
{
    *k = (struct gatekeeper){.control = {.fd = -1, .fn = on_control},
                             .again.fn = on_again,
                             .overdue.fn = on_overdue,
                             .door = {-1, -1},
                             .now = no_pair,
                             .next = no_pair};
}

int gatekeeper_open(struct gatekeeper *k, struct err *err)
{
    k->msg = calloc(1, sizeof *k->msg);
    if (!k->msg)
        return err_memory(err);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, k->door) < 0)
        return err_sys(err, "socket between brig-tls and brig-daemon");
    if (set_up_listeners(k, err) < 0 || read_pair(k, &k->now, err) < 0 ||
        start(k, &k->now, false, err) < 0 || wait_answer(k, err) < 0)
        return err_number(err);
    loop_timer_cancel(k->loop, &k->overdue);
    int r = attend(k);
    errno = -r;
    return r < 0 ? err_sys(err, "watch brig-tls") : 0;
}

void gatekeeper_close(struct gatekeeper *k)
{
    k->closing = true;
    loop_timer_cancel(k->loop, &k->again);
    hang_up(k);
}

void gatekeeper_kill(struct gatekeeper *k)
{
    if (k->pid > 0)
        kill(k->pid, SIGKILL);
}

/* Where it was never waited for, it dies with us. */
void gatekeeper_done(struct gatekeeper *k)
{
    gatekeeper_kill(k);
    if (k->control.fd >= 0)
        close(k->control.fd);
    for (int i = 0; i < 2; i++)
        if (k->door[i] >= 0)
            close(k->door[i]);
    pair_close(&k->now);
    pair_close(&k->next);
    free(k->msg);
}
