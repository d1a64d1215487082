/* skopeo, for what comes from registries and goes to them. The caller has made its arguments of
 * fixed words and of what was checked (IM-11). */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct skopeo_run {
    char *const *argv;
    uint64_t max_file; /* no file that it writes is larger */
    bool quiet;        /* nobody hears what it says: if it fails something else is tried */
    /* Asked while it runs; a failure ends it. NULL: nobody asks. */
    int (*look)(void *ctx, struct err *err);
    void *ctx;
};
/* *status is 0 if it did what it was to do. */
int skopeo_run(const struct skopeo_run *run, int *status, struct err *err);
