/* POSIX shared memory and semaphores on the process tier.
 *
 * Libraries make both as files of one folder, /dev/shm, which every program of the host shares.
 * Landlock keeps it closed, and without a mount namespace nothing else can be shown under that
 * name. So calls that have the shape of the libraries' are shown to the supervisor, and a name in
 * /dev/shm stands for the same name in a folder of the sandbox's own, below its workspace.
 *
 * K-16  A name in /dev/shm is never that of the host or of another sandbox.
 *
 * Nothing here widens what the code may do. What it is given are plain files in a folder that it
 * can also reach by its other name: its own uid makes them, the limits of disk and files count
 * them, and they go with the workspace. The folder is the code's to change, so that no link and
 * nothing but a plain file is followed or opened. Every call that is not served goes on as it is
 * and meets Landlock, whatever its path says by then (K-4). */
#include "base/cleanup.h"
#include "base/text.h"
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

/* A plain name in /dev/shm; NULL if it is anything else. */
static const char *read_name(int mem, uint64_t address, char room[static PATH_MAX])
{
    if (task_copy_path(mem, address, room) < 0 || !text_begins(room, SHM_PLACE))
        return NULL;
    const char *name = room + sizeof SHM_PLACE - 1;
    bool plain = *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
    return plain ? name : NULL;
}

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

/* O_NONBLOCK, so that opening a FIFO does not wait. */
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

/* The caller's number for it. A caller that is gone, or that a signal called away (before Linux
 * 5.19), may be left with a descriptor that it does not know of. */
static int give(const struct kernel *k, const struct seccomp_notif *n, int fd, uint64_t flags)
{
    struct seccomp_notif_addfd add = {
        .id = n->id, .srcfd = (uint32_t)fd, .newfd_flags = (uint32_t)(flags & O_CLOEXEC)};
    int number = ioctl(k->listener_fd, SECCOMP_IOCTL_NOTIF_ADDFD, &add);
    return number < 0 ? -errno : number;
}

/* Where the arguments of a call are; -1: it has none. */
struct shape {
    int path, to, flags;
};

static struct shape shape_of(int nr)
{
    switch (nr) {
#ifdef SYS_open
    case SYS_open:
        return (struct shape){0, -1, 1};
    case SYS_unlink:
        return (struct shape){0, -1, -1};
    case SYS_link:
        return (struct shape){0, 1, -1};
#endif
    case SYS_openat:
        return (struct shape){1, -1, 2};
    case SYS_linkat:
        return (struct shape){1, 3, -1};
    default: /* unlinkat */
        return (struct shape){1, -1, -1};
    }
}

static int serve(const struct kernel *k, const struct seccomp_notif *n, const struct shape *s,
                 const char *name, const char *to)
{
    cleanup_fd int folder = open_folder(k);
    if (folder < 0)
        return folder;
    if (to)
        return linkat(folder, name, folder, to, 0) < 0 ? -errno : 0;
    if (s->flags < 0)
        return unlinkat(folder, name, 0) < 0 ? -errno : 0;
    uint64_t flags = n->data.args[s->flags];
    cleanup_fd int fd = open_file(folder, name, flags, n->data.args[s->flags + 1]);
    return fd < 0 ? fd : give(k, n, fd, flags);
}

bool broker_shm_opens(const struct seccomp_notif *n)
{
    return shape_of(n->data.nr).flags >= 0;
}

int broker_shm(struct kernel *k, const struct seccomp_notif *n, int mem)
{
    char first[PATH_MAX], second[PATH_MAX];
    struct shape s = shape_of(n->data.nr);
    bool folder = n->data.nr == SYS_unlinkat && n->data.args[2];
    const char *name = folder ? NULL : read_name(mem, n->data.args[s.path], first);
    const char *to = s.to < 0 ? NULL : read_name(mem, n->data.args[s.to], second);
    if (!name || (s.to >= 0 && !to))
        return SHM_PASS;
    /* As the code would: as root, without root's rights over files. */
    setfsgid(k->host_gid);
    setfsuid(k->host_uid);
    int result = serve(k, n, &s, name, to);
    setfsuid(geteuid());
    setfsgid(getegid());
    return result;
}
