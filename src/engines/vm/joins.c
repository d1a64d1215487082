/* Lines between connections of `brig-vmm join` and streams of the guest's. */
#include "engines/vm/joins.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FIRST   (VSOCK_FIXED + VSOCK_CARRIED) /* stream */
#define WAITING 64                            /* connections that nobody took yet */
#define PIECE   16384u

void joins_init(struct joins *j, struct vsock *v)
{
    *j = (struct joins){.vsock = v, .listener = -1};
    for (unsigned i = 0; i < VSOCK_JOINED; i++)
        j->lines[i].fd = -1;
}

int joins_open(struct joins *j, struct err *err)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    socklen_t len = sizeof name;
    j->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* An address without a name: the kernel chooses one. */
    if (j->listener < 0 ||
        bind(j->listener, (struct sockaddr *)&name, sizeof name.sun_family) < 0 ||
        listen(j->listener, WAITING) < 0 ||
        getsockname(j->listener, (struct sockaddr *)&name, &len) < 0)
        return err_sys(err, "make a socket for programs");
    memcpy(j->name, name.sun_path + 1, JOIN_NAME_LEN);
    j->vsock->joined_max = VSOCK_JOINED;
    return 0;
}

static bool again(ssize_t n)
{
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

static struct vsock_stream *stream_of(const struct joins *j, unsigned i)
{
    return &j->vsock->streams[FIRST + i];
}

/* A stream that the guest has dialled, and that no program was given yet. */
static int spare(const struct joins *j)
{
    for (unsigned i = 0; i < j->vsock->joined_max; i++) {
        const struct vsock_stream *s = stream_of(j, i);
        if (s->held && s->open && !s->reset && !s->guest_ended && !j->lines[i].used)
            return (int)i;
    }
    return -1;
}

/* While no stream is free, whoever connects waits in the listener's queue. */
static void take_one(struct joins *j)
{
    int i = spare(j);
    if (i < 0)
        return;
    j->lines[i].fd = accept4(j->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    j->lines[i].used = j->lines[i].fd >= 0;
}

static void close_line(struct joins_line *l)
{
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
}

/* When the connection ends, the program is to end: the guest is told at once. */
static void take_in(struct joins *j, unsigned i)
{
    uint8_t data[PIECE];
    size_t room = vsock_room(j->vsock, FIRST + i);
    if (room == 0)
        return;
    ssize_t n = read(j->lines[i].fd, data, room < sizeof data ? room : sizeof data);
    if (n > 0)
        vsock_put(j->vsock, FIRST + i, data, (size_t)n);
    else if (!again(n))
        close_line(&j->lines[i]);
}

static void send_out(struct joins *j, unsigned i)
{
    struct joins_line *l = &j->lines[i];
    size_t len;
    const uint8_t *data = vsock_data(j->vsock, FIRST + i, &len);
    if (len == 0 || l->full)
        return;
    ssize_t n = write(l->fd, data, len);
    l->full = again(n) || (n >= 0 && (size_t)n < len);
    if (n < 0 && !l->full)
        close_line(l);
    if (n > 0)
        vsock_drop(j->vsock, FIRST + i, (size_t)n);
}

static void step_line(struct joins *j, unsigned i, short ready)
{
    struct joins_line *l = &j->lines[i];
    const struct vsock_stream *s = stream_of(j, i);
    if (!s->held)
        return;
    if (ready & (POLLOUT | POLLERR | POLLHUP))
        l->full = false;
    if (l->fd >= 0)
        send_out(j, i);
    if (l->fd >= 0 && (ready & (POLLIN | POLLERR | POLLHUP)))
        take_in(j, i);
    /* The connection is closed only after the guest's last bytes were written to it. */
    if ((s->guest_ended || !s->open) && s->from_len == 0)
        close_line(l);
    if (l->fd < 0 && (l->used || s->guest_ended) && s->open && !s->reset) {
        j->vsock->streams[FIRST + i].to_len = 0; /* also a guest that does not read it */
        vsock_reset(j->vsock, FIRST + i);
    }
    if (l->fd < 0 && !s->open) {
        *l = (struct joins_line){.fd = -1};
        vsock_release(j->vsock, FIRST + i);
    }
}

void joins_watch(const struct joins *j, struct pollfd *fds)
{
    bool free = j->listener >= 0 && spare(j) >= 0;
    fds[0] = (struct pollfd){.fd = free ? j->listener : -1, .events = POLLIN};
    for (unsigned i = 0; i < VSOCK_JOINED; i++) {
        const struct joins_line *l = &j->lines[i];
        bool in = l->fd >= 0 && vsock_room(j->vsock, FIRST + i) > 0;
        short events = (short)((in ? POLLIN : 0) | (l->full ? POLLOUT : 0));
        fds[1 + i] = (struct pollfd){.fd = events ? l->fd : -1, .events = events};
    }
}

void joins_step(struct joins *j, const struct pollfd *fds)
{
    if (j->listener < 0)
        return;
    if (fds[0].revents)
        take_one(j);
    for (unsigned i = 0; i < VSOCK_JOINED; i++)
        step_line(j, i, fds[1 + i].revents);
    vsock_flush(j->vsock);
}
