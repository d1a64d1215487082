/* A path, opened beneath a folder and nowhere else. */
#pragma once

#include <stdint.h>

/* Like openat2 with RESOLVE_BENEATH, with errno: EXDEV for a path that leaves the folder. */
int open_beneath(int base, const char *path, uint64_t flags, uint64_t mode);
/* The same without the kernel's help, step by step; for tests. */
int walk_beneath(int base, const char *path, uint64_t flags, uint64_t mode);
