/* Budgets: the total, the rule's own, and what happens to them when rules are replaced. */
#include "network/budget.h"

#include <criterion/criterion.h>
#include <stdio.h>

static struct egress_rule rules[2];
static struct egress egress;
static struct budgets b;

static void open_budgets(void)
{
    struct err err = ERR_INIT;
    for (int i = 0; i < 2; i++)
        rules[i] = (struct egress_rule){.text = i ? "https://b:443" : "https://a:443",
                                        .upload = POLICY_UNLIMITED,
                                        .max_connections = POLICY_UNLIMITED,
                                        .requests = POLICY_UNLIMITED};
    egress = (struct egress){.rules = rules,
                             .rule_count = 2,
                             .upload = POLICY_UNLIMITED,
                             .max_connections = POLICY_UNLIMITED,
                             .requests = POLICY_UNLIMITED};
    cr_assert_eq(budgets_init(&b, &egress, &err), 0);
}

static void close_budgets(void)
{
    budgets_done(&b);
}

TestSuite(budget, .init = open_budgets, .fini = close_budgets);

Test(budget, unlimited_is_never_used_up)
{
    for (int i = 0; i < 1000; i++) {
        cr_assert_eq(budget_connect(&b, 0), DENY_NONE);
        cr_assert_eq(budget_request(&b, 0, 0), DENY_NONE);
    }
    cr_assert_eq(budget_upload(&b, 0, UINT64_MAX / 4), UINT64_MAX / 4);
    cr_assert_eq(budget_upload(&b, 0, UINT64_MAX / 4), UINT64_MAX / 4);
}

Test(budget, connections_of_a_rule)
{
    rules[0].max_connections = 2;
    cr_assert_eq(budget_connect(&b, 0), DENY_NONE);
    cr_assert_eq(budget_connect(&b, 0), DENY_NONE);
    cr_assert_eq(budget_connect(&b, 0), DENY_CONNECTIONS);
    cr_assert_eq(b.total.connections, 2, "a refused one is not counted");
    cr_assert_eq(budget_connect(&b, 1), DENY_NONE, "another rule has its own");
    budget_disconnect(&b, 0);
    cr_assert_eq(budget_connect(&b, 0), DENY_NONE);
}

Test(budget, connections_in_all)
{
    egress.max_connections = 2;
    cr_assert_eq(budget_connect(&b, 0), DENY_NONE);
    cr_assert_eq(budget_connect(&b, 1), DENY_NONE);
    cr_assert_eq(budget_connect(&b, 1), DENY_CONNECTIONS);
    cr_assert_eq(b.all[b.of_rule[1]].counts.connections, 1);
    budget_disconnect(&b, 0);
    cr_assert_eq(budget_connect(&b, 1), DENY_NONE);
    for (int i = 0; i < 5; i++)
        budget_disconnect(&b, 0);
    cr_assert_eq(b.all[b.of_rule[0]].counts.connections, 0, "never below zero");
}

Test(budget, upload_is_cut_at_the_smaller_rest)
{
    egress.upload = 100;
    rules[0].upload = 60;
    cr_assert_eq(budget_upload(&b, 0, 50), 50);
    cr_assert_eq(budget_upload(&b, 0, 50), 10);
    cr_assert_eq(budget_upload(&b, 0, 1), 0);
    cr_assert_eq(budget_upload(&b, 1, 50), 40, "what is left in all");
    cr_assert_eq(budget_upload(&b, 1, 1), 0);
    cr_assert_eq(b.total.uploaded, 100);
}

Test(budget, zero_means_nothing)
{
    egress.upload = 0;
    rules[0].requests = 0;
    rules[0].max_connections = 0;
    cr_assert_eq(budget_upload(&b, 0, 1), 0);
    cr_assert_eq(budget_request(&b, 0, 7), DENY_REQUESTS);
    cr_assert_eq(budget_connect(&b, 0), DENY_CONNECTIONS);
    cr_assert_eq(budget_connect(&b, 1), DENY_NONE);
}

Test(budget, requests_per_minute)
{
    rules[0].requests = 2;
    egress.requests = 3;
    cr_assert_eq(budget_request(&b, 0, 5000), DENY_NONE);
    cr_assert_eq(budget_request(&b, 0, 6000), DENY_NONE);
    cr_assert_eq(budget_request(&b, 0, 64999), DENY_REQUESTS);
    cr_assert_eq(budget_request(&b, 1, 64999), DENY_NONE);
    cr_assert_eq(budget_request(&b, 1, 64999), DENY_REQUESTS, "in all");
    cr_assert_eq(budget_request(&b, 0, 65000), DENY_NONE, "a minute after the first");
    cr_assert_eq(budget_request(&b, 0, 65001), DENY_NONE);
    cr_assert_eq(budget_request(&b, 0, 65002), DENY_REQUESTS);
}

Test(budget, without_a_rule_the_total_counts)
{
    egress.max_connections = 1;
    egress.upload = 5;
    cr_assert_eq(budget_connect(&b, SIZE_MAX), DENY_NONE);
    cr_assert_eq(budget_connect(&b, SIZE_MAX), DENY_CONNECTIONS);
    cr_assert_eq(budget_upload(&b, SIZE_MAX, 9), 5);
    budget_disconnect(&b, SIZE_MAX);
    cr_assert_eq(b.total.connections, 0);
}

