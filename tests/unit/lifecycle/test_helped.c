/* What brig's own processes use for the code is on the code's account (LC-11). */
#include "base/cleanup.h"
#include "lifecycle/lifecycle.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct policy policy;
static struct lifecycle life;

static void set_up(void)
{
    policy_init(&policy, LEVEL_HIGH);
    lifecycle_init(&life);
    life.policy = &policy;
    life.namespaced = true;
}

static void tear_down(void)
{
    policy_done(&policy);
}
TestSuite(helped, .init = set_up, .fini = tear_down);

/* A process that has used this much by now, and goes on. */
static pid_t busy(long usec)
{
    int ends[2];
    char byte;
    cr_assert_eq(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct timespec t = {0};
        for (bool told = false;;) {
            clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
            if (!told && t.tv_sec * 1000000 + t.tv_nsec / 1000 >= usec)
                told = write(ends[1], "+", 1) == 1;
        }
    }
    cr_assert_eq(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    close(ends[1]);
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void until(uint64_t usec)
{
    while (helped_look(&life) < usec)
        usleep(1000);
}

Test(helped, what_it_does_from_the_first_look_on_counts)
{
    life.helpers[HELPER_PROXY] = busy(50000);
    cr_assert_eq(helped_look(&life), 0, "it made itself ready");
    until(30000);
    life.reviewer = busy(0);
    helped_look(&life);
    uint64_t one = helped_look(&life);
    until(one + 20000);
    end(life.reviewer);
    end(life.helpers[HELPER_PROXY]);
    uint64_t all = helped_look(&life);
    cr_assert_geq(all, 50000, "they are gone, and what they did is not");
    life.reviewer = life.helpers[HELPER_PROXY] = 0;
    cr_assert_eq(helped_look(&life), all);
    life.reviewer = busy(40000);
    cr_assert_eq(helped_look(&life), all, "another one begins anew");
    until(all + 10000);
    end(life.reviewer);
}

Test(helped, it_is_against_the_limit_and_told)
{
    policy.cpu_time_ms = 40;
    lifecycle_settle(&life, 20000, 4096);
    cr_assert_eq(life.hit, LIMIT_NONE, "control: the code alone is below it");
    life.helpers[HELPER_PROXY] = busy(0);
    helped_look(&life);
    until(25000);
    end(life.helpers[HELPER_PROXY]);
    lifecycle_settle(&life, 20000, 4096);
    cr_assert_eq(life.hit, LIMIT_CPU_TIME);
    cr_assert_eq(life.usage.code_usec, 20000);
    cr_assert_geq(life.usage.cpu_usec, 45000);
}
