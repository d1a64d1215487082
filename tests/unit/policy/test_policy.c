/* Levels, single fields, grants, variables, contradictions. */
#include "base/cleanup.h"
#include "helpers.h"
#include "policy/policy.h"

#include <stdio.h>

#define MIB (1024UL * 1024)

static void text_is(const struct policy *p, enum policy_field field, const char *expected)
{
    cleanup_buf struct buf b;
    buf_init(&b, 4096);
    policy_field_text(p, field, &b);
    cr_assert_str_eq(buf_text(&b), expected, "%s", policy_field_path(field));
}

Test(levels, fill_every_field)
{
    cleanup_policy struct policy p;
    cr_assert_eq(policy_init(&p, LEVEL_HIGH), 0);
    cr_assert_eq(p.tier, TIER_CONTAINER);
    cr_assert(p.workspace && p.exec && !p.project);
    cr_assert_eq(p.memory, 512 * MIB);
    cr_assert_eq(p.timeout_ms, 300000);
    cr_assert_eq(p.cpu_time_ms, POLICY_UNLIMITED);
    cr_assert_eq(p.uid, 1000);
    cr_assert_eq(p.landlock, NEED_REQUIRE);
    cr_assert_eq(p.cgroup, NEED_AUTO);
    cr_assert_str_eq(p.root, "host");
    cr_assert_null(p.cwd);
    cr_assert_eq(p.grant_count, 0);
    cr_assert_eq(p.env_count, 0);
}

Test(levels, differ_where_the_table_says_so)
{
    cleanup_policy struct policy low;
    cleanup_policy struct policy medium;
    cleanup_policy struct policy critical;
    policy_init(&low, LEVEL_LOW);
    policy_init(&medium, LEVEL_MEDIUM);
    policy_init(&critical, LEVEL_CRITICAL);
    cr_assert(low.tier == TIER_PROCESS && !low.workspace && !low.exec && low.pids == 64);
    cr_assert(medium.tier == TIER_CONTAINER && medium.project && medium.memory == 2048 * MIB);
    cr_assert(critical.tier == TIER_VM && !critical.exec && !critical.project);
}

Test(levels, are_valid_as_they_are)
{
    for (enum level level = 0; level < LEVEL_COUNT; level++) {
        cleanup_policy struct policy p;
        struct err err = ERR_INIT;
        policy_init(&p, level);
        cr_assert_eq(policy_validate(&p, &err), 0, "%s: %s", level_name(level), err.message);
    }
}

Test(levels, say_which_fields_they_chose)
{
    cleanup_policy struct policy p;
    policy_init(&p, LEVEL_HIGH);
    cr_assert_eq(p.origin[FIELD_MEMORY].kind, ORIGIN_LEVEL);
    cr_assert_eq(p.origin[FIELD_UID].kind, ORIGIN_DEFAULT);
    cr_assert_eq(p.origin[FIELD_LANDLOCK].kind, ORIGIN_DEFAULT);
}

Test(levels, have_names)
{
    enum level level = LEVEL_LOW;
    cr_assert_str_eq(level_name(LEVEL_CRITICAL), "critical");
    cr_assert_str_eq(tier_name(TIER_CONTAINER), "container");
    cr_assert_str_eq(tier_name(TIER_AUTO), "auto");
    cr_assert_eq(level_parse("medium", &level), 0);
    cr_assert_eq(level, LEVEL_MEDIUM);
    cr_assert_lt(level_parse("Medium", &level), 0);
    cr_assert_lt(level_parse("", &level), 0);
}

