/* Only in the programs of tests/weak: see weaken.h. */
#include "os/weaken.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[GUARD_END] = {
#define GUARD(id, name, what) [GUARD_##id] = name,
    GUARDS(GUARD) GUARDS_BESIDES(GUARD)
#undef GUARD
};

const char *weaken_setting(const char *name)
{
    return getenv(name);
}

bool guard_left_out(enum guard g)
{
    size_t len = strlen(names[g]);
    for (const char *at = weaken_setting("BRIG_WEAKEN"); at;
         at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, names[g], len) == 0 && (at[len] == '\0' || at[len] == ','))
            return true;
    return false;
}

bool guard_unattested(enum guard g)
{
    return guard_left_out(g) && !weaken_setting("BRIG_WEAKEN_ATTESTED");
}
