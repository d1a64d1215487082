/* Cleanup attributes: every local resource is released on every way out of a function. */
#pragma once

#include <stdlib.h>
#include <unistd.h>

static inline void cleanup_free_fn(void *p)
{
    free(*(void **)p);
}

static inline void cleanup_fd_fn(const int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

#define cleanup_free __attribute__((cleanup(cleanup_free_fn)))
#define cleanup_fd   __attribute__((cleanup(cleanup_fd_fn)))

/* Hand a descriptor to a new owner. */
static inline int fd_steal(int *fd)
{
    int taken = *fd;
    *fd = -1;
    return taken;
}

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
