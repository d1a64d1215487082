/* The network of a guest, as far as there is one: no card, no route out. Every address is local, as
 * on the container tier, and what connects to one that is listened on ends here, in a process of
 * init's beside the code. It carries each connection to the monitor, as a stream that says first
 * where it leads, and questions for names as datagrams.
 *
 * Nothing is decided here: who takes the guest over can send the monitor whatever it likes, and
 * meets brig-proxy's rules behind it. */
#include "init/guest_child.h"
#include "init/perform_child.h"
#include "plan/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define LISTENERS_MAX 136
#define LINES_MAX     120
#define LATER_MS      20
#define TRIES_MAX     1500
#define ASKED_MAX     64u /* a power of two */

/* One direction of a connection. */
struct way {
    bool ended; /* nothing more comes, and that was passed on */
    size_t len, at;
    char data[16384];
};
struct line {
    int code; /* -1: free */
    int host; /* -1: to be dialled */
    struct guest_target to;
    bool greeted; /* the monitor has taken it */
    unsigned tries;
    struct way out, in;
    uint8_t head[2];        /* of the monitor's next piece, so far */
    size_t head_len, piece; /* what is left of this one */
};
/* Who asked for a name, and from which address the answer must come. */
struct asked {
    bool waits;
    uint8_t id[2];
    struct sockaddr_in6 peer;
    socklen_t peer_len;
    struct in6_pktinfo to6;
    struct in_pktinfo to4;
    bool has6, has4;
};

static struct {
    int listeners[LISTENERS_MAX];
    unsigned listener_count;
    int questions, names; /* from the code; to and from the monitor */
    struct asked asked[ASKED_MAX];
    uint16_t next;
    uint8_t heard[4096]; /* of the monitor */
    size_t heard_len;
    struct line *lines;
    int64_t dialled_ms;
} net = {.questions = -1, .names = -1};

bool guest_network_has(enum op_kind kind)
{
    return kind == OP_NETWORK_LOCAL || kind == OP_NETWORK_LISTEN;
}

static int keep(int fd, const struct op *op, struct err *err)
{
    bool udp = op->num[2] != 0;
    if (udp && net.questions < 0) {
        net.questions = fd;
        return 0;
    }
    if (udp || net.listener_count == LISTENERS_MAX) {
        close(fd);
        return err_set(err, ERR_LIMIT, "too many listeners in the guest");
    }
    net.listeners[net.listener_count++] = fd;
    return 0;
}

/* ---- connections ---- */

