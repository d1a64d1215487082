/* Real groups, where this user may make them. */
#include "os/cgroup.h"
#include "os/cgroup_internal.h"

#include "base/cleanup.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#define MIB (1024ULL * 1024)

static struct cgroup_host host;

static void plan(struct cgroup_group *g, const struct cgroup_limits *limits, const char *what)
{
    cgroup_discover(&host);
    if (host.version == CGROUP_NONE)
        cr_skip_test("no cgroup can be made: %s", host.why);
    char name[64];
    snprintf(name, sizeof name, "test-%s-%d", what, (int)getpid());
    struct err err = ERR_INIT;
    cr_assert_eq(cgroup_plan(&host, limits, name, g, &err), 0, "%s", err.message);
}

static void make(struct cgroup_group *g, const struct cgroup_limits *limits, const char *what)
{
    plan(g, limits, what);
    struct err err = ERR_INIT;
    cr_assert_eq(cgroup_make(g, limits, &err), 0, "%s", err.message);
}

/* A child that does `body` once it was moved into the group. */
static pid_t start(const struct cgroup_group *g, void (*body)(void))
{
    int gate[2];
    cr_assert_eq(pipe(gate), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char c;
        close(gate[1]);
        if (read(gate[0], &c, 1) != 1)
            _exit(9);
        body();
        _exit(0);
    }
    close(gate[0]);
    struct err err = ERR_INIT;
    cr_assert_eq(cgroup_attach(g, pid, &err), 0, "%s", err.message);
    cr_assert_eq(write(gate[1], "x", 1), 1);
    close(gate[1]);
    return pid;
}

static void nap(void)
{
    struct timespec ts = {.tv_sec = 60};
    nanosleep(&ts, NULL);
}

static void eat(void)
{
    size_t size = 96 * MIB;
    char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; p != MAP_FAILED && i < size; i += 4096)
        p[i] = 1;
}

/* Until they are killed. Who ends the test program in the middle does not end these: after the time
 * that a test has they end by themselves. */
static void spin(void)
{
    for (time_t end = time(NULL) + 60; time(NULL) < end;)
        ;
}

static void fork_forever(void)
{
    for (time_t end = time(NULL) + 60; time(NULL) < end;)
        (void)!fork();
}

static int reap(pid_t pid)
{
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

static bool gone(const struct cgroup_group *g)
{
    for (int i = 0; i < CGROUP_V1_HIERARCHIES; i++)
        if (g->dir[i][0] && access(g->dir[i], F_OK) == 0)
            return false;
    return true;
}

static void finish(struct cgroup_group *g)
{
    struct err err = ERR_INIT;
    cr_assert_eq(cgroup_kill(g, 5000, &err), 0, "%s", err.message);
    cr_assert_eq(cgroup_remove(g, 5000, &err), 0, "%s", err.message);
    cr_assert(gone(g));
    cr_assert_eq(cgroup_remove(g, 100, &err), 0, "removing twice is allowed");
}

Test(cgroup, discovery_explains_what_is_missing)
{
    cgroup_discover(&host);
    if (host.version == CGROUP_NONE) {
        cr_assert(host.why[0] && host.how[0]);
        return;
    }
    cr_assert(host.controllers & CGROUP_MEMORY);
    cr_assert(host.controllers & CGROUP_PIDS);
    cr_assert_eq(host.parent[0][0], '/');
}

Test(cgroup, an_ordinary_user_is_told_what_to_do)
{
    if (geteuid() != 0)
        cr_skip_test("needs root to become somebody else");
    cr_assert_eq(setresgid(65534, 65534, 65534), 0);
    cr_assert_eq(setresuid(65534, 65534, 65534), 0);
    cgroup_discover(&host);
    cr_assert_eq(host.version, CGROUP_NONE);
    cr_assert_gt(strlen(host.why), 10);
    cr_assert_gt(strlen(host.how), 10);
}

Test(cgroup, limits_are_set_and_verified)
{
    struct cgroup_limits limits = {
        .memory = 64 * MIB + 123, .pids = 10, .cpus_milli = 500, .cpu_time = true};
    struct cgroup_group g;
    make(&g, &limits, "limits");
    pid_t pid = start(&g, nap), self = getpid();
    struct err err = ERR_INIT;
    cr_assert_eq(cgroup_verify(&g, &limits, &pid, 1, &err), 0, "%s", err.message);
    cr_assert_lt(cgroup_verify(&g, &limits, &self, 1, &err), 0, "this process is not inside");
    cr_assert_eq(err.code, ERR_ATTEST);
    struct cgroup_limits other = limits;
    other.memory = 32 * MIB;
    cr_assert_lt(cgroup_verify(&g, &other, &pid, 1, &err), 0);
    other = limits;
    other.pids = 11;
    cr_assert_lt(cgroup_verify(&g, &other, &pid, 1, &err), 0);
    other = limits;
    other.cpus_milli = 600;
    cr_assert_lt(cgroup_verify(&g, &other, &pid, 1, &err), 0);
    struct cgroup_usage usage;
    cgroup_usage(&g, &usage);
    cr_assert_eq(usage.pids_now, 1);
    cr_assert_eq(usage.oom_kills, 0);
    cr_assert_eq(usage.pids_max_hits, 0);
    cr_assert_neq(usage.memory_now, UINT64_MAX);
    cr_assert_neq(usage.cpu_usec, UINT64_MAX);
    finish(&g);
    cr_assert(WIFSIGNALED(reap(pid)));
}

Test(cgroup, cpu_time_is_counted_and_throttled)
{
    struct cgroup_limits limits = {.cpus_milli = 20, .cpu_time = true};
    struct cgroup_group g;
    make(&g, &limits, "cpu");
    pid_t pid = start(&g, spin);
    /* 2 ms of every 100: also a machine where many others wait for a CPU gives it more than that,
     * sooner or later. */
    struct cgroup_usage usage = {0};
    for (time_t end = time(NULL) + 50;
         time(NULL) < end && (usage.cpu_usec < 10000 || usage.throttled_usec == 0);) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        cgroup_usage(&g, &usage);
    }
    cr_assert_gt(usage.throttled_usec, 0);
    cr_assert_geq(usage.cpu_usec, 10000);
    cr_assert_lt(usage.cpu_usec, 5000000);
    finish(&g);
    cr_assert(WIFSIGNALED(reap(pid)));
}

