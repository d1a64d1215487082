/* The workspace of the process tier, which cannot mount a tmpfs: a folder of mode 0700 with an
 * unguessable name, made with exclusive create, used by descriptor, and emptied by descriptor. */
#include "base/cleanup.h"
#include "filesystem/filesystem.h"
#include "os/remove.h"
#include "os/sys.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

int private_dir_make(struct filesystem *fs, uid_t uid, gid_t gid, struct err *err)
{
    if (mkdir(fs->private_dir, 0700) < 0)
        return err_sys(err, "make the private folder %s", fs->private_dir);
    fs->private_fd = open(fs->private_dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fs->private_fd < 0) {
        err_sys(err, "open the private folder %s", fs->private_dir);
        /* Teardown works by descriptor, and there is none: remove the folder here. */
        if (remove_folder(AT_FDCWD, fs->private_dir, -1) < 0)
            err_wrap(err, "%s is left, remove it by hand", fs->private_dir);
        return err_number(err);
    }
    if (fchown(fs->private_fd, uid, gid) < 0)
        return err_sys(err, "own the private folder %s", fs->private_dir);
    return 0;
}

int private_dir_write(struct filesystem *fs, const char *name, const void *data, size_t len,
                      struct err *err)
{
    cleanup_fd int fd =
        openat(fs->private_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0 || fchmod(fd, 0644) < 0 || write(fd, data, len) != (ssize_t)len) {
        err_sys(err, "write %s into the private folder", name);
        return err_at(err, BOUNDARY_FILESYSTEM);
    }
    return 0;
}

int private_dir_remove(struct filesystem *fs, struct err *err)
{
    if (fs->private_fd < 0)
        return 0;
    int result = remove_folder(AT_FDCWD, fs->private_dir, fs->private_fd);
    close(fs->private_fd);
    fs->private_fd = -1;
    if (result == 0)
        return 0;
    errno = -result;
    err_sys(err, "remove the private folder %s", fs->private_dir);
    err_at(err, BOUNDARY_FILESYSTEM);
    return err_hint(err, "what the code wrote is still in it; remove it by hand");
}
