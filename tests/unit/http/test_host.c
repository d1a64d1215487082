#include "http/host.h"

#include "base/cleanup.h"

#include <criterion/criterion.h>
#include <string.h>

static int parse(const char *text, bool bracketed, struct host *ret, struct err *err)
{
    return host_parse(text, strlen(text), bracketed, ret, err);
}

struct good {
    const char *text;
    const char *canonical;
    enum host_kind kind;
};

static const struct good good[] = {
    {"example.org", "example.org", HOST_NAME},
    {"EXAMPLE.Org", "example.org", HOST_NAME},
    {"example.org.", "example.org", HOST_NAME},
    {"localhost", "localhost", HOST_NAME},
    {"a_b.-c.example", "a_b.-c.example", HOST_NAME},
    {"xn--bcher-kva.example", "xn--bcher-kva.example", HOST_NAME},
    {"1password.com", "1password.com", HOST_NAME},
    {"127.0.0.1.nip.io", "127.0.0.1.nip.io", HOST_NAME},
    {"1.2.3.4", "1.2.3.4", HOST_IPV4},
    {"255.255.255.255", "255.255.255.255", HOST_IPV4},
    {"0.0.0.0", "0.0.0.0", HOST_IPV4},
    {"[::1]", "::1", HOST_IPV6},
    {"[::]", "::", HOST_IPV6},
    {"[2001:DB8:0:0:0:0:0:1]", "2001:db8::1", HOST_IPV6},
    {"[2001:db8:0:1:1:1:1:1]", "2001:db8:0:1:1:1:1:1", HOST_IPV6},
    {"[2001:0:0:1:0:0:0:1]", "2001:0:0:1::1", HOST_IPV6},
    {"[2001:db8:0:0:1:0:0:1]", "2001:db8::1:0:0:1", HOST_IPV6},
    {"[fe80::]", "fe80::", HOST_IPV6},
    {"[0001::]", "1::", HOST_IPV6},
    {"[1:2:3:4:5:6:7::]", "1:2:3:4:5:6:7:0", HOST_IPV6},
    {"[64:ff9b::102:304]", "64:ff9b::102:304", HOST_IPV6},
};

Test(host, good_texts_become_canonical)
{
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        struct err err = ERR_INIT;
        struct host h;
        struct host again;
        cr_assert_eq(parse(good[i].text, true, &h, &err), 0, "%s: %s", good[i].text, err.message);
        cr_assert_str_eq(h.text, good[i].canonical);
        cr_assert_eq(h.kind, good[i].kind, "%s", good[i].text);
        cr_assert_eq(parse(h.text, false, &again, &err), 0, "%s: %s", h.text, err.message);
        cr_assert(host_equal(&h, &again));
        cr_assert_arr_eq(h.addr, again.addr, 16);
    }
}

Test(host, address_bytes)
{
    struct host h;
    const uint8_t v4[4] = {1, 2, 30, 254};
    const uint8_t v6[16] = {0x20, 0x01, 0x0d, 0xb8, [14] = 0xab, [15] = 0xcd};
    cr_assert_eq(parse("1.2.30.254", true, &h, NULL), 0);
    cr_assert_arr_eq(h.addr, v4, 4);
    cr_assert_eq(parse("2001:db8::abcd", false, &h, NULL), 0);
    cr_assert_arr_eq(h.addr, v6, 16);
}

