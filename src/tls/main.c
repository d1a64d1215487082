/* brig-tls: has the key of the daemon's certificate and speaks TLS, so that the front need not.
 * Started by `brig serve --tls` alone, with a socket to the launcher as descriptor 3 and one to the
 * front as descriptor 4. It seals itself first; then sockets to listen on and the pair come in
 * (wire.h). Ends with the launcher. */
#include "base/cleanup.h"
#include "base/json.h"
#include "os/fd.h"
#include "os/seal.h"
#include "os/sys.h"
#include "tls/gate.h"
#include "wire/wire.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#define FD_LAUNCHER 3
#define FD_DOOR     4
#define LAST_MS     2000 /* for answers that are on their way when the front has ended */

static struct gate gate;
static struct loop_io control;
static struct loop_timer last;
static struct wire_msg msg;

/* ---- orders ---- */

static void tell_fail(uint32_t request, const struct err *err)
{
    cleanup_buf struct buf text;
    buf_init(&text, 8192);
    wire_err_write(err, &text);
    wire_send(FD_LAUNCHER, WIRE_FAIL, request, 0, buf_text(&text), text.len, NULL, 0);
}

static void tell_done(uint32_t request, const char *until)
{
    const char *text = JSON_SMALL(JSON_TEXT("until", until));
    wire_send(FD_LAUNCHER, WIRE_DONE, request, 0, text, strlen(text), NULL, 0);
}

static int use_pair(const struct wire_msg *m, const struct json *root, struct err *err)
{
    char until[PAIR_DATE_SIZE] = "";
    SSL_CTX *settings = NULL;
    const struct json *again = json_get(root, "again");
    struct pair_words words = {
        .certificate = json_text(root, "certificate"),
        .key = json_text(root, "key"),
        .domain = json_text(root, "domain"),
        .again = again && json_type(again) == JSON_BOOL && json_bool(again),
    };
    if (!words.certificate || !words.key)
        return err_set(err, ERR_PROTOCOL, "a pair without names");
    if (pair_load(m->fds[0], m->fds[1], &words, &settings, until, err) < 0)
        return err_number(err);
    gate_use(&gate, settings);
    tell_done(m->request, until);
    return 0;
}

static int take_pair(const struct wire_msg *m, struct err *err)
{
    struct json *root = NULL;
    if (m->fd_count != 2)
        return err_set(err, ERR_PROTOCOL, "a pair without its two files");
    int r = json_parse(m->text, m->text_len, &json_default_limits, &root, err);
    if (r == 0)
        r = use_pair(m, root, err);
    json_free(root);
    return r;
}

static int obey(struct wire_msg *m, struct err *err)
{
    if (m->type == WIRE_PAIR)
        return take_pair(m, err);
    if (m->type == WIRE_LISTEN && m->fd_count == 1)
        return gate_listen(&gate, wire_steal_fd(m, 0), err);
    return err_set(err, ERR_PROTOCOL, "%s is not for brig-tls", wire_type_name(m->type));
}

/* ---- the end ---- */

static void on_idle(void *ctx)
{
    (void)ctx;
    loop_stop(gate.loop);
}

static void on_last(struct loop_timer *t)
{
    (void)t;
    link_end_all(&gate);
    loop_stop(gate.loop);
}

static void end(void)
{
    if (gate.ending)
        return;
    loop_forget(gate.loop, &control);
    loop_timer_set(gate.loop, &last, LAST_MS);
    gate_end(&gate, on_idle, NULL);
}

static void on_control(struct loop_io *io, uint32_t events)
{
    (void)events;
    for (;;) {
        struct err err = ERR_INIT;
        int r = wire_receive(io->fd, &msg, MSG_DONTWAIT);
        if (r == -EAGAIN)
            return;
        if (r <= 0) {
            end(); /* the launcher is gone, or done with us */
            return;
        }
        if (obey(&msg, &err) < 0)
            tell_fail(msg.request, &err);
        wire_close_fds(&msg);
    }
}

/* ---- the start ---- */

static int run(struct err *err)
{
    struct loop *loop = NULL;
    if (loop_new(&loop, err) < 0)
        return err_number(err);
    gate_init(&gate, loop, FD_DOOR);
    last.fn = on_last;
    control = (struct loop_io){.fd = FD_LAUNCHER, .fn = on_control};
    if (fd_set_cloexec(FD_LAUNCHER, true) < 0 || fd_set_cloexec(FD_DOOR, true) < 0)
        return err_sys(err, "the sockets of brig-tls");
    if (pair_prepare(err) < 0 || gate_seal(err) < 0)
        return err_number(err);
    int r = loop_watch(loop, &control, EPOLLIN);
    if (r == 0)
        r = loop_run(loop);
    errno = -r;
    return r < 0 ? err_sys(err, "the event loop") : 0;
}

static bool is_packets(int fd)
{
    int type = 0;
    socklen_t len = sizeof type;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_SEQPACKET;
}

int main(void)
{
    struct err err = ERR_INIT;
    if (!is_packets(FD_LAUNCHER) || !is_packets(FD_DOOR)) {
        fputs("brig-tls is started by brig serve\n", stderr);
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    signal(SIGPIPE, SIG_IGN);
    sys_close_range(FD_DOOR + 1, ~0u, 0);
    int r = run(&err);
    if (r < 0)
        tell_fail(0, &err);
    seal_exit(r < 0);
    return 1;
}
