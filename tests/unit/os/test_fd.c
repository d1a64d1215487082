#include "base/cleanup.h"
#include "os/fd.h"

#include "../../lib/unit/no_memory.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int file_with(size_t len)
{
    int fd = memfd_create("source", MFD_CLOEXEC);
    for (size_t i = 0; i < len; i++)
        cr_assert_eq(write(fd, &(char){(char)('a' + i % 26)}, 1), 1);
    cr_assert_eq(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

Test(fd, a_copy_is_whole_and_sealed)
{
    struct err err = ERR_INIT;
    char a[3000], b[3000];
    cleanup_fd int from = file_with(sizeof a);
    cleanup_fd int copy = memfd_copied("a copy", from, sizeof a, &err);
    cr_assert_geq(copy, 0, "%s", err.message);
    cr_assert_eq(pread(copy, a, sizeof a, 0), (ssize_t)sizeof a);
    cr_assert_eq(pread(from, b, sizeof b, 0), (ssize_t)sizeof b);
    cr_assert_arr_eq(a, b, sizeof a);
    cr_assert_eq(pwrite(copy, "x", 1, 0), -1);
    cr_assert_eq(ftruncate(copy, 1), -1);
}

Test(fd, a_copy_has_its_bound)
{
    struct err err = ERR_INIT;
    cleanup_fd int from = file_with(101);
    cr_assert_lt(memfd_copied("a copy", from, 100, &err), 0);
    cr_assert_eq(err.code, ERR_LIMIT);
    cleanup_fd int empty = file_with(0);
    cleanup_fd int copy = memfd_copied("a copy", empty, 100, &err);
    cr_assert_geq(copy, 0);
}

static int next_descriptor(void)
{
    cleanup_fd int fd = fcntl(0, F_DUPFD_CLOEXEC, 3);
    return fd;
}

Test(fd, a_list_without_memory_leaves_no_descriptor)
{
    int before = next_descriptor();
    no_memory = true;
    cr_assert(!folder_open(AT_FDCWD, "/") && errno == ENOMEM);
    cr_assert_eq(next_descriptor(), before);
    cr_assert(!folder_take(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) && errno == ENOMEM);
    cr_assert_eq(next_descriptor(), before);
    errno = ENOENT;
    cr_assert(!folder_take(-1) && errno == ENOENT, "why it could not be opened");
    no_memory = false;
    DIR *list = folder_take(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    cr_assert(list);
    closedir(list);
}

/* A descriptor that was closed below it stands for a disk that fails. */
Test(fd, a_list_that_breaks_off_is_not_at_its_end)
{
    struct dirent *e;
    unsigned names = 0;
    char folder[] = "/tmp/brig-fd-XXXXXX";
    cr_assert(mkdtemp(folder));
    cleanup_fd int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (char name[2] = "a"; name[0] < 'd'; name[0]++)
        cr_assert_eq(mkdirat(dir, name, 0700), 0);
    DIR *list = folder_open(dir, ".");
    while (folder_next(list, &e) > 0)
        names += strlen(e->d_name) == 1 && e->d_name[0] != '.';
    cr_assert_eq(names, 3);
    cr_assert_eq(folder_next(list, &e), 0);
    closedir(list);
    list = folder_open(dir, ".");
    close(dirfd(list));
    cr_assert_eq(folder_next(list, &e), -1);
    cr_assert_eq(errno, EBADF);
    closedir(list);
    for (char name[2] = "a"; name[0] < 'd'; name[0]++)
        unlinkat(dir, name, AT_REMOVEDIR);
    rmdir(folder);
}
