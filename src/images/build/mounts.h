/* RUN --mount; see mounts.c. */
#pragma once

#include "images/build/build.h"

#define RUN_MOUNTS_MAX 16

enum run_mount_kind { MOUNT_BIND, MOUNT_CACHE, MOUNT_TMPFS };
struct run_mount {
    enum run_mount_kind kind;
    char *target; /* absolute */
    char *source, *from;
    bool own; /* in a place of the sandbox's own: empty as it is */
};
struct run_mounts {
    struct run_mount items[RUN_MOUNTS_MAX];
    unsigned count;
    struct words left_out; /* of the layer: paths from the root, without a slash before them */
};
/* mounts_parse.c: what stands behind "--mount=", variables filled in; `folder` is what a target may
 * be relative to.
 */
int mounts_add(struct run_mounts *m, const char *text, const char *folder, struct err *err);
void mounts_done(struct run_mounts *m);

/* Where the files come from. */
struct mounts_source {
    struct copying context;
    int (*open_from)(void *ctx, const char *from, struct image *image, struct err *err);
    void *ctx;
};
/* Lays all of them over `d`, which is of this run alone. */
int mounts_lay(struct run_mounts *m, struct derived *d, const struct mounts_source *s,
               struct err *err);
