/* The process tier's connections, with a real task behind a real filter. The addresses that the
 * code asks for are those of a server that is there (the sink): it must never hear of anything.
 * Each refusal has a control in which the same call works. */
#include "filter_fixture.h"

#include "base/cleanup.h"
#include "kernel/kernel.h"
#include "kernel/process/broker_connect.h"
#include "os/landlock.h"
#include "os/sys.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define RESULTS 64

static int *results; /* filled in by the code */
static int sink = -1;
static struct sockaddr_in sink_at;
static struct kernel k;
static struct denial_list denials;

/* What the callback was told. */
static struct {
    unsigned count;
    bool refuse;
    int fds[512];
    struct sockaddr_storage asked[512];
    socklen_t len[512];
} got;

static int on_connected(void *ctx, int fd, const struct sockaddr *asked, socklen_t len)
{
    cr_assert_eq(ctx, &got);
    if (got.refuse)
        return -1;
    cr_assert_lt(got.count, 512);
    got.fds[got.count] = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    memcpy(&got.asked[got.count], asked, len);
    got.len[got.count++] = len;
    return 0;
}

static struct sockaddr_in loopback(in_port_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = port};
}

static int listen_at(struct sockaddr_in *at, int backlog)
{
    socklen_t len = sizeof *at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    *at = loopback(0);
    cr_assert_eq(bind(fd, (struct sockaddr *)at, len), 0);
    cr_assert_eq(listen(fd, backlog), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)at, &len), 0);
    return fd;
}

static void setup(void)
{
    struct err err = ERR_INIT;
    results = mmap(NULL, RESULTS * sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                   -1, 0);
    cr_assert_neq(results, MAP_FAILED);
    sink = listen_at(&sink_at, 64);
    kernel_init(&k);
    k.options = (struct filter_options){
        .brokered_net = true, .scoped_signals = true, .own_uid = true, .notify = true};
    k.connected = on_connected;
    k.connected_ctx = &got;
    cr_assert_eq(kernel_prepare(&k, &err), 0, "%s", err.message);
    build(&k.options);
}

static void teardown(void)
{
    for (unsigned i = 0; i < got.count; i++)
        close(got.fds[i]);
    kernel_teardown(&k);
    close(sink);
}

TestSuite(broker_connect, .init = setup, .fini = teardown);

