/* Joined sockets, of which the sandbox kept a copy of its own: the front never waits in one. */
#include "daemon/e2b/tunnel.c"

#include "../../lib/unit/shared_socket.h"

static struct tunnel tunnel;

static struct shared_socket begin(void)
{
    struct shared_socket s = shared_socket();
    for (int i = 0; i < 2; i++) {
        tunnel.side[i].tunnel = &tunnel;
        buf_init(&tunnel.side[i].out, 1 << 20);
    }
    tunnel.side[1].io.fd = s.ours;
    return s;
}

Test(tunnel, what_is_not_taken_does_not_hold_up_the_front)
{
    int client[2];
    struct shared_socket s = begin();
    struct side *inside = &tunnel.side[1];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, client), 0);
    cr_assert_eq(write(client[1], "client", 6), 6);
    tunnel.side[0].io.fd = client[0];
    fill(&s);
    waits(&s, false);
    cr_expect(side_read(&tunnel.side[0]));
    cr_expect_eq(waiting(inside), 6, "as it came from the client");
    cr_expect(side_flush(inside));
    cr_expect_eq(waiting(inside), 6, "once more");
    buf_done(&inside->out);
}

Test(tunnel, what_is_taken_away_does_not_hold_up_the_front)
{
    struct shared_socket s = begin();
    waits(&s, true);
    cr_expect(side_read(&tunnel.side[1]));
    cr_expect_eq(waiting(&tunnel.side[0]), 0);
}
