/* Names inside: an allowed name gets a stand-in address, every other name does not exist. Nothing
 * that is asked here ever becomes a query to the outside.
 *
 * N-12  The outside learns of a name only when a connection to it was allowed. */
#include "base/cleanup.h"
#include "base/container.h"
#include "network/dns_parse.h"
#include "proxy/proxy.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define RATE        100 /* questions per second, */
#define BURST       200 /* and at once */
#define EVENTS_RATE 10
#define BATCH       64
#define TCP_IDLE_MS 10000
#define TYPE_A      1
#define TYPE_AAAA   28
#define GATEWAY     "brig.proxy"

/* ---- caps ---- */

struct allowance {
    uint64_t milli; /* thousandths of one */
    uint64_t at_ms;
};

static bool may(struct allowance *a, uint64_t now_ms, uint64_t rate, uint64_t burst)
{
    uint64_t passed = a->at_ms ? now_ms - a->at_ms : UINT32_MAX;
    a->at_ms = now_ms ? now_ms : 1;
    a->milli = passed > burst * 1000 ? burst * 1000 : a->milli + passed * rate;
    if (a->milli > burst * 1000)
        a->milli = burst * 1000;
    if (a->milli < 1000)
        return false;
    a->milli -= 1000;
    return true;
}

static struct allowance questions, events;

/* ---- one question ---- */

/* A bare word is no host of the Internet: programs ask for their own machine's name, and telling
 * that would put a line under every run. */
static void tell_denied(struct proxy *px, const struct host *name)
{
    if (!strchr(name->text, '.') || !may(&events, loop_now_ms(px->loop), EVENTS_RATE, EVENTS_RATE))
        return;
    struct target t = {.scheme = SCHEME_HTTPS, .host = *name, .port = 443};
    struct verdict v;
    egress_decide(&px->rules->egress, &t, &v);
    t.scheme = SCHEME_ANY;
    t.port = 53;
    struct event ev = {.entry = ENTRY_DNS,
                       .target = &t,
                       .reason = v.allow ? DENY_NO_RULE : v.reason,
                       .rule = SIZE_MAX,
                       .hint = v.hint};
    event_send(px, &ev);
}

/* Learn mode: only a connection shows the port that the name is wanted for. It is denied like any
 * other, and nobody outside hears of the name (N-12). */
static bool is_learned(const struct proxy *px, const struct host *name)
{
    struct target t = {.scheme = SCHEME_HTTPS, .host = *name, .port = 443};
    struct verdict v;
    if (!px->learn || !strchr(name->text, '.'))
        return false;
    egress_decide(&px->rules->egress, &t, &v);
    return v.reason == DENY_NO_RULE;
}

static enum dns_answer look_up(struct proxy *px, const struct dns_question *q, uint8_t addr[16])
{
    bool known =
        strcmp(q->name.text, GATEWAY) == 0 || egress_knows_name(&px->rules->egress, &q->name);
    if (!known) {
        tell_denied(px, &q->name);
        if (!is_learned(px, &q->name))
            return DNS_NXDOMAIN;
    }
    if (q->type != TYPE_A && q->type != TYPE_AAAA)
        return DNS_NO_DATA;
    int index = standin_of(&px->standins, &q->name);
    if (index < 0)
        return DNS_REFUSED;
    if (q->type == TYPE_A)
        standin_v4(index, addr);
    else
        standin_v6(index, addr);
    return DNS_ADDRESS;
}

/* The answer's length; 0: none. */
static size_t answer(struct proxy *px, const uint8_t *msg, size_t len,
                     uint8_t out[static DNS_MESSAGE_MAX])
{
    struct dns_question q = {0};
    uint8_t addr[16];
    if (!may(&questions, loop_now_ms(px->loop), RATE, BURST))
        return 0;
    int r = dns_question_parse(msg, len, &q, NULL);
    if (r == -EBADMSG && len >= 12) {
        /* FORMERR: the header alone, with nothing counted in it. */
        memset(out, 0, 12);
        memcpy(out, msg, 2);
        out[2] = 0x80;
        out[3] = 1;
        return 12;
    }
    if (r < 0)
        return 0;
    enum dns_answer kind = look_up(px, &q, addr);
    return dns_answer_write(&q, kind, addr, out);
}

/* ---- UDP ---- */

struct udp {
    struct loop_io io;
    struct proxy *px;
};

union control {
    char bytes[CMSG_SPACE(sizeof(struct in6_pktinfo)) + CMSG_SPACE(sizeof(struct in_pktinfo))];
    struct cmsghdr align;
};

/* The answer must come from the address that was asked: of what the kernel said about it only that
 * is kept. The interface is not: every address is a local one. */
static void answer_from(struct msghdr *mh)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(mh); c; c = CMSG_NXTHDR(mh, c)) {
        if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
            struct in_pktinfo *info = (struct in_pktinfo *)CMSG_DATA(c);
            info->ipi_spec_dst = info->ipi_addr;
            info->ipi_ifindex = 0;
        } else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
            ((struct in6_pktinfo *)CMSG_DATA(c))->ipi6_ifindex = 0;
        }
    }
}

