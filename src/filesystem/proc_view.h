/* Which entries of /proc stay in the views `own` and `system`. Shared by init, which covers the
 * rest, and the attestation. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static inline bool proc_name_in(const char *name, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, list[i]) == 0)
            return true;
    return false;
}

/* own: nothing of the kernel's but tasks, the links to them, and, in a sandbox that has a clock of
 * its own, the one file that tells it. */
static inline bool proc_view_keeps(const char *name, bool own, bool own_clock)
{
    static const char *const always[] = {".", "..", "mounts", "net", "self", "thread-self"};
    static const char *const kept[] = {"cpuinfo", "filesystems", "loadavg", "meminfo",
                                       "stat",    "uptime",      "version"};
    if ((name[0] >= '0' && name[0] <= '9') ||
        proc_name_in(name, always, sizeof always / sizeof always[0]))
        return true;
    return own ? own_clock && strcmp(name, "uptime") == 0
               : proc_name_in(name, kept, sizeof kept / sizeof kept[0]);
}
