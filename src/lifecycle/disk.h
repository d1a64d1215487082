#pragma once

#include "lifecycle/inodes.h"

#include <stdbool.h>
#include <stdint.h>

struct disk_usage {
    uint64_t bytes;
    uint64_t inodes;
};

/* The most that a file can hold once nobody can write to it but through a mapping: what it has, and
 * the holes up to its size. */
static inline uint64_t disk_most(uint64_t size, uint64_t blocks)
{
    return size > blocks * 512u ? size : blocks * 512u;
}

enum disk_result {
    DISK_MEASURED,
    DISK_UNSEEN,  /* not all of it could be opened */
    DISK_TOO_BIG, /* or too deep to be measured */
};
/* Notes the size of each file in `seen`, which may be NULL. */
enum disk_result disk_measure(int dir_fd, struct disk_usage *ret, struct inodes *seen);
