/* From refusals to a policy: the smallest one, readable, in one order, and never more than was
 * agreed to. */
#include "base/cleanup.h"
#include "helpers.h"
#include "policy/learn/learn.h"

#include <stdio.h>

static struct learn *l;
static struct policy base;

static void set_up(void)
{
    l = learn_new();
    cr_assert(l);
    cr_assert_eq(policy_init(&base, LEVEL_HIGH), 0);
}

static void tear_down(void)
{
    learn_free(l);
    policy_done(&base);
}

TestSuite(learn, .init = set_up, .fini = tear_down);

static void ask(enum learn_kind kind, const char *path, const char *dest, bool is_dir, bool looked)
{
    learn_grant(l, &(struct learn_line){.kind = kind,
                                        .value = (char *)path,
                                        .dest = (char *)dest,
                                        .is_dir = is_dir,
                                        .looked = looked,
                                        .asked = (char *)path,
                                        .risk = "low: a test",
                                        .count = 1});
}

static void read_file(const char *path)
{
    ask(LEARN_RO, path, NULL, false, false);
}

/* Every folder but those with "closed" in their names, and not the first level. */
static bool may(void *ctx, const char *folder)
{
    (void)ctx;
    return !strstr(folder, "closed") && strchr(folder + 1, '/');
}

static const char *text(void)
{
    struct err err = ERR_INIT;
    learn_merge(l, may, NULL);
    cr_assert_eq(learn_write(l, &base, &err), 0, "%s", err.message);
    return buf_text(&l->policy);
}

static void says(const char *part)
{
    cr_assert(strstr(buf_text(&l->policy), part), "no %s in:\n%s", part, buf_text(&l->policy));
}

static void says_not(const char *part)
{
    cr_assert_not(strstr(buf_text(&l->policy), part), "%s in:\n%s", part, buf_text(&l->policy));
}

static void read_back(struct policy *p)
{
    struct err err = ERR_INIT;
    const char *written = text();
    cr_assert_eq(policy_init(p, LEVEL_HIGH), 0);
    cr_assert_eq(policy_load(p, "learned", written, strlen(written), &err), 0, "%s", err.message);
    cr_assert_eq(policy_validate(p, &err), 0, "%s", err.message);
}

Test(learn, nothing_refused_gives_the_level_alone)
{
    text();
    says("\nversion: 1\nlevel: high\n");
    says_not("filesystem");
    says_not("network");
    says_not("lifecycle");
}

Test(learn, one_file_is_one_line_with_its_comment)
{
    struct policy p cleanup_policy = {0};
    ask(LEARN_RO, "/srv/data/a.csv", NULL, false, false);
    ask(LEARN_RO, "/srv/data/a.csv", NULL, false, false);
    read_back(&p);
    cr_assert_eq(p.grant_count, 1);
    cr_assert_str_eq(p.grants[0].source, "/srv/data/a.csv");
    cr_assert_not(p.grants[0].writable);
    says("    # /srv/data/a.csv (2 times)\n    # risk low: a test\n    - /srv/data/a.csv\n");
}

Test(learn, a_place_inside_is_kept)
{
    struct policy p cleanup_policy = {0};
    ask(LEARN_RO, "/home/u/p/main.py", "/workspace/main.py", false, false);
    read_back(&p);
    cr_assert_eq(p.grant_count, 1);
    cr_assert_str_eq(p.grants[0].dest, "/workspace/main.py");
}

Test(learn, few_files_stay_files_and_many_become_their_folder)
{
    read_file("/srv/few/a");
    read_file("/srv/few/b");
    read_file("/srv/few/c");
    for (char name[] = "/srv/many/a"; name[10] <= 'd'; name[10]++)
        read_file(name);
    text();
    cr_assert_eq(l->line_count, 4);
    says("- /srv/few/a\n");
    says("- /srv/many\n");
    says("4 entries of it");
    says_not("- /srv/many/a");
}

Test(learn, a_folder_that_is_not_agreed_to_is_never_merged_to)
{
    for (char name[] = "/srv/closed/a"; name[12] <= 'h'; name[12]++)
        read_file(name);
    for (char name[] = "/opt/a"; name[5] <= 'h'; name[5]++)
        read_file(name);
    text();
    cr_assert_eq(l->line_count, 16);
    says_not("- /srv/closed\n");
    says_not("- /opt\n");
}

Test(learn, folders_cover_what_lies_in_them)
{
    read_file("/srv/p/src/a.c");
    ask(LEARN_RO, "/srv/p", NULL, true, false);
    read_file("/srv/pq");
    ask(LEARN_RW, "/srv/p/out", NULL, true, false);
    text();
    cr_assert_eq(l->line_count, 3);
    says("  ro:\n");
    says("- /srv/p\n");
    says("- /srv/pq\n");
    says("  rw:\n");
    says("- /srv/p/out\n");
}

