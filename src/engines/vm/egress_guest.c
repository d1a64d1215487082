/* Lines between the guest's streams and sockets in the sandbox's network, and the questions for
 * names. All that comes from the stream is the guest's word. */
#include "engines/vm/egress.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { NAMES = GUEST_NAMES - 1 }; /* the stream */
#define PIECE 16384u
#define HEAD  2u /* the length before a piece */
#define DNS   53

_Static_assert(GUEST_NAMES == VSOCK_FIXED && GUEST_CARRY == VSOCK_FIXED + 1,
               "the fixed streams come first");

/* VM-18 */
bool egress_target(int family, const uint8_t *data, size_t len, struct guest_target *ret)
{
    if (len < sizeof *ret)
        return false;
    memcpy(ret, data, sizeof *ret);
    if (ret->zero[0] || ret->zero[1] || (ret->port[0] == 0 && ret->port[1] == 0))
        return false;
    return family == AF_INET6 || IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)ret->address);
}

static socklen_t write_address(int family, const struct guest_target *to, struct sockaddr_in6 *ret)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    *ret = (struct sockaddr_in6){.sin6_family = AF_INET6};
    memcpy(&ret->sin6_addr, to->address, sizeof to->address);
    memcpy(&ret->sin6_port, to->port, sizeof to->port);
    if (family == AF_INET6)
        return sizeof *ret;
    memcpy(&v4.sin_addr, to->address + 12, sizeof v4.sin_addr);
    memcpy(&v4.sin_port, to->port, sizeof to->port);
    memcpy(ret, &v4, sizeof v4);
    return sizeof v4;
}

/* The connection is made in the background: if it fails, the first read or write says so. */
static int dial(int family, const struct guest_target *to)
{
    struct sockaddr_in6 address;
    socklen_t len = write_address(family, to, &address);
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, (struct sockaddr *)&address, len) == 0 || errno == EINPROGRESS)
        return fd;
    int why = errno;
    close(fd);
    return -why;
}

/* The one socket for names is made, and bound to the one who answers, before the filter is loaded.
 */
static int open_names(struct egress *e, struct err *err)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(DNS), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    e->names_fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (e->names_fd < 0 || connect(e->names_fd, (struct sockaddr *)&to, sizeof to) < 0)
        return err_sys(err, "make a socket for questions");
    return 0;
}

int egress_open(struct egress *e, struct vsock *v, bool names, bool carry, struct err *err)
{
    *e = (struct egress){.vsock = v, .family = AF_INET6, .names_fd = -1, .dial = dial};
    for (unsigned i = 0; i < VSOCK_CARRIED; i++)
        e->lines[i].fd = -1;
    v->carried_max = carry ? VSOCK_CARRIED : 0;
    int probe = carry ? socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
    if (probe >= 0)
        close(probe);
    else if (carry)
        e->family = AF_INET;
    return names ? open_names(e, err) : 0;
}

static void close_line(struct egress_line *l)
{
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
}

