/* A small table of files, by device and number: which were seen, and how large they were. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct inode_seen {
    uint64_t dev, ino;
    uint64_t bytes;
    bool used;
};

struct inodes {
    struct inode_seen *items;
    size_t count, room;
};

/* The entry of this file, made with no bytes if there was none; *ret_fresh says so. NULL: there is
 * no memory for it. */
struct inode_seen *inodes_put(struct inodes *t, uint64_t dev, uint64_t ino, bool *ret_fresh);
/* NULL: it was never seen. */
const struct inode_seen *inodes_find(const struct inodes *t, uint64_t dev, uint64_t ino);
void inodes_clear(struct inodes *t);
void inodes_done(struct inodes *t);
