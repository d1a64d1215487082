/* Makes a root of layers: one more name for each of their files. See merge.c and
 * docs/decisions/0013-layers-by-hard-links.md. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* What may still be made: names and folders; bytes of files that get one more name in a layer above
 * their own, or have to be copied. */
struct merge_room {
    uint64_t entries, bytes;
};

/* `layer` is the folder of a layer that was unpacked alone; `root` holds those below it. */
int merge_layer(int layer, int root, struct merge_room *room, struct err *err);
/* Another root with the same files, into an empty folder. */
int merge_root(int from, int root, struct merge_room *room, struct err *err);