static bool again(ssize_t n)
{
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

/* How a connection ended is passed on: one that was reset is reset for the code, too. */
static void end_line(struct line *l, bool broken)
{
    struct linger none = {.l_onoff = 1};
    if (broken)
        setsockopt(l->code, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    close(l->code);
    if (l->host >= 0)
        close(l->host);
    l->code = l->host = -1;
}

/* 1: that was the last byte; 0: there may be more; negative: the connection is broken. */
static int take_code(struct line *l)
{
    struct way *w = &l->out;
    if (w->len > 0 || w->ended)
        return 0;
    ssize_t n = read(l->code, w->data, sizeof w->data);
    if (n < 0)
        return again(n) ? 0 : -1;
    w->at = 0;
    w->len = (size_t)n;
    return n == 0;
}

/* The same of what the monitor sends, which says itself when it is the end. */
static int take_host(struct line *l)
{
    struct way *w = &l->in;
    if (w->len > 0 || w->ended)
        return 0;
    if (l->piece == 0) {
        ssize_t n = read(l->host, l->head + l->head_len, sizeof l->head - l->head_len);
        if (n <= 0)
            return again(n) ? 0 : -1;
        l->head_len += (size_t)n;
        if (l->head_len < sizeof l->head)
            return 0;
        l->head_len = 0;
        l->piece = (size_t)l->head[0] << 8 | l->head[1];
        if (l->piece == 0)
            return 1;
    }
    ssize_t n = read(l->host, w->data, l->piece < sizeof w->data ? l->piece : sizeof w->data);
    if (n <= 0)
        return again(n) ? 0 : -1;
    w->at = 0;
    w->len = (size_t)n;
    l->piece -= w->len;
    return 0;
}

/* Passes on what was read; `over`: there is nothing after it. */
static int pass(struct way *w, int to, bool over)
{
    if (w->len > 0) {
        ssize_t n = send(to, w->data + w->at, w->len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && !again(n))
            return -1;
        w->at += n > 0 ? (size_t)n : 0;
        w->len -= n > 0 ? (size_t)n : 0;
    }
    if (over && !w->ended) {
        w->ended = true;
        shutdown(to, SHUT_WR);
    }
    return 0;
}

/* The monitor refuses a stream while all that it has are in use, some of them by connections that
 * are already over here: so it is dialled again, a little later. */
static void dial_line(struct line *l)
{
    struct err ignored = ERR_INIT;
    if (l->host >= 0)
        close(l->host);
    l->host = l->tries++ < TRIES_MAX ? guest_dial(GUEST_CARRY, false, &ignored) : -1;
    if (l->tries > TRIES_MAX)
        end_line(l, true);
}

static bool greet(struct line *l)
{
    ssize_t n = send(l->host, &l->to, sizeof l->to, MSG_NOSIGNAL | MSG_DONTWAIT);
    l->greeted = n == (ssize_t)sizeof l->to;
    if (!l->greeted && !again(n)) {
        close(l->host);
        l->host = -1;
    }
    return l->greeted;
}

static void step_line(struct line *l)
{
    if (!l->greeted && !greet(l))
        return;
    int out = take_code(l), in = take_host(l);
    if (out < 0 || in < 0 || pass(&l->out, l->host, out > 0) < 0 ||
        pass(&l->in, l->code, in > 0) < 0)
        end_line(l, true);
    else if (l->out.ended && l->in.ended)
        end_line(l, false);
}

/* The address at which the code's connection was accepted is where it wanted to go. */
static bool read_target(int fd, struct guest_target *ret)
{
    struct sockaddr_in6 at = {0};
    socklen_t len = sizeof at;
    *ret = (struct guest_target){.address = {[10] = 0xff, [11] = 0xff}};
    if (getsockname(fd, (struct sockaddr *)&at, &len) < 0)
        return false;
    if (at.sin6_family == AF_INET6) {
        memcpy(ret->address, &at.sin6_addr, sizeof ret->address);
        memcpy(ret->port, &at.sin6_port, sizeof ret->port);
        return true;
    }
    struct sockaddr_in v4;
    memcpy(&v4, &at, sizeof v4);
    memcpy(ret->address + 12, &v4.sin_addr, sizeof v4.sin_addr);
    memcpy(ret->port, &v4.sin_port, sizeof ret->port);
    return v4.sin_family == AF_INET;
}

static struct line *free_line(void)
{
    for (unsigned i = 0; i < LINES_MAX; i++)
        if (net.lines[i].code < 0)
            return &net.lines[i];
    return NULL;
}

static void accept_line(int listener)
{
    struct line *l = free_line();
    int fd = l ? accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC) : -1;
    if (fd < 0)
        return;
    l->code = fd;
    l->out.ended = l->in.ended = l->greeted = false;
    l->out.len = l->out.at = l->in.len = l->in.at = l->head_len = l->piece = 0;
    l->tries = 0;
    /* Pieces are passed on as they come. */
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    if (read_target(fd, &l->to))
        dial_line(l);
    else
        end_line(l, true);
}

/* ---- names ---- */

union control {
    char bytes[CMSG_SPACE(sizeof(struct in6_pktinfo)) + CMSG_SPACE(sizeof(struct in_pktinfo))];
    struct cmsghdr align;
};

static void read_place(struct msghdr *mh, struct asked *a)
{
    a->has4 = a->has6 = false;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(mh); c; c = CMSG_NXTHDR(mh, c)) {
        if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
            memcpy(&a->to4, CMSG_DATA(c), sizeof a->to4);
            a->to4.ipi_spec_dst = a->to4.ipi_addr;
            a->to4.ipi_ifindex = 0;
            a->has4 = true;
        } else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
            memcpy(&a->to6, CMSG_DATA(c), sizeof a->to6);
            a->to6.ipi6_ifindex = 0;
            a->has6 = true;
        }
    }
}

