/* Looking at what processes have open: one that hides is noticed at once, one that only ends is not
 * taken for it. */
#include "lifecycle/sample.h"

#include "lifecycle/sample_parse.h"
#include "os/procfs.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>
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

Test(sample, a_line_of_maps_tells_device_and_file)
{
    struct sample_mapping m;
    const char *line = "ffff8000-ffff9000 r--s 00000000 fe:2b 1234                /a b (deleted)";
    cr_assert(sample_mapping_parse(line, &m));
    cr_assert_eq(m.from, 0xffff8000u);
    cr_assert_eq(m.to, 0xffff9000u);
    cr_assert_eq(m.dev, makedev(0xfe, 0x2b));
    cr_assert_eq(m.ino, 1234);
    cr_assert_str_eq(m.path, "/a b (deleted)");
    cr_assert(!sample_mapping_parse("1-2 r--s 0 fe 1234 /a (deleted)", &m));
    cr_assert(!sample_mapping_parse("1-2 r--s 0 fe:2b 1234 /a", &m));
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
    bool blind = sample_files(&l, &seen) < 0;
    lifecycle_unwatch(&l);
    policy_done(&policy);
    return blind;
}

/* What it sees of this process, with so many descriptors left. */
static int tasks_with(unsigned descriptors, uint64_t *ret_tasks)
{
    struct lifecycle l;
    struct sampled seen;
    struct policy policy;
    struct rlimit all, few;
    int next = dup(0);
    lifecycle_init(&l);
    policy_init(&policy, LEVEL_HIGH);
    l.policy = &policy;
    l.init_pid = getpid();
    close(next);
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &all), 0);
    few = (struct rlimit){.rlim_cur = (rlim_t)next + descriptors, .rlim_max = all.rlim_max};
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    int result = sample_tasks(&l, &seen);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &all), 0);
    policy_done(&policy);
    *ret_tasks = seen.tasks;
    return result;
}

Test(sample, who_cannot_be_looked_at_is_not_taken_for_gone)
{
    uint64_t tasks;
    cr_assert_eq(tasks_with(8, &tasks), 0);
    cr_assert_geq(tasks, 1, "the control: this process is seen");
    for (unsigned left = 0; left < 3; left++)
        cr_assert_eq(tasks_with(left, &tasks), -EMFILE, "with %u descriptors", left);
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

/* A child with so many groups and so much memory. */
static pid_t hog_of_groups(size_t groups, size_t bytes)
{
    int ready[2];
    char byte = 0;
    cr_assert_eq(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        gid_t list[512];
        char *room = malloc(bytes);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (size_t i = 0; i < groups; i++)
            list[i] = (gid_t)(4000000000u + i);
        memset(room, 1, bytes);
        if (setgroups(groups, list) == 0)
            (void)!write(ready[1], room, 1);
        for (;;)
            pause();
    }
    cr_assert_gt(pid, 0);
    cr_assert_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static uint64_t memory_of(pid_t pid)
{
    struct lifecycle l;
    struct sampled seen;
    struct policy policy;
    lifecycle_init(&l);
    policy_init(&policy, LEVEL_HIGH);
    l.policy = &policy;
    l.init_pid = pid;
    cr_assert_eq(sample_tasks(&l, &seen), 0);
    policy_done(&policy);
    return seen.memory;
}

Test(sample, memory_is_seen_behind_a_long_list_of_groups)
{
    if (geteuid() != 0)
        cr_skip_test("only root can have other groups");
    const size_t counts[] = {0, 400};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        pid_t pid = hog_of_groups(counts[i], 64u << 20);
        cr_expect_geq(memory_of(pid), 64u << 20, "with %zu groups", counts[i]);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
}

Test(sample, who_tells_of_no_memory_was_not_seen)
{
    cr_assert(sample_has_memory("Name:\ta\nGroups:\t1 \nRssAnon:\t       4 kB\n"));
    cr_assert_not(sample_has_memory("Name:\ta\nGroups:\t1 \nThreads:\t1\n"));
    struct lifecycle l;
    struct sampled seen;
    struct policy policy;
    lifecycle_init(&l);
    policy_init(&policy, LEVEL_HIGH);
    l.policy = &policy;
    l.init_pid = 2; /* where it can be seen, the kernel's own, which has none */
    struct proc_stat s;
    if (procfs_stat(2, &s) && strcmp(s.name, "kthreadd") == 0)
        cr_expect_eq(sample_tasks(&l, &seen), -EBADMSG);
    policy_done(&policy);
}

/* ---- a /proc that hides ---- */

static void mount_proc(const char *options)
{
    if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0)
        cr_skip_test("only root can mount a /proc");
    cr_assert_eq(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    cr_assert_eq(mount("proc", "/proc", "proc", 0, options), 0);
    be_an_ordinary_user();
}

Test(sample, nobody_hides_in_a_proc_that_shows_all)
{
    mount_proc("hidepid=0");
    cr_assert_eq(processes_can_hide(), 0);
}

Test(sample, who_can_hide_is_found_out_where_it_is_listed)
{
    mount_proc("hidepid=1");
    cr_assert_eq(processes_can_hide(), 1);
}

Test(sample, who_can_hide_is_found_out_where_it_is_not)
{
    mount_proc("hidepid=2");
    cr_assert_eq(processes_can_hide(), 1);
}

Test(sample, who_is_exempt_sees_all)
{
    mount_proc("hidepid=2,gid=65534");
    cr_assert_eq(processes_can_hide(), 0);
}
