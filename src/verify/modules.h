/* The modules of `brig verify --tier wasm`, one for each of its scenes that runs one. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "verify/row.h"

/* The module itself; false: no memory. */
bool modules_text(enum scene_id scene, const struct place *place, struct buf *out);
/* Laid into the canaries' folder, for the sandbox to read; `path` is where. */
int modules_place(enum scene_id scene, const struct place *place, char *path, size_t size,
                  struct err *err);
