/* The decision: rules, blocked hosts, ports, protocols, methods, paths; what is told about it. */
#include "network/decide.h"
#include "network/doubt.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

static struct egress_rule rules[8];
static struct host_pattern blocked[4];
static struct egress_secret secrets[2];
static struct egress egress = {.rules = rules, .blocked = blocked, .secrets = secrets};

static struct host_pattern pattern(const char *text)
{
    struct host_pattern p;
    struct err err = ERR_INIT;
    cr_assert_eq(host_pattern_parse(text, strlen(text), &p, &err), 0, "%s", err.message);
    return p;
}

static struct host host(const char *text)
{
    struct host h;
    struct err err = ERR_INIT;
    cr_assert_eq(host_parse(text, strlen(text), text[0] == '[', &h, &err), 0, "%s", err.message);
    return h;
}

static struct egress_rule *rule(const char *text, enum scheme scheme, uint16_t port)
{
    struct egress_rule *r = &rules[egress.rule_count++];
    *r = (struct egress_rule){.host = pattern(text), .scheme = scheme, .port = port};
    return r;
}

static void block(const char *text)
{
    blocked[egress.blocked_count++] = pattern(text);
}

static struct verdict ask_request(enum scheme scheme, const char *name, uint16_t port,
                                  const char *method, const char *path)
{
    struct target t = {.scheme = scheme, .host = host(name), .port = port, .path = path};
    struct verdict v;
    strncpy(t.method, method, sizeof t.method - 1);
    egress_decide(&egress, &t, &v);
    cr_assert_eq(v.allow, v.reason == DENY_NONE);
    if (v.allow)
        cr_assert_lt(v.rule, egress.rule_count);
    return v;
}

static struct verdict ask(enum scheme scheme, const char *name, uint16_t port)
{
    return ask_request(scheme, name, port, "", NULL);
}

static enum deny_reason reason(const char *name, uint16_t port)
{
    return ask(SCHEME_HTTPS, name, port).reason;
}

Test(decide, nothing_allows_nothing)
{
    cr_assert_eq(reason("example.org", 443), DENY_NO_RULE);
    cr_assert_eq(ask(SCHEME_ANY, "example.org", 443).reason, DENY_NO_RULE);
    cr_assert_eq(reason("127.0.0.1", 443), DENY_LITERAL);
    cr_assert_eq(ask(SCHEME_HTTPS, "example.org", 443).rule, SIZE_MAX);
}

