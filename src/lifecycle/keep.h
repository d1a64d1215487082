/* What keeps each limit of a sandbox. */
#pragma once

#include "lifecycle/lifecycle.h"

struct keeper {
    enum policy_field field;
    const char *name; /* in the receipt */
    uint64_t value;
    const char *by;
    const char *overrun; /* what can go beyond it; NULL: nothing, the limit is kept */
};

#define KEEPERS_MAX 12
struct keepers {
    struct keeper items[KEEPERS_MAX];
    unsigned count;
};
void keepers_list(const struct lifecycle *l, struct keepers *ret);

/* Refuses what cannot be kept, unless the policy accepts that it is only watched. */
int keepers_check(const struct lifecycle *l, struct err *err);
void keepers_write(const struct lifecycle *l, struct evidence *out);
bool keep_counts_own_tasks(const struct lifecycle *l);
