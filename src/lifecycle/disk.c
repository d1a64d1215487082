/* How much a folder holds that the code writes to. There is no file system to ask, so it is walked;
 * a tree too large, too deep, or not to be opened is over its limit by definition: a limit is not
 * switched off because somebody could not look. */
#include "lifecycle/disk.h"

#include "base/cleanup.h"
#include "os/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENTRIES_MAX 200000u
#define DEPTH_MAX   128
#define KNOWN_MAX   262144u

struct walk {
    struct disk_usage use;
    struct inodes *seen;
};

/* What the code has deleted since is gone; what it put into its place is seen the next time. */
static bool is_gone(int error)
{
    return error == ENOENT || error == ENOTDIR || error == ELOOP;
}

/* A folder that its owner may not read or enter is one that the code has put out of sight. An
 * ordinary user's supervisor is that owner, and takes the rights for as long as it looks: by
 * descriptor, so that nothing else can be meant. The code sees the mode of a folder of its own
 * change for a moment. */
#define RIGHTS_TO_LOOK 0500

static bool is_hidden(const struct stat *sb)
{
    return geteuid() != 0 && (sb->st_mode & RIGHTS_TO_LOOK) != RIGHTS_TO_LOOK;
}

static int open_hidden(int dir, const char *name)
{
    char path[48];
    struct stat sb;
    cleanup_fd int handle = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (handle < 0 || fstat(handle, &sb) < 0)
        return -errno;
    snprintf(path, sizeof path, "/proc/self/fd/%d", handle);
    if (chmod(path, (sb.st_mode & 07777) | RIGHTS_TO_LOOK) < 0)
        return -errno;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int error = errno;
    chmod(path, sb.st_mode & 07777);
    return fd < 0 ? -error : fd;
}

static int open_below(int dir, const char *name)
{
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0)
        return fd;
    return errno == EACCES ? open_hidden(dir, name) : -errno;
}

static void remember(struct walk *w, const struct stat *sb)
{
    bool fresh;
    if (!w->seen || !S_ISREG(sb->st_mode))
        return;
    /* Forgetting is on the safe side: what is not known counts as much. */
    if (w->seen->count >= KNOWN_MAX)
        inodes_clear(w->seen);
    struct inode_seen *i = inodes_put(w->seen, 0, sb->st_ino, &fresh);
    if (i)
        i->bytes = disk_most((uint64_t)sb->st_size, (uint64_t)sb->st_blocks);
}

static enum disk_result measure(int dir_fd, int depth, struct walk *w);

static enum disk_result measure_entry(int dir, const char *name, int depth, struct walk *w)
{
    struct stat sb;
    if (++w->use.inodes > ENTRIES_MAX)
        return DISK_TOO_BIG;
    if (fstatat(dir, name, &sb, AT_SYMLINK_NOFOLLOW) < 0)
        return is_gone(errno) ? DISK_MEASURED : DISK_UNSEEN;
    w->use.bytes += (uint64_t)sb.st_blocks * 512u;
    remember(w, &sb);
    if (!S_ISDIR(sb.st_mode))
        return DISK_MEASURED;
    int below = open_below(dir, name);
    if (below >= 0)
        return measure(below, depth + 1, w);
    return is_gone(-below) ? DISK_MEASURED : DISK_UNSEEN;
}

/* All of it, whatever part cannot be seen: what can may be too much by itself. */
static enum disk_result measure_open(DIR *dir, int depth, struct walk *w)
{
    enum disk_result worst = DISK_MEASURED;
    struct dirent *e;
    while (worst != DISK_TOO_BIG && (errno = 0, e = readdir(dir))) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        enum disk_result each = measure_entry(dirfd(dir), e->d_name, depth, w);
        worst = each > worst ? each : worst;
    }
    return worst == DISK_MEASURED && errno != 0 ? DISK_UNSEEN : worst;
}

/* Takes the descriptor. */
static enum disk_result measure(int dir_fd, int depth, struct walk *w)
{
    struct stat sb;
    enum disk_result result = depth < DEPTH_MAX ? DISK_UNSEEN : DISK_TOO_BIG;
    /* The list first: nothing of the code's is changed where there is no memory to look. */
    DIR *dir = folder_take(dir_fd);
    if (!dir)
        return result;
    if (depth < DEPTH_MAX && fstat(dirfd(dir), &sb) == 0) {
        mode_t mode = sb.st_mode & 07777;
        bool hidden = is_hidden(&sb);
        if (!hidden || fchmod(dirfd(dir), mode | RIGHTS_TO_LOOK) == 0)
            result = measure_open(dir, depth, w);
        if (hidden)
            fchmod(dirfd(dir), mode);
    }
    closedir(dir);
    return result;
}

enum disk_result disk_measure(int dir_fd, struct disk_usage *ret, struct inodes *seen)
{
    struct walk w = {.seen = seen};
    struct stat sb;
    *ret = w.use;
    if (fstat(dir_fd, &sb) < 0)
        return DISK_UNSEEN;
    w.use.bytes = (uint64_t)sb.st_blocks * 512u;
    if (is_hidden(&sb) && fchmod(dir_fd, (sb.st_mode & 07777) | RIGHTS_TO_LOOK) < 0)
        return DISK_UNSEEN;
    int copy = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (is_hidden(&sb))
        fchmod(dir_fd, sb.st_mode & 07777);
    enum disk_result result = copy < 0 ? DISK_UNSEEN : measure(copy, 0, &w);
    *ret = w.use;
    return result;
}
