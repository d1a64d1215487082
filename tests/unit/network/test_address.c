/* What an address means: each listed prefix at its borders, embeddings, and the whole of it against
 * Python's ipaddress. */
#include "network/address.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static enum address_class class_of(const char *text)
{
    uint8_t a[16];
    if (inet_pton(AF_INET, text, a) == 1)
        return address_classify_v4(a);
    cr_assert_eq(inet_pton(AF_INET6, text, a), 1, "%s is an address", text);
    return address_classify_v6(a);
}

struct expected {
    const char *text;
    enum address_class class;
};

static void check(const struct expected *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        cr_expect_eq(class_of(list[i].text), list[i].class, "%s is %s, not %s", list[i].text,
                     address_class_name(list[i].class), address_class_name(class_of(list[i].text)));
}
#define CHECK(list) check(list, sizeof list / sizeof list[0])

Test(address, v4)
{
    static const struct expected list[] = {
        {"0.0.0.0", ADDRESS_UNSPECIFIED},    {"0.0.0.1", ADDRESS_RESERVED},
        {"0.255.255.255", ADDRESS_RESERVED}, {"1.0.0.0", ADDRESS_PUBLIC},
        {"9.255.255.255", ADDRESS_PUBLIC},   {"10.0.0.0", ADDRESS_PRIVATE},
        {"10.255.255.255", ADDRESS_PRIVATE}, {"11.0.0.0", ADDRESS_PUBLIC},
        {"100.63.255.255", ADDRESS_PUBLIC},  {"100.64.0.0", ADDRESS_CGNAT},
        {"100.127.255.255", ADDRESS_CGNAT},  {"100.128.0.0", ADDRESS_PUBLIC},
        {"127.0.0.1", ADDRESS_LOOPBACK},     {"127.255.255.255", ADDRESS_LOOPBACK},
        {"128.0.0.0", ADDRESS_PUBLIC},       {"169.253.255.255", ADDRESS_PUBLIC},
        {"169.254.0.0", ADDRESS_LINK_LOCAL}, {"169.255.0.0", ADDRESS_PUBLIC},
        {"172.15.255.255", ADDRESS_PUBLIC},  {"172.16.0.0", ADDRESS_PRIVATE},
        {"172.31.255.255", ADDRESS_PRIVATE}, {"172.32.0.0", ADDRESS_PUBLIC},
        {"192.0.0.1", ADDRESS_RESERVED},     {"192.0.1.0", ADDRESS_PUBLIC},
        {"192.0.2.1", ADDRESS_RESERVED},     {"192.88.99.1", ADDRESS_RESERVED},
        {"192.167.255.255", ADDRESS_PUBLIC}, {"192.168.0.1", ADDRESS_PRIVATE},
        {"192.169.0.0", ADDRESS_PUBLIC},     {"198.17.255.255", ADDRESS_PUBLIC},
        {"198.18.0.0", ADDRESS_RESERVED},    {"198.19.255.255", ADDRESS_RESERVED},
        {"198.20.0.0", ADDRESS_PUBLIC},      {"198.51.100.7", ADDRESS_RESERVED},
        {"203.0.113.7", ADDRESS_RESERVED},   {"223.255.255.255", ADDRESS_PUBLIC},
        {"224.0.0.1", ADDRESS_MULTICAST},    {"239.255.255.255", ADDRESS_MULTICAST},
        {"240.0.0.0", ADDRESS_RESERVED},     {"255.255.255.255", ADDRESS_RESERVED},
    };
    CHECK(list);
}

Test(address, metadata)
{
    static const struct expected list[] = {
        {"169.254.169.254", ADDRESS_METADATA},
        {"169.254.170.2", ADDRESS_METADATA},
        {"169.254.170.23", ADDRESS_METADATA},
        {"169.254.0.23", ADDRESS_METADATA},
        {"169.254.42.42", ADDRESS_METADATA},
        {"100.100.100.200", ADDRESS_METADATA},
        {"192.0.0.192", ADDRESS_METADATA},
        {"168.63.129.16", ADDRESS_METADATA},
        {"168.63.129.17", ADDRESS_PUBLIC},
        {"fd00:ec2::254", ADDRESS_METADATA},
        {"fd00:ec2::23", ADDRESS_METADATA},
        {"fd20:ce::254", ADDRESS_METADATA},
        {"fd00:42::42", ADDRESS_METADATA},
        {"fd00:c1::a9fe:a9fe", ADDRESS_METADATA},
        {"fe80::a9fe:a9fe", ADDRESS_METADATA},
        {"fd00:ec2::255", ADDRESS_PRIVATE},
        {"::ffff:169.254.169.254", ADDRESS_METADATA},
        {"::169.254.169.254", ADDRESS_METADATA},
        {"64:ff9b::169.254.169.254", ADDRESS_METADATA},
        {"2002:a9fe:a9fe::1", ADDRESS_METADATA},
    };
    CHECK(list);
}

