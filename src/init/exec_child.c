/* Starts the code: finds the program, forks, waits for the supervisor's word and executes it. */
#include "init/exec_child.h"

#include "base/text.h"
#include "os/landlock.h"
#include "os/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

static int exec_error(const char *name, const char *path, int code, struct err *err)
{
    errno = code;
    if (code == ENOENT) {
        err_set(err, ERR_NOT_FOUND, "%s: command not found inside the sandbox", name);
        return err_hint(err, "it was looked for in %s; grant a folder that has it with --ro DIR",
                        path);
    }
    err_sys(err, "cannot execute %s", name);
    err->code = ERR_NOT_EXEC;
    return err_number(err);
}

static const char *env_path(const struct apply_state *st)
{
    for (size_t i = 0; i < st->envc; i++)
        if (text_begins(st->envp[i], "PATH="))
            return st->envp[i] + 5;
    return EXECUTE_PATH;
}

int exec_search(struct apply_state *st, struct err *err)
{
    const char *name = st->argv[0], *path = env_path(st);
    int why = execute_search(path, st->argv, st->envp);
    return exec_error(name, strchr(name, '/') ? name : path, why, err);
}

int exec_session(struct apply_state *st, struct err *err)
{
    if (setsid() < 0)
        return err_sys(err, "start a session");
    if (!st->tty)
        return 0;
    if (st->tty_fd >= 0)
        for (int fd = 0; fd < 3; fd++)
            if (dup2(st->tty_fd, fd) < 0)
                return err_sys(err, "connect the terminal");
    return ioctl(0, TIOCSCTTY, 0) < 0 ? err_sys(err, "take the terminal") : 0;
}

static int own_scope(const struct apply_state *st, struct err *err)
{
    struct landlock_ruleset r = {.scoped = st->code_scope};
    if (!st->code_scope)
        return 0;
    int fd = landlock_create(&r, sizeof r);
    if (fd < 0 || landlock_restrict(fd) < 0)
        return err_sys(err, "keep the code's signals from init");
    close(fd);
    return 0;
}

int exec_limits(const struct apply_state *st, struct err *err)
{
    struct rlimit files = {.rlim_cur = st->code_files, .rlim_max = st->code_files};
    if (st->code_files && setrlimit(RLIMIT_NOFILE, &files) < 0)
        return err_sys(err, "limit the code's descriptors");
    return 0;
}

static int report(enum ctl_type type, const struct apply_state *st, const struct err *err)
{
    struct ctl_msg msg = {.type = type, .evidence = st->evidence, .err = *err};
    return ctl_send(&msg, -1);
}

static void become_the_code(struct apply_state *st, int go_fd)
{
    struct err err = ERR_INIT;
    char word;
    if (exec_session(st, &err) < 0 || own_scope(st, &err) < 0 || exec_limits(st, &err) < 0 ||
        (chdir(st->cwd ? st->cwd : "/") < 0 && err_sys(&err, "enter folder %s", st->cwd))) {
        report(CTL_FAIL, st, &err);
        _exit(125);
    }
    if (report(CTL_READY, st, &err) < 0)
        _exit(125);
    /* While the supervisor attests. */
    exec_default_signals();
    /* K-6  The code's first instruction comes after this read: everything was attested by then. */
    if (read(go_fd, &word, 1) != 1)
        _exit(125);
    exec_search(st, &err);
    report(CTL_EXEC_FAIL, st, &err);
    _exit(err_exit_status(&err));
}

int exec_start(struct apply_state *st, struct started *ret, struct err *err)
{
    int go[2];
    if (st->argc == 0)
        return err_set(err, ERR_INTERNAL, "no command in the plan");
    if (pipe2(go, O_CLOEXEC) < 0)
        return err_sys(err, "pipe");
    pid_t pid = fork();
    if (pid < 0)
        return err_sys(err, "start the code");
    if (pid == 0) {
        close(go[1]);
        become_the_code(st, go[0]);
    }
    close(go[0]);
    /* From here on nothing but the control socket is held. */
    if (st->tty_fd >= 0)
        close(st->tty_fd);
    for (int fd = 0; fd < 3; fd++)
        close(fd);
    for (int fd = INIT_FD_TREES; fd < st->handed_end; fd++)
        close(fd);
    *ret = (struct started){.pid = pid, .go_fd = go[1]};
    return 0;
}
