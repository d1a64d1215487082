/* Rules and secrets: what each text means, what is refused, and that the proxy reads what was
 * meant.
 */
#include "base/cleanup.h"
#include "helpers.h"
#include "network/address.h"
#include "policy/egress/egress.h"
#include "policy/egress/headers.h"
#include "policy/egress/internal.h"
#include "policy/egress/presets.h"

#include <stdio.h>
#include <unistd.h>

#define cleanup_egress __attribute__((cleanup(egress_done)))

static const struct origin by_option = {.kind = ORIGIN_OPTION, .name = "--allow"};

static void must_allow(struct egress *e, const char *spec)
{
    struct err err = ERR_INIT;
    cr_assert_eq(egress_allow(e, spec, &by_option, &err), 0, "%s: %s", spec, err.message);
}

static void must_secret(struct egress *e, const char *spec)
{
    struct err err = ERR_INIT;
    cr_assert_eq(egress_secret(e, spec, &by_option, &err), 0, "%s: %s", spec, err.message);
}

static void texts(const struct egress *e, struct buf *out)
{
    for (size_t i = 0; i < e->rule_count; i++)
        buf_fmt(out, "%s%s", i ? " | " : "", e->rules[i].text);
}

/* N-14: written once, it is one rule, though http and https are two for the proxy. */
Test(rules, without_a_scheme_there_is_one_budget)
{
    cleanup_policy struct policy p;
    policy_init(&p, LEVEL_HIGH);
    must_load(&p, "network: {allow: [{host: a.org, upload: 1M}, b.org]}");
    cr_assert_eq(p.egress.rule_count, 4);
    for (size_t i = 0; i < 4; i++) {
        bool limited = strcmp(p.egress.rules[i].host.host.text, "a.org") == 0;
        cr_assert_eq(p.egress.rules[i].budget != NULL, limited, "%s", p.egress.rules[i].text);
        if (limited)
            cr_assert_str_eq(rule_budget(&p.egress.rules[i]), "a.org:0");
    }
}

Test(rules, names_that_pass)
{
    cleanup_policy struct policy p;
    policy_init(&p, LEVEL_HIGH);
    must_load(&p, "network: {allow: [{host: a.org, scheme: https, pass: [X-Api-Key, \"?sig\"]}]}");
    const struct egress_rule *r = &p.egress.rules[0];
    cr_assert(rule_passes(r, "x_api_KEY", 9, false));
    cr_assert(rule_passes(r, "SIG", 3, true));
    cr_assert(!rule_passes(r, "sig", 3, false) && !rule_passes(r, "x-api-key", 9, true));
    cr_assert(!rule_passes(r, "x-api-keys", 10, false));
}

Test(rules, presets_are_rules)
{
    for (size_t i = 0; preset_at(i); i++) {
        cleanup_egress struct egress e;
        egress_init(&e);
        must_allow(&e, preset_at(i)->name);
        cr_assert_gt(e.rule_count, 0);
        for (size_t k = 0; k < e.rule_count; k++) {
            cr_expect_str_eq(e.rules[k].preset, preset_at(i)->name);
            cr_expect(!e.rules[k].pinned && e.rules[k].host.host.kind == HOST_NAME);
            if (e.rules[k].host.stars == STARS_NONE)
                cr_expect_not_null(preset_of(&e.rules[k].host.host), "%s", e.rules[k].text);
        }
        cr_expect_eq(preset_find(preset_at(i)->name), preset_at(i), "each name once");
    }
}

Test(rules, ones_own_rule_stands_before_a_preset)
{
    static const char *const own[] = {"https://pypi.org=10.0.0.5", "https://pypi.org/simple/**"};
    for (size_t i = 0; i < 4; i++) {
        cleanup_egress struct egress e;
        egress_init(&e);
        must_allow(&e, i % 2 ? own[i / 2] : "@pypi");
        must_allow(&e, i % 2 ? "@pypi" : own[i / 2]);
        must_allow(&e, "@pypi");
        cr_assert_eq(e.rule_count, 2);
        for (size_t k = 0; k < 2; k++) {
            bool is_own = strcmp(e.rules[k].host.host.text, "pypi.org") == 0;
            cr_expect_eq(e.rules[k].preset == NULL, is_own, "%s", e.rules[k].text);
            cr_expect(!is_own || e.rules[k].pinned || e.rules[k].paths.count);
        }
    }
}

static void rules_are(const struct egress *e, const char *expected, const char *spec)
{
    cleanup_buf struct buf text;
    buf_init(&text, 8192);
    texts(e, &text);
    cr_assert_str_eq(buf_text(&text), expected, "%s", spec);
}

