/* Learn mode for system calls: reads which file or socket a call names, notes it, and lets the call
 * go on. */
#include "kernel/process/learn.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "kernel/process/hand.h"
#include "os/sys.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/un.h>

#define NO_ARG (-1)
/* A missing file is looked for at every call up to this often, then ever more rarely. */
#define AGAIN_ALWAYS 16

/* Where the arguments of a call are. A call that names two files has two rows. */
struct shape {
    int nr;
    int dir, path, flags; /* index of the argument, or NO_ARG */
    unsigned use;         /* 0: the flags say it */
};

static const struct shape shapes[] = {
#ifdef SYS_open
    {SYS_open, NO_ARG, 0, 1, 0},
    {SYS_creat, NO_ARG, 0, NO_ARG, ASKED_WRITE | ASKED_CREATE},
    {SYS_stat, NO_ARG, 0, NO_ARG, ASKED_LOOK},
    {SYS_lstat, NO_ARG, 0, NO_ARG, ASKED_LOOK},
    {SYS_access, NO_ARG, 0, NO_ARG, ASKED_LOOK},
    {SYS_readlink, NO_ARG, 0, NO_ARG, ASKED_LOOK},
    {SYS_mkdir, NO_ARG, 0, NO_ARG, ASKED_CHANGE},
    {SYS_rmdir, NO_ARG, 0, NO_ARG, ASKED_CHANGE},
    {SYS_unlink, NO_ARG, 0, NO_ARG, ASKED_CHANGE},
    {SYS_mknod, NO_ARG, 0, NO_ARG, ASKED_CHANGE},
    {SYS_rename, NO_ARG, 0, NO_ARG, ASKED_CHANGE},
    {SYS_rename, NO_ARG, 1, NO_ARG, ASKED_CHANGE},
    {SYS_symlink, NO_ARG, 1, NO_ARG, ASKED_CHANGE},
    {SYS_link, NO_ARG, 1, NO_ARG, ASKED_CHANGE},
    {SYS_chmod, NO_ARG, 0, NO_ARG, ASKED_WRITE},
#endif
    {SYS_openat, 0, 1, 2, 0},
    {SYS_openat2, 0, 1, 2, 0},
    {SYS_newfstatat, 0, 1, NO_ARG, ASKED_LOOK},
    {SYS_statx, 0, 1, NO_ARG, ASKED_LOOK},
    {SYS_faccessat, 0, 1, NO_ARG, ASKED_LOOK},
    {SYS_faccessat2, 0, 1, NO_ARG, ASKED_LOOK},
    {SYS_readlinkat, 0, 1, NO_ARG, ASKED_LOOK},
    {SYS_chdir, NO_ARG, 0, NO_ARG, ASKED_LOOK},
    {SYS_execve, NO_ARG, 0, NO_ARG, ASKED_RUN},
    {SYS_execveat, 0, 1, NO_ARG, ASKED_RUN},
    {SYS_truncate, NO_ARG, 0, NO_ARG, ASKED_WRITE},
    {SYS_mkdirat, 0, 1, NO_ARG, ASKED_CHANGE},
    {SYS_unlinkat, 0, 1, NO_ARG, ASKED_CHANGE},
    {SYS_mknodat, 0, 1, NO_ARG, ASKED_CHANGE},
    {SYS_renameat, 0, 1, NO_ARG, ASKED_CHANGE},
    {SYS_renameat, 2, 3, NO_ARG, ASKED_CHANGE},
    {SYS_renameat2, 0, 1, NO_ARG, ASKED_CHANGE},
    {SYS_renameat2, 2, 3, NO_ARG, ASKED_CHANGE},
    {SYS_symlinkat, 1, 2, NO_ARG, ASKED_CHANGE},
    {SYS_linkat, 2, 3, NO_ARG, ASKED_CHANGE},
    {SYS_fchmodat, 0, 1, NO_ARG, ASKED_WRITE},
    {SYS_utimensat, 0, 1, NO_ARG, ASKED_WRITE},
};

static unsigned use_of_flags(uint64_t flags)
{
    unsigned use = 0;
    if (flags & O_PATH)
        return ASKED_LOOK;
    if ((flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC))
        use |= ASKED_WRITE;
    if (flags & O_CREAT)
        use |= ASKED_WRITE | ASKED_CREATE;
    if (use)
        return use;
    return flags & O_DIRECTORY ? ASKED_LIST : ASKED_READ;
}

static unsigned use_of(struct kernel *k, const struct shape *s, const struct seccomp_notif *n)
{
    uint64_t flags = 0;
    if (s->use)
        return s->use;
    if (s->nr != SYS_openat2)
        flags = (uint32_t)n->data.args[s->flags];
    else if (hand_word(k, n, n->data.args[s->flags], &flags) < 0)
        return ASKED_LOOK;
    return use_of_flags(flags);
}

/* ---- what the sandbox has there ---- */

