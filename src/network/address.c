/* What an address means, by the registries of special-purpose addresses: one table of prefixes per
 * family, the longest match wins.
 *
 * N-5  An address that is not plainly of the public Internet is never dialled without a pin. What
 *      embeds another address is judged by what it embeds, and is never public itself. */
#include "network/address.h"

#include "base/cleanup.h"

#include <netinet/in.h>
#include <stddef.h>
#include <string.h>

struct prefix4 {
    uint8_t addr[4];
    uint8_t bits;
    enum address_class class;
};

static const struct prefix4 table4[] = {
    {{0, 0, 0, 0}, 8, ADDRESS_RESERVED}, /* "this network" */
    {{0, 0, 0, 0}, 32, ADDRESS_UNSPECIFIED},
    {{10, 0, 0, 0}, 8, ADDRESS_PRIVATE},
    {{100, 64, 0, 0}, 10, ADDRESS_CGNAT},
    {{100, 100, 100, 200}, 32, ADDRESS_METADATA}, /* Alibaba */
    {{127, 0, 0, 0}, 8, ADDRESS_LOOPBACK},
    {{168, 63, 129, 16}, 32, ADDRESS_METADATA}, /* Azure's host agent: public by its number */
    {{169, 254, 0, 0}, 16, ADDRESS_LINK_LOCAL},
    {{169, 254, 0, 23}, 32, ADDRESS_METADATA},    /* Tencent */
    {{169, 254, 42, 42}, 32, ADDRESS_METADATA},   /* Scaleway */
    {{169, 254, 169, 254}, 32, ADDRESS_METADATA}, /* AWS, Azure, Google, … */
    {{169, 254, 170, 2}, 32, ADDRESS_METADATA},   /* AWS containers */
    {{169, 254, 170, 23}, 32, ADDRESS_METADATA},  /* AWS pods */
    {{172, 16, 0, 0}, 12, ADDRESS_PRIVATE},
    {{192, 0, 0, 0}, 24, ADDRESS_RESERVED},   /* protocol assignments */
    {{192, 0, 0, 192}, 32, ADDRESS_METADATA}, /* Oracle */
    {{192, 0, 2, 0}, 24, ADDRESS_RESERVED},   /* documentation */
    {{192, 88, 99, 0}, 24, ADDRESS_RESERVED}, /* 6to4 relays */
    {{192, 168, 0, 0}, 16, ADDRESS_PRIVATE},
    {{198, 18, 0, 0}, 15, ADDRESS_RESERVED},   /* benchmarking; our stand-ins */
    {{198, 51, 100, 0}, 24, ADDRESS_RESERVED}, /* documentation */
    {{203, 0, 113, 0}, 24, ADDRESS_RESERVED},  /* documentation */
    {{224, 0, 0, 0}, 4, ADDRESS_MULTICAST},
    {{240, 0, 0, 0}, 4, ADDRESS_RESERVED}, /* future use, and broadcast */
};

/* How a v6 address carries a v4 one. */
enum embedding {
    EMBEDS_NOTHING,
    EMBEDS_AT_2,      /* 6to4 */
    EMBEDS_AT_12,     /* the last four bytes */
    EMBEDS_AT_12_NOT, /* the last four bytes, inverted: Teredo's client */
    EMBEDS_AROUND_8,  /* /48 translation: bytes 6, 7, 9 and 10 */
};

struct prefix6 {
    uint8_t addr[16];
    uint8_t bits;
    enum address_class class; /* with an embedding: at best */
    enum embedding embedding;
};