Test(learn, a_file_to_be_written_needs_no_second_line_to_be_read)
{
    struct policy p cleanup_policy = {0};
    read_file("/srv/p/log");
    ask(LEARN_RW, "/srv/p/log", NULL, false, false);
    read_back(&p);
    cr_assert_eq(p.grant_count, 1);
    cr_assert(p.grants[0].writable);
}

Test(learn, a_folder_that_was_only_looked_at_is_a_way)
{
    ask(LEARN_RO, "/srv/p", NULL, true, true);
    ask(LEARN_RO, "/srv/p/q", NULL, true, true);
    read_file("/srv/p/q/x");
    ask(LEARN_RO, "/srv/alone", NULL, true, true);
    text();
    cr_assert_eq(l->line_count, 2);
    says("- /srv/p/q/x\n");
    says("- /srv/alone\n");
}

Test(learn, hosts_become_exact_rules)
{
    struct policy p cleanup_policy = {0};
    learn_host(l, "api.example.org:443", "CONNECT", "medium: a test", 3);
    learn_host(l, "http://example.org:8080", "GET", "medium: a test", 1);
    read_back(&p);
    cr_assert_eq(p.network_mode, NETWORK_ALLOWLIST);
    cr_assert_eq(p.egress.rule_count, 2);
    says("# CONNECT (3 times)\n");
}

Test(learn, patterns_and_pins_are_not_proposed)
{
    struct policy p cleanup_policy = {0};
    learn_host(l, "*.example.org:443", "x", NULL, 1);
    learn_host(l, "**.org", "x", NULL, 1);
    learn_host(l, "db.example.org:5432=10.0.0.5", "x", NULL, 1);
    learn_host(l, "example.org", "x", NULL, 1); /* two rules */
    learn_host(l, "not a host", "x", NULL, 1);
    learn_host(l, "10.0.0.5:22", "x", NULL, 1); /* the policy would be refused */
    read_back(&p);
    cr_assert_eq(l->line_count, 0);
    cr_assert_eq(p.egress.rule_count, 0);
    cr_assert_eq(l->refusal_count, 6);
}

Test(learn, limits_are_doubled_and_end_somewhere)
{
    struct policy p cleanup_policy = {0};
    must_set(&base, FIELD_MEMORY, "64M");
    must_set(&base, FIELD_DISK, "60G");
    learn_limit(l, &base, FIELD_MEMORY, "killed");
    learn_limit(l, &base, FIELD_TIMEOUT, "timed out");
    learn_limit(l, &base, FIELD_DISK, "full");
    read_back(&p);
    cr_assert_eq(p.memory, UINT64_C(128) << 20);
    cr_assert_eq(p.timeout_ms, 600000);
    cr_assert_eq(p.disk, UINT64_C(60) << 30);
    says("#   lifecycle.disk: the limit is large already");
}

Test(learn, what_was_given_before_stays_and_what_the_level_says_is_left_out)
{
    struct policy p cleanup_policy = {0};
    must_load(&base, "level: high\n"
                     "filesystem: {ro: [/opt/tools], rw: [/srv/out]}\n"
                     "network: {allow: [{host: a.org, methods: [GET]}], block: [b.org]}\n"
                     "credentials: {env: {LANG: C.UTF-8}}\n"
                     "lifecycle: {pids: 99}\n");
    read_file("/srv/data/x");
    read_back(&p);
    cr_assert_eq(p.grant_count, 3);
    cr_assert_eq(p.pids, 99);
    cr_assert_eq(p.egress.rule_count, 2);
    cr_assert_eq(p.egress.blocked_count, 1);
    cr_assert_eq(p.env_count, 1);
    says("  pids: 99\n");
    says_not("memory:");
    says_not("tier:");
}

Test(learn, a_wider_grant_takes_the_place_of_the_old_one)
{
    struct policy p cleanup_policy = {0};
    must_grant(&base, "/srv/p/a", false);
    must_grant(&base, "/srv/q", false);
    ask(LEARN_RO, "/srv/p", NULL, true, false);
    ask(LEARN_RW, "/srv/q", NULL, true, false);
    read_back(&p);
    cr_assert_eq(p.grant_count, 2);
    cr_assert_not(p.grants[0].writable);
    cr_assert_str_eq(p.grants[0].source, "/srv/p");
    cr_assert(p.grants[1].writable);
}

