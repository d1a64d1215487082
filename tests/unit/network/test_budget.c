/* Budgets: the total, the rule's own, and what happens to them when rules are replaced. */
#include "network/budget.h"

#include <criterion/criterion.h>

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
    cr_assert_eq(b.rules[1].connections, 1);
    budget_disconnect(&b, 0);
    cr_assert_eq(budget_connect(&b, 1), DENY_NONE);
    for (int i = 0; i < 5; i++)
        budget_disconnect(&b, 0);
    cr_assert_eq(b.rules[0].connections, 0, "never below zero");
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

/* "b" becomes the first of three; "a" is gone; the second "b" is new. */
Test(budget, counts_follow_the_text)
{
    struct err err = ERR_INIT;
    struct egress_rule next[] = {{.text = "https://b:443", .upload = 100},
                                 {.text = "https://c:443", .upload = 100},
                                 {.text = "https://b:443", .upload = 100}};
    struct egress later = {.rules = next, .rule_count = 3, .upload = POLICY_UNLIMITED};
    budget_upload(&b, 0, 7);
    budget_upload(&b, 1, 90);
    cr_assert_eq(budgets_replace(&b, &later, &err), 0);
    cr_assert_eq(b.rules[0].uploaded, 90);
    cr_assert_eq(b.rules[1].uploaded, 0);
    cr_assert_eq(b.rules[2].uploaded, 0, "of two that read the same the first goes on");
    cr_assert_eq(b.total.uploaded, 97);
    cr_assert_eq(budget_upload(&b, 0, 50), 10);
    cr_assert_eq(b.egress, &later);
}

Test(budget, no_rules_at_all)
{
    struct err err = ERR_INIT;
    struct egress none = {.max_connections = 1};
    cr_assert_eq(budgets_replace(&b, &none, &err), 0);
    cr_assert_eq(budget_connect(&b, 0), DENY_NONE);
    cr_assert_eq(budget_connect(&b, 0), DENY_CONNECTIONS);
}
