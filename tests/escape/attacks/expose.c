/* F-20: breaks the mount view of a running sandbox on purpose, so that the second layer stands
 * alone.
 *
 *   expose PID HOST_FOLDER NAME    HOST_FOLDER appears as /NAME in the mount namespace of PID */
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int fail(const char *what)
{
    perror(what);
    return 1;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    char path[64], point[256];
    int tree = (int)syscall(SYS_open_tree, AT_FDCWD, argv[2], 1 /* clone */);
    if (tree < 0)
        return fail("expose: open_tree");
    snprintf(path, sizeof path, "/proc/%s/root", argv[1]);
    int root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    snprintf(path, sizeof path, "/proc/%s/ns/mnt", argv[1]);
    int ns = open(path, O_RDONLY | O_CLOEXEC);
    if (root < 0 || ns < 0 || setns(ns, CLONE_NEWNS) < 0)
        return fail("expose: setns");
    if (fchdir(root) < 0 || chroot(".") < 0)
        return fail("expose: chroot");
    struct {
        uint64_t set, clear, propagation, userns;
    } attr = {.clear = 1 /* read-only */};
    if (syscall(SYS_mount_setattr, AT_FDCWD, "/", 0, &attr, sizeof attr) < 0)
        return fail("expose: mount_setattr");
    mount(NULL, "/", NULL, MS_REMOUNT, NULL); /* the superblock too, where it is read-only */
    snprintf(point, sizeof point, "/%s.new", argv[3]);
    char final[256];
    snprintf(final, sizeof final, "/%s", argv[3]);
    /* The host's root has no name in a file system of the sandbox's: make entries as its owner. */
    struct stat sb;
    if (fstat(root, &sb) < 0)
        return fail("expose: stat");
    setfsgid(sb.st_gid);
    setfsuid(sb.st_uid);
    if (mkdir(point, 0755) < 0)
        return fail("expose: mkdir");
    if (syscall(SYS_move_mount, tree, "", AT_FDCWD, point, 4 /* empty from path */) < 0)
        return fail("expose: move_mount");
    /* Appears under its final name only when everything is in place. */
    if (rename(point, final) < 0 && symlink(point, final) < 0)
        return fail("expose: rename");
    return 0;
}
