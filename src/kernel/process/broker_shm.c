#include "base/cleanup.h"
#include "kernel/process/broker.h"
#include "kernel/process/task_memory.h"
#include "os/sys.h"

#include <errno.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define SHM_PLACE  "/dev/shm/"
#define SHM_FOLDER ".shm"
#define SHM_FLAGS  (O_ACCMODE | O_CREAT | O_EXCL | O_TRUNC | O_APPEND)
#define INSIDE     (RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)
#ifndef SECCOMP_ADDFD_FLAG_SEND
#define SECCOMP_ADDFD_FLAG_SEND 2u
#endif

/* A plain name in /dev/shm; NULL if it is anything else. */
static const char *read_name(int mem, uint64_t address, char room[static PATH_MAX])
{
    if (task_copy_path(mem, address, room) < 0 ||
        strncmp(room, SHM_PLACE, sizeof SHM_PLACE - 1) != 0)
        return NULL;
    const char *name = room + sizeof SHM_PLACE - 1;
    bool plain = *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
    return plain ? name : NULL;
}

/* The code could put anything in its place: nothing is followed. */
static int open_folder(const struct kernel *k)
{
    const char *path = NULL;
    for (unsigned i = 0; i < k->place_count && !path; i++)
        if (k->places[i].own)
            path = k->places[i].path;
    cleanup_fd int top =
        path ? openat(AT_FDCWD, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (top < 0)
        return -EACCES;
    if (mkdirat(top, SHM_FOLDER, 0700) < 0 && errno != EEXIST)
        return -errno;
    int fd = sys_openat2(top, SHM_FOLDER, O_PATH | O_DIRECTORY | O_CLOEXEC, 0, INSIDE);
    return fd < 0 ? -EACCES : fd;
}

/* Plain files alone: a FIFO would make us wait. */
static int open_file(int folder, const char *name, uint64_t flags, uint64_t mode)
{
    struct stat sb;
    bool makes = flags & O_CREAT;
    cleanup_fd int fd =
        sys_openat2(folder, name, (flags & SHM_FLAGS) | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                    makes ? mode & 0666 : 0, INSIDE);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &sb) < 0 || !S_ISREG(sb.st_mode))
        return -EACCES;
    return fcntl(fd, F_SETFL, flags & O_APPEND) < 0 ? -errno : fd_steal(&fd);
}

static int give(const struct kernel *k, const struct seccomp_notif *n, int fd, uint64_t flags)
{
    struct seccomp_notif_addfd add = {.id = n->id,
                                      .flags = SECCOMP_ADDFD_FLAG_SEND,
                                      .srcfd = (uint32_t)fd,
                                      .newfd_flags = (uint32_t)(flags & O_CLOEXEC)};
    return ioctl(k->listener_fd, SECCOMP_IOCTL_NOTIF_ADDFD, &add) < 0 ? -errno : SHM_ANSWERED;
}

/* Where the names of a call are: `path`, and for links `to`. */
struct named {
    int path, to, flags; /* -1: none */
};

static struct named arguments_of(int nr)
{
    switch (nr) {
#ifdef SYS_open
    case SYS_open:
        return (struct named){0, -1, 1};
    case SYS_unlink:
        return (struct named){0, -1, -1};
    case SYS_link:
        return (struct named){0, 1, -1};
#endif
    case SYS_openat:
        return (struct named){1, -1, 2};
    case SYS_linkat:
        return (struct named){1, 3, -1};
    default:
        return (struct named){1, -1, -1};
    }
}

static int serve(const struct kernel *k, const struct seccomp_notif *n, const struct named *a,
                 const char *name, const char *to)
{
    cleanup_fd int folder = open_folder(k);
    if (folder < 0)
        return folder;
    if (a->flags < 0 && to)
        return linkat(folder, name, folder, to, 0) < 0 ? -errno : 0;
    if (a->flags < 0)
        return unlinkat(folder, name, 0) < 0 ? -errno : 0;
    uint64_t flags = n->data.args[a->flags];
    cleanup_fd int fd = open_file(folder, name, flags, n->data.args[a->flags + 1]);
    return fd < 0 ? fd : give(k, n, fd, flags);
}

int broker_shm(struct kernel *k, const struct seccomp_notif *n, int mem)
{
    char first[PATH_MAX], second[PATH_MAX];
    struct named a = arguments_of(n->data.nr);
    const char *name = read_name(mem, n->data.args[a.path], first);
    const char *to = a.to < 0 ? NULL : read_name(mem, n->data.args[a.to], second);
    if (!name || (a.to >= 0 && !to))
        return SHM_PASS;
    setfsgid(k->host_gid);
    setfsuid(k->host_uid);
    int result = serve(k, n, &a, name, to);
    setfsuid(geteuid());
    setfsgid(getegid());
    return result;
}
