/* What `brig net` prints: everything that the record has, and no byte that a terminal would obey.
 */
#include "base/cleanup.h"
#include "cli/evidence/net_text.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct json *parse(const char *text)
{
    struct json *tree = NULL;
    struct err err = ERR_INIT;
    cr_assert_eq(json_parse(text, strlen(text), NULL, &tree, &err), 0, "%s", err.message);
    return tree;
}

static void text_is(const char *record, const char *expected)
{
    cleanup_buf struct buf out;
    struct json *tree = parse(record);
    buf_init(&out, 1 << 20);
    net_text(tree, false, &out);
    json_free(tree);
    cr_assert_str_eq(buf_text(&out), expected);
}

Test(net, a_record_is_shown_whole)
{
    text_is(
        "{\"sandbox_id\": \"brig-1\", \"state\": \"ended\", \"started\": \"2026-01-01T00:00:00Z\", "
        "\"rules\": [\"https://a.org:443\", \"db:5432=10.0.0.5\"], \"network\": {\"total\": 4, "
        "\"allowed\": 2, \"denied\": 1, \"errors\": 1, \"by_method\": {\"GET\": 3, \"dns\": 1}, "
        "\"by_status\": {\"200\": 2}, \"by_host\": {\"a.org\": 3, \"evil.example.org\": 1}, "
        "\"denied_list\": [{\"what\": \"dns evil.example.org\", \"reason\": \"no-rule\", \"text\": "
        "\"no rule for this host\", \"hint\": \"add --allow evil.example.org\", \"count\": 2}], "
        "\"recent\": [{\"time_ms\": 5, \"entry\": \"proxy\", \"verdict\": \"allowed\", \"scheme\": "
        "\"https\", \"method\": \"GET\", \"host\": \"a.org\", \"port\": 443, \"path\": \"/x\", "
        "\"status\": 200, \"up\": 10, \"down\": 2048}, {\"time_ms\": 12345, \"entry\": \"dns\", "
        "\"verdict\": \"denied\", \"host\": \"evil.example.org\", \"text\": \"no rule for this "
        "host\"}, {\"time_ms\": 12346, \"entry\": \"transparent\", \"verdict\": \"error\", "
        "\"scheme\": \"tcp\", \"host\": \"2001:db8::1\", \"port\": 22, \"note\": \"refused\"}], "
        "\"bytes_up\": 1536, \"bytes_down\": 5242880, \"lost\": 3}}",
        "sandbox    brig-1, ended, started 2026-01-01T00:00:00Z\n"
        "rules      https://a.org:443\n"
        "           db:5432=10.0.0.5\n"
        "requests   4: 2 allowed, 1 denied, 1 failed\n"
        "bytes      1.5 KiB sent, 5.0 MiB received\n"
        "lost       3 events could not be recorded\n"
        "by method  GET 3  dns 1\n"
        "by status  200 2\n"
        "\n"
        "By host\n"
        "  a.org                  3\n"
        "  evil.example.org       1\n"
        "\n"
        "Denied\n"
        "  dns evil.example.org (2 times): no rule for this host\n"
        "      add --allow evil.example.org\n"
        "\n"
        "Recent\n"
        "      0.005 s  allowed  GET https://a.org:443/x  200  10 B up, 2.0 KiB down\n"
        "     12.345 s  denied   dns evil.example.org     no rule for this host\n"
        "     12.346 s  error    tcp://[2001:db8::1]:22   refused\n");
}

Test(net, half_a_record_is_shown_as_far_as_it_goes)
{
    text_is("{}", "sandbox    , ended, started \nrules      none: nothing is allowed\n");
    text_is(
        "{\"network\": 5, \"rules\": [5]}",
        "sandbox    , ended, started \nrules      \nrequests   0: 0 allowed, 0 denied, 0 failed\n"
        "bytes      0 B sent, 0 B received\n");
}

Test(net, nothing_in_a_record_commands_the_terminal)
{
    cleanup_buf struct buf out;
    struct json *tree = parse(
        "{\"sandbox_id\": \"\\u001b[2J\", \"started\": \"\\u009b\", \"rules\": [\"\\n\\u001b\"], "
        "\"network\": {\"by_method\": {\"\\u001b\": 1}, \"by_host\": {\"\\u001b]0;x\": 1}, "
        "\"denied_list\": [{\"what\": \"\\u001b\", \"text\": \"\\u001b\", \"hint\": \"\\u001b\"}], "
        "\"recent\": [{\"verdict\": \"\\u001b\", \"host\": \"\\u001b\", \"note\": "
        "\"\\r\\u001b\"}]}}");
    buf_init(&out, 1 << 20);
    net_text(tree, false, &out);
    net_line("\033x", tree, &out);
    json_free(tree);
    cr_assert_null(strchr(buf_text(&out), '\033'), "%s", buf_text(&out));
    cr_assert_null(strchr(buf_text(&out), '\r'));
    cr_assert_null(strstr(buf_text(&out), "\xc2\x9b"));
}

Test(net, colour_is_only_there_when_asked_for)
{
    cleanup_buf struct buf out;
    struct json *tree = parse("{\"network\": {\"by_host\": {\"a.org\": 1}}}");
    buf_init(&out, 1 << 20);
    net_text(tree, true, &out);
    json_free(tree);
    cr_assert(strstr(buf_text(&out), "\033[1mBy host\033[0m"));
}

Test(net, a_run_whose_supervisor_is_gone_is_not_running)
{
    char text[100];
    snprintf(text, sizeof text, "{\"state\": \"running\", \"supervisor\": %d}", getpid());
    struct json *mine = parse(text);
    cr_assert_str_eq(net_state(mine), "running");
    json_free(mine);
    struct json *gone = parse("{\"state\": \"running\", \"supervisor\": 2147483646}");
    cr_assert_str_eq(net_state(gone), "gone");
    json_free(gone);
    struct json *ended = parse("{\"state\": \"ended\", \"supervisor\": 0}");
    cr_assert_str_eq(net_state(ended), "ended");
    json_free(ended);
}
