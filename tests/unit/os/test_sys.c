#include "base/cleanup.h"
#include "os/sys.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define OPENED 40000

static char folder[] = "/tmp/brig-test-sys-XXXXXX";

/* Another process renames a file of its own, which has nothing to do with the path. */
static pid_t start_renaming(void)
{
    char a[64], b[64];
    pid_t pid = fork();
    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(a, sizeof a, "%s/a", folder);
    snprintf(b, sizeof b, "%s/b", folder);
    close(open(a, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    for (;;) {
        rename(a, b);
        rename(b, a);
    }
}

static unsigned failed(int top, uint64_t resolve)
{
    unsigned count = 0;
    for (int i = 0; i < OPENED; i++) {
        cleanup_fd int fd =
            sys_openat2(top, "var/run", O_PATH | O_DIRECTORY | O_CLOEXEC, 0, resolve);
        count += fd < 0;
    }
    return count;
}

Test(sys, a_rename_elsewhere_hides_no_file)
{
    cr_assert_not_null(mkdtemp(folder));
    cleanup_fd int top = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    cr_assert_eq(mkdirat(top, "run", 0755), 0);
    cr_assert_eq(mkdirat(top, "var", 0755), 0);
    cr_assert_eq(symlinkat("../run", top, "var/run"), 0);
    pid_t pid = start_renaming();
    cr_assert_gt(pid, 0);
    cr_expect_eq(failed(top, RESOLVE_IN_ROOT), 0);
    cr_expect_eq(failed(top, RESOLVE_BENEATH), 0);
    cr_expect_eq(failed(top, RESOLVE_BENEATH | SYS_RESOLVE_CACHED), 0, "all of it is known");
    cr_expect_lt(sys_openat2(top, "var/other", O_PATH, 0, RESOLVE_BENEATH | SYS_RESOLVE_CACHED), 0);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    cr_assert_eq(unlinkat(top, "var/run", 0), 0);
    (void)!unlinkat(top, "a", 0);
    (void)!unlinkat(top, "b", 0);
    unlinkat(top, "var", AT_REMOVEDIR);
    unlinkat(top, "run", AT_REMOVEDIR);
    cr_assert_eq(rmdir(folder), 0);
}
