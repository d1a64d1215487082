/* What was pulled is measured while it comes; what cannot be measured is an end. */
#define folder_next next_of_folder
#include "images/load/pull.c"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <sys/resource.h>

static int breaks_off; /* after so many names; -1: never */

int next_of_folder(DIR *list, struct dirent **ret)
{
    if (breaks_off-- == 0) {
        errno = EIO;
        return -1;
    }
    while ((*ret = readdir(list)) && (*ret)->d_name[0] == '.')
        ;
    return *ret != NULL;
}

static const struct load_request load = {.max_bytes = 1000, .max_entries = 10};
static const struct came none_before;
static struct err err;

static int begin_pull(bool begun)
{
    char at[] = "/tmp/test-brig-XXXXXX";
    cr_assert_not_null(mkdtemp(at));
    int tmp = open(at, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    breaks_off = -1;
    if (begun)
        cr_assert_eq(mkdirat(tmp, "pulled", 0700), 0);
    for (int i = 0; begun && i < 3; i++) {
        char name[] = {'p', 'u', 'l', 'l', 'e', 'd', '/', (char)('a' + i), '\0'};
        int fd = openat(tmp, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        cr_assert_eq(ftruncate(fd, 400), 0);
        close(fd);
    }
    return tmp;
}

Test(pull, what_came_is_measured)
{
    cr_expect_eq(check_size(&load, begin_pull(false), &none_before, &err), 0,
                 "nothing has come yet");
    cr_expect_eq(check_size(&load, begin_pull(true), &none_before, &err), -(int)ERR_LIMIT);
}

/* A stand-in did not come; what came beside it did. */
Test(pull, stand_ins_are_not_measured)
{
    struct came before = {.bytes = 1 << 20, .files = 1};
    int tmp = begin_pull(true);
    cr_assert(mkdirat(tmp, "layout", 0700) == 0 && mkdirat(tmp, "layout/blobs", 0700) == 0 &&
              mkdirat(tmp, BLOBS, 0700) == 0);
    int fd = openat(tmp, BLOBS "/standin", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    cr_assert_eq(ftruncate(fd, 1 << 20), 0);
    close(fd);
    const struct load_request room = {.max_bytes = 1200, .max_entries = 10};
    cr_expect_eq(check_size(&room, tmp, &before, &err), 0, "%s", err.message);
    cr_expect_eq(check_size(&load, tmp, &before, &err), -(int)ERR_LIMIT);
    cr_expect_eq(check_size(&room, tmp, &none_before, &err), -(int)ERR_LIMIT);
}

Test(pull, a_list_that_breaks_off_is_an_error)
{
    int tmp = begin_pull(true);
    breaks_off = 1;
    cr_expect_eq(check_size(&load, tmp, &none_before, &err), -(int)ERR_SYSTEM);
}

Test(pull, a_folder_that_cannot_be_opened_is_an_error)
{
    struct rlimit files, none = {0};
    int tmp = begin_pull(true);
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &files), 0);
    none.rlim_max = files.rlim_max;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    int result = check_size(&load, tmp, &none_before, &err);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
    cr_expect_eq(result, -(int)ERR_SYSTEM);
}
