/* brig-daemon: the part of `brig serve` that talks to clients, the front. Started by `brig serve`
 * alone, with its sockets at fixed descriptors:
 *
 *   3     the launcher
 *   4     the state folder, for the recorder; closed here once that has it
 *   5…    listening sockets; the arguments are their kinds, in order ("unix", "tcp", or "tls":
 *         brig-tls, which hands over connections that it accepted), and then names that may stand
 *         in Host besides this machine's ("--host=NAME"), and the one that sandboxes' ports are
 *         below ("--domain=NAME[:PORT]"); "api." may stand before it too
 *
 * It forks the recorder, makes what it needs, gives away every right that it does not need, and
 * only then reads the first byte from anyone. Ends with the launcher, with the recorder, or when it
 * is told to (SIGTERM, or the launcher's word). */
#include "audit/ask.h"
#include "audit/notary.h"
#include "audit/recorder.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "daemon/api/route.h"
#include "daemon/base/account.h"
#include "daemon/base/fault.h"
#include "daemon/mcp/mcp.h"
#include "daemon/seal.h"
#include "os/fd.h"
#include "os/seal.h"
#include "os/signals.h"
#include "os/sys.h"
#include "os/weaken.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>

#define FD_LAUNCHER   3
#define FD_STATE      4
#define FD_LISTENERS  5
#define LISTENERS_MAX 16
#define LAST_WORDS_MS 2000 /* for answers that are on their way when all sandboxes have ended */
#define RECORDER_S    10   /* for the recorder, to close its database */

static struct front {
    struct loop *loop;
    struct core *core;
    struct server *server;
    struct loop_io signals;
    struct loop_timer last_words;
    struct front_seal seal;
    unsigned listeners;
    enum listener_kind { KIND_UNIX, KIND_TCP, KIND_TLS } kinds[LISTENERS_MAX];
    bool stopping, idle, drained;
    int recorder_fd; /* the core's socket once more */
    int status;
} front = {.recorder_fd = -1};

/* ---- the end ---- */

static void end(int status)
{
    front.status = status;
    loop_stop(front.loop);
}

static void on_last_words(struct loop_timer *t)
{
    (void)t;
    end(0);
}

static void check_end(void)
{
    if (front.drained && front.idle)
        end(0);
    else if (front.drained)
        loop_timer_set(front.loop, &front.last_words, LAST_WORDS_MS);
}

static void on_idle(void *ctx)
{
    (void)ctx;
    front.idle = true;
    check_end();
}

static void on_drained(void *ctx)
{
    (void)ctx;
    front.drained = true;
    check_end();
}

/* No new connection, no new sandbox; those that are there end, and with them the answers that wait
 * for them. */
static void stop(void *ctx)
{
    (void)ctx;
    if (front.stopping)
        return;
    front.stopping = true;
    server_drain(front.server, on_idle, NULL);
    core_drain(front.core, on_drained, NULL);
}

/* The end of its socket is the recorder's sign to write what it has and to close its database; the
 * end of its own side says that this was done. `brig serve` does not end before. */
static void end_recorder(void)
{
    const struct timeval wait = {.tv_sec = RECORDER_S};
    char data[256];
    int fd = front.recorder_fd;
    fcntl(fd, F_SETFL, O_RDWR);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    shutdown(fd, SHUT_WR);
    while (recv(fd, data, sizeof data, 0) > 0)
        ;
}

/* With one write: dprintf asks where a file stands, and the seal does not answer that. */
static void say(const struct err *err)
{
    char text[sizeof err->message + sizeof err->hint + 32];
    int n = snprintf(text, sizeof text, "brig serve: %s%s%s\n", err->message,
                     err->hint[0] ? "; " : "", err->hint);
    if (write(STDERR_FILENO, text, (size_t)n) < 0)
        errno = 0; /* nobody listens */
}

static void on_lost(void *ctx, const struct err *err)
{
    (void)ctx;
    if (!front.stopping)
        say(err);
    end(front.stopping ? 0 : 1);
}

static void on_signals(struct loop_io *io, uint32_t events)
{
    (void)events;
    struct signalfd_siginfo info;
    while (read(io->fd, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGHUP)
            core_reload(front.core);
        else
            stop(NULL);
    }
}

/* ---- the start ---- */

static void record_start(void)
{
    core_record(front.core, "daemon.sealed", NULL, NULL,
                JSON_SMALL(JSON_FLAG("landlock_paths", front.seal.paths),
                           JSON_FLAG("landlock_ports", front.seal.ports),
                           JSON_FLAG("seccomp", true), JSON_NUMBER("uid", front.seal.uid)));
}

static int listen_on(unsigned i, struct err *err)
{
    int fd = FD_LISTENERS + (int)i;
    if (front.kinds[i] == KIND_TLS)
        return server_take_handed(front.server, fd, err);
    return server_listen(front.server, fd, front.kinds[i] == KIND_UNIX, err);
}