static bool udp_one(struct udp *u)
{
    uint8_t in[DNS_MESSAGE_MAX + 1], out[DNS_MESSAGE_MAX];
    struct sockaddr_storage peer;
    union control control;
    struct iovec part = {in, sizeof in};
    struct msghdr mh = {.msg_name = &peer,
                        .msg_namelen = sizeof peer,
                        .msg_iov = &part,
                        .msg_iovlen = 1,
                        .msg_control = &control,
                        .msg_controllen = sizeof control};
    ssize_t n = recvmsg(u->io.fd, &mh, 0);
    if (n < 0)
        return errno == EINTR;
    size_t len = (size_t)n <= DNS_MESSAGE_MAX ? answer(u->px, in, (size_t)n, out) : 0;
    if (len == 0)
        return true;
    answer_from(&mh);
    part = (struct iovec){out, len};
    if (sendmsg(u->io.fd, &mh, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno == EINVAL) {
        /* An address that cannot be answered from: let the kernel choose. */
        mh.msg_control = NULL;
        mh.msg_controllen = 0;
        (void)!sendmsg(u->io.fd, &mh, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    return true;
}

static void on_udp(struct loop_io *io, uint32_t ready)
{
    (void)ready;
    struct udp *u = container_of(io, struct udp, io);
    for (int i = 0; i < BATCH && udp_one(u); i++)
        ;
}

int dns_udp_add(struct proxy *px, int fd, struct err *err)
{
    cleanup_fd int owned = fd;
    /* On a socket of the other family one of them fails, and is not needed. */
    int v4 = setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &(int){1}, sizeof(int));
    int v6 = setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &(int){1}, sizeof(int));
    if (v4 < 0 && v6 < 0)
        return err_sys(err, "the DNS socket");
    struct udp *u = calloc(1, sizeof *u);
    if (!u)
        return err_memory(err);
    *u = (struct udp){.io = {.fd = fd, .fn = on_udp}, .px = px};
    int r = loop_watch(px->loop, &u->io, EPOLLIN);
    if (r < 0) {
        free(u);
        errno = -r;
        return err_sys(err, "watch the DNS socket");
    }
    fd_steal(&owned);
    return 0;
}

/* ---- TCP: a length in two bytes before each message ---- */

struct tcp {
    struct proxy *px;
    struct stream *client;
    struct loop_timer idle;
    struct loop_task task;
    size_t len;
    uint8_t in[2 + DNS_MESSAGE_MAX];
};

static void tcp_free(struct loop_task *task)
{
    free(container_of(task, struct tcp, task));
}

static void tcp_end(struct tcp *t)
{
    loop_timer_cancel(t->px->loop, &t->idle);
    stream_close(t->client);
    t->client = NULL;
    t->task.fn = tcp_free;
    loop_defer(t->px->loop, &t->task);
}

static void tcp_idle(struct loop_timer *timer)
{
    tcp_end(container_of(timer, struct tcp, idle));
}

/* Answers the messages that are complete; false: the connection is of no use. */
static bool tcp_answer(struct tcp *t)
{
    for (;;) {
        size_t want = t->len >= 2 ? (size_t)t->in[0] << 8 | t->in[1] : 0;
        if (want > DNS_MESSAGE_MAX || (t->len >= 2 && want == 0))
            return false;
        if (t->len < 2 || t->len < 2 + want)
            return true;
        uint8_t out[2 + DNS_MESSAGE_MAX];
        size_t len = answer(t->px, t->in + 2, want, out + 2);
        out[0] = (uint8_t)(len >> 8);
        out[1] = (uint8_t)len;
        if (len == 0 || stream_write(t->client, out, 2 + len) != (ssize_t)(2 + len))
            return false;
        t->len -= 2 + want;
        memmove(t->in, t->in + 2 + want, t->len);
    }
}

static void tcp_readable(void *ctx, unsigned ready)
{
    (void)ready;
    struct tcp *t = ctx;
    ssize_t n = stream_read(t->client, t->in + t->len, sizeof t->in - t->len);
    if (n == -EAGAIN)
        return;
    if (n > 0)
        t->len += (size_t)n;
    if (n <= 0 || !tcp_answer(t)) {
        tcp_end(t);
        return;
    }
    loop_timer_set(t->px->loop, &t->idle, TCP_IDLE_MS);
}

void dns_tcp_start(struct proxy *px, struct stream *client)
{
    struct tcp *t = calloc(1, sizeof *t);
    if (!t) {
        stream_close(client);
        return;
    }
    t->px = px;
    t->client = client;
    t->idle.fn = tcp_idle;
    loop_timer_set(px->loop, &t->idle, TCP_IDLE_MS);
    stream_on(client, tcp_readable, t);
    stream_want(client, STREAM_READABLE);
}
