/* What cannot be looked at, for want of descriptors, is not taken for what is not there. */
#include "review/journal.h"
#include "review/review.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static struct review r;
static struct err err;
static struct rlimit files;

static int folder(int dir, const char *name)
{
    cr_assert_eq(mkdirat(dir, name, 0700), 0);
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cr_assert_geq(fd, 0);
    return fd;
}

/* A project whose workflow is a link to a script, and half of a repository; and a review of it. */
static void begin(void)
{
    char at[] = "/tmp/test-brig-XXXXXX";
    cr_assert_not_null(mkdtemp(at));
    int top = open(at, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    review_init(&r);
    r.project = folder(top, "project");
    r.dir = folder(top, "review");
    r.meta.source = at;
    close(folder(r.project, ".github"));
    close(folder(r.project, ".github/workflows"));
    cr_assert_eq(symlinkat("../../tools/ci", r.project, ".github/workflows/ci.yml"), 0);
    close(folder(r.project, "half"));
    close(folder(r.project, "half/objects"));
    close(folder(r.project, "half/refs"));
    const struct review_stamp file = {.mode = S_IFREG | 0644};
    cr_assert_not_null(review_add(&r, "half/HEAD", REVIEW_ADDED, NULL, &file, &err));
    cr_assert_not_null(review_add(&r, "tools/ci", REVIEW_ADDED, NULL, &file, &err));
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &files), 0);
}

static void without_descriptors(bool on)
{
    struct rlimit none = {.rlim_cur = 0, .rlim_max = files.rlim_max};
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, on ? &none : &files), 0);
}

Test(absence, control_both_are_marked, .init = begin)
{
    cr_assert_eq(review_mark_linked(&r, &err), 0, "%s", err.message);
    cr_assert_eq(review_mark_repositories(&r, &err), 0);
    cr_expect(r.changes[0].trust && r.changes[1].trust);
}

Test(absence, trusted_folders_that_cannot_be_opened_are_no_empty_ones, .init = begin)
{
    without_descriptors(true);
    int result = review_mark_linked(&r, &err);
    without_descriptors(false);
    cr_expect_lt(result, 0);
    cr_expect(strstr(err.message, "look into"), "%s", err.message);
}

Test(absence, a_folder_that_may_be_a_repository_is_one, .init = begin)
{
    without_descriptors(true);
    cr_expect_eq(review_mark_repositories(&r, &err), 0);
    without_descriptors(false);
    cr_expect_not_null(r.changes[0].trust);
}

Test(absence, a_journal_that_cannot_be_read_is_still_to_be_undone, .init = begin)
{
    static const char name[] = REVIEW_STAGING "0123456789abcdef";
    struct buf text;
    struct stat sb;
    buf_init(&text, 4096);
    review_journal_begin(&text, name);
    review_journal_end(&text);
    close(folder(r.project, name));
    int fd = openat(r.dir, "journal", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    cr_assert_eq(write(fd, text.data, text.len), (ssize_t)text.len);
    close(fd);
    buf_done(&text);
    without_descriptors(true);
    int result = review_recover(&r, &err);
    without_descriptors(false);
    cr_expect_lt(result, 0, "an apply that was broken off is forgotten");
    cr_expect_eq(fstatat(r.dir, "journal", &sb, 0), 0);
    cr_assert_eq(review_recover(&r, &err), 1, "%s", err.message);
    cr_expect_lt(fstatat(r.dir, "journal", &sb, 0), 0);
    cr_expect_lt(fstatat(r.project, name, &sb, 0), 0);
}
