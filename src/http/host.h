/* The one host parser. Everything that names a host (a rule, a request line, a Host header, an SNI,
 * a DNS question) comes through here, and what comes out is canonical: two texts that mean the same
 * host give the same bytes, and a text that two programs could read differently is refused.
 *
 * Refused: empty, over 253 bytes, labels empty or over 63, anything but letters, digits, '-', '_'
 * and dots (so: control bytes, NUL, '%', '@', '/', ':', blanks, non-ASCII: names in other scripts
 * are written as xn-- labels), names whose last label is a number or 0x… but that are no strict
 * dotted quad (decimal, octal, hex and short IPv4), quads with leading zeros, IPv4-mapped,
 * -compatible and zone-scoped IPv6. One trailing dot is removed, letters are lowered. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum host_kind {
    HOST_NAME,
    HOST_IPV4,
    HOST_IPV6,
};

struct host {
    enum host_kind kind;
    char text[256];   /* canonical; IPv6 as RFC 5952, without brackets */
    uint8_t addr[16]; /* HOST_IPV4: the first four; network order */
};

/* `text` is not NUL-terminated. Brackets around IPv6 are accepted and required where `bracketed`.
 */
int host_parse(const char *text, size_t len, bool bracketed, struct host *ret, struct err *err);
bool host_equal(const struct host *a, const struct host *b);
/* Of an address: 4 bytes for HOST_IPV4, else 16. */
void host_of_address(enum host_kind kind, const uint8_t *addr, struct host *ret);

/* "example.org" itself; "*.example.org": exactly one whole label in front; "**.example.org": one or
 * more. Neither matches example.org. A star anywhere else, or alone, is an error.
 *
 * "192.0.2.0/24", "2001:db8::/32": all addresses that begin so, and no name, whatever it leads to.
 * A range with bits behind its length is an error, one of a single address is that address. In
 * brackets it can stand where a slash would begin a path. */
enum host_stars {
    STARS_NONE,
    STARS_ONE,
    STARS_MANY,
    STARS_RANGE,
};
struct host_pattern {
    enum host_stars stars;
    uint8_t bits;     /* STARS_RANGE: so many of the address count */
    struct host host; /* what follows the stars */
};
int host_pattern_parse(const char *text, size_t len, struct host_pattern *ret, struct err *err);
bool host_pattern_match(const struct host_pattern *pattern, const struct host *host);
