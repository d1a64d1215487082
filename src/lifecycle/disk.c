/* How much the private folder of the process tier holds. There is no file system to ask, so it is
 * walked; a tree too large or too deep to walk is over its limit by definition. */
#include "lifecycle/disk.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENTRIES_MAX 200000u
#define DEPTH_MAX   128

static bool measure(int dir_fd, int depth, struct disk_usage *u)
{
    DIR *dir = fdopendir(dir_fd);
    bool measurable = dir != NULL && depth < DEPTH_MAX;
    for (struct dirent *e; measurable && (e = readdir(dir));) {
        struct stat sb;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        measurable = ++u->inodes <= ENTRIES_MAX;
        if (fstatat(dirfd(dir), e->d_name, &sb, AT_SYMLINK_NOFOLLOW) < 0)
            continue; /* gone meanwhile */
        u->bytes += (uint64_t)sb.st_blocks * 512u;
        if (!S_ISDIR(sb.st_mode))
            continue;
        int below = openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (below >= 0)
            measurable = measurable && measure(below, depth + 1, u);
    }
    if (dir)
        closedir(dir);
    else
        close(dir_fd);
    return measurable;
}

bool disk_measure(int dir_fd, struct disk_usage *ret)
{
    *ret = (struct disk_usage){0};
    int copy = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return copy >= 0 && measure(copy, 0, ret);
}
