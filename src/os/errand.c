/* Errands: forks the child, sends it a question with descriptors, waits for the answer no longer
 * than allowed, and kills it. */
#include "os/errand.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "os/rights.h"
#include "os/sys.h"
#include "os/weaken.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define MESSAGE_MAX 8192
/* A child that was killed is gone as soon as it has had a processor. One that is not gone by then
 * is held by the kernel. */
#define GONE_US 500000u

void errand_init(struct errand *e, errand_fn *fn, void *ctx, size_t ask_size, size_t answer_size)
{
    *e = (struct errand){
        .fn = fn, .ctx = ctx, .ask_size = ask_size, .answer_size = answer_size, .fd = -1};
}

/* ---- the child ---- */

static int next_kept(const struct errand *e, int own, int from)
{
    int next = own >= from ? own : -1;
    for (unsigned i = 0; i < ERRAND_KEEPS; i++)
        if (e->keep[i] && *e->keep[i] >= from && (next < 0 || *e->keep[i] < next))
            next = *e->keep[i];
    return next;
}

/* ER-3 */
static void close_others(const struct errand *e, int own)
{
    int from = 0;
    for (int kept; (kept = next_kept(e, own, from)) >= 0; from = kept + 1)
        if (kept > from)
            sys_close_range((unsigned)from, (unsigned)kept - 1, 0);
    sys_close_range((unsigned)from, ~0u, 0);
}

/* A mask of the places goes in front, for SCM_RIGHTS cannot carry holes. */
static ssize_t receive(int fd, void *ask, size_t size, int fds[ERRAND_FDS])
{
    int got[ERRAND_FDS] = {-1, -1};
    unsigned char places = 0;
    struct iovec iov[] = {{&places, 1}, {ask, size}};
    struct rights rights = {.fds = got, .room = ERRAND_FDS};
    ssize_t n = rights_receive(fd, iov, 2, 0, &rights);
    for (unsigned i = 0, next = 0; i < ERRAND_FDS; i++)
        fds[i] = places & 1u << i ? got[next++] : -1;
    return n > 0 ? n - 1 : n;
}

/* ER-4: until the parent has closed its own copies of what came. With them closed here first, its
 * close would be the last one, whenever it gets to it. */
static bool await_go(int fd, const int fds[ERRAND_FDS])
{
    char go;
    ssize_t n = 1;
    bool came = false;
    for (unsigned i = 0; i < ERRAND_FDS; i++)
        came = came || fds[i] >= 0;
    while (came && (n = recv(fd, &go, 1, 0)) < 0 && errno == EINTR)
        ;
    return n == 1;
}

static void serve(const struct errand *e, int fd)
{
    char ask[MESSAGE_MAX], answer[MESSAGE_MAX];
    int fds[ERRAND_FDS];
    for (;;) {
        ssize_t n = receive(fd, ask, sizeof ask, fds);
        if (n < 0 && errno == EINTR)
            continue;
        if (n != (ssize_t)e->ask_size || !await_go(fd, fds))
            _exit(0);
        e->fn(e->ctx, ask, fds, answer);
        if (send(fd, answer, e->answer_size, MSG_NOSIGNAL) != (ssize_t)e->answer_size)
            _exit(0);
    }
}

static bool enters(const struct errand *e)
{
    return e->user_ns && *e->user_ns >= 0;
}

/* First: with other credentials the kernel forgets that the child shall die with its parent. */
static void be_child(const struct errand *e, int fd, pid_t parent)
{
    if (enters(e) && setns(*e->user_ns, CLONE_NEWUSER) < 0) /* ER-5 */
        _exit(0);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
        _exit(0);
    prctl(PR_SET_NAME, "brig-errand");
    close_others(e, fd);
    serve(e, fd);
}

/* ---- the parent ---- */

/* A free place in the list of children that could not be killed; NULL if it is full. */
static pid_t *reap_lost(struct errand *e)
{
    pid_t *room = NULL;
    for (unsigned i = 0; i < ERRANDS_LOST; i++) {
        if (e->lost[i] && waitpid(e->lost[i], NULL, WNOHANG) != 0)
            e->lost[i] = 0;
        if (!e->lost[i])
            room = &e->lost[i];
    }
    return room;
}

/* ER-2: waits for children that were killed a moment ago, and for no others. */
static bool await_room(struct errand *e)
{
    while (!reap_lost(e)) {
        if (clock_us() >= e->killed_us + GONE_US)
            return false;
        usleep(1000);
    }
    return true;
}