static const char *const bad[] = {
    "",
    ".",
    "..",
    ".example.org",
    "example.org..",
    "a..b",
    "a b",
    " a",
    "a ",
    "a\tb",
    "a\r\nb",
    "user@example.org",
    "example.org@evil.com",
    "example.org%00.evil.com",
    "%65xample.org",
    "example.org/evil",
    "example.org:80",
    "example.org\\evil",
    "example.org#x",
    "example.org?x",
    "b\xc3\xbc"
    "cher.example",
    "ex\xe2\x80\xa4"
    "ample",
    "a,b",
    "a*b",
    "*",
    "*.example.org",
    "\x7f",
    "a\x01",
    "a;b",
    "a'b",
    "a\"b",
    "(a)",
    "a+b",
    "a=b",
    "a~b",
    /* IPv4 as some libraries read it */
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "127.1",
    "127.0.1",
    "0177.0.0.1",
    "127.0.0.01",
    "127.0.0.256",
    "127.0.0.1.",
    "127.0.0.0x1",
    "1.2.3.4.5",
    "1.2.3",
    "1",
    "00",
    "0",
    "0x",
    "999999999999",
    "1.2.3.4444",
    "a.1",
    "a.0x1f",
    "foo.0X",

    "1..2.3",
    "08.8.8.8",
    /* IPv6 */
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[::7f00:1]",
    "[::2]",
    "[fe80::1%eth0]",
    "[fe80::1%25eth0]",
    "[::1",
    "::1]",
    "[]",
    "[:]",
    "[:::]",
    "[1:2:3:4:5:6:7]",
    "[1:2:3:4:5:6:7:8:9]",
    "[1::2::3]",
    "[1:2:3:4:5:6:7:8::]",
    "[::1:2:3:4:5:6:7:8]",
    "[12345::]",
    "[g::]",
    "[::1]x",
    "x[::1]",
    "[[::1]]",
    "[1:2:3:4:5:6:7:]",
    "[:1:2:3:4:5:6:7]",
    "[::1.2.3.4]",
    "[64:ff9b::1.2.3.4]",
    "[v1.x]",
    "[1.2.3.4]",
    "[example.org]",
    "[ ::1]",
};

Test(host, bad_texts_are_refused)
{
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        for (int bracketed = 0; bracketed < 2; bracketed++) {
            struct err err = ERR_INIT;
            struct host h;
            cr_assert_lt(parse(bad[i], bracketed, &h, &err), 0, "%s was taken", bad[i]);
            cr_assert(err.message[0]);
        }
}

Test(host, nul_is_refused)
{
    struct host h;
    cr_assert_lt(host_parse("a\0b", 3, true, &h, NULL), 0);
    cr_assert_lt(host_parse("example.org\0", 12, true, &h, NULL), 0);
    cr_assert_eq(host_parse("example.org\0", 11, true, &h, NULL), 0);
}

Test(host, brackets_where_required)
{
    struct host h;
    cr_assert_lt(parse("::1", true, &h, NULL), 0);
    cr_assert_eq(parse("::1", false, &h, NULL), 0);
    cr_assert_eq(parse("[::1]", false, &h, NULL), 0);
}

Test(host, lengths)
{
    char text[300];
    struct host h;
    memset(text, 'a', sizeof(text));
    cr_assert_eq(host_parse(text, 63, true, &h, NULL), 0);
    cr_assert_lt(host_parse(text, 64, true, &h, NULL), 0);
    for (size_t i = 50; i < sizeof(text); i += 51)
        text[i] = '.';
    cr_assert_eq(host_parse(text, 253, true, &h, NULL), 0);
    cr_assert_lt(host_parse(text, 254, true, &h, NULL), 0);
    text[253] = '.';
    cr_assert_eq(host_parse(text, 254, true, &h, NULL), 0);
    cr_assert_eq(strlen(h.text), 253);
}

struct match {
    const char *pattern;
    const char *host;
    bool matches;
};

