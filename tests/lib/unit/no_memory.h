/* A list of a folder that there is no memory for, in programs that include this: fdopendir stands
 * in the place of the C library's. */
#pragma once

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>

static bool no_memory;

DIR *fdopendir(int fd)
{
    static DIR *(*real)(int);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "fdopendir");
    errno = ENOMEM;
    return no_memory ? NULL : real(fd);
}