Test(address, v6)
{
    static const struct expected list[] = {
        {"::", ADDRESS_UNSPECIFIED},       {"::1", ADDRESS_LOOPBACK},
        {"100::1", ADDRESS_RESERVED},      {"1fff:ffff::", ADDRESS_RESERVED},
        {"2000::1", ADDRESS_PUBLIC},       {"2001:10::1", ADDRESS_RESERVED},
        {"2001:20::1", ADDRESS_RESERVED},  {"2001:1ff:ffff::1", ADDRESS_RESERVED},
        {"2001:200::1", ADDRESS_PUBLIC},   {"2001:db7:ffff::1", ADDRESS_PUBLIC},
        {"2001:db8::1", ADDRESS_RESERVED}, {"2001:db9::1", ADDRESS_PUBLIC},
        {"2606:4700::1", ADDRESS_PUBLIC},  {"3ffe:ffff::1", ADDRESS_PUBLIC},
        {"3fff::1", ADDRESS_RESERVED},     {"3fff:fff:ffff::1", ADDRESS_RESERVED},
        {"3fff:1000::1", ADDRESS_PUBLIC},  {"4000::1", ADDRESS_RESERVED},
        {"5f00::1", ADDRESS_RESERVED},     {"fbff::1", ADDRESS_RESERVED},
        {"fc00::1", ADDRESS_PRIVATE},      {"fd62:7269:6700::1", ADDRESS_PRIVATE},
        {"fe00::1", ADDRESS_RESERVED},     {"fe80::1", ADDRESS_LINK_LOCAL},
        {"febf::1", ADDRESS_LINK_LOCAL},   {"fec0::1", ADDRESS_PRIVATE},
        {"ff02::1", ADDRESS_MULTICAST},
    };
    CHECK(list);
}

/* By what is inside, and at best reserved. */
Test(address, embedded)
{
    static const struct expected list[] = {
        {"::ffff:8.8.8.8", ADDRESS_RESERVED},
        {"::ffff:127.0.0.1", ADDRESS_LOOPBACK},
        {"::ffff:10.1.2.3", ADDRESS_PRIVATE},
        {"::ffff:0:10.1.2.3", ADDRESS_PRIVATE},
        {"::8.8.8.8", ADDRESS_RESERVED},
        {"::127.0.0.1", ADDRESS_LOOPBACK},
        {"64:ff9b::8.8.8.8", ADDRESS_RESERVED},
        {"64:ff9b::127.0.0.1", ADDRESS_LOOPBACK},
        {"64:ff9b:1::192.168.1.1", ADDRESS_PRIVATE},
        {"64:ff9b:1:0a00:00:0100::", ADDRESS_PRIVATE}, /* 10.0.0.1 around byte 8 */
        {"2002:0808:0808::1", ADDRESS_RESERVED},
        {"2002:7f00:1::1", ADDRESS_LOOPBACK},
        {"2001:0:4136:e378:8000:63bf:80ff:fffe", ADDRESS_LOOPBACK}, /* ~127.0.0.1 */
        {"2001:0:4136:e378:8000:63bf:f7f7:f7f7", ADDRESS_RESERVED}, /* ~8.8.8.8 */
        {"2606:4700::5efe:10.0.0.1", ADDRESS_PRIVATE},
        {"2606:4700::200:5efe:127.0.0.1", ADDRESS_LOOPBACK},
        {"2606:4700::200:5efe:8.8.8.8", ADDRESS_RESERVED},
        {"2606:4700::100:5efe:10.0.0.1", ADDRESS_PUBLIC},
    };
    CHECK(list);
}