static const struct prefix6 table6[] = {
    {{0}, 0, ADDRESS_RESERVED, EMBEDS_NOTHING}, /* what was never given out */
    {{0x20}, 3, ADDRESS_PUBLIC, EMBEDS_NOTHING},
    {{0}, 96, ADDRESS_RESERVED, EMBEDS_AT_12}, /* compatible */
    {{0}, 128, ADDRESS_UNSPECIFIED, EMBEDS_NOTHING},
    {{[15] = 1}, 128, ADDRESS_LOOPBACK, EMBEDS_NOTHING},
    {{[10] = 0xff, 0xff}, 96, ADDRESS_RESERVED, EMBEDS_AT_12},      /* mapped */
    {{[8] = 0xff, 0xff}, 96, ADDRESS_RESERVED, EMBEDS_AT_12},       /* translated (SIIT) */
    {{0x00, 0x64, 0xff, 0x9b}, 96, ADDRESS_RESERVED, EMBEDS_AT_12}, /* NAT64 */
    {{0x00, 0x64, 0xff, 0x9b, 0x00, 0x01}, 48, ADDRESS_RESERVED, EMBEDS_AROUND_8},
    {{0x00, 0x64, 0xff, 0x9b, 0x00, 0x01}, 96, ADDRESS_RESERVED, EMBEDS_AT_12},
    {{0x20, 0x01}, 23, ADDRESS_RESERVED, EMBEDS_NOTHING},               /* protocol assignments */
    {{0x20, 0x01, 0x00, 0x00}, 32, ADDRESS_RESERVED, EMBEDS_AT_12_NOT}, /* Teredo */
    {{0x20, 0x01, 0x0d, 0xb8}, 32, ADDRESS_RESERVED, EMBEDS_NOTHING},   /* documentation */
    {{0x20, 0x02}, 16, ADDRESS_RESERVED, EMBEDS_AT_2},                  /* 6to4 */
    {{0x3f, 0xff}, 20, ADDRESS_RESERVED, EMBEDS_NOTHING},               /* documentation */
    {{0xfc}, 7, ADDRESS_PRIVATE, EMBEDS_NOTHING},
    {{0xfd, 0x00, 0x0e, 0xc2, [14] = 0x02, 0x54}, 128, ADDRESS_METADATA, EMBEDS_NOTHING}, /* AWS */
    {{0xfd, 0x00, 0x0e, 0xc2, [15] = 0x23}, 128, ADDRESS_METADATA, EMBEDS_NOTHING}, /* AWS pods */
    {{0xfd, 0x00, 0x00, 0x42, [15] = 0x42}, 128, ADDRESS_METADATA, EMBEDS_NOTHING}, /* Scaleway */
    {{0xfd, 0x00, 0x00, 0xc1, [12] = 0xa9, 0xfe, 0xa9, 0xfe},
     128,
     ADDRESS_METADATA,
     EMBEDS_NOTHING}, /* Oracle */
    {{0xfe, 0x80, [12] = 0xa9, 0xfe, 0xa9, 0xfe},
     128,
     ADDRESS_METADATA,
     EMBEDS_NOTHING}, /* OpenStack */
    {{0xfd, 0x20, 0x00, 0xce, [14] = 0x02, 0x54},
     128,
     ADDRESS_METADATA,
     EMBEDS_NOTHING}, /* Google */
    {{0xfe, 0x80}, 10, ADDRESS_LINK_LOCAL, EMBEDS_NOTHING},
    {{0xfe, 0xc0}, 10, ADDRESS_PRIVATE, EMBEDS_NOTHING}, /* site-local, as it once was */
    {{0xff}, 8, ADDRESS_MULTICAST, EMBEDS_NOTHING},
};

static bool in_prefix(const uint8_t *addr, const uint8_t *prefix, unsigned bits)
{
    unsigned whole = bits / 8, rest = bits % 8;
    if (memcmp(addr, prefix, whole) != 0)
        return false;
    return rest == 0 || ((addr[whole] ^ prefix[whole]) & (0xff << (8 - rest)) & 0xff) == 0;
}

