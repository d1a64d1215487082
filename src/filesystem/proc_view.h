/* Which entries of /proc stay in the `system` view. Shared by init, which covers the rest, and the
 * attestation. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static inline bool proc_view_keeps(const char *name)
{
    static const char *const kept[] = {".",           "..",     "cpuinfo", "filesystems", "loadavg",
                                       "meminfo",     "mounts", "net",     "self",        "stat",
                                       "thread-self", "uptime", "version"};
    if (name[0] >= '0' && name[0] <= '9')
        return true;
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
        if (strcmp(name, kept[i]) == 0)
            return true;
    return false;
}
