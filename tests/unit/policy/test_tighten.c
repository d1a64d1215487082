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
    {FIELD_TIER, "hardware", "container", false},
    {FIELD_UID, "0", "1000", true},
    {FIELD_UID, "1000", "1000", true},
    {FIELD_UID, "1000", "0", false},
    {FIELD_UID, "1000", "1001", false},
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
    {FIELD_WORKSPACE, "true", "false", true},
    {FIELD_WORKSPACE, "false", "true", false},
    {FIELD_EXEC, "true", "false", true},
    {FIELD_EXEC, "false", "true", false},
    {FIELD_PROJECT, "true", "false", true},
    {FIELD_PROJECT, "false", "true", false},
    {FIELD_PROC, "system", "pid", true},
    {FIELD_PROC, "pid", "system", false},
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
    cr_assert_eq(p.tier, TIER_HARDWARE);
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
