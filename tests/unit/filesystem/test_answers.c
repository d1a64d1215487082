/* What may stop answering, of all that the code can map. */
#include "filesystem/filesystem.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static struct filesystem fs;
static struct policy policy;

static void start(void)
{
    filesystem_init(&fs);
    policy.root = (char *)(uintptr_t) "host";
    fs.policy = &policy;
}

static void grant(int fd)
{
    fs.grants[fs.grant_count++] = (struct pinned_grant){.source = "/granted", .fd = fd};
}

static int silent(void)
{
    int ends[2]; /* on a mount that is nowhere */
    cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
    return ends[0];
}

Test(answers, those_that_the_kernel_serves_alone_do)
{
    static const char *const local[] = {"ext4",    "xfs",      "btrfs", "tmpfs",
                                        "overlay", "squashfs", "proc",  "zfs"};
    for (size_t i = 0; i < sizeof local / sizeof local[0]; i++)
        cr_assert(answers_always(local[i]), "%s", local[i]);
}

Test(answers, those_that_somebody_else_serves_may_not)
{
    static const char *const served[] = {
        "fuse", "fuse.sshfs", "fuse.ext4", "fuseblk", "nfs",      "nfs4", "cifs",  "smb3", "9p",
        "ceph", "afs",        "coda",      "autofs",  "virtiofs", "gfs2", "ocfs2", "",     "ext"};
    for (size_t i = 0; i < sizeof served / sizeof served[0]; i++)
        cr_assert(!answers_always(served[i]), "%s", served[i]);
}

Test(answers, without_anything_of_the_host, .init = start)
{
    cr_assert(filesystem_answers(&fs));
}

Test(answers, every_grant_counts, .init = start)
{
    grant(open("/proc", O_PATH | O_CLOEXEC));
    cr_assert(filesystem_answers(&fs));
    grant(silent());
    cr_assert(!filesystem_answers(&fs));
}

Test(answers, the_root_and_the_layers_of_a_review_count, .init = start)
{
    fs.root_fd = silent();
    fs.root_path = (char *)(uintptr_t) "/root";
    cr_assert(!filesystem_answers(&fs));
    start();
    fs.reviews_fd = silent();
    cr_assert(!filesystem_answers(&fs));
}

Test(answers, the_hosts_own_folders_count, .init = start)
{
    fs.host.view_count = 1;
    snprintf(fs.host.view[0].path, sizeof fs.host.view[0].path, "/proc");
    cr_assert(filesystem_answers(&fs));
    snprintf(fs.host.view[0].path, sizeof fs.host.view[0].path, "/not/there");
    cr_assert(!filesystem_answers(&fs), "what cannot be looked at may not answer");
    snprintf(fs.host.view[0].target, sizeof fs.host.view[0].target, "there");
    cr_assert(filesystem_answers(&fs), "a link is nothing that answers");
}
