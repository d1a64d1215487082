/* From a request to a program: everything that a shell would do between fork and exec. */
#include "init/exec_child.h"
#include "init/perform_child.h"
#include "init/session_child.h"
#include "plan/join.h"

#include <fcntl.h>
#include <unistd.h>

static bool is_allowed(enum op_kind kind)
{
    return kind == OP_ARG || kind == OP_ENV || kind == OP_CWD || kind == OP_TTY ||
           kind == OP_KEEP_STATUS;
}

static int connect_stdio(const int *fds, int count, struct err *err)
{
    for (int fd = 0; fd < 3 && count > SPAWN_STDERR; fd++)
        if (dup2(fds[SPAWN_STDIN + fd], fd) < 0)
            return err_sys(err, "connect descriptor %d", fd);
    /* The first takes the place of the control socket, of which this process has no more need. The
     * number of the second can only be that of the block, which was received first and is closed by
     * now: all others came after it and have higher ones. */
    for (int i = 0; i < 2 && count > SPAWN_REQUESTS + i; i++)
        if (dup2(fds[SPAWN_REQUESTS + i], INIT_FD_CTL + i) < 0)
            return err_sys(err, "connect the channel");
    return 0;
}

/* Last of all: every other descriptor of the request has its place by now. The old one is closed
 * when the program is executed, unless it has that number already. */
static int keep_status(const struct apply_state *st, int *fd, struct err *err)
{
    if (!st->keep_status)
        return 0;
    if (*fd == JOIN_STATUS ? fcntl(*fd, F_SETFD, 0) < 0 : dup2(*fd, JOIN_STATUS) < 0)
        return err_sys(err, "keep the pipe of the request");
    *fd = JOIN_STATUS;
    return 0;
}

static int read_block(struct apply_state *st, int fd, int tty_to, struct err *err)
{
    size_t len = 0;
    const void *block = perform_map(fd, &len, err);
    st->argc = st->envc = 0;
    st->cwd = NULL;
    st->tty = st->keep_status = false;
    st->tty_fd = -1;
    st->tty_to = tty_to;
    if (!block || perform_plan(st, block, len, is_allowed, err) < 0)
        return err_number(err);
    st->argv[st->argc] = NULL;
    st->envp[st->envc] = NULL;
    return st->argc ? 0 : err_set(err, ERR_USAGE, "no command");
}

static int enter_folder(const struct apply_state *st, struct err *err)
{
    if (chdir(st->cwd ? st->cwd : "/") == 0)
        return 0;
    err_sys(err, "cannot enter folder %s", st->cwd);
    err->code = ERR_NOT_FOUND;
    return err_number(err);
}

void spawn_child(struct apply_state *st, const int *fds, int count)
{
    struct err err = ERR_INIT;
    int status = fds[SPAWN_STATUS];
    int tty_to = count == SPAWN_TERMINAL_FDS ? fds[SPAWN_TERMINAL] : -1;
    if (read_block(st, fds[SPAWN_BLOCK], tty_to, &err) == 0 &&
        connect_stdio(fds, count, &err) == 0 && exec_session(st, &err) == 0 &&
        exec_limits(st, &err) == 0 && enter_folder(st, &err) == 0 &&
        keep_status(st, &status, &err) == 0) {
        exec_default_signals();
        exec_search(st, &err);
    }
    (void)!write(status, &err, sizeof err);
    _exit(err_exit_status(&err));
}
