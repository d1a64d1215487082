/* A helper program: no shell, a process group of its own, ten seconds, and what it writes to stdout
 * is the value. It gets PATH and HOME and nothing else of the environment, and nothing on stdin. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/quote.h"
#include "credentials/source.h"
#include "os/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define CMD_MS 10000

int source_split(char *line, char *argv[static SOURCE_ARGS_MAX + 1], struct err *err)
{
    int count = 0;
    for (char *at = line + strspn(line, " "); *at; at += strspn(at, " ")) {
        if (count == SOURCE_ARGS_MAX)
            return err_set(err, ERR_REFUSED, "more than %d arguments", SOURCE_ARGS_MAX);
        char *to = at, quoted = 0;
        argv[count++] = to;
        for (; *at && (quoted || *at != ' '); at++) {
            if (quoted ? *at == quoted : *at == '"' || *at == '\'')
                quoted = quoted ? 0 : *at;
            else
                *to++ = *at;
        }
        if (quoted)
            return err_set(err, ERR_REFUSED, "a quote is not closed");
        bool last = !*at;
        *to = '\0';
        if (last)
            break;
        at++;
    }
    argv[count] = NULL;
    return count > 0 ? count : err_set(err, ERR_REFUSED, "no program is named");
}

/* ---- the child ---- */

static char *variable(const char *name, char *out, size_t size)
{
    const char *value = getenv(name);
    int len = value ? snprintf(out, size, "%s=%s", name, value) : -1;
    return len > 0 && (size_t)len < size ? out : NULL;
}

static void become(char **argv, int out, pid_t parent)
{
    char path[4096], home[4096], *envp[3] = {NULL};
    size_t count = 0;
    const char *const names[] = {"PATH", "HOME"};
    char *const texts[] = {path, home};
    for (size_t i = 0; i < 2; i++)
        if (variable(names[i], texts[i], sizeof path))
            envp[count++] = texts[i];
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(126);
    for (int sig = 1; sig < 32; sig++)
        signal(sig, SIG_DFL);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(null, 2) < 0)
        _exit(126);
    sys_close_range(3, ~0u, 0);
    execvpe(argv[0], argv, envp);
    _exit(errno == ENOENT ? 127 : 126);
}

/* ---- the parent ---- */

struct helper {
    pid_t pid;
    int pidfd;
    int out;
    int control_fd;
    uint64_t deadline_us;
};

/* 1: something to read or the program has ended; negative: no more time, or no one to tell. */
static int wait_for(const struct helper *h, struct err *err)
{
    struct pollfd p[3] = {
        {h->out, POLLIN, 0}, {h->pidfd, POLLIN, 0}, {h->control_fd, POLLRDHUP, 0}};
    uint64_t now = clock_us();
    int left = now < h->deadline_us ? (int)((h->deadline_us - now) / 1000) + 1 : 0;
    int r = poll(p, 3, left);
    if (r < 0)
        return errno == EINTR ? 1 : err_sys(err, "wait for the program");
    if (p[2].revents)
        return err_set(err, ERR_INTERRUPTED, "the proxy has ended");
    if (r == 0) {
        err_set(err, ERR_REFUSED, "no value after %d seconds", CMD_MS / 1000);
        return err_hint(err, "the program must not ask questions; it gets no terminal");
    }
    return 1;
}

/* Reads until the program ends or closes its stdout. */
static int collect(const struct helper *h, char *bytes, size_t size, size_t *ret_len,
                   struct err *err)
{
    size_t len = 0;
    for (bool ended = false;;) {
        ssize_t got = read(h->out, bytes + len, size - len);
        if (got > 0)
            len += (size_t)got;
        if (len == size)
            return err_set(err, ERR_REFUSED, "more than %d bytes of output", SECRET_MAX);
        if (got == 0 || (got < 0 && ended && errno == EAGAIN))
            break;
        if (got < 0 && errno != EAGAIN && errno != EINTR)
            return err_sys(err, "read the program's output");
        if (got < 0 && !ended) {
            int r = wait_for(h, err);
            if (r < 0)
                return r;
            struct pollfd p = {h->pidfd, POLLIN, 0};
            ended = poll(&p, 1, 0) > 0;
        }
    }
    *ret_len = len;
    return 0;
}

static int wait_end(const struct helper *h, struct err *err)
{
    siginfo_t info = {0};
    for (;;) {
        if (waitid(P_PID, (id_t)h->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid)
            break;
        int r = wait_for(&(struct helper){.out = -1,
                                          .pidfd = h->pidfd,
                                          .control_fd = h->control_fd,
                                          .deadline_us = h->deadline_us},
                         err);
        if (r < 0)
            return r;
    }
    if (info.si_code != CLD_EXITED)
        return err_set(err, ERR_REFUSED, "ended by signal %d", info.si_status);
    if (info.si_status == 127)
        return err_set(err, ERR_REFUSED, "no such program, or it ended with status 127");
    if (info.si_status != 0)
        return err_set(err, ERR_REFUSED, "ended with status %d", info.si_status);
    return 0;
}

static int run(const struct helper *h, struct secret **ret, struct err *err)
{
    char bytes[SECRET_MAX + 2];
    size_t len = 0;
    int r = collect(h, bytes, sizeof bytes, &len, err);
    if (r == 0)
        r = wait_end(h, err);
    if (r == 0)
        r = secret_new(bytes, len, ret, err);
    secret_wipe(bytes, sizeof bytes);
    return r;
}

static int start(char **argv, struct helper *h, struct err *err)
{
    int pipes[2];
    if (pipe2(pipes, O_CLOEXEC) < 0)
        return err_sys(err, "make a pipe");
    pid_t parent = getpid();
    h->out = pipes[0];
    fcntl(h->out, F_SETFL, O_NONBLOCK);
    h->pid = fork();
    if (h->pid == 0)
        become(argv, pipes[1], parent);
    close(pipes[1]);
    if (h->pid < 0)
        return err_sys(err, "fork");
    setpgid(h->pid, h->pid); /* whoever is first: the group exists when it must be killed */
    h->pidfd = sys_pidfd_open(h->pid);
    return h->pidfd < 0 ? err_sys(err, "pidfd_open") : 0;
}

static void finish(struct helper *h, bool failed)
{
    if (h->pid > 0) {
        if (failed)
            kill(-h->pid, SIGKILL);
        waitpid(h->pid, NULL, 0);
    }
    if (h->pidfd >= 0)
        close(h->pidfd);
    if (h->out >= 0)
        close(h->out);
}

int source_cmd(const char *line, int control_fd, struct secret **ret, struct err *err)
{
    struct quoted q;
    char *argv[SOURCE_ARGS_MAX + 1];
    cleanup_free char *copy = strdup(line);
    struct helper h = {.pid = -1,
                       .pidfd = -1,
                       .out = -1,
                       .control_fd = control_fd,
                       .deadline_us = clock_us() + CMD_MS * 1000ull};
    if (!copy)
        return err_sys(err, "split the command");
    if (source_split(copy, argv, err) < 0)
        return err_wrap(err, "cmd");
    int r = start(argv, &h, err);
    if (r == 0)
        r = run(&h, ret, err);
    finish(&h, r < 0);
    return r < 0 ? err_wrap(err, "program %s", quote(&q, argv[0])) : 0;
}
