/* Grants: host folders and files that the operator lets in. FS-6: each is opened once, checked by its canonical path, and
 * pinned by device and inode. */
#include "base/cleanup.h"
#include "filesystem/filesystem.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static int canonical_path(int fd, char out[PATH_MAX], struct err *err)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, out, PATH_MAX - 1);
    if (n <= 0 || n >= PATH_MAX - 1)
        return err_sys(err, "find the canonical path of a grant");
    out[n] = '\0';
    return 0;
}

int grant_pin(struct pinned_grant *g, const char *source, const char *dest, bool writable,
              struct err *err)
{
    char canonical[PATH_MAX];
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
    if (canonical_path(fd, canonical, err) < 0 || protect_check(canonical, err) < 0)
        return -err->code;
    *g = (struct pinned_grant){.source = source,
                               .dest = dest,
                               .writable = writable,
                               .is_dir = S_ISDIR(sb.st_mode),
                               .dev = sb.st_dev,
                               .ino = sb.st_ino};
    return 0;
}
