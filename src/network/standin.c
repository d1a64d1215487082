/* The table of stand-in addresses, from names to addresses and back. */
#include "network/standin.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t V6_PREFIX[6] = {0xfd, 0x62, 0x72, 0x69, 0x67, 0x00};

void standins_done(struct standins *s)
{
    free(s->names);
    *s = (struct standins){0};
}

int standin_of(struct standins *s, const struct host *name)
{
    for (size_t i = 0; i < s->count; i++)
        if (host_equal(&s->names[i], name))
            return (int)i;
    if (name->kind != HOST_NAME || s->count >= STANDIN_MAX)
        return -ENOSPC;
    /* Doubling, from 8: most runs ask for a handful of names. */
    if ((s->count & (s->count - 1)) == 0 && (s->count == 0 || s->count >= 8)) {
        size_t room = s->count ? s->count * 2 : 8;
        struct host *more = reallocarray(s->names, room, sizeof *more);
        if (!more)
            return -ENOMEM;
        s->names = more;
    }
    s->names[s->count] = *name;
    return (int)s->count++;
}

void standin_v4(int index, uint8_t ret[static 4])
{
    ret[0] = 198;
    ret[1] = 18;
    ret[2] = (uint8_t)(1 + index / 256);
    ret[3] = (uint8_t)(index % 256);
}

void standin_v6(int index, uint8_t ret[static 16])
{
    memset(ret, 0, 16);
    memcpy(ret, V6_PREFIX, sizeof V6_PREFIX);
    ret[14] = (uint8_t)((index + 1) >> 8);
    ret[15] = (uint8_t)(index + 1);
}

/* The index whose address this is, or negative: computed, then compared whole with what we would
 * have given out. */
static int index_of_v4(const uint8_t addr[static 4])
{
    int index = (addr[2] - 1) * 256 + addr[3];
    uint8_t ours[4];
    if (index < 0)
        return -1;
    standin_v4(index, ours);
    return memcmp(addr, ours, sizeof ours) == 0 ? index : -1;
}

static int index_of_v6(const uint8_t addr[static 16])
{
    int index = (addr[14] << 8 | addr[15]) - 1;
    uint8_t ours[16];
    if (index < 0)
        return -1;
    standin_v6(index, ours);
    return memcmp(addr, ours, sizeof ours) == 0 ? index : -1;
}

static int index_of(const struct sockaddr *sa)
{
    uint8_t addr[16];
    if (sa->sa_family == AF_INET) {
        memcpy(addr, &((const struct sockaddr_in *)(const void *)sa)->sin_addr, 4);
        return index_of_v4(addr);
    }
    if (sa->sa_family != AF_INET6)
        return -1;
    const struct in6_addr *in6 = &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr;
    memcpy(addr, in6, sizeof addr);
    return IN6_IS_ADDR_V4MAPPED(in6) ? index_of_v4(addr + 12) : index_of_v6(addr);
}

const struct host *standin_name(const struct standins *s, const struct sockaddr *sa)
{
    int index = index_of(sa);
    return index >= 0 && (size_t)index < s->count ? &s->names[index] : NULL;
}