static bool sink_was_reached(void)
{
    usleep(1000);
    int fd = accept(sink, NULL, NULL);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* ---- a task behind the filter ---- */

#define WAIT_KILLABLE 32u

static int load(unsigned flags)
{
    struct sock_fprog fprog = {.len = program.len, .filter = program.code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -1;
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &fprog);
}

static void send_fd(int sock, int fd)
{
    union {
        char room[CMSG_SPACE(sizeof fd)];
        struct cmsghdr align;
    } control = {0};
    char byte = 0;
    struct iovec iov = {&byte, 1};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = &control,
                         .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    sendmsg(sock, &msg, 0);
}

static int receive_fd(int sock)
{
    union {
        char room[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    char byte;
    int fd = -1;
    struct iovec iov = {&byte, 1};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = &control,
                         .msg_controllen = sizeof control};
    cr_assert_eq(recvmsg(sock, &msg, MSG_CMSG_CLOEXEC), 1);
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    if (c)
        memcpy(&fd, CMSG_DATA(c), sizeof fd);
    return fd;
}

static pid_t task;

static void start(void (*body)(void), unsigned flags)
{
    int pair[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    task = fork();
    cr_assert_geq(task, 0);
    if (task == 0) {
        int listener = load(SECCOMP_FILTER_FLAG_NEW_LISTENER | flags);
        if (listener < 0)
            _exit(99);
        send_fd(pair[1], listener);
        close(listener);
        close(sink);
        body();
        _exit(0);
    }
    close(pair[1]);
    k.listener_fd = receive_fd(pair[0]);
    cr_assert_geq(k.listener_fd, 0);
    close(pair[0]);
}

/* Answers until the task is gone; returns its wait status. */
static int serve(void)
{
    int status = 0;
    int pidfd = (int)syscall(SYS_pidfd_open, task, 0);
    struct pollfd fds[] = {{.fd = k.listener_fd, .events = POLLIN},
                           {.fd = pidfd, .events = POLLIN}};
    while (poll(fds, 2, 20000) > 0) {
        if (fds[0].revents & POLLIN)
            cr_assert_eq(seen_answer(&k, &denials), 0);
        else if (fds[1].revents || fds[0].revents & POLLHUP)
            break;
    }
    cr_assert_eq(waitpid(task, &status, 0), task);
    close(pidfd);
    close(k.listener_fd);
    k.listener_fd = -1;
    return status;
}

static int run_task(void (*body)(void))
{
    start(body, 0);
    return serve();
}

/* The same without filter and broker. */
static int run_free(void (*body)(void))
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        close(sink);
        body();
        _exit(0);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    return status;
}

static int try_connect(int fd, const void *to, socklen_t len)
{
    return connect(fd, to, len) < 0 ? errno : 0;
}

static int tcp(int family, int flags)
{
    return socket(family, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
}

/* ---- the plain cases ---- */

static void body_blocking(void)
{
    struct sockaddr_in peer;
    socklen_t len = sizeof peer;
    int fd = tcp(AF_INET, 0);
    results[0] = try_connect(fd, &sink_at, sizeof sink_at);
    results[1] = (int)write(fd, "hello", 5);
    results[2] =
        getpeername(fd, (struct sockaddr *)&peer, &len) == 0 && peer.sin_port != sink_at.sin_port;
    results[3] = fcntl(fd, F_GETFL) & O_NONBLOCK;
    results[4] = try_connect(fd, &sink_at, sizeof sink_at);
}

Test(broker_connect, a_blocking_socket)
{
    char text[8] = "";
    cr_assert_eq(run_task(body_blocking), 0);
    cr_assert_eq(results[0], 0, "%s", strerror(results[0]));
    cr_assert_eq(results[1], 5);
    cr_assert_eq(results[2], 1, "it is not the sink's port");
    cr_assert_eq(results[3], 0, "its flags are as they were");
    cr_assert_eq(results[4], EISCONN);
    cr_assert_eq(got.count, 1);
    cr_assert_eq(got.len[0], sizeof sink_at);
    cr_assert_eq(memcmp(&got.asked[0], &sink_at, sizeof sink_at), 0, "the address as it was asked");
    cr_assert(fcntl(got.fds[0], F_GETFL) & O_NONBLOCK, "our side never blocks");
    cr_assert_eq(read(got.fds[0], text, sizeof text), 5);
    cr_assert_str_eq(text, "hello");
    cr_assert(!sink_was_reached());
    cr_assert_eq(denials.count, 0);
    cr_assert_eq(run_free(body_blocking), 0);
    cr_assert(sink_was_reached(), "the control: without the filter it is the sink");
}

static void body_nonblocking(void)
{
    int fd = tcp(AF_INET, SOCK_NONBLOCK), error = -1;
    socklen_t len = sizeof error;
    results[0] = try_connect(fd, &sink_at, sizeof sink_at);
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    results[1] = poll(&p, 1, 5000);
    results[2] = getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 ? errno : error;
    results[3] = try_connect(fd, &sink_at, sizeof sink_at);
    results[4] = try_connect(fd, &sink_at, sizeof sink_at);
}

static void check_nonblocking(void)
{
    cr_assert_eq(results[0], EINPROGRESS, "%s", strerror(results[0]));
    cr_assert_eq(results[1], 1);
    cr_assert_eq(results[2], 0);
    cr_assert_eq(results[3], 0, "asked once more it says so");
    cr_assert_eq(results[4], EISCONN);
}

Test(broker_connect, a_non_blocking_socket)
{
    cr_assert_eq(run_task(body_nonblocking), 0);
    check_nonblocking();
    cr_assert_eq(got.count, 1);
    cr_assert_eq(run_free(body_nonblocking), 0);
    check_nonblocking();
}

static struct sockaddr_in6 v6(const char *text)
{
    struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(443)};
    inet_pton(AF_INET6, text, &to.sin6_addr);
    return to;
}

static void body_v6(void)
{
    struct sockaddr_in6 plain = v6("2001:db8::7"), mapped = v6("::ffff:192.0.2.7");
    results[0] = try_connect(tcp(AF_INET6, 0), &plain, sizeof plain);
    results[1] = try_connect(tcp(AF_INET6, 0), &mapped, sizeof mapped);
    results[2] = try_connect(tcp(AF_INET6, SOCK_NONBLOCK), &plain, 24 /* without the scope */);
    int only = tcp(AF_INET6, 0), on = 1;
    results[3] = setsockopt(only, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    results[4] = try_connect(only, &plain, sizeof plain);
}

Test(broker_connect, v6)
{
    struct sockaddr_in6 plain = v6("2001:db8::7"), mapped = v6("::ffff:192.0.2.7");
    cr_assert_eq(run_task(body_v6), 0);
    cr_assert_eq(results[0], 0, "%s", strerror(results[0]));
    cr_assert_eq(results[1], 0, "%s", strerror(results[1]));
    cr_assert_eq(results[2], EINPROGRESS, "%s", strerror(results[2]));
    cr_assert_eq(results[3], 0);
    cr_assert_eq(results[4], 0, "%s", strerror(results[4]));
    cr_assert_eq(got.count, 4);
    cr_assert_eq(memcmp(&got.asked[0], &plain, sizeof plain), 0);
    cr_assert_eq(memcmp(&got.asked[1], &mapped, sizeof mapped), 0);
    cr_assert_eq(memcmp(&got.asked[2], &plain, sizeof plain), 0);
}

/* A host without ::1: the v4 listener serves both, but for sockets that know v6 only. */
Test(broker_connect, v6_without_a_v6_listener)
{
    close(k.connects.listener6);
    k.connects.listener6 = -1;
    cr_assert_eq(run_task(body_v6), 0);
    cr_assert_eq(results[0], 0, "%s", strerror(results[0]));
    cr_assert_eq(results[1], 0, "%s", strerror(results[1]));
    cr_assert_eq(results[4], ENETUNREACH, "%s", strerror(results[4]));
    cr_assert_eq(got.count, 3);
}

static void body_refused(void)
{
    int fd = tcp(AF_INET, 0);
    results[0] = try_connect(fd, &sink_at, sizeof sink_at);
    results[1] = send(fd, "x", 1, MSG_NOSIGNAL) < 0;
    results[2] = try_connect(tcp(AF_INET, SOCK_NONBLOCK), &sink_at, sizeof sink_at);
}

Test(broker_connect, the_callback_may_refuse)
{
    got.refuse = true;
    cr_assert_eq(run_task(body_refused), 0);
    cr_assert_eq(results[0], ECONNREFUSED, "%s", strerror(results[0]));
    cr_assert_eq(results[1], 1);
    cr_assert_eq(results[2], ECONNREFUSED, "%s", strerror(results[2]));
    got.refuse = false;
    cr_assert_eq(run_task(body_refused), 0);
    cr_assert_eq(results[0], 0);
    k.connected = NULL;
    cr_assert_eq(run_task(body_refused), 0);
    cr_assert_eq(results[0], ECONNREFUSED, "nobody to hand it to");
}

/* ---- addresses and descriptors that are none ---- */

static void body_nonsense(void)
{
    struct sockaddr_storage at = {0};
    struct sockaddr_in6 in6 = v6("::1");
    struct sockaddr_un un = {.sun_family = AF_UNIX, .sun_path = "/tmp/x"};
    int fd = tcp(AF_INET, 0), pair[2], null = open("/dev/null", O_RDONLY);
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    memcpy(&at, &sink_at, sizeof sink_at);
    results[0] = try_connect(fd, &at, 0);
    results[1] = try_connect(fd, &at, 1);
    results[2] = try_connect(fd, &at, 15);
    results[3] = try_connect(fd, &at, 129);
    results[4] = try_connect(fd, &at, (socklen_t)-1);
    results[5] = try_connect(fd, NULL, 16);
    results[6] = try_connect(fd, (void *)0xffffffffffff0000ul, 16);
    results[7] = try_connect(-1, &at, 16);
    results[8] = try_connect(999, &at, 16);
    results[9] = try_connect(null, &at, 16);
    results[10] = try_connect(pair[0], &un, sizeof un);
    results[11] = try_connect(pair[0], &at, 16);
    results[12] = try_connect(fd, &un, sizeof un);
    results[13] = try_connect(fd, &in6, sizeof in6);
    results[14] = try_connect(tcp(AF_INET6, 0), &at, 16);
    results[15] = try_connect(tcp(AF_INET6, 0), &in6, 23);
    at.ss_family = AF_UNSPEC;
    results[16] = try_connect(fd, &at, 16);
    at.ss_family = 77;
    results[17] = try_connect(fd, &at, 16);
    at.ss_family = AF_INET;
    results[18] = try_connect(fd, &at, 128); /* longer than needed is good */
    at.ss_family = AF_UNSPEC;
    results[19] = try_connect(fd, &at, 16);
    results[20] = (int)send(fd, "x", 1, MSG_NOSIGNAL);
}

Test(broker_connect, nonsense)
{
    static const int want[] = {
        EINVAL,       EINVAL, EINVAL,   EINVAL,       EINVAL, EFAULT,       EFAULT,
        EBADF,        EBADF,  ENOTSOCK, EAFNOSUPPORT, EPERM,  EAFNOSUPPORT, EAFNOSUPPORT,
        EAFNOSUPPORT, EINVAL, EPERM,    EAFNOSUPPORT, 0,      EPERM,        1};
    cr_assert_eq(run_task(body_nonsense), 0);
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
        cr_expect_eq(results[i], want[i], "%zu: %s, not %s", i, strerror(results[i]),
                     strerror(want[i]));
    cr_assert_eq(got.count, 1, "and one was good");
    cr_assert(!sink_was_reached());
}

/* ---- other ways to a connection ---- */

static void body_fast_open(void)
{
    struct iovec iov = {"x", 1};
    struct mmsghdr msg = {
        .msg_hdr = {
            .msg_name = &sink_at, .msg_namelen = sizeof sink_at, .msg_iov = &iov, .msg_iovlen = 1}};
    results[0] = sendto(tcp(AF_INET, 0), "x", 1, MSG_FASTOPEN | MSG_NOSIGNAL,
                        (struct sockaddr *)&sink_at, sizeof sink_at) < 0
                     ? errno
                     : 0;
    results[1] =
        sendmsg(tcp(AF_INET, 0), &msg.msg_hdr, MSG_FASTOPEN | MSG_NOSIGNAL) < 0 ? errno : 0;
    results[2] = sendmmsg(tcp(AF_INET, 0), &msg, 1, MSG_FASTOPEN | MSG_NOSIGNAL) < 0 ? errno : 0;
    /* Without the flag the address of a send means nothing on TCP. */
    results[3] = sendto(tcp(AF_INET, 0), "x", 1, MSG_NOSIGNAL, (struct sockaddr *)&sink_at,
                        sizeof sink_at) < 0
                     ? errno
                     : 0;
}

Test(broker_connect, a_send_does_not_connect)
{
    cr_assert_eq(run_task(body_fast_open), 0);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(results[i], EOPNOTSUPP, "%d: %s", i, strerror(results[i]));
    cr_assert_eq(results[3], EPIPE);
    cr_assert(!sink_was_reached());
    cr_assert_eq(run_free(body_fast_open), 0);
    cr_assert_eq(results[3], EPIPE);
    if (results[0])
        cr_skip_test("this kernel opens nothing fast: no control");
    cr_assert(sink_was_reached());
}

/* With a source route the first packet of a connect to 127.0.0.1 would go to the first hop. */
static void body_options(void)
{
    static const unsigned char route[] = {131, 11, 4, 192, 0, 2, 1, 127, 0, 0, 1, 0};
    struct sockaddr_in at = sink_at;
    int fd = tcp(AF_INET, SOCK_NONBLOCK), on = 1;
    results[0] = setsockopt(fd, IPPROTO_IP, IP_OPTIONS, route, sizeof route) < 0 ? errno : 0;
    results[1] = setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3) < 0 ? errno : 0;
    results[2] = setsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, &on, sizeof on) < 0 ? errno : 0;
    results[3] = setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0 ? errno : 0;
    results[4] =
        bind(fd, (struct sockaddr *)&(struct sockaddr_in){.sin_family = AF_INET}, sizeof at) < 0
            ? errno
            : 0;
    results[5] = listen(tcp(AF_INET, 0), 1) < 0 ? errno : 0;
    results[6] = socket(AF_INET, SOCK_DGRAM, 0) < 0 ? errno : 0;
}

Test(broker_connect, options_that_lead_elsewhere)
{
    cr_assert_eq(run_task(body_options), 0);
    static const int want[] = {ENOPROTOOPT, ENOPROTOOPT, ENOPROTOOPT, 0, EPERM, EPERM, EPERM};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
        cr_assert_eq(results[i], want[i], "%zu: %s", i, strerror(results[i]));
    cr_assert_gt(denials.count, 0, "bind, listen and the datagram socket are seen");
    cr_assert_eq(run_free(body_options), 0);
    /* Newer kernels ask for a right before they take a source route. */
    for (size_t i = geteuid() == 0 ? 0 : 1; i < sizeof want / sizeof want[0]; i++)
        cr_assert_eq(results[i], 0, "control %zu: %s", i, strerror(results[i]));
}

/* ---- Landlock holds besides ---- */

static void restrict_connect(void)
{
    struct landlock_ruleset r = {.handled_access_net = LL_NET_CONNECT_TCP};
    int fd = landlock_create(&r, 16);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (fd < 0 || landlock_restrict(fd) < 0)
        _exit(98);
    close(fd);
}

static void body_connect(void)
{
    results[0] = try_connect(tcp(AF_INET, 0), &sink_at, sizeof sink_at);
}

static void body_landlocked(void)
{
    restrict_connect();
    body_connect();
}

Test(broker_connect, landlock_refuses_what_the_filter_would_let_through)
{
    if (landlock_abi() < 4)
        cr_skip_test("this kernel's Landlock knows no TCP");
    cr_assert_eq(run_free(body_landlocked), 0);
    cr_assert_eq(results[0], EACCES);
    cr_assert(!sink_was_reached());
    cr_assert_eq(run_task(body_landlocked), 0);
    cr_assert_eq(results[0], 0, "the supervisor's connect is not the code's: %s",
                 strerror(results[0]));
    cr_assert_eq(got.count, 1);
    cr_assert(!sink_was_reached());
    cr_assert_eq(run_free(body_connect), 0);
    cr_assert_eq(results[0], 0);
    cr_assert(sink_was_reached(), "the control, with neither");
}

/* ---- strangers on this host ---- */

static volatile bool stranger_stop;

static void *stranger(void *arg)
{
    while (!stranger_stop) {
        int fd = tcp(AF_INET, SOCK_NONBLOCK);
        connect(fd, arg, sizeof(struct sockaddr_in));
        send(fd, "stranger", 8, MSG_NOSIGNAL | MSG_DONTWAIT);
        usleep(50);
        close(fd);
    }
    return NULL;
}

static void body_many(void)
{
    for (int i = 0; i < 200; i++) {
        int fd = tcp(AF_INET, 0);
        int r = try_connect(fd, &sink_at, sizeof sink_at);
        results[r == 0 ? 0 : 1]++;
        if (r == 0)
            results[2] += (int)write(fd, "own", 3) == 3;
        close(fd);
    }
}

Test(broker_connect, strangers_are_turned_away)
{
    pthread_t thread;
    unsigned own = 0;
    cr_assert_eq(pthread_create(&thread, NULL, stranger, &k.connects.at4), 0);
    cr_assert_eq(run_task(body_many), 0);
    stranger_stop = true;
    pthread_join(thread, NULL);
    cr_assert_eq(results[0], 200, "%d failed", results[1]);
    cr_assert_eq(results[2], 200);
    cr_assert_eq(got.count, 200);
    for (unsigned i = 0; i < got.count; i++) {
        char text[16] = "";
        own += read(got.fds[i], text, sizeof text) == 3 && memcmp(text, "own", 3) == 0;
    }
    cr_assert_eq(own, 200, "every connection that was handed on is the code's");
}

/* A queue that is full: the handshake does not end, and the supervisor goes on all the same. */
Test(broker_connect, a_handshake_that_does_not_end)
{
    struct sockaddr_in full_at, right = k.connects.at4;
    int full = listen_at(&full_at, 0), fillers[8];
    for (int i = 0; i < 8; i++) {
        fillers[i] = tcp(AF_INET, SOCK_NONBLOCK);
        connect(fillers[i], (struct sockaddr *)&full_at, sizeof full_at);
    }
    usleep(10000);
    k.connects.at4 = full_at;
    cr_assert_eq(run_task(body_connect), 0);
    cr_assert_eq(results[0], ETIMEDOUT, "%s", strerror(results[0]));
    cr_assert_eq(got.count, 0);
    k.connects.at4 = right;
    cr_assert_eq(run_task(body_connect), 0);
    cr_assert_eq(results[0], 0, "the control");
    for (int i = 0; i < 8; i++)
        close(fillers[i]);
    close(full);
}

/* ---- threads, forks, races ---- */

static void *thread_connect(void *arg)
{
    if (arg)
        results[3] = unshare(CLONE_FILES);
    int fd = tcp(AF_INET, 0);
    results[0] = try_connect(fd, &sink_at, sizeof sink_at);
    results[1] = (int)send(fd, "thread", 6, MSG_NOSIGNAL);
    return NULL;
}

static void body_thread(void)
{
    pthread_t t;
    results[2] = pthread_create(&t, NULL, thread_connect, NULL);
    pthread_join(t, NULL);
}

/* Its descriptors are its own: the number means something else in the first thread. */
static void body_parted_thread(void)
{
    pthread_t t;
    int decoy = tcp(AF_INET, 0);
    results[2] = pthread_create(&t, NULL, thread_connect, results);
    pthread_join(t, NULL);
    struct sockaddr_in peer;
    socklen_t len = sizeof peer;
    results[4] = getpeername(decoy, (struct sockaddr *)&peer, &len) < 0 ? errno : 0;
}

Test(broker_connect, a_thread_other_than_the_first)
{
    char text[8] = "";
    cr_assert_eq(run_task(body_thread), 0);
    cr_assert_eq(results[2], 0);
    cr_assert_eq(results[0], 0, "%s", strerror(results[0]));
    cr_assert_eq(read(got.fds[0], text, sizeof text), 6);
}

/* A thread has a pidfd of its own since Linux 6.9. Before, its descriptor is looked for in the
 * first thread's table, where there is none of that number: refused, and nothing else connected. */
Test(broker_connect, a_thread_that_parted_from_its_descriptors)
{
    char text[8] = "";
    cleanup_fd int own = sys_pidfd_open_thread(getpid());
    cr_assert(own >= 0 || errno == EINVAL);
    cr_assert_eq(run_task(body_parted_thread), 0);
    cr_assert_eq(results[3], 0);
    cr_assert_eq(results[0], own >= 0 ? 0 : EBADF, "%s", strerror(results[0]));
    cr_assert_eq(results[4], ENOTCONN);
    cr_assert_eq(got.count, own >= 0 ? 1 : 0);
    if (own >= 0)
        cr_assert_eq(read(got.fds[0], text, sizeof text), 6);
    cr_assert(!sink_was_reached());
}

static void body_forked(void)
{
    int fd = tcp(AF_INET, 0), status;
    pid_t pid = fork();
    if (pid == 0) {
        results[0] = try_connect(fd, &sink_at, sizeof sink_at);
        _exit(0);
    }
    results[1] = try_connect(fd, &sink_at, sizeof sink_at);
    waitpid(pid, &status, 0);
    results[2] = (int)write(fd, "x", 1);
}

Test(broker_connect, a_socket_that_two_processes_share)
{
    cr_assert_eq(run_task(body_forked), 0);
    cr_assert((results[0] == 0 && results[1] == EISCONN) ||
                  (results[1] == 0 && results[0] == EISCONN),
              "%d and %d", results[0], results[1]);
    cr_assert_eq(got.count, 1);
    cr_assert_eq(results[2], 1);
}

/* One thread asks again and again, with one descriptor number and one place in memory, while
 * another puts other things there. */
static int swapped;
static struct sockaddr_in moving;
static volatile bool swap_stop;

static void *swapper(void *arg)
{
    (void)arg;
    int null = open("/dev/null", O_RDONLY), spare[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, spare);
    for (unsigned i = 0; !swap_stop; i++) {
        int fd = i % 4 == 0 ? null : i % 4 == 1 ? spare[0] : tcp(AF_INET, 0);
        dup2(fd, swapped);
        if (fd != null && fd != spare[0])
            close(fd);
        if (i % 8 == 7)
            close(swapped);
        moving.sin_port = i % 2 ? sink_at.sin_port : htons(7);
        moving.sin_addr.s_addr = htonl(i % 3 ? INADDR_LOOPBACK : 0xc0000201);
        moving.sin_family = i % 5 ? AF_INET : AF_UNSPEC;
    }
    return NULL;
}

static void body_swapping(void)
{
    pthread_t t;
    moving = sink_at;
    swapped = tcp(AF_INET, 0);
    pthread_create(&t, NULL, swapper, NULL);
    for (int i = 0; i < 1500; i++) {
        int r = try_connect(swapped, &moving, sizeof moving);
        switch (r) {
        case 0:
            results[0]++;
            break;
        case EBADF:
        case ENOTSOCK:
        case EPERM:
        case EISCONN:
            results[1]++;
            break;
        default:
            results[2] = r;
        }
        if (results[0] >= 300)
            break;
    }
    swap_stop = true;
    pthread_join(t, NULL);
}

Test(broker_connect, descriptors_and_memory_that_change_underneath)
{
    cr_assert_eq(run_task(body_swapping), 0);
    cr_assert_eq(results[2], 0, "%s", strerror(results[2]));
    cr_assert_gt(results[0], 0, "some got through");
    cr_assert_gt(results[1], 0, "and some were refused");
    cr_assert(!sink_was_reached());
    for (unsigned i = 0; i < got.count; i++) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)&got.asked[i];
        cr_assert_eq(in->sin_family, AF_INET);
    }
}

