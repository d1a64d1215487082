/* Any packets from the guest to the streams by which programs are joined, with connections behind
 * them. Whatever they claim, a stream holds no more than its window, what ends gives its place
 * back, and who connects meets a stream that nobody has used. */
#include "engines/vm/joins.h"
#include "vm_driver.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FIRST     (VSOCK_FIXED + VSOCK_CARRIED)
#define PEERS_MAX 32

static struct vsock vsock;
static struct joins joins;
static int peers[PEERS_MAX], peer_count;

static void connect_one(void)
{
    struct sockaddr_un full = {.sun_family = AF_UNIX};
    if (peer_count == PEERS_MAX)
        return;
    memcpy(full.sun_path + 1, joins.name, JOIN_NAME_LEN);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (connect(fd, (struct sockaddr *)&full,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + JOIN_NAME_LEN)) < 0)
        abort(); /* there is room for all of them */
    peers[peer_count++] = fd;
}

static void check(void)
{
    for (unsigned i = 0; i < VSOCK_STREAMS; i++)
        if (vsock.streams[i].from_len > VSOCK_WINDOW || vsock.streams[i].to_len > VSOCK_WINDOW)
            abort();
    for (unsigned i = 0; i < VSOCK_JOINED; i++)
        if (!vsock.streams[FIRST + i].held && (joins.lines[i].fd >= 0 || joins.lines[i].used))
            abort();
}

static void step(void)
{
    struct pollfd fds[JOINS_FDS];
    joins_watch(&joins, fds);
    while (poll(fds, JOINS_FDS, 0) < 0)
        if (errno != EINTR) /* the fuzzer's own timer */
            abort();
    joins_step(&joins, fds);
    check();
}

/* Who connects, reads, writes, or goes. */
static void play(uint8_t how)
{
    char piece[5000] = "frames";
    if (how & 0x20)
        connect_one();
    for (int i = 0; i < peer_count; i++) {
        if ((how & 0x40) && peers[i] >= 0)
            (void)!read(peers[i], piece, sizeof piece);
        if ((how & 0x80) && peers[i] >= 0)
            (void)!write(peers[i], piece, sizeof piece);
        if ((how & 0xe0) == 0xe0 && peers[i] >= 0) {
            close(peers[i]);
            peers[i] = -1;
        }
    }
}

static void finish(struct driver *v)
{
    for (unsigned i = 0; i < VSOCK_JOINED; i++)
        if (joins.lines[i].fd >= 0)
            close(joins.lines[i].fd);
    while (peer_count > 0)
        if (peers[--peer_count] >= 0)
            close(peers[peer_count]);
    close(joins.listener);
    free(v->memory.host);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct driver v = {0};
    struct err err = ERR_INIT;
    signal(SIGPIPE, SIG_IGN);
    driver_memory(&v);
    vsock_init(&vsock, &v.memory);
    joins_init(&joins, &vsock);
    driver_start(&v, &vsock.device);
    if (joins_open(&joins, &err) < 0)
        abort();
    for (size_t at = 0; at + 2 < size;) {
        driver_buffers(&v, 0);
        play(data[at + 1]);
        at += driver_packet(&v, 31, data + at, size - at);
        step();
    }
    step();
    finish(&v);
    return 0;
}
