/* What brig-tls says of a connection: hostile bytes of a fixed length. */
#include "wire/handover.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

int handover_parse(const void *packet, size_t len, struct peer_address *ret)
{
    struct handover_packet p;
    struct in6_addr v6;
    static const uint8_t none[12];
    *ret = (struct peer_address){0};
    if (len != sizeof p)
        return -EPROTO;
    memcpy(&p, packet, sizeof p);
    memcpy(&v6, p.address, sizeof v6);
    /* Each address is counted in one form only: writing it in another way gives no second one. */
    if (p.family == 4 ? memcmp(p.address + 4, none, sizeof none) != 0
                      : p.family != 6 || IN6_IS_ADDR_V4MAPPED(&v6))
        return -EPROTO;
    ret->family = p.family == 4 ? AF_INET : AF_INET6;
    memcpy(ret->bytes, p.address, sizeof ret->bytes);
    return 0;
}
