/* Hosts and host patterns. What is taken must be canonical: read again it gives the same bytes; an
 * address must be what the C library reads. */
#include "http/host.h"

#include <arpa/inet.h>
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

static void check_pattern(const char *text, size_t size)
{
    struct host_pattern p;
    struct host h;
    char longer[300] = "x.";
    if (host_pattern_parse(text, size, &p, NULL) < 0)
        return;
    if (host_pattern_match(&p, &p.host) != (p.stars == STARS_NONE))
        abort();
    strncat(longer, p.host.text, sizeof(longer) - 3);
    if (host_parse(longer, strlen(longer), false, &h, NULL) < 0)
        return;
    if (host_pattern_match(&p, &h) != (p.stars != STARS_NONE))
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
