/* What a run asked of the network: counted, bounded, and readable whatever the proxy says. */
#include "audit/netlog.h"
#include "base/cleanup.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static void free_log(struct netlog **n)
{
    netlog_free(*n);
}
#define cleanup_log __attribute__((cleanup(free_log)))

static struct netlog *new_log(void)
{
    struct netlog *n = NULL;
    cr_assert_eq(netlog_new(&n, NULL), 0);
    return n;
}

static void feed(struct netlog *n, const char *text, struct denial_list *denials)
{
    netlog_add(n, text, strlen(text), denials);
}

static struct json *read_back(const struct netlog *n, bool recent)
{
    cleanup_buf struct buf text;
    struct json_writer w;
    struct json *tree = NULL;
    struct err err = ERR_INIT;
    buf_init(&text, 1 << 20);
    jw_init(&w, &text, false);
    netlog_write_json(n, &w, recent);
    cr_assert_not(text.failed);
    cr_assert_eq(json_parse(buf_text(&text), text.len, NULL, &tree, &err), 0, "%s\n%s", err.message,
                 buf_text(&text));
    return tree;
}

static int64_t number(const struct json *tree, const char *key)
{
    const struct json *j = json_get(tree, key);
    cr_assert(j && json_type(j) == JSON_INT, "%s", key);
    return json_int(j);
}

static const char *text_of(const struct json *tree, const char *key)
{
    const struct json *j = json_get(tree, key);
    cr_assert(j, "%s", key);
    return json_string(j);
}

static const char allowed[] =
    "{\"time_ms\": 5, \"entry\": \"proxy\", \"verdict\": \"allowed\", \"scheme\": \"http\", "
    "\"method\": \"GET\", \"host\": \"a.org\", \"port\": 80, \"path\": \"/x\", \"status\": 200, "
    "\"rule\": \"http://a.org:80\", \"reason\": null, \"text\": null, \"hint\": null, \"note\": "
    "null, \"up\": 10, \"down\": 300, \"ms\": 7}";
static const char denied[] =
    "{\"time_ms\": 6, \"entry\": \"connect\", \"verdict\": \"denied\", \"scheme\": \"https\", "
    "\"method\": null, \"host\": \"evil.org\", \"port\": 443, \"path\": null, \"status\": null, "
    "\"rule\": null, \"reason\": \"no-rule\", \"text\": \"no rule for this host\", \"hint\": "
    "\"add --allow evil.org:443\", \"note\": null, \"up\": 0, \"down\": 0, \"ms\": 0}";
static const char failed[] =
    "{\"time_ms\": 7, \"entry\": \"transparent\", \"verdict\": \"error\", \"scheme\": \"https\", "
    "\"host\": \"a.org\", \"port\": 443, \"note\": \"certificate has expired\"}";

Test(netlog, counts_by_verdict_method_status_and_host)
{
    cleanup_log struct netlog *n = new_log();
    feed(n, allowed, NULL);
    feed(n, allowed, NULL);
    feed(n, denied, NULL);
    feed(n, failed, NULL);
    struct json *tree = read_back(n, true);
    cr_assert_eq(number(tree, "total"), 4);
    cr_assert_eq(number(tree, "allowed"), 2);
    cr_assert_eq(number(tree, "denied"), 1);
    cr_assert_eq(number(tree, "errors"), 1);
    cr_assert_eq(number(tree, "bytes_up"), 20);
    cr_assert_eq(number(tree, "bytes_down"), 600);
    cr_assert_eq(number(tree, "lost"), 0);
    cr_assert_eq(number(json_get(tree, "by_method"), "GET"), 2);
    cr_assert_eq(number(json_get(tree, "by_method"), "tunnel"), 2);
    cr_assert_eq(number(json_get(tree, "by_status"), "200"), 2);
    cr_assert_eq(number(json_get(tree, "by_host"), "a.org"), 3);
    cr_assert_eq(number(json_get(tree, "by_host"), "evil.org"), 1);
    cr_assert_str_eq(json_key_at(json_get(tree, "by_host"), 0), "a.org", "the most frequent first");
    const struct json *recent = json_get(tree, "recent");
    cr_assert_eq(json_count(recent), 4);
    cr_assert_str_eq(text_of(json_at(recent, 2), "hint"), "add --allow evil.org:443");
    cr_assert_str_eq(text_of(json_at(recent, 3), "note"), "certificate has expired");
    json_free(tree);
    tree = read_back(n, false);
    cr_assert_null(json_get(tree, "recent"));
    json_free(tree);
}

