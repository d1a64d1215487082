/* Only in the programs of -Dweaken=true: see weaken.h. */
#include "os/weaken.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[GUARD_END] = {
#define GUARD(id, name, what) [GUARD_##id] = name,
    GUARDS(GUARD) GUARDS_BESIDES(GUARD)
#undef GUARD
};

bool guard_left_out(enum guard g)
{
    size_t len = strlen(names[g]);
    for (const char *at = getenv("BRIG_WEAKEN"); at;
         at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, names[g], len) == 0 && (at[len] == '\0' || at[len] == ','))
            return true;
    return false;
}

bool guard_unattested(enum guard g)
{
    return guard_left_out(g) && !getenv("BRIG_WEAKEN_ATTESTED");
}
