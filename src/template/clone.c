/* The template process: takes requests of wardens and makes a clone for each. */
#include "template/clone.h"

#include "os/raw_child.h"
#include "os/sys.h"
#include "template/become_child.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

/* The network's is made by a helper while the root is built, the cgroup's after the clone is in its
 * group. Memory is T's own until init's image is executed: the kernel copies no page tables for a
 * process that only sets things up, and T stands still meanwhile. */
#define CLONE_FLAGS                                                                                \
    (CLONE_VM | CLONE_VFORK | CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC |          \
     CLONE_NEWUTS)

#define STATES_MAX 16

static struct clone_job job;
static struct {
    void *at;
    size_t len;
} states[STATES_MAX];
static unsigned state_count;

int template_random(void *state, size_t len)
{
    if (state_count == STATES_MAX || len > (64u << 10))
        return -ENOSPC;
    states[state_count].at = state;
    states[state_count++].len = len;
    return 0;
}

static char **expected;

int template_remember(void)
{
    size_t count = 0;
    while (environ[count])
        count++;
    char **copy = calloc(count + 1, sizeof *copy);
    for (size_t i = 0; copy && i < count; i++)
        if (!(copy[i] = strdup(environ[i])))
            return -ENOMEM;
    expected = copy;
    return copy ? 0 : -ENOMEM;
}

static void renew_states(void)
{
    unsigned seeds[2];
    if (getrandom(seeds, sizeof seeds, 0) != sizeof seeds)
        _exit(125);
    srandom(seeds[0]);
    srand48((long)seeds[1]);
    for (unsigned i = 0; i < state_count; i++)
        for (size_t done = 0; done < states[i].len;) {
            ssize_t n = getrandom((char *)states[i].at + done, states[i].len - done, 0);
            if (n < 0 && errno != EINTR)
                _exit(125);
            done += n > 0 ? (size_t)n : 0;
        }
}

static bool is_sound(const struct clone_job *j, ssize_t len)
{
    const struct clone_request *r = &j->request;
    return len == (ssize_t)sizeof *r && r->magic == CLONE_MAGIC && r->join_count <= CLONE_FDS_MAX &&
           r->tree_count <= CLONE_FDS_MAX &&
           j->fd_count == CLONE_FD_MORE + r->join_count + r->tree_count;
}

static void take_fds(struct clone_job *j, struct msghdr *m)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        unsigned count = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(j->fds, CMSG_DATA(c), count * sizeof(int));
        j->fd_count = count;
    }
}

static void drop_fds(struct clone_job *j)
{
    while (j->fd_count)
        close(j->fds[--j->fd_count]);
}

/* 1: a request; 0: nonsense, dropped; -ENOTCONN: the end; other negative errno. */
static int take_request(int door, struct clone_job *j)
{
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(CLONE_FDS_MAX * sizeof(int))];
    } control;
    struct iovec iov = {.iov_base = &j->request, .iov_len = sizeof j->request};
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = &control,
                       .msg_controllen = sizeof control};
    j->fd_count = 0;
    ssize_t n = recvmsg(door, &m, MSG_CMSG_CLOEXEC);
    if (n <= 0)
        return n == 0 ? -ENOTCONN : errno == EINTR ? 0 : -errno;
    take_fds(j, &m);
    if (is_sound(j, n) && !(m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
        return 1;
    drop_fds(j);
    return 0;
}

/* Kernel quotas of a user namespace are charged to its maker: a template of root's makes each
 * under the clone's own uid. */
static int take_uid(uid_t uid, gid_t gid)
{
    if (syscall(SYS_setresgid, -1, gid, -1) < 0 || syscall(SYS_setresuid, -1, uid, -1) < 0)
        return -errno;
    return 0;
}

/* After the call the two processes have one stack, and T goes on with this frame when A is done: A
 * must not leave it, and whatever it calls lies below. B, which has its own copy, may. */
static __attribute__((noinline)) int start_clone(struct clone_job *j)
{
    struct sys_clone_args args = {.flags = CLONE_FLAGS, .exit_signal = SIGCHLD};
    volatile int in_clone = 0;
    long pid = raw_syscall(SYS_clone3, (long)&args, sizeof args, 0, 0);
    if (pid == 0) {
        in_clone = become_child(j);
        __asm__ volatile("" ::: "memory"); /* no jump instead of a call */
    }
    return pid < 0 ? (int)pid : in_clone;
}

static void report_failure(const struct clone_job *j, int code)
{
    struct ctl_msg msg = {.type = CTL_FAIL};
    errno = -code;
    err_sys(&msg.err, "clone the template");
    err_at(&msg.err, BOUNDARY_KERNEL);
    send(j->fds[CLONE_FD_CTL], &msg, sizeof msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static int serve_one(struct clone_job *j)
{
    uid_t uid = geteuid();
    gid_t gid = getegid();
    bool other = j->request.outside_uid != uid || j->request.outside_gid != gid;
    int result = other ? take_uid(j->request.outside_uid, j->request.outside_gid) : 0;
    /* Changing the uid makes a process undumpable, and then it cannot open its own /proc files. */
    prctl(PR_SET_DUMPABLE, 1);
    j->template_pid = getpid();
    if (result == 0)
        result = start_clone(j);
    if (result == 1)
        return 1;
    if (other && take_uid(uid, gid) < 0)
        _exit(125);
    prctl(PR_SET_DUMPABLE, 1);
    if (result < 0)
        report_failure(j, result);
    drop_fds(j);
    return 0;
}

/* ---- in the clone ---- */

static bool was_expected(const char *entry)
{
    for (char **e = expected; *e; e++)
        if (strcmp(*e, entry) == 0)
            return true;
    return false;
}

static bool is_environ_expected(void)
{
    size_t here = 0, there = 0;
    bool same = expected != NULL;
    for (char **e = job.envp; same && *e; e++, here++)
        same = was_expected(*e);
    for (char **e = expected; same && *e; e++)
        there++;
    return same && here == there;
}

char **template_environ(void)
{
    return job.envp;
}

int template_serve(int door)
{
    /* T does not wait for its clones: their wardens watch them. */
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
        int got = take_request(door, &job);
        if (got < 0)
            return got == -ENOTCONN ? 0 : got;
        if (got > 0 && serve_one(&job) == 1) {
            renew_states();
            return is_environ_expected() ? 1 : 2;
        }
    }
}