static bool again(ssize_t n)
{
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

/* ---- one line ---- */

static bool guest_gone(const struct vsock_stream *s)
{
    return !s->open || s->reset;
}

static void dial_line(struct egress *e, unsigned i)
{
    struct egress_line *l = &e->lines[i];
    struct guest_target to;
    size_t len;
    const uint8_t *data = vsock_data(e->vsock, VSOCK_FIXED + i, &len);
    if (len < sizeof to)
        return;
    l->dialled = true;
    if (!egress_target(e->family, data, len, &to) || (l->fd = e->dial(e->family, &to)) < 0) {
        l->fd = -1;
        l->broken = true;
        return;
    }
    vsock_drop(e->vsock, VSOCK_FIXED + i, sizeof to);
}

static void send_out(struct egress *e, unsigned i)
{
    struct egress_line *l = &e->lines[i];
    size_t len;
    const uint8_t *data = vsock_data(e->vsock, VSOCK_FIXED + i, &len);
    if (len == 0 || l->full)
        return;
    ssize_t n = l->deaf ? (ssize_t)len : write(l->fd, data, len);
    /* If only a part was taken, wait for the socket: a guest whose window is full does not ring
     * again, so only the socket can tell when the rest can be written. */
    l->full = again(n) || (n >= 0 && (size_t)n < len);
    if (n < 0 && !l->full) { /* what the other side wrote before it closed is still to be read */
        l->deaf = true;
        /* The error is reported once: the next read would look like an orderly end. EPIPE is what
         * follows when the other side ended in order. */
        l->torn = errno != EPIPE;
        n = (ssize_t)len;
    }
    if (n > 0)
        vsock_drop(e->vsock, VSOCK_FIXED + i, (size_t)n);
}

/* The guest's half of a connection is over when all that it sent was written. */
static void end_out(struct egress *e, unsigned i)
{
    struct egress_line *l = &e->lines[i];
    if (l->out_ended || !vsock_finished(e->vsock, VSOCK_FIXED + i))
        return;
    l->out_ended = true;
    shutdown(l->fd, SHUT_WR);
}

static bool has_room(const struct egress *e, unsigned i)
{
    return vsock_room(e->vsock, VSOCK_FIXED + i) > HEAD;
}

/* VM-19: no more than there is room for. */
static void take_in(struct egress *e, unsigned i)
{
    struct egress_line *l = &e->lines[i];
    uint8_t data[HEAD + PIECE];
    if (l->in_ended || !has_room(e, i))
        return;
    size_t room = vsock_room(e->vsock, VSOCK_FIXED + i) - HEAD;
    ssize_t n = read(l->fd, data + HEAD, room < PIECE ? room : PIECE);
    if (n < 0 || (n == 0 && l->torn)) {
        l->broken = !again(n);
        return;
    }
    data[0] = (uint8_t)(n >> 8);
    data[1] = (uint8_t)n;
    vsock_put(e->vsock, VSOCK_FIXED + i, data, HEAD + (size_t)n);
    if (n == 0) {
        l->in_ended = true;
        vsock_end(e->vsock, VSOCK_FIXED + i);
    }
}

static void carry(struct egress *e, unsigned i, short ready)
{
    struct egress_line *l = &e->lines[i];
    const struct vsock_stream *s = &e->vsock->streams[VSOCK_FIXED + i];
    if (ready & (POLLOUT | POLLERR | POLLHUP))
        l->full = false;
    if (ready & (POLLIN | POLLERR | POLLHUP))
        take_in(e, i);
    send_out(e, i);
    end_out(e, i);
    bool over = l->in_ended && l->out_ended;
    if (l->broken || over || (guest_gone(s) && s->from_len == 0))
        close_line(l);
}

static void step_line(struct egress *e, unsigned i, short ready)
{
    struct egress_line *l = &e->lines[i];
    const struct vsock_stream *s = &e->vsock->streams[VSOCK_FIXED + i];
    if (!s->held)
        return;
    if (!l->dialled)
        dial_line(e, i);
    if (l->fd >= 0)
        carry(e, i, ready);
    if (l->broken && !guest_gone(s))
        vsock_reset(e->vsock, VSOCK_FIXED + i);
    if (l->fd < 0 && !s->open) {
        *l = (struct egress_line){.fd = -1};
        vsock_release(e->vsock, VSOCK_FIXED + i);
    }
}

/* ---- names ---- */

/* A question that cannot be sent at once is dropped, as the network may drop a datagram. */
static void ask(struct egress *e)
{
    size_t len;
    const uint8_t *data = vsock_data(e->vsock, NAMES, &len);
    while (len >= 2) {
        size_t want = (size_t)data[0] << 8 | data[1];
        if (want < GUEST_NAME_LEAST || want > GUEST_NAME_MOST) {
            vsock_reset(e->vsock, NAMES);
            return;
        }
        if (len < 2 + want)
            return;
        if (e->names_fd >= 0)
            (void)!write(e->names_fd, data + 2, want);
        vsock_drop(e->vsock, NAMES, 2 + want);
        data = vsock_data(e->vsock, NAMES, &len);
    }
}

static void answer(struct egress *e)
{
    uint8_t data[2 + GUEST_NAME_MOST + 1];
    ssize_t n = read(e->names_fd, data + 2, GUEST_NAME_MOST + 1);
    if (n < (ssize_t)GUEST_NAME_LEAST || n > (ssize_t)GUEST_NAME_MOST ||
        vsock_room(e->vsock, NAMES) < 2 + (size_t)n)
        return;
    data[0] = (uint8_t)(n >> 8);
    data[1] = (uint8_t)n;
    vsock_put(e->vsock, NAMES, data, 2 + (size_t)n);
}

/* ---- all of them ---- */

static short wanted(const struct egress *e, unsigned i)
{
    const struct egress_line *l = &e->lines[i];
    bool in = !l->in_ended && has_room(e, i);
    return (short)((in ? POLLIN : 0) | (l->full ? POLLOUT : 0));
}

void egress_watch(const struct egress *e, struct pollfd *fds)
{
    fds[EGRESS_NAMES] = (struct pollfd){.fd = e->names_fd, .events = POLLIN};
    for (unsigned i = 0; i < VSOCK_CARRIED; i++) {
        /* A line that waits for nothing is not polled: poll would report its errors again and
         * again. */
        short events = e->lines[i].fd >= 0 ? wanted(e, i) : 0;
        fds[1 + i] = (struct pollfd){.fd = events ? e->lines[i].fd : -1, .events = events};
    }
}

void egress_step(struct egress *e, const struct pollfd *fds)
{
    ask(e);
    if (fds[EGRESS_NAMES].revents)
        answer(e);
    for (unsigned i = 0; i < e->vsock->carried_max; i++)
        step_line(e, i, fds[1 + i].revents);
    vsock_flush(e->vsock);
}
