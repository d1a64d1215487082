#include "warden/template.h"

#include <criterion/criterion.h>
#include <string.h>

/* Of everything that a request can be about, so that there is something to widen. */
#define POLICY                                                                                     \
    "policy:\n"                                                                                    \
    "  level: medium\n"                                                                            \
    "  filesystem: {exec: true, proc: system, project: false, ro: [/usr/share]}\n"                 \
    "  network: {allow: [{host: a.example.org, methods: [GET], upload: 1M}, b.example.org],\n"     \
    "            max_connections: 8, block: [ads.example.org]}\n"                                  \
    "  credentials: {env: {LANG: C}}\n"                                                            \
    "  lifecycle: {memory: 256M, pids: 64, disk: 64M, cpus: 1, open_files: 128, inodes: 1k,\n"     \
    "              cpu_time: 60s, sampling: auto}\n"                                               \
    "  commands: {deny: ['curl **'], dangerous: ask}\n"

static struct templates t;
static struct template *own;
static struct err err;

static void start(void)
{
    err = (struct err){0};
    cr_assert_eq(templates_init(&t, &err), 0, "%s", err.message);
    cr_assert_eq(templates_add(&t, "own", POLICY, strlen(POLICY), &err), 0, "%s", err.message);
    own = templates_find(&t, "own");
}

static void stop(void)
{
    templates_done(&t);
}

TestSuite(tighten, .init = start, .fini = stop);

static int ask(const char *text)
{
    err = (struct err){0};
    return template_tighten(own, text, strlen(text), &err);
}

static void hash(char out[static 72])
{
    cr_assert_eq(policy_hash(&own->policy, out), 0);
}

Test(tighten, what_is_stricter_is_in_force_afterwards)
{
    char before[72], after[72];
    hash(before);
    cr_assert_eq(ask("{\"filesystem\":{\"exec\":false,\"proc\":\"pid\"},"
                     "\"network\":{\"allow\":[\"b.example.org\"],\"block\":[\"c.example.org\"]},"
                     "\"credentials\":{\"env\":{\"MORE\":\"1\"}},"
                     "\"lifecycle\":{\"memory\":\"64M\",\"pids\":16,\"cpus\":0.5},"
                     "\"commands\":{\"deny\":[\"wget **\"]}}"),
                 0, "%s", err.message);
    hash(after);
    cr_assert_str_neq(before, after);
    const struct policy *p = &own->policy;
    cr_assert(!p->exec && p->proc == PROC_PID);
    cr_assert(p->memory == 64u << 20 && p->pids == 16 && p->cpus_milli == 500);
    cr_assert_eq(p->disk, 64u << 20, "what is not named stays");
    cr_assert_eq(p->egress.blocked_count, 2);
    cr_assert_eq(p->env_count, 2);
    for (size_t i = 0; i < p->egress.rule_count; i++)
        cr_assert(strstr(p->egress.rules[i].text, "b.example.org"), "%s", p->egress.rules[i].text);
    cr_assert_gt(p->egress.rule_count, 0);
    cr_assert_eq(p->commands.given, true);
}

Test(tighten, a_text_in_yaml_is_as_good)
{
    cr_assert_eq(ask("lifecycle:\n  memory: 64M\n"), 0, "%s", err.message);
    cr_assert_eq(own->policy.memory, 64u << 20);
}

Test(tighten, the_network_can_be_turned_off)
{
    cr_assert_eq(ask("{\"network\":{\"mode\":\"off\"}}"), 0, "%s", err.message);
    cr_assert_eq(own->policy.network_mode, NETWORK_OFF);
    cr_assert_eq(own->policy.egress.rule_count, 0);
}

Test(tighten, a_higher_level_brings_what_is_stricter_in_it)
{
    cr_assert_eq(ask("level: high\n"), 0, "%s", err.message);
    cr_assert_eq(own->policy.level, LEVEL_HIGH);
    cr_assert_eq(own->policy.proc, PROC_PID);
    cr_assert_eq(own->policy.memory, 256u << 20, "not what is looser in it");
}

