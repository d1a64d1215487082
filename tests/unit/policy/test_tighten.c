#include "base/cleanup.h"
#include "helpers.h"
#include "policy/policy.h"

#include <stdio.h>

/* One field of a policy is `have`; a request for `want` is granted or refused. */
struct move {
    enum policy_field field;
    const char *have;
    const char *want;
    bool granted;
};

static const struct move moves[] = {
    {FIELD_LEVEL, "medium", "high", true},
    {FIELD_LEVEL, "high", "high", true},
    {FIELD_LEVEL, "high", "medium", false},
    {FIELD_LEVEL, "critical", "high", false},
    {FIELD_TIER, "process", "container", true},
    {FIELD_TIER, "container", "process", false},
    {FIELD_TIER, "vm", "container", false},
    {FIELD_UID, "0", "1000", true},
    {FIELD_UID, "1000", "1000", true},
    {FIELD_UID, "1000", "0", false},
    {FIELD_UID, "1000", "1001", false},
    {FIELD_BESIDE, "true", "false", true},
    {FIELD_BESIDE, "false", "true", false},
    {FIELD_UNIX_SOCKETS, "auto", "off", true},
    {FIELD_UNIX_SOCKETS, "require", "auto", true},
    {FIELD_UNIX_SOCKETS, "off", "auto", false},
    {FIELD_UNIX_SOCKETS, "auto", "require", false},
    {FIELD_ROOT, "host", "host", true},
    {FIELD_ROOT, "host", "/image", false},
    {FIELD_ROOT, "/image", "host", false},
    {FIELD_ROOT, "/image", "/image/", true},
    {FIELD_CWD, "auto", "/tmp", true},
    {FIELD_CWD, "/tmp", "auto", true},
    {FIELD_WRITABLE_ROOT, "true", "false", true},
    {FIELD_WRITABLE_ROOT, "false", "true", false},
    {FIELD_WORKSPACE, "true", "false", true},
    {FIELD_WORKSPACE, "false", "true", false},
    {FIELD_EXEC, "true", "false", true},
    {FIELD_EXEC, "false", "true", false},
    {FIELD_PROJECT, "true", "false", true},
    {FIELD_PROJECT, "false", "true", false},
    {FIELD_SUBMOUNTS, "true", "false", true},
    {FIELD_SUBMOUNTS, "false", "true", false},
    {FIELD_PROC, "system", "pid", true},
    {FIELD_PROC, "pid", "system", false},
    {FIELD_PROC, "system", "own", true},
    {FIELD_PROC, "own", "pid", true},
    {FIELD_PROC, "pid", "own", false},
    {FIELD_LANDLOCK, "auto", "require", true},
    {FIELD_LANDLOCK, "require", "auto", false},
    {FIELD_LANDLOCK, "auto", "off", false},
    {FIELD_CGROUP, "off", "auto", true},
    {FIELD_CGROUP, "require", "off", false},
    {FIELD_DISK, "256M", "255M", true},
    {FIELD_DISK, "256M", "257M", false},
    {FIELD_INODES, "10k", "9k", true},
    {FIELD_INODES, "10k", "11k", false},
    {FIELD_MEMORY, "512M", "512M", true},
    {FIELD_MEMORY, "512M", "1G", false},
    {FIELD_CPUS, "unlimited", "2", true},
    {FIELD_CPUS, "2", "unlimited", false},
    {FIELD_CPUS, "0.5", "0.4", true},
    {FIELD_CPUS, "0.5", "0.6", false},
    {FIELD_REPORT, "false", "true", true},
    {FIELD_REPORT, "true", "false", false},
    {FIELD_PIDS, "10", "9", true},
    {FIELD_PIDS, "10", "11", false},
    {FIELD_TIMEOUT, "1h", "59m", true},
    {FIELD_TIMEOUT, "1h", "61m", false},
    {FIELD_CPU_TIME, "unlimited", "1s", true},
    {FIELD_CPU_TIME, "1s", "unlimited", false},
    {FIELD_OUTPUT, "1M", "1K", true},
    {FIELD_OUTPUT, "1M", "2M", false},
    {FIELD_OPEN_FILES, "64", "32", true},
    {FIELD_OPEN_FILES, "64", "128", false},
    {FIELD_SAMPLING, "accept", "auto", true},
    {FIELD_SAMPLING, "auto", "refuse", true},
    {FIELD_SAMPLING, "auto", "accept", false},
    {FIELD_SAMPLING, "refuse", "auto", false},
    {FIELD_NETWORK_MODE, "allowlist", "off", true},
    {FIELD_NETWORK_MODE, "off", "allowlist", false},
    {FIELD_MAX_CONNECTIONS, "256", "8", true},
    {FIELD_MAX_CONNECTIONS, "256", "257", false},
    {FIELD_UPLOAD, "unlimited", "1M", true},
    {FIELD_UPLOAD, "1M", "unlimited", false},
    {FIELD_REQUESTS, "60", "59", true},
    {FIELD_REQUESTS, "60", "61", false},
    {FIELD_RESOLVER, "host", "host", true},
    {FIELD_RESOLVER, "host", "9.9.9.9", false},
    {FIELD_RESOLVER, "9.9.9.9", "host", false},
};