enum address_class address_classify_v4(const uint8_t addr[static 4])
{
    enum address_class class = ADDRESS_PUBLIC;
    int best = -1;
    for (size_t i = 0; i < ARRAY_LEN(table4); i++)
        if (table4[i].bits > best && in_prefix(addr, table4[i].addr, table4[i].bits)) {
            best = table4[i].bits;
            class = table4[i].class;
        }
    return class;
}

static bool embedded_v4(const uint8_t addr[static 16], enum embedding how, uint8_t ret[static 4])
{
    switch (how) {
    case EMBEDS_NOTHING:
        return false;
    case EMBEDS_AT_2:
        memcpy(ret, addr + 2, 4);
        return true;
    case EMBEDS_AT_12:
        memcpy(ret, addr + 12, 4);
        return true;
    case EMBEDS_AT_12_NOT:
        for (int i = 0; i < 4; i++)
            ret[i] = (uint8_t)~addr[12 + i];
        return true;
    case EMBEDS_AROUND_8:
        memcpy(ret, addr + 6, 2);
        memcpy(ret + 2, addr + 9, 2);
        return true;
    }
    return false;
}

/* ISATAP puts "00005efe" or "02005efe" and a v4 address into the interface part of any prefix. */
static bool is_isatap(const uint8_t addr[static 16])
{
    return (addr[8] & 0xfd) == 0 && addr[9] == 0 && addr[10] == 0x5e && addr[11] == 0xfe;
}

static enum address_class class_of_embedded(const uint8_t v4[static 4])
{
    enum address_class class = address_classify_v4(v4);
    return class == ADDRESS_PUBLIC ? ADDRESS_RESERVED : class;
}

static const struct prefix6 *longest(const uint8_t addr[static 16])
{
    const struct prefix6 *best = &table6[0];
    for (size_t i = 1; i < ARRAY_LEN(table6); i++)
        if (table6[i].bits > best->bits && in_prefix(addr, table6[i].addr, table6[i].bits))
            best = &table6[i];
    return best;
}

bool address_inner_v4(const uint8_t addr[static 16], uint8_t ret[static 4])
{
    if (embedded_v4(addr, longest(addr)->embedding, ret))
        return true;
    if (is_isatap(addr))
        memcpy(ret, addr + 12, 4);
    return is_isatap(addr);
}

enum address_class address_classify_v6(const uint8_t addr[static 16])
{
    const struct prefix6 *best = longest(addr);
    uint8_t v4[4];
    if (embedded_v4(addr, best->embedding, v4))
        return class_of_embedded(v4);
    if (best->class == ADDRESS_PUBLIC && is_isatap(addr))
        return class_of_embedded(addr + 12);
    return best->class;
}

enum address_class address_classify(const struct sockaddr *sa)
{
    if (sa->sa_family == AF_INET) {
        uint8_t v4[4];
        memcpy(v4, &((const struct sockaddr_in *)(const void *)sa)->sin_addr, sizeof v4);
        return address_classify_v4(v4);
    }
    if (sa->sa_family == AF_INET6) {
        uint8_t v6[16];
        memcpy(v6, &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr, sizeof v6);
        return address_classify_v6(v6);
    }
    return ADDRESS_RESERVED;
}

const char *address_class_name(enum address_class c)
{
    static const char *const names[] = {
        [ADDRESS_PUBLIC] = "public",           [ADDRESS_UNSPECIFIED] = "unspecified",
        [ADDRESS_LOOPBACK] = "loopback",       [ADDRESS_PRIVATE] = "private",
        [ADDRESS_LINK_LOCAL] = "link-local",   [ADDRESS_METADATA] = "metadata",
        [ADDRESS_CGNAT] = "carrier-grade NAT", [ADDRESS_MULTICAST] = "multicast",
        [ADDRESS_RESERVED] = "reserved",
    };
    _Static_assert(ARRAY_LEN(names) == ADDRESS_CLASS_COUNT, "a name for each class");
    return (unsigned)c < ADDRESS_CLASS_COUNT ? names[c] : "reserved";
}
