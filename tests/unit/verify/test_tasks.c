/* An engine's tasks are told from those of a stranger whose sandbox began when the engine had
 * ended. */
#include "verify/tasks.h"

#include "os/procfs.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define STRANGERS 8

/* A process in a pid namespace of its own, under this name. */
static pid_t stand(const char *name)
{
    unsigned long flags = CLONE_NEWPID | (geteuid() ? CLONE_NEWUSER : 0) | SIGCHLD;
    pid_t pid = (pid_t)syscall(SYS_clone, flags, NULL, NULL, NULL, NULL);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        prctl(PR_SET_NAME, name, 0, 0, 0);
        for (;;)
            pause();
    }
    cr_assert(pid > 0);
    struct proc_stat s;
    while (procfs_stat(pid, &s) && strcmp(s.name, name) != 0)
        usleep(1000);
    return pid;
}

static void fall(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

Test(tasks, a_stranger_that_comes_later_is_none_of_them)
{
    struct tasks t = {0};
    pid_t engine = stand(".brig-tool"), strangers[STRANGERS];
    tasks_find(&t, getpid());
    cr_assert(t.count == 1 && t.list[0].pid == engine && t.pid_ns);
    cr_assert(tasks_alive(&t, false) == 1);
    fall(engine);
    /* One of these gets the number of the engine's namespace, unless that is held. */
    for (int i = 0; i < STRANGERS; i++)
        strangers[i] = stand("stranger");
    cr_assert(tasks_alive(&t, true) == 0);
    for (int i = 0; i < STRANGERS; i++) {
        cr_assert(waitpid(strangers[i], NULL, WNOHANG) == 0, "and all of them live");
        fall(strangers[i]);
    }
    tasks_done(&t);
    cr_assert(!t.pid_ns && !t.count);
}

Test(tasks, those_that_are_left_are_found_and_ended)
{
    struct tasks t = {0};
    pid_t engine = stand("brig-gvisor");
    tasks_find(&t, getpid());
    tasks_find(&t, getpid()); /* again: nothing is kept of the first time */
    cr_assert(t.count == 1 && tasks_alive(&t, true) == 1);
    waitpid(engine, NULL, 0);
    cr_assert(tasks_alive(&t, false) == 0);
    tasks_done(&t);
}
