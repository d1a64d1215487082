/* Running hooks; see hooks.h. */
#include "oci/hooks.h"

#include "base/cleanup.h"
#include "oci/judge.h"
#include "oci/log.h"
#include "os/fd.h"
#include "os/sys.h"
#include "os/trusted.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char **texts(const struct json *list, const char *first)
{
    size_t n = json_count(list);
    char **out = calloc(n + 2, sizeof *out);
    if (!out)
        return NULL;
    if (n == 0)
        out[0] = (char *)(uintptr_t)first;
    for (size_t i = 0; i < n; i++)
        out[i] = (char *)(uintptr_t)json_string(json_at(list, i));
    return out;
}

/* One run of one hook. */
struct calling {
    const char *path;
    int program; /* what is executed in the place of the path; or -1 */
    char **argv, **envp;
};

static _Noreturn void become_hook(const struct calling *c, int in)
{
    /* Its messages go where the caller's go; its output is nobody's. */
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    unsigned long none = 0;
    signal(SIGPIPE, SIG_DFL);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof none);
    if (null < 0 || dup2(in, 0) < 0 || dup2(null, 1) < 0 || setsid() < 0 ||
        sys_close_range(3, ~0u, 4) < 0)
        _exit(127);
    if (c->program >= 0)
        syscall(SYS_execveat, c->program, "", c->argv, c->envp, SYS_AT_EMPTY_PATH);
    else
        execve(c->path, c->argv, c->envp);
    _exit(127);
}

/* Kills what does not end in time. */
static int await(pid_t pid, int seconds, const char *path, struct err *err)
{
    int status = 0;
    cleanup_fd int fd = sys_pidfd_open(pid);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int r;
    while ((r = poll(&p, 1, seconds * 1000)) < 0 && errno == EINTR)
        ;
    if (r <= 0)
        kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (r <= 0)
        return err_set(err, ERR_SYSTEM, "hook %.200s did not end within %d seconds", path, seconds);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return err_set(err, ERR_SYSTEM, "hook %.200s failed (%s %d)", path,
                       WIFEXITED(status) ? "status" : "signal",
                       WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    return 0;
}

/* The path leads to whatever program has that process id. What is executed is the operator's file,
 * and only if it is the one that runs there (OC-5). */
static int open_docker(const char *path, const char *docker, struct err *err)
{
    struct stat runs, allowed;
    cleanup_fd int fd = docker
                            ? trusted_open(AT_FDCWD, docker, "Docker's program", TRUSTED_FILE, err)
                            : err_set(err, ERR_REFUSED, "hook %.200s is not allowed", path);
    if (fd < 0)
        return err_number(err);
    if (stat(path, &runs) < 0 || fstat(fd, &allowed) < 0)
        return err_sys(err, "look at hook %.200s", path);
    if (runs.st_dev == allowed.st_dev && runs.st_ino == allowed.st_ino)
        return fd_steal(&fd);
    err_set(err, ERR_REFUSED, "config: hooks: %.60s is not the program %.200s", path, docker);
    err_at(err, BOUNDARY_KERNEL);
    return err_hint(err, "restart Docker if it was replaced since; the operator names the dockerd "
                         "that runs in " OCI_OPERATOR_FILE " (docker)");
}

static int run_now(const struct calling *c, int seconds, const struct buf *state, struct err *err)
{
    int in[2];
    if (pipe2(in, O_CLOEXEC) < 0)
        return err_sys(err, "pipe");
    pid_t pid = fork();
    if (pid == 0)
        become_hook(c, in[0]);
    close(in[0]);
    /* A state is far smaller than what a pipe holds: this does not wait for the hook. */
    fcntl(in[1], F_SETFL, O_NONBLOCK);
    (void)!write(in[1], buf_text(state), state->len);
    close(in[1]);
    return pid < 0 ? err_sys(err, "start hook %.200s", c->path) : await(pid, seconds, c->path, err);
}

static int run_one(const struct json *hook, const char *id, const char *docker,
                   const struct buf *state, struct err *err)
{
    const char *path = json_text(hook, "path");
    int64_t timeout = json_number(hook, "timeout");
    const struct json *args = json_get(hook, "args");
    cleanup_free char **argv = texts(args, path);
    cleanup_free char **envp = texts(json_get(hook, "env"), OCI_HOOK_PATH);
    cleanup_fd int program = -1;
    if (!path || !argv || !envp)
        return err_memory(err);
    if (oci_hook_of_docker(path)) {
        if (strcmp(json_string(json_at(args, OCI_DOCKER_ID)), id) != 0)
            return err_set(err, ERR_REFUSED, "config: hooks: Docker's names another container");
        if ((program = open_docker(path, docker, err)) < 0)
            return err_number(err);
    }
    if (timeout <= 0 || timeout > OCI_HOOK_SECONDS)
        timeout = OCI_HOOK_SECONDS;
    struct calling c = {.path = path, .program = program, .argv = argv, .envp = envp};
    return run_now(&c, (int)timeout, state, err);
}

static int write_state(const struct oci_config *c, const struct oci_state *s,
                       enum oci_status status, struct buf *out, struct err *err)
{
    struct json_writer w;
    buf_init(out, 60000);
    jw_init(&w, out, false);
    oci_state_write(s, status, c->annotations, &w);
    return out->failed ? err_set(err, ERR_LIMIT, "the state is too long for a hook") : 0;
}

int oci_hooks_run(const struct oci_config *c, const char *stage, const struct oci_state *s,
                  enum oci_status status, const char *docker, struct err *err)
{
    const struct json *list = json_get(c->hooks, stage);
    cleanup_buf struct buf state;
    if (write_state(c, s, status, &state, err) < 0)
        return err_number(err);
    for (size_t i = 0; i < json_count(list); i++)
        if (run_one(json_at(list, i), s->id, docker, &state, err) < 0)
            return err_number(err);
    return 0;
}

static void warn(const struct oci_log *log, const char *stage, const struct err *err)
{
    cleanup_buf struct buf detail;
    struct json_writer w;
    dprintf(STDERR_FILENO, "brig: %s\n", err->message);
    jw_begin(&w, &detail, 4096);
    jw_kv_string(&w, "stage", stage);
    jw_kv_string(&w, "error", err->message);
    jw_object_end(&w);
    if (!detail.failed)
        oci_log_tell(log, "warning", "a hook failed, and nothing was undone", "hook", &detail);
}

static void run_all(const struct oci_config *c, const char *stage, const struct oci_state *s,
                    enum oci_status status, const struct oci_log *log)
{
    const struct json *list = json_get(c->hooks, stage);
    struct err err = ERR_INIT;
    cleanup_buf struct buf state;
    if (write_state(c, s, status, &state, &err) < 0) {
        warn(log, stage, &err);
        return;
    }
    for (size_t i = 0; i < json_count(list); i++) {
        err = (struct err)ERR_INIT;
        if (run_one(json_at(list, i), s->id, NULL, &state, &err) < 0)
            warn(log, stage, &err);
    }
}

void oci_hooks_run_late(const struct oci_config *c, const char *stage, const struct oci_state *s,
                        enum oci_status status, const char *log_path, bool json)
{
    struct oci_operator o;
    struct oci_log log;
    struct err err = ERR_INIT;
    oci_log_init(&log);
    if (oci_operator_load(&o, &err) == 0) {
        if (oci_log_open(&log, log_path, json, &o, &err) < 0)
            dprintf(STDERR_FILENO, "brig: %s\n", err.message);
        oci_operator_done(&o);
    }
    run_all(c, stage, s, status, &log);
    oci_log_close(&log);
}
