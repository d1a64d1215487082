#include "network/channel.h"

#include "../../lib/unit/packets.h"
#include "base/cleanup.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

static struct channel_msg msg;

static int receive_raw(const void *data, size_t len, size_t fds)
{
    size_t before = open_fds();
    send_raw(data, len, fds);
    struct err err = ERR_INIT;
    int fd = -1;
    int r = channel_receive(pair[1], &msg, &fd, &err);
    if (r < 0)
        cr_assert_eq(open_fds(), before, "no descriptor stays behind");
    if (fd >= 0)
        close(fd);
    return r;
}

Test(channel, carries_text_numbers_and_an_error)
{
    open_pair();
    struct err why = ERR_INIT, err = ERR_INIT;
    err_set(&why, ERR_POLICY, "because");
    cr_assert_eq(channel_send(pair[0], CH_EVENT, 7, 443, "{\"a\":1}", -1, &why), 0);
    int fd = 99;
    cr_assert_eq(channel_receive(pair[1], &msg, &fd, &err), 1);
    cr_assert_eq(fd, -1);
    cr_assert_eq(msg.type, CH_EVENT);
    cr_assert_eq(msg.value, 7);
    cr_assert_eq(msg.port, 443);
    cr_assert_str_eq(msg.text, "{\"a\":1}");
    cr_assert_str_eq(msg.err.message, "because");
}

Test(channel, carries_the_longest_text_and_no_longer)
{
    open_pair();
    static char text[CHANNEL_TEXT_MAX + 2];
    memset(text, 'x', CHANNEL_TEXT_MAX);
    cr_assert_eq(channel_send(pair[0], CH_EVENT, 0, 0, text, -1, NULL), 0);
    int fd;
    cr_assert_eq(channel_receive(pair[1], &msg, &fd, NULL), 1);
    cr_assert_eq(msg.text_len, CHANNEL_TEXT_MAX);
    cr_assert_str_eq(msg.text, text);
    text[CHANNEL_TEXT_MAX] = 'x';
    cr_assert_eq(channel_send(pair[0], CH_EVENT, 0, 0, text, -1, NULL), -EMSGSIZE);
}

Test(channel, passes_one_descriptor_that_is_closed_on_exec)
{
    open_pair();
    cr_assert_eq(channel_send(pair[0], CH_LISTENER, LISTENER_PROXY, 0, NULL, 0, NULL), 0);
    int fd = -1;
    cr_assert_eq(channel_receive(pair[1], &msg, &fd, NULL), 1);
    cr_assert_geq(fd, 0);
    cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    cr_assert_str_eq(msg.text, "");
}

Test(channel, says_when_there_is_nothing_and_when_it_is_over)
{
    open_pair();
    int fd;
    cr_assert_eq(channel_receive(pair[1], &msg, &fd, NULL), -EAGAIN);
    close(pair[0]);
    cr_assert_eq(channel_receive(pair[1], &msg, &fd, NULL), 0);
}

Test(channel, says_when_the_other_side_does_not_read)
{
    open_pair();
    int r = 0;
    for (int i = 0; i < 100000 && r == 0; i++)
        r = channel_send(pair[0], CH_EVENT, 0, 0, "x", -1, NULL);
    cr_assert_eq(r, -EAGAIN);
}

Test(channel, refuses_what_is_no_message)
{
    open_pair();
    static struct channel_msg bad;
    memset(&bad, 'a', sizeof bad);
    cr_assert_lt(receive_raw(&bad, 1, 0), 0);
    cr_assert_lt(receive_raw(&bad, CHANNEL_HEAD, 0), 0);
    memset(&bad, 0, sizeof bad);
    cr_assert_lt(receive_raw(&bad, CHANNEL_HEAD, 0), 0, "type 0");
    bad.type = CH_TYPE_COUNT;
    cr_assert_lt(receive_raw(&bad, CHANNEL_HEAD, 0), 0, "unknown type");
    bad.type = CH_EVENT;
    cr_assert_eq(receive_raw(&bad, CHANNEL_HEAD, 0), 1, "control");
    bad.text_len = 5;
    cr_assert_lt(receive_raw(&bad, CHANNEL_HEAD + 4, 0), 0, "text shorter than said");
    cr_assert_lt(receive_raw(&bad, CHANNEL_HEAD + 5, 0), 0, "NULs in the text");
    memset(bad.text, 'x', sizeof bad.text);
    cr_assert_eq(receive_raw(&bad, CHANNEL_HEAD + 5, 0), 1, "control");
    cr_assert_str_eq(msg.text, "xxxxx");
    bad.text_len = CHANNEL_TEXT_MAX + 1;
    cr_assert_lt(receive_raw(&bad, CHANNEL_HEAD + CHANNEL_TEXT_MAX + 1, 0), 0, "too long");
}

Test(channel, terminates_the_texts_of_an_error)
{
    open_pair();
    static struct channel_msg bad;
    memset(&bad.err, 'a', sizeof bad.err);
    bad.type = CH_FAIL;
    cr_assert_eq(receive_raw(&bad, CHANNEL_HEAD, 0), 1);
    cr_assert_eq(strlen(msg.err.message), sizeof msg.err.message - 1);
    cr_assert_eq(strlen(msg.err.hint), sizeof msg.err.hint - 1);
    cr_assert_eq(msg.err.code, ERR_PROTOCOL);
    cr_assert_eq(msg.err.boundary, BOUNDARY_NONE);
}

Test(channel, takes_exactly_as_many_descriptors_as_the_type_needs)
{
    open_pair();
    static struct channel_msg bad;
    bad.type = CH_LISTENER;
    cr_assert_lt(receive_raw(&bad, CHANNEL_HEAD, 0), 0, "none");
    cr_assert_eq(receive_raw(&bad, CHANNEL_HEAD, 1), 1, "control");
    cr_assert_lt(receive_raw(&bad, CHANNEL_HEAD, 2), 0, "two");
    cr_assert_lt(receive_raw(&bad, CHANNEL_HEAD, 20), 0, "twenty");
    bad.type = CH_EVENT;
    cr_assert_lt(receive_raw(&bad, CHANNEL_HEAD, 1), 0, "one that nobody wants");
}
