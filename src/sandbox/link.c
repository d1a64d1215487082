/* Starts brig-proxy, sends it configuration, listeners and connections, reads its events, and ends
 * it. */
#include "sandbox/link.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "credentials/keeper.h"
#include "os/beside.h"
#include "os/fd.h"
#include "os/procfs.h"
#include "os/sys.h"
#include "os/weaken.h"
#include "sandbox/sandbox.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROXY_NAME "brig-proxy"
/* Helper programs and Vault have their own, shorter deadlines. */
#define READY_MS 40000
#define END_MS   12000
#define ENV_MAX  (EGRESS_SECRETS_MAX + 24)

void link_init(struct link *l)
{
    *l = (struct link){.pid = -1, .pidfd = -1, .fd = -1, .lost_fd = -1, .keeper_fd = -1};
    buf_init(&l->ca, CHANNEL_TEXT_MAX);
}

int link_program(char *ret, size_t size, struct err *err)
{
    int r = program_beside(PROXY_NAME, ret, size, err);
    return r < 0 ? err_at(err, BOUNDARY_NETWORK) : 0;
}

/* The variables that the sources name, and nothing else of the caller's or the request's. */
struct environment {
    char *items[ENV_MAX + 1];
    size_t count;
    bool failed;
    const struct run_values *values;
};

static void add_variable(void *ctx, const char *name)
{
    struct environment *e = ctx;
    const char *value = run_values_find(e->values, name);
    if (!value && !(value = getenv(name)))
        return;
    size_t len = strlen(name) + strlen(value) + 2;
    char *entry = e->count < ENV_MAX ? malloc(len) : NULL;
    if (!entry) {
        e->failed = true;
        return;
    }
    snprintf(entry, len, "%s=%s", name, value);
    e->items[e->count++] = entry;
}

static void environment_wipe(struct environment *e)
{
    while (e->count) {
        char *entry = e->items[--e->count];
        explicit_bzero(entry, strlen(entry));
        free(entry);
    }
}

