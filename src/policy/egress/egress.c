/* The set of network rules and secrets: blocked hosts, and questions about the set as a whole. */
#include "policy/egress/egress.h"

#include "base/cleanup.h"
#include "base/quote.h"
#include "policy/egress/internal.h"

#include <string.h>

#define CONNECTIONS_DEFAULT 256

void egress_init(struct egress *e)
{
    *e = (struct egress){
        .upload = POLICY_UNLIMITED,
        .max_connections = CONNECTIONS_DEFAULT,
        .requests = POLICY_UNLIMITED,
    };
}

void egress_done(struct egress *e)
{
    for (size_t i = 0; i < e->rule_count; i++)
        rule_done(&e->rules[i]);
    for (size_t i = 0; i < e->secret_count; i++)
        secret_done(&e->secrets[i]);
    free(e->rules);
    free(e->blocked);
    free(e->ask);
    free(e->secrets);
    egress_init(e);
}

/* ---- hosts that stay closed ---- */

bool blocked_find(const struct egress *e, const struct host_pattern *p)
{
    for (size_t i = 0; i < e->blocked_count; i++) {
        if (pattern_equal(&e->blocked[i], p))
            return true;
    }
    return false;
}

static int compare_blocked(const void *a, const void *b)
{
    const struct host_pattern *x = a;
    const struct host_pattern *y = b;
    int r = strcmp(x->host.text, y->host.text);
    if (r == 0)
        r = (int)x->stars - (int)y->stars;
    return r ? r : (int)x->bits - (int)y->bits;
}

bool egress_blocks(const struct egress *e, const struct host *host)
{
    for (size_t i = 0; i < e->blocked_count; i++)
        if (host_pattern_match(&e->blocked[i], host))
            return true;
    return false;
}

int egress_block(struct egress *e, const char *pattern, struct err *err)
{
    struct quoted q;
    struct host_pattern p;
    int r = host_pattern_parse(pattern, strlen(pattern), &p, err);
    if (r < 0)
        return err_wrap(err, "%s is not a host", quote(&q, pattern));
    if (blocked_find(e, &p))
        return 0;
    if (e->blocked_count >= EGRESS_BLOCKED_MAX)
        return err_set(err, ERR_LIMIT, "too many blocked hosts, expected at most %d",
                       EGRESS_BLOCKED_MAX);
    struct host_pattern *blocked = realloc(e->blocked, (e->blocked_count + 1) * sizeof *blocked);
    if (!blocked)
        return err_memory(err);
    e->blocked = blocked;
    blocked[e->blocked_count++] = p;
    qsort(blocked, e->blocked_count, sizeof *blocked, compare_blocked);
    return 0;
}

/* ---- questions ---- */

static bool rule_looks_inside(const struct egress_rule *r)
{
    return r->scheme == SCHEME_HTTPS && (r->methods.count || r->paths.count);
}

/* A secret's host is looked at wherever https is meant, so that nothing of the client's own passes
 * on another port of it. */
static bool secret_looks_inside(const struct egress *e, const struct egress_secret *s)
{
    for (size_t i = 0; i < e->rule_count; i++) {
        if (e->rules[i].scheme == SCHEME_HTTPS && host_pattern_match(&e->rules[i].host, &s->host))
            return true;
    }
    return s->scheme == SCHEME_HTTPS;
}

bool egress_needs_ca(const struct egress *e)
{
    for (size_t i = 0; i < e->secret_count; i++) {
        if (secret_looks_inside(e, &e->secrets[i]))
            return true;
    }
    for (size_t i = 0; i < e->rule_count; i++) {
        if (rule_looks_inside(&e->rules[i]))
            return true;
    }
    return false;
}

#define PORT_DNS     53
#define PORT_GATEWAY 80
#define PORT_HTTPS   443
#define PORT_PROXY   3128

static size_t add_port(uint16_t *ports, size_t count, size_t max, uint16_t port)
{
    size_t at = count;
    while (at > 0 && ports[at - 1] > port)
        at--;
    if (count >= max || (at > 0 && ports[at - 1] == port))
        return count;
    memmove(ports + at + 1, ports + at, (count - at) * sizeof *ports);
    ports[at] = port;
    return count + 1;
}

size_t egress_ports(const struct egress *e, uint16_t *ret, size_t max)
{
    size_t count = add_port(ret, 0, max, PORT_GATEWAY);
    if (e->asks)
        count = add_port(ret, count, max, PORT_HTTPS);
    for (size_t i = 0; i < e->rule_count; i++) {
        uint16_t port = e->rules[i].port;
        if (port != PORT_DNS && port != PORT_PROXY)
            count = add_port(ret, count, max, port);
    }
    return count;
}

/* Loopback and the private ranges: the packets stay on this machine or in its network. */
static bool is_local(const struct host *h)
{
    const uint8_t *a = h->addr;
    if (h->kind == HOST_IPV4)
        return a[0] == 127 || a[0] == 10 || (a[0] == 172 && (a[1] & 0xf0) == 16) ||
               (a[0] == 192 && a[1] == 168);
    return h->kind == HOST_IPV6 && ((a[0] & 0xfe) == 0xfc || strcmp(h->text, "::1") == 0);
}

bool egress_secret_in_clear(const struct egress *e, const struct egress_secret *s)
{
    if (s->scheme != SCHEME_HTTP || is_local(&s->host))
        return false;
    for (size_t i = 0; i < e->rule_count; i++) {
        const struct egress_rule *r = &e->rules[i];
        bool same = r->port == s->port && (r->scheme == SCHEME_HTTP || r->scheme == SCHEME_ANY) &&
                    host_pattern_match(&r->host, &s->host);
        if (same && r->pinned)
            return !is_local(&r->address);
    }
    return true;
}
