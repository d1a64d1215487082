/* Starts and dismisses the guardian; what it does then is in guardian_child.c. */
#include "lifecycle/guardian.h"

#include "base/cleanup.h"
#include "os/sys.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define STACK_BYTES (64u << 10)

void guardian_init(struct guardian *g)
{
    memset(g, 0, sizeof *g);
    g->pidfd = -1;
}

int guardian_start(struct guardian *g, struct err *err)
{
    g->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (g->stack == MAP_FAILED) {
        g->stack = NULL;
        return err_sys(err, "stack for the guardian");
    }
    g->supervisor = getpid();
    /* CLONE_VM without CLONE_THREAD: a process of its own that SIGKILL of the supervisor does not
     * take along, for the price of a kernel stack. */
    g->pid = clone(guardian_main, (char *)g->stack + STACK_BYTES, CLONE_VM | CLONE_PIDFD | SIGCHLD,
                   g, &g->pidfd, NULL, NULL);
    if (g->pid < 0) {
        g->pid = 0;
        return err_sys(err, "start the guardian");
    }
    return 0;
}

void guardian_dismiss(struct guardian *g)
{
    if (g->pid > 0) {
        /* It has nothing to clean any more, and may be stopped: do not ask, end it. */
        if (kill(g->pid, SIGKILL) < 0) /* it is waited for: there is a second way */
            sys_pidfd_send_signal(g->pidfd, SIGKILL);
        while (waitpid(g->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    if (g->pidfd >= 0)
        close(g->pidfd);
    if (g->stack)
        munmap(g->stack, STACK_BYTES);
    guardian_init(g);
}
