/* brig-lead: what brig has behind the Sentry, in sandboxes of `brig serve`. It is one of two:
 *
 *   brig-lead reap                                     the first process there
 *   brig-lead DESCRIPTORS SIZE FOLDER COMMAND [ARG…]   the leader of one program
 *
 * The first only collects what ended. It runs under an id that no code has, so that none can end
 * it.
 *
 * A leader stands beside one program that the daemon was asked for, with the code's id and rights:
 * it starts it in a session and a group of its own, gives it the first DESCRIPTORS descriptors that
 * it has itself, and keeps the next two, over which it hears of signals and tells how the start
 * went (lead.h). With a SIZE such as 80x24 it makes a terminal (lead_terminal.c). It ends when and
 * as its program does. Nobody has to believe it: see GV-5.
 *
 * It is static, has no heap and no stdio, and reads nothing of its environment. */
#include "engines/gvisor/lead_child.h"
#include "os/execute_child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define FAILED 125

#define END_TRIES    200
#define END_PAUSE_MS 2

/* ---- the first process ---- */

__attribute__((noreturn)) static void reap(void)
{
    sigset_t all;
    int number;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    for (;;) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        sigwait(&all, &number);
    }
}

/* ---- in the child ---- */

__attribute__((noreturn)) static void give_up(int status, enum lead_stage stage)
{
    struct lead_word word = {.stage = stage, .why = errno};
    (void)!write(status, &word, sizeof word);
    _exit(FAILED);
}

static const char *search_path(void)
{
    const char *path = getenv("PATH");
    return path ? path : EXECUTE_PATH;
}

/* That it ends with its leader is a help for who watches processes; nothing depends on it. */
__attribute__((noreturn)) static void become_program(struct lead *l, pid_t leader, int status)
{
    sigset_t none;
    sigemptyset(&none);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != leader)
        give_up(status, LEAD_PREPARE);
    if (l->terminal && terminal_take(l) < 0)
        give_up(status, LEAD_TERMINAL);
    if (!l->terminal && setsid() < 0)
        give_up(status, LEAD_PREPARE);
    if (sigprocmask(SIG_SETMASK, &none, NULL) < 0)
        give_up(status, LEAD_PREPARE);
    if (chdir(l->folder) < 0)
        give_up(status, LEAD_FOLDER);
    errno = execute_search(search_path(), l->argv, environ);
    give_up(status, LEAD_EXECUTE);
}

/* ---- in the leader ---- */

static void tell(struct lead *l, const struct lead_word *word)
{
    if (l->up < 0)
        return;
    (void)!write(l->up, word, sizeof *word);
    close(l->up);
    l->up = -1;
}

__attribute__((noreturn)) static void fail(struct lead *l, enum lead_stage stage)
{
    struct lead_word word = {.stage = stage, .why = errno};
    tell(l, &word);
    _exit(FAILED);
}

__attribute__((noreturn)) static void end_as(int status)
{
    sigset_t one;
    if (!WIFSIGNALED(status))
        _exit(WEXITSTATUS(status));
    sigemptyset(&one);
    sigaddset(&one, WTERMSIG(status));
    sigprocmask(SIG_UNBLOCK, &one, NULL);
    raise(WTERMSIG(status));
    _exit(128 + WTERMSIG(status));
}

/* A child that was forked a moment ago has no group of its own yet. */
static void pass_on(const struct lead *l, int number)
{
    if (kill(-l->pid, number) < 0)
        kill(l->pid, number);
}

/* What a member is just starting gVisor's kernel may overlook, so that it is looked for once more
 * until nobody is left; a zombie of our own counts. */
static void end_group(const struct lead *l)
{
    bool reaped = false;
    for (int i = 0; i < END_TRIES; i++) {
        if (kill(-l->pid, SIGKILL) < 0 && (reaped || kill(l->pid, SIGKILL) < 0))
            return;
        poll(NULL, 0, END_PAUSE_MS);
        reaped = reaped || waitpid(l->pid, NULL, WNOHANG) != 0;
    }
}

static void obey(struct lead *l)
{
    unsigned char numbers[64];
    ssize_t n = read(l->down, numbers, sizeof numbers);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        terminal_hang_up(l);
        end_group(l);
        _exit(128 + SIGKILL);
    }
    for (ssize_t i = 0; i < n; i++)
        pass_on(l, numbers[i] == JOIN_STOP ? SIGSTOP : numbers[i]);
}

/* Its end means that the program was executed, or that the child was killed before. */
static void hear_child(struct lead *l)
{
    struct lead_word word = {.stage = LEAD_STARTED};
    ssize_t n = read(l->status, &word, sizeof word);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    close(l->status);
    l->status = -1;
    tell(l, &word);
    if (word.stage != LEAD_STARTED)
        _exit(FAILED);
}

static void collect(struct lead *l)
{
    struct signalfd_siginfo drained;
    int status;
    pid_t pid;
    while (read(l->signals, &drained, sizeof drained) > 0)
        ;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (pid == l->pid) {
            l->ended = true;
            l->end_status = status;
        }
}

static void start(struct lead *l)
{
    int ends[2];
    pid_t leader = getpid();
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        fail(l, LEAD_PREPARE);
    l->pid = fork();
    if (l->pid < 0)
        fail(l, LEAD_PREPARE);
    if (l->pid == 0)
        become_program(l, leader, ends[1]);
    close(ends[1]);
    l->status = ends[0];
    for (int fd = 0; !l->terminal && fd < l->down; fd++)
        close(fd);
}

/* Nothing that comes here is for this process but what it asked to hear of. */
static void watch_signals(struct lead *l)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    sigemptyset(&all);
    sigaddset(&all, SIGCHLD);
    if ((l->signals = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
        fail(l, LEAD_PREPARE);
}

__attribute__((noreturn)) static void follow(struct lead *l)
{
    for (;;) {
        struct pollfd fds[3 + TERMINAL_POLLED] = {{.fd = l->down, .events = POLLIN},
                                                  {.fd = l->signals, .events = POLLIN},
                                                  {.fd = l->status, .events = POLLIN}};
        unsigned count = 3 + terminal_poll(l, fds + 3);
        if (poll(fds, count, -1) < 0 && errno != EINTR)
            _exit(FAILED);
        if (fds[2].revents)
            hear_child(l);
        if (fds[0].revents)
            obey(l);
        if (fds[1].revents)
            collect(l);
        if (terminal_carry(l, fds + 3) || !l->ended)
            continue;
        if (l->status >= 0)
            hear_child(l);
        terminal_hang_up(l);
        end_as(l->end_status);
    }
}

int main(int argc, char **argv)
{
    static struct lead l = {.up = -1, .status = -1, .master = -1, .slave = -1};
    if (argc == 2 && strcmp(argv[1], JOIN_REAP) == 0)
        reap();
    if (argc < 5)
        return FAILED;
    l.down = (int)strtol(argv[1], NULL, 10);
    l.terminal = terminal_size(&l, argv[2]);
    l.folder = argv[3];
    l.argv = argv + 4;
    l.up = l.down + 1;
    /* What is open here is not for the program: it could answer in the leader's place. */
    if (fcntl(l.down, F_SETFD, FD_CLOEXEC) < 0 || fcntl(l.up, F_SETFD, FD_CLOEXEC) < 0)
        return FAILED;
    prctl(PR_SET_NAME, LEADER_NAME);
    prctl(PR_SET_DUMPABLE, 0);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        fail(&l, LEAD_PREPARE);
    watch_signals(&l);
    if (l.terminal && terminal_open(&l) < 0)
        fail(&l, LEAD_TERMINAL);
    start(&l);
    follow(&l);
}
