#include "policy/egress/live.h"

#include <criterion/criterion.h>
#include <string.h>

static struct egress base, live;
static struct err err;

static void start(void)
{
    struct origin o = {.kind = ORIGIN_FILE, .name = "t"};
    egress_init(&base);
    egress_init(&live);
    cr_assert_eq(egress_allow(&base, "http://web.test:8080=127.0.0.1", &o, &err), 0);
    cr_assert_eq(egress_allow(&base, "*.pypi.org:443", &o, &err), 0);
    cr_assert_eq(egress_block(&base, "bad.pypi.org", &err), 0);
    base.requests = 7;
}

static void stop(void)
{
    egress_done(&base);
    egress_done(&live);
}

TestSuite(live, .init = start, .fini = stop);

static int take(const char *text)
{
    struct json *j = NULL;
    err = (struct err){0};
    cr_assert_eq(json_parse(text, strlen(text), &json_default_limits, &j, &err), 0, "%s", text);
    egress_done(&live);
    egress_init(&live);
    int r = egress_live(&base, j, &live, &err);
    json_free(j);
    return r;
}

static const struct egress_rule *rule(const char *host)
{
    for (size_t i = 0; i < live.rule_count; i++)
        if (strcmp(live.rules[i].host.host.text, host) == 0)
            return &live.rules[i];
    return NULL;
}

Test(live, a_rule_of_the_operator_keeps_its_address)
{
    cr_assert_eq(take("{\"allow\":[\"http://web.test:8080\"]}"), 0, "%s", err.message);
    cr_assert_eq(live.rule_count, 1);
    cr_assert(rule("web.test")->pinned);
    cr_assert_str_eq(rule("web.test")->address.text, "127.0.0.1");
}

Test(live, a_host_below_a_pattern_of_the_operator)
{
    cr_assert_eq(take("{\"allow\":[\"files.pypi.org:443\"]}"), 0, "%s", err.message);
    cr_assert_eq(live.rule_count, 1);
    cr_assert(!live.rules[0].pinned);
}

Test(live, a_host_beyond_the_operator_has_no_address_of_its_own)
{
    cr_assert_eq(take("{\"allow\":[\"example.org\"],\"beyond\":true}"), 0, "%s", err.message);
    cr_assert_eq(live.rule_count, 2, "http and https");
    cr_assert(!live.rules[0].pinned && !live.rules[1].pinned);
    cr_assert_eq(take("{\"allow\":[\"http://example.org:80=10.0.0.1\"],\"beyond\":true}"),
                 -ERR_REFUSED);
    cr_assert_eq(take("{\"allow\":[\"http://web.test:9090=127.0.0.1\"],\"beyond\":true}"),
                 -ERR_REFUSED);
}

Test(live, no_address_for_a_name_of_the_operator)
{
    cr_assert_eq(take("{\"allow\":[\"https://files.pypi.org=127.0.0.1\"]}"), -ERR_REFUSED);
    cr_assert_eq(take("{\"allow\":[\"http://web.test:8080=127.0.0.2\"]}"), -ERR_REFUSED);
    cr_assert_eq(take("{\"allow\":[\"http://web.test:8080=127.0.0.1\"]}"), 0, "%s", err.message);
}

/* What would open nothing is said, and what the operator pins can still be named. */
Test(live, a_local_address_is_the_operators_to_pin)
{
    struct origin o = {.kind = ORIGIN_FILE, .name = "t"};
    cr_assert_eq(egress_allow(&base, "10.0.0.5:22=10.0.0.5", &o, &err), 0);
    cr_assert_eq(take("{\"allow\":[\"10.0.0.6:22\"],\"beyond\":true}"), -ERR_REFUSED);
    cr_assert(strstr(err.message, "private") && strstr(err.hint, "template"), "%s", err.hint);
    cr_assert_eq(take("{\"allow\":[\"10.0.0.0/8\"],\"beyond\":true}"), -ERR_USAGE);
    cr_assert_eq(take("{\"allow\":[\"10.0.0.5:22\"]}"), 0, "%s", err.message);
    cr_assert(rule("10.0.0.5")->pinned);
    cr_assert_eq(take("{\"block\":[\"10.0.0.0/8\"]}"), 0, "%s", err.message);
}

