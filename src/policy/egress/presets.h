/* Hosts that belong together, under one name: `--allow @pypi` for what pip asks. */
#pragma once

#include "http/host.h"

#include <stddef.h>

#define PRESET_HOSTS_MAX 8

struct preset {
    const char *name; /* with the '@' */
    const char *help;
    const char *rules[PRESET_HOSTS_MAX]; /* as --allow takes them; NULL ends them */
};

/* NULL: there is none. `i` counts from 0. */
const struct preset *preset_at(size_t i);
const struct preset *preset_find(const char *name);
/* One that allows this host, or NULL. */
const struct preset *preset_of(const struct host *host);
