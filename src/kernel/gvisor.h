/* gVisor's runsc on this host: which one, what it is, and whether brig can use it. It is read,
 * never run: its first instruction is inside of the walls. */
#pragma once

#include "base/err.h"
#include "kernel/tier.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#define GVISOR_ENGINE "brig-gvisor"
/* The operator's word: this one, whatever it is known to lack. */
#define GVISOR_VARIABLE "BRIG_RUNSC"

#define GVISOR_PLATFORMS 2

struct gvisor_build {
    char path[PATH_MAX];                     /* without links */
    char version[32];                        /* "unknown" where the file does not say */
    unsigned date;                           /* 20240729; 0: unknown */
    const char *platforms[GVISOR_PLATFORMS]; /* that it was built with, the fastest first */
    unsigned platform_count;
    const char
        *platform; /* the one that is to be used: the first, unless it is known not to work */
    bool confs;    /* wants to be told how each mount is served (builds since 2023) */
    bool named;    /* by the operator */
    char hash[72];
};

/* The runsc that is to be used; ERR_UNSUPPORTED, with a hint, where there is none or none that can
 * run this system's programs. `hash`: read all of it. */
int gvisor_find(struct gvisor_build *ret, bool hash, struct err *err);
/* What the file says about itself: pure, for tests. `bytes` is a whole program. */
void gvisor_read(const char *bytes, size_t len, struct gvisor_build *ret);
bool gvisor_probe(struct tier_answer *ret);