static struct egress_rule limited(const char *text, const char *budget)
{
    return (struct egress_rule){.text = (char *)text,
                                .budget = (char *)budget,
                                .upload = 100,
                                .max_connections = 1,
                                .requests = 2};
}

static void replace(struct egress *e, struct egress_rule *list, size_t count)
{
    struct err err = ERR_INIT;
    *e = (struct egress){.rules = list,
                         .rule_count = count,
                         .upload = POLICY_UNLIMITED,
                         .max_connections = POLICY_UNLIMITED,
                         .requests = POLICY_UNLIMITED};
    cr_assert_eq(budgets_replace(&b, e, &err), 0);
    cr_assert_eq(b.egress, e);
}

/* "b" becomes the first of two; "a" is gone. */
Test(budget, counts_follow_the_text)
{
    struct egress_rule next[] = {limited("https://b:443", NULL), limited("https://c:443", NULL)};
    struct egress later;
    budget_upload(&b, 0, 7);
    budget_upload(&b, 1, 90);
    replace(&later, next, 2);
    cr_assert_eq(b.total.uploaded, 97);
    cr_assert_eq(budget_upload(&b, 0, 50), 10);
    cr_assert_eq(budget_upload(&b, 1, 500), 100);
}

/* N-14 */
Test(budget, a_rule_that_went_and_came_back_is_no_new_one)
{
    struct egress_rule list[] = {limited("https://a:443", NULL)};
    struct egress one, none, again;
    replace(&one, list, 1);
    cr_assert_eq(budget_upload(&b, 0, 100), 100);
    cr_assert_eq(budget_request(&b, 0, 5000), DENY_NONE);
    cr_assert_eq(budget_request(&b, 0, 5000), DENY_NONE);
    cr_assert_eq(budget_connect(&b, 0), DENY_NONE);
    for (int i = 0; i < 3; i++) {
        replace(&none, list, 0);
        replace(&again, list, 1);
        cr_assert_eq(budget_upload(&b, 0, 1), 0);
        cr_assert_eq(budget_request(&b, 0, 5000), DENY_REQUESTS);
        cr_assert_eq(budget_connect(&b, 0), DENY_CONNECTIONS);
    }
    budget_disconnect_named(&b, "https://a:443");
    cr_assert_eq(budget_connect(&b, 0), DENY_NONE);
}

/* N-14 */
Test(budget, rules_made_of_one_count_together)
{
    struct egress_rule list[] = {limited("https://a:443/x", "https://a:443"),
                                 limited("https://a:443/y", "https://a:443"),
                                 limited("https://a:443/z", "https://a:443")};
    struct egress_rule whole[] = {limited("https://a:443", NULL)};
    struct egress three, one;
    replace(&three, list, 3);
    cr_assert_eq(budget_upload(&b, 0, 60), 60);
    cr_assert_eq(budget_upload(&b, 1, 60), 40);
    cr_assert_eq(budget_upload(&b, 2, 60), 0);
    cr_assert_eq(budget_request(&b, 0, 0), DENY_NONE);
    cr_assert_eq(budget_request(&b, 1, 0), DENY_NONE);
    cr_assert_eq(budget_request(&b, 2, 0), DENY_REQUESTS);
    cr_assert_eq(budget_connect(&b, 0), DENY_NONE);
    cr_assert_eq(budget_connect(&b, 2), DENY_CONNECTIONS);
    cr_assert(budget_is_shared(&b, 0, 2));
    replace(&one, whole, 1);
    cr_assert_eq(budget_upload(&b, 0, 1), 0);
    cr_assert_eq(budget_connect(&b, 0), DENY_CONNECTIONS);
}

/* A tenant may change rules as often as he likes. */
Test(budget, names_without_a_limit_are_forgotten)
{
    char texts[64][32];
    struct egress_rule list[64];
    struct egress turns[2];
    for (int turn = 0; turn < 100; turn++) {
        for (int i = 0; i < 64; i++) {
            snprintf(texts[i], sizeof texts[i], "https://h%d-%d:443", turn, i);
            list[i] = rules[0];
            list[i].text = texts[i];
        }
        replace(&turns[turn % 2], list, 64);
        cr_assert_leq(b.count, 2 * 64 + 2);
    }
}

Test(budget, no_rules_at_all)
{
    struct err err = ERR_INIT;
    struct egress none = {.max_connections = 1};
    cr_assert_eq(budgets_replace(&b, &none, &err), 0);
    cr_assert_eq(budget_connect(&b, 0), DENY_NONE);
    cr_assert_eq(budget_connect(&b, 0), DENY_CONNECTIONS);
}

Test(budget, asking_for_room_takes_none)
{
    rules[0].upload = 100;
    cr_assert(budget_may_upload(&b, 0, 100));
    cr_assert_not(budget_may_upload(&b, 0, 101));
    cr_assert_eq(budget_upload(&b, 0, 99), 99);
    cr_assert(budget_may_upload(&b, 0, 0));
    cr_assert_eq(budget_upload(&b, 0, 1), 1);
    cr_assert_not(budget_may_upload(&b, 0, 0), "nothing is left");
    cr_assert(budget_may_upload(&b, SIZE_MAX, 0), "the total has no limit");
}
