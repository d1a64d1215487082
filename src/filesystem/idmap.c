/* A supervisor that is root runs each sandbox under a host uid of its own, which owns no file
 * anywhere. So that a granted folder is usable, it is mounted with its owner's ids mapped to the
 * sandbox's: the code works as the owner of that folder there and only there, and files it makes
 * belong to the owner. */
#include "base/cleanup.h"
#include "filesystem/filesystem.h"
#include "os/fd.h"
#include "os/sys.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

static int write_map(pid_t pid, const char *which, unsigned disk_id, unsigned host_id,
                     struct err *err)
{
    char path[64], text[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, which);
    snprintf(text, sizeof text, "%u %u 1", disk_id, host_id);
    int result = file_write(AT_FDCWD, path, text);
    errno = -result;
    return result < 0 ? err_sys(err, "write %s", path) : 0;
}

static int map_and_open(pid_t pid, const struct stat *sb, uid_t uid, gid_t gid, struct err *err)
{
    char path[64];
    if (write_map(pid, "uid_map", sb->st_uid, uid, err) < 0 ||
        write_map(pid, "gid_map", sb->st_gid, gid, err) < 0)
        return err_number(err);
    snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? err_sys(err, "open the mapping") : fd;
}

/* A user namespace is only reachable through a process: one that does nothing and is gone before
 * this returns. */
static int idmap_open(const struct stat *sb, uid_t uid, gid_t gid, struct err *err)
{
    struct sys_clone_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
    pid_t supervisor = getpid();
    long pid = sys_clone3(&args);
    if (pid < 0)
        return err_sys(err, "make a user namespace for a grant");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (getppid() == supervisor)
            pause();
        _exit(0);
    }
    int fd = map_and_open((pid_t)pid, sb, uid, gid, err);
    kill((pid_t)pid, SIGKILL);
    while (waitpid((pid_t)pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return fd;
}

static int unusable(const struct pinned_grant *g, struct err *err)
{
    err_sys(err, "map the owner of %s to the sandbox", g->source);
    err->code = ERR_UNSUPPORTED;
    err_at(err, BOUNDARY_FILESYSTEM);
    return err_hint(
        err,
        "its file system has no idmapped mounts; run brig as the folder's owner instead of root");
}

void idmap_done(struct idmap *map)
{
    if (map->fd >= 0)
        close(map->fd);
    *map = (struct idmap)IDMAP_INIT;
}

/* A root has one mount for each of its top-level entries, and nearly always one owner: a process
 * and a namespace for each would be most of the time that its start takes. */
static int idmap_take(struct idmap *map, const struct stat *owner, uid_t host_uid, gid_t host_gid,
                      struct err *err)
{
    if (map->fd >= 0 && map->disk_uid == owner->st_uid && map->disk_gid == owner->st_gid &&
        map->host_uid == host_uid && map->host_gid == host_gid)
        return map->fd;
    idmap_done(map);
    int fd = idmap_open(owner, host_uid, host_gid, err);
    if (fd < 0)
        return fd;
    *map = (struct idmap){.fd = fd,
                          .disk_uid = owner->st_uid,
                          .disk_gid = owner->st_gid,
                          .host_uid = host_uid,
                          .host_gid = host_gid};
    return fd;
}

int tree_map(struct idmap *map, int tree, const char *path, const struct stat *owner,
             uid_t host_uid, gid_t host_gid, uint64_t more, struct err *err)
{
    int fd = idmap_take(map, owner, host_uid, host_gid, err);
    if (fd < 0)
        return fd;
    struct sys_mount_attr attr = {.attr_set = SYS_MOUNT_ATTR_IDMAP | more,
                                  .userns_fd = (uint64_t)fd};
    if (sys_mount_setattr(tree, "", SYS_AT_EMPTY_PATH, &attr) < 0)
        return unusable(&(struct pinned_grant){.source = path}, err);
    return 0;
}

int layer_tree(const char *path, uid_t disk_uid, gid_t disk_gid, uid_t host_uid, gid_t host_gid,
               struct err *err)
{
    struct stat owner = {.st_uid = disk_uid, .st_gid = disk_gid};
    cleanup_idmap struct idmap map = IDMAP_INIT;
    cleanup_fd int tree =
        sys_open_tree(AT_FDCWD, path, SYS_OPEN_TREE_CLONE | SYS_OPEN_TREE_CLOEXEC);
    if (tree < 0)
        return err_sys(err, "open %s", path);
    return tree_map(&map, tree, path, &owner, host_uid, host_gid, 0, err) < 0 ? err_number(err)
                                                                              : fd_steal(&tree);
}

int grant_tree(const struct pinned_grant *g, bool with_mounts, uid_t host_uid, gid_t host_gid,
               struct err *err)
{
    struct stat sb;
    unsigned flags = SYS_OPEN_TREE_CLONE | SYS_OPEN_TREE_CLOEXEC | SYS_AT_EMPTY_PATH |
                     (g->is_dir && !g->review && with_mounts ? SYS_AT_RECURSIVE : 0);
    cleanup_fd int tree = sys_open_tree(g->fd, "", flags);
    if (tree < 0 && errno == ENOSYS) {
        err_set(err, ERR_UNSUPPORTED,
                "this kernel cannot mount %s for the sandbox: it has no open_tree", g->source);
        return err_hint(err, "brig needs Linux 5.12 or newer to grant folders as root");
    }
    if (tree < 0 || fstat(tree, &sb) < 0)
        return err_sys(err, "open %s", g->source);
    cleanup_fd int map = idmap_open(&sb, host_uid, host_gid, err);
    if (map < 0)
        return map;
    /* Only the top mount is mapped: what is mounted below keeps its own file system's ids. */
    struct sys_mount_attr attr = {.attr_set = SYS_MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)map};
    if (sys_mount_setattr(tree, "", SYS_AT_EMPTY_PATH, &attr) < 0 && g->writable)
        return unusable(g, err);
    return fd_steal(&tree);
}
