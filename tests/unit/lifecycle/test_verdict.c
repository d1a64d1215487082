/* Which limit gets the blame: the first that was hit, unless the kernel killed for memory. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "lifecycle/lifecycle.h"
#include "lifecycle/sample.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

static struct policy policy;
static struct lifecycle life;
static char folder[64];

static void set_up(void)
{
    policy_init(&policy, LEVEL_HIGH);
    lifecycle_init(&life);
    life.policy = &policy;
    life.namespaced = true;
    folder[0] = '\0';
}

static void tear_down(void)
{
    char path[128];
    for (int i = 0; *folder && i < 8; i++) {
        snprintf(path, sizeof path, "%s/%d", folder, i);
        unlink(path);
    }
    if (*folder)
        rmdir(folder);
    if (life.work_fd >= 0)
        close(life.work_fd);
    policy_done(&policy);
}

TestSuite(verdict, .init = set_up, .fini = tear_down);

Test(verdict, every_limit_has_a_name_but_none)
{
    cr_assert_null(limit_name(LIMIT_NONE));
    for (int a = LIMIT_TIMEOUT; a <= LIMIT_OUTPUT; a++)
        for (int b = LIMIT_TIMEOUT; b < a; b++)
            cr_assert_str_neq(limit_name((enum limit)a), limit_name((enum limit)b));
    cr_assert_str_eq(limit_name(LIMIT_OUTPUT), "output");
    cr_assert_str_eq(limit_name(LIMIT_OPEN_FILES), "open_files");
}

Test(verdict, a_modest_run_has_none)
{
    policy.cpu_time_ms = 1000;
    lifecycle_settle(&life, 999999, 4096);
    cr_assert_eq(life.hit, LIMIT_NONE);
    cr_assert(life.usage.cpu_usec == 999999 && life.usage.memory_peak == 4096);
}

Test(verdict, cpu_time_is_also_seen_at_the_end)
{
    policy.cpu_time_ms = 1000;
    lifecycle_settle(&life, 1000000, 0);
    cr_assert_eq(life.hit, LIMIT_CPU_TIME);
}

Test(verdict, unlimited_cpu_time_is_never_over)
{
    lifecycle_settle(&life, UINT64_MAX, 0);
    cr_assert_eq(life.hit, LIMIT_NONE);
}

Test(verdict, the_first_limit_keeps_the_blame)
{
    policy.cpu_time_ms = 1;
    life.hit = LIMIT_TIMEOUT;
    lifecycle_settle(&life, 5000000, 0);
    cr_assert_eq(life.hit, LIMIT_TIMEOUT);
}

Test(verdict, a_kill_for_memory_takes_it)
{
    life.hit = LIMIT_PIDS;
    life.usage.oom_kills = 1;
    lifecycle_settle(&life, 0, 0);
    cr_assert_eq(life.hit, LIMIT_MEMORY);
}

Test(verdict, usage_only_grows)
{
    life.usage.cpu_usec = life.usage.code_usec = 500;
    life.usage.memory_peak = 900;
    lifecycle_settle(&life, 100, 100);
    cr_assert(life.usage.cpu_usec == 500 && life.usage.memory_peak == 900);
}

Test(verdict, an_exact_peak_is_not_replaced)
{
    life.usage.memory_exact = true;
    life.usage.memory_peak = 100;
    lifecycle_settle(&life, 0, 5000);
    cr_assert_eq(life.usage.memory_peak, 100);
}

Test(verdict, without_cgroups_it_looks_more_often)
{
    unsigned sampled = lifecycle_sample_ms(&life);
    life.cgroup = true;
    cr_assert_lt(sampled, lifecycle_sample_ms(&life));
}

/* ---- the private folder of the process tier ---- */

