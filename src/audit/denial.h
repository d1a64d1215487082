/* What was refused, as a typed list that a person or a model can read: which boundary, what, by
 * which rule, how often, and what would allow it. Bounded: a program that tries a million things
 * fills one counter, not memory. */
#pragma once

#include "base/err.h"
#include "base/json.h"

#include <stddef.h>
#include <stdint.h>

#define DENIAL_KINDS_MAX 64

struct denial {
    enum boundary_id boundary;
    char what[96];
    char rule[96];
    char hint[192];
    uint64_t count;
};

struct denial_list {
    struct denial items[DENIAL_KINDS_MAX];
    size_t count;
    uint64_t dropped; /* events of further kinds, when the table is full */
};

void denial_add(struct denial_list *list, enum boundary_id boundary, const char *what,
                const char *rule, const char *hint);
/* So many events of one kind as it counts. Returns where it is kept; NULL: the list is full. */
const struct denial *denial_put(struct denial_list *list, const struct denial *d);
void denial_write_json(const struct denial_list *list, struct json_writer *w);
/* One readable line: "denied: kernel: mount (3 times): … ; hint". No newline. */
void denial_line(const struct denial *d, struct buf *out);