Test(learn, an_option_is_no_contradiction)
{
    struct policy p cleanup_policy = {0};
    must_set(&base, FIELD_MEMORY, "64M");
    must_set(&base, FIELD_TIER, "process");
    learn_limit(l, &base, FIELD_MEMORY, "killed");
    learn_field(l, FIELD_TIER, "container", "bind", NULL, 1);
    read_back(&p);
    cr_assert_eq(p.memory, UINT64_C(128) << 20);
    cr_assert_eq(p.tier, TIER_CONTAINER);
}

Test(learn, the_process_tier_alone_can_be_written)
{
    struct policy p cleanup_policy = {0};
    must_set(&base, FIELD_TIER, "process");
    read_file("/srv/data/x");
    read_back(&p);
    cr_assert_eq(p.tier, TIER_PROCESS);
}

Test(learn, no_name_breaks_out_of_its_place)
{
    struct policy p cleanup_policy = {0};
    static const char *const names[] = {
        "/srv/a\n    - /etc",
        "/srv/a\r\nlevel: low",
        "/srv/\x1b[2Jx",
        "/srv/\xff",
        "/srv/a:/etc",
        "/srv/\xe2\x80\xae"
        "b",
        "/srv/\xc2\x85x",
        "/srv/a\tb",
        "relative",
        "/",
        "/srv/../etc",
        "/proc/1/environ",
    };
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        read_file(names[i]);
    learn_refuse(l, "x\n- y", "a\nb", 1);
    learn_host(l, "a.org\n    - \"**\"", "x\ny", NULL, 1);
    read_back(&p);
    cr_assert_eq(p.grant_count, 0);
    cr_assert_eq(p.egress.rule_count, 0);
    for (const char *at = buf_text(&l->policy); *at; at++)
        cr_assert(*at == '\n' || (unsigned char)*at >= 0x20);
    says("\\x0a");
    says("\\x1b");
}

Test(learn, odd_names_that_can_be_written_are)
{
    struct policy p cleanup_policy = {0};
    static const char *const names[] = {"/srv/a b", "/srv/\"q\"\\", "/srv/# no", "/srv/\xc3\xa4",
                                        "/srv/-",   "/srv/yes",     "/srv/'",    "/srv/{x}"};
    l->command = strdup("x\n- y \x1b");
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        ask(LEARN_RO, names[i], NULL, false, false);
    cr_assert_eq(learn_write(l, &base, NULL), 0); /* not merged */
    cr_assert_eq(policy_init(&p, LEVEL_HIGH), 0);
    must_load(&p, buf_text(&l->policy));
    cr_assert_eq(p.grant_count, ARRAY_LEN(names));
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        cr_assert_str_eq(p.grants[i].source, names[i]);
}

Test(learn, the_order_of_events_does_not_matter)
{
    cleanup_free char *first = NULL;
    read_file("/srv/b/x");
    read_file("/srv/a/x");
    learn_host(l, "b.org:443", "x", NULL, 1);
    learn_host(l, "a.org:443", "x", NULL, 1);
    learn_refuse(l, "z", "no", 1);
    learn_refuse(l, "a", "no", 1);
    first = strdup(text());
    learn_free(l);
    l = learn_new();
    learn_refuse(l, "a", "no", 1);
    learn_host(l, "a.org:443", "x", NULL, 1);
    read_file("/srv/a/x");
    learn_host(l, "b.org:443", "x", NULL, 1);
    learn_refuse(l, "z", "no", 1);
    read_file("/srv/b/x");
    cr_assert_str_eq(text(), first);
}

Test(learn, there_is_an_end_to_what_is_kept)
{
    char name[64];
    for (int i = 0; i < 3000; i++) {
        snprintf(name, sizeof name, "/srv/closed%d/x", i);
        read_file(name);
        learn_refuse(l, name, "no", 1);
    }
    text();
    cr_assert_leq(l->line_count, LEARN_GRANTS_MAX);
    cr_assert_gt(l->dropped, 0);
    says("# Incomplete: ");
}

Test(learn, an_empty_list_that_decides_something_is_kept)
{
    struct policy p cleanup_policy = {0};
    must_load(&base, "network: {mode: allowlist, allow: []}\ntools: {deny: []}\n");
    read_file("/srv/data/x");
    read_back(&p);
    cr_assert_eq(p.network_mode, NETWORK_ALLOWLIST);
    cr_assert(p.tools.given);
    says("tools:\n");
}

Test(learn, one_place_has_one_source)
{
    struct policy p cleanup_policy = {0};
    ask(LEARN_RO, "/srv/a", "/data/x", false, false);
    ask(LEARN_RO, "/srv/b", "/data/x", false, false);
    read_back(&p);
    cr_assert_eq(p.grant_count, 1);
    cr_assert_eq(l->refusal_count, 1);
}
