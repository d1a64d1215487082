/* A store of images that is empty, opened by hand: as root it would be elsewhere. */
#pragma once

#include "images/store.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

static inline void store_make(struct store *store, const char *top)
{
    snprintf(store->path, sizeof store->path, "%s", top);
    store->fd = open(top, O_RDONLY | O_DIRECTORY);
    const char *const folders[] = {"names", "blobs", "unpacked", "roots", "tmp"};
    for (size_t i = 0; i < 5; i++)
        cr_assert(mkdirat(store->fd, folders[i], 0700) == 0);
}
