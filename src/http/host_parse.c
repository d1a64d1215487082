/* Reads a host, strictly; host.h says what is refused and why. */
#include "http/host.h"

#include "base/hex.h"

#include <stdio.h>
#include <string.h>

#define NAME_MAX_LEN  253
#define LABEL_MAX_LEN 63

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* ---- IPv4 ---- */

/* One part of a dotted quad: 0 to 255, no leading zeros. Returns how many bytes it took, 0 if it is
 * none. */
static size_t quad_part(const char *text, size_t len, uint8_t *ret)
{
    unsigned value = 0;
    size_t i = 0;
    while (i < len && i < 3 && is_digit(text[i]))
        value = value * 10 + (unsigned)(text[i++] - '0');
    if (!i || value > 255 || (i > 1 && text[0] == '0'))
        return 0;
    *ret = (uint8_t)value;
    return i;
}

static bool parse_quad(const char *text, size_t len, uint8_t addr[static 4])
{
    size_t at = 0;
    for (int part = 0; part < 4; part++) {
        if (part && (at >= len || text[at++] != '.'))
            return false;
        size_t took = quad_part(text + at, len - at, &addr[part]);
        if (!took)
            return false;
        at += took;
    }
    return at == len;
}

/* ---- IPv6 ---- */

struct groups {
    uint16_t value[8];
    int count;
    int gap; /* where "::" stood, or -1 */
};

static size_t parse_group(const char *text, size_t len, uint16_t *ret)
{
    unsigned value = 0;
    size_t i = 0;
    while (i < len && i < 4 && hex_digit(text[i]) >= 0)
        value = value << 4 | (unsigned)hex_digit(text[i++]);
    *ret = (uint16_t)value;
    return i;
}

/* Groups and at most one gap; everything else (a dotted tail, a zone) does not fit. */
static bool parse_groups(const char *text, size_t len, struct groups *g)
{
    size_t at = 0;
    *g = (struct groups){.gap = -1};
    if (len >= 2 && text[0] == ':' && text[1] == ':') {
        g->gap = 0;
        at = 2;
    }
    while (at < len) {
        if (g->count == 8)
            return false;
        size_t took = parse_group(text + at, len - at, &g->value[g->count]);
        if (!took)
            return false;
        g->count++;
        at += took;
        if (at == len)
            break;
        if (text[at++] != ':' || at == len)
            return false;
        if (text[at] == ':') {
            if (g->gap >= 0)
                return false;
            g->gap = g->count;
            at++;
        }
    }
    return g->gap >= 0 ? g->count < 8 : g->count == 8;
}

static bool parse_v6(const char *text, size_t len, uint8_t addr[static 16])
{
    struct groups g;
    if (!parse_groups(text, len, &g))
        return false;
    memset(addr, 0, 16);
    int shift = 8 - g.count;
    for (int i = 0; i < g.count; i++) {
        int to = g.gap >= 0 && i >= g.gap ? i + shift : i;
        addr[2 * to] = (uint8_t)(g.value[i] >> 8);
        addr[2 * to + 1] = (uint8_t)g.value[i];
    }
    return true;
}

/* ::ffff:0:0/96, and ::/96 but for :: and ::1. */
static bool embeds_v4(const uint8_t addr[static 16])
{
    static const uint8_t zeros[12];
    if (!memcmp(addr, zeros, 10) && addr[10] == 0xff && addr[11] == 0xff)
        return true;
    return !memcmp(addr, zeros, 12) && (addr[12] || addr[13] || addr[14] || addr[15] > 1);
}

/* RFC 5952: the longest run of two or more zero groups, the first of equals. */
static void find_gap(const uint16_t group[static 8], int *ret_at, int *ret_len)
{
    *ret_at = -1;
    *ret_len = 1;
    for (int i = 0; i < 8; i++) {
        int n = 0;
        while (i + n < 8 && !group[i + n])
            n++;
        if (n > *ret_len) {
            *ret_at = i;
            *ret_len = n;
        }
        i += n;
    }
}

