#include "os/rights.h"
#include "wire/handover.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

static int door[2];

static void open_door(void)
{
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, door), 0);
}

static size_t open_fds(void)
{
    size_t count = 0;
    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static const struct peer_address home = {.family = AF_INET, .bytes = {192, 0, 2, 1}};

Test(handover, a_connection_and_who_it_is)
{
    int pair[2], fd = -1;
    struct peer_address from;
    char text[8] = "";
    open_door();
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    cr_assert_eq(handover_send(door[0], &home, pair[1]), 0);
    cr_assert_eq(handover_receive(door[1], &from, &fd), 1);
    cr_assert_eq(from.family, AF_INET);
    cr_assert_arr_eq(from.bytes, home.bytes, sizeof home.bytes);
    cr_assert(fcntl(fd, F_GETFL) & O_NONBLOCK);
    cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    cr_assert_eq(write(pair[0], "hello", 5), 5);
    cr_assert_eq(read(fd, text, sizeof text), 5);
    cr_assert_str_eq(text, "hello");
    cr_assert_eq(handover_receive(door[1], &from, &fd), -EAGAIN);
    close(door[0]);
    cr_assert_eq(handover_receive(door[1], &from, &fd), 0);
}

/* As whoever has taken brig-tls over could: any bytes, any descriptors. */
static int receive_raw(const void *data, size_t len, const int *fds, unsigned count)
{
    struct iovec part = {(void *)(uintptr_t)data, len};
    struct peer_address from;
    int fd = -1;
    size_t before = open_fds();
    cr_assert_geq(rights_send(door[0], &part, 1, fds, count, 0), 0);
    int r = handover_receive(door[1], &from, &fd);
    if (fd >= 0)
        close(fd);
    cr_assert_eq(open_fds(), before, "a descriptor stays");
    return r;
}

Test(handover, nothing_but_one_stream_is_taken)
{
    const struct handover_packet packet = {.family = 4, .address = {127, 0, 0, 1}};
    struct handover_packet nonsense = {.family = 5};
    int stream[2], packets[2], pipes[2];
    open_door();
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, stream), 0);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, packets), 0);
    cr_assert_eq(pipe2(pipes, O_CLOEXEC), 0);
    int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct sockaddr any = {.sa_family = AF_UNIX};
    cr_assert_eq(bind(listening, &any, sizeof any.sa_family), 0);
    cr_assert_eq(listen(listening, 1), 0);
    const int bad[] = {packets[0], pipes[0], tcp, listening};

    cr_assert_eq(receive_raw(&packet, sizeof packet, stream, 1), 1, "control");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_assert_eq(receive_raw(&packet, sizeof packet, &bad[i], 1), -EPROTO, "%zu", i);
    cr_assert_eq(receive_raw(&packet, sizeof packet, stream, 2), -EPROTO);
    cr_assert_eq(receive_raw(&packet, sizeof packet, NULL, 0), -EPROTO);
    cr_assert_eq(receive_raw(&packet, 8, stream, 1), -EPROTO);
    cr_assert_eq(receive_raw("a packet that is longer than it may be", 38, stream, 1), -EPROTO);
    cr_assert_eq(receive_raw(&nonsense, sizeof nonsense, stream, 1), -EPROTO);
    cr_assert_eq(receive_raw(&packet, sizeof packet, stream, 1), 1, "the next one is taken");
}

Test(handover, each_address_has_one_form)
{
    struct peer_address got;
    struct handover_packet p = {.family = 6, .address = {[10] = 0xff, [11] = 0xff, 192, 0, 2, 1}};
    cr_assert_eq(handover_parse(&p, sizeof p, &got), -EPROTO);
    p = (struct handover_packet){.family = 4, .address = {192, 0, 2, 1, 1}};
    cr_assert_eq(handover_parse(&p, sizeof p, &got), -EPROTO);
    p = (struct handover_packet){.family = 6, .address = {0x20, 1, 0x0d, 0xb8}};
    cr_assert_eq(handover_parse(&p, sizeof p, &got), 0);
    cr_assert_eq(got.family, AF_INET6);
}