Test(netlog, denied_ones_are_listed_once_and_go_to_the_denials)
{
    static struct denial_list list;
    cleanup_log struct netlog *n = new_log();
    feed(n, denied, &list);
    feed(n, denied, &list);
    feed(n, allowed, &list);
    struct json *tree = read_back(n, true);
    const struct json *rows = json_get(tree, "denied_list");
    cr_assert_eq(json_count(rows), 1);
    cr_assert_str_eq(text_of(json_at(rows, 0), "what"), "https://evil.org:443");
    cr_assert_str_eq(text_of(json_at(rows, 0), "reason"), "no-rule");
    cr_assert_str_eq(text_of(json_at(rows, 0), "hint"), "add --allow evil.org:443");
    cr_assert_eq(number(json_at(rows, 0), "count"), 2);
    json_free(tree);
    cr_assert_eq(list.count, 1);
    cr_assert_eq(list.items[0].boundary, BOUNDARY_NETWORK);
    cr_assert_str_eq(list.items[0].what, "https://evil.org:443");
    cr_assert_str_eq(list.items[0].rule, "no rule for this host");
    cr_assert_eq(list.items[0].count, 2);
}

Test(netlog, names_what_was_denied)
{
    static const char *const rows[][2] = {
        {"{\"entry\": \"dns\", \"verdict\": \"denied\", \"host\": \"evil.org\", \"port\": 53}",
         "dns evil.org"},
        {"{\"entry\": \"proxy\", \"verdict\": \"denied\", \"scheme\": \"http\", \"method\": "
         "\"PUT\", "
         "\"host\": \"a.org\", \"port\": 80, \"path\": \"/x\", \"reason\": \"method\"}",
         "PUT http://a.org:80/x"},
        {"{\"entry\": \"proxy\", \"verdict\": \"denied\", \"scheme\": \"http\", \"method\": "
         "\"GET\", "
         "\"host\": \"a.org\", \"port\": 80, \"path\": \"/x\", \"reason\": \"no-rule\"}",
         "GET http://a.org:80"},
        {"{\"entry\": \"transparent\", \"verdict\": \"denied\", \"scheme\": \"tcp\", \"host\": "
         "\"2001:db8::1\", \"port\": 22, \"reason\": \"literal\"}",
         "tcp://[2001:db8::1]:22"},
        {"{\"entry\": \"proxy\", \"verdict\": \"denied\", \"reason\": \"malformed\"}", "(no host)"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct denial_list list = {0};
        cleanup_log struct netlog *n = new_log();
        feed(n, rows[i][0], &list);
        cr_assert_str_eq(list.items[0].what, rows[i][1]);
    }
}

Test(netlog, secrets_that_were_not_to_be_had_are_the_other_boundary)
{
    static const char *const reasons[] = {"credential", "response"};
    for (size_t i = 0; i < 2; i++) {
        struct denial_list list = {0};
        cleanup_log struct netlog *n = new_log();
        char text[200];
        snprintf(text, sizeof text,
                 "{\"entry\": \"proxy\", \"verdict\": \"denied\", \"host\": \"h\", \"reason\": "
                 "\"%s\"}",
                 reasons[i]);
        feed(n, text, &list);
        cr_assert_eq(list.items[0].boundary, BOUNDARY_CREDENTIALS);
    }
}

/* The request went out; its placeholder stayed one. */
Test(netlog, strays_are_told)
{
    cleanup_log struct netlog *n = new_log();
    struct denial_list denials = {0};
    feed(n, allowed, &denials);
    cr_assert_eq(denials.count, 0);
    feed(n,
         "{\"time_ms\": 5, \"entry\": \"proxy\", \"verdict\": \"allowed\", \"scheme\": \"http\", "
         "\"method\": \"GET\", \"host\": \"a.org\", \"port\": 80, \"path\": \"/x\", \"status\": "
         "200, "
         "\"rule\": \"http://a.org:80\", \"reason\": null, \"text\": null, \"hint\": \"the "
         "placeholder "
         "of T went to an origin it is not for\", \"note\": null, \"up\": 1, \"down\": 1, \"ms\": "
         "1}",
         &denials);
    cr_assert_eq(denials.count, 1);
    cr_assert_eq(denials.items[0].boundary, BOUNDARY_CREDENTIALS);
    cr_assert_str_eq(denials.items[0].hint, "the placeholder of T went to an origin it is not for");
}

Test(netlog, nonsense_is_counted_and_dropped)
{
    static const char *const texts[] = {
        "",
        "x",
        "null",
        "[]",
        "{}",
        "{\"entry\": \"proxy\"}",
        "{\"entry\": \"proxy\", \"verdict\": \"fine\"}",
        "{\"entry\": \"pigeon\", \"verdict\": \"allowed\"}",
        "{\"entry\": 5, \"verdict\": \"allowed\"}",
        "{\"entry\": \"proxy\", \"verdict\": \"allowed\", \"host\": 5}",
        "{\"entry\": \"proxy\", \"verdict\": \"allowed\", \"port\": 65536}",
        "{\"entry\": \"proxy\", \"verdict\": \"allowed\", \"port\": -1}",
        "{\"entry\": \"proxy\", \"verdict\": \"allowed\", \"status\": 1000}",
        "{\"entry\": \"proxy\", \"verdict\": \"allowed\", \"up\": 1.5}",
        "{\"entry\": \"proxy\", \"verdict\": \"allowed\", \"host\": {\"a\": [[[]]]}}",
    };
    static struct denial_list list;
    cleanup_log struct netlog *n = new_log();
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        feed(n, texts[i], &list);
    cleanup_free char *huge = calloc(1, 20000);
    memset(huge, ' ', 19999);
    memcpy(huge, "{\"entry\": \"proxy\", \"verdict\": \"allowed\"}", 40);
    feed(n, huge, &list);
    struct json *tree = read_back(n, true);
    cr_assert_eq(number(tree, "total"), 0);
    cr_assert_eq(number(tree, "lost"), (int64_t)ARRAY_LEN(texts) + 1);
    cr_assert_eq(list.count, 0);
    json_free(tree);
    /* Control: the same without the blanks. */
    huge[40] = '\0';
    feed(n, huge, &list);
    tree = read_back(n, true);
    cr_assert_eq(number(tree, "total"), 1);
    json_free(tree);
}

Test(netlog, is_bounded)
{
    static struct denial_list list;
    cleanup_log struct netlog *n = new_log();
    for (int i = 0; i < 1000; i++) {
        char text[300];
        snprintf(
            text, sizeof text,
            "{\"entry\": \"proxy\", \"verdict\": \"denied\", \"scheme\": \"http\", \"method\": "
            "\"M%d\", \"host\": \"h%d.org\", \"port\": 80, \"status\": %d, \"time_ms\": %d}",
            i, i, i % 500 + 100, i);
        feed(n, text, &list);
    }
    feed(n,
         "{\"entry\": \"proxy\", \"verdict\": \"allowed\", \"method\": \"other\", \"host\": "
         "\"other\"}",
         &list);
    struct json *tree = read_back(n, true);
    cr_assert_eq(number(tree, "total"), 1001);
    cr_assert_eq(json_count(json_get(tree, "by_host")), 65);
    cr_assert_eq(number(json_get(tree, "by_host"), "other"), 1000 - 64 + 1);
    cr_assert_eq(number(json_get(tree, "by_method"), "other"), 1000 - 64 + 1);
    cr_assert_str_eq(json_key_at(json_get(tree, "by_host"), 64), "other");
    cr_assert_eq(json_count(json_get(tree, "denied_list")), 65);
    cr_assert_eq(number(json_at(json_get(tree, "denied_list"), 64), "count"), 1000 - 64);
    const struct json *recent = json_get(tree, "recent");
    cr_assert_eq(json_count(recent), 64);
    cr_assert_eq(number(json_at(recent, 0), "time_ms"), 1001 - 64);
    json_free(tree);
}

Test(netlog, keeps_neither_queries_nor_control_characters)
{
    cleanup_log struct netlog *n = new_log();
    feed(n,
         "{\"entry\": \"proxy\", \"verdict\": \"denied\", \"host\": \"a\\u001b[2J\\u009bb\", "
         "\"path\": \"/x?token=hunter2\", \"reason\": \"path\", \"note\": \"a\\nb\", "
         "\"authorization\": \"hunter2\"}",
         NULL);
    cleanup_buf struct buf text;
    struct json_writer w;
    buf_init(&text, 1 << 16);
    jw_init(&w, &text, false);
    netlog_write_json(n, &w, true);
    cr_assert_null(strstr(buf_text(&text), "hunter2"), "%s", buf_text(&text));
    cr_assert_null(strstr(buf_text(&text), "u001b"), "%s", buf_text(&text));
    cr_assert(strstr(buf_text(&text), "\"a?[2J?b\""), "%s", buf_text(&text));
    cr_assert(strstr(buf_text(&text), "\"a?b\""), "%s", buf_text(&text));
}

Test(netlog, sums_do_not_wrap)
{
    cleanup_log struct netlog *n = new_log();
    for (int i = 0; i < 4; i++)
        feed(n, "{\"entry\": \"proxy\", \"verdict\": \"allowed\", \"up\": 9223372036854775807}",
             NULL);
    netlog_lost(n, UINT64_MAX);
    struct json *tree = read_back(n, true);
    cr_assert_eq(number(tree, "bytes_up"), INT64_MAX);
    cr_assert_eq(number(tree, "lost"), INT64_MAX);
    json_free(tree);
}

Test(netlog, says_whether_there_is_news)
{
    cleanup_log struct netlog *n = new_log();
    cr_assert_not(netlog_changed(n));
    feed(n, allowed, NULL);
    cr_assert(netlog_changed(n));
    cr_assert_not(netlog_changed(n));
    netlog_lost(n, 0);
    cr_assert_not(netlog_changed(n));
    netlog_lost(n, 1);
    cr_assert(netlog_changed(n));
}
