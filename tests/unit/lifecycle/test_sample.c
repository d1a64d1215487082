/* Looking at what processes have open: one that hides is noticed at once, one that only ends is not
 * taken for it. */
#include "lifecycle/sample.h"

#include "lifecycle/sample_parse.h"
#include "os/procfs.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

Test(sample, a_line_of_stat_tells_who_is_ending)
{
    struct proc_stat s;
    const char *running = "7 (a) R 1) S 3 7 7 0 -1 4194368 9 0 0 0 5 6 7 8 20 0 2 0 557 4096 1";
    const char *ending = "115 (busybox) R 106 108 108 0 -1 4194380 39 0 0 0 0 0 0 0 20 0 1 0 557 0";
    const char *ended = "115 (busybox) Z 106 108 108 0 -1 4227084 39 0 0 0 0 0 0 0 20 0 1 0 557 0";
    cr_assert(procfs_stat_parse(running, &s));
    cr_assert(!s.ending && !s.ended);
    cr_assert_eq(s.ppid, 3);
    cr_assert_eq(s.tasks, 2);
    cr_assert_eq(s.start, 557);
    cr_assert(procfs_stat_parse(ending, &s));
    cr_assert(s.ending && !s.ended);
    cr_assert(procfs_stat_parse(ended, &s));
    cr_assert(s.ending && s.ended);
}

/* A child that waits; nobody looks into it if it is hidden. */
static pid_t waiting_child(bool hidden)
{
    int ready[2];
    char byte = 0;
    cr_assert_eq(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* also of a test that failed */
        if (hidden)
            prctl(PR_SET_DUMPABLE, 0);
        (void)!write(ready[1], "x", 1);
        for (;;)
            pause();
    }
    cr_assert_gt(pid, 0);
    cr_assert_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static bool is_blind(void)
{
    struct lifecycle l;
    struct looked seen = {0};
    struct policy policy;
    lifecycle_init(&l);
    policy_init(&policy, LEVEL_HIGH);
    l.policy = &policy;
    l.init_pid = getpid();
    l.sampler = sampler_new();
    cr_assert(l.sampler);
    sample_files(&l, &seen);
    lifecycle_unwatch(&l);
    policy_done(&policy);
    return seen.blind;
}

static void be_an_ordinary_user(void)
{
    if (geteuid() != 0)
        return;
    cr_assert_eq(setresgid(65534, 65534, 65534), 0);
    cr_assert_eq(setresuid(65534, 65534, 65534), 0);
    prctl(PR_SET_DUMPABLE, 1); /* for the children: it went with the rights */
}

Test(sample, who_hides_is_noticed_and_who_has_ended_is_not_taken_for_it)
{
    be_an_ordinary_user();
    pid_t open = waiting_child(false);
    cr_assert(!is_blind(), "the control: it can be looked at");
    pid_t hidden = waiting_child(true);
    cr_assert(is_blind());
    kill(hidden, SIGKILL);
    siginfo_t info;
    cr_assert_eq(waitid(P_PID, (id_t)hidden, &info, WEXITED | WNOWAIT), 0);
    cr_assert(!is_blind(), "it has ended, and nobody has waited for it yet");
    kill(open, SIGKILL);
    while (wait(NULL) > 0)
        ;
}