Test(cgroup, memory_bomb_has_a_verdict)
{
    struct cgroup_limits limits = {.memory = 32 * MIB, .pids = 10};
    struct cgroup_group g;
    make(&g, &limits, "bomb");
    int status = reap(start(&g, eat));
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    struct cgroup_usage usage;
    cgroup_usage(&g, &usage);
    cr_assert_geq(usage.oom_kills, 1);
    cr_assert(usage.memory_peak == UINT64_MAX || usage.memory_peak <= 32 * MIB);
    finish(&g);
}

Test(cgroup, memory_bomb_lives_without_a_limit)
{
    struct cgroup_limits limits = {.pids = 10};
    struct cgroup_group g;
    make(&g, &limits, "nolimit");
    cr_assert_eq(reap(start(&g, eat)), 0);
    struct cgroup_usage usage;
    cgroup_usage(&g, &usage);
    cr_assert_eq(usage.oom_kills, 0);
    finish(&g);
}

Test(cgroup, fork_bomb_is_contained_and_killed, .timeout = 60)
{
    struct cgroup_limits limits = {.memory = 512 * MIB, .pids = 200};
    struct cgroup_group g;
    make(&g, &limits, "forks");
    pid_t pid = start(&g, fork_forever);
    struct cgroup_usage usage;
    do
        cgroup_usage(&g, &usage);
    while (usage.pids_max_hits == 0);
    cr_assert_leq(usage.pids_now, 200);
    finish(&g);
    reap(pid);
}

Test(cgroup, the_guardian_empties_and_removes, .timeout = 60)
{
    struct cgroup_limits limits = {.memory = 512 * MIB, .pids = 150};
    struct cgroup_group g;
    make(&g, &limits, "guardian");
    pid_t pid = start(&g, fork_forever);
    usleep(20000);
    cr_assert_not(cgroup_kill_and_remove_child(&g, 5000));
    cr_assert(gone(&g));
    reap(pid);
    cr_assert_not(cgroup_kill_and_remove_child(&g, 5000));
}

/* A group in it that somebody else made is not the guardian's, and not worth waiting for. */
Test(cgroup, the_guardian_does_not_wait_for_what_others_made_in_it, .timeout = 120)
{
    struct cgroup_limits limits = {.pids = 10};
    struct cgroup_group g;
    char path[4200];
    make(&g, &limits, "others");
    pid_t pid = start(&g, nap);
    for (int i = 0; i < CGROUP_V1_HIERARCHIES; i++) {
        snprintf(path, sizeof path, "%s/of-others", g.dir[i]);
        cr_assert(!g.dir[i][0] || mkdir(path, 0700) == 0 || errno == EEXIST, "%s", path);
    }
    cr_expect_not(cgroup_kill_and_remove_child(&g, 5000), "nobody is in it");
    cr_expect(WIFSIGNALED(reap(pid)), "it was emptied all the same");
    cr_expect_not(gone(&g));
    for (int i = 0; i < CGROUP_V1_HIERARCHIES; i++) {
        snprintf(path, sizeof path, "%s/of-others", g.dir[i]);
        if (g.dir[i][0])
            rmdir(path);
    }
    finish(&g);
}

Test(cgroup, a_busy_group_is_not_removed_within_the_deadline)
{
    struct cgroup_limits limits = {.pids = 10};
    struct cgroup_group g;
    make(&g, &limits, "busy");
    pid_t pid = start(&g, nap);
    struct err err = ERR_INIT;
    cr_assert_lt(cgroup_remove(&g, 20, &err), 0);
    cr_assert_eq(err.sys_errno, EBUSY);
    finish(&g);
    reap(pid);
}

