/* Reads folders, and makes names in them that nobody else has. */
#include "files/worker_child.h"

#include "base/hex.h"
#include "os/raw_child.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct files_dir files_dirs[FILES_DEPTH_MAX];

int files_dir_open(int dir, const char *name)
{
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

void files_dir_begin(struct files_dir *d, int fd)
{
    d->fd = fd;
    d->at = d->len = 0;
    d->cleared = 0;
}

static bool is_dot(const char *name)
{
    return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

const char *files_dir_next(struct files_dir *d)
{
    for (;;) {
        if (d->at >= d->len) {
            d->at = 0;
            d->len = (int)syscall(SYS_getdents64, d->fd, d->block, sizeof d->block);
            if (d->len <= 0)
                return NULL;
        }
        const struct raw_dirent *e = (const struct raw_dirent *)(d->block + d->at);
        d->at += e->reclen;
        if (!is_dot(e->name))
            return e->name;
    }
}

void files_dir_rewind(struct files_dir *d)
{
    lseek(d->fd, 0, SEEK_SET);
    d->at = d->len = 0;
    d->cleared = 0;
}

void files_dir_end(struct files_dir *d)
{
    close(d->fd);
    d->fd = -1;
}

#define TEMP_PREFIX ".brig-part-"
#define TEMP_OVER   ".brig-over-"

static void temp_name(const char prefix[static sizeof TEMP_PREFIX], char ret[FILES_TEMP_LEN])
{
    uint64_t n = 0;
    if (syscall(SYS_getrandom, &n, sizeof n, 0) != (long)sizeof n) {
        struct timespec ts;
        clock_gettime(CLOCK_MONOTONIC, &ts);
        n = (uint64_t)ts.tv_nsec << 32 ^ (uint64_t)getpid();
    }
    memcpy(ret, prefix, sizeof TEMP_PREFIX);
    hex_u64(n, ret + sizeof TEMP_PREFIX - 1);
}

static bool is_temp(const char prefix[static sizeof TEMP_PREFIX], const char *name)
{
    return strncmp(name, prefix, sizeof TEMP_PREFIX - 1) == 0 && strlen(name) == FILES_TEMP_LEN - 1;
}

void files_temp_name(char ret[FILES_TEMP_LEN])
{
    temp_name(TEMP_PREFIX, ret);
}

void files_temp_name_over(char ret[FILES_TEMP_LEN])
{
    temp_name(TEMP_OVER, ret);
}

bool files_temp_is_over(const char *name)
{
    return is_temp(TEMP_OVER, name);
}

bool files_temp_is(const char *name)
{
    return is_temp(TEMP_PREFIX, name) || files_temp_is_over(name);
}
