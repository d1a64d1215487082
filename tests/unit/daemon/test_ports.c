/* A connection to a port inside, of which the sandbox kept a copy: the front never waits in it. */
#include "daemon/e2b/ports.c"

#include "../../lib/unit/shared_socket.h"

static struct relay relay;

static struct shared_socket begin(void)
{
    struct shared_socket s = shared_socket();
    relay.io.fd = s.ours;
    relay.activity.ended = true; /* there is no loop here to be told of it */
    buf_init(&relay.up, 1 << 20);
    return s;
}

Test(ports, a_request_that_is_not_taken_does_not_hold_up_the_front)
{
    struct shared_socket s = begin();
    fill(&s);
    waits(&s, false);
    buf_str(&relay.up, "GET / HTTP/1.1\r\n\r\n");
    flush_up(&relay);
    cr_expect_eq(up_waiting(&relay), 18, "it waits, and not the front");
    buf_done(&relay.up);
}

Test(ports, an_answer_that_is_taken_away_does_not_hold_up_the_front)
{
    struct shared_socket s = begin();
    waits(&s, true);
    read_down(&relay);
    cr_expect_eq(relay.down.len, 0);
}
