/* The file of `brig run --receipt`: opened before the run, and put in its place whole at the
 * end. */
#include "cli/receipt_file.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "cli/path.h"
#include "cli/term.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* /dev/stdout, /dev/fd/3, a terminal: names that no sandbox can make. What lies in /dev/shm is
 * anybody's. */
static bool is_device(const char *path)
{
    struct stat st;
    return text_begins(path, "/dev/") && !text_begins(path, "/dev/shm/") && stat(path, &st) == 0 &&
           !S_ISREG(st.st_mode);
}

/* FS-7: elsewhere the folder may be one that a sandbox writes to. A pipe there is opened as the
 * very object that was looked at, and not waited for; a link is replaced, like a file. 1: it is
 * one. */
static int open_pipe(struct receipt_file *f, const char *path, struct err *err)
{
    struct stat st;
    char self[64];
    cleanup_fd int at = openat(f->dir, f->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (at < 0 || fstat(at, &st) < 0 || (!S_ISFIFO(st.st_mode) && !S_ISDIR(st.st_mode)))
        return 0;
    errno = EISDIR;
    if (S_ISDIR(st.st_mode))
        return err_sys(err, "--receipt: open %s", path);
    snprintf(self, sizeof self, "/proc/self/fd/%d", at);
    f->fd = open(self, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    close(f->dir);
    f->dir = -1;
    if (f->fd >= 0)
        return fcntl(f->fd, F_SETFL, O_WRONLY) < 0 ? err_sys(err, "--receipt: open %s", path) : 1;
    if (errno != ENXIO)
        return err_sys(err, "--receipt: open %s", path);
    err_set(err, ERR_USAGE, "--receipt: %s is a pipe that nobody reads from", path);
    return err_hint(err, "start its reader first, or name a file");
}

static int choose_name(struct receipt_file *f, struct err *err)
{
    uint64_t number = 0;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
        return err_sys(err, "random name");
    snprintf(f->fresh, sizeof f->fresh, ".brig-receipt-%016llx", (unsigned long long)number);
    return 0;
}

int receipt_file_open(struct receipt_file *f, const char *path, struct err *err)
{
    if (is_device(path)) {
        f->fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
        return f->fd < 0 ? err_sys(err, "--receipt: open %s", path) : 0;
    }
    f->dir = path_folder(path, "--receipt", f->name, err);
    if (f->dir < 0 || choose_name(f, err) < 0)
        return err_number(err);
    int pipe = open_pipe(f, path, err);
    if (pipe)
        return pipe < 0 ? pipe : 0;
    /* A file without a name vanishes by itself if brig is killed; not every file system supports
     * it. */
    f->fd = openat(f->dir, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (f->fd >= 0)
        return 0;
    f->fd = openat(f->dir, f->fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return f->fd < 0 ? err_sys(err, "--receipt: write to the folder of %s", path) : 0;
}

static int give_name(struct receipt_file *f, struct err *err)
{
    char self[64];
    struct stat st;
    snprintf(self, sizeof self, "/proc/self/fd/%d", f->fd);
    if (fstat(f->fd, &st) < 0 ||
        (st.st_nlink == 0 && linkat(AT_FDCWD, self, f->dir, f->fresh, AT_SYMLINK_FOLLOW) < 0) ||
        renameat(f->dir, f->fresh, f->dir, f->name) < 0)
        return err_sys(err, "put the receipt %s in its place", f->name);
    f->fresh[0] = '\0';
    return 0;
}

int receipt_file_write(struct receipt_file *f, const struct buf *receipt, struct err *err)
{
    if (term_write(f->fd, receipt->data, receipt->len) < 0 || term_write(f->fd, "\n", 1) < 0)
        return err_sys(err, "write the receipt");
    return f->dir < 0 ? 0 : give_name(f, err);
}

void receipt_file_done(struct receipt_file *f)
{
    if (f->dir >= 0 && f->fresh[0])
        unlinkat(f->dir, f->fresh, 0);
    if (f->fd >= 0)
        close(f->fd);
    if (f->dir >= 0)
        close(f->dir);
    f->fd = f->dir = -1;
}
