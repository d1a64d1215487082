#include "lifecycle/guardian.h"

#include "base/cleanup.h"
#include "os/sys.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define STACK_BYTES (64u << 10)

void guardian_init(struct guardian *g)
{
    memset(g, 0, sizeof *g);
    g->pidfd = -1;
    g->pipe_fd = -1;
}

/* The child's end of the pipe has to be known in the shared memory before it starts. */
struct guardian_start {
    struct guardian *guardian;
    int read_fd;
};

static struct guardian_start start_args;

static int trampoline(void *argument)
{
    struct guardian_start *s = argument;
    if (dup2(s->read_fd, 0) < 0)
        return 1;
    return guardian_main(s->guardian);
}

int guardian_start(struct guardian *g, struct err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_sys(err, "pipe for the guardian");
    g->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (g->stack == MAP_FAILED) {
        g->stack = NULL;
        close(ends[0]);
        close(ends[1]);
        return err_sys(err, "stack for the guardian");
    }
    g->supervisor = getpid();
    start_args = (struct guardian_start){.guardian = g, .read_fd = ends[0]};
    /* CLONE_VM without CLONE_THREAD: a process of its own that SIGKILL of the supervisor does not take along, for the
     * price of a kernel stack. */
    g->pid = clone(trampoline, (char *)g->stack + STACK_BYTES, CLONE_VM | CLONE_PIDFD | SIGCHLD, &start_args,
                   &g->pidfd, NULL, NULL);
    close(ends[0]);
    if (g->pid < 0) {
        close(ends[1]);
        g->pid = 0;
        return err_sys(err, "start the guardian");
    }
    g->pipe_fd = ends[1];
    return 0;
}

void guardian_dismiss(struct guardian *g)
{
    if (g->pid > 0) {
        if (write(g->pipe_fd, "d", 1) != 1)
            kill(g->pid, SIGKILL);
        while (waitpid(g->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    if (g->pipe_fd >= 0)
        close(g->pipe_fd);
    if (g->pidfd >= 0)
        close(g->pidfd);
    if (g->stack)
        munmap(g->stack, STACK_BYTES);
    guardian_init(g);
}
