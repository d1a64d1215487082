/* Everything below the supervisor is found and killed, however it hides or how deep it lies. */
#include "lifecycle/guardian.h"
#include "os/procfs.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const pid_t nobody[GUARDIAN_HELPERS];

static _Noreturn void sleep_on(void)
{
    for (;;)
        pause();
}

static void *wait_forever(void *ctx)
{
    (void)ctx;
    sleep_on();
}

static bool is_killed(pid_t pid)
{
    int status;
    return waitpid(pid, &status, WNOHANG) == pid && WIFSIGNALED(status) &&
           WTERMSIG(status) == SIGKILL;
}

/* Signals were sent; a process that got one is gone a little later. */
static bool await_killed(pid_t pid)
{
    for (int i = 0; i < 6000; i++) {
        if (is_killed(pid))
            return true;
        usleep(10000);
    }
    return false;
}

Test(guardian, a_process_whose_first_thread_has_ended_is_killed, .timeout = 120)
{
    struct proc_stat s;
    pid_t pid = fork();
    if (pid == 0) {
        pthread_t thread;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pthread_create(&thread, NULL, wait_forever, NULL);
        syscall(SYS_exit, 0); /* of this thread alone */
    }
    cr_assert_gt(pid, 0);
    while (procfs_stat(pid, &s) && !s.ended)
        usleep(1000);
    cr_assert_eq(waitpid(pid, NULL, WNOHANG), 0, "the control: it lives");
    cr_assert(guardian_has_children(0, nobody));
    cr_assert(guardian_kill_children(getpid(), 0, nobody));
    cr_assert(await_killed(pid));
}

/* Each is the parent of the next; the last one says that it is there. */
static _Noreturn void descend(int depth, int say)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (pid_t pid; depth > 0 && (pid = fork()) <= 0;) {
        if (pid < 0)
            _exit(1);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (--depth == 0)
            (void)!write(say, "x", 1);
    }
    sleep_on();
}

Test(guardian, a_long_chain_is_killed, .timeout = 300)
{
    int ready[2];
    char byte;
    cr_assert_eq(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0)
        descend(64, ready[1]);
    cr_assert_gt(pid, 0);
    close(ready[1]);
    cr_assert_eq(read(ready[0], &byte, 1), 1);
    cr_assert(guardian_kill_children(getpid(), 0, nobody));
    cr_assert(await_killed(pid));
    cr_assert_eq(read(ready[0], &byte, 1), 0, "nobody holds the other end any more");
}

Test(guardian, helpers_and_what_is_below_them_are_spared, .timeout = 120)
{
    int ready[2];
    char byte;
    cr_assert_eq(pipe(ready), 0);
    pid_t helper = fork();
    if (helper == 0)
        descend(1, ready[1]);
    close(ready[1]);
    cr_assert_eq(read(ready[0], &byte, 1), 1);
    pid_t other = fork();
    if (other == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        sleep_on();
    }
    const pid_t helpers[GUARDIAN_HELPERS] = {helper};
    cr_assert(guardian_kill_children(getpid(), 0, helpers));
    cr_assert(await_killed(other));
    cr_assert_eq(waitpid(helper, NULL, WNOHANG), 0);
    cr_assert(guardian_kill_children(getpid(), 0, nobody));
    cr_assert(await_killed(helper));
}
