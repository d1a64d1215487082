/* Copies bytes and paths out of the memory of a task that waits for an answer. Runs in the hand. */
#include "kernel/process/task_memory.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Copied once; what the caller does to its memory afterwards does not matter. */
int task_copy(int mem, uint64_t address, void *out, size_t size)
{
    if (mem < 0)
        return -EPERM;
    return pread(mem, out, size, (off_t)address) == (ssize_t)size ? 0 : -EFAULT;
}

/* A string may end right before an unmapped page: go page by page. Larger pages (16 or 64 KiB on
 * aarch64) begin at a multiple of the smallest. */
int task_copy_path(int mem, uint64_t address, char out[PATH_MAX])
{
    size_t used = 0;
    while (used < PATH_MAX) {
        size_t chunk = 4096 - (address + used) % 4096;
        if (chunk > PATH_MAX - used)
            chunk = PATH_MAX - used;
        int result = task_copy(mem, address + used, out + used, chunk);
        if (result < 0)
            return result;
        if (memchr(out + used, '\0', chunk))
            return 0;
        used += chunk;
    }
    return -ENAMETOOLONG;
}
