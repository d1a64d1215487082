/* Building blocks of the new root; used between clone and exec only. */
#pragma once

#include "base/err.h"
#include "plan/plan.h"

struct fs_option {
    const char *key;
    const char *value; /* NULL: a flag */
};

/* Open a path of the new root without ever following a link. */
int inside_open(int root_fd, const char *path, int flags);
/* Open the folder that holds `path`; *leaf is its last component. */
int inside_parent(int root_fd, const char *path, const char **leaf, struct err *err);
/* Attach a detached mount at `dest` of the new root. */
int tree_attach(int tree_fd, int root_fd, const char *dest, struct err *err);
/* Hang a mount that only serves the set-up into the old root, with which it goes away at the pivot:
 * most kernels clone only from what hangs somewhere, and every detaching of its own would cost a
 * grace period. */
int helper_attach(int mount_fd, struct err *err);
/* A new file system instance, mounted nowhere yet. */
int fs_make(const char *type, const struct fs_option *options, unsigned attr, struct err *err);
/* FS-6: the plan recorded which object was meant, and the supervisor holds it, so that its inode is
 * nobody else's; a path that leads elsewhere by now is not used. `ino` 0: none in particular. */
int is_planned(int fd, const char *path, uint64_t dev, uint64_t ino, struct err *err);
/* The same from a path of the host's, which then has no links: a descriptor (O_PATH). */
int planned_open(const char *path, uint64_t dev, uint64_t ino, struct err *err);
/* A detached mount of that object without what is mounted below it; `fd` other than UINT64_MAX: it
 * came from outside. The caller closes it. */
int alone_open(uint64_t fd, const char *path, uint64_t dev, uint64_t ino, struct err *err);
/* layer_child.c: makes the folders of `from`, and theirs, in `to`, without what else is in them. */
int layer_folders(int from, int to, struct err *err);
/* From BIND_* to what the kernel calls them. */
uint64_t mount_attr_of(uint64_t flags);
