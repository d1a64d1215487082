/* The files of the view `own` of /proc on the host's side: what they say at the start, and writing
 * them again while the code runs. */
#include "filesystem/filesystem.h"

#include "base/cleanup.h"
#include "os/fd.h"
#include "os/weaken.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define TEXT_MAX (1u << 20)

void own_init(struct own_files *own)
{
    for (int f = 0; f < PROC_FILE_COUNT; f++)
        buf_init(&own->text[f], TEXT_MAX);
    for (int f = 0; f < PROC_FILES_LIVE; f++)
        own->fd[f] = -1;
}

void own_done(struct own_files *own)
{
    for (int f = 0; f < PROC_FILE_COUNT; f++)
        buf_done(&own->text[f]);
    for (int f = 0; f < PROC_FILES_LIVE; f++) {
        if (own->fd[f] >= 0)
            close(own->fd[f]);
        own->fd[f] = -1;
    }
}

bool filesystem_has_own(const struct filesystem *fs)
{
    return fs->namespaced && fs->proc == PROC_OWN && !fs->whole_proc &&
           !guard_left_out(GUARD_PROC) && !guard_left_out(GUARD_NS_PID);
}

/* The file is as long as the host has CPUs, and each of them takes its time: no more is read than
 * is shown. */
static int read_cpuinfo(unsigned cpus, struct buf *out, struct err *err)
{
    cleanup_fd int fd = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
    cleanup_buf struct buf host;
    char block[4096];
    ssize_t n;
    buf_init(&host, TEXT_MAX);
    while ((n = fd < 0 ? -1 : read(fd, block, sizeof block)) > 0) {
        buf_add(&host, block, (size_t)n);
        buf_reset(out);
        if (host.failed || proc_own_cpuinfo(buf_text(&host), cpus, out))
            break;
    }
    return n < 0 ? err_sys(err, "read /proc/cpuinfo") : 0;
}

static void read_possible(struct own_files *own)
{
    ssize_t n = file_read(AT_FDCWD, "/sys/devices/system/cpu/possible", own->possible,
                          sizeof own->possible);
    if (n <= 0)
        snprintf(own->possible, sizeof own->possible, "0-%u\n", own->cpus ? own->cpus - 1 : 0);
}

/* The lowest address that a program may map: a kernel in user space lays out the memory of the
 * code, and does not start without it. */
static int read_lowest(struct buf *out, struct err *err)
{
    char value[32];
    ssize_t n = file_read(AT_FDCWD, "/proc/sys/vm/mmap_min_addr", value, sizeof value);
    if (n <= 0)
        return err_sys(err, "read /proc/sys/vm/mmap_min_addr");
    buf_add(out, value, (size_t)n);
    return 0;
}

int filesystem_own(struct filesystem *fs, const struct proc_numbers *n, bool clock, struct err *err)
{
    uint8_t random[16];
    struct own_files *own = &fs->own;
    own->clock = clock;
    own->cpus = n->cpus;
    read_possible(own);
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return err_sys(err, "random number");
    proc_own_boot_id(random, &own->text[PROC_FILE_BOOT_ID]);
    if (read_cpuinfo(n->cpus, &own->text[PROC_FILE_CPUINFO], err) < 0)
        return err_number(err);
    if (fs->user_kernel && read_lowest(&own->text[PROC_FILE_MMAP_MIN], err) < 0)
        return err_number(err);
    for (int f = 0; f < PROC_FILES_LIVE; f++)
        if (f != PROC_FILE_UPTIME || !clock)
            proc_own_text((enum proc_file)f, n, &own->text[f]);
    return 0;
}

/* FS-12. It came before the code ran. Still: what is written to must never be anything that could
 * make the writer wait. */
int filesystem_own_take(struct filesystem *fs, int32_t which, int *fd, struct err *err)
{
    struct statfs s;
    struct stat sb;
    if (which < 0 || which >= PROC_FILES_LIVE || *fd < 0 || fs->own.fd[which] >= 0 ||
        !fs->own.text[which].len || fstat(*fd, &sb) < 0 || !S_ISREG(sb.st_mode) ||
        fstatfs(*fd, &s) < 0 || s.f_type != TMPFS_MAGIC)
        return err_set(err, ERR_PROTOCOL, "init sent a file of /proc that nobody asked for");
    fs->own.fd[which] = fd_steal(fd);
    return 0;
}

void filesystem_own_refresh(struct filesystem *fs, const struct proc_numbers *n)
{
    for (int f = 0; f < PROC_FILES_LIVE; f++) {
        struct buf *text = &fs->own.text[f];
        size_t before = text->len;
        if (fs->own.fd[f] < 0)
            continue;
        buf_reset(text);
        proc_own_text((enum proc_file)f, n, text);
        proc_own_pad(text, before);
        /* The pages are there and the sandbox's: this allocates nothing. A number that could not be
         * written is an old number. */
        if (!text->failed && pwrite(fs->own.fd[f], text->data, text->len, 0) < 0)
            continue;
    }
}