Test(allow, a_text_means_one_rule_or_two)
{
    static const struct {
        const char *spec;
        const char *rules;
    } rows[] = {
        {"api.github.com", "http://api.github.com:80 | https://api.github.com:443"},
        {"API.GitHub.com.", "http://api.github.com:80 | https://api.github.com:443"},
        {"x.org:80", "http://x.org:80"},
        {"x.org:443", "https://x.org:443"},
        {"db.internal:5432", "db.internal:5432"},
        {"*.pypi.org:443", "https://*.pypi.org:443"},
        {"**.pypi.org", "http://**.pypi.org:80 | https://**.pypi.org:443"},
        {"http://x.org", "http://x.org:80"},
        {"http://x.org:8080", "http://x.org:8080"},
        {"https://x.org", "https://x.org:443"},
        {"https://x.org/a/**", "https://x.org:443/a/**"},
        {"https://x.org/", "https://x.org:443/"},
        {"tcp://x.org:443", "tcp://x.org:443"},
        {"any://x.org:443", "any://x.org:443"},
        {"any://x.org:4430", "x.org:4430"},
        {"origin.test:8080=10.0.0.5", "origin.test:8080=10.0.0.5"},
        {"origin.test=10.0.0.5",
         "http://origin.test:80=10.0.0.5 | https://origin.test:443=10.0.0.5"},
        {"https://x.org=10.0.0.5/a", "https://x.org:443=10.0.0.5/a"},
        {"x.org:22=[::1]", "x.org:22=[::1]"},
        {"x.org:22=::1", "x.org:22=[::1]"},
        {"10.0.0.5:22", "10.0.0.5:22"},
        {"10.0.0.5:22=10.0.0.5", "10.0.0.5:22=10.0.0.5"},
        {"[2001:DB8::1]:443", "https://[2001:db8::1]:443"},
        {"192.0.2.0/24", "http://[192.0.2.0/24]:80 | https://[192.0.2.0/24]:443"},
        {"192.0.2.0/24:22", "[192.0.2.0/24]:22"},
        {"[192.0.2.0/24]:22", "[192.0.2.0/24]:22"},
        {"192.0.2.7/32:22", "192.0.2.7:22"},
        {"[2001:db8::]/32:22", "[2001:db8::/32]:22"},
        {"2001:db8::/32:22", "[2001:db8::/32]:22"},
        {"2001:db8::/32", "http://[2001:db8::/32]:80 | https://[2001:db8::/32]:443"},
        {"2001:db8::1/128:22", "[2001:db8::1]:22"},
        {"https://[192.0.2.0/24]", "https://[192.0.2.0/24]:443"},
        {"https://[192.0.2.0/24]/a", "https://[192.0.2.0/24]:443/a"},
        {"https://192.0.2.0/24", "https://192.0.2.0:443/24"},
        {"tcp://[::8000:0:0:0/65]:22", "tcp://[::8000:0:0:0/65]:22"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        cleanup_egress struct egress e;
        egress_init(&e);
        must_allow(&e, rows[i].spec);
        rules_are(&e, rows[i].rules, rows[i].spec);
    }
}

Test(allow, the_text_of_a_rule_is_read_as_the_same_rule)
{
    static const char *const specs[] = {"x.org",
                                        "*.x.org:443",
                                        "any://x.org:80",
                                        "x.org:22",
                                        "tcp://x.org:22=::1",
                                        "[::1]:80",
                                        "10.0.0.1:1",
                                        "192.0.2.0/24",
                                        "192.0.2.0/25:22",
                                        "https://[2001:db8::/32]/a",
                                        "https://x.org=10.0.0.5/a/*"};
    for (size_t i = 0; i < ARRAY_LEN(specs); i++) {
        cleanup_egress struct egress e;
        cleanup_egress struct egress again;
        cleanup_buf struct buf text;
        buf_init(&text, 8192);
        egress_init(&e);
        egress_init(&again);
        must_allow(&e, specs[i]);
        for (size_t k = 0; k < e.rule_count; k++)
            must_allow(&again, e.rules[k].text);
        texts(&e, &text);
        rules_are(&again, buf_text(&text), specs[i]);
    }
}

Test(allow, is_refused_with_the_reason)
{
    static const struct {
        const char *spec;
        const char *says;
    } rows[] = {
        {"", "\"\": no host"},
        {" ", "a byte that no host name has"},
        {"*", "a star stands only for whole parts"},
        {"*.", "a star stands only"},
        {"**", "a star stands only"},
        {"a*.org", "a star stands only"},
        {"*.10.0.0.1", "stars go with names"},
        {"x.org:", "no port behind the colon"},
        {"x.org:0", "no port behind the colon"},
        {"x.org:65536", "no port behind the colon"},
        {"x.org:http", "no port behind the colon"},
        {":443", "no host"},
        {"::1:443", "more than one colon"},
        {"a:1:2", "more than one colon"},
        {"x.org/a", "a path needs a scheme"},
        {"ftp://x.org", "unknown scheme \"ftp\", expected http, https, tcp or any"},
        {"://x.org", "unknown scheme \"\""},
        {"HTTPS://x.org", "unknown scheme"},
        {"tcp://x.org", "tcp has no port of its own"},
        {"any://x.org", "any has no port of its own"},
        {"tcp://x.org:22/a", "methods, paths and pass exist in http and https only"},
        {"https://user@x.org", "a byte that no host name has"},
        {"https://x.org/a?b", "no query"},
        {"https://x.org/../a", "could mean another one"},
        {"x.org=", "\"\" is not an address"},
        {"x.org=localhost", "\"localhost\" is not an address, expected one such as 10.0.0.5"},
        {"x.org=10.0.0.0/8", "a path needs a scheme"},
        {"x.org=0x7f.1", "is not an address"},
        {"10.0.0.1=10.0.0.2", "cannot be pinned to another address"},
        {"0.0.0.0/0", "a range of all addresses"},
        {"::/0", "a range of all addresses"},
        {"192.0.2.7/24", "the range is 192.0.2.0/24"},
        {"192.0.2.0/24=192.0.2.0", "a range cannot be pinned"},
        {"192.0.2.0/33", "only ranges of addresses"},
        {"192.0.2.0/24/a", "a path needs a scheme"},
        {"192.0.2.0/24:", "no port behind the colon"},
        {"x.org/24", "a path needs a scheme"},
        {"[x.org/24]", "only ranges of addresses"},
        {"[192.0.2.0/24", "a path needs a scheme"},
        {"127.1:80", "an IPv4 address is four numbers"},
        {"[::ffff:127.0.0.1]:80", "not an IPv6 address"},
        {"x.org\n", "a byte that no host name has"},
        {"b\xc3\xbc"
         "cher.de",
         "a byte that no host name has"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        cleanup_egress struct egress e;
        struct err err = ERR_INIT;
        egress_init(&e);
        cr_assert_lt(egress_allow(&e, rows[i].spec, &by_option, &err), 0, "%s was accepted",
                     rows[i].spec);
        cr_assert(has(err.message, rows[i].says), "%s: %s", rows[i].spec, err.message);
        cr_assert_eq(e.rule_count, 0);
        cr_assert_lt(egress_allow(&e, rows[i].spec, &by_option, NULL), 0);
    }
}

static bool covers(const char *a, const char *b)
{
    cleanup_egress struct egress e;
    struct host_pattern p[2];
    const char *texts[] = {a, b};
    egress_init(&e);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(host_pattern_parse(texts[i], strlen(texts[i]), &p[i], NULL), 0, "%s",
                     texts[i]);
    return pattern_covers(&p[0], &p[1]);
}

Test(allow, a_range_covers_what_is_in_it)
{
    cr_expect(covers("192.0.2.0/24", "192.0.2.7"));
    cr_expect(covers("192.0.2.0/24", "192.0.2.0/24"));
    cr_expect(covers("192.0.2.0/24", "192.0.2.128/25"));
    cr_expect_not(covers("192.0.2.128/25", "192.0.2.0/24"), "a part is not the whole");
    cr_expect_not(covers("192.0.2.0/25", "192.0.2.128/25"));
    cr_expect_not(covers("192.0.2.0/25", "192.0.2.128"));
    cr_expect_not(covers("192.0.2.0", "192.0.2.0/31"));
    cr_expect_not(covers("0.0.0.0/0", "x.org"));
    cr_expect_not(covers("0.0.0.0/0", "::/1"));
    cr_expect_not(covers("**.org", "192.0.2.0/24"));
    cr_expect_not(covers("192.0.2.0/24", "**.org"));
}

Test(block, a_range_is_closed)
{
    cleanup_egress struct egress e;
    struct err err = ERR_INIT;
    struct host in, out;
    egress_init(&e);
    cr_assert_eq(egress_block(&e, "192.0.2.0/24", &err), 0);
    cr_assert_eq(egress_block(&e, "[192.0.2.0/24]", &err), 0);
    cr_assert_eq(e.blocked_count, 1, "the same");
    cr_assert_eq(egress_block(&e, "192.0.2.0/25", &err), 0);
    cr_assert_eq(egress_block(&e, "2001:db8::/32", &err), 0);
    cr_assert_eq(e.blocked_count, 3);
    host_of_address(HOST_IPV4, (const uint8_t[]){192, 0, 2, 200}, &in);
    host_of_address(HOST_IPV4, (const uint8_t[]){192, 0, 3, 200}, &out);
    cr_assert_str_eq(in.text, "192.0.2.200");
    cr_expect(egress_blocks(&e, &in));
    cr_expect_not(egress_blocks(&e, &out));
    host_of_address(HOST_IPV6, (const uint8_t[16]){0x20, 1, 0xd, 0xb8, [15] = 1}, &in);
    cr_assert_str_eq(in.text, "2001:db8::1");
    cr_expect(egress_blocks(&e, &in));
}

/* What would open nothing is said when it is written, not when the code fails. */
Test(allow, a_range_of_local_addresses_is_refused)
{
    static const struct {
        const char *spec, *why; /* NULL: it is taken */
    } cases[] = {
        {"10.0.0.0/8", "private"},
        {"10.1.2.0/24:22", "private"},
        {"https://[172.16.0.0/12]", "private"},
        {"192.168.0.0/16", "private"},
        {"127.0.0.0/8:5432", "loopback"},
        {"169.254.0.0/16", "link-local"},
        {"100.64.0.0/10", "shared"},
        {"224.0.0.0/4:5353", "multicast"},
        {"[fd00::/8]:22", "private"},
        {"[fe80::/64]:22", "link-local"},
        {"[ff02::/16]:5353", "multicast"},
        {"192.0.2.0/24", NULL},
        {"[2001:db8::/32]:22", NULL},
        /* Some of them are public. */
        {"8.0.0.0/6:80", NULL},
        {"172.0.0.0/8", NULL},
        {"172.32.0.0/11", NULL},
        {"[f800::/5]:22", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cleanup_egress struct egress e;
        struct err err = ERR_INIT;
        egress_init(&e);
        int r = egress_allow(&e, cases[i].spec, &by_option, &err);
        cr_expect_eq(r < 0, cases[i].why != NULL, "%s: %s", cases[i].spec, err.message);
        if (cases[i].why && r < 0) {
            cr_expect(strstr(err.message, cases[i].why), "%s: %s", cases[i].spec, err.message);
            cr_expect(strstr(err.hint, "10.0.0.5:22=10.0.0.5"), "%s: %s", cases[i].spec, err.hint);
        }
        cr_expect_eq(egress_block(&e, "10.0.0.0/8", &err), 0, "they can be blocked");
    }
}

/* The network boundary has the last word: nothing that it would dial is refused here. */
Test(allow, what_is_called_local_is_never_dialled)
{
    static const char *const specs[] = {
        "10.0.0.0",   "100.64.0.0",      "127.0.0.0",   "169.254.0.0",
        "172.16.0.0", "172.31.255.255",  "192.168.0.0", "100.127.255.255",
        "224.0.0.0",  "239.255.255.255", "::1",         "fc00::",
        "fdff::1",    "fe80::1",         "febf::1",     "ff02::1"};
    for (size_t i = 0; i < ARRAY_LEN(specs); i++) {
        struct host_pattern p;
        cr_assert_eq(host_pattern_parse(specs[i], strlen(specs[i]), &p, NULL), 0, "%s", specs[i]);
        cr_expect(pattern_is_local(&p), "%s", specs[i]);
        cr_expect_neq(p.host.kind == HOST_IPV4 ? address_classify_v4(p.host.addr)
                                               : address_classify_v6(p.host.addr),
                      ADDRESS_PUBLIC, "%s", specs[i]);
    }
}

Test(allow, a_local_address_without_a_pin_is_refused_in_a_policy)
{
    static const struct {
        const char *text;
        bool good;
    } cases[] = {
        {"network: {allow: ['10.0.0.5:22']}", false},
        {"network: {allow: ['http://127.0.0.1:8080']}", false},
        {"network: {allow: ['[fd00::5]:22']}", false},
        {"network: {allow: ['10.0.0.5:22=10.0.0.5']}", true},
        {"network: {allow: ['[fd00::5]:22=fd00::5']}", true},
        {"network: {allow: ['192.0.2.7:22']}", true},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cleanup_policy struct policy p;
        struct err err = ERR_INIT;
        policy_init(&p, LEVEL_HIGH);
        must_load(&p, cases[i].text);
        cr_expect_eq(policy_validate(&p, &err) == 0, cases[i].good, "%s: %s", cases[i].text,
                     err.message);
        cr_expect(cases[i].good || strstr(err.hint, "pin it: "), "%s: %s", cases[i].text, err.hint);
    }
}

/* Who does what the hint says has the rule that was meant, and none that is open for more. */
Test(allow, the_hint_of_a_pin_keeps_the_rest_of_the_rule)
{
    static const struct {
        const char *text, *hint;
    } cases[] = {
        {"'10.0.0.5:22'", "pin it: 10.0.0.5:22=10.0.0.5"},
        {"'10.0.0.5:443'", "pin it: 10.0.0.5:443=10.0.0.5"},
        {"'http://10.0.0.5:8080'", "pin it: http://10.0.0.5:8080=10.0.0.5"},
        {"'https://10.0.0.5/v1/**'", "pin it: https://10.0.0.5:443=10.0.0.5/v1/**"},
        {"'https://[fd00::5]:8443/a'", "pin it: https://[fd00::5]:8443=fd00::5/a"},
        {"{host: 10.0.0.5, scheme: https, methods: [GET]}", "pin it: address: 10.0.0.5"},
        {"{host: 10.0.0.5, scheme: https, paths: [/a, /b]}", "pin it: address: 10.0.0.5"},
        {"{host: 10.0.0.5, port: 22, upload: 1k}", "pin it: address: 10.0.0.5"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[200];
        cleanup_policy struct policy p;
        cleanup_egress struct egress e;
        struct err err = ERR_INIT;
        policy_init(&p, LEVEL_HIGH);
        egress_init(&e);
        snprintf(text, sizeof text, "network: {allow: [%s]}", cases[i].text);
        must_load(&p, text);
        cr_expect_lt(policy_validate(&p, &err), 0, "%s", text);
        cr_expect_eq(strncmp(err.hint, cases[i].hint, strlen(cases[i].hint)), 0, "%s: %s", text,
                     err.hint);
        if (cases[i].text[0] == '{')
            continue;
        cr_assert_eq(egress_allow(&e, err.hint + strlen("pin it: "), &by_option, &err), 0, "%s",
                     err.hint);
        const struct egress_rule *was = &p.egress.rules[0], *is = &e.rules[0];
        cr_expect(is->pinned && e.rule_count == 1 && is->scheme == was->scheme &&
                      is->port == was->port && is->paths.count == was->paths.count,
                  "%s", err.hint);
    }
}

/* "=" is the only way to an address that is not public, also where the rule names the address. */
Test(allow, only_a_pin_is_a_pin)
{
    cleanup_egress struct egress e;
    egress_init(&e);
    must_allow(&e, "10.0.0.5:22");
    must_allow(&e, "10.0.0.6:22=10.0.0.6");
    cr_assert_not(e.rules[0].pinned);
    cr_assert(e.rules[1].pinned && e.rules[1].address.addr[3] == 6);
}

Test(allow, order_does_not_matter)
{
    static const char *const specs[] = {"**.x.org",        "x.org",
                                        "*.x.org",         "any://x.org:443",
                                        "https://x.org/a", "a.very.long.x.org:22"};
    cleanup_egress struct egress forward;
    cleanup_egress struct egress backward;
    cleanup_buf struct buf text;
    buf_init(&text, 8192);
    egress_init(&forward);
    egress_init(&backward);
    for (size_t i = 0; i < ARRAY_LEN(specs); i++) {
        must_allow(&forward, specs[i]);
        must_allow(&backward, specs[ARRAY_LEN(specs) - 1 - i]);
    }
    rules_are(&forward,
              "a.very.long.x.org:22 | http://x.org:80 | https://x.org:443/a | https://x.org:443 | "
              "any://x.org:443 | http://*.x.org:80 | https://*.x.org:443 | http://**.x.org:80 | "
              "https://**.x.org:443",
              "forward");
    texts(&forward, &text);
    rules_are(&backward, buf_text(&text), "backward");
}

Test(allow, the_same_twice_is_once)
{
    cleanup_egress struct egress e;
    egress_init(&e);
    must_allow(&e, "x.org");
    must_allow(&e, "X.org:443");
    must_allow(&e, "http://x.org");
    cr_assert_eq(e.rule_count, 2);
}

Test(allow, contradictions_are_errors)
{
    static const char *const pairs[][3] = {
        {"x.org:22=10.0.0.1", "x.org:22=10.0.0.2", "is pinned to 10.0.0.1 already"},
        {"x.org:22=10.0.0.1", "x.org:22", "is pinned to 10.0.0.1 already"},
        {"x.org:22", "x.org:22=10.0.0.1", "is allowed already without an address"},
    };
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        cleanup_egress struct egress e;
        struct err err = ERR_INIT;
        egress_init(&e);
        must_allow(&e, pairs[i][0]);
        cr_assert_lt(egress_allow(&e, pairs[i][1], &by_option, &err), 0, "%s", pairs[i][1]);
        cr_assert(has(err.message, pairs[i][2]), "%s", err.message);
    }
}

Test(allow, an_option_stands_above_a_file)
{
    static const struct origin file = {.kind = ORIGIN_FILE, .name = "p.yaml", .line = 1};
    for (int file_first = 0; file_first < 2; file_first++) {
        cleanup_egress struct egress e;
        egress_init(&e);
        if (file_first)
            cr_assert_eq(egress_allow(&e, "x.org:22=10.0.0.1", &file, NULL), 0);
        must_allow(&e, "x.org:22=10.0.0.2");
        cr_assert_eq(egress_allow(&e, "x.org:22=10.0.0.1", &file, NULL), 0);
        rules_are(&e, "x.org:22=10.0.0.2", "file and option");
    }
}

Test(allow, has_bounds)
{
    cleanup_egress struct egress e;
    struct err err = ERR_INIT;
    int r = 0;
    egress_init(&e);
    for (int i = 0; i < 300 && r == 0; i++) {
        char spec[32];
        snprintf(spec, sizeof spec, "h%d.org:22", i);
        r = egress_allow(&e, spec, &by_option, &err);
    }
    cr_assert_eq(r, -ERR_LIMIT);
    cr_assert_eq(e.rule_count, EGRESS_RULES_MAX);
    cr_assert(has(err.message, "at most 256"), "%s", err.message);
}

Test(block, keeps_hosts_once_and_sorted)
{
    cleanup_egress struct egress e;
    struct err err = ERR_INIT;
    egress_init(&e);
    cr_assert_eq(egress_block(&e, "z.org", &err), 0);
    cr_assert_eq(egress_block(&e, "**.a.org", &err), 0);
    cr_assert_eq(egress_block(&e, "Z.ORG.", &err), 0);
    cr_assert_eq(e.blocked_count, 2);
    cr_assert_str_eq(e.blocked[0].host.text, "a.org");
    cr_assert_lt(egress_block(&e, "*", &err), 0);
    cr_assert_lt(egress_block(&e, "", &err), 0);
    cr_assert_lt(egress_block(&e, "z.org:443", &err), 0);
    cr_assert_eq(e.blocked_count, 2);
}

Test(secret, has_a_name_a_source_and_an_origin)
{
    static const struct {
        const char *spec;
        const char *name, *source;
        enum scheme scheme;
        const char *host;
        uint16_t port;
        const char *path;
    } rows[] = {
        {"T=env:T@https://api.github.com", "T", "env:T", SCHEME_HTTPS, "api.github.com", 443, NULL},
        {"T=file:/run/a@b@https://x.org", "T", "file:/run/a@b", SCHEME_HTTPS, "x.org", 443, NULL},
        {"T=cmd:pass show me@x.org@https://x.org:8443", "T", "cmd:pass show me@x.org", SCHEME_HTTPS,
         "x.org", 8443, NULL},
        {"T=vault:secret/data/ci#token@http://h:8080", "T", "vault:secret/data/ci#token",
         SCHEME_HTTP, "h", 8080, NULL},
        {"T=env:T@https://r.org/@scope/*", "T", "env:T", SCHEME_HTTPS, "r.org", 443, "/@scope/*"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        cleanup_egress struct egress e;
        egress_init(&e);
        must_secret(&e, rows[i].spec);
        const struct egress_secret *s = &e.secrets[0];
        cr_assert_str_eq(s->name, rows[i].name);
        cr_assert_str_eq(s->source, rows[i].source);
        cr_assert_eq(s->scheme, rows[i].scheme);
        cr_assert_str_eq(s->host.text, rows[i].host);
        cr_assert_eq(s->port, rows[i].port);
        cr_assert_eq(s->form, INJECT_HEADER);
        cr_assert_str_eq(s->inject_name, "Authorization");
        cr_assert_str_eq(s->template, "Bearer {}");
        cr_assert(s->swap_header && !s->swap_body);
        cr_assert_eq(s->ttl_ms, POLICY_UNLIMITED);
        cr_assert_eq(s->paths.count, rows[i].path ? 1 : 0);
        if (rows[i].path)
            cr_assert_str_eq(s->paths.items[0], rows[i].path);
        /* It also brings the rule, exactly as wide. */
        cr_assert_eq(e.rule_count, 1);
        cr_assert(e.rules[0].implied && e.rules[0].port == rows[i].port);
        cr_assert_eq(e.rules[0].paths.count, s->paths.count);
    }
}

Test(secret, is_refused_with_the_reason_and_without_its_text)
{
    static const struct {
        const char *spec;
        const char *says;
    } rows[] = {
        {"", "expected NAME=SOURCE@https://HOST"},
        {"hunter2", "expected NAME=SOURCE@https://HOST"},
        {"T=hunter2", "expected NAME=SOURCE@https://HOST"},
        {"T=env:T", "expected NAME=SOURCE@https://HOST"},
        {"T=env:T@x.org", "expected NAME=SOURCE@https://HOST"},
        {"T=hunter2@https://x.org", "unknown source, expected env:NAME"},
        {"T=@https://x.org", "unknown source"},
        {"T=env:@https://x.org", "is not a variable name, expected env:NAME"},
        {"T=env:A-B@https://x.org", "is not a variable name"},
        {"T=file:rel@https://x.org", "is not an absolute path"},
        {"T=file:/@https://x.org", "is not a file"},
        {"T=file:/a/../b@https://x.org", "has .. in it"},
        {"T=cmd:@https://x.org", "no program"},
        {"T=vault:a@https://x.org", "expected vault:PATH#FIELD"},
        {"T=vault:#f@https://x.org", "expected vault:PATH#FIELD"},
        {"T=vault:a#@https://x.org", "expected vault:PATH#FIELD"},
        {"T=vault:../a#f@https://x.org", "expected vault:PATH#FIELD"},
        {"=env:T@https://x.org", "is not a variable name"},
        {"1T=env:T@https://x.org", "is not a variable name"},
        {"PATH=env:T@https://x.org", "PATH is set by brig itself"},
        {"HTTPS_PROXY=env:T@https://x.org", "is set by brig itself"},
        {"T=env:T@tcp://x.org:22", "expected https://HOST"},
        {"T=env:T@https://*.x.org", "a pattern, expected exactly one host"},
        {"T=env:T@https://x.org=10.0.0.1", "an address after the host, expected a host alone"},
        {"T=env:T@https://", "no host"},
        {"T=env:T@https://u@x.org", "a byte that no host name has"},
        {"T=env:T@https://x.org/a?b", "no query"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        cleanup_egress struct egress e;
        struct err err = ERR_INIT;
        egress_init(&e);
        cr_assert_lt(egress_secret(&e, rows[i].spec, &by_option, &err), 0, "%s was accepted",
                     rows[i].spec);
        cr_assert(has(err.message, rows[i].says), "%s: %s", rows[i].spec, err.message);
        cr_assert_not(has(err.message, "hunter2"), "%s", err.message);
        cr_assert(e.secret_count == 0 && e.rule_count == 0);
    }
}

Test(secret, an_own_rule_takes_the_place_of_the_implied_one)
{
    for (int rule_first = 0; rule_first < 2; rule_first++) {
        cleanup_egress struct egress e;
        egress_init(&e);
        if (rule_first)
            must_allow(&e, "x.org:8443=10.0.0.5");
        must_secret(&e, "T=env:T@https://x.org:8443");
        if (!rule_first)
            must_allow(&e, "x.org:8443=10.0.0.5");
        rules_are(&e, "x.org:8443=10.0.0.5", rule_first ? "rule first" : "secret first");
    }
}

Test(secret, each_name_once)
{
    cleanup_egress struct egress e;
    struct err err = ERR_INIT;
    egress_init(&e);
    must_secret(&e, "T=env:T@https://x.org");
    must_secret(&e, "T=env:T@https://x.org");
    cr_assert_lt(egress_secret(&e, "T=env:U@https://x.org", &by_option, &err), 0);
    cr_assert(has(err.message, "was given before"), "%s", err.message);
    cr_assert_lt(egress_secret(&e, "T=env:T@https://y.org", &by_option, &err), 0);
    cr_assert_eq(e.secret_count, 1);
    cr_assert_eq(e.rule_count, 1);
}

Test(secret, an_option_replaces_the_secret_of_a_file_and_its_rule)
{
    static const struct origin file = {.kind = ORIGIN_FILE, .name = "p.yaml", .line = 1};
    cleanup_egress struct egress e;
    egress_init(&e);
    cr_assert_eq(egress_secret(&e, "T=env:T@https://x.org", &file, NULL), 0);
    cr_assert_eq(egress_secret(&e, "U=env:U@https://x.org", &file, NULL), 0);
    must_secret(&e, "T=env:T@https://y.org");
    rules_are(&e, "https://x.org:443 | https://y.org:443", "U still needs x.org");
    must_secret(&e, "U=env:T@https://y.org");
    rules_are(&e, "https://y.org:443", "nobody needs x.org");
}

Test(secret, in_clear_is_said)
{
    static const struct {
        const char *rule, *secret;
        bool clear;
    } rows[] = {
        {"a.org", "T=env:T@https://x.org", false},
        {"a.org", "T=env:T@http://x.org", true},
        {"x.org:80=10.0.0.1", "T=env:T@http://x.org", false},
        {"x.org:80=127.0.0.1", "T=env:T@http://x.org", false},
        {"x.org:80=172.16.0.1", "T=env:T@http://x.org", false},
        {"x.org:80=172.32.0.1", "T=env:T@http://x.org", true},
        {"x.org:80=::1", "T=env:T@http://x.org", false},
        {"x.org:81=10.0.0.1", "T=env:T@http://x.org", true},
        {"a.org", "T=env:T@http://127.0.0.1:8080", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        cleanup_egress struct egress e;
        egress_init(&e);
        must_allow(&e, rows[i].rule);
        must_secret(&e, rows[i].secret);
        cr_assert_eq(egress_secret_in_clear(&e, &e.secrets[0]), rows[i].clear, "%s %s",
                     rows[i].rule, rows[i].secret);
    }
}

Test(placeholders, are_random_and_plain)
{
    cleanup_egress struct egress e;
    struct err err = ERR_INIT;
    egress_init(&e);
    must_secret(&e, "T=env:T@https://x.org");
    must_secret(&e, "U=env:U@https://x.org");
    cr_assert_eq(egress_make_placeholders(&e, &err), 0);
    cleanup_free char *first = strdup(e.secrets[0].placeholder);
    cr_assert_str_neq(first, e.secrets[1].placeholder);
    cr_assert_eq(strspn(first, "abcdefghijklmnopqrstuvwxyz_0123456789"), strlen(first));
    cr_assert_geq(strlen(first), 50);
    cr_assert_eq(egress_make_placeholders(&e, &err), 0);
    cr_assert_str_neq(first, e.secrets[0].placeholder);
}

static void write_json(const struct egress *e, struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out, false);
    egress_write_json(e, &w);
    cr_assert_not(out->failed);
}

static int read_json(const char *text, struct egress *e, struct err *err)
{
    struct json *tree = NULL;
    cr_assert_eq(json_parse(text, strlen(text), NULL, &tree, err), 0, "%s", err->message);
    int r = egress_read_json(e, tree, err);
    json_free(tree);
    return r;
}

/* Everything that a file can say, through the JSON and back. */
Test(wire, the_proxy_reads_what_was_meant)
{
    cleanup_policy struct policy p;
    cleanup_egress struct egress again;
    cleanup_buf struct buf one;
    cleanup_buf struct buf two;
    struct err err = ERR_INIT;
    policy_init(&p, LEVEL_HIGH);
    must_load(&p,
              "network:\n"
              "  upload: 100M\n"
              "  requests: 600\n"
              "  allow: [x.org, \"db:5432=10.0.0.5\", \"[::1]:22\", \"any://y.org:80\",\n"
              "    {host: \"*.x.org\", scheme: https, methods: [PUT, GET], paths: [/a/**, /b],\n"
              "     upload: 1M, max_connections: 3, requests: 60}]\n"
              "  block: [\"**.evil.org\"]\n"
              "credentials:\n"
              "  secrets: [\"T=env:T@https://x.org\", {name: K, source: \"cmd:pass show k\",\n"
              "    origin: http://k.org:8080, methods: [GET], paths: [/k], query: key,\n"
              "    swap: [body], ttl: 90s}, {name: B, source: \"vault:a/b#c\",\n"
              "    origin: https://b.org, basic: user, swap: none}, {name: M,\n"
              "    source: file:/run/n, origin: https://n.org, header: none}]\n");
    cr_assert_eq(egress_make_placeholders(&p.egress, &err), 0);
    buf_init(&one, 1 << 20);
    buf_init(&two, 1 << 20);
    write_json(&p.egress, &one);
    cr_assert_eq(read_json(buf_text(&one), &again, &err), 0, "%s\n%s", err.message, buf_text(&one));
    write_json(&again, &two);
    cr_assert_str_eq(buf_text(&one), buf_text(&two));
    cr_assert_eq(again.rule_count, p.egress.rule_count);
    cr_assert_eq(again.max_connections, 256);
    cr_assert_eq(again.upload, 100UL << 20);
    for (size_t i = 0; i < again.rule_count; i++) {
        cr_assert_str_eq(again.rules[i].text, p.egress.rules[i].text);
        cr_assert_eq(again.rules[i].implied, p.egress.rules[i].implied);
        cr_assert_eq(again.rules[i].pinned, p.egress.rules[i].pinned);
    }
    for (size_t i = 0; i < again.secret_count; i++)
        cr_assert_str_eq(again.secrets[i].placeholder, p.egress.secrets[i].placeholder);
}

Test(wire, is_read_strictly)
{
    static const char *const texts[] = {
        "{}",
        "[]",
        "null",
        "{\"rules\":null,\"blocked\":[],\"secrets\":[],\"upload\":1,\"max_connections\":1,"
        "\"requests\":1}",
        "{\"rules\":[],\"blocked\":[],\"secrets\":[],\"upload\":0,\"max_connections\":1,"
        "\"requests\":1}",
        "{\"rules\":[],\"blocked\":[],\"secrets\":[],\"upload\":1,\"max_connections\":1}",
        "{\"rules\":[],\"blocked\":[],\"secrets\":[],\"upload\":1,\"max_connections\":1,"
        "\"requests\":1,\"more\":1}",
        "{\"rules\":[{}],\"blocked\":[],\"secrets\":[],\"upload\":1,\"max_connections\":1,"
        "\"requests\":1}",
        "{\"rules\":[],\"blocked\":[\"*\"],\"secrets\":[],\"upload\":1,\"max_connections\":1,"
        "\"requests\":1}",
        "{\"rules\":[],\"blocked\":[],\"secrets\":[\"T=env:T@https://x.org\"],\"upload\":1,"
        "\"max_connections\":1,\"requests\":1}",
    };
    static const char good[] = "{\"rules\":[],\"blocked\":[],\"secrets\":[],\"upload\":1,"
                               "\"max_connections\":1,\"requests\":1}";
    struct err err = ERR_INIT;
    struct egress e;
    cr_assert_eq(read_json(good, &e, &err), 0, "%s", err.message);
    egress_done(&e);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        cr_assert_lt(read_json(texts[i], &e, &err), 0, "%s", texts[i]);
        cr_assert(has(err.message, "egress:1:"), "%s", err.message);
        cr_assert_eq(e.rule_count, 0);
    }
}

Test(questions, ports_and_authorities)
{
    cleanup_egress struct egress e;
    uint16_t ports[8];
    egress_init(&e);
    cr_assert_eq(egress_ports(&e, ports, 8), 1);
    cr_assert_eq(ports[0], 80);
    cr_assert_not(egress_needs_ca(&e));
    must_allow(&e, "b.org:443");
    must_allow(&e, "a.org");
    must_allow(&e, "c.org:22");
    must_allow(&e, "c.org:53");
    must_allow(&e, "c.org:3128");
    cr_assert_eq(egress_ports(&e, ports, 8), 3);
    cr_assert(ports[0] == 22 && ports[1] == 80 && ports[2] == 443);
    cr_assert_eq(egress_ports(&e, ports, 2), 2);
    cr_assert_not(egress_needs_ca(&e));
    must_allow(&e, "http://a.org/x");
    cr_assert_not(egress_needs_ca(&e));
    must_secret(&e, "T=env:T@http://d.org");
    cr_assert_not(egress_needs_ca(&e));
    must_secret(&e, "U=env:U@http://a.org");
    cr_assert(egress_needs_ca(&e), "https is allowed there, too");
    egress_done(&e);
    must_allow(&e, "https://a.org/x");
    cr_assert(egress_needs_ca(&e));
    egress_done(&e);
    must_secret(&e, "T=env:T@https://a.org");
    cr_assert(egress_needs_ca(&e));
}

/* ---- as part of a policy ---- */

static int allow(struct policy *p, const char *spec, struct err *err)
{
    struct origin o = option("--allow");
    return policy_allow(p, spec, &o, err);
}

Test(mode, the_first_rule_turns_the_network_on)
{
    static const char *const documents[] = {
        "network: {allow: [x.org]}",
        "credentials: {secrets: [\"T=env:T@https://x.org\"]}",
        "network: {mode: allowlist}",
    };
    for (size_t i = 0; i < ARRAY_LEN(documents); i++) {
        cleanup_policy struct policy p;
        struct err err = ERR_INIT;
        policy_init(&p, LEVEL_HIGH);
        cr_assert_eq(p.network_mode, NETWORK_OFF);
        must_load(&p, documents[i]);
        cr_assert_eq(p.network_mode, NETWORK_ALLOWLIST, "%s", documents[i]);
        cr_assert_eq(policy_validate(&p, &err), 0, "%s", err.message);
    }
}

Test(mode, what_allows_nothing_leaves_it_off)
{
    static const char *const documents[] = {
        "network: {allow: []}",
        "network: {block: [x.org]}",
        "network: {max_connections: 5}",
        "credentials: {secrets: []}",
    };
    for (size_t i = 0; i < ARRAY_LEN(documents); i++) {
        cleanup_policy struct policy p;
        policy_init(&p, LEVEL_HIGH);
        must_load(&p, documents[i]);
        cr_assert_eq(p.network_mode, NETWORK_OFF, "%s", documents[i]);
        cr_assert_eq(p.egress.rule_count, 0);
    }
}

Test(mode, off_and_rules_contradict_each_other)
{
    static const char *const documents[] = {
        "network: {mode: \"off\", allow: [x.org]}",
        "network: {allow: [x.org], mode: \"off\"}",
        "network: {mode: \"off\"}\ncredentials: {secrets: [\"T=env:T@https://x.org\"]}",
    };
    for (size_t i = 0; i < ARRAY_LEN(documents); i++) {
        cleanup_policy struct policy p;
        struct err err = ERR_INIT;
        policy_init(&p, LEVEL_HIGH);
        must_load(&p, documents[i]);
        cr_assert_eq(policy_validate(&p, &err), -ERR_POLICY, "%s", documents[i]);
        cr_assert(has(err.message, "network.mode is off, but"), "%s", err.message);
    }
}

Test(mode, an_option_stands_above_a_file)
{
    for (int file_first = 0; file_first < 2; file_first++) {
        cleanup_policy struct policy p;
        struct err err = ERR_INIT;
        policy_init(&p, LEVEL_HIGH);
        if (file_first)
            must_load(&p, "network: {mode: \"off\"}");
        cr_assert_eq(allow(&p, "x.org", &err), 0, "%s", err.message);
        if (!file_first)
            must_load(&p, "network: {mode: \"off\"}");
        cr_assert_eq(p.network_mode, NETWORK_ALLOWLIST);
        cr_assert_eq(policy_validate(&p, &err), 0, "%s", err.message);
    }
}

Test(mode, a_variable_cannot_be_a_secret_too)
{
    cleanup_policy struct policy p;
    struct err err = ERR_INIT;
    policy_init(&p, LEVEL_HIGH);
    must_load(&p, "credentials: {env: {T: x}, secrets: [\"T=env:T@https://x.org\"]}");
    cr_assert_eq(policy_validate(&p, &err), -ERR_POLICY);
    cr_assert(has(err.message, "T is both in credentials.env and"), "%s", err.message);
}

Test(options, begin_their_messages_with_their_name)
{
    cleanup_policy struct policy p;
    struct origin o = option("--secret");
    struct err err = ERR_INIT;
    policy_init(&p, LEVEL_HIGH);
    cr_assert_lt(allow(&p, "*", &err), 0);
    cr_assert_eq(strncmp(err.message, "--allow: ", 9), 0, "%s", err.message);
    cr_assert_lt(policy_secret(&p, "x", &o, &err), 0);
    cr_assert_eq(strncmp(err.message, "--secret: ", 10), 0, "%s", err.message);
    o = option("--block");
    cr_assert_lt(policy_block(&p, "x y", &o, &err), 0);
    cr_assert_eq(strncmp(err.message, "--block: ", 9), 0, "%s", err.message);
    cr_assert_eq(p.network_mode, NETWORK_OFF);
}

/* D-12: nothing that is empty, null, misspelt or of another type means more than it says. */
Test(documents, mistakes_are_errors_that_say_where)
{
#define AT(place) "dir/p.yaml:" place ": "
    static const struct {
        const char *text;
        const char *says;
    } rows[] = {
        {"network: {allow: null}", AT("1:18") "network.allow: expected a list of rules"},
        {"network:\n  allow:\n", AT("2:9") "network.allow: expected a list of rules"},
        {"network: {allow: x.org}", AT("1:18") "network.allow: expected a list of rules"},
        {"network: {allow: {x.org: true}}", AT("1:18") "network.allow: expected a list of rules"},
        {"network: {allow: true}", AT("1:18") "network.allow: expected a list"},
        {"network: {allow: [null]}", AT("1:19") "network.allow: expected a rule such as"},
        {"network: {allow: [\"\"]}", AT("1:19") "network.allow: \"\": no host"},
        {"network: {allow: [\"*\"]}", AT("1:19") "network.allow: \"*\": a star stands only"},
        {"network: {allow: [5]}", AT("1:19") "network.allow: expected a rule"},
        {"network: {allow: [[x.org]]}", AT("1:19") "network.allow: expected a rule"},
        {"network: {allow: [{}]}", AT("1:19") "network.allow: host is missing"},
        {"network: {allow: [{port: 443}]}", AT("1:19") "network.allow: host is missing"},
        {"network: {allow: [{host: null}]}", AT("1:26") "network.allow: host: expected a host"},
        {"network: {allow: [{host: \"\"}]}", AT("1:26") "network.allow: host: \"\" is not a host"},
        {"network: {allow: [{hots: x.org}]}",
         AT("1:20") "network.allow: unknown key \"hots\" in network.allow, did you mean host? "
                    "(expected host, scheme, port,"},
        {"network: {allow: [{host: x.org, implied: true}]}",
         AT("1:33") "network.allow: unknown key \"implied\""},
        {"network: {allow: [{host: x.org, scheme: null}]}",
         AT("1:41") "network.allow: scheme: expected http, https, tcp or any"},
        {"network: {allow: [{host: x.org, scheme: ftp}]}",
         AT("1:41") "network.allow: scheme: unknown value \"ftp\""},
        {"network: {allow: [{host: x.org, scheme: tcp}]}",
         AT("1:19") "network.allow: tcp has no port of its own"},
        {"network: {allow: [{host: x.org, port: \"443\"}]}",
         AT("1:39") "network.allow: port: expected 1 to 65535, found a string"},
        {"network: {allow: [{host: x.org, port: 0}]}", AT("1:39") "network.allow: port: 0 is out"},
        {"network: {allow: [{host: x.org, address: x}]}",
         AT("1:42") "network.allow: address: \"x\" is not an address"},
        {"network: {allow: [{host: x.org, methods: []}]}",
         AT("1:42") "network.allow: methods: the list is empty, expected at least one"},
        {"network: {allow: [{host: x.org, methods: null}]}",
         AT("1:42") "network.allow: methods: expected a list"},
        {"network: {allow: [{host: x.org, methods: GET}]}",
         AT("1:42") "network.allow: methods: expected a list"},
        {"network: {allow: [{host: x.org, methods: [get]}]}",
         AT("1:43") "network.allow: methods: \"get\" is not a method, expected one in upper case"},
        {"network: {allow: [{host: x.org, methods: [GET, GET]}]}",
         AT("1:48") "network.allow: methods: \"GET\" is listed twice"},
        {"network: {allow: [{host: x.org, methods: [\"*\"]}]}",
         AT("1:43") "network.allow: methods: \"*\" is not a method"},
        {"network: {allow: [{host: x.org, port: 22, methods: [GET]}]}",
         AT("1:19") "network.allow: methods, paths and pass exist in http and https only"},
        {"network: {allow: [{host: x.org, scheme: tcp, port: 22, pass: [Cookie]}]}",
         AT("1:19") "network.allow: methods, paths and pass exist in http and https only"},
        {"network: {allow: [{host: x.org, pass: []}]}",
         AT("1:39") "network.allow: pass: the list is empty"},
        {"network: {allow: [{host: x.org, pass: [\"a b\"]}]}",
         AT("1:40") "network.allow: pass: \"a b\" is not a name"},
        {"network: {allow: [{host: x.org, pass: [\"?\"]}]}",
         AT("1:40") "network.allow: pass: \"?\" is not a name"},
        {"network: {allow: [{host: x.org, paths: []}]}",
         AT("1:40") "network.allow: paths: the list is empty"},
        {"network: {allow: [{host: x.org, paths: [a]}]}",
         AT("1:41") "network.allow: paths: a path starts with a slash"},
        {"network: {allow: [{host: x.org, upload: 0}]}", AT("1:41") "network.allow: upload: "},
        {"network: {allow: [{host: x.org, upload: null}]}",
         AT("1:41") "network.allow: upload: expected a size such as 10M, found null"},
        {"network: {allow: [{host: x.org, requests: -1}]}", AT("1:43") "network.allow: requests: "},
        {"network:\n  allow:\n    - x.org\n    - https://x.org\n",
         AT("4:7") "network.allow: \"https://x.org:443\" is allowed already (line 3), expected "
                   "each "
                   "rule once"},
        {"network: {block: x.org}", AT("1:18") "network.block: expected a list of hosts"},
        {"network: {block: [null]}", AT("1:19") "network.block: expected a host"},
        {"network: {block: [\"*\"]}", AT("1:19") "network.block: \"*\" is not a host: a star"},
        {"network: {mode: null}", AT("1:17") "network.mode: expected off or allowlist"},
        {"network: {mode: \"\"}", AT("1:17") "network.mode: unknown value \"\""},
        {"network: {mode: all}", AT("1:17") "network.mode: unknown value \"all\""},
        {"network: {resolver: null}", AT("1:21") "network.resolver: expected host, or an address"},
        {"network: {requests: 0}", AT("1:21") "network.requests: "},
        {"credentials: {secrets: null}", AT("1:24") "credentials.secrets: expected a list"},
        {"credentials: {secrets: [5]}", AT("1:25") "credentials.secrets: expected a secret such"},
        {"credentials: {secrets: [T]}", AT("1:25") "credentials.secrets: not a secret, expected"},
        {"credentials: {secrets: [{name: T}]}",
         AT("1:25") "credentials.secrets: source is missing"},
        {"credentials: {secrets: [{name: T, source: env:T}]}",
         AT("1:25") "credentials.secrets: origin is missing"},
        {"credentials: {secrets: [{name: T, source: env:T, origin: x.org}]}",
         AT("1:58") "credentials.secrets: origin: \"x.org\" is not an origin"},
        {"credentials: {secrets: [{name: T, source: env:T, origin: https://x.org/a}]}",
         AT("1:58") "credentials.secrets: origin: a path, expected"},
        {"credentials: {secrets: [{name: T, source: env:T, origin: https://x.org, value: x}]}",
         AT("1:73") "credentials.secrets: unknown key \"value\""},
        {"credentials: {secrets: [{name: T, source: env:T, origin: https://x.org, header: X}]}",
         AT("1:81") "credentials.secrets: header: \"X\" is not a header"},
        {"credentials: {secrets: [{name: T, source: env:T, origin: https://x.org, header: \"X: "
         "a\"}]}",
         AT("1:81") "credentials.secrets: header: \"X: a\" is not a header"},
        {"credentials: {secrets: [{name: T, source: env:T, origin: https://x.org, header: \"Host: "
         "{}\"}]}",
         AT("1:81") "credentials.secrets: header: the header Host belongs to the proxy"},
        {"credentials: {secrets: [{name: T, source: env:T, origin: https://x.org, header: \"A: "
         "{}\\nB: c\"}]}",
         AT("1:81") "credentials.secrets: header: "},
        {"credentials: {secrets: [{name: T, source: env:T, origin: https://x.org, query: q, basic: "
         "u}]}",
         AT("1:90") "credentials.secrets: basic: a second form"},
        {"credentials: {secrets: [{name: T, source: env:T, origin: https://x.org, swap: []}]}",
         AT("1:79") "credentials.secrets: swap: expected [header]"},
        {"credentials: {secrets: [{name: T, source: env:T, origin: https://x.org, swap: [all]}]}",
         AT("1:80") "credentials.secrets: swap: expected [header]"},
        {"credentials: {secrets: [{name: T, source: env:T, origin: https://x.org, header: none, "
         "swap: none}]}",
         AT("1:25") "credentials.secrets: neither sent nor swapped"},
        {"credentials: {secrets: [\"T=env:T@https://x.org\", \"T=env:T@https://x.org\"]}",
         AT("1:50") "credentials.secrets: T is there already (line 1), expected each name once"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        cleanup_policy struct policy p;
        struct err err = ERR_INIT;
        policy_init(&p, LEVEL_HIGH);
        cr_assert_eq(load(&p, rows[i].text, &err), -ERR_POLICY, "%s was accepted: %s", rows[i].text,
                     err.message);
        cr_assert_eq(strncmp(err.message, rows[i].says, strlen(rows[i].says)), 0,
                     "%s\nsays      %s\nshould be %s", rows[i].text, err.message, rows[i].says);
    }
}

Test(documents, blocked_hosts_know_where_they_came_from)
{
    cleanup_policy struct policy p;
    cleanup_buf struct buf text;
    struct origin o = option("--block");
    buf_init(&text, 1 << 16);
    policy_init(&p, LEVEL_HIGH);
    must_load(&p, "network:\n  block:\n    - m.org\n    - z.org\n    - b.org\n");
    cr_assert_eq(policy_block(&p, "a.org", &o, NULL), 0);
    cr_assert_eq(policy_block(&p, "n.org", &o, NULL), 0);
    cr_assert_eq(policy_block(&p, "m.org", &o, NULL), 0);
    static const struct {
        const char *host;
        unsigned line;
    } rows[] = {{"a.org", 0}, {"b.org", 5}, {"m.org", 3}, {"n.org", 0}, {"z.org", 4}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        cr_assert_str_eq(p.egress.blocked[i].host.text, rows[i].host);
        cr_assert_eq(p.blocked_from[i].line, rows[i].line, "%s", rows[i].host);
    }
}

/* ---- headers of a request ---- */

static void bound_places(const struct egress *e, struct buf *out)
{
    for (size_t i = 0; i < e->secret_count; i++)
        if (e->secrets[i].hidden)
            buf_fmt(out, "%s://%s:%u %s: %s; ", scheme_name(e->secrets[i].scheme),
                    e->secrets[i].host.text, e->secrets[i].port, e->secrets[i].inject_name,
                    e->secrets[i].template);
}

/* C-11 */
Test(headers, of_a_request_go_where_rules_lead)
{
    static const struct {
        const char *host, *places; /* NULL: refused, with these words */
        const char *why;
    } cases[] = {
        {"a.org", "https://a.org:443 X-Key: {}; ", NULL}, /* not over http */
        {"plain.org", "http://plain.org:80 X-Key: {}; http://plain.org:8080 X-Key: {}; ", NULL},
        {"x.wild.org", "https://x.wild.org:443 X-Key: {}; ", NULL},
        {"wild.org", NULL, "no rule allows this host"},
        {"b.wild.org", NULL, "no rule allows this host"}, /* it is blocked */
        {"any.org", NULL, "do not say whether http or https"},
        {"other.org", NULL, "no rule allows this host"},
        {"bound.org", NULL, "binds the secret TOKEN"},
        {"*.wild.org", NULL, "one host"},
        {"a.org:443", NULL, ""},
        {"A.ORG.", "https://a.org:443 X-Key: {}; ", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err err = ERR_INIT;
        cleanup_egress struct egress e;
        cleanup_buf struct buf places;
        buf_init(&places, 4096);
        egress_init(&e);
        must_allow(&e, "a.org");
        must_allow(&e, "http://plain.org");
        must_allow(&e, "http://plain.org:8080/path");
        must_allow(&e, "https://*.wild.org");
        must_allow(&e, "any.org:9000");
        must_secret(&e, "TOKEN=env:TOKEN@https://bound.org");
        cr_assert_eq(egress_block(&e, "b.wild.org", &err), 0);
        size_t rules = e.rule_count;
        const struct egress_header h = {cases[i].host, "X-Key", "{}", "VALUE"};
        int r = egress_bind_header(&e, &e, &h, &err);
        bound_places(&e, &places);
        cr_assert_eq(r == 0, cases[i].places != NULL, "%s: %s", cases[i].host, err.message);
        if (r < 0)
            cr_assert(strstr(err.message, cases[i].why), "%s: %s", cases[i].host, err.message);
        cr_assert_str_eq(buf_text(&places), cases[i].places ? cases[i].places : "");
        cr_assert_eq(e.rule_count, rules, "it opens nothing");
    }
}

Test(headers, are_one_of_a_name)
{
    struct err err = ERR_INIT;
    cleanup_egress struct egress e;
    egress_init(&e);
    must_allow(&e, "a.org");
    const struct egress_header one = {"a.org", "X-Key", "Bearer {}", "ONE"};
    const struct egress_header two = {"a.org", "x_key", "{}", "TWO"};
    const struct egress_header host = {"a.org", "content_length", "{}", "THREE"};
    cr_assert_eq(egress_bind_header(&e, &e, &one, &err), 0);
    cr_assert_eq(egress_bind_header(&e, &e, &two, &err), -ERR_USAGE);
    cr_assert_eq(egress_bind_header(&e, &e, &host, &err), -ERR_USAGE);
    cr_assert_eq(e.secret_count, 1);
    /* No variable inside, whatever the proxy is told. */
    cr_assert_eq(egress_make_placeholders(&e, &err), 0);
    cr_assert_null(e.secrets[0].placeholder);
}
