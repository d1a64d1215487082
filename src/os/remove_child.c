/* Removes a folder tree that hostile code made, however deep, with raw system calls and constant
 * memory. The guardian uses it too. */
#include "os/remove.h"

#include "base/hex.h"
#include "os/raw_child.h"

#include <errno.h>
#include <fcntl.h>

#define REMOVE_TRIES    50
#define REMOVE_PAUSE_US 20000

static int is_dot(const char *name)
{
    return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

static void number_name(char out[24], uint64_t n)
{
    out[0] = '.';
    out[1] = 'x';
    hex_u64(n, out + 2);
}

static void fd_path(char out[32], int fd)
{
    char digits[12], *to = out;
    int len = 0;
    for (const char *from = "/proc/self/fd/"; *from; from++)
        *to++ = *from;
    do {
        digits[len++] = (char)('0' + fd % 10);
        fd /= 10;
    } while (fd);
    while (len)
        *to++ = digits[--len];
    *to = '\0';
}

/* Rights on a folder, whatever its mode. By descriptor: the kernel's fchmodat follows links. */
static void make_accessible(int dir, const char *name)
{
    char path[32];
    int fd = raw_openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    fd_path(path, fd);
    raw_syscall(__NR_fchmodat, AT_FDCWD, (long)path, 0700, 0);
    raw_close(fd);
}

/* Delete one entry, or move a folder that is not empty up to the top under a name of our own. */
static int clear_entry(int top, int dir, const struct raw_dirent *e, uint64_t *next)
{
    char name[24];
    if (raw_unlinkat(dir, e->name, 0) == 0 || raw_unlinkat(dir, e->name, AT_REMOVEDIR) == 0)
        return 1;
    if (dir == top)
        return 0;
    /* A folder's own ".." changes when it moves: that takes write permission on it. */
    make_accessible(dir, e->name);
    number_name(name, (*next)++);
    return raw_syscall5(__NR_renameat2, dir, (long)e->name, top, (long)name, 0) == 0;
}

/* One pass over a folder; returns how many entries it made disappear from it. */
static int clear_folder(int top, int dir, uint64_t *next)
{
    char block[4096] __attribute__((aligned(8)));
    int cleared = 0;
    raw_syscall(__NR_lseek, dir, 0, 0 /* SEEK_SET */, 0);
    for (long n; (n = raw_syscall(__NR_getdents64, dir, (long)block, sizeof block, 0)) > 0;)
        for (long at = 0; at < n;) {
            const struct raw_dirent *e = (const struct raw_dirent *)(block + at);
            at += e->reclen;
            if (!is_dot(e->name))
                cleared += clear_entry(top, dir, e, next);
        }
    return cleared;
}

/* Empty every folder that lies at the top; what was below them comes up and is emptied in the next
 * round. */
static int clear_top_folders(int top, uint64_t *next)
{
    char block[4096] __attribute__((aligned(8)));
    int cleared = 0;
    raw_syscall(__NR_lseek, top, 0, 0, 0);
    for (long n; (n = raw_syscall(__NR_getdents64, top, (long)block, sizeof block, 0)) > 0;)
        for (long at = 0; at < n;) {
            const struct raw_dirent *e = (const struct raw_dirent *)(block + at);
            at += e->reclen;
            if (is_dot(e->name))
                continue;
            make_accessible(top, e->name);
            int fd = raw_openat(top, e->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            if (fd < 0)
                continue;
            while (clear_folder(top, fd, next) > 0)
                ;
            raw_close(fd);
            cleared += raw_unlinkat(top, e->name, AT_REMOVEDIR) == 0;
        }
    return cleared;
}

/* Why this one does not go. */
static int cannot_go(int dir, const char *name)
{
    int as_file = raw_unlinkat(dir, name, 0);
    int as_folder = as_file < 0 ? raw_unlinkat(dir, name, AT_REMOVEDIR) : 0;
    if (as_folder == 0 || as_file == -ENOENT)
        return 0;
    return as_folder == -ENOTDIR ? as_file : as_folder;
}

/* Looked at anew: a list that broke off is no empty one. */
static int what_is_left(int dir)
{
    char block[4096] __attribute__((aligned(8)));
    long n;
    raw_syscall(__NR_lseek, dir, 0, 0, 0);
    while ((n = raw_syscall(__NR_getdents64, dir, (long)block, sizeof block, 0)) > 0)
        for (long at = 0; at < n;) {
            const struct raw_dirent *e = (const struct raw_dirent *)(block + at);
            at += e->reclen;
            int why = is_dot(e->name) ? 0 : cannot_go(dir, e->name);
            if (why < 0)
                return why;
        }
    return (int)n;
}

int remove_contents(int dir_fd)
{
    /* Names that the code cannot have taken before. */
    uint64_t next = (uint64_t)raw_now_us() << 20;
    raw_syscall(__NR_getrandom, (long)&next, sizeof next, 0, 0);
    do {
        clear_folder(dir_fd, dir_fd, &next);
    } while (clear_top_folders(dir_fd, &next) > 0);
    return what_is_left(dir_fd);
}

int remove_folder(int parent, const char *name, int dir_fd)
{
    int result = 0;
    for (int i = 0; i < REMOVE_TRIES; i++) {
        if (i > 0)
            raw_sleep_us(REMOVE_PAUSE_US);
        int left = dir_fd >= 0 ? remove_contents(dir_fd) : 0;
        result = raw_unlinkat(parent, name, AT_REMOVEDIR);
        if (result == 0 || result == -ENOENT)
            return 0;
        if (result == -ENOTEMPTY && left < 0)
            result = left;
    }
    return result;
}