Test(decide, only_the_named_host)
{
    rule("example.org", SCHEME_HTTPS, 443);
    cr_assert_eq(reason("example.org", 443), DENY_NONE);
    static const char *const others[] = {"example.org.evil.com", "evil-example.org", "xexample.org",
                                         "www.example.org",      "example.or",       "org",
                                         "example.organic"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        cr_expect_eq(reason(others[i], 443), DENY_NO_RULE, "%s", others[i]);
}

Test(decide, stars_match_whole_labels)
{
    rule("*.one.test", SCHEME_HTTPS, 443);
    rule("**.many.test", SCHEME_HTTPS, 443);
    cr_assert_eq(reason("a.one.test", 443), DENY_NONE);
    cr_assert_eq(reason("b.a.one.test", 443), DENY_NO_RULE);
    cr_assert_eq(reason("one.test", 443), DENY_NO_RULE);
    cr_assert_eq(reason("xone.test", 443), DENY_NO_RULE);
    cr_assert_eq(reason("a.many.test", 443), DENY_NONE);
    cr_assert_eq(reason("b.a.many.test", 443), DENY_NONE);
    cr_assert_eq(reason("many.test", 443), DENY_NO_RULE);
}

Test(decide, ranges_are_of_addresses)
{
    rule("192.0.2.0/24", SCHEME_HTTPS, 443);
    rule("192.0.2.0/28", SCHEME_HTTPS, 443);
    rule("2001:db8::/32", SCHEME_ANY, 22);
    cr_assert_eq(reason("192.0.2.255", 443), DENY_NONE);
    cr_assert_eq(ask(SCHEME_HTTPS, "192.0.2.7", 443).rule, 1, "the narrower one");
    cr_assert_eq(ask(SCHEME_HTTPS, "192.0.2.70", 443).rule, 0);
    cr_assert_eq(reason("192.0.3.0", 443), DENY_LITERAL);
    cr_assert_eq(reason("192.0.2.255", 80), DENY_PORT);
    cr_assert_eq(reason("2001:db8::1", 22), DENY_NONE);
    cr_assert_eq(reason("2001:db9::1", 22), DENY_LITERAL);
    cr_assert_eq(reason("example.org", 443), DENY_NO_RULE);
    struct host name = host("example.org");
    cr_assert_not(egress_knows_name(&egress, &name), "nobody answers for a range");
    block("192.0.2.0/25");
    cr_assert_eq(reason("192.0.2.7", 443), DENY_BLOCKED);
    cr_assert_eq(reason("192.0.2.255", 443), DENY_NONE);
}

Test(decide, blocked_wins)
{
    rule("**.example.org", SCHEME_HTTPS, 443);
    rule("10.0.0.1", SCHEME_HTTPS, 443);
    cr_assert_eq(reason("bad.example.org", 443), DENY_NONE);
    cr_assert_eq(reason("10.0.0.1", 443), DENY_NONE);
    block("bad.example.org");
    block("*.worse.example.org");
    block("10.0.0.1");
    cr_assert_eq(reason("bad.example.org", 443), DENY_BLOCKED);
    cr_assert_eq(reason("x.worse.example.org", 443), DENY_BLOCKED);
    cr_assert_eq(reason("10.0.0.1", 443), DENY_BLOCKED);
    cr_assert_eq(reason("good.example.org", 443), DENY_NONE);
    cr_assert_str_eq(ask(SCHEME_HTTPS, "bad.example.org", 443).hint, "");
}

Test(decide, ports_and_protocols)
{
    rule("h.test", SCHEME_HTTPS, 443);
    rule("h.test", SCHEME_ANY, 8080);
    rule("h.test", SCHEME_TCP, 5432);
    static const struct {
        enum scheme scheme;
        uint16_t port;
        enum deny_reason reason;
    } cases[] = {
        {SCHEME_HTTPS, 443, DENY_NONE},   {SCHEME_HTTP, 443, DENY_SCHEME},
        {SCHEME_TCP, 443, DENY_SCHEME},   {SCHEME_ANY, 443, DENY_NONE},
        {SCHEME_HTTPS, 444, DENY_PORT},   {SCHEME_HTTPS, 22, DENY_PORT},
        {SCHEME_HTTPS, 8080, DENY_NONE},  {SCHEME_HTTP, 8080, DENY_NONE},
        {SCHEME_TCP, 8080, DENY_NONE},    {SCHEME_TCP, 5432, DENY_NONE},
        {SCHEME_HTTP, 5432, DENY_SCHEME}, {SCHEME_HTTPS, 5432, DENY_SCHEME},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_expect_eq(ask(cases[i].scheme, "h.test", cases[i].port).reason, cases[i].reason,
                     "%s to %u", scheme_name(cases[i].scheme), cases[i].port);
}

Test(decide, methods_and_paths)
{
    char *methods[] = {"GET", "HEAD"}, *paths[] = {"/v1/*", "/open/**"};
    struct egress_rule *r = rule("h.test", SCHEME_HTTPS, 443);
    r->methods = (struct text_list){methods, 2};
    r->paths = (struct text_list){paths, 2};
    static const struct {
        const char *method, *path;
        enum deny_reason reason;
    } cases[] = {
        {"GET", "/v1/x", DENY_NONE},
        {"HEAD", "/open/a/b", DENY_NONE},
        {"POST", "/v1/x", DENY_METHOD},
        {"get", "/v1/x", DENY_METHOD},
        {"GET", "/v1/x/y", DENY_PATH},
        {"GET", "/v2/x", DENY_PATH},
        {"GET", "/open/../v2", DENY_PATH},
        {"GET", "/open/%2e%2e/v2", DENY_PATH},
        {"GET", "/open/a%2fb", DENY_PATH},
        {"GET", "/open//a", DENY_PATH},
        {"GET", NULL, DENY_PATH},
        {"", "/v1/x", DENY_METHOD},
        {"", NULL, DENY_NONE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_expect_eq(
            ask_request(SCHEME_HTTPS, "h.test", 443, cases[i].method, cases[i].path).reason,
            cases[i].reason, "%s %s", cases[i].method, cases[i].path);
}

/* Nobody would look for methods in a stream of bytes. */
Test(decide, a_rule_on_requests_opens_no_tunnel)
{
    char *methods[] = {"GET"};
    struct egress_rule *r = rule("h.test", SCHEME_ANY, 8080);
    cr_assert_eq(ask(SCHEME_TCP, "h.test", 8080).reason, DENY_NONE);
    r->methods = (struct text_list){methods, 1};
    cr_assert_eq(ask(SCHEME_TCP, "h.test", 8080).reason, DENY_SCHEME);
    cr_assert_eq(ask(SCHEME_HTTP, "h.test", 8080).reason, DENY_NONE);
}

/* C-10: nobody would look for credentials in one either. */
Test(decide, no_rule_without_a_scheme_opens_a_tunnel_to_the_origin_of_a_secret)
{
    rule("h.test", SCHEME_ANY, 8080);
    rule("h.test", SCHEME_ANY, 5432);
    rule("other.test", SCHEME_ANY, 8080);
    secrets[0] =
        (struct egress_secret){.scheme = SCHEME_HTTP, .host = host("h.test"), .port = 8080};
    egress.secret_count = 1;
    cr_assert_eq(ask(SCHEME_TCP, "h.test", 8080).reason, DENY_SCHEME);
    cr_assert_eq(ask(SCHEME_HTTP, "h.test", 8080).reason, DENY_NONE);
    cr_assert_eq(ask(SCHEME_HTTPS, "h.test", 8080).reason, DENY_NONE);
    cr_assert_eq(ask(SCHEME_TCP, "h.test", 5432).reason, DENY_NONE);
    cr_assert_eq(ask(SCHEME_TCP, "other.test", 8080).reason, DENY_NONE);
    rule("h.test", SCHEME_TCP, 8080);
    cr_assert_eq(ask(SCHEME_TCP, "h.test", 8080).reason, DENY_NONE, "somebody wrote it");
}

Test(decide, rules_add_up)
{
    char *get[] = {"GET"}, *post[] = {"POST"}, *hooks[] = {"/hooks/*"};
    rule("h.test", SCHEME_HTTPS, 443)->methods = (struct text_list){get, 1};
    struct egress_rule *second = rule("h.test", SCHEME_HTTPS, 443);
    second->methods = (struct text_list){post, 1};
    second->paths = (struct text_list){hooks, 1};
    cr_assert_eq(ask_request(SCHEME_HTTPS, "h.test", 443, "GET", "/x").rule, 0);
    cr_assert_eq(ask_request(SCHEME_HTTPS, "h.test", 443, "POST", "/hooks/1").rule, 1);
    struct verdict v = ask_request(SCHEME_HTTPS, "h.test", 443, "POST", "/x");
    cr_assert(!v.allow && v.reason == DENY_PATH, "the reason of the rule that came furthest");
}

Test(decide, the_most_specific_rule_counts)
{
    rule("**.test", SCHEME_ANY, 443);
    rule("*.h.test", SCHEME_ANY, 443);
    rule("a.h.test", SCHEME_ANY, 443);
    rule("a.h.test", SCHEME_ANY, 443)->pinned = true;
    cr_assert_eq(ask(SCHEME_HTTPS, "x.test", 443).rule, 0);
    cr_assert_eq(ask(SCHEME_HTTPS, "b.h.test", 443).rule, 1);
    cr_assert_eq(ask(SCHEME_HTTPS, "a.h.test", 443).rule, 3);
}

/* N-4 */
Test(decide, literals_only_by_name)
{
    rule("example.org", SCHEME_HTTPS, 443);
    rule("192.0.1.7", SCHEME_HTTPS, 443);
    rule("[2606:4700::1]", SCHEME_HTTPS, 443);
    cr_assert_eq(reason("192.0.1.7", 443), DENY_NONE);
    cr_assert_eq(reason("192.0.1.8", 443), DENY_LITERAL);
    cr_assert_eq(reason("192.0.1.7", 80), DENY_PORT);
    cr_assert_eq(reason("[2606:4700::1]", 443), DENY_NONE);
    cr_assert_eq(reason("[2606:4700::2]", 443), DENY_LITERAL);
}

static void check_hint(enum scheme scheme, const char *name, uint16_t port, const char *hint)
{
    struct verdict v = ask(scheme, name, port);
    cr_expect_str_eq(v.hint, hint, "%s %u: \"%s\", not \"%s\"", name, port, v.hint, hint);
}

static void check_offline(const char *name, uint16_t port, bool live, const char *expected)
{
    char hint[DENY_HINT_MAX];
    struct target t = {.port = port};
    cr_assert_eq(host_parse(name, strlen(name), false, &t.host, NULL), 0, "%s", name);
    deny_offline_hint(&t, live, hint);
    cr_expect_str_eq(hint, expected, "%s %u: \"%s\"", name, port, hint);
}

Test(decide, hints_where_there_are_no_rules)
{
    check_offline("pypi.org", 0, false, "add --allow pypi.org, or --allow @pypi");
    check_offline("a.example.org", 0, false, "add --allow a.example.org");
    check_offline("1.1.1.1", 443, false, "add --allow 1.1.1.1:443");
    check_offline("10.0.0.5", 5432, false, "pin it: --allow 10.0.0.5:5432=10.0.0.5");
    check_offline("a.example.org", 0, true,
                  "name it in allowOut, or in network.allow of the template: a.example.org");
    check_offline("10.0.0.5", 80, true,
                  "network.allow of the template can name it: 10.0.0.5:80=10.0.0.5");
    /* What should stay closed, and what no rule would open. */
    check_offline("169.254.169.254", 80, false, "");
    check_offline("metadata.google.internal", 0, false, "");
    check_offline("metadata.google.internal", 0, true, "");
    check_offline("1.1.1.1", 53, false, "");
    char label[240];
    for (size_t i = 0; i < sizeof label; i++)
        label[i] = i % 10 == 9 ? '.' : 'a';
    label[sizeof label - 1] = '\0';
    check_offline(label, 0, false, ""); /* cut off, it would be the name of somebody else */
}

Test(decide, hints)
{
    rule("known.test", SCHEME_HTTPS, 443);
    check_hint(SCHEME_HTTPS, "evil.com", 443, "add --allow evil.com:443");
    check_hint(SCHEME_HTTP, "evil.com", 80, "add --allow evil.com:80");
    check_hint(SCHEME_ANY, "evil.com", 443, "add --allow evil.com:443");
    check_hint(SCHEME_TCP, "evil.com", 5432, "add --allow evil.com:5432");
    check_hint(SCHEME_TCP, "evil.com", 443, "add --allow 'tcp://evil.com:443'");
    check_hint(SCHEME_HTTP, "evil.com", 443, "add --allow 'http://evil.com:443'");
    check_hint(SCHEME_HTTPS, "known.test", 8443, "add --allow known.test:8443");
    check_hint(SCHEME_HTTP, "known.test", 443, "add --allow 'http://known.test:443'");
    check_hint(SCHEME_HTTPS, "8.8.8.8", 443, "add --allow 8.8.8.8:443");
    check_hint(SCHEME_HTTPS, "[2606:4700::1]", 443, "add --allow '[2606:4700::1]:443'");
    check_hint(SCHEME_TCP, "10.0.0.5", 5432, "pin it: --allow 10.0.0.5:5432=10.0.0.5");
    check_hint(SCHEME_HTTPS, "[::1]", 443, "pin it: --allow '[::1]:443=::1'");
}

/* In a sandbox of the daemon nobody can add an option. */
Test(decide, hints_of_a_sandbox_of_the_daemon)
{
    rule("known.test", SCHEME_HTTPS, 443);
    egress.live = true;
    check_hint(SCHEME_HTTPS, "evil.com", 443,
               "name it in allowOut, or in network.allow of the template: evil.com:443");
    check_hint(SCHEME_HTTP, "known.test", 443,
               "name it in allowOut, or in network.allow of the template: http://known.test:443");
    check_hint(SCHEME_HTTPS, "pypi.org", 443,
               "name it in allowOut, or in network.allow of the template: pypi.org:443, or @pypi");
    check_hint(SCHEME_TCP, "10.0.0.5", 5432,
               "network.allow of the template can name it: 10.0.0.5:5432=10.0.0.5");
}

/* No way round is suggested where nobody should go. */
Test(decide, no_hint_for_what_stays_closed)
{
    static const char *const names[] = {"169.254.169.254", "100.100.100.200",
                                        "192.0.0.192",     "[fd00:ec2::254]",
                                        "metadata",        "metadata.google.internal",
                                        "169.254.1.1",     "224.0.0.1",
                                        "0.0.0.0",         "[fe80::1]"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        check_hint(SCHEME_HTTP, names[i], 80, "");
}

Test(decide, hints_for_requests)
{
    char *methods[] = {"GET"}, *paths[] = {"/a"};
    struct egress_rule *r = rule("h.test", SCHEME_HTTPS, 443);
    r->methods = (struct text_list){methods, 1};
    r->paths = (struct text_list){paths, 1};
    cr_assert_str_eq(ask_request(SCHEME_HTTPS, "h.test", 443, "PUT", "/a").hint,
                     "add PUT to the methods of the rule");
    cr_assert_str_eq(ask_request(SCHEME_HTTPS, "h.test", 443, "x\033[1m", "/a").hint, "");
    cr_assert_str_eq(ask_request(SCHEME_HTTPS, "h.test", 443, "GET", "/b").hint,
                     "add the path to the paths of the rule");
    cr_assert(strstr(ask_request(SCHEME_HTTPS, "h.test", 443, "GET", "/a/../b").hint, "dot"));
}

/* The longest name that fits nowhere: no cut command is suggested. */
Test(decide, a_hint_is_whole_or_missing)
{
    char name[254];
    memset(name, 'a', sizeof name);
    for (size_t i = 50; i < sizeof name - 2; i += 50)
        name[i] = '.';
    name[253] = '\0';
    struct verdict v = ask(SCHEME_HTTPS, name, 443);
    cr_assert_eq(v.reason, DENY_NO_RULE);
    cr_assert_str_eq(v.hint, "");
}

Test(decide, hints_for_answers)
{
    struct target t = {.scheme = SCHEME_HTTPS, .host = host("db.internal"), .port = 443};
    char out[DENY_HINT_MAX];
    deny_address_hint(&t, ADDRESS_PRIVATE, true, out);
    cr_assert_str_eq(out, "network.allow of the template can name it: db.internal:443=ADDRESS");
    deny_address_hint(&t, ADDRESS_PRIVATE, false, out);
    cr_assert_str_eq(out, "pin it: --allow db.internal:443=ADDRESS");
    deny_address_hint(&t, ADDRESS_METADATA, false, out);
    cr_assert_str_eq(out, "");
    t.host = host("metadata.google.internal");
    deny_address_hint(&t, ADDRESS_PRIVATE, false, out);
    cr_assert_str_eq(out, "");
}

Test(decide, looking_inside)
{
    char *methods[] = {"GET"};
    struct host h = host("h.test"), s = host("s.test"), other = host("x.test");
    struct egress_rule *r = rule("h.test", SCHEME_HTTPS, 443);
    rule("s.test", SCHEME_HTTPS, 443);
    cr_assert(!egress_looks_inside(&egress, &h, 443));
    r->methods = (struct text_list){methods, 1};
    cr_assert(egress_looks_inside(&egress, &h, 443));
    cr_assert(!egress_looks_inside(&egress, &h, 8443));
    cr_assert(!egress_looks_inside(&egress, &other, 443));
    r->scheme = SCHEME_HTTP;
    cr_assert(!egress_looks_inside(&egress, &h, 443), "it allows no TLS");
    cr_assert(!egress_looks_inside(&egress, &s, 443));
    secrets[0] = (struct egress_secret){.scheme = SCHEME_HTTPS, .host = s, .port = 443};
    egress.secret_count = 1;
    cr_assert(egress_looks_inside(&egress, &s, 443));
    cr_assert(!egress_looks_inside(&egress, &s, 8443));
    rule("s.test", SCHEME_ANY, 8443);
    cr_assert(!egress_looks_inside(&egress, &s, 8443), "anything may be spoken there");
    rule("s.test", SCHEME_HTTPS, 8443);
    cr_assert(egress_looks_inside(&egress, &s, 8443), "another port of a secret's host");
}

/* N-16 */
Test(decide, a_request_that_says_two_things)
{
    char *methods[] = {"GET"}, *names[] = {"X-HTTP-Method"};
    struct doubts doubts = {.count = 1, .items = {{.kind = DOUBT_METHOD, .name = "X-HTTP-Method"}}};
    struct target t = {.scheme = SCHEME_HTTPS,
                       .host = host("h.test"),
                       .port = 443,
                       .method = "GET",
                       .path = "/",
                       .doubts = &doubts};
    struct egress_rule *r = rule("h.test", SCHEME_HTTPS, 443);
    struct verdict v;
    egress_decide(&egress, &t, &v);
    cr_assert(v.allow, "the rule speaks of the host alone");
    r->methods = (struct text_list){methods, 1};
    egress_decide(&egress, &t, &v);
    cr_assert_eq(v.reason, DENY_AMBIGUOUS);
    cr_assert(strstr(v.hint, "X-HTTP-Method"), "%s", v.hint);
    r->pass = (struct text_list){names, 1};
    egress_decide(&egress, &t, &v);
    cr_assert(v.allow, "it is named");
    r->pass.count = 0;
    rule("h.test", SCHEME_HTTPS, 443);
    egress_decide(&egress, &t, &v);
    cr_assert(v.allow, "rules add up");
}

Test(decide, names_that_are_answered)
{
    struct host a = host("a.test"), b = host("b.test"), literal = host("10.0.0.1");
    cr_assert(!egress_knows_name(&egress, &a));
    rule("*.test", SCHEME_TCP, 22);
    rule("10.0.0.1", SCHEME_TCP, 22);
    cr_assert(egress_knows_name(&egress, &a));
    cr_assert(egress_knows_name(&egress, &b));
    cr_assert(!egress_knows_name(&egress, &literal));
    block("b.test");
    cr_assert(!egress_knows_name(&egress, &b));
}

Test(decide, every_reason_has_words)
{
    for (int i = 0; i < DENY_REASON_COUNT; i++) {
        cr_assert(deny_name(i) && deny_name(i)[0] && !strchr(deny_name(i), ' '));
        cr_assert(deny_text(i) && deny_text(i)[0]);
    }
}
