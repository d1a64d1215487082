/* Comparing hosts: both sides are canonical, so bytes decide. */
#include "http/host.h"

#include <string.h>

bool host_equal(const struct host *a, const struct host *b)
{
    return a->kind == b->kind && !strcmp(a->text, b->text);
}

static bool same_bits(const uint8_t *a, const uint8_t *b, unsigned bits)
{
    unsigned whole = bits / 8, rest = bits % 8;
    return !memcmp(a, b, whole) &&
           (!rest || ((a[whole] ^ b[whole]) & (0xff00u >> rest) & 0xffu) == 0);
}

bool host_pattern_match(const struct host_pattern *pattern, const struct host *host)
{
    if (pattern->stars == STARS_NONE)
        return host_equal(&pattern->host, host);
    if (pattern->stars == STARS_RANGE)
        return host->kind == pattern->host.kind &&
               same_bits(pattern->host.addr, host->addr, pattern->bits);
    if (host->kind != HOST_NAME)
        return false;
    size_t len = strlen(host->text);
    size_t tail = strlen(pattern->host.text);
    /* At least one byte and the dot stand in front. */
    if (len < tail + 2)
        return false;
    size_t front = len - tail - 1;
    if (host->text[front] != '.' || strcmp(host->text + front + 1, pattern->host.text) != 0)
        return false;
    return pattern->stars == STARS_MANY || !memchr(host->text, '.', front);
}
