/* Only in the programs of -Dweaken=true: see weaken.h. */
#include "os/weaken.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[GUARD_COUNT] = {
#define GUARD(id, name, what) [GUARD_##id] = name,
    GUARDS(GUARD)
#undef GUARD
};

bool guard_left_out(enum guard g)
{
    const char *chosen = getenv("BRIG_WEAKEN");
    return chosen && strcmp(chosen, names[g]) == 0;
}

bool guard_unattested(enum guard g)
{
    return guard_left_out(g) && !getenv("BRIG_WEAKEN_ATTESTED");
}
