/* The hand: the child that touches what the code controls, and the supervisor's functions that send
 * it there. */
#include "kernel/process/hand.h"

#include "base/cleanup.h"
#include "kernel/process/broker.h"
#include "kernel/process/hand_socket.h"
#include "kernel/process/learn.h"
#include "kernel/process/report.h"
#include "kernel/process/task_memory.h"
#include "os/sys.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

/* What is asked takes microseconds. */
#define PATIENCE_MS 1000

enum task {
    TASK_SIGNAL,
    TASK_CHANGE,
    TASK_WATCH,
    TASK_SHM,
    TASK_ADDRESS,
    TASK_LEADER,
    TASK_KIND,
    TASK_CONNECT,
    TASK_DISCONNECT,
    TASK_DROP,
    TASK_PATH,
    TASK_WORD,
    TASK_EXISTS,
    TASK_HAS,
};

/* The descriptors that come with an ask. */
enum { FD_MEMORY, FD_TAKEN };

struct hand_ask {
    enum task task;
    struct seccomp_notif n;
    int dir;
    bool look;
    bool opens; /* the hand itself opens the memory */
    uint64_t address;
    struct sockaddr_storage to;
    socklen_t to_len;
    char path[PATH_MAX];
};

struct hand_answer {
    int result;
    uint64_t word;
    struct sockaddr_storage at;
    struct hand_connected connected;
    char path[PATH_MAX];
};

/* ---- in the child ---- */

