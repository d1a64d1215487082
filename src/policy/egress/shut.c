/* Rules for addresses that mean something only here: without a pin they open nothing (N-5), and who
 * writes one believes that they do. Which addresses those are the network boundary decides when it
 * dials; here stand those that somebody may want to name. A test holds both tables against each
 * other. */
#include "base/cleanup.h"
#include "base/quote.h"
#include "policy/egress/internal.h"
#include "policy/values.h"

#include <string.h>

#define PATH_SHOWN_MAX 100 /* half of a path would be another */

static const struct prefix {
    enum host_kind kind;
    uint8_t addr[16];
    uint8_t bits;
    const char *what;
} local[] = {
    {HOST_IPV4, {10}, 8, "private"},
    {HOST_IPV4, {100, 64}, 10, "shared by a provider's customers"},
    {HOST_IPV4, {127}, 8, "of the loopback"},
    {HOST_IPV4, {169, 254}, 16, "link-local"},
    {HOST_IPV4, {172, 16}, 12, "private"},
    {HOST_IPV4, {192, 168}, 16, "private"},
    {HOST_IPV4, {224}, 4, "multicast"},
    {HOST_IPV6, {[15] = 1}, 128, "of the loopback"},
    {HOST_IPV6, {0xfc}, 7, "private"},
    {HOST_IPV6, {0xfe, 0x80}, 10, "link-local"},
    {HOST_IPV6, {0xff}, 8, "multicast"},
};

static bool begins(const uint8_t *addr, const uint8_t *prefix, unsigned bits)
{
    unsigned whole = bits / 8, rest = bits % 8;
    if (memcmp(addr, prefix, whole) != 0)
        return false;
    return rest == 0 || ((addr[whole] ^ prefix[whole]) & (0xff << (8 - rest)) & 0xff) == 0;
}

const char *pattern_is_local(const struct host_pattern *p)
{
    bool range = p->stars == STARS_RANGE;
    if (p->host.kind == HOST_NAME || (p->stars != STARS_NONE && !range))
        return NULL;
    unsigned bits = range ? p->bits : p->host.kind == HOST_IPV4 ? 32 : 128;
    for (size_t i = 0; i < ARRAY_LEN(local); i++)
        if (local[i].kind == p->host.kind && bits >= local[i].bits &&
            begins(p->host.addr, local[i].addr, local[i].bits))
            return local[i].what;
    return NULL;
}

int refuse_local_range(const struct host_pattern *p, struct err *err)
{
    const char *what = p->stars == STARS_RANGE ? pattern_is_local(p) : NULL;
    if (!what)
        return 0;
    err_set(err, ERR_USAGE, "a range of addresses that are %s, which opens none of them", what);
    return err_hint(err, "pin each address that is needed: 10.0.0.5:22=10.0.0.5; ranges are of "
                         "public addresses");
}

bool rule_opens_nothing(const struct egress_rule *r)
{
    return !r->pinned && pattern_is_local(&r->host);
}

/* A rule that was written with keys of its own has one for the address, too. */
static bool is_mapping(const struct egress_rule *r)
{
    return r->methods.count || r->pass.count || r->paths.count > 1 || rule_is_counted(r);
}

/* The same rule with its pin and nothing left out: without its scheme or its path it would be open
 * for more than was meant. */
static int hint_pin(const struct egress_rule *r, struct err *err)
{
    const struct host *h = &r->host.host;
    const char *path = r->paths.count ? r->paths.items[0] : "";
    const char *open = h->kind == HOST_IPV6 ? "[" : "", *close = *open ? "]" : "";
    bool plain = r->scheme == SCHEME_ANY || (!*path && r->port == scheme_port(r->scheme));
    if (is_mapping(r))
        return err_hint(err, "pin it: address: %s beside its host", h->text);
    if (strlen(path) > PATH_SHOWN_MAX)
        return err_hint(err, "pin it: write =%s behind its host, before the path", h->text);
    return err_hint(err, "pin it: %s%s%s%s%s:%u=%s%s", plain ? "" : scheme_name(r->scheme),
                    plain ? "" : "://", open, h->text, close, r->port, h->text, path);
}

int refuse_local_rule(const struct egress_rule *r, struct err *err)
{
    struct quoted q;
    if (r->implied || !rule_opens_nothing(r))
        return 0;
    const char *what = pattern_is_local(&r->host);
    err_set(err, ERR_POLICY, "%s: an address that is %s, which without a pin is not opened",
            quote(&q, r->text), what);
    hint_pin(r, err);
    return origin_blame(&r->origin, "network.allow", err);
}