static void fill_folder(int files, size_t bytes)
{
    char path[128];
    cleanup_free char *data = calloc(1, bytes);
    snprintf(folder, sizeof folder, "/var/tmp/test-verdict-XXXXXX");
    cr_assert(mkdtemp(folder));
    for (int i = 0; i < files; i++) {
        snprintf(path, sizeof path, "%s/%d", folder, i);
        cleanup_fd int fd = open(path, O_CREAT | O_WRONLY, 0600);
        memset(data, 'x', bytes);
        cr_assert_eq(write(fd, data, bytes), (ssize_t)bytes);
    }
    life.namespaced = false;
    life.work_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

Test(verdict, a_folder_within_its_limits)
{
    fill_folder(4, 1 << 16);
    lifecycle_settle(&life, 0, 0);
    cr_assert_eq(life.hit, LIMIT_NONE);
    cr_assert_not(life.unmeasured);
}

Test(verdict, too_many_bytes)
{
    fill_folder(4, 1 << 16);
    policy.disk = 1 << 17;
    lifecycle_settle(&life, 0, 0);
    cr_assert_eq(life.hit, LIMIT_DISK);
}

Test(verdict, too_many_files)
{
    fill_folder(6, 1);
    policy.inodes = 3;
    lifecycle_settle(&life, 0, 0);
    cr_assert_eq(life.hit, LIMIT_INODES);
}

Test(verdict, a_full_folder_does_not_hide_a_timeout)
{
    fill_folder(4, 1 << 16);
    policy.disk = 1 << 17;
    life.hit = LIMIT_TIMEOUT;
    lifecycle_settle(&life, 0, 0);
    cr_assert_eq(life.hit, LIMIT_TIMEOUT);
}

/* ---- a session goes on ---- */

static pid_t start_hog(size_t mib)
{
    int ready[2];
    cr_assert_eq(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        size_t size = mib << 20;
        char *room = malloc(size);
        memset(room, 1, size);
        (void)!write(ready[1], room, 1);
        for (;;)
            pause();
    }
    char byte;
    cr_assert_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

/* A /proc of its own is that of a pid namespace: the largest process of all would be somebody
 * else's. */
static void in_own_namespace(void (*fn)(void))
{
    if (unshare(CLONE_NEWPID | CLONE_NEWNS) < 0)
        cr_skip_test("needs root");
    pid_t init = fork();
    if (init == 0) {
        if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("proc", "/proc", "proc", 0, NULL) < 0)
            _exit(77);
        fn();
        _exit(0);
    }
    int status;
    cr_assert_eq(waitpid(init, &status, 0), init);
    cr_assert(WIFEXITED(status));
    cr_assert_eq(WEXITSTATUS(status), 0, "line %d", WEXITSTATUS(status));
}

#define CHECK(is)                                                                                  \
    do {                                                                                           \
        if (!(is))                                                                                 \
            _exit(__LINE__ & 0xff ? __LINE__ & 0xff : 1);                                          \
    } while (0)

static void kill_the_largest(void)
{
    int status;
    life.session = true;
    life.proc_fd = open("/proc", O_RDONLY | O_DIRECTORY);
    pid_t small = start_hog(8), large = start_hog(64);
    policy.memory = 48u << 20;
    CHECK(lifecycle_sample(&life) == LIMIT_MEMORY);
    CHECK(lifecycle_relieve(&life));
    CHECK(life.usage.outlived == 1 && life.hit == LIMIT_NONE && !life.over_memory);
    /* It may still be going; nobody else is killed for that. */
    life.over_memory = true;
    CHECK(waitpid(large, &status, 0) == large && WTERMSIG(status) == SIGKILL);
    CHECK(waitpid(small, &status, WNOHANG) == 0);
    CHECK(lifecycle_sample(&life) == LIMIT_NONE);
    /* Nobody left but init: there is nothing to be gained. */
    kill(small, SIGKILL);
    CHECK(waitpid(small, &status, 0) == small);
    life.over_memory = true;
    CHECK(!lifecycle_relieve(&life));
}

Test(verdict, a_session_loses_the_process_that_has_most)
{
    in_own_namespace(kill_the_largest);
}

Test(verdict, a_session_outlives_the_kernels_kills)
{
    life.session = true;
    life.usage.oom_kills = 2;
    life.over_memory = true;
    life.hit = LIMIT_MEMORY;
    cr_assert(lifecycle_relieve(&life));
    cr_assert(life.usage.outlived == 2 && life.oom_seen == 2 && life.usage.oom_kills == 0);
    lifecycle_settle(&life, 0, 0);
    cr_assert_eq(life.hit, LIMIT_NONE, "which is no reason of its end");
    cr_assert_not(life.over_memory);
}

Test(verdict, a_run_outlives_none)
{
    life.usage.oom_kills = 1;
    life.over_memory = true;
    cr_assert_not(lifecycle_relieve(&life));
    cr_assert_eq(life.usage.oom_kills, 1);
}

/* ---- who looks, and does not come back (LC-6) ---- */

static void hang(void *ctx, const void *ask, const int fds[ERRAND_FDS], void *answer)
{
    (void)ctx, (void)ask, (void)fds, (void)answer;
    for (;;)
        pause();
}

static void watch_all(void)
{
    life.looks = life.looks_disk = true;
    life.init_pid = getpid();
    life.sampler = sampler_new();
    cr_assert_not_null(life.sampler);
    policy.memory = UINT64_C(1) << 60;
    policy.origin[FIELD_MEMORY].kind = ORIGIN_OPTION;
}

static void unwatch(void)
{
    lifecycle_unwatch(&life);
}

Test(verdict, a_look_that_hangs_holds_up_nobody_and_ends_the_run)
{
    uint64_t before, longest = 0, start = clock_us();
    enum limit hit = LIMIT_NONE;
    fill_folder(1, 1);
    watch_all();
    life.looker.fn = hang;
    while (hit == LIMIT_NONE && clock_us() - start < 100000000u) {
        before = clock_us();
        hit = lifecycle_sample(&life);
        longest = clock_us() - before > longest ? clock_us() - before : longest;
        usleep(25000);
    }
    cr_assert_eq(hit, LIMIT_MEMORY, "it was watched too");
    cr_assert_geq(clock_us() - start, 4000000u, "not at the first one");
    cr_assert_lt(longest, 2000000u);
    unwatch();
}

/* It needs a processor, and gets it. */
static void spin(void *ctx, const void *ask, const int fds[ERRAND_FDS], void *answer)
{
    (void)ctx, (void)ask, (void)fds, (void)answer;
    for (volatile bool on = true; on;)
        ;
}

Test(verdict, only_waiting_for_a_processor_is_no_silence)
{
    cr_assert_eq(aside_silence(true, 0, 25000), 0);
    cr_assert_eq(aside_silence(true, 10000, 25000), 10000, "what it works counts");
    cr_assert_eq(aside_silence(true, 90000, 25000), 25000);
    cr_assert_eq(aside_silence(false, 0, 25000), 25000, "and so does what it is held up");
    fill_folder(1, 1);
    watch_all();
    life.looker.fn = spin;
    cr_assert_eq(lifecycle_sample(&life), LIMIT_NONE);
    uint64_t worked = 0, start = clock_us();
    while (worked < 100000u && clock_us() - start < 100000000u) {
        worked += aside_silent_for(&life, 1000000u);
        usleep(25000);
    }
    cr_assert_geq(worked, 100000u);
    cr_assert_leq(worked, clock_us() - start + 100000u, "and no more than it did");
    unwatch();
}

Test(verdict, the_control_answers)
{
    fill_folder(4, 1 << 16);
    watch_all();
    for (int i = 0; i < 400 && !life.looked.work.inodes; i++) {
        cr_assert_eq(lifecycle_sample(&life), LIMIT_NONE);
        usleep(25000);
    }
    cr_assert_eq(life.looked.work.inodes, 4);
    policy.disk = 1 << 17;
    cr_assert_eq(lifecycle_sample(&life), LIMIT_DISK);
    unwatch();
}

static void see_half(void *ctx, const void *ask, const int fds[ERRAND_FDS], void *answer)
{
    const struct lifecycle *l = ctx;
    (void)ask, (void)fds;
    *(struct looked *)answer = (struct looked){.blind = true, .work.bytes = l->policy->disk / 2};
}

/* That the limit was reached would be as untrue as that it was kept. */
Test(verdict, a_last_look_that_fails_says_so_and_nothing_else)
{
    errand_fn *const failing[] = {hang, see_half};
    fill_folder(1, 1);
    for (size_t i = 0; i < 2; i++) {
        life.looker.fn = failing[i];
        life.unmeasured = false;
        lifecycle_settle(&life, 0, 0);
        cr_assert(life.unmeasured, "look %zu", i);
        cr_assert_eq(life.hit, LIMIT_NONE, "look %zu", i);
    }
    unwatch();
}

Test(verdict, what_half_a_last_look_saw_counts)
{
    fill_folder(1, 1);
    life.looker.fn = see_half;
    policy.disk = 0;
    lifecycle_settle(&life, 0, 0);
    cr_assert(life.unmeasured && life.hit == LIMIT_DISK);
    unwatch();
}

/* A supervisor that was stopped for a while has not been waiting. */
Test(verdict, time_without_samples_is_no_silence)
{
    fill_folder(1, 1);
    watch_all();
    life.looker.fn = hang;
    cr_assert_eq(lifecycle_sample(&life), LIMIT_NONE);
    life.sampler->last_us -= 60000000u;
    cr_assert_eq(lifecycle_sample(&life), LIMIT_NONE);
    unwatch();
}

/* ---- nobody can look (LC-6) ---- */

/* What is said after a while of a container without a cgroup whose processes cannot be listed. */
static enum limit after_seeing_nothing(bool sees)
{
    int ends[2];
    enum limit hit = LIMIT_NONE;
    cr_assert_eq(pipe(ends), 0);
    life.init_pid = getpid();
    life.sampler = sampler_new();
    cr_assert_not_null(life.sampler);
    life.proc_fd = sees ? open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : ends[0]; /* no folder */
    for (int i = 0; i < 200 && hit == LIMIT_NONE; i++) {
        hit = lifecycle_sample(&life);
        life.sampler->last_us -= 25000; /* as if so much later */
    }
    lifecycle_unwatch(&life);
    close(ends[1]);
    return hit;
}

Test(verdict, memory_that_is_watched_by_nobody_ends_the_run)
{
    cr_assert_not(life.looks);
    policy.memory = UINT64_C(1) << 60;
    cr_assert_eq(after_seeing_nothing(true), LIMIT_NONE, "the control");
    cr_assert_eq(after_seeing_nothing(false), LIMIT_MEMORY);
}

Test(verdict, cpu_time_that_is_watched_by_nobody_ends_the_run)
{
    policy.memory = POLICY_UNLIMITED;
    policy.cpu_time_ms = 1000;
    cr_assert_eq(after_seeing_nothing(true), LIMIT_NONE, "the control");
    cr_assert_eq(after_seeing_nothing(false), LIMIT_CPU_TIME);
}

Test(verdict, where_nothing_is_watched_nobody_need_see)
{
    policy.memory = policy.cpu_time_ms = POLICY_UNLIMITED;
    cr_assert_eq(after_seeing_nothing(false), LIMIT_NONE);
}
