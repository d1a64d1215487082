#include "warden/stem.h"
#include "warden/template.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct templates t;
static struct err err;

static void start(void)
{
    err = (struct err){0};
    cr_assert_eq(templates_init(&t, &err), 0, "%s", err.message);
}

static void stop(void)
{
    templates_done(&t);
}

TestSuite(template, .init = start, .fini = stop);

static int add(const char *text)
{
    err = (struct err){0};
    return templates_add(&t, "own", text, strlen(text), &err);
}

Test(template, built_in_ones_are_found_by_name_and_alias)
{
    cr_assert_eq(t.count, 3);
    cr_assert_str_eq(templates_find(&t, "code-interpreter-v1")->name, "python");
    cr_assert_eq(templates_find(&t, "nonesuch"), NULL);
    const struct template *base = templates_find(&t, "base");
    cr_assert_eq(base->policy.level, LEVEL_HIGH);
    cr_assert_eq(base->policy.network_mode, NETWORK_OFF);
    cr_assert(base->policy.workspace && base->policy.exec && !base->policy.project);
    cr_assert_eq(base->policy.memory, 1024u << 20);
    cr_assert_eq(base->policy.disk, 512u << 20);
    cr_assert_eq(base->policy.cpus_milli, 2000);
    cr_assert_eq(base->policy.pids, 256);
}

Test(template, a_file_takes_the_place_of_one_of_the_same_name)
{
    cr_assert_eq(add("description: first\n"), 0);
    cr_assert_eq(add("description: second\n"), 0);
    cr_assert_eq(t.count, 4);
    cr_assert_str_eq(templates_find(&t, "own")->description, "second");
}

Test(template, a_name_wins_over_an_alias)
{
    cr_assert_eq(add("aliases: [base]\n"), 0);
    cr_assert_str_eq(templates_find(&t, "base")->name, "base");
}

Test(template, everything_is_read)
{
    cr_assert_eq(add("{\"policy\":{\"level\":\"high\",\"lifecycle\":{\"memory\":\"64M\"}},"
                     "\"aliases\":[\"a\",\"b-1\"],\"interpreter\":\"python\","
                     "\"modules\":[\"numpy\",\"os.path\"],"
                     "\"pool\":{\"min\":1,\"max\":2,\"idle\":7}}"),
                 0, "%s", err.message);
    const struct template *own = templates_find(&t, "b-1");
    cr_assert_str_eq(own->interpreter, "python");
    cr_assert_eq(own->module_count, 2);
    cr_assert_str_eq(own->modules[1], "os.path");
    cr_assert_eq(own->pool_idle_ms, 7000);
    cr_assert_eq(own->policy.memory, 64u << 20);
    cr_assert_eq(own->policy.disk, 512u << 20, "what it leaves out is as in base");
}

Test(template, an_empty_file_is_base_again)
{
    cr_assert_eq(add(""), 0, "%s", err.message);
    cr_assert_eq(templates_find(&t, "own")->policy.memory, 1024u << 20);
}

Test(template, what_is_not_understood_is_refused)
{
    static const char *const bad[] = {
        "unknown: 1\n",
        "aliases: x\n",
        "aliases: ['a b']\n",
        "aliases: ['']\n",
        "aliases: [a, b, c, d, e, f, g, h, i]\n",
        "interpreter: 5\n",
        "modules: [1]\n",
        "modules: ['a;b']\n",
        "modules: ['.a']\n",
        "pool: 3\n",
        "pool: {min: 2, max: 1}\n",
        "pool: {max: 2000}\n",
        "pool: {idle: soon}\n",
        "pool: {size: 1}\n",
        "policy: {level: low}\n",
        "policy: {kernel: {tier: process}}\n",
        "policy: {level: none}\n",
        "policy: null\n",
        "[1]",
        "{\"pool\":{},\"pool\":{}}",
        "description: [x]\n",
        "clones: 1\n",
        "clones: no\n",
    };
    cr_assert_eq(add("pool: {min: 1, max: 2}\n"), 0, "the control");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_assert_lt(add(bad[i]), 0, "%s", bad[i]);
        cr_assert(err.message[0], "%s", bad[i]);
    }
    cr_assert_eq(templates_find(&t, "own")->pool_max, 2, "the good one stays");
}