/* The root that all tasks of the sandbox share: none of them can change it. */
int learn_root(pid_t pid)
{
    static int root = -1;
    char path[32];
    if (root < 0) {
        snprintf(path, sizeof path, "/proc/%d/root", pid);
        root = openat(AT_FDCWD, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    }
    return root;
}

/* O_PATH: no device is opened and no reader of a FIFO wakes up. */
static int open_inside(int root, const char *path)
{
    return sys_openat2(root, path[1] ? path + 1 : ".", O_PATH | O_CLOEXEC, 0,
                       RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

static unsigned state_of_mount(int fd)
{
    struct statvfs v;
    if (fstatvfs(fd, &v) < 0)
        return ASKED_UNKNOWN;
    return (v.f_flag & ST_RDONLY ? ASKED_READONLY : 0) | (v.f_flag & ST_NOEXEC ? ASKED_NOEXEC : 0);
}

static bool is_absent(int error)
{
    return error == ENOENT || error == ENOTDIR;
}

/* The path, or else the nearest folder above it that is there. */
static unsigned look_inside(int root, const char *path)
{
    char at[PATH_MAX];
    snprintf(at, sizeof at, "%s", path);
    for (unsigned state = 0;; state = state ? state | ASKED_ORPHAN : ASKED_MISSING) {
        cleanup_fd int fd = open_inside(root, at);
        if (fd >= 0)
            return state | state_of_mount(fd);
        if (!is_absent(errno))
            return state ? state : ASKED_UNKNOWN;
        char *slash = strrchr(at, '/');
        if (!slash || !at[1])
            return state | ASKED_UNKNOWN;
        slash[slash == at] = '\0';
    }
}

/* Without a view of its own: only what lies in the sandbox's own folder is looked at now. */
static unsigned look_at_own(const struct kernel *k, const char *path)
{
    struct stat sb;
    for (unsigned i = 0; i < k->place_count; i++)
        if (k->places[i].own && path_within(path, k->places[i].path))
            return fstatat(AT_FDCWD, path, &sb, AT_SYMLINK_NOFOLLOW) < 0 ? ASKED_MISSING : 0;
    return ASKED_UNKNOWN;
}

unsigned learn_look(const struct kernel *k, pid_t pid, const char *path)
{
    int root = k->options.own_view ? learn_root(pid) : -1;
    return root >= 0 ? look_inside(root, path) : look_at_own(k, path);
}

/* A file that was missing may have been created by the code since. */
static void note(struct kernel *k, const char *path, unsigned state, unsigned use)
{
    struct asked *a = asked_add(k->learn.asked, path, use);
    bool again = a && (a->state & ASKED_MISSING) &&
                 (a->count <= AGAIN_ALWAYS || (a->count & (a->count - 1)) == 0);
    if (a && (a->count <= 1 || again))
        a->state = state;
}

/* ---- calls ---- */

/* glibc opens a socket for every look-up of a user; that one says nothing about the program. */
static void learn_socket(struct kernel *k, const struct seccomp_data *d)
{
    bool probe = (int)d->args[1] == (SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK);
    if ((int)d->args[0] == AF_UNIX && !probe)
        k->learn.unix_used++;
}

void learn_call(struct kernel *k, const struct seccomp_notif *n)
{
    char path[PATH_MAX];
    unsigned state;
    if (n->data.nr == SYS_socket)
        return learn_socket(k, &n->data);
    for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
        const struct shape *s = &shapes[i];
        if (s->nr != n->data.nr)
            continue;
        int dir = s->dir == NO_ARG ? AT_FDCWD : (int)n->data.args[s->dir];
        if (hand_path(k, n, dir, n->data.args[s->path], path, &state) == 0)
            note(k, path, state, use_of(k, s, n));
    }
}

void learn_connect(struct kernel *k, const struct seccomp_notif *n)
{
    union {
        struct sockaddr_un un;
        struct sockaddr_storage room;
    } at;
    char path[PATH_MAX];
    unsigned state;
    size_t len = n->data.args[2] < sizeof at.un ? (size_t)n->data.args[2] : sizeof at.un;
    if (len <= offsetof(struct sockaddr_un, sun_path) || hand_address(k, n, &at.room) < 0 ||
        at.un.sun_family != AF_UNIX)
        return;
    uint64_t name_at = n->data.args[1] + offsetof(struct sockaddr_un, sun_path);
    size_t name = strnlen(at.un.sun_path, len - offsetof(struct sockaddr_un, sun_path));
    /* Without a NUL the name ends with the address; such a one is rare, and left out. */
    if (name == 0 || name == len - offsetof(struct sockaddr_un, sun_path))
        return;
    if (hand_path(k, n, AT_FDCWD, name_at, path, &state) == 0)
        note(k, path, state, ASKED_SOCKET);
}

void learn_refused(struct kernel *k, const struct filter_denial *d)
{
    k->learn.refused[d->fix]++;
}
