/* Which addresses a name may lead to: the public Internet's, and nothing that only means something
 * here. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum address_class {
    ADDRESS_PUBLIC,
    ADDRESS_UNSPECIFIED,
    ADDRESS_LOOPBACK,
    ADDRESS_PRIVATE,
    ADDRESS_LINK_LOCAL,
    ADDRESS_METADATA, /* the cloud providers' v4 and v6 ones */
    ADDRESS_CGNAT,
    ADDRESS_MULTICAST,
    ADDRESS_RESERVED, /* documentation, benchmarking, future use, broadcast, … */
    ADDRESS_CLASS_COUNT,
};
/* v6 that embeds v4 (mapped, compatible, NAT64 well-known and local, 6to4, Teredo, ISATAP) is
 * classified by what it embeds and is never better than reserved. */
enum address_class address_classify_v4(const uint8_t addr[static 4]);
enum address_class address_classify_v6(const uint8_t addr[static 16]);
enum address_class address_classify(const struct sockaddr *sa);
/* The v4 address that it embeds in one of these ways: where it may end in fact. */
bool address_inner_v4(const uint8_t addr[static 16], uint8_t ret[static 4]);
const char *address_class_name(enum address_class c);
