#include "wire/wire.h"

#include "../../lib/unit/packets.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct wire_msg msg;

static int receive_raw(const void *data, size_t len, size_t fds)
{
    size_t before = open_fds();
    send_raw(data, len, fds);
    int r = wire_receive(pair[1], &msg, 0);
    if (r < 0)
        cr_assert_eq(open_fds(), before, "no descriptor stays behind");
    return r;
}

Test(wire, carries_text_numbers_and_descriptors)
{
    open_pair();
    int fds[2] = {pair[0], pair[1]};
    const char text[] = "{\"id\":\"x\"}";
    cr_assert_eq(wire_send(pair[0], WIRE_LAUNCH, 7, -5, text, strlen(text), fds, 2), 0);
    cr_assert_eq(wire_receive(pair[1], &msg, 0), 1);
    cr_assert_eq(msg.type, WIRE_LAUNCH);
    cr_assert_eq(msg.request, 7);
    cr_assert_eq(msg.value, -5);
    cr_assert_str_eq(msg.text, text);
    cr_assert_eq(msg.text_len, strlen(text));
    cr_assert_eq(msg.fd_count, 2);
    cr_assert(fcntl(msg.fds[0], F_GETFD) & FD_CLOEXEC);
    cr_assert_eq(msg.fds[2], -1);
    int mine = wire_steal_fd(&msg, 0);
    cr_assert_geq(mine, 0);
    cr_assert_eq(wire_steal_fd(&msg, 0), -1);
    cr_assert_eq(wire_steal_fd(&msg, 5), -1);
    int other = msg.fds[1];
    wire_close_fds(&msg);
    cr_assert_lt(fcntl(other, F_GETFD), 0);
    cr_assert_geq(fcntl(mine, F_GETFD), 0);
}

Test(wire, carries_the_longest_text_and_no_longer)
{
    open_pair();
    char *text = calloc(1, WIRE_TEXT_MAX + 2);
    memset(text, 'a', WIRE_TEXT_MAX + 1);
    cr_assert_eq(wire_send(pair[0], WIRE_DONE, 1, 0, text, WIRE_TEXT_MAX, NULL, 0), 0);
    cr_assert_eq(wire_receive(pair[1], &msg, 0), 1);
    cr_assert_eq(msg.text_len, WIRE_TEXT_MAX);
    cr_assert_eq(strlen(msg.text), WIRE_TEXT_MAX);
    cr_assert_eq(wire_send(pair[0], WIRE_DONE, 1, 0, text, WIRE_TEXT_MAX + 1, NULL, 0), -EMSGSIZE);
    cr_assert_eq(wire_send(pair[0], WIRE_DONE, 1, 0, NULL, 0, pair, WIRE_FDS_MAX + 1), -EMSGSIZE);
    free(text);
}

Test(wire, tells_nothing_yet_from_the_end)
{
    open_pair();
    cr_assert_eq(wire_receive(pair[1], &msg, 0), -EAGAIN);
    close(pair[0]);
    cr_assert_eq(wire_receive(pair[1], &msg, 0), 0);
    cr_assert_eq(wire_send(pair[1], WIRE_STOP, 0, 0, NULL, 0, NULL, 0), -EPIPE);
}

Test(wire, says_when_the_socket_is_full)
{
    open_pair();
    int r = 0;
    for (int i = 0; i < 100000 && r == 0; i++)
        r = wire_send(pair[0], WIRE_STOP, 0, 0, NULL, 0, NULL, 0);
    cr_assert_eq(r, -EAGAIN);
}

Test(wire, refuses_nonsense_and_closes_what_came_with_it)
{
    open_pair();
    struct wire_packet good = {.type = WIRE_STOP};
    struct {
        struct wire_packet head;
        char text[4];
    } p = {.head = {.type = WIRE_STOP, .text_len = 4}, .text = "abcd"};
    cr_assert_eq(receive_raw(&good, sizeof good, 0), 1, "the control: this one is fine");
    cr_assert_eq(receive_raw(&good, sizeof good, WIRE_FDS_MAX), 1);
    wire_close_fds(&msg);
    cr_assert_eq(receive_raw(&p, sizeof p.head + 4, 1), 1);
    wire_close_fds(&msg);
    cr_assert_eq(receive_raw(&good, sizeof good, WIRE_FDS_MAX + 1), -EPROTO);
    cr_assert_eq(receive_raw(&good, sizeof good, 30), -EPROTO);
    cr_assert_eq(receive_raw(&good, sizeof good - 1, 2), -EPROTO);
    cr_assert_eq(receive_raw(&p, sizeof p.head + 3, 2), -EPROTO);
    p.text[2] = '\0';
    cr_assert_eq(receive_raw(&p, sizeof p.head + 4, 2), -EPROTO);
    good.zero = 1;
    cr_assert_eq(receive_raw(&good, sizeof good, 2), -EPROTO);
    good = (struct wire_packet){.type = WIRE_TYPE_COUNT};
    cr_assert_eq(receive_raw(&good, sizeof good, 2), -EPROTO);
    good = (struct wire_packet){.type = WIRE_NONE};
    cr_assert_eq(receive_raw(&good, sizeof good, 2), -EPROTO);
}

Test(wire, parses_what_it_sends)
{
    open_pair();
    static char packet[1024];
    cr_assert_eq(wire_send(pair[0], WIRE_EVENT, 3, 9, "{}", 2, NULL, 0), 0);
    ssize_t n = recv(pair[1], packet, sizeof packet, 0);
    cr_assert_eq(wire_parse(packet, (size_t)n, &msg), 0);
    cr_assert_eq(msg.type, WIRE_EVENT);
    cr_assert_eq(msg.request, 3);
    cr_assert_eq(msg.value, 9);
    cr_assert_str_eq(msg.text, "{}");
    cr_assert_eq(wire_parse(packet, (size_t)n - 1, &msg), -EPROTO);
}

Test(wire, names_every_type)
{
    for (int t = WIRE_NONE + 1; t < WIRE_TYPE_COUNT; t++)
        cr_assert_str_neq(wire_type_name((enum wire_type)t), "unknown");
    cr_assert_str_eq(wire_type_name(WIRE_SPAWN), "spawn");
    cr_assert_str_eq(wire_type_name(WIRE_TYPE_COUNT), "unknown");
}

Test(wire, carries_an_error)
{
    struct err err = ERR_INIT, back;
    errno = EACCES;
    err_sys(&err, "open \"x\" \xff");
    err_at(&err, BOUNDARY_FILESYSTEM);
    err_hint(&err, "grant it");
    struct buf text;
    buf_init(&text, WIRE_TEXT_MAX);
    wire_err_write(&err, &text);
    cr_assert_eq(wire_err_read(text.data, text.len, &back), 0);
    cr_assert_eq(back.code, ERR_SYSTEM);
    cr_assert_eq(back.sys_errno, EACCES);
    cr_assert_eq(back.boundary, BOUNDARY_FILESYSTEM);
    cr_assert(strncmp(back.message, "open \"x\" ", 9) == 0);
    cr_assert_str_eq(back.hint, "grant it");
    buf_done(&text);
}

Test(wire, a_failure_without_a_reason_is_still_one)
{
    struct err err;
    cr_assert_lt(wire_err_read("", 0, &err), 0);
    cr_assert_eq(err.code, ERR_PROTOCOL);
    cr_assert_lt(wire_err_read("[]", 2, &err), 0);
    cr_assert_eq(err.code, ERR_PROTOCOL);
    cr_assert_eq(wire_err_read("{}", 2, &err), 0);
    cr_assert_eq(err.code, ERR_PROTOCOL);
}