static void field_text(const struct policy *p, enum policy_field field, char out[static 64])
{
    cleanup_buf struct buf b;
    buf_init(&b, 63);
    policy_field_text(p, field, &b);
    snprintf(out, 64, "%s", buf_text(&b));
}

static void check_move(const struct move *m)
{
    cleanup_policy struct policy p;
    cleanup_policy struct policy request;
    struct err err = ERR_INIT;
    char before[64], asked[64], after[64];
    policy_init(&p, LEVEL_HIGH);
    policy_init(&request, LEVEL_HIGH);
    must_set(&p, m->field, m->have);
    must_set(&request, m->field, m->want);
    field_text(&p, m->field, before);
    field_text(&request, m->field, asked);
    int r = policy_tighten(&p, &request, &err);
    field_text(&p, m->field, after);
    if (m->granted) {
        cr_assert_eq(r, 0, "%s", err.message);
        cr_assert_str_eq(after, asked);
        return;
    }
    cr_assert_eq(r, -ERR_REFUSED, "%s: %s to %s was granted", policy_field_path(m->field), m->have,
                 m->want);
    cr_assert_str_eq(after, before);
    cr_assert(has(err.message, policy_field_path(m->field)), "%s", err.message);
    cr_assert(has(err.message, before) && has(err.message, asked), "%s", err.message);
    cr_assert(has(err.hint, "the operator can widen"), "%s", err.hint);
}

Test(tighten, moves_each_field_in_one_direction_only)
{
    bool covered[FIELD_COUNT] = {false};
    for (size_t i = 0; i < ARRAY_LEN(moves); i++) {
        check_move(&moves[i]);
        covered[moves[i].field] = true;
    }
    for (enum policy_field field = 0; field < FIELD_COUNT; field++)
        cr_assert(covered[field], "no case for %s", policy_field_path(field));
}

Test(tighten, says_both_values)
{
    cleanup_policy struct policy p;
    cleanup_policy struct policy request;
    struct err err = ERR_INIT;
    policy_init(&p, LEVEL_HIGH);
    policy_init(&request, LEVEL_HIGH);
    must_set(&request, FIELD_MEMORY, "1G");
    cr_assert_lt(policy_tighten(&p, &request, &err), 0);
    cr_assert_str_eq(err.message, "a request may only tighten the policy: lifecycle.memory is "
                                  "512M, \"1G\" cannot be asked for");
}

Test(tighten, ignores_what_only_the_level_of_the_request_says)
{
    cleanup_policy struct policy p;
    cleanup_policy struct policy request;
    policy_init(&p, LEVEL_LOW);
    policy_init(&request, LEVEL_MEDIUM);
    cr_assert_eq(policy_tighten(&p, &request, NULL), 0);
    cr_assert_eq(p.level, LEVEL_LOW);
    cr_assert_eq(p.pids, 64);
}

Test(tighten, a_raised_level_brings_what_is_stricter_in_it)
{
    cleanup_policy struct policy p;
    cleanup_policy struct policy request;
    policy_init(&p, LEVEL_MEDIUM);
    must_set(&p, FIELD_PIDS, "8");
    policy_init(&request, LEVEL_MEDIUM);
    must_set(&request, FIELD_LEVEL, "critical");
    cr_assert_eq(policy_tighten(&p, &request, NULL), 0);
    cr_assert_eq(p.level, LEVEL_CRITICAL);
    cr_assert_eq(p.tier, TIER_VM);
    cr_assert(!p.exec && !p.project && p.workspace);
    cr_assert_eq(p.timeout_ms, 300000);
    cr_assert_eq(p.pids, 8);
    cr_assert_eq(policy_validate(&p, NULL), 0);
}