Test(set, takes_every_field_and_writes_it_back)
{
    static const struct {
        enum policy_field field;
        const char *text;
        const char *back;
    } rows[] = {
        {FIELD_LEVEL, "low", "low"},
        {FIELD_TIER, "vm", "vm"},
        {FIELD_UID, "0", "0"},
        {FIELD_UID, "65533", "65533"},
        {FIELD_UNIX_SOCKETS, "off", "off"},
        {FIELD_ROOT, "/srv//image/./x/", "/srv/image/x"},
        {FIELD_ROOT, "host", "host"},
        {FIELD_CWD, "/", "/"},
        {FIELD_CWD, "auto", "auto"},
        {FIELD_WORKSPACE, "false", "false"},
        {FIELD_EXEC, "true", "true"},
        {FIELD_PROJECT, "true", "true"},
        {FIELD_PROC, "system", "system"},
        {FIELD_LANDLOCK, "auto", "auto"},
        {FIELD_DISK, "102400K", "100M"},
        {FIELD_INODES, "10k", "10k"},
        {FIELD_MEMORY, "1.5G", "1536M"},
        {FIELD_CPUS, "0.50", "0.5"},
        {FIELD_CPUS, "unlimited", "unlimited"},
        {FIELD_PIDS, "1", "1"},
        {FIELD_TIMEOUT, "90", "90s"},
        {FIELD_TIMEOUT, "unlimited", "unlimited"},
        {FIELD_CPU_TIME, "1.5s", "1500ms"},
        {FIELD_OUTPUT, "10K", "10K"},
        {FIELD_OUTPUT, "unlimited", "unlimited"},
        {FIELD_OPEN_FILES, "64", "64"},
        {FIELD_CGROUP, "require", "require"},
        {FIELD_NETWORK_MODE, "allowlist", "allowlist"},
        {FIELD_MAX_CONNECTIONS, "1k", "1k"},
        {FIELD_UPLOAD, "10M", "10M"},
        {FIELD_UPLOAD, "unlimited", "unlimited"},
        {FIELD_REQUESTS, "60", "60"},
        {FIELD_RESOLVER, "host", "host"},
        {FIELD_RESOLVER, "9.9.9.9", "9.9.9.9:53"},
        {FIELD_RESOLVER, "127.0.0.1:5353", "127.0.0.1:5353"},
        {FIELD_RESOLVER, "::1", "[::1]:53"},
        {FIELD_RESOLVER, "[::1]:5353", "[::1]:5353"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        cleanup_policy struct policy p;
        policy_init(&p, LEVEL_HIGH);
        must_set(&p, rows[i].field, rows[i].text);
        text_is(&p, rows[i].field, rows[i].back);
        cr_assert_eq(p.origin[rows[i].field].kind, ORIGIN_OPTION);
    }
}

Test(set, refuses_with_a_sentence_that_helps)
{
    static const struct {
        enum policy_field field;
        const char *text;
        const char *says;
    } rows[] = {
        {FIELD_LEVEL, "huge", "unknown value \"huge\", expected low, medium, high or critical"},
        {FIELD_TIER, "auto", "expected process, wasm-process, container, wasm, gvisor or vm"},
        {FIELD_UID, "65534", "\"65534\" is out of range, expected 0 to 65533"},
        {FIELD_UID, "-1", "\"-1\" is not a whole number"},
        {FIELD_UID, "unlimited", "cannot be unlimited"},
        {FIELD_UNIX_SOCKETS, "no", "expected off, auto or require"},
        {FIELD_ROOT, "images/x", "expected host or a path that begins with /"},
        {FIELD_ROOT, "/", "would show the whole host"},
        {FIELD_ROOT, "/.//", "would show the whole host"},
        {FIELD_ROOT, "", "expected host or a path"},
        {FIELD_CWD, "x", "expected auto or a path that begins with /"},
        {FIELD_CWD, "/a/../b", "has .. in it"},
        {FIELD_CWD, "/a\nb", "control character"},
        {FIELD_CWD, "/a\xff", "not valid UTF-8"},
        {FIELD_EXEC, "yes", "expected false or true"},
        {FIELD_PROC, "all", "expected pid, own or system"},
        {FIELD_LANDLOCK, "true", "expected off, auto or require"},
        {FIELD_DISK, "unlimited", "cannot be unlimited, expected a number"},
        {FIELD_DISK, "1", "expected 4K to 1024T"},
        {FIELD_INODES, "unlimited", "cannot be unlimited"},
        {FIELD_MEMORY, "12Q", "\"12Q\" is not a size, expected a number with an optional K"},
        {FIELD_MEMORY, "0", "expected more than zero"},
        {FIELD_MEMORY, "-5M", "is not a size"},
        {FIELD_MEMORY, "", "\"\" is not a size"},
        {FIELD_MEMORY, "1K", "\"1K\" is out of range, expected 4M to 1024T"},
        {FIELD_MEMORY, "unlimited", "cannot be unlimited"},
        {FIELD_MEMORY, "99999999T", "is too large"},
        {FIELD_CPUS, "0.001", "out of range, expected 0.01 to 4096"},
        {FIELD_PIDS, "5M", "out of range"},
        {FIELD_PIDS, "unlimited", "cannot be unlimited"},
        {FIELD_TIMEOUT, "30x", "is not a duration, expected a number with ms, s, m or h"},
        {FIELD_TIMEOUT, "9000h", "out of range"},
        {FIELD_OPEN_FILES, "3", "expected 16 to"},
        {FIELD_NETWORK_MODE, "on", "expected off or allowlist"},
        {FIELD_NETWORK_MODE, "", "expected off or allowlist"},
        {FIELD_MAX_CONNECTIONS, "0", "expected more than zero"},
        {FIELD_MAX_CONNECTIONS, "unlimited", "cannot be unlimited"},
        {FIELD_UPLOAD, "0", "expected more than zero"},
        {FIELD_REQUESTS, "-1", "is not a count"},
        {FIELD_RESOLVER, "", "\"\" is not a resolver, expected host, an address"},
        {FIELD_RESOLVER, "dns.example.org", "is not a resolver"},
        {FIELD_RESOLVER, "1.1", "is not a resolver"},
        {FIELD_RESOLVER, "1.1.1.1:0", "is not a resolver"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        cleanup_policy struct policy p;
        struct err err = ERR_INIT;
        policy_init(&p, LEVEL_HIGH);
        cr_assert_lt(set(&p, rows[i].field, rows[i].text, &err), 0, "%s %s was accepted",
                     policy_field_path(rows[i].field), rows[i].text);
        cr_assert_eq(err.code, ERR_USAGE);
        cr_assert(has(err.message, rows[i].says), "%s", err.message);
        cr_assert_eq(strncmp(err.message, "--option: ", 10), 0, "%s", err.message);
        cr_assert_lt(p.origin[rows[i].field].kind, ORIGIN_OPTION);
        cr_assert_lt(set(&p, rows[i].field, rows[i].text, NULL), 0);
    }
}

Test(set, a_level_fills_only_what_nobody_chose)
{
    cleanup_policy struct policy p;
    policy_init(&p, LEVEL_HIGH);
    must_set(&p, FIELD_MEMORY, "64M");
    must_set(&p, FIELD_LEVEL, "low");
    cr_assert_eq(p.memory, 64 * MIB);
    cr_assert_eq(p.pids, 64);
    cr_assert_eq(p.origin[FIELD_LEVEL].kind, ORIGIN_OPTION);
    cr_assert_eq(p.origin[FIELD_PIDS].kind, ORIGIN_LEVEL);
}

Test(set, an_option_stands_above_a_file_in_either_order)
{
    struct origin file = {.kind = ORIGIN_FILE, .name = "p.yaml", .line = 2, .column = 3};
    for (int file_first = 0; file_first < 2; file_first++) {
        cleanup_policy struct policy p;
        policy_init(&p, LEVEL_HIGH);
        if (file_first)
            policy_set(&p, FIELD_MEMORY, "1G", &file, NULL);
        must_set(&p, FIELD_MEMORY, "64M");
        must_set(&p, FIELD_CWD, "/x");
        cr_assert_eq(policy_set(&p, FIELD_MEMORY, "1G", &file, NULL), 0);
        cr_assert_eq(policy_set(&p, FIELD_CWD, "/y", &file, NULL), 0);
        cr_assert_eq(p.memory, 64 * MIB);
        cr_assert_str_eq(p.cwd, "/x");
    }
}

Test(set, two_options_may_agree_but_not_contradict)
{
    cleanup_policy struct policy p;
    struct err err = ERR_INIT;
    policy_init(&p, LEVEL_HIGH);
    must_set(&p, FIELD_MEMORY, "64M");
    must_set(&p, FIELD_MEMORY, "65536K");
    must_set(&p, FIELD_CWD, "/x");
    cr_assert_lt(set(&p, FIELD_MEMORY, "1G", &err), 0);
    cr_assert_str_eq(err.message,
                     "--option: contradicts --option, which was given before as \"64M\"");
    cr_assert_lt(set(&p, FIELD_CWD, "/y", &err), 0);
    cr_assert_lt(set(&p, FIELD_CWD, "auto", &err), 0);
    cr_assert(has(err.message, "given before as \"/x\""), "%s", err.message);
}

Test(grants, are_brought_to_one_spelling)
{
    cleanup_policy struct policy p;
    policy_init(&p, LEVEL_HIGH);
    must_grant(&p, "//opt/./tools/", false);
    must_grant(&p, "/a/b:/c//d/", true);
    must_grant(&p, "/dev/shm/x:/x", true);
    must_grant(&p, "/process:/sysx", false);
    cr_assert_str_eq(p.grants[0].source, "/opt/tools");
    cr_assert_str_eq(p.grants[0].dest, "/opt/tools");
    cr_assert_not(p.grants[0].writable);
    cr_assert_str_eq(p.grants[1].source, "/a/b");
    cr_assert_str_eq(p.grants[1].dest, "/c/d");
    cr_assert(p.grants[1].writable);
    cr_assert_str_eq(p.grants[1].origin.name, "--rw");
    cr_assert_eq(p.grant_count, 4);
}

Test(grants, are_refused_with_the_reason)
{
    static const struct {
        const char *spec;
        const char *says;
    } rows[] = {
        {"", "\"\" is not a grant, expected DIR or DIR:DEST"},
        {":/x", "expected DIR or DIR:DEST"},
        {"/x:", "expected DIR or DIR:DEST"},
        {"/x:/y:/z", "expected DIR or DIR:DEST"},
        {"data", "\"data\" is not an absolute path"},
        {"/data:data", "\"data\" is not an absolute path"},
        {"./data", "is not an absolute path"},
        {"/a/../etc", "has .. in it"},
        {"/a:/b/..", "has .. in it"},
        {"/", "cannot stand at /"},
        {"/a://", "cannot stand at /"},
        {"/a:/proc", "the sandbox has its own /proc"},
        {"/a:/proc/x", "the sandbox has its own /proc"},
        {"/a:/sys/fs", "the sandbox has its own /sys"},
        {"/a:/./dev//shm", "the sandbox has its own /dev"},
        {"/:/host", "would show the whole host"},
        {"/proc:/x", "which is never shown inside"},
        {"/sys/fs/cgroup:/x", "which is never shown inside"},
        {"/dev:/x", "which is never shown inside"},
        {"/a\nb", "control character"},
        {"/a\xc2\x9b", "control character"},
        {"/a\xff", "not valid UTF-8"},
        {"/taken",
         "\"/taken\" is already the place of a grant (read-only), expected each place once"},
        {"/other:/taken/", "is already the place of a grant"},
    };
    cleanup_policy struct policy p;
    policy_init(&p, LEVEL_HIGH);
    must_grant(&p, "/taken", false);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = ERR_INIT;
        cr_assert_lt(grant(&p, rows[i].spec, true, &err), 0, "%s was accepted", rows[i].spec);
        cr_assert(has(err.message, rows[i].says), "%s: %s", rows[i].spec, err.message);
        cr_assert_eq(strncmp(err.message, "--rw: ", 6), 0, "%s", err.message);
        cr_assert_lt(grant(&p, rows[i].spec, true, NULL), 0);
    }
    cr_assert_eq(p.grant_count, 1);
}

Test(grants, have_a_bound)
{
    cleanup_policy struct policy p;
    struct err err = ERR_INIT;
    char spec[32];
    int r = 0;
    policy_init(&p, LEVEL_HIGH);
    for (int i = 0; i < 300 && r == 0; i++) {
        snprintf(spec, sizeof spec, "/g%d", i);
        r = grant(&p, spec, false, &err);
    }
    cr_assert_eq(r, -ERR_LIMIT);
    cr_assert(has(err.message, "at most 256"), "%s", err.message);
}

Test(env, takes_any_value_and_the_names_of_shells)
{
    cleanup_policy struct policy p;
    policy_init(&p, LEVEL_HIGH);
    cr_assert_eq(env(&p, "A=1", NULL), 0);
    cr_assert_eq(env(&p, "_b2=", NULL), 0);
    cr_assert_eq(env(&p, "LD_PRELOAD=x=y=z\nw", NULL), 0);
    cr_assert_str_eq(p.env[1].value, "");
    cr_assert_str_eq(p.env[2].name, "LD_PRELOAD");
    cr_assert_str_eq(p.env[2].value, "x=y=z\nw");
}

Test(env, is_refused_with_the_reason)
{
    static const struct {
        const char *spec;
        const char *says;
    } rows[] = {
        {"KEY", "\"KEY\" has no =, expected KEY=VALUE"},
        {"", "expected KEY=VALUE"},
        {"=x", "\"\" is not a variable name, expected letters, digits and _"},
        {"1A=x", "\"1A\" is not a variable name"},
        {"A-B=x", "\"A-B\" is not a variable name"},
        {"A B=x", "is not a variable name"},
        {"\xc3\xa4=x", "is not a variable name"},
        {"A=\xff", "the value of A is not valid UTF-8"},
        {"TAKEN=other", "TAKEN was given before with another value"},
    };
    cleanup_policy struct policy p;
    policy_init(&p, LEVEL_HIGH);
    cr_assert_eq(env(&p, "TAKEN=x", NULL), 0);
    cr_assert_eq(env(&p, "TAKEN=x", NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = ERR_INIT;
        cr_assert_lt(env(&p, rows[i].spec, &err), 0, "%s was accepted", rows[i].spec);
        cr_assert(has(err.message, rows[i].says), "%s: %s", rows[i].spec, err.message);
        cr_assert_eq(strncmp(err.message, "-e: ", 4), 0, "%s", err.message);
    }
    cr_assert_eq(p.env_count, 1);
}

Test(env, an_option_replaces_what_a_file_said)
{
    cleanup_policy struct policy p;
    struct origin file = {.kind = ORIGIN_FILE};
    policy_init(&p, LEVEL_HIGH);
    cr_assert_eq(policy_env(&p, "A=file", &file, NULL), 0);
    cr_assert_eq(env(&p, "A=option", NULL), 0);
    cr_assert_eq(policy_env(&p, "A=file", &file, NULL), 0);
    cr_assert_str_eq(p.env[0].value, "option");
    cr_assert_eq(p.env_count, 1);
}

struct contradiction {
    enum level level;
    const char *tier;
    const char *root;
    const char *ro;
    const char *rw;
    const char *says; /* NULL: no contradiction */
};

static void check_contradiction(const struct contradiction *c)
{
    cleanup_policy struct policy p;
    struct err err = ERR_INIT;
    policy_init(&p, c->level);
    if (c->tier)
        must_set(&p, FIELD_TIER, c->tier);
    if (c->root)
        must_set(&p, FIELD_ROOT, c->root);
    if (c->ro)
        must_grant(&p, c->ro, false);
    if (c->rw)
        must_grant(&p, c->rw, true);
    int r = policy_validate(&p, &err);
    if (!c->says) {
        cr_assert_eq(r, 0, "%s", err.message);
        return;
    }
    cr_assert_eq(r, -ERR_POLICY, "accepted, expected: %s", c->says);
    cr_assert(has(err.message, c->says), "%s", err.message);
    cr_assert_neq(err.hint[0], '\0');
    cr_assert_lt(policy_validate(&p, NULL), 0);
}

Test(validate, finds_contradictions)
{
    static const struct contradiction rows[] = {
        {LEVEL_CRITICAL, NULL, NULL, "/a", NULL, "no host folder, but filesystem.ro grants \"/a\""},
        {LEVEL_CRITICAL, NULL, NULL, NULL, "/a", "no host folder, but filesystem.rw grants \"/a\""},
        {LEVEL_CRITICAL, NULL, "/image", NULL, NULL, "but filesystem.root is \"/image\""},
        {LEVEL_CRITICAL, "container", NULL, "/a", NULL, "no host folder"},
        {LEVEL_HIGH, NULL, "/image", "/a:/b", "/c:/d", NULL},
        {LEVEL_HIGH, "process", "/image", NULL, NULL,
         "no mount namespace: filesystem.root cannot be \"/image\""},
        {LEVEL_HIGH, "process", NULL, "/a:/b", NULL,
         "no mount namespace: filesystem.ro cannot show \"/a\" at another place (\"/b\")"},
        {LEVEL_HIGH, "process", NULL, NULL, "/a:/b", "filesystem.rw cannot show \"/a\""},
        {LEVEL_HIGH, "process", NULL, "/a", "/b", NULL},
        {LEVEL_HIGH, "process", NULL, "/a", "/a/b", NULL},
        {LEVEL_HIGH, "process", NULL, "/a/b", "/a",
         "\"/a/b\" cannot be read-only inside \"/a\", which is granted read-write"},
        {LEVEL_HIGH, "process", NULL, "/ab", "/a", NULL},
        {LEVEL_HIGH, NULL, NULL, "/a/b", "/a", NULL},
        {LEVEL_LOW, NULL, NULL, "/a:/b", NULL, "no mount namespace"},
        {LEVEL_MEDIUM, "process", NULL, NULL, NULL, NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        check_contradiction(&rows[i]);
}

Test(validate, a_writable_root_needs_a_place_to_write_and_programs_to_start)
{
    static const struct {
        enum policy_field field;
        const char *value, *says;
    } rows[] = {{FIELD_TIER, "process", "no mount namespace: filesystem.writable_root cannot"},
                {FIELD_WORKSPACE, "false", "filesystem.workspace is false"},
                {FIELD_EXEC, "false", "filesystem.exec is false"},
                {FIELD_UID, "0", NULL},
                {FIELD_ROOT, "/image", NULL}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        cleanup_policy struct policy p;
        struct err err = ERR_INIT;
        policy_init(&p, LEVEL_HIGH);
        must_set(&p, rows[i].field, rows[i].value);
        cr_assert_eq(policy_validate(&p, &err), 0, "%s", err.message);
        must_set(&p, FIELD_WRITABLE_ROOT, "true");
        int r = policy_validate(&p, &err);
        cr_assert_eq(r, rows[i].says ? -ERR_POLICY : 0, "%s", err.message);
        cr_assert(!rows[i].says || (has(err.message, rows[i].says) && err.hint[0]), "%s",
                  err.message);
    }
}

Test(validate, root_beside_another_user)
{
    static const struct {
        enum policy_field field;
        const char *value, *says;
    } rows[] = {{FIELD_TIER, "process", "tier process has one user inside: kernel.root cannot"},
                {FIELD_TIER, "gvisor", "tier gvisor has one user"},
                {FIELD_UID, "0", "kernel.uid is 0: root is the one user"},
                {FIELD_UID, "33", "kernel.uid is not 1000"},
                {FIELD_WORKSPACE, "false", "filesystem.workspace is false"},
                {FIELD_TIER, "container", NULL},
                {FIELD_WRITABLE_ROOT, "true", NULL}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        cleanup_policy struct policy p;
        struct err err = ERR_INIT;
        policy_init(&p, LEVEL_HIGH);
        must_set(&p, rows[i].field, rows[i].value);
        cr_assert_eq(policy_validate(&p, &err), 0, "%s", err.message);
        must_set(&p, FIELD_BESIDE, "true");
        int r = policy_validate(&p, &err);
        cr_assert_eq(r, rows[i].says ? -ERR_POLICY : 0, "%s", err.message);
        cr_assert(!rows[i].says || (has(err.message, rows[i].says) && err.hint[0]), "%s",
                  err.message);
    }
}

Test(validate, critical_shows_no_project)
{
    cleanup_policy struct policy p;
    struct err err = ERR_INIT;
    policy_init(&p, LEVEL_CRITICAL);
    must_set(&p, FIELD_PROJECT, "true");
    cr_assert_eq(policy_validate(&p, &err), -ERR_POLICY);
    cr_assert(has(err.message, "but filesystem.project is true"), "%s", err.message);
}

Test(validate, more_disk_than_memory_is_allowed)
{
    cleanup_policy struct policy p;
    policy_init(&p, LEVEL_HIGH);
    must_set(&p, FIELD_DISK, "10G");
    cr_assert_eq(policy_validate(&p, NULL), 0);
}

Test(fields, each_has_a_line_of_help)
{
    for (enum policy_field field = 0; field < FIELD_COUNT; field++) {
        const char *help = policy_field_help(field);
        cr_assert(help && strlen(help) > 10 && strlen(help) < 80, "%s", policy_field_path(field));
    }
}