Test(address, what_an_address_embeds)
{
    static const struct {
        const char *v6, *v4;
    } cases[] = {
        {"64:ff9b::10.0.0.5", "10.0.0.5"},
        {"64:ff9b:1:a00:0:500::", "10.0.0.5"},
        {"::ffff:10.0.0.5", "10.0.0.5"},
        {"::10.0.0.5", "10.0.0.5"},
        {"2002:a00:5::1", "10.0.0.5"},
        {"2001:0:1:2:3:4:f5ff:fffa", "10.0.0.5"},
        {"2606:4700::5efe:10.0.0.5", "10.0.0.5"},
        {"fd00::200:5efe:10.0.0.5", "10.0.0.5"},
        {"2606:4700::a00:5", NULL},
        {"fd00::1", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t v6[16], v4[4], want[4];
        cr_assert_eq(inet_pton(AF_INET6, cases[i].v6, v6), 1, "%s", cases[i].v6);
        cr_expect_eq(address_inner_v4(v6, v4), cases[i].v4 != NULL, "%s", cases[i].v6);
        if (!cases[i].v4)
            continue;
        cr_assert_eq(inet_pton(AF_INET, cases[i].v4, want), 1);
        cr_expect_arr_eq(v4, want, sizeof want, "%s", cases[i].v6);
    }
}

Test(address, sockets)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000001)};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
    struct sockaddr other = {.sa_family = AF_UNIX};
    cr_assert_eq(address_classify((struct sockaddr *)&in), ADDRESS_PRIVATE);
    in.sin_addr.s_addr = htonl(0x08080808);
    cr_assert_eq(address_classify((struct sockaddr *)&in), ADDRESS_PUBLIC);
    cr_assert_eq(address_classify((struct sockaddr *)&in6), ADDRESS_UNSPECIFIED);
    inet_pton(AF_INET6, "2606:4700::1", &in6.sin6_addr);
    cr_assert_eq(address_classify((struct sockaddr *)&in6), ADDRESS_PUBLIC);
    cr_assert_eq(address_classify(&other), ADDRESS_RESERVED);
}

/* Where we refuse what Python calls global, and why. There is no list for the other direction. */
static const struct {
    const char *prefix;
    unsigned bits;
    const char *why;
} stricter[] = {
    {"168.63.129.16", 32, "Azure's agent, in the middle of a public block"},
    {"192.0.0.0", 24, "protocol assignments; the few global ones are anycast helpers"},
    {"192.88.99.0", 24, "6to4 relays, given up"},
    {"224.0.0.0", 4, "multicast is global and no destination of a stream"},
    {"::", 3, "not given out, or embeds a v4 address"},
    {"4000::", 2, "not given out"},
    {"8000::", 1, "not given out, private, link-local or multicast"},
    {"2001::", 23, "protocol assignments"},
    {"2002::", 16, "embeds a v4 address"},
    {"3fff::", 20, "documentation since 2024"},
};

static bool within(const uint8_t *a, const uint8_t *prefix, unsigned bits)
{
    for (unsigned i = 0; i < bits; i++)
        if ((a[i / 8] ^ prefix[i / 8]) >> (7 - i % 8) & 1)
            return false;
    return true;
}

static bool is_justified(int family, const uint8_t *a)
{
    uint8_t prefix[16];
    for (size_t i = 0; i < sizeof stricter / sizeof stricter[0]; i++)
        if (inet_pton(family, stricter[i].prefix, prefix) == 1 &&
            within(a, prefix, stricter[i].bits))
            return true;
    return false;
}

Test(address, never_public_where_python_says_otherwise)
{
    char text[64];
    int global;
    unsigned seen = 0, public = 0;
    FILE *in = popen("python3 " ORACLE, "r");
    cr_assert(in);
    while (fscanf(in, "%63s %d", text, &global) == 2) {
        uint8_t a[16];
        int family = strchr(text, ':') ? AF_INET6 : AF_INET;
        bool ours = class_of(text) == ADDRESS_PUBLIC;
        inet_pton(family, text, a);
        cr_expect(!ours || global, "%s is public here and not for Python", text);
        cr_expect(ours || !global || is_justified(family, a), "%s is refused without a reason",
                  text);
        seen++;
        public += ours;
    }
    pclose(in);
    cr_assert_gt(seen, 60000, "the oracle has run");
    cr_assert_gt(public, 40000, "and most of v4 is public");
}
