/* Measuring a folder that somebody hostile fills: nothing in it is overlooked, and what cannot be
 * looked at is never taken for empty. */
#include "lifecycle/disk.h"

#include "base/cleanup.h"
#include "lifecycle/lifecycle.h"
#include "os/remove.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK (1u << 20)

static char folder[64];
static int top = -1;

static void set_up(void)
{
    snprintf(folder, sizeof folder, "/var/tmp/test-disk-XXXXXX");
    cr_assert(mkdtemp(folder));
    if (geteuid() == 0) { /* for whom no folder is closed */
        cr_assert_eq(chown(folder, 65534, 65534), 0);
        cr_assert_eq(seteuid(65534), 0);
    }
    top = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cr_assert_geq(top, 0);
}

static void tear_down(void)
{
    fchmod(top, 0700);
    if (getuid() == 0)
        (void)!seteuid(0);
    remove_folder(AT_FDCWD, folder, top);
    close(top);
}

TestSuite(disk, .init = set_up, .fini = tear_down);

static void put_file(const char *name)
{
    static char data[BLOCK];
    memset(data, 'x', sizeof data);
    cleanup_fd int fd = openat(top, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    cr_assert_eq(write(fd, data, sizeof data), (ssize_t)sizeof data);
}

static uint64_t measured(struct inodes *seen)
{
    struct disk_usage u;
    cr_assert_eq(disk_measure(top, &u, seen), DISK_MEASURED);
    return u.bytes;
}

Test(disk, files_and_folders_count)
{
    struct disk_usage u;
    cr_assert_eq(disk_measure(top, &u, NULL), DISK_MEASURED);
    cr_assert_eq(u.inodes, 0);
    put_file("a");
    cr_assert_eq(mkdirat(top, "d", 0700), 0);
    put_file("d/b");
    cr_assert_eq(disk_measure(top, &u, NULL), DISK_MEASURED);
    cr_assert(u.inodes == 3 && u.bytes >= 2 * BLOCK && u.bytes < 3 * BLOCK);
}

Test(disk, folders_without_rights_are_opened_and_left_as_they_were)
{
    static const mode_t modes[] = {0300, 0, 0100, 0400, 0200, 0500, 0700};
    cr_assert_eq(mkdirat(top, "d", 0700), 0);
    cr_assert_eq(mkdirat(top, "d/e", 0700), 0);
    put_file("d/e/f");
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        struct stat sb;
        cr_assert_eq(fchmodat(top, "d", modes[i], 0), 0);
        cr_assert_geq(measured(NULL), BLOCK, "mode %o", modes[i]);
        cr_assert_eq(fstatat(top, "d", &sb, 0), 0);
        cr_assert_eq(sb.st_mode & 07777, modes[i], "%o became %o", modes[i], sb.st_mode & 07777);
    }
    fchmodat(top, "d", 0700, 0);
}

Test(disk, so_is_the_folder_itself)
{
    struct stat sb;
    put_file("a");
    for (mode_t mode = 0; mode <= 0700; mode += 0100) {
        cr_assert_eq(fchmod(top, mode), 0);
        cr_assert_geq(measured(NULL), BLOCK, "mode %o", mode);
        cr_assert_eq(fstat(top, &sb), 0);
        cr_assert_eq(sb.st_mode & 07777, mode);
    }
}

Test(disk, without_descriptors_nothing_is_measured)
{
    struct disk_usage u;
    struct rlimit few, usual;
    put_file("a");
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &usual), 0);
    few = usual;
    few.rlim_cur = (rlim_t)top + 1;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    for (int fd; (fd = dup(top)) >= 0;)
        ;
    enum disk_result r = disk_measure(top, &u, NULL);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &usual), 0);
    cr_assert_eq(r, DISK_UNSEEN, "what cannot be opened is not empty");
}

Test(disk, sizes_are_kept_with_their_holes)
{
    struct inodes seen = {0};
    struct stat sb;
    put_file("a");
    cleanup_fd int fd = openat(top, "a", O_WRONLY | O_CLOEXEC);
    cr_assert_eq(ftruncate(fd, 8 * BLOCK), 0);
    cr_assert_eq(fstat(fd, &sb), 0);
    cr_assert_lt(measured(&seen), 2 * BLOCK + 65536u);
    const struct inode_seen *i = inodes_find(&seen, 0, sb.st_ino);
    cr_assert(i && i->bytes == 8 * BLOCK, "a mapping could fill the holes later");
    cr_assert_null(inodes_find(&seen, 0, sb.st_ino + 1));
    inodes_done(&seen);
}

Test(disk, a_table_of_many_files)
{
    struct inodes t = {0};
    bool fresh;
    for (uint64_t i = 0; i < 10000; i++) {
        struct inode_seen *e = inodes_put(&t, i & 3, i * 4096, &fresh);
        cr_assert(e && fresh);
        e->bytes = i;
    }
    for (uint64_t i = 0; i < 10000; i++) {
        cr_assert(inodes_put(&t, i & 3, i * 4096, &fresh) && !fresh);
        cr_assert_eq(inodes_find(&t, i & 3, i * 4096)->bytes, i);
        cr_assert_null(inodes_find(&t, 4, i * 4096));
    }
    inodes_clear(&t);
    cr_assert(t.count == 0 && !inodes_find(&t, 0, 0));
    inodes_done(&t);
}

/* ---- what would be measured must be held ---- */

Test(disk, a_review_that_cannot_be_held_is_an_error)
{
    struct lifecycle life;
    struct err err = ERR_INIT;
    lifecycle_init(&life);
    struct lifecycle_review r = {.fd = -1, .place = "/project"};
    cr_assert_lt(lifecycle_watch_review(&life, &r, &err), 0);
    cr_assert(err.code == ERR_SYSTEM && err.boundary == BOUNDARY_LIFECYCLE);
    r.fd = top;
    err = (struct err)ERR_INIT;
    cr_assert_eq(lifecycle_watch_review(&life, &r, &err), 0, "%s", err.message);
    lifecycle_unwatch(&life);
}
