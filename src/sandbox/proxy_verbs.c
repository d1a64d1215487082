/* brig-proxy without a sandbox: alone for other tools, and to see whether secrets are available. */
#include "audit/netlog.h"
#include "base/cleanup.h"
#include "http/url.h"
#include "os/signals.h"
#include "sandbox/egress.h"
#include "sandbox/link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

static void free_link(struct link *l)
{
    link_done(l);
}
#define cleanup_link __attribute__((cleanup(free_link)))

static const int watched[] = {SIGINT, SIGTERM, SIGHUP};

/* ---- check ---- */

struct checks {
    sandbox_check_fn *fn;
    void *ctx;
    size_t seen;
};

static void take_checked(void *ctx, const struct channel_msg *msg)
{
    struct checks *c = ctx;
    struct json *root = NULL;
    if (msg->type != CH_CHECKED ||
        json_parse(msg->text, msg->text_len, &json_default_limits, &root, NULL) < 0)
        return;
    const struct json *ok = json_get(root, "ok");
    const char *name = json_text(root, "name"), *source = json_text(root, "source");
    const char *error = json_text(root, "error");
    bool good = ok && json_type(ok) == JSON_BOOL && json_bool(ok);
    if (name && source) {
        c->fn(c->ctx, name, source, good ? NULL : error ? error : "it is not available");
        c->seen++;
    }
    json_free(root);
}

int sandbox_secrets_check(const struct policy *p, sandbox_check_fn *fn, void *ctx, struct err *err)
{
    cleanup_link struct link l;
    struct checks checks = {.fn = fn, .ctx = ctx};
    struct link_config c = {.egress = &p->egress, .check = true};
    link_init(&l);
    if (p->egress.secret_count == 0)
        return 0;
    if (link_start(&l, &c, err) < 0)
        return err_number(err);
    while (checks.seen < p->egress.secret_count) {
        struct pollfd poll_fd = {.fd = l.fd, .events = POLLIN};
        if (poll(&poll_fd, 1, -1) < 0 && errno != EINTR)
            return err_sys(err, "wait for brig-proxy");
        int r = link_next(&l);
        if (r > 0 && l.msg->type == CH_FAIL) {
            *err = l.msg->err;
            return err_code_known(err->code) ? err_number(err) : -ERR_PROTOCOL;
        }
        if (r > 0)
            take_checked(&checks, l.msg);
        if (r < 0)
            return err_set(err, ERR_SYSTEM, "brig-proxy died before it had checked everything");
    }
    link_end(&l, NULL, NULL);
    return 0;
}

/* ---- serve ---- */

struct served {
    const struct proxy_request *request;
    struct netlog *log;
};

static int bad_listen(const char *text, struct err *err)
{
    err_set(err, ERR_USAGE, "cannot listen on %s", text);
    return err_hint(err, "expected ADDRESS:PORT such as 127.0.0.1:3128; port 0 takes a free one");
}

/* "A.B.C.D:PORT" or "[V6]:PORT", where the port may be 0: any. */
static int parse_listen(const char *text, struct sockaddr_storage *ret, socklen_t *len,
                        struct err *err)
{
    const char *colon = strrchr(text, ':');
    struct host host;
    uint16_t port = 0;
    if (!colon || host_parse(text, (size_t)(colon - text), true, &host, NULL) < 0 ||
        (strcmp(colon + 1, "0") != 0 && port_parse(colon + 1, strlen(colon + 1), &port) < 0))
        return bad_listen(text, err);
    struct sockaddr_in *v4 = (struct sockaddr_in *)ret;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret;
    memset(ret, 0, sizeof *ret);
    if (host.kind == HOST_IPV4) {
        *v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
        memcpy(&v4->sin_addr, host.addr, 4);
        *len = sizeof *v4;
    } else if (host.kind == HOST_IPV6) {
        *v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port)};
        memcpy(&v6->sin6_addr, host.addr, 16);
        *len = sizeof *v6;
    } else {
        return bad_listen(text, err);
    }
    return 0;
}

static int open_listener(const char *text, uint16_t *ret_port, struct err *err)
{
    struct sockaddr_storage at = {0};
    socklen_t len = 0;
    int on = 1;
    if (parse_listen(text, &at, &len, err) < 0)
        return err_number(err);
    cleanup_fd int fd = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_sys(err, "socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&at, len) < 0 || listen(fd, 512) < 0 ||
        getsockname(fd, (struct sockaddr *)&at, &len) < 0)
        return err_sys(err, "listen on %s", text);
    in_port_t bound; /* of both families, at the same place */
    memcpy(&bound, (char *)&at + offsetof(struct sockaddr_in, sin_port), sizeof bound);
    *ret_port = ntohs(bound);
    return fd_steal(&fd);
}

static void take_event(void *ctx, const struct channel_msg *msg)
{
    struct served *s = ctx;
    if (msg->type != CH_EVENT)
        return;
    netlog_add(s->log, msg->text, msg->text_len, NULL);
    if (s->request->event)
        s->request->event(s->request->ctx, msg->text, msg->text_len);
}

static int serve(struct served *s, struct link *l, int signals, int until, struct err *err)
{
    for (;;) {
        struct pollfd fds[3] = {{.fd = l->fd, .events = POLLIN},
                                {.fd = signals, .events = POLLIN},
                                {.fd = until, .events = POLLIN}};
        if (poll(fds, 3, -1) < 0 && errno != EINTR)
            return err_sys(err, "poll");
        if (fds[1].revents || fds[2].revents)
            return 0;
        int r = fds[0].revents ? link_next(l) : 0;
        if (r > 0)
            take_event(s, l->msg);
        if (r < 0)
            return err_set(err, ERR_SYSTEM, "brig-proxy died");
    }
}

static int start_and_serve(struct served *s, struct link *l, int signals, struct err *err)
{
    const struct proxy_request *r = s->request;
    struct link_config c = {
        .egress = &r->policy->egress, .token = r->token, .resolver = r->policy->resolver};
    uint16_t port = 0;
    cleanup_fd int listener = open_listener(r->listen, &port, err);
    if (listener < 0 || link_start(l, &c, err) < 0 || link_await(l, signals, err) < 0)
        return err_number(err);
    if (link_listener(l, listener, LISTENER_PROXY, port) < 0)
        return err_set(err, ERR_SYSTEM, "brig-proxy died");
    close(fd_steal(&listener));
    int until = r->ready(r->ctx, port, l->ca.len ? buf_text(&l->ca) : NULL);
    int result = serve(s, l, signals, until, err);
    if (until >= 0)
        close(until);
    link_end(l, take_event, s);
    return result;
}

int sandbox_proxy_serve(const struct proxy_request *r, struct buf *ret_summary, struct err *err)
{
    cleanup_link struct link l;
    struct served s = {.request = r};
    struct json_writer w;
    sigset_t old;
    link_init(&l);
    if (netlog_new(&s.log, err) < 0)
        return err_number(err);
    cleanup_fd int signals = signals_open(watched, ARRAY_LEN(watched), &old, err);
    int result = signals < 0 ? signals : start_and_serve(&s, &l, signals, err);
    /* Take the signal that ended it off the queue: left pending, it would kill us once it is
     * unblocked. */
    struct signalfd_siginfo heard;
    while (signals >= 0 && read(signals, &heard, sizeof heard) == (ssize_t)sizeof heard)
        continue;
    sigprocmask(SIG_SETMASK, &old, NULL);
    jw_init(&w, ret_summary, false);
    netlog_write_json(s.log, &w, true);
    netlog_free(s.log);
    return result;
}
