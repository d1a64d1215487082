/* brig-proxy: the only process that talks to the outside, and the only one that holds secrets.
 *
 * Starts with a socket to the supervisor as descriptor 3 and nothing else. Reads its configuration,
 * forks the keeper, fetches the secrets, opens what must be opened, gives away every right it will
 * not need, says that it is ready, and serves. Ends when the supervisor does. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "os/sys.h"
#include "proxy/ask.h"
#include "proxy/config.h"
#include "proxy/own.h"
#include "proxy/pace.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

static struct proxy px = {.control_fd = PROXY_FD_CONTROL};
static struct channel_msg msg;
static int exit_status;
static bool checking; /* `brig secrets check`: nothing is served */

/* ---- the start ---- */

static void wait_control(void)
{
    struct pollfd p = {.fd = px.control_fd, .events = POLLIN};
    poll(&p, 1, -1);
}

/* Before the loop runs: waits for one message. 0: the supervisor is gone. */
static int receive_wait(int *ret_fd, struct err *err)
{
    for (;;) {
        int r = channel_receive(px.control_fd, &msg, ret_fd, err);
        if (r != -EAGAIN)
            return r;
        wait_control();
    }
}

static bool wait_room(void)
{
    struct pollfd p = {.fd = px.control_fd, .events = POLLOUT};
    return poll(&p, 1, 1000) > 0;
}

static void send_wait(uint32_t type, uint32_t value, const char *text, const struct err *why)
{
    while (channel_send(px.control_fd, type, value, 0, text, -1, why) == -EAGAIN)
        if (!wait_room())
            return;
}

static int fail(const struct err *err)
{
    send_wait(CH_FAIL, 0, NULL, err);
    return err_exit_status(err);
}

/* One descriptor for each end of each connection. */
static void raise_descriptors(void)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) < 0)
        return;
    l.rlim_cur = l.rlim_max;
    setrlimit(RLIMIT_NOFILE, &l);
    rlim_t most = l.rlim_cur / 2 > 64 ? l.rlim_cur / 2 - 64 : 1;
    if (px.max_connections > most)
        px.max_connections = (unsigned)most;
}

static int open_everything(const struct config *c, struct err *err)
{
    px.max_connections = c->max_connections;
    px.learn = c->learn != 0;
    raise_descriptors();
    px.auth = c->auth ? config_auth(c->auth) : NULL;
    if (c->auth && !px.auth)
        return err_memory(err);
    if (tls_context_new(egress_needs_ca(&px.rules->egress), &px.tls, err) < 0 ||
        (c->roots && tls_trust(px.tls, c->roots, err) < 0) ||
        resolver_new(px.loop, c->resolver, &px.resolver, err) < 0 || own_open(err) < 0)
        return err_number(err);
    return 0;
}

/* The values are the last thing that comes in, and come into a process that is not dumpable. */
static int start_keyring(struct err *err)
{
    px.injector.egress = &px.rules->egress;
    if (px.rules->egress.secret_count == 0)
        return 0;
    return keyring_new(&px, &px.keyring, err);
}

