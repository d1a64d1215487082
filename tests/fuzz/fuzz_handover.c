/* What brig-tls says of a connection, as bytes from a process that strangers may have taken over.
 */
#include "wire/handover.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Whoever is counted must be counted as the same one by what would be sent for him. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct peer_address from, again;
    int r = handover_parse(data, size, &from);
    if (r != 0 && (r != -EPROTO || from.family))
        abort();
    if (r < 0)
        return 0;
    if (size != sizeof(struct handover_packet) ||
        (from.family != AF_INET && from.family != AF_INET6))
        abort();
    union {
        struct sockaddr_storage any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } sa = {.any = {.ss_family = (sa_family_t)from.family}};
    if (from.family == AF_INET)
        memcpy(&sa.v4.sin_addr, from.bytes, 4);
    else
        memcpy(&sa.v6.sin6_addr, from.bytes, 16);
    again = peer_address(&sa.any);
    struct peer_group a = peer_group(&from), b = peer_group(&again);
    if (again.family != from.family || memcmp(again.bytes, from.bytes, 16) != 0 ||
        !peer_group_equal(&a, &b))
        abort();
    return 0;
}