/* The monitor always reads these: waiting for room is only waiting for it to get the processor. */
static void say(const uint8_t *data, size_t len)
{
    while (len > 0) {
        ssize_t n = send(net.names, data, len, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR)
            return;
        data += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
}

/* Several programs may use the same number for a question: to the monitor it goes under one of
 * ours. */
static void ask(void)
{
    uint8_t data[2 + GUEST_NAME_MOST + 1];
    union control control;
    uint16_t id = net.next++;
    struct asked *a = &net.asked[id % ASKED_MAX];
    struct iovec part = {data + 2, GUEST_NAME_MOST + 1};
    struct msghdr mh = {.msg_name = &a->peer,
                        .msg_namelen = sizeof a->peer,
                        .msg_iov = &part,
                        .msg_iovlen = 1,
                        .msg_control = &control,
                        .msg_controllen = sizeof control};
    a->waits = false; /* the oldest; if it is still in use, it was never answered */
    ssize_t n = recvmsg(net.questions, &mh, MSG_DONTWAIT);
    if (n < (ssize_t)GUEST_NAME_LEAST || n > (ssize_t)GUEST_NAME_MOST)
        return;
    read_place(&mh, a);
    a->waits = true;
    a->peer_len = mh.msg_namelen;
    memcpy(a->id, data + 2, 2);
    data[0] = (uint8_t)(n >> 8);
    data[1] = (uint8_t)n;
    data[2] = (uint8_t)(id >> 8);
    data[3] = (uint8_t)id;
    say(data, (size_t)n + 2);
}

static void add_control(struct msghdr *mh, int level, int type, const void *data, size_t len)
{
    struct cmsghdr *c = (struct cmsghdr *)mh->msg_control;
    c->cmsg_level = level;
    c->cmsg_type = type;
    c->cmsg_len = CMSG_LEN(len);
    memcpy(CMSG_DATA(c), data, len);
    mh->msg_controllen = CMSG_SPACE(len);
}

static void answer(uint8_t *data, size_t len)
{
    union control control = {0};
    unsigned id = (unsigned)data[0] << 8 | data[1];
    struct asked *a = &net.asked[id % ASKED_MAX];
    struct iovec part = {data, len};
    struct msghdr mh = {.msg_name = &a->peer,
                        .msg_namelen = a->peer_len,
                        .msg_iov = &part,
                        .msg_iovlen = 1,
                        .msg_control = &control};
    if (!a->waits || (uint16_t)(net.next - id - 1) >= ASKED_MAX)
        return;
    a->waits = false;
    memcpy(data, a->id, 2);
    if (a->has6)
        add_control(&mh, IPPROTO_IPV6, IPV6_PKTINFO, &a->to6, sizeof a->to6);
    else if (a->has4)
        add_control(&mh, IPPROTO_IP, IP_PKTINFO, &a->to4, sizeof a->to4);
    else
        mh.msg_control = NULL;
    (void)!sendmsg(net.questions, &mh, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void close_names(void)
{
    close(net.names);
    close(net.questions);
    net.names = net.questions = -1;
}

static void hear(void)
{
    ssize_t n =
        recv(net.names, net.heard + net.heard_len, sizeof net.heard - net.heard_len, MSG_DONTWAIT);
    if (again(n))
        return;
    if (n <= 0) {
        close_names();
        return;
    }
    net.heard_len += (size_t)n;
    size_t at = 0;
    while (net.heard_len - at >= 2) {
        size_t want = (size_t)net.heard[at] << 8 | net.heard[at + 1];
        if (want < GUEST_NAME_LEAST || want > GUEST_NAME_MOST) {
            close_names();
            return;
        }
        if (net.heard_len - at < 2 + want)
            break;
        answer(net.heard + at + 2, want);
        at += 2 + want;
    }
    net.heard_len -= at;
    memmove(net.heard, net.heard + at, net.heard_len);
}

/* ---- all of it ---- */

enum { AT_NAMES, AT_QUESTIONS, AT_LISTENERS, AT_LINES = AT_LISTENERS + LISTENERS_MAX };
#define WATCHED (AT_LINES + 2 * LINES_MAX)

/* What it waits for: room to write what was read, or something to read. */
static struct pollfd wish(int fd, const struct way *from, const struct way *to)
{
    short events =
        (short)((from->len == 0 && !from->ended ? POLLIN : 0) | (to->len > 0 ? POLLOUT : 0));
    return (struct pollfd){.fd = events ? fd : -1, .events = events};
}

/* Where it leads must be said before anything else. */
static void watch_line(const struct line *l, struct pollfd *fds)
{
    fds[0] = wish(l->code, &l->out, &l->in);
    fds[1] = wish(l->host, &l->in, &l->out);
    if (!l->greeted) {
        fds[0].fd = -1;
        fds[1] = (struct pollfd){.fd = l->host, .events = POLLOUT};
    }
}

/* Those that were refused, LATER_MS after the last time; true: there are such. */
static bool dial_again(void)
{
    struct timespec now;
    bool any = false;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    bool due = ms - net.dialled_ms >= LATER_MS;
    for (unsigned i = 0; i < LINES_MAX; i++) {
        struct line *l = &net.lines[i];
        if (due && l->code >= 0 && l->host < 0)
            dial_line(l);
        any |= l->code >= 0 && l->host < 0;
    }
    if (due)
        net.dialled_ms = ms;
    return any;
}

static void watch(struct pollfd *fds)
{
    bool room = free_line() != NULL;
    fds[AT_NAMES] = (struct pollfd){.fd = net.names, .events = POLLIN};
    fds[AT_QUESTIONS] = (struct pollfd){.fd = net.questions, .events = POLLIN};
    for (unsigned i = 0; i < LISTENERS_MAX; i++)
        fds[AT_LISTENERS + i] = (struct pollfd){
            .fd = room && i < net.listener_count ? net.listeners[i] : -1, .events = POLLIN};
    for (unsigned i = 0; i < LINES_MAX; i++)
        watch_line(&net.lines[i], fds + AT_LINES + 2 * i);
}

static void serve(void)
{
    static struct pollfd fds[WATCHED];
    for (;;) {
        bool later = dial_again();
        watch(fds);
        if (poll(fds, WATCHED, later ? LATER_MS : -1) < 0)
            continue;
        if (fds[AT_NAMES].revents)
            hear();
        if (fds[AT_QUESTIONS].revents && net.questions >= 0)
            ask();
        for (unsigned i = 0; i < LINES_MAX; i++)
            if (fds[AT_LINES + 2 * i].revents | fds[AT_LINES + 2 * i + 1].revents)
                step_line(&net.lines[i]);
        for (unsigned i = 0; i < net.listener_count; i++)
            if (fds[AT_LISTENERS + i].revents)
                accept_line(net.listeners[i]);
    }
}

/* It uses no more memory than it has now; when memory is short, the guest's kernel is not to kill
 * it. */
static int settle(struct err *err)
{
    static struct apply_state st;
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "-1000", 5) != 5)
        return err_sys(err, "protect what carries connections");
    close(fd);
    net.lines = mmap(NULL, LINES_MAX * sizeof *net.lines, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (net.lines == MAP_FAILED)
        return err_sys(err, "map memory for connections");
    for (unsigned i = 0; i < LINES_MAX; i++)
        net.lines[i].code = net.lines[i].host = -1;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_sys(err, "set no-new-privs");
    return apply_drop_caps(&st, &(struct op){.kind = OP_DROP_CAPS}, err);
}

static int open_names(struct err *err)
{
    if (net.questions < 0)
        return 0;
    int v4 = setsockopt(net.questions, IPPROTO_IP, IP_PKTINFO, &(int){1}, sizeof(int));
    int v6 = setsockopt(net.questions, IPPROTO_IPV6, IPV6_RECVPKTINFO, &(int){1}, sizeof(int));
    if (v4 < 0 && v6 < 0)
        return err_sys(err, "set up the socket for questions");
    net.names = guest_dial(GUEST_NAMES, true, err);
    return net.names < 0 ? err_number(err) : 0;
}

/* init keeps none of its descriptors: the code is started from init and would inherit them. */
static void forget(void)
{
    for (unsigned i = 0; i < net.listener_count; i++)
        close(net.listeners[i]);
    if (net.questions >= 0)
        close_names();
    net.listener_count = 0;
}

int guest_network_start(const void *plan, size_t len, int control, struct err *err)
{
    static struct apply_state st;
    perform_init(&st);
    st.keep_listener = keep;
    if (perform_part(&st, plan, len, guest_network_has, err) < 0 || open_names(err) < 0)
        return err_number(err);
    if (net.questions < 0 && net.listener_count == 0)
        return 0;
    pid_t pid = fork();
    if (pid < 0)
        return err_sys(err, "start what carries connections");
    if (pid == 0) {
        struct err why = ERR_INIT;
        close(control);
        if (settle(&why) < 0)
            _exit(125);
        serve();
    }
    forget();
    return 0;
}