static int start(struct errand *e)
{
    int pair[2];
    if (e->ask_size > MESSAGE_MAX || e->answer_size > MESSAGE_MAX)
        return -EMSGSIZE;
    if (!await_room(e))
        return -EAGAIN;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    pid_t self = getpid(), pid = fork();
    int why = errno;
    if (pid == 0)
        be_child(e, pair[1], self);
    close(pair[1]);
    if (pid < 0) {
        close(pair[0]);
        return -why;
    }
    e->pid = pid;
    e->fd = pair[0];
    return 0;
}

void errand_start(struct errand *e)
{
    if (!e->pid && !guard_left_out(GUARD_ERRANDS))
        start(e);
}

void errand_end(struct errand *e)
{
    if (!e->pid)
        return;
    pid_t *room = reap_lost(e);
    kill(e->pid, SIGKILL);
    e->killed_us = clock_us();
    close(e->fd);
    if (waitpid(e->pid, NULL, WNOHANG) == 0 && room)
        *room = e->pid;
    e->pid = 0;
    e->fd = -1;
    e->asked = false;
}

/* ER-1 */
static int await_answer(const struct errand *e, void *answer, unsigned ms)
{
    uint64_t now = clock_us(), deadline = now + ms * 1000ull;
    struct pollfd p = {.fd = e->fd, .events = POLLIN};
    do {
        int ready = poll(&p, 1, (int)((deadline - now + 999) / 1000));
        ssize_t n = ready > 0 ? recv(e->fd, answer, e->answer_size, MSG_DONTWAIT) : -1;
        bool again = ready <= 0 || (n < 0 && (errno == EINTR || errno == EAGAIN));
        if (!again)
            return n == (ssize_t)e->answer_size ? 0 : -EIO;
    } while ((now = clock_us()) < deadline);
    return -ETIMEDOUT;
}

static int send_ask(const struct errand *e, const void *ask, const int fds[ERRAND_FDS])
{
    unsigned char places = 0;
    int sent[ERRAND_FDS];
    unsigned count = 0;
    for (unsigned i = 0; fds && i < ERRAND_FDS; i++)
        if (fds[i] >= 0) {
            places |= (unsigned char)(1u << i);
            sent[count++] = fds[i];
        }
    struct iovec iov[] = {{&places, 1}, {(void *)(uintptr_t)ask, e->ask_size}};
    ssize_t n = rights_send(e->fd, iov, 2, sent, count, MSG_DONTWAIT);
    return n == (ssize_t)e->ask_size + 1 ? 0 : n < 0 ? (int)n : -EIO;
}

/* How many there were. */
static unsigned close_all(int fds[ERRAND_FDS])
{
    unsigned count = 0;
    for (unsigned i = 0; fds && i < ERRAND_FDS; i++)
        if (fds[i] >= 0) {
            close(fds[i]);
            count++;
        }
    return count;
}

static int begin(struct errand *e, const void *ask, int fds[ERRAND_FDS])
{
    int result = e->pid ? 0 : start(e);
    if (result == 0)
        result = send_ask(e, ask, fds);
    unsigned closed = close_all(fds);
    if (result == 0 && closed && send(e->fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1)
        result = -EIO;
    if (result == 0)
        e->asked = true;
    return result;
}

int errand_ask(struct errand *e, const void *ask, int fds[ERRAND_FDS], void *answer, unsigned ms)
{
    static const int none[ERRAND_FDS] = {-1, -1};
    if (guard_left_out(GUARD_ERRANDS) && !enters(e)) {
        /* The moment in which the code does its worst: a test must not wait for it. */
        poll(NULL, 0, 2);
        e->fn(e->ctx, ask, fds ? fds : none, answer);
        return 0;
    }
    int result = begin(e, ask, fds);
    if (result == 0)
        result = await_answer(e, answer, ms);
    e->asked = false;
    if (result < 0)
        errand_end(e);
    return result;
}

int errand_try(struct errand *e, const void *ask, void *answer, unsigned ms)
{
    if (guard_left_out(GUARD_ERRANDS) && !enters(e))
        return errand_ask(e, ask, NULL, answer, ms);
    int result = e->asked ? 0 : begin(e, ask, NULL);
    if (result == 0)
        result = await_answer(e, answer, ms);
    if (result == -ETIMEDOUT)
        return -EINPROGRESS;
    e->asked = false;
    if (result < 0)
        errand_end(e);
    return result;
}