static int send_config(struct link *l, const struct link_config *c, struct err *err)
{
    uint32_t type = c->check ? CH_CHECK : CH_CONFIG;
    cleanup_buf struct buf text;
    struct json_writer w;
    buf_init(&text, 4u << 20);
    jw_init(&w, &text, false);
    jw_object_begin(&w);
    jw_key(&w, "egress");
    egress_write_json(c->egress, &w);
    if (c->token)
        jw_kv_string(&w, "auth", c->token);
    if (c->resolver)
        jw_kv_string(&w, "resolver", c->resolver);
    if (c->learn)
        jw_kv_uint(&w, "learn", 1);
    if (c->cpus_milli)
        jw_kv_uint(&w, "cpus", c->cpus_milli);
    if (c->uid) {
        jw_kv_uint(&w, "uid", c->uid);
        jw_kv_uint(&w, "gid", c->uid);
    }
    jw_object_end(&w);
    if (text.failed)
        return err_set(err, ERR_LIMIT, "the rules are too long");
    cleanup_fd int fd = memfd_sealed("brig-egress", text.data, text.len, false, err);
    if (fd < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return err_wrap(err, "configure %s", PROXY_NAME);
    int r = channel_send(l->fd, type, 0, 0, NULL, fd, NULL);
    errno = -r;
    return r < 0 ? err_sys(err, "configure %s", PROXY_NAME) : 0;
}

static int start(struct link *l, const struct link_config *c, struct err *err)
{
    const struct egress *egress = c->egress;
    char program[4200], *argv[] = {PROXY_NAME, NULL};
    int pair[2];
    struct environment env = {.values = c->values};
    _Static_assert(PROXY_FD_CONTROL == PROGRAM_FD, "its only descriptor");
    if (link_program(program, sizeof program, err) < 0)
        return err_number(err);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_sys(err, "control socket of %s", PROXY_NAME);
    l->fd = pair[0];
    cleanup_fd int theirs = pair[1];
    keeper_variables(egress, add_variable, &env);
#ifdef BRIG_WEAKEN
    add_variable(&env, "BRIG_WEAKEN");
#endif
    int r = env.failed ? err_set(err, ERR_LIMIT, "too many variables for %s", PROXY_NAME)
                       : program_start(program, argv, env.items, &theirs, 1, &l->pid, err);
    environment_wipe(&env);
    if (r < 0)
        return r;
    l->started = true;
    /* From here on the values are brig-proxy's alone, and not in our /proc/PID/environ either. */
    keeper_wipe_environment(egress);
    l->pidfd = sys_pidfd_open(l->pid);
    return l->pidfd < 0 ? err_sys(err, "pidfd of %s", PROXY_NAME) : 0;
}

int link_start(struct link *l, const struct link_config *c, struct err *err)
{
    l->msg = calloc(1, sizeof *l->msg);
    if (!l->msg)
        return err_memory(err);
    if (start(l, c, err) < 0 || send_config(l, c, err) < 0) {
        err_at(err, BOUNDARY_NETWORK);
        return err_number(err);
    }
    return 0;
}

int link_replace(struct link *l, const struct link_config *c, struct err *err)
{
    return send_config(l, c, err);
}

/* The owner still watches the descriptor, and has to forget it first: under a number that may be
 * somebody else's by then it could not. So it is closed at the end; a proxy that lives, and spoke
 * nonsense, ends now. */
static void lose(struct link *l)
{
    shutdown(l->fd, SHUT_RDWR);
    l->lost_fd = l->fd;
    l->fd = -1;
    l->died = true;
}

int link_next(struct link *l)
{
    int fd = -1;
    if (l->fd < 0)
        return -ENOTCONN;
    struct pollfd p = {.fd = l->fd, .events = POLLIN};
    if (poll(&p, 1, 0) <= 0)
        return 0;
    int r = channel_receive(l->fd, l->msg, &fd, NULL);
    if (fd >= 0)
        close(fd); /* it has nothing to give */
    if (r == -EAGAIN)
        return 0;
    if (r <= 0)
        lose(l);
    return r > 0 ? 1 : -ENOTCONN;
}

/* Held by descriptor: its number may be given to somebody else. */
static void find_keeper(struct link *l)
{
    struct proc_status status;
    struct err err = ERR_INIT;
    pid_t pid = procfs_child(l->pid);
    l->keeper_fd = pid > 0 ? sys_pidfd_open(pid) : -1;
    if (l->keeper_fd >= 0 && procfs_status(pid, &status, &err) == 0 && status.ppid == l->pid)
        l->keeper = pid;
}

pid_t link_keeper(const struct link *l)
{
    struct pollfd p = {.fd = l->keeper_fd, .events = POLLIN};
    return l->keeper && poll(&p, 1, 0) == 0 ? l->keeper : 0;
}

/* {"ca": PEM or null, "facts": {…}} */
static int take_ready(struct link *l, struct err *err)
{
    struct json *root = NULL;
    if (json_parse(l->msg->text, l->msg->text_len, &json_default_limits, &root, NULL) < 0)
        return err_set(err, ERR_PROTOCOL, "%s sent a malformed message", PROXY_NAME);
    const struct json *ca = json_get(root, "ca");
    if (ca && json_type(ca) == JSON_STRING)
        buf_str(&l->ca, json_string(ca));
    json_free(root);
    find_keeper(l);
    l->ready = true;
    return 0;
}

static int take_first(struct link *l, struct err *err)
{
    switch (l->msg->type) {
    case CH_READY:
        return take_ready(l, err);
    case CH_FAIL:
        *err = l->msg->err;
        if (!err_code_known(err->code))
            err->code = ERR_PROTOCOL;
        return err_number(err);
    default:
        return 0;
    }
}

int link_await(struct link *l, int signal_fd, struct err *err)
{
    uint64_t deadline = clock_us() + READY_MS * 1000ull;
    while (!l->ready) {
        struct pollfd fds[2] = {{.fd = l->fd, .events = POLLIN},
                                {.fd = signal_fd, .events = POLLIN}};
        uint64_t now = clock_us();
        if (now >= deadline)
            return err_set(err, ERR_SYSTEM, "%s was not ready after %d s", PROXY_NAME,
                           READY_MS / 1000);
        if (poll(fds, 2, (int)((deadline - now) / 1000) + 1) < 0 && errno != EINTR)
            return err_sys(err, "wait for %s", PROXY_NAME);
        if (fds[1].revents)
            return err_set(err, ERR_INTERRUPTED, "interrupted during the set-up");
        int r = link_next(l);
        if (r < 0) {
            err_set(err, ERR_SYSTEM, "%s died during the set-up", PROXY_NAME);
            return err_at(err, BOUNDARY_NETWORK);
        }
        if (r > 0 && take_first(l, err) < 0)
            return err_number(err);
    }
    return 0;
}

int link_listener(struct link *l, int fd, enum channel_listener kind, uint16_t port)
{
    return l->fd < 0 ? -ENOTCONN : channel_send(l->fd, CH_LISTENER, kind, port, NULL, fd, NULL);
}

int link_connection(struct link *l, int fd, enum channel_listener kind, const char *address,
                    uint16_t port)
{
    char text[80];
    snprintf(text, sizeof text, "%s %u", address, port);
    return l->fd < 0 ? -ENOTCONN : channel_send(l->fd, CH_CONNECTION, kind, port, text, fd, NULL);
}

/* Never waits: whoever asks often could else hold the asked one up, with all that it serves. */
int link_sync(struct link *l, uint32_t value)
{
    struct pollfd room = {.fd = l->fd, .events = POLLOUT};
    if (l->fd < 0)
        return -ENOTCONN;
    if (poll(&room, 1, 0) != 1 || !(room.revents & POLLOUT))
        return -EAGAIN;
    return channel_send(l->fd, CH_SYNC, value, 0, NULL, -1, NULL);
}

void link_refused(struct link *l, const char *address, uint16_t port)
{
    char text[80];
    snprintf(text, sizeof text, "%s %u", address, port);
    if (l->fd >= 0)
        channel_send(l->fd, CH_REFUSED, 0, port, text, -1, NULL);
}

static void drain(struct link *l, void (*fn)(void *ctx, const struct channel_msg *msg), void *ctx)
{
    uint64_t deadline = clock_us() + END_MS * 1000ull;
    for (uint64_t now; l->fd >= 0 && (now = clock_us()) < deadline;) {
        struct pollfd p = {.fd = l->fd, .events = POLLIN};
        if (poll(&p, 1, (int)((deadline - now) / 1000) + 1) <= 0)
            continue;
        int r = link_next(l);
        if (r > 0 && fn)
            fn(ctx, l->msg);
        if (r > 0 && l->msg->type == CH_BYE)
            break;
    }
}

void link_end(struct link *l, void (*fn)(void *ctx, const struct channel_msg *msg), void *ctx)
{
    bool alive = l->fd >= 0;
    if (alive && channel_send(l->fd, CH_END, 0, 0, NULL, -1, NULL) == 0) {
        drain(l, fn, ctx);
        l->died = false;
    }
    link_done(l);
}

/* Closing the control socket tells the proxy to end; one that does not is killed. */
static void reap(struct link *l)
{
    struct pollfd p = {.fd = l->pidfd, .events = POLLIN};
    if (!l->started)
        return;
    if (l->pidfd < 0 || poll(&p, 1, 1000) <= 0)
        kill(l->pid, SIGKILL);
    while (waitpid(l->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    l->started = false;
}

void link_done(struct link *l)
{
    if (l->fd >= 0)
        close(l->fd);
    if (l->lost_fd >= 0)
        close(l->lost_fd);
    l->fd = l->lost_fd = -1;
    reap(l);
    if (l->pidfd >= 0)
        close(l->pidfd);
    l->pidfd = -1;
    if (l->keeper_fd >= 0)
        close(l->keeper_fd);
    l->keeper_fd = -1;
    buf_done(&l->ca);
    free(l->msg);
    l->msg = NULL;
}