static int prepare(const struct config *c, struct buf *ready, struct err *err)
{
    px.rules = c->rules;
    if (budgets_init(&px.budgets, &px.rules->egress, err) < 0 || start_keyring(err) < 0)
        return err_number(err);
    /* The keeper has its own idea of signals; we end with the supervisor and not by a terminal. */
    signal(SIGINT, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    if (open_everything(c, err) < 0 || (px.keyring && keyring_fetch(px.keyring, err) < 0))
        return err_number(err);
    struct json_writer w;
    jw_init(&w, ready, false);
    jw_object_begin(&w);
    jw_kv_string(&w, "ca", tls_authority_pem(px.tls));
    jw_key(&w, "facts");
    jw_object_begin(&w);
    if (proxy_seal(&c->who, &w, err) < 0)
        return err_number(err);
    jw_object_end(&w);
    jw_object_end(&w);
    if (ready->failed)
        return err_memory(err);
    return px.keyring ? keyring_watch(px.keyring, err) : 0;
}

static int check_secrets(const struct config *c, struct err *err)
{
    checking = true;
    px.rules = c->rules;
    if (start_keyring(err) < 0)
        return err_number(err);
    return px.keyring ? keyring_check(px.keyring, err) : 0;
}

/* ---- messages while it runs ---- */

static int replace_rules(int fd, struct err *err)
{
    struct config c;
    if (config_read(fd, &c, err) < 0)
        return err_number(err);
    int ended = rules_replace(&px, c.rules, err);
    config_done(&c);
    if (ended >= 0)
        send_wait(CH_REPLACED, (uint32_t)ended, NULL, NULL);
    return ended;
}

static void write_totals(struct buf *text, const struct err *not_revoked)
{
    struct json_writer w;
    jw_init(&w, text, false);
    jw_object_begin(&w);
    jw_kv_uint(&w, "lost_events", px.lost_events);
    jw_kv_uint(&w, "uploaded", px.budgets.total.uploaded);
    jw_kv_string(&w, "not_revoked", not_revoked->code ? not_revoked->message : NULL);
    jw_object_end(&w);
}

static bool over;

static void stop(void)
{
    over = true;
    loop_stop(px.loop);
}

static void say_goodbye(void)
{
    struct err not_revoked = ERR_INIT;
    struct buf text cleanup_buf;
    buf_init(&text, CHANNEL_TEXT_MAX);
    sessions_end(&px);
    tunnels_end(&px);
    keyring_free(px.keyring, &not_revoked);
    px.keyring = NULL;
    while (!events_flush(&px))
        if (!wait_room())
            break;
    write_totals(&text, &not_revoked);
    send_wait(CH_BYE, 0, buf_text(&text), NULL);
    stop();
}

/* What was decided before has been told by now, or waits in a queue of which this is the end: only
 * the last question needs an answer. */
static uint32_t sync_due;

static void answer_sync(void)
{
    if (sync_due && events_flush(&px) &&
        channel_send(px.control_fd, CH_SYNCED, sync_due, 0, NULL, -1, NULL) != -EAGAIN)
        sync_due = 0;
    if (sync_due)
        loop_watch(px.loop, &px.control, EPOLLIN | EPOLLOUT);
}

static int obey(int *fd, struct err *err)
{
    if (checking && msg.type != CH_END)
        return err_set(err, ERR_PROTOCOL, "message %u during a check", msg.type);
    switch (msg.type) {
    case CH_CONFIG:
        return replace_rules(*fd, err);
    case CH_LISTENER:
        return listener_add(&px, fd_steal(fd), msg.value, err);
    case CH_CONNECTION:
        return connection_add(&px, fd_steal(fd), msg.value, msg.text, err);
    case CH_REFUSED:
        return connection_refused(&px, msg.text, err);
    case CH_ANSWER:
        return ask_answer(&px, msg.value, msg.port != 0, err);
    case CH_SYNC:
        sync_due = msg.value;
        answer_sync();
        return 0;
    case CH_END:
        say_goodbye();
        return 0;
    default:
        return err_set(err, ERR_PROTOCOL, "message %u is not for brig-proxy", msg.type);
    }
}

static void on_control(struct loop_io *io, uint32_t events)
{
    if (events & EPOLLOUT) {
        events_flush(&px);
        answer_sync();
    }
    for (int i = 0; i < 64; i++) {
        cleanup_fd int fd = -1;
        struct err err = ERR_INIT;
        int r = channel_receive(io->fd, &msg, &fd, &err);
        if (r == -EAGAIN)
            return;
        if (r == 0) {
            stop(); /* the supervisor is gone, and so is the reason to be */
            return;
        }
        if (r > 0 && obey(&fd, &err) >= 0)
            continue;
        send_wait(CH_FAIL, 0, NULL, &err);
        if (r < 0) {
            exit_status = 1;
            stop();
            return;
        }
    }
}

static struct pace pace;

/* Nobody but the supervisor is heard until what was done is paid for. */
static void keep_pace(void *ctx, uint64_t usec)
{
    unsigned ms;
    (void)ctx, (void)usec;
    while (!over && (ms = pace_due(&pace, clock_us(), clock_cpu_us()))) {
        struct pollfd p = {.fd = px.control_fd, .events = POLLIN};
        if (poll(&p, 1, (int)ms) > 0)
            on_control(&px.control, EPOLLIN);
    }
}

static int serve(struct err *err)
{
    if (pace.cpus_milli)
        loop_on_round(px.loop, keep_pace, NULL);
    px.control = (struct loop_io){.fd = px.control_fd, .fn = on_control};
    int r = loop_watch(px.loop, &px.control, EPOLLIN);
    if (r == 0 && px.tls)
        tls_warm(px.tls);
    if (r == 0)
        r = loop_run(px.loop);
    errno = -r;
    return r < 0 ? err_sys(err, "the event loop") : 0;
}

static int run(struct err *err)
{
    cleanup_fd int fd = -1;
    int r = receive_wait(&fd, err);
    if (r <= 0)
        return r;
    if (msg.type != CH_CONFIG && msg.type != CH_CHECK)
        return err_set(err, ERR_PROTOCOL, "message %u before the configuration", msg.type);
    struct config c;
    if (config_read(fd, &c, err) < 0)
        return err_number(err);
    if (msg.type == CH_CHECK) {
        r = check_secrets(&c, err);
        config_done(&c);
        return r < 0 ? r : serve(err);
    }
    struct buf ready cleanup_buf;
    buf_init(&ready, CHANNEL_TEXT_MAX);
    pace.cpus_milli = c.cpus_milli;
    r = prepare(&c, &ready, err);
    config_done(&c);
    if (r < 0)
        return r;
    send_wait(CH_READY, 0, ready.data, NULL);
    return serve(err);
}

int main(void)
{
    int type = 0;
    socklen_t len = sizeof type;
    if (getsockopt(PROXY_FD_CONTROL, SOL_SOCKET, SO_TYPE, &type, &len) < 0 ||
        type != SOCK_SEQPACKET) {
        fputs("brig-proxy is started by brig\n", stderr);
        return 2;
    }
    struct err err = ERR_INIT;
    /* The end of the channel says it too, but not to a process that somebody has stopped. */
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    /* From the first moment on: secrets come in before everything else is sealed. */
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    signal(SIGPIPE, SIG_IGN);
    sys_close_range(PROXY_FD_CONTROL + 1, ~0u, 0);
    fcntl(PROXY_FD_CONTROL, F_SETFD, FD_CLOEXEC);
    fcntl(PROXY_FD_CONTROL, F_SETFL, O_RDWR | O_NONBLOCK);
    if (loop_new(&px.loop, &err) < 0)
        return fail(&err);
    px.start_ms = loop_now_ms(px.loop);
    int r = run(&err);
    if (r < 0)
        exit_status = fail(&err);
    keyring_free(px.keyring, NULL);
    return exit_status;
}