static void on_timer(int sig)
{
    (void)sig;
}

/* A timer that hits in the middle of calls. What is interrupted is made again by the kernel. */
static void body_signals(void)
{
    struct sigaction action = {.sa_handler = on_timer, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 30000}, {0, 30000}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; i < 400; i++) {
        int fd = tcp(AF_INET, 0);
        int r = try_connect(fd, &sink_at, sizeof sink_at);
        results[0] += r == 0;
        results[1] = r ? r : results[1];
        results[2] += send(fd, "x", 1, MSG_NOSIGNAL) == 1;
        close(fd);
    }
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
}

Test(broker_connect, calls_that_are_interrupted_and_made_again)
{
    cr_assert_eq(run_task(body_signals), 0);
    cr_assert_eq(results[0], 400, "%d, the last one %s", results[0], strerror(results[1]));
    cr_assert_eq(results[2], 400);
    cr_assert_eq(got.count, 400, "each once");
}

Test(broker_connect, where_the_kernel_keeps_the_call_whole)
{
    start(body_signals, WAIT_KILLABLE);
    cr_assert_eq(serve(), 0);
    cr_assert_eq(results[0], 400, "%d, the last one %s", results[0], strerror(results[1]));
    cr_assert_eq(got.count, 400);
}

static int kill_it(void *ctx, int fd, const struct sockaddr *asked, socklen_t len)
{
    on_connected(ctx, fd, asked, len);
    kill(task, SIGKILL);
    usleep(20000);
    return 0;
}

Test(broker_connect, a_task_that_dies_meanwhile)
{
    k.connected = kill_it;
    int status = run_task(body_blocking);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    cr_assert_eq(got.count, 1);
    k.connected = on_connected;
    cr_assert_eq(run_task(body_blocking), 0);
    cr_assert_eq(results[0], 0, "the next one is served");
}

static void body_not_dumpable(void)
{
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    body_connect();
}

/* Who hides from an ordinary supervisor has no network. */
Test(broker_connect, a_task_that_hides)
{
    cr_assert_eq(run_task(body_not_dumpable), 0);
    cr_assert_eq(results[0], geteuid() == 0 ? 0 : EPERM, "%s", strerror(results[0]));
    cr_assert(!sink_was_reached());
}

Test(broker_connect, the_probe)
{
    struct err err = ERR_INIT;
    pid_t pid = fork();
    if (pid == 0) {
        pause();
        _exit(0);
    }
    cr_assert_eq(broker_connect_probe(pid, &err), 0, "%s", err.message);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    cr_assert_lt(broker_connect_probe(pid, &err), 0);
    cr_assert(err.hint[0]);
}