Test(tighten, nothing_is_widened)
{
    static const struct {
        const char *text, *field, *have, *want;
    } rows[] = {
        {"level: low\n", "level", "medium", "low"},
        {"kernel: {tier: process}\n", "kernel.tier", "container", "process"},
        {"kernel: {uid: 0}\n", "kernel.uid", "1000", "0"},
        {"kernel: {unix_sockets: require}\n", "kernel.unix_sockets", "auto", "require"},
        {"filesystem: {root: /srv}\n", "filesystem.root", "host", "/srv"},
        {"filesystem: {project: true}\n", "filesystem.project", "false", "true"},
        {"filesystem: {submounts: true}\n", "filesystem.submounts", "false", "true"},
        {"filesystem: {landlock: auto}\n", "filesystem.landlock", "require", "auto"},
        {"filesystem: {ro: [/etc]}\n", "filesystem.ro", "/etc", "not among its grants"},
        {"filesystem: {rw: [/usr/share]}\n", "filesystem.rw", "/usr/share", "not among its grants"},
        {"network: {max_connections: 9}\n", "network.max_connections", "8", "9"},
        {"network: {resolver: 9.9.9.9}\n", "network.resolver", "host", "9.9.9.9"},
        {"network: {allow: [c.example.org]}\n", "network.allow", "c.example.org", "its rules"},
        {"network: {allow: ['*.example.org']}\n", "network.allow", "*.example.org", "its rules"},
        {"network: {allow: [{host: a.example.org, methods: [POST]}]}\n", "network.allow", "POST",
         "is not allowed there"},
        {"network: {allow: [{host: a.example.org, upload: 2M}]}\n", "network.allow",
         "a.example.org", "higher limit"},
        {"network: {allow: ['b.example.org=127.0.0.1']}\n", "network.allow", "b.example.org",
         "another address"},
        {"network: {ask: true}\n", "network.ask", "", ""},
        {"credentials: {env: {LANG: de}}\n", "LANG", "another value", ""},
        {"credentials: {secrets: ['T=env:T@https://b.example.org']}\n", "T", "its secrets", ""},
        {"lifecycle: {memory: 257M}\n", "lifecycle.memory", "256M", "257M"},
        {"lifecycle: {cpus: unlimited}\n", "lifecycle.cpus", "1", "unlimited"},
        {"lifecycle: {pids: 65}\n", "lifecycle.pids", "64", "65"},
        {"lifecycle: {disk: 65M}\n", "lifecycle.disk", "64M", "65M"},
        {"lifecycle: {inodes: 2k}\n", "lifecycle.inodes", "1k", "2k"},
        {"lifecycle: {cpus: 2}\n", "lifecycle.cpus", "1", "2"},
        {"lifecycle: {cpu_time: 61s}\n", "lifecycle.cpu_time", "1m", "61s"},
        {"lifecycle: {open_files: 129}\n", "lifecycle.open_files", "128", "129"},
        {"lifecycle: {cgroup: 'off'}\n", "lifecycle.cgroup", "auto", "off"},
        {"lifecycle: {sampling: accept}\n", "lifecycle.sampling", "auto", "accept"},
        {"commands: {dangerous: allow}\n", "commands", "", ""},
        {"commands: {allow: ['curl **']}\n", "commands", "", ""},
    };
    char before[72], after[72];
    hash(before);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int r = ask(rows[i].text);
        cr_expect_eq(r, -ERR_REFUSED, "%s: %d %s", rows[i].text, r, err.message);
        cr_expect(strstr(err.message, rows[i].field) && strstr(err.message, rows[i].have) &&
                      strstr(err.message, rows[i].want),
                  "%s: %s", rows[i].text, err.message);
        hash(after);
        cr_assert_str_eq(before, after, "%s changed something", rows[i].text);
    }
    /* The control: the values that are in force can be asked for. */
    cr_assert_eq(ask("level: medium\nlifecycle: {memory: 256M, pids: 64, disk: 64M, cpus: 1}\n"
                     "filesystem: {ro: [/usr/share]}\n"
                     "network: {allow: [{host: a.example.org, methods: [GET]}, b.example.org]}\n"),
                 0, "%s", err.message);
}

Test(tighten, what_nothing_keeps_cannot_be_asked_for)
{
    static const struct {
        const char *text, *named;
    } rows[] = {
        {"lifecycle: {timeout: 1s}\n", "lifecycle.timeout"},
        {"lifecycle: {output: 1k}\n", "lifecycle.output"},
        {"filesystem: {cwd: /tmp}\n", "filesystem.cwd"},
        {"tools: {allow: []}\n", "tools"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cr_assert_eq(ask(rows[i].text), -ERR_POLICY, "%s", rows[i].text);
        cr_assert(strstr(err.message, rows[i].named), "%s", err.message);
        cr_assert(err.hint[0], "%s", err.message);
    }
}

/* Whether the host can give it is seen when it is started. */
Test(tighten, a_stronger_tier_is_taken)
{
    cr_assert_eq(ask("kernel: {tier: vm}\n"), 0, "%s", err.message);
    cr_assert_lt(ask("kernel: {tier: process}\n"), 0, "a weaker one is not");
}

Test(tighten, what_is_malformed_is_refused_with_its_place)
{
    static const struct {
        const char *text, *place;
    } rows[] = {
        {"", "policy:1:1:"},
        {"{}", "policy:1:1:"},
        {"[1]", "policy:1:1:"},
        {"level: high\nlifecycle:\n  memry: 1M\n", "policy:3:3:"},
        {"{\"lifecycle\":{\"memory\":-1}}", "policy:1:"},
        {"{\"lifecycle\":{\"memory\":\"much\"}}", "policy:1:"},
        {"{\"lifecycle\":{\"memory\":null}}", "policy:1:"},
        {"{\"level\":\"high\"", "policy:1:"},
        {"level: high\nlevel: high\n", "policy:2:"},
        {"level: high\n\tx\n", "policy:2:"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cr_assert_eq(ask(rows[i].text), -ERR_POLICY, "%s: %s", rows[i].text, err.message);
        cr_assert_eq(strncmp(err.message, rows[i].place, strlen(rows[i].place)), 0, "%s: %s",
                     rows[i].text, err.message);
    }
}

Test(tighten, the_front_gets_the_rules_on_commands)
{
    struct buf out;
    struct json_writer w;
    cr_assert_eq(ask("commands: {deny: ['wget **']}\n"), 0, "%s", err.message);
    buf_init(&out, 1 << 16);
    jw_init(&w, &out, false);
    jw_object_begin(&w);
    template_write_commands(own, &w);
    jw_object_end(&w);
    cr_assert(strstr(out.data, "curl **") && strstr(out.data, "wget **"), "%s", out.data);
    buf_done(&out);
}
