/* A client on a real connection, whose requests go to the test's own handler. */
#pragma once

#include "daemon/api/call.h"
#include "daemon/server/server.h"
#include "world.h"

static struct server *server;
static struct sockaddr_storage server_name;
static socklen_t server_name_len;
static int client = -1;
static void (*handler)(struct call *call);
static struct call *last;
static const struct route route = {.method = "POST", .path = "/x", .style = ERRORS_API};

static int auth(void *ctx, const struct http_request *r, struct auth *ret, int *ret_status)
{
    (void)ctx, (void)r, (void)ret_status;
    ret->key = &owner;
    return 0;
}

static void serve(void *ctx, struct exchange *x)
{
    last = call_new(ctx, x, &route);
    handler(last);
}

static void client_leave(void)
{
    if (client >= 0)
        close(client);
    client = -1;
}

static void client_connect(void)
{
    client_leave();
    client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    cr_assert_eq(connect(client, (struct sockaddr *)&server_name, server_name_len), 0);
}

static void begin(void)
{
    world_begin();
    struct server_limits limits = {.accounts = core_accounts(w.core)};
    cr_assert_eq(server_new(&server, w.loop, &limits, auth, serve, w.core, NULL), 0);
    /* The kernel chooses a name. */
    server_name = (struct sockaddr_storage){.ss_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&server_name, sizeof(sa_family_t)), 0);
    cr_assert_eq(listen(fd, 5), 0);
    server_name_len = sizeof server_name;
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&server_name, &server_name_len), 0);
    cr_assert_eq(server_listen(server, fd, true, NULL), 0);
    client_connect();
}

static void end(void)
{
    client_leave();
    settle();
    server_free(server);
    world_end();
}

static void request_bytes(const char *body, size_t len)
{
    char text[2048];
    int n = snprintf(text, sizeof text,
                     "POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n", len);
    memcpy(text + n, body, len);
    cr_assert_eq(send(client, text, (size_t)n + len, MSG_NOSIGNAL), (ssize_t)((size_t)n + len));
    settle();
}

static void request(const char *body)
{
    request_bytes(body, strlen(body));
}

static const char *answer(void)
{
    static char text[4096];
    ssize_t n = recv(client, text, sizeof text - 1, MSG_DONTWAIT);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static uint64_t held(void)
{
    return account_of(core_accounts(w.core), &owner)->used[ACCOUNT_BYTES];
}
