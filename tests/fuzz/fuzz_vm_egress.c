/* Any packets from the guest to the streams that carry connections and names, with real sockets
 * behind them. Whatever they claim, a stream holds no more than its window, lines are as many as
 * there are streams, and what ends gives its place back. */
#include "engines/vm/egress.h"
#include "vm_driver.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct vsock vsock;
static struct egress egress;
static int peers[VSOCK_CARRIED], peer_count;

/* In the place of brig-proxy: one end is kept, read and written below. */
static int dial(int family, const struct guest_target *to)
{
    int pair[2];
    (void)family;
    if (to->address[0] == 0xff || peer_count == (int)VSOCK_CARRIED ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0)
        return -ECONNREFUSED;
    peers[peer_count++] = pair[1];
    return pair[0];
}

static void check(void)
{
    for (unsigned i = 0; i < VSOCK_STREAMS; i++) {
        const struct vsock_stream *s = &vsock.streams[i];
        if (s->from_len > VSOCK_WINDOW || s->to_len > VSOCK_WINDOW)
            abort();
        bool carries = i >= VSOCK_FIXED && i < VSOCK_FIXED + VSOCK_CARRIED;
        if (carries && !s->held && egress.lines[i - VSOCK_FIXED].fd >= 0)
            abort(); /* nobody's, and still open */
    }
}

/* The other side takes some, says some, or goes. */
static void play_peers(uint8_t how)
{
    char piece[5000] = "answer";
    for (int i = 0; i < peer_count; i++) {
        if (peers[i] < 0)
            continue;
        if (how & 1)
            (void)!read(peers[i], piece, sizeof piece);
        if (how & 2)
            (void)!send(peers[i], piece, sizeof piece, MSG_NOSIGNAL);
        if (how & 4)
            shutdown(peers[i], SHUT_WR);
        if (how & 8) {
            close(peers[i]);
            peers[i] = -1;
        }
    }
}

static void step(void)
{
    struct pollfd fds[EGRESS_FDS];
    egress_watch(&egress, fds);
    while (poll(fds, EGRESS_FDS, 0) < 0)
        if (errno != EINTR) /* the fuzzer's own timer */
            abort();
    egress_step(&egress, fds);
    check();
}

static void finish(struct driver *v)
{
    for (unsigned i = 0; i < VSOCK_CARRIED; i++)
        if (egress.lines[i].fd >= 0)
            close(egress.lines[i].fd);
    while (peer_count > 0)
        if (peers[--peer_count] >= 0)
            close(peers[peer_count]);
    close(egress.names_fd);
    free(v->memory.host);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct driver v = {0};
    struct err err = ERR_INIT;
    int names[2];
    driver_memory(&v);
    vsock_init(&vsock, &v.memory);
    if (egress_open(&egress, &vsock, false, true, &err) < 0 ||
        socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, names) < 0)
        abort();
    egress.dial = dial;
    egress.names_fd = names[0];
    driver_start(&v, &vsock.device);
    for (size_t at = 0; at + 2 < size;) {
        uint8_t how = data[at + 1];
        if (how & 128)
            driver_buffers(&v, 0);
        at += driver_packet(&v, 31, data + at, size - at);
        play_peers(how >> 5 & 3);
        if (how == 0xff)
            play_peers(4);
        if (how == 0xfe)
            play_peers(8);
        if (how & 64)
            (void)!send(names[1], data, size < 600 ? size : 600, MSG_NOSIGNAL);
        step();
    }
    close(names[1]);
    finish(&v);
    return 0;
}
