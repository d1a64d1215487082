#pragma once

#include <stdbool.h>
#include <stdint.h>

struct disk_usage {
    uint64_t bytes;
    uint64_t inodes;
};

/* False if the tree cannot be measured within bounds. */
bool disk_measure(int dir_fd, struct disk_usage *ret);
