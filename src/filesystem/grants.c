/* Grants: host folders and files that the operator lets in. FS-6: each is opened once, checked by
 * its canonical path, and pinned by device and inode. */
#include "base/cleanup.h"
#include "filesystem/filesystem.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

int grant_pin(struct pinned_grant *g, const char *source, const char *dest, bool writable,
              struct err *err)
{
    struct stat sb;
    cleanup_fd int fd = open(source, O_PATH | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &sb) < 0) {
        int missing = errno == ENOENT;
        err_sys(err, "cannot grant %s", source);
        err_at(err, BOUNDARY_FILESYSTEM);
        return missing ? err_hint(err, "check the spelling; the folder must exist before the run")
                       : -err->code;
    }
    if (!S_ISDIR(sb.st_mode) && !S_ISREG(sb.st_mode)) {
        err_set(err, ERR_REFUSED, "cannot grant %s: not a folder or regular file", source);
        return err_at(err, BOUNDARY_FILESYSTEM);
    }
    if (protect_folder(fd, err) < 0)
        return -err->code;
    *g = (struct pinned_grant){.source = source,
                               .dest = dest,
                               .writable = writable,
                               .is_dir = S_ISDIR(sb.st_mode),
                               .dev = sb.st_dev,
                               .ino = sb.st_ino};
    return 0;
}