static void on_ready(void *ctx, const struct err *why)
{
    (void)ctx;
    struct err err = ERR_INIT;
    if (why) {
        on_lost(NULL, why);
        return;
    }
    record_start();
    for (unsigned i = 0; i < front.listeners; i++)
        if (listen_on(i, &err) < 0) {
            on_lost(NULL, &err);
            return;
        }
    core_serving(front.core);
}

static int start_recorder(struct err *err)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_sys(err, "a socket for the recorder");
    pid_t pid = fork();
    if (pid < 0)
        return err_sys(err, "start the recorder");
    if (pid == 0) {
        close(pair[0]);
        close(FD_LAUNCHER);
        for (unsigned i = 0; i < front.listeners; i++)
            close(FD_LISTENERS + (int)i);
        recorder_main(pair[1], FD_STATE);
        _exit(125);
    }
    close(pair[1]);
    close(FD_STATE);
    fcntl(pair[0], F_SETFL, O_RDWR | O_NONBLOCK);
    return pair[0];
}

/* A connection, and what a warden hands over for it. A quarter of all is for connections, a quarter
 * for what is run; a sandbox with its interpreter has four. */
static unsigned raise_descriptors(unsigned *ret_boxes)
{
    struct rlimit l;
    *ret_boxes = 0;
    if (getrlimit(RLIMIT_NOFILE, &l) < 0)
        return 0;
    l.rlim_cur = l.rlim_max;
    setrlimit(RLIMIT_NOFILE, &l);
    if (l.rlim_cur < 1u << 20)
        *ret_boxes = (unsigned)(l.rlim_cur / 8);
    return l.rlim_cur / 4 < 2048 ? (unsigned)(l.rlim_cur / 4) : 0;
}

#define DOMAIN_ARGUMENT "--domain="

/* A listener at an address of its own may be called by that address. */
static int allow_own_address(int fd, struct err *err)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } at = {.v6 = {0}};
    socklen_t len = sizeof at;
    char text[INET6_ADDRSTRLEN];
    if (getsockname(fd, &at.any, &len) < 0)
        return err_sys(err, "the address of a listening socket");
    const struct in6_addr *v6 = &at.v6.sin6_addr;
    bool is_v4 = at.any.sa_family == AF_INET;
    if (is_v4 ? at.v4.sin_addr.s_addr == htonl(INADDR_ANY)
              : IN6_IS_ADDR_UNSPECIFIED(v6) || IN6_IS_ADDR_V4MAPPED(v6))
        return 0;
    const void *address = is_v4 ? (const void *)&at.v4.sin_addr : (const void *)v6;
    if (!inet_ntop(at.any.sa_family, address, text, sizeof text))
        return err_sys(err, "the address of a listening socket");
    return server_allow_host(front.server, text, err);
}

/* The names that the clients of a domain use: the API's and those of ports. */
static int allow_domain(const char *domain, struct err *err)
{
    char name[280];
    snprintf(name, sizeof name, ".%.*s", (int)strcspn(domain, ":"), domain);
    if (server_allow_host(front.server, name, err) < 0)
        return err_number(err);
    return server_allow_host(front.server, name + 1, err);
}

static int take_argument(const char *text, struct err *err)
{
    if (text_begins(text, DOMAIN_ARGUMENT))
        return allow_domain(text + strlen(DOMAIN_ARGUMENT), err);
    if (text_begins(text, "--host="))
        return server_allow_host(front.server, text + 7, err);
    static const char *const names[] = {
        [KIND_UNIX] = "unix", [KIND_TCP] = "tcp", [KIND_TLS] = "tls"};
    size_t kind = 0;
    while (kind < ARRAY_LEN(names) && strcmp(text, names[kind]) != 0)
        kind++;
    if (kind == ARRAY_LEN(names) || front.listeners == LISTENERS_MAX)
        return err_set(err, ERR_USAGE, "brig-daemon: %.80s?", text);
    int fd = FD_LISTENERS + (int)front.listeners;
    front.kinds[front.listeners++] = (enum listener_kind)kind;
    return kind == KIND_TCP ? allow_own_address(fd, err) : 0;
}

static int watch_signals(struct err *err)
{
    static const int watched[] = {SIGTERM, SIGHUP};
    int fd = signals_open(watched, ARRAY_LEN(watched), NULL, err);
    if (fd < 0)
        return fd;
    front.signals = (struct loop_io){.fd = fd, .fn = on_signals};
    return loop_watch(front.loop, &front.signals, EPOLLIN) < 0 ? err_sys(err, "watch signals") : 0;
}

/* What is large goes back to the system when it is freed, whatever sizes were used before: the
 * memory of the front is what its accounts say. */
static void keep_little(void)
{
    mallopt(M_MMAP_THRESHOLD, 128 * 1024);
    mallopt(M_TRIM_THRESHOLD, 512 * 1024);
    mallopt(M_ARENA_MAX, 1);
}

