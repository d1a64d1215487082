#include "kernel/process/task_memory.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* Copied once; what the caller does to its memory afterwards does not matter. */
int task_copy(pid_t pid, uint64_t address, void *out, size_t size)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/mem", pid);
    cleanup_fd int mem = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (mem < 0)
        return -EPERM;
    return pread(mem, out, size, (off_t)address) == (ssize_t)size ? 0 : -EFAULT;
}

/* A string may end right before an unmapped page: go page by page. Larger pages (16 or 64 KiB on
 * aarch64) begin at a multiple of the smallest. */
int task_copy_path(pid_t pid, uint64_t address, char out[PATH_MAX])
{
    size_t used = 0;
    while (used < PATH_MAX) {
        size_t chunk = 4096 - (address + used) % 4096;
        if (chunk > PATH_MAX - used)
            chunk = PATH_MAX - used;
        int result = task_copy(pid, address + used, out + used, chunk);
        if (result < 0)
            return result;
        if (memchr(out + used, '\0', chunk))
            return 0;
        used += chunk;
    }
    return -ENAMETOOLONG;
}