Test(cgroup, a_foreign_group_of_the_same_name_is_left_alone)
{
    struct cgroup_limits limits = {.memory = 64 * MIB, .pids = 10};
    struct cgroup_group first, second;
    make(&first, &limits, "twice");
    plan(&second, &limits, "twice");
    struct err err = ERR_INIT;
    cr_assert_lt(cgroup_make(&second, &limits, &err), 0);
    cr_assert_eq(err.sys_errno, EEXIST);
    pid_t pid = start(&first, nap);
    cgroup_kill_and_remove_child(&second, 5000);
    cr_assert_eq(waitpid(pid, NULL, WNOHANG), 0, "the first one's process lives");
    cr_assert_not(gone(&first));
    finish(&first);
    reap(pid);
}

Test(cgroup, plan_refuses_what_the_host_cannot_do)
{
    struct cgroup_host small = {.version = CGROUP_V2, .controllers = CGROUP_MEMORY | CGROUP_PIDS};
    snprintf(small.parent[0], sizeof small.parent[0], "/nowhere");
    snprintf(small.why, sizeof small.why, "no cpu here");
    snprintf(small.how, sizeof small.how, "do this");
    struct cgroup_limits limits = {.cpus_milli = 100};
    struct cgroup_group g;
    struct err err = ERR_INIT;
    cr_assert_lt(cgroup_plan(&small, &limits, "a", &g, &err), 0);
    cr_assert_eq(err.code, ERR_UNSUPPORTED);
    cr_assert_str_eq(err.hint, "do this");
    limits.cpus_milli = 0;
    cr_assert_eq(cgroup_plan(&small, &limits, "a", &g, &err), 0);
    cr_assert_str_eq(g.dir[0], "/nowhere/brig-a");
    static const char *const bad[] = {"", "..", "a/b", "A", "a b", "a\n"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        cr_assert_lt(cgroup_plan(&small, &limits, bad[i], &g, &err), 0);
    memset(small.parent[0], 'p', sizeof small.parent[0] - 1);
    cr_assert_lt(cgroup_plan(&small, &limits, "a", &g, &err), 0);
    cr_assert_eq(err.code, ERR_LIMIT);
}

Test(cgroup, shared_hierarchies_count_once)
{
    struct cgroup_group g = {.version = CGROUP_V1};
    snprintf(g.dir[SLOT_CPU], sizeof g.dir[0], "/c/x");
    snprintf(g.dir[SLOT_CPUACCT], sizeof g.dir[0], "/c/x");
    cr_assert(cgroup_slot_is_first(&g, SLOT_CPU));
    cr_assert_not(cgroup_slot_is_first(&g, SLOT_CPUACCT));
    cr_assert_not(cgroup_slot_is_first(&g, SLOT_MEMORY));
}

Test(cgroup, texts)
{
    const char *events = "low 0\nhigh 0\nmax 7\noom 2\noom_kill 3\noom_group_kill 1\n";
    cr_assert_eq(cgroup_keyed_u64(events, "oom_kill"), 3);
    cr_assert_eq(cgroup_keyed_u64(events, "max"), 7);
    cr_assert_eq(cgroup_keyed_u64(events, "low"), 0);
    cr_assert_eq(cgroup_keyed_u64(events, "kill"), UINT64_MAX);
    cr_assert_eq(cgroup_keyed_u64("", "max"), UINT64_MAX);
    cr_assert_eq(cgroup_keyed_u64("max 99999999999999999999\n", "max"), UINT64_MAX);
    cr_assert(cgroup_has_word("cpuset cpu io memory pids\n", "cpu"));
    cr_assert(cgroup_has_word("cpuset cpu io memory pids\n", "pids"));
    cr_assert_not(cgroup_has_word("cpuset io\n", "cpu"));
    cr_assert_eq(cgroup_bandwidth_of(1500).quota_us, 150000);
    cr_assert_eq(cgroup_bandwidth_of(1).quota_us, 1000);
    cr_assert_eq(cgroup_bandwidth_of(1).period_us, 1000000);
}

/* Numbers for the log: what one sandbox pays. The bound is loose, the machine may be shared. */
Test(cgroup, is_fast_enough)
{
    struct cgroup_limits limits = {.memory = 64 * MIB, .pids = 10, .cpus_milli = 1000};
    struct cgroup_group g;
    struct timespec a, b;
    double best = 1e9;
    for (int i = 0; i < 20; i++) {
        plan(&g, &limits, "fast");
        clock_gettime(CLOCK_MONOTONIC, &a);
        cr_assert_eq(cgroup_make(&g, &limits, NULL), 0);
        clock_gettime(CLOCK_MONOTONIC, &b);
        double us = (double)(b.tv_sec - a.tv_sec) * 1e6 + (double)(b.tv_nsec - a.tv_nsec) / 1e3;
        best = us < best ? us : best;
        finish(&g);
    }
    cr_log_info("make + limits: %.0f us\n", best);
    cr_assert_lt(best, 5000);
}