/* Behind a Sentry a process is several tasks of the host's. */
Test(template, the_gvisor_tier_has_numbers_of_its_own)
{
    cr_assert_eq(add("policy: {kernel: {tier: gvisor}}\n"), 0, "%s", err.message);
    cr_assert_eq(templates_find(&t, "own")->policy.pids, 2048);
    cr_assert_eq(add("policy: {kernel: {tier: gvisor}, lifecycle: {pids: 256}}\n"), 0);
    cr_assert_eq(templates_find(&t, "own")->policy.pids, 256, "a number that is named stays");
    cr_assert_eq(add("policy: {kernel: {tier: [gvisor, container]}}\n"), 0);
    cr_assert_eq(templates_find(&t, "own")->policy.pids, 256, "it may be a container");
    cr_assert_eq(add("policy: {kernel: {tier: gvisor}, lifecycle: {memory: 64M}}\n"),
                 -ERR_UNSUPPORTED);
    cr_assert_eq(add("policy: {kernel: {tier: gvisor}, filesystem: {exec: false}}\n"),
                 -ERR_UNSUPPORTED);
    cr_assert_eq(add("policy: {kernel: {tier: [container, process]}}\n"), -ERR_UNSUPPORTED);
}

Test(template, clones_are_what_its_file_can_do_without)
{
    char why[STEM_WHY_SIZE];
    cr_assert_eq(add("policy: {kernel: {tier: vm}}\n"), 0, "%s", err.message);
    cr_assert(stem_possible(templates_find(&t, "own"), why), "control: %s", why);
    cr_assert_eq(add("policy: {kernel: {tier: vm}}\nclones: true\n"), 0);
    cr_assert(stem_possible(templates_find(&t, "own"), why), "control: %s", why);
    cr_assert_eq(add("policy: {kernel: {tier: vm}}\nclones: false\n"), 0);
    cr_assert_not(stem_possible(templates_find(&t, "own"), why));
    cr_assert(strstr(why, "clones: false"), "%s", why);
}

Test(template, names_are_plain)
{
    static const char *const bad[] = {"", ".x", "-x", "a/b", "a b", "..", "\xc3\xa4"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_assert_lt(templates_add(&t, bad[i], "", 0, &err), 0, "%s", bad[i]);
    cr_assert_eq(templates_add(&t, "A.b-c_9", "", 0, &err), 0);
}

Test(template, there_is_a_most)
{
    char name[16];
    int r = 0;
    for (unsigned i = 0; i < TEMPLATES_MAX && r == 0; i++) {
        snprintf(name, sizeof name, "t%u", i);
        r = templates_add(&t, name, "", 0, &err);
    }
    cr_assert_eq(r, -ERR_LIMIT);
    cr_assert_eq(t.count, TEMPLATES_MAX);
}

Test(template, another_policy_is_another_hash)
{
    struct buf one, two;
    struct json_writer w;
    buf_init(&one, 1 << 20);
    buf_init(&two, 1 << 20);
    cr_assert_eq(add("policy: {level: high, network: {allow: [a.org]}}\n"), 0);
    jw_init(&w, &one, false);
    jw_object_begin(&w);
    templates_write_json(&t, &w);
    cr_assert_eq(add("policy: {level: high, network: {allow: [b.org]}}\n"), 0);
    jw_init(&w, &two, false);
    jw_object_begin(&w);
    templates_write_json(&t, &w);
    cr_assert_str_neq(one.data, two.data);
    buf_done(&one);
    buf_done(&two);
}
