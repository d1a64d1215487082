/* brig-daemon from its start to its end. In this order:
 *   the recorder is forked off, and takes the state folder with it;
 *   everything that is not needed is given away (seal.h);
 *   the launcher says which templates there are, the recorder gives back what it keeps;
 *   only then are the listeners looked at.
 * It ends when the launcher says so and all sandboxes have ended, or at once when the launcher or
 * the recorder is gone. */
#include "daemon/front.h"

#include "audit/recorder.h"
#include "daemon/api.h"
#include "daemon/seal.h"
#include "os/sys.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FD_LAUNCHER   3
#define FD_STATE      4
#define FD_LISTENERS  5
#define LISTENERS_MAX 8
#define STATUS_FAILED 125

struct front {
    struct loop *loop;
    struct core *core;
    struct server *server;
    char *const *kinds;
    int listeners;
    struct err err; /* why it ends */
};

/* ---- the recorder ---- */

static void become_recorder(int sock)
{
    if (dup2(FD_STATE, 6) < 0 || dup2(sock, 3) < 0 || dup2(6, 4) < 0 ||
        sys_close_range(5, ~0u, 0) < 0)
        _exit(STATUS_FAILED);
    _exit(recorder_main(3, 4));
}

/* Its socket, or negative. */
static int start_recorder(struct err *err)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return err_sys(err, "socket for the recorder");
    pid_t pid = fork();
    if (pid == 0) {
        /* Its own end waits for messages; only ours must not. */
        fcntl(pair[1], F_SETFL, 0);
        become_recorder(pair[1]);
    }
    close(pair[1]);
    if (pid < 0) {
        close(pair[0]);
        return err_sys(err, "start the recorder");
    }
    close(FD_STATE);
    return pair[0];
}

/* ---- serving ---- */

static void end_with(struct front *f, const struct err *err)
{
    if (f->err.code == ERR_NONE)
        f->err = *err;
    loop_stop(f->loop);
}

static void lost(void *ctx, const struct err *err)
{
    end_with(ctx, err);
}

static void drained(void *ctx)
{
    struct front *f = ctx;
    loop_stop(f->loop);
}

static void stop(void *ctx)
{
    struct front *f = ctx;
    server_drain(f->server, NULL, NULL);
    core_drain(f->core, drained, f);
}

static void ready(void *ctx, const struct err *err)
{
    struct front *f = ctx;
    struct err own = ERR_INIT;
    if (err) {
        end_with(f, err);
        return;
    }
    for (int i = 0; i < f->listeners; i++) {
        if (server_listen(f->server, FD_LISTENERS + i, !strcmp(f->kinds[i], "unix"), &own) < 0) {
            end_with(f, &own);
            return;
        }
    }
    core_serving(f->core);
}

static int open_all(struct front *f, int recorder, struct err *err)
{
    static const struct server_limits limits = {0};
    static const struct core_config config = {0};
    if (core_new(&f->core, f->loop, &config, FD_LAUNCHER, recorder, err) < 0 ||
        server_new(&f->server, f->loop, &limits, api_auth, api_serve, f->core, err) < 0 ||
        server_allow_host(f->server, ".localhost", err) < 0)
        return -err->code;
    return 0;
}

static int run(struct front *f, struct err *err)
{
    struct front_seal sealed;
    int recorder = start_recorder(err);
    if (recorder < 0 || loop_new(&f->loop, err) < 0 || front_seal(&sealed, err) < 0 ||
        open_all(f, recorder, err) < 0)
        return -err->code;
    core_on_lost(f->core, lost, f);
    core_on_stop(f->core, stop, f);
    core_when_ready(f->core, ready, f);
    int r = loop_run(f->loop);
    if (r < 0)
        return err_set(err, ERR_SYSTEM, "the event loop: %s", strerror(-r));
    if (f->err.code != ERR_NONE)
        *err = f->err;
    return f->err.code != ERR_NONE ? -f->err.code : 0;
}

int front_run(char *const kinds[])
{
    struct err err = ERR_INIT;
    struct front f = {.kinds = kinds};
    while (kinds[f.listeners])
        f.listeners++;
    if (f.listeners > LISTENERS_MAX || fcntl(FD_LAUNCHER, F_GETFD) < 0) {
        fputs("brig-daemon is started by brig serve\n", stderr);
        return STATUS_FAILED;
    }
    /* ^C on a terminal is the launcher's to answer. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    if (run(&f, &err) == 0)
        return 0;
    fprintf(stderr, "brig-daemon: %s\n", err.message);
    return STATUS_FAILED;
}