static const struct match matches[] = {
    {"example.org", "example.org", true},
    {"example.org", "EXAMPLE.org.", true},
    {"example.org", "a.example.org", false},
    {"example.org", "example.org.evil.com", false},
    {"example.org", "notexample.org", false},
    {"*.example.org", "a.example.org", true},
    {"*.example.org", "example.org", false},
    {"*.example.org", "a.b.example.org", false},
    {"*.example.org", "aexample.org", false},
    {"*.Example.org.", "a.example.org", true},
    {"**.example.org", "a.example.org", true},
    {"**.example.org", "a.b.c.example.org", true},
    {"**.example.org", "example.org", false},
    {"**.example.org", "evilexample.org", false},
    {"**.example.org", "a.example.org.evil.com", false},
    {"*.org", "example.org", true},
    {"1.2.3.4", "1.2.3.4", true},
    {"1.2.3.4", "1.2.3.5", false},
    {"[::1]", "::1", true},
    {"::1", "0:0:0:0:0:0:0:1", true},
    {"192.0.2.0/24", "192.0.2.0", true},
    {"192.0.2.0/24", "192.0.2.255", true},
    {"192.0.2.0/24", "192.0.3.0", false},
    {"192.0.2.0/24", "192.0.2.0.example.org", false},
    {"192.0.2.128/25", "192.0.2.127", false},
    {"192.0.2.128/25", "192.0.2.129", true},
    {"[192.0.2.128/25]", "192.0.2.129", true},
    {"192.0.2.4/31", "192.0.2.5", true},
    {"192.0.2.4/31", "192.0.2.6", false},
    {"192.0.2.4/32", "192.0.2.4", true},
    {"192.0.2.4/32", "192.0.2.5", false},
    {"0.0.0.0/0", "192.0.2.5", true},
    {"0.0.0.0/0", "2001:db8::1", false},
    {"0.0.0.0/0", "example.org", false},
    {"128.0.0.0/1", "127.255.255.255", false},
    {"128.0.0.0/1", "128.0.0.0", true},
    {"2001:db8::/32", "2001:db8:ffff::1", true},
    {"2001:db8::/32", "2001:db9::", false},
    {"[2001:db8::]/32", "2001:db8::", true},
    {"[2001:db8:8000::/33]", "2001:db8:8000::1", true},
    {"[2001:db8:8000::/33]", "2001:db8:7fff::1", false},
    {"::/0", "2001:db8::1", true},
    {"::/0", "192.0.2.5", false},
    {"2001:db8::1/128", "2001:db8::1", true},
};

Test(host, patterns)
{
    for (size_t i = 0; i < ARRAY_LEN(matches); i++) {
        struct err err = ERR_INIT;
        struct host_pattern p;
        struct host h;
        const struct match *m = &matches[i];
        cr_assert_eq(host_pattern_parse(m->pattern, strlen(m->pattern), &p, &err), 0, "%s: %s",
                     m->pattern, err.message);
        cr_assert_eq(parse(m->host, false, &h, &err), 0, "%s: %s", m->host, err.message);
        cr_assert_eq(host_pattern_match(&p, &h), m->matches, "%s on %s", m->pattern, m->host);
    }
}

Test(host, bad_patterns)
{
    static const char *const texts[] = {
        "",
        "*",
        "**",
        "*.",
        "**.",
        "***.a.b",
        "a.*",
        "a.*.b",
        "*a.b",
        "a*.b",
        "*.*.b",
        "*.**.b",
        "**.*.b",
        "*.1.2.3.4",
        "*.[::1]",
        "**.::1",
        ".*.a",
        "*..a",
        "* .a",
        "*.a b",
        "?.a",
        "*.com:80",
        "192.0.2.0/",
        "192.0.2.0/33",
        "192.0.2.0/024",
        "192.0.2.0/-1",
        "192.0.2.0/+8",
        "192.0.2.0/8x",
        "192.0.2.1/24",
        "192.0.2.0/23x",
        "/24",
        "a.org/24",
        "*.192.0.2.0/24",
        "[192.0.2.0]/24",
        "192.0.2.0/24/24",
        "192.0.2/24",
        "2001:db8::/129",
        "2001:db8::1/64",
        "[2001:db8::/32",
        "2001:db8::/32]",
        "::ffff:0:0/95",
        "2001:db8::%1/64",
        "192.0.2.0/ 24",
        "192.0.2.0/1000000000000",
        "[/24]",
        "[]",
        "[]/8",
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct host_pattern p;
        cr_assert_lt(host_pattern_parse(texts[i], strlen(texts[i]), &p, NULL), 0, "%s", texts[i]);
    }
}