static bool still_waits(const struct kernel *k, const struct seccomp_notif *n)
{
    uint64_t id = n->id;
    return ioctl(k->listener_fd, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

/* The pid may be reused. If the caller still waits for its answer after each step, the step was
 * about the caller and not about a later process with the same pid. */
static int open_memory(const struct kernel *k, const struct seccomp_notif *n)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/%u/mem", n->pid);
    cleanup_fd int mem = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (mem < 0)
        return -EPERM;
    return still_waits(k, n) ? fd_steal(&mem) : -ESRCH;
}

static int copy_address(const struct seccomp_notif *n, int mem, struct sockaddr_storage *ret)
{
    int32_t len = (int32_t)n->data.args[2];
    if (len < (int32_t)sizeof ret->ss_family || len > (int32_t)sizeof *ret)
        return -EINVAL;
    return task_copy(mem, n->data.args[1], ret, (size_t)len);
}

static int find_path(struct kernel *k, const struct hand_ask *ask, int mem,
                     struct hand_answer *answer)
{
    pid_t pid = (pid_t)ask->n.pid;
    if (!report_absolute(mem, pid, ask->dir, ask->address, answer->path))
        return -ENOENT;
    if (ask->look)
        answer->word = learn_look(k, pid, answer->path);
    return 0;
}

static int exists(const char *path)
{
    struct stat sb;
    return lstat(path, &sb) == 0;
}

static int has(const struct kernel *k, pid_t pid, const char *path)
{
    return k->options.own_view && !(learn_look(k, pid, path) & (ASKED_MISSING | ASKED_UNKNOWN));
}

static int carry_out(struct kernel *k, const struct hand_ask *ask, const int fds[ERRAND_FDS],
                     struct hand_answer *answer)
{
    static int held = -1;
    const struct seccomp_notif *n = &ask->n;
    const struct sockaddr *to = (const struct sockaddr *)&ask->to;
    pid_t pid = (pid_t)n->pid;
    cleanup_fd int mem = ask->opens ? open_memory(k, n) : fds[FD_MEMORY];
    int taken = fds[FD_TAKEN];
    switch (ask->task) {
    case TASK_SIGNAL:
        return broker_signal(k, n);
    case TASK_CHANGE:
        return broker_meta(k, n, mem);
    case TASK_WATCH:
        return broker_watch(k, n, mem, taken);
    case TASK_SHM:
        return broker_shm(k, n, mem);
    case TASK_ADDRESS:
        return copy_address(n, mem, &answer->at);
    case TASK_LEADER:
        return hand_socket_leader(pid);
    case TASK_KIND:
        return hand_socket_kind(taken);
    case TASK_CONNECT:
        held = taken;
        return hand_socket_connect(taken, to, ask->to_len, k->socket_buffer, &answer->connected);
    case TASK_DISCONNECT:
        return hand_socket_disconnect(held);
    case TASK_DROP:
        return hand_socket_let_go(taken, 0);
    case TASK_PATH:
        return find_path(k, ask, mem, answer);
    case TASK_WORD:
        return task_copy(mem, ask->address, &answer->word, sizeof answer->word);
    case TASK_EXISTS:
        return exists(ask->path);
    case TASK_HAS:
        return has(k, pid, ask->path);
    }
    return -EINVAL;
}

static void work(void *ctx, const void *ask, const int fds[ERRAND_FDS], void *answer)
{
    struct hand_answer *a = answer;
    memset(a, 0, sizeof *a);
    a->result = carry_out(ctx, ask, fds, a);
}

/* ---- in the supervisor ---- */

void hand_init(struct kernel *k)
{
    errand_init(&k->hand, work, k, sizeof(struct hand_ask), sizeof(struct hand_answer));
    k->hand.keep[0] = &k->listener_fd;
    k->hand.user_ns = &k->users_fd;
}

void hand_ready(struct kernel *k)
{
    errand_start(&k->hand);
}

void hand_rest(struct kernel *k)
{
    errand_end(&k->hand);
}

static int ask_with(struct kernel *k, const struct hand_ask *ask, int mem, int taken,
                    struct hand_answer *answer)
{
    int fds[ERRAND_FDS] = {[FD_MEMORY] = mem, [FD_TAKEN] = taken};
    int result = errand_ask(&k->hand, ask, fds, answer, PATIENCE_MS);
    return result < 0 ? result : answer->result;
}

static int ask_hand(struct kernel *k, const struct hand_ask *ask, struct hand_answer *answer)
{
    return ask_with(k, ask, -1, -1, answer);
}

static struct hand_ask about(enum task task, const struct seccomp_notif *n)
{
    return (struct hand_ask){.task = task, .n = *n};
}

/* Where the sandbox has two users, one of them is somebody whose memory the supervisor may not
 * open; the hand is in their user namespace, and may. */
static bool hand_opens(const struct kernel *k)
{
    return k->users_fd >= 0;
}

static int ask_of_memory(struct kernel *k, struct hand_ask *ask, struct hand_answer *answer)
{
    ask->opens = hand_opens(k);
    if (ask->opens)
        return ask_with(k, ask, -1, -1, answer);
    int mem = open_memory(k, &ask->n);
    return mem < 0 ? mem : ask_with(k, ask, mem, -1, answer);
}

/* Before Linux 6.9 a thread other than the first has no pidfd: its process has. Its descriptors may
 * then be others than the thread's own, if it parted from them; what is found there is the
 * sandbox's too, and is checked like any. */
static int open_task(struct kernel *k, const struct seccomp_notif *n)
{
    int fd = sys_pidfd_open_thread((pid_t)n->pid);
    if (fd < 0 && errno == EINVAL) {
        struct hand_ask ask = about(TASK_LEADER, n);
        struct hand_answer answer;
        int leader = ask_hand(k, &ask, &answer);
        fd = leader > 0 ? sys_pidfd_open(leader) : -1;
    }
    return fd < 0 || !still_waits(k, n) ? (fd >= 0 ? close(fd) : 0, -ESRCH) : fd;
}

/* Takes a copy: what the code does to its own descriptor afterwards does not matter. */
static int take_descriptor(struct kernel *k, const struct seccomp_notif *n)
{
    cleanup_fd int task = open_task(k, n);
    if (task < 0)
        return task;
    int taken = sys_pidfd_getfd(task, (int)n->data.args[0]);
    if (taken < 0)
        return errno == EBADF ? -EBADF : -EPERM;
    if (still_waits(k, n))
        return taken;
    struct hand_ask drop = {.task = TASK_DROP};
    struct hand_answer answer;
    ask_with(k, &drop, -1, taken, &answer);
    return -ESRCH;
}

int hand_signal(struct kernel *k, const struct seccomp_notif *n)
{
    struct hand_ask ask = about(TASK_SIGNAL, n);
    struct hand_answer answer;
    return ask_hand(k, &ask, &answer);
}

int hand_change(struct kernel *k, const struct seccomp_notif *n)
{
    struct hand_ask ask = about(TASK_CHANGE, n);
    struct hand_answer answer;
    return ask_of_memory(k, &ask, &answer);
}

/* If the call cannot be looked at, let the kernel go on with it: Landlock refuses the path
 * anyway. */
int hand_shm(struct kernel *k, const struct seccomp_notif *n)
{
    struct hand_ask ask = about(TASK_SHM, n);
    struct hand_answer answer;
    int fds[ERRAND_FDS] = {[FD_MEMORY] = open_memory(k, n), [FD_TAKEN] = -1};
    if (fds[FD_MEMORY] < 0 || errand_ask(&k->hand, &ask, fds, &answer, PATIENCE_MS) < 0)
        return SHM_PASS;
    return answer.result;
}

int hand_watch(struct kernel *k, const struct seccomp_notif *n)
{
    struct hand_ask ask = about(TASK_WATCH, n);
    struct hand_answer answer;
    ask.opens = hand_opens(k);
    cleanup_fd int mem = ask.opens ? -1 : open_memory(k, n);
    if (mem < 0 && !ask.opens)
        return mem;
    int taken = take_descriptor(k, n);
    if (taken < 0)
        return taken;
    return ask_with(k, &ask, fd_steal(&mem), taken, &answer);
}

int hand_address(struct kernel *k, const struct seccomp_notif *n, struct sockaddr_storage *ret)
{
    struct hand_ask ask = about(TASK_ADDRESS, n);
    struct hand_answer answer;
    int result = ask_of_memory(k, &ask, &answer);
    if (result < 0)
        memset(ret, 0, sizeof *ret);
    else
        *ret = answer.at;
    return result;
}

int hand_kind(struct kernel *k, const struct seccomp_notif *n)
{
    struct hand_ask ask = about(TASK_KIND, n);
    struct hand_answer answer;
    int taken = take_descriptor(k, n);
    int result = taken < 0 ? taken : ask_with(k, &ask, -1, taken, &answer);
    errand_end(&k->hand); /* it has a copy of the code's socket */
    return result;
}

int hand_connect(struct kernel *k, const struct seccomp_notif *n, const struct sockaddr *to,
                 socklen_t len, struct hand_connected *ret)
{
    struct hand_ask ask = about(TASK_CONNECT, n);
    struct hand_answer answer = {0};
    memcpy(&ask.to, to, len);
    ask.to_len = len;
    int taken = take_descriptor(k, n);
    if (taken < 0)
        return taken;
    int result = ask_with(k, &ask, -1, taken, &answer);
    *ret = answer.connected;
    return result;
}

void hand_release(struct kernel *k, bool wanted)
{
    struct hand_ask ask = {.task = TASK_DISCONNECT};
    struct hand_answer answer;
    if (!wanted)
        ask_hand(k, &ask, &answer);
    errand_end(&k->hand);
}

int hand_path(struct kernel *k, const struct seccomp_notif *n, int dir, uint64_t address,
              char out[static PATH_MAX], unsigned *state)
{
    struct hand_ask ask = about(TASK_PATH, n);
    struct hand_answer answer;
    ask.dir = dir;
    ask.address = address;
    ask.look = state != NULL;
    int result = ask_of_memory(k, &ask, &answer);
    if (result < 0)
        return result;
    answer.path[PATH_MAX - 1] = '\0';
    memcpy(out, answer.path, PATH_MAX);
    if (state)
        *state = (unsigned)answer.word;
    return 0;
}

int hand_word(struct kernel *k, const struct seccomp_notif *n, uint64_t address, uint64_t *ret)
{
    struct hand_ask ask = about(TASK_WORD, n);
    struct hand_answer answer;
    ask.address = address;
    int result = ask_of_memory(k, &ask, &answer);
    *ret = result < 0 ? 0 : answer.word;
    return result;
}

static int ask_of_path(struct kernel *k, struct hand_ask ask, const char *path)
{
    struct hand_answer answer;
    if (strlen(path) >= sizeof ask.path)
        return -ENAMETOOLONG;
    memcpy(ask.path, path, strlen(path));
    return ask_hand(k, &ask, &answer);
}

int hand_exists(struct kernel *k, const char *path)
{
    return ask_of_path(k, (struct hand_ask){.task = TASK_EXISTS}, path);
}

int hand_has(struct kernel *k, const struct seccomp_notif *n, const char *path)
{
    return ask_of_path(k, about(TASK_HAS, n), path);
}