Test(tighten, a_raised_level_widens_nothing)
{
    cleanup_policy struct policy p;
    cleanup_policy struct policy request;
    policy_init(&p, LEVEL_LOW);
    policy_init(&request, LEVEL_LOW);
    must_set(&request, FIELD_LEVEL, "medium");
    cr_assert_eq(policy_tighten(&p, &request, NULL), 0);
    cr_assert_eq(p.tier, TIER_CONTAINER);
    cr_assert(!p.workspace && !p.exec && !p.project);
    cr_assert_eq(p.pids, 64);
    cr_assert_eq(p.timeout_ms, 30000);
}

Test(tighten, grants_nothing_new)
{
    static const struct {
        const char *spec;
        bool writable;
        bool granted;
    } rows[] = {
        {"/a", false, true},     {"/a/", false, true}, {"/a", true, false},  {"/b", false, false},
        {"/x:/a", false, false}, {"/w", true, true},   {"/w", false, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        cleanup_policy struct policy p;
        cleanup_policy struct policy request;
        struct err err = ERR_INIT;
        policy_init(&p, LEVEL_HIGH);
        policy_init(&request, LEVEL_HIGH);
        must_grant(&p, "/a", false);
        must_grant(&p, "/w", true);
        must_grant(&request, rows[i].spec, rows[i].writable);
        int r = policy_tighten(&p, &request, &err);
        cr_assert_eq(r, rows[i].granted ? 0 : -ERR_REFUSED, "%s %s", rows[i].spec, err.message);
        cr_assert_eq(p.grant_count, 2);
        if (r < 0)
            cr_assert(has(err.message, "is not among its grants"), "%s", err.message);
    }
}

Test(tighten, adds_variables_but_replaces_none)
{
    cleanup_policy struct policy p;
    cleanup_policy struct policy request;
    cleanup_policy struct policy greedy;
    struct err err = ERR_INIT;
    policy_init(&p, LEVEL_HIGH);
    policy_init(&request, LEVEL_HIGH);
    policy_init(&greedy, LEVEL_HIGH);
    env(&p, "OWN=1", NULL);
    env(&request, "OWN=1", NULL);
    env(&request, "NEW=2", NULL);
    env(&greedy, "OWN=2", NULL);
    cr_assert_eq(policy_tighten(&p, &request, &err), 0, "%s", err.message);
    cr_assert_eq(p.env_count, 2);
    cr_assert_eq(policy_tighten(&p, &greedy, &err), -ERR_REFUSED);
    cr_assert(has(err.message, "the variable OWN already has another value"), "%s", err.message);
    cr_assert_str_eq(p.env[0].value, "1");
}

Test(tighten, a_refused_request_changes_nothing)
{
    cleanup_policy struct policy p;
    cleanup_policy struct policy request;
    char before[72], after[72];
    policy_init(&p, LEVEL_HIGH);
    policy_init(&request, LEVEL_HIGH);
    must_set(&request, FIELD_MEMORY, "64M");
    must_set(&request, FIELD_LEVEL, "critical");
    env(&request, "A=1", NULL);
    must_grant(&request, "/new", false);
    policy_hash(&p, before);
    cr_assert_lt(policy_tighten(&p, &request, NULL), 0);
    policy_hash(&p, after);
    cr_assert_str_eq(before, after);
}

Test(tighten, too_many_variables_change_nothing)
{
    cleanup_policy struct policy p;
    cleanup_policy struct policy request;
    struct err err = ERR_INIT;
    char spec[32];
    policy_init(&p, LEVEL_HIGH);
    policy_init(&request, LEVEL_HIGH);
    must_set(&request, FIELD_MEMORY, "64M");
    for (int i = 0; i < 600; i++) {
        snprintf(spec, sizeof spec, "A%d=x", i);
        cr_assert_eq(env(&p, spec, NULL), 0);
        snprintf(spec, sizeof spec, "B%d=x", i);
        cr_assert_eq(env(&request, spec, NULL), 0);
    }
    cr_assert_eq(policy_tighten(&p, &request, &err), -ERR_LIMIT);
    cr_assert(has(err.message, "at most 1024"), "%s", err.message);
    cr_assert_eq(p.env_count, 600);
    cr_assert_eq(p.memory, 512UL << 20);
}

Test(tighten, remembers_which_level_a_value_came_from)
{
    cleanup_policy struct policy p;
    cleanup_policy struct policy request;
    policy_init(&p, LEVEL_LOW);
    policy_init(&request, LEVEL_LOW);
    must_set(&request, FIELD_LEVEL, "medium");
    cr_assert_eq(policy_tighten(&p, &request, NULL), 0);
    cr_assert_str_eq(p.origin[FIELD_PIDS].name, "low");
    cr_assert_str_eq(p.origin[FIELD_TIER].name, "medium");
}

/* ---- rules and secrets ---- */

static const char *const all_rules =
    "network:\n"
    "  allow: [a.org, \"**.b.org:443\", \"db.internal:5432=10.0.0.5\",\n"
    "    {host: c.org, scheme: https, methods: [GET, PUT], paths: [/v1/**, /x], upload: 10M}]\n"
    "  block: [z.org]\n"
    "credentials: {secrets: [\"T=env:T@https://s.org\"]}\n";

static int tighten_with(struct policy *p, const char *document, struct err *err)
{
    cleanup_policy struct policy request;
    policy_init(p, LEVEL_HIGH);
    must_load(p, all_rules);
    policy_init(&request, LEVEL_HIGH);
    must_load(&request, document);
    return policy_tighten(p, &request, err);
}

static bool has_rule(const struct policy *p, const char *text)
{
    for (size_t i = 0; i < p->egress.rule_count; i++) {
        if (strcmp(p->egress.rules[i].text, text) == 0)
            return true;
    }
    return false;
}

Test(egress, a_request_may_leave_out_and_narrow)
{
    static const struct {
        const char *document;
        size_t count;
        const char *rules[3];
    } rows[] = {
        {"network: {upload: 1M}",
         6,
         {"http://a.org:80", "https://s.org:443", "db.internal:5432=10.0.0.5"}},
        {"network: {allow: []}", 0, {0}},
        {"network: {allow: [a.org]}", 2, {"http://a.org:80", "https://a.org:443"}},
        {"network: {allow: [\"a.org:443\"]}", 1, {"https://a.org:443"}},
        {"network: {allow: [\"https://a.org/only\"]}", 1, {"https://a.org:443/only"}},
        {"network: {allow: [\"x.y.b.org:443\", \"*.b.org:443\"]}",
         2,
         {"https://x.y.b.org:443", "https://*.b.org:443"}},
        /* The pin and what is not said come from the policy. */
        {"network: {allow: [\"db.internal:5432\"]}", 1, {"db.internal:5432=10.0.0.5"}},
        {"network: {allow: [\"tcp://db.internal:5432\"]}", 1, {"tcp://db.internal:5432=10.0.0.5"}},
        {"network: {allow: [\"c.org:443\"]}", 1, {"GET,PUT https://c.org:443/v1/** /x"}},
        {"network: {allow: [{host: c.org, port: 443, methods: [GET], paths: [/v1/a]}]}",
         1,
         {"GET https://c.org:443/v1/a"}},
        {"network: {allow: [\"s.org:443\"]}", 1, {"https://s.org:443"}},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        cleanup_policy struct policy p;
        struct err err = ERR_INIT;
        cr_assert_eq(tighten_with(&p, rows[i].document, &err), 0, "%s: %s", rows[i].document,
                     err.message);
        cr_assert(p.egress.rule_count == rows[i].count || i == 0, "%s: %zu", rows[i].document,
                  p.egress.rule_count);
        for (size_t k = 0; k < 3 && rows[i].rules[k]; k++)
            cr_assert(has_rule(&p, rows[i].rules[k]), "%s: no %s but %s", rows[i].document,
                      rows[i].rules[k], p.egress.rules[0].text);
        cr_assert_eq(policy_validate(&p, &err), 0, "%s", err.message);
    }
}

Test(egress, the_limits_of_a_narrowed_rule_stay)
{
    cleanup_policy struct policy p;
    struct err err = ERR_INIT;
    cr_assert_eq(tighten_with(&p, "network: {allow: [\"c.org:443\"]}", &err), 0, "%s", err.message);
    cr_assert_eq(p.egress.rules[0].upload, 10UL << 20);
}

/* N-14: two rules with 10M each would be 20M. */
Test(egress, a_rule_with_a_budget_that_is_divided_has_it_once)
{
    cleanup_policy struct policy p;
    struct err err = ERR_INIT;
    const char *request = "network: {allow: [\"https://c.org/v1/a\", \"https://c.org/v1/b\"]}";
    cr_assert_eq(tighten_with(&p, request, &err), 0, "%s", err.message);
    cr_assert_eq(p.egress.rule_count, 2);
    cr_assert_str_eq(rule_budget(&p.egress.rules[0]), "GET,PUT https://c.org:443/v1/** /x");
    cr_assert_str_eq(rule_budget(&p.egress.rules[1]), rule_budget(&p.egress.rules[0]));
}

Test(egress, what_passes_is_never_more)
{
    static const struct {
        const char *request;
        int result;
        size_t count;
    } rows[] = {
        {"network: {allow: [\"https://c.org\"]}", 0, 2},
        {"network: {allow: [{host: c.org, scheme: https, pass: [Cookie]}]}", 0, 1},
        {"network: {allow: [{host: c.org, scheme: https, pass: [Cookie, X-Key]}]}", -ERR_REFUSED,
         0},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        cleanup_policy struct policy p;
        cleanup_policy struct policy request;
        struct err err = ERR_INIT;
        policy_init(&p, LEVEL_HIGH);
        must_load(&p, "network: {allow: [{host: c.org, scheme: https, pass: [Cookie, \"?sig\"]}]}");
        policy_init(&request, LEVEL_HIGH);
        must_load(&request, rows[i].request);
        cr_assert_eq(policy_tighten(&p, &request, &err), rows[i].result, "%s: %s", rows[i].request,
                     err.message);
        if (rows[i].result == 0)
            cr_assert_eq(p.egress.rules[0].pass.count, rows[i].count, "%s", rows[i].request);
    }
}

Test(egress, a_request_may_not_widen)
{
    static const char *const documents[] = {
        "network: {allow: [d.org]}",
        "network: {allow: [\"a.org:8443\"]}",
        "network: {allow: [\"any://a.org:443\"]}",
        "network: {allow: [\"*.a.org\"]}",
        "network: {allow: [\"b.org:443\"]}",
        "network: {allow: [\"**.x.org:443\"]}",
        "network: {allow: [\"x.b.org:80\"]}",
        "network: {allow: [\"a.org:443=10.0.0.1\"]}",
        "network: {allow: [\"db.internal:5432=10.0.0.6\"]}",
        "network: {allow: [{host: c.org, port: 443, methods: [GET, POST]}]}",
        "network: {allow: [{host: c.org, port: 443, paths: [/v1/a, /y]}]}",
        "network: {allow: [{host: c.org, port: 443, paths: [/**]}]}",
        "network: {allow: [{host: c.org, port: 443, upload: 11M}]}",
        "credentials: {secrets: [\"U=env:U@https://a.org\"]}",
        "credentials: {secrets: [\"T=env:OTHER@https://s.org\"]}",
        "credentials: {secrets: [\"T=env:T@https://a.org\"]}",
    };
    for (size_t i = 0; i < ARRAY_LEN(documents); i++) {
        cleanup_policy struct policy p;
        cleanup_policy struct policy same;
        struct err err = ERR_INIT;
        char before[72], after[72];
        policy_init(&same, LEVEL_HIGH);
        must_load(&same, all_rules);
        policy_hash(&same, before);
        cr_assert_eq(tighten_with(&p, documents[i], &err), -ERR_REFUSED, "%s was granted",
                     documents[i]);
        policy_hash(&p, after);
        cr_assert_str_eq(before, after, "%s changed the policy", documents[i]);
        cr_assert(has(err.message, "a request may only tighten the policy"), "%s", err.message);
        cr_assert(has(err.hint, "operator"), "%s", err.hint);
    }
}

Test(egress, a_request_may_block_and_turn_off)
{
    cleanup_policy struct policy p;
    cleanup_policy struct policy off;
    struct err err = ERR_INIT;
    cr_assert_eq(tighten_with(&p, "network: {block: [a.org, z.org]}", &err), 0, "%s", err.message);
    cr_assert_eq(p.egress.blocked_count, 2);
    cr_assert_eq(tighten_with(&off, "network: {mode: \"off\"}", &err), 0, "%s", err.message);
    cr_assert(off.egress.rule_count == 0 && off.egress.secret_count == 0);
    cr_assert_eq(off.network_mode, NETWORK_OFF);
    cr_assert_eq(policy_validate(&off, &err), 0, "%s", err.message);
}

Test(egress, the_operators_own_secret_may_be_named)
{
    cleanup_policy struct policy p;
    struct err err = ERR_INIT;
    cr_assert_eq(tighten_with(&p, "credentials: {secrets: [\"T=env:T@https://s.org\"]}", &err), 0,
                 "%s", err.message);
    cr_assert_eq(p.egress.secret_count, 1);
}