static void write_v6(struct host *h)
{
    uint16_t group[8];
    int gap;
    int gap_len;
    size_t at = 0;
    for (int i = 0; i < 8; i++)
        group[i] = (uint16_t)(h->addr[2 * i] << 8 | h->addr[2 * i + 1]);
    find_gap(group, &gap, &gap_len);
    for (int i = 0; i < 8; i++) {
        const char *colon = i && !(gap >= 0 && i == gap + gap_len) ? ":" : "";
        if (i == gap) {
            at += (size_t)snprintf(h->text + at, sizeof(h->text) - at, "::");
            i += gap_len - 1;
            continue;
        }
        at += (size_t)snprintf(h->text + at, sizeof(h->text) - at, "%s%x", colon, group[i]);
    }
}

static int take_v6(const char *text, size_t len, struct host *ret, struct err *err)
{
    if (memchr(text, '%', len))
        return err_set(err, ERR_USAGE, "an IPv6 address with a zone names no one host");
    if (!parse_v6(text, len, ret->addr))
        return err_set(err, ERR_USAGE, "not an IPv6 address");
    if (embeds_v4(ret->addr))
        return err_set(err, ERR_USAGE, "an IPv6 address that stands for an IPv4 one; write that");
    ret->kind = HOST_IPV6;
    write_v6(ret);
    return 0;
}

/* ---- names ---- */

static const char name_chars[256] = {
    ['0' ... '9'] = 1, ['a' ... 'z'] = 1, ['A' ... 'Z'] = 1, ['-'] = 1, ['_'] = 1,
};

static int check_labels(const char *text, size_t len, size_t *ret_last, struct err *err)
{
    size_t start = 0;
    for (size_t i = 0; i <= len; i++) {
        if (i < len && text[i] != '.') {
            if (!name_chars[(unsigned char)text[i]])
                return err_set(err, ERR_USAGE, "a byte that no host name has: 0x%02x",
                               (unsigned char)text[i]);
            continue;
        }
        if (i == start)
            return err_set(err, ERR_USAGE, "a host name with an empty part");
        if (i - start > LABEL_MAX_LEN)
            return err_set(err, ERR_USAGE, "a part of the host name is over %d bytes",
                           LABEL_MAX_LEN);
        if (i < len)
            start = i + 1;
    }
    *ret_last = start;
    return 0;
}

/* Some programs read a name that ends so as an IPv4 address. */
static bool looks_numeric(const char *label, size_t len)
{
    if (len >= 2 && label[0] == '0' && (label[1] == 'x' || label[1] == 'X'))
        return true;
    for (size_t i = 0; i < len; i++)
        if (!is_digit(label[i]))
            return false;
    return true;
}

static int take_name(const char *text, size_t len, struct host *ret, struct err *err)
{
    size_t last = 0;
    bool dot = text[len - 1] == '.';
    if (dot)
        len--;
    if (!len || len > NAME_MAX_LEN)
        return err_set(err, ERR_USAGE, "a host name has 1 to %d bytes", NAME_MAX_LEN);
    if (check_labels(text, len, &last, err) < 0)
        return err_number(err);
    ret->kind = HOST_NAME;
    if (looks_numeric(text + last, len - last)) {
        if (dot || !parse_quad(text, len, ret->addr))
            return err_set(err, ERR_USAGE, "an IPv4 address is four numbers from 0 to 255");
        ret->kind = HOST_IPV4;
    }
    for (size_t i = 0; i < len; i++)
        ret->text[i] = (char)(text[i] >= 'A' && text[i] <= 'Z' ? text[i] | 0x20 : text[i]);
    ret->text[len] = '\0';
    return 0;
}

