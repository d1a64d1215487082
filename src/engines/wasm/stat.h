/* What calls on descriptors and calls on paths share. */
#pragma once

#include "engines/wasm/wasi.h"

#include <sys/stat.h>
#include <time.h>

uint32_t wasi_put_stat(struct wasi *w, uint64_t at, const struct stat *sb);
/* a: time of access, time of change; false: the flags contradict each other. */
bool wasi_times(const uint64_t *a, uint64_t flags, struct timespec ret[static 2]);