/* One set of accounts for both. Of all descriptors a quarter is for what runs inside. */
static int open_accounts(struct server_limits *limits, struct core_config *config, struct err *err)
{
    struct account_limits of = server_account_limits(limits);
    struct account_limit *fds = &of.of[ACCOUNT_OF_KEY][ACCOUNT_DESCRIPTORS];
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur / 4 < fds->all) {
        fds->all = l.rlim_cur / 4;
        fds->reserve = fds->all / 16;
    }
    limits->accounts = config->accounts = accounts_new(&of);
    return config->accounts ? 0 : err_memory(err);
}

/* The recorder is forked first, while there is little to inherit. */
static int prepare(int argc, char **argv, struct err *err)
{
    struct core_config config = {.boxes = &core_boxes};
    struct server_limits limits = {.connections = raise_descriptors(&config.possible_boxes)};
    cleanup_fd int recorder = -1;
    keep_little();
    for (int i = 1; i < argc; i++) {
        front.listeners += argv[i][0] != '-';
        if (text_begins(argv[i], DOMAIN_ARGUMENT))
            config.domain = argv[i] + strlen(DOMAIN_ARGUMENT);
    }
    if (front.listeners > LISTENERS_MAX)
        return err_set(err, ERR_USAGE, "brig-daemon: too many listeners");
    sys_close_range(FD_LISTENERS + front.listeners, ~0u, 0);
    for (int fd = FD_LAUNCHER; fd < FD_LISTENERS + (int)front.listeners; fd++)
        if (fd_set_cloexec(fd, true) < 0)
            return err_sys(err, "brig-daemon: descriptor %d", fd);
    if (open_accounts(&limits, &config, err) < 0)
        return err_number(err);
    recorder = start_recorder(err);
    /* Everybody waits for this one process, and what runs in a sandbox for nobody else: where that
     * is allowed (to root), it goes first. */
    if (nice(-10) < 0)
        errno = 0;
    front.recorder_fd = recorder < 0 ? -1 : fcntl(recorder, F_DUPFD_CLOEXEC, 3);
    if (recorder < 0 || loop_new(&front.loop, err) < 0 || watch_signals(err) < 0 ||
        core_new(&front.core, front.loop, &config, FD_LAUNCHER, fd_steal(&recorder), err) < 0 ||
        server_new(&front.server, front.loop, &limits, api_auth, api_serve, front.core, err) < 0 ||
        /* "3000-<id>.localhost" is a port of a sandbox; nobody else's name ends so. */
        server_allow_host(front.server, ".localhost", err) < 0)
        return err_number(err);
    front.listeners = 0;
    for (int i = 1; i < argc; i++)
        if (take_argument(argv[i], err) < 0)
            return err_number(err);
    return 0;
}

/* DM-8 */
static void on_revoked(void *ctx, const struct key *key)
{
    (void)ctx;
    server_cut(front.server, key);
    mcp_sessions_forget(mcp_state(front.core), key);
}

static int run(int argc, char **argv, struct err *err)
{
    front.last_words.fn = on_last_words;
    if (prepare(argc, argv, err) < 0)
        return err_number(err);
    tzset(); /* reads a file, if it is to be read */
    if (front_seal(&front.seal, err) < 0)
        return err_number(err);
    core_on_lost(front.core, on_lost, NULL);
    core_on_stop(front.core, stop, NULL);
    core_on_revoked(front.core, on_revoked, NULL);
    core_when_ready(front.core, on_ready, NULL);
    int r = loop_run(front.loop);
    end_recorder();
    errno = -r;
    return r < 0 ? err_sys(err, "the event loop") : 0;
}

static int print(void (*write)(struct buf *out))
{
    struct buf out cleanup_buf;
    buf_init(&out, 1u << 20);
    write(&out);
    return fwrite(buf_text(&out), 1, out.len, stdout) == out.len ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct err err = ERR_INIT;
    int type = 0;
    socklen_t len = sizeof type;
    if (argc == 2 && !strcmp(argv[1], "--routes"))
        return print(api_print_routes);
#ifdef BRIG_WEAKEN
    if (argc == 2 && !strcmp(argv[1], "--faults"))
        return print(fault_list);
#endif
    /* For `brig audit` and `brig keys`, which have no SQLite, and for the recorder's tests. */
    if (argc == 3 && !strcmp(argv[1], "audit"))
        return audit_ask(argv[2]);
    /* For `brig run`, while the code runs. */
    if (argc == 2 && !strcmp(argv[1], "sign"))
        return notary_main();
    if (argc == 2 && !strcmp(argv[1], "recorder"))
        return recorder_main(FD_LAUNCHER, FD_STATE);
    if (getsockopt(FD_LAUNCHER, SOL_SOCKET, SO_TYPE, &type, &len) < 0 || type != SOCK_SEQPACKET) {
        fputs("brig-daemon is started by brig serve\n", stderr);
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    signal(SIGPIPE, SIG_IGN);
    if (fault_init(weaken_setting("BRIG_FAULT"), &err) < 0 || run(argc, argv, &err) < 0) {
        say(&err);
        front.status = 1;
    }
    seal_exit(front.status);
    return 1;
}