int host_parse(const char *text, size_t len, bool bracketed, struct host *ret, struct err *err)
{
    struct host host = {0};
    int r;
    if (!len)
        return err_set(err, ERR_USAGE, "no host");
    if (text[0] == '[') {
        if (len < 4 || text[len - 1] != ']')
            return err_set(err, ERR_USAGE, "a bracket without its other");
        r = take_v6(text + 1, len - 2, &host, err);
    } else if (!bracketed && memchr(text, ':', len)) {
        r = take_v6(text, len, &host, err);
    } else {
        r = take_name(text, len, &host, err);
    }
    if (!r)
        *ret = host;
    return r;
}

void host_of_address(enum host_kind kind, const uint8_t *addr, struct host *ret)
{
    *ret = (struct host){.kind = kind};
    memcpy(ret->addr, addr, kind == HOST_IPV4 ? 4 : 16);
    if (kind == HOST_IPV4)
        snprintf(ret->text, sizeof(ret->text), "%u.%u.%u.%u", addr[0], addr[1], addr[2], addr[3]);
    else
        write_v6(ret);
}

/* ---- ranges ---- */

static int parse_bits(const char *text, size_t len, unsigned most)
{
    unsigned bits = 0;
    size_t i = 0;
    while (i < len && i < 3 && is_digit(text[i]))
        bits = bits * 10 + (unsigned)(text[i++] - '0');
    return !i || i < len || bits > most || (i > 1 && text[0] == '0') ? -1 : (int)bits;
}

static void clear_behind(uint8_t *addr, unsigned size, unsigned bits)
{
    for (unsigned i = 0; i < size; i++) {
        unsigned kept = bits > 8 * i ? bits - 8 * i : 0;
        addr[i] &= (uint8_t)(kept < 8 ? 0xff00u >> kept : 0xffu);
    }
}

static int take_range(const char *text, size_t len, const char *slash, struct host_pattern *ret,
                      struct err *err)
{
    struct host first;
    size_t host_len = (size_t)(slash - text);
    if (host_parse(text, host_len, false, &ret->host, err) < 0)
        return err_number(err);
    unsigned size = ret->host.kind == HOST_IPV4 ? 4 : 16;
    int bits = parse_bits(slash + 1, len - host_len - 1, 8 * size);
    if (ret->host.kind == HOST_NAME || bits < 0)
        return err_set(err, ERR_USAGE,
                       "a slash: only ranges of addresses have one, such as 192.0.2.0/24");
    uint8_t addr[16];
    memcpy(addr, ret->host.addr, sizeof(addr));
    clear_behind(addr, size, (unsigned)bits);
    if (memcmp(addr, ret->host.addr, size) != 0) {
        host_of_address(ret->host.kind, addr, &first);
        return err_set(err, ERR_USAGE, "an address within a range: the range is %s/%d", first.text,
                       bits);
    }
    if ((unsigned)bits == 8 * size)
        return 0;
    ret->stars = STARS_RANGE;
    ret->bits = (uint8_t)bits;
    return 0;
}

int host_pattern_parse(const char *text, size_t len, struct host_pattern *ret, struct err *err)
{
    struct host_pattern p = {.stars = STARS_NONE};
    size_t skip = 0;
    if (len > 3 && !memcmp(text, "**.", 3)) {
        p.stars = STARS_MANY;
        skip = 3;
    } else if (len > 2 && !memcmp(text, "*.", 2)) {
        p.stars = STARS_ONE;
        skip = 2;
    }
    if (memchr(text + skip, '*', len - skip))
        return err_set(err, ERR_USAGE,
                       "a star stands only for whole parts in front: *.example.org");
    const char *slash = memchr(text, '/', len);
    bool brackets = slash && len > 2 && text[0] == '[' && text[len - 1] == ']';
    int r = slash ? take_range(text + brackets, len - 2 * brackets, slash, &p, err)
                  : host_parse(text + skip, len - skip, false, &p.host, err);
    if (r < 0)
        return r;
    if (skip && p.host.kind != HOST_NAME)
        return err_set(err, ERR_USAGE, "stars go with names, not with addresses");
    *ret = p;
    return 0;
}