Test(live, nothing_beyond_the_operator_unless_it_is_said)
{
    cr_assert_eq(take("{\"allow\":[\"example.org\"]}"), -ERR_REFUSED);
    cr_assert_eq(take("{\"allow\":[\"example.org\"],\"beyond\":false}"), -ERR_REFUSED);
    cr_assert_eq(take("{\"allow\":[\"example.org\"],\"beyond\":1}"), -ERR_REFUSED);
    cr_assert_eq(take("{\"allow\":[\"files.pypi.org:443\",\"example.org\"]}"), -ERR_REFUSED);
    cr_assert_eq(take("{\"allow\":[\"**.pypi.org:443\"]}"), -ERR_REFUSED, "wider than theirs");
    cr_assert_eq(take("{\"allow\":[\"*.pypi.org:443\"]}"), 0, "%s", err.message);
}

Test(live, of_a_name_as_much_as_the_operator_allows)
{
    cr_assert_eq(take("{\"allow\":[\"files.pypi.org\"]}"), 0, "%s", err.message);
    cr_assert_eq(live.rule_count, 1, "https alone");
    cr_assert_eq(live.rules[0].port, 443);
}

Test(live, without_a_list_the_rules_stay)
{
    cr_assert_eq(take("{\"block\":[\"evil.org\"]}"), 0);
    cr_assert_eq(live.rule_count, 2);
    cr_assert(rule("web.test")->pinned);
    cr_assert_eq(live.blocked_count, 2);
}

Test(live, what_is_blocked_stays_blocked)
{
    cr_assert_eq(take("{\"allow\":[],\"block\":[\"evil.org\"]}"), 0);
    cr_assert_eq(live.rule_count, 0);
    cr_assert_eq(live.blocked_count, 2);
}

static void limit_upload(uint64_t upload)
{
    for (size_t i = 0; i < base.rule_count; i++)
        base.rules[i].upload = upload;
}

/* N-14 */
Test(live, what_is_made_of_one_rule_counts_as_one)
{
    limit_upload(1000);
    cr_assert_eq(take("{\"allow\":[\"https://a.pypi.org/x\",\"https://a.pypi.org/y/**\","
                      "\"https://b.pypi.org\"]}"),
                 0, "%s", err.message);
    cr_assert_eq(live.rule_count, 3);
    for (size_t i = 0; i < 3; i++) {
        cr_assert_eq(live.rules[i].upload, 1000);
        cr_assert_str_eq(rule_budget(&live.rules[i]), rule_budget(&base.rules[1]));
    }
    cr_assert_eq(take("{}"), 0);
    cr_assert_str_eq(rule_budget(rule("pypi.org")), rule_budget(&base.rules[1]));
}

Test(live, a_budget_crosses_to_the_proxy)
{
    struct buf text;
    struct json_writer w;
    struct json *j = NULL;
    struct egress there;
    limit_upload(1000);
    cr_assert_eq(take("{\"allow\":[\"https://a.pypi.org/x\"]}"), 0, "%s", err.message);
    buf_init(&text, 65536);
    jw_init(&w, &text, false);
    egress_write_json(&live, &w);
    cr_assert_eq(json_parse(text.data, text.len, &json_default_limits, &j, &err), 0);
    cr_assert_eq(egress_read_json(&there, j, &err), 0, "%s", err.message);
    cr_assert_str_eq(rule_budget(&there.rules[0]), rule_budget(&base.rules[1]));
    egress_done(&there);
    json_free(j);
    buf_done(&text);
}

Test(live, totals_stay)
{
    cr_assert_eq(take("{}"), 0);
    cr_assert_eq(live.requests, 7);
}

Test(live, nonsense)
{
    static const char *const bad[] = {"[]",
                                      "{\"allow\":\"x\"}",
                                      "{\"allow\":[1]}",
                                      "{\"block\":3}",
                                      "{\"allow\":[\"\"]}",
                                      "{\"block\":[\"a b\"]}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_assert_lt(take(bad[i]), 0, "%s", bad[i]);
}
