/* A request that waits for its key's turn (AC-4): what it was for may be gone when it comes. */
#include "daemon/api/route.h"
#include "daemon/server/server.h"
#include "world.h"

#include <poll.h>

static struct server *server;
static int client;
static struct box *box;
static unsigned turns;

/* Another request of the same key uses up its part of every round. */
static void spend(struct loop_task *t)
{
    loop_share_use(w.loop, account_share(account_of(core_accounts(w.core), &owner)), 1000000);
    if (turns == 1)
        ward_end(ward_of(box));
    if (turns && ++turns > 20)
        return;
    loop_defer(w.loop, t);
}
static struct loop_task spender = {.fn = spend};

static int auth(void *ctx, const struct http_request *r, struct auth *ret, int *ret_status)
{
    int result = api_auth(ctx, r, ret, ret_status);
    cr_assert_eq(result, 0);
    spend(&spender);
    turns = 1;
    return result;
}

static void begin(void)
{
    struct sockaddr_storage name = {.ss_family = AF_UNIX};
    socklen_t len = sizeof(sa_family_t);
    world_begin();
    box = make_box();
    struct server_limits limits = {.accounts = core_accounts(w.core)};
    cr_assert_eq(server_new(&server, w.loop, &limits, auth, api_serve, w.core, NULL), 0);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&name, len), 0); /* the kernel chooses a name */
    cr_assert_eq(listen(fd, 5), 0);
    len = sizeof name;
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&name, &len), 0);
    cr_assert_eq(server_listen(server, fd, true, NULL), 0);
    client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    cr_assert_eq(connect(client, (struct sockaddr *)&name, len), 0);
}

static void end(void)
{
    close(client);
    settle();
    server_free(server);
    world_end();
}

Test(turn, the_sandbox_may_end_while_a_request_for_it_waits, .init = begin, .fini = end)
{
    char text[4096], expected[64];
    snprintf(expected, sizeof expected, "sandbox %s is not there", box_info(box)->id);
    int n = snprintf(text, sizeof text,
                     "GET /files?path=/x HTTP/1.1\r\nHost: localhost\r\nE2b-Sandbox-Id: %s\r\n"
                     "E2b-Sandbox-Port: 49983\r\nX-Access-Token: %s\r\n\r\n",
                     box_info(box)->id, box_info(box)->token);
    cr_assert_eq(send(client, text, (size_t)n, MSG_NOSIGNAL), n);
    settle();
    cr_assert_gt(turns, 1, "it waited");
    ssize_t got = recv(client, text, sizeof text - 1, MSG_DONTWAIT);
    cr_assert_gt(got, 0);
    text[got] = '\0';
    cr_assert_not_null(strstr(text, " 502 "), "%s", text);
    cr_assert_not_null(strstr(text, expected), "%s", text);
}
