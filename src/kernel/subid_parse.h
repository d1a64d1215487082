/* The ranges of /etc/subuid and /etc/subgid, and the name of a user in /etc/passwd: text in,
 * numbers out. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SUBID_RANGES_MAX 16

struct subid_range {
    uint32_t first, count;
};
struct subid_ranges {
    struct subid_range at[SUBID_RANGES_MAX];
    unsigned count;
    uint32_t next; /* the first id behind everybody's, for a range that is added */
};

/* The ranges of who has this name (NULL: none is known) or number. Lines that say nothing that can
 * be understood are skipped, and so are ids of the system's own accounts: what is mapped into a
 * sandbox must not be one that owns files of the host's. */
void subid_parse(const char *text, size_t len, const char *name, uint32_t uid,
                 struct subid_ranges *ret);
/* How many there are. */
uint64_t subid_total(const struct subid_ranges *r);
/* The id at this place of all ranges together, which must be below the total. */
uint32_t subid_at(const struct subid_ranges *r, uint64_t place);

/* The name of the first account with this number; false: there is none, or it is longer than that.
 */
bool passwd_name(const char *text, size_t len, uint32_t uid, char *ret, size_t size);
