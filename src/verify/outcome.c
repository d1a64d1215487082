/* One attempt, in a process of its own: it may be killed for trying. */
#include "verify/attack.h"

#include "base/cleanup.h"
#include "os/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* An attempt that hangs is over after this. */
#define ATTEMPT_SECONDS 45

struct shared {
    int result;
    bool said;
    char detail[240];
};

int attack_result(long result)
{
    return result < 0 ? errno : 0;
}

int attack_open(const char *path, int flags)
{
    cleanup_fd int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    return fd < 0 ? errno : 0;
}

int attack_dial(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof to.sun_path)
        return ENAMETOOLONG;
    memcpy(to.sun_path, path, strlen(path));
    /* A server that accepts nobody must not keep us waiting. */
    cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return errno;
    int code = attack_result(connect(fd, (struct sockaddr *)&to, sizeof to));
    return code == EAGAIN ? 0 : code;
}

void attack_say(struct attempt *a, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(a->detail, sizeof a->detail, fmt, ap);
    va_end(ap);
}

int attack_read(struct attempt *a, const char *path)
{
    char text[160];
    ssize_t n = file_read(AT_FDCWD, path, text, sizeof text);
    if (n < 0)
        return (int)-n;
    attack_say(a, "%s", text);
    return 0;
}

/* On a tier with an engine the code's variables stand behind a mark. */
const char *attack_home(void)
{
    const char *home = getenv("HOME");
    return home ? home : getenv("brig:HOME");
}

const char *attack_scratch(const struct attempt *a)
{
    const char *home = attack_home();
    return a->outside || !home ? a->place->drop : home;
}

/* Root of a user namespace of its own: what it mounts or names is nobody else's. */
static bool go_private(void)
{
    char map[48];
    unsigned uid = (unsigned)getuid(), gid = (unsigned)getgid();
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNET) < 0)
        return false;
    file_write(AT_FDCWD, "/proc/self/setgroups", "deny");
    snprintf(map, sizeof map, "0 %u 1", gid);
    file_write(AT_FDCWD, "/proc/self/gid_map", map);
    snprintf(map, sizeof map, "0 %u 1", uid);
    return file_write(AT_FDCWD, "/proc/self/uid_map", map) == 0 &&
           mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

static void run_child(attack_fn *fn, struct attempt *a, bool private_ns, struct shared *shared)
{
    for (int sig = 1; sig < 32; sig++)
        signal(sig, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    alarm(ATTEMPT_SECONDS);
    if (private_ns && !go_private())
        _exit(1);
    int result = fn(a);
    memcpy(shared->detail, a->detail, sizeof shared->detail);
    shared->result = result;
    shared->said = true;
    _exit(0);
}

static void collect(const struct shared *shared, int status, struct outcome *ret)
{
    *ret = (struct outcome){.reported = true};
    if (WIFSIGNALED(status))
        ret->signal = WTERMSIG(status);
    ret->worked = shared->said && shared->result == 0;
    ret->code = shared->said ? shared->result : 0;
    memcpy(ret->detail, shared->detail, sizeof ret->detail);
    ret->detail[sizeof ret->detail - 1] = '\0';
    for (char *c = ret->detail; *c; c++)
        if (*c < 0x20 || *c > 0x7e)
            *c = ' ';
}

/* A busy machine may be out of tasks for a moment. */
static pid_t fork_patiently(void)
{
    pid_t pid = fork();
    for (int i = 0; pid < 0 && errno == EAGAIN && i < 300; i++) {
        usleep(10000);
        pid = fork();
    }
    return pid;
}

bool outcome_try(attack_fn *fn, struct attempt *a, bool private_ns, struct outcome *ret)
{
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status = 0;
    *ret = (struct outcome){0};
    if (shared == MAP_FAILED)
        return false;
    a->detail[0] = '\0';
    pid_t pid = fork_patiently();
    if (pid == 0)
        run_child(fn, a, private_ns, shared);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    bool ran = pid > 0 && (WIFSIGNALED(status) || shared->said);
    if (ran)
        collect(shared, status, ret);
    munmap(shared, sizeof *shared);
    return ran;
}

void outcome_text(const struct outcome *o, char *out, size_t size)
{
    if (!o->reported)
        snprintf(out, size, "nothing was reported");
    else if (o->signal)
        snprintf(out, size, "killed by signal %d", o->signal);
    else if (o->code == ATTACK_NOTHING)
        snprintf(out, size, "nothing found");
    else if (o->code)
        snprintf(out, size, "refused: %s", strerror(o->code));
    else
        snprintf(out, size, "%s%s", "it worked", o->detail[0] ? ": " : "");
    if (o->worked && o->detail[0]) {
        size_t used = strlen(out);
        snprintf(out + used, size - used, "%s", o->detail);
    }
}

void outcome_line(const char *id, const struct outcome *o, char *out, size_t size)
{
    snprintf(out, size, "%s\t%d\t%d\t%d\t%s\n", id, o->worked, o->code, o->signal, o->detail);
}
