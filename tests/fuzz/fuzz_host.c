/* Hosts and host patterns. What is taken must be canonical: read again it gives the same bytes; an
 * address must be what the C library reads. */
#include "http/host.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_address(const struct host *h)
{
    uint8_t addr[16] = {0};
    char text[INET6_ADDRSTRLEN];
    int family = h->kind == HOST_IPV4 ? AF_INET : AF_INET6;
    size_t len = h->kind == HOST_IPV4 ? 4 : 16;
    if (h->kind == HOST_NAME) {
        if (inet_aton(h->text, (struct in_addr *)(void *)addr))
            abort();
        return;
    }
    if (inet_pton(family, h->text, addr) != 1 || memcmp(addr, h->addr, len) != 0)
        abort();
    if (!inet_ntop(family, addr, text, sizeof(text)) || strcmp(text, h->text) != 0)
        abort();
}

/* Written as a range it is read as the same one, and its first address is the only one of them that
 * names it. */
static void check_range(const struct host_pattern *p)
{
    struct host_pattern again;
    char text[300];
    unsigned size = p->host.kind == HOST_IPV4 ? 32 : 128;
    int len = snprintf(text, sizeof(text), "[%s/%u]", p->host.text, p->bits);
    check_address(&p->host);
    if (p->host.kind == HOST_NAME || p->bits >= size ||
        host_pattern_parse(text, (size_t)len, &again, NULL) < 0 || again.stars != p->stars ||
        again.bits != p->bits || !host_equal(&again.host, &p->host))
        abort();
    struct host other = p->host;
    other.addr[p->bits / 8] ^= (uint8_t)(0x80 >> p->bits % 8);
    if (!host_pattern_match(p, &other))
        abort();
    if (p->bits) {
        other = p->host;
        other.addr[(p->bits - 1) / 8] ^= (uint8_t)(0x80 >> (p->bits - 1) % 8);
        if (host_pattern_match(p, &other))
            abort();
    }
}

static void check_pattern(const char *text, size_t size)
{
    struct host_pattern p;
    struct host h;
    char longer[300] = "x.";
    if (host_pattern_parse(text, size, &p, NULL) < 0)
        return;
    if (p.stars == STARS_RANGE)
        check_range(&p);
    if (host_pattern_match(&p, &p.host) != (p.stars == STARS_NONE || p.stars == STARS_RANGE))
        abort();
    strncat(longer, p.host.text, sizeof(longer) - 3);
    if (host_parse(longer, strlen(longer), false, &h, NULL) < 0)
        return;
    if (host_pattern_match(&p, &h) != (p.stars == STARS_ONE || p.stars == STARS_MANY))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct err err = ERR_INIT;
    struct host h;
    struct host again;
    check_pattern(text, size);
    if (host_parse(text, size, false, &h, &err) < 0) {
        if (!err.message[0] || host_parse(text, size, true, &h, NULL) == 0)
            abort();
        return 0;
    }
    if (host_parse(h.text, strlen(h.text), false, &again, NULL) < 0 || !host_equal(&h, &again))
        abort();
    check_address(&h);
    return 0;
}
