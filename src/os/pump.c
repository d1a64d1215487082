/* The pump's own loop, its seal, and what its parent does with it. */
#include "os/pump.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "os/rights.h"
#include "os/seal.h"
#include "os/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

#define LINE_BYTES 65536u
#define NOBODY     65534u

struct line {
    int from, to;
    enum pump_kind kind;
    bool out, socket;
    bool ended;    /* PUMP_WORDS: no more will come */
    uint64_t owed; /* so many bytes go before the words that are here */
    size_t at, len;
    char data[LINE_BYTES];
};

void pump_init(struct pump *p)
{
    *p = (struct pump){.pidfd = -1};
}

void pump_lines_init(struct pump_line lines[PUMP_LINES])
{
    for (unsigned i = 0; i < PUMP_LINES; i++)
        lines[i] = (struct pump_line){.from = -1, .to = -1};
}

/* ---- the child ---- */

static struct line lines[PUMP_LINES];

static int keep_only(const struct pump_line given[PUMP_LINES])
{
    for (int from = 0;;) {
        int next = -1;
        for (unsigned i = 0; i < 2 * PUMP_LINES; i++) {
            int fd = i % 2 ? given[i / 2].to : given[i / 2].from;
            if (fd >= from && (next < 0 || fd < next))
                next = fd;
        }
        if (next != from &&
            sys_close_range((unsigned)from, next < 0 ? ~0u : (unsigned)next - 1, 0) < 0)
            return -errno;
        if (next < 0)
            return 0;
        from = next + 1;
    }
}

/* PU-3. Those that come first in each list are for a terminal that somebody hands over. */
#define TAKING_CALLS   4
#define SOCKET_CALLS   1 /* the last of them: for any connection */
#define TAKING_CHOICES 2
static int seal(bool taking, bool sockets, struct err *err)
{
    static const int calls[] = {SYS_recvmsg,  SYS_dup3,        SYS_getsockopt,
                                SYS_shutdown, SEAL_CALLS_LIFE, SYS_read,
                                SYS_write,    SYS_close,       SYS_ppoll,
#ifdef SYS_poll
                                SYS_poll
#endif
    };
    static const struct seal_choice choices[] = {
        {SYS_ioctl, 1, UINT32_MAX, {TIOCGPTN, FIONREAD, TIOCSWINSZ}, 3},
        {SYS_fcntl, 1, UINT32_MAX, {F_SETFL}, 1},
        {SYS_ioctl, 1, UINT32_MAX, {FIONREAD, TIOCSWINSZ}, 2}};
    const size_t skip = taking ? 0 : sockets ? TAKING_CALLS - SOCKET_CALLS : TAKING_CALLS;
    const struct seal_calls sealed = {
        calls + skip, ARRAY_LEN(calls) - skip, taking ? choices : choices + TAKING_CHOICES,
        taking ? TAKING_CHOICES : ARRAY_LEN(choices) - TAKING_CHOICES};
    if (seal_paths(-1, 0, "the pump", err) < 0 || seal_ports("the pump", err) < 0)
        return err_number(err);
    return seal_calls(&sealed, "the pump", err);
}

static bool passing(void)
{
    return errno == EAGAIN || errno == EINTR;
}

static void cut(struct line *l)
{
    if (l->socket)
        shutdown(l->to, SHUT_WR);
    close(l->from);
    close(l->to);
    l->from = l->to = -1;
    l->owed = 0;
}

/* What a word comes after is in the pipes of the other lines, or here, when the word is read. */
static void note_owed(void)
{
    for (unsigned i = 0; i < PUMP_LINES; i++) {
        struct line *l = &lines[i];
        int waiting = 0;
        if (l->from < 0 || !l->out || l->kind != PUMP_BYTES)
            continue;
        if (ioctl(l->from, FIONREAD, &waiting) < 0 || waiting < 0)
            waiting = 0;
        l->owed = l->len - l->at + (uint64_t)waiting;
    }
}

static bool held_back(const struct line *l)
{
    for (unsigned i = 0; l->kind == PUMP_WORDS && i < PUMP_LINES; i++)
        if (lines[i].owed > 0)
            return true;
    return false;
}

static void cut_unheard(void)
{
    for (unsigned i = 0; i < PUMP_LINES; i++) {
        struct pollfd listener = {.fd = lines[i].to};
        if (lines[i].out && lines[i].from >= 0 && poll(&listener, 1, 0) > 0)
            cut(&lines[i]);
    }
}

static void fill(struct line *l)
{
    ssize_t n = read(l->from, l->data, sizeof l->data);
    if (n < 0 && passing())
        return;
    if (l->kind == PUMP_WORDS)
        note_owed();
    if (n > 0) {
        l->at = 0;
        l->len = (size_t)n;
    } else if (l->kind == PUMP_WORDS) {
        l->ended = true;
    } else {
        if (l->kind == PUMP_WHOLE)
            cut_unheard();
        cut(l);
    }
}

static void drain(struct line *l)
{
    ssize_t n = write(l->to, l->data + l->at, l->len - l->at);
    if (n >= 0) {
        l->at += (size_t)n;
        l->owed -= (uint64_t)n < l->owed ? (uint64_t)n : l->owed;
    } else if (!passing()) {
        cut(l);
    }
}

/* A pipe takes and gives each of them whole. */
static void resize(struct line *l)
{
    struct winsize size;
    ssize_t n = read(l->from, &size, sizeof size);
    if (n == (ssize_t)sizeof size)
        ioctl(l->to, TIOCSWINSZ, &size);
    else if (n >= 0 || !passing())
        cut(l);
}

static bool is_full(const struct line *l)
{
    return l->at < l->len;
}

/* True: somebody has something to carry, or may have. */
static bool watch(struct pollfd fds[2 * PUMP_LINES])
{
    bool alive = false;
    for (unsigned i = 0; i < PUMP_LINES; i++) {
        struct line *l = &lines[i];
        if (l->ended && !is_full(l) && !held_back(l))
            cut(l);
        fds[2 * i] = (struct pollfd){.fd = is_full(l) || l->ended ? -1 : l->from, .events = POLLIN};
        /* Asked for nothing, the kernel tells whether anybody listens. */
        fds[2 * i + 1] = (struct pollfd){.fd = l->kind == PUMP_SIZES ? -1 : l->to,
                                         .events = is_full(l) && !held_back(l) ? POLLOUT : 0};
        alive = alive || (l->from >= 0 && l->kind != PUMP_SIZES);
    }
    return alive;
}

static void carry(struct line *l, const struct pollfd fds[2])
{
    if (l->from >= 0 && (fds[1].revents & (POLLERR | POLLHUP | POLLNVAL)))
        cut(l);
    if (l->from >= 0 && fds[0].revents)
        l->kind == PUMP_SIZES ? resize(l) : fill(l);
    if (l->from >= 0 && is_full(l) && !held_back(l))
        drain(l);
}

static bool step(void)
{
    struct pollfd fds[2 * PUMP_LINES];
    if (!watch(fds) || (poll(fds, ARRAY_LEN(fds), -1) < 0 && errno != EINTR))
        return false;
    for (unsigned i = 0; i < PUMP_LINES; i++)
        carry(&lines[i], &fds[2 * i]);
    return true;
}

/* ---- a terminal that is handed over ---- */

/* The line by which it comes; or NULL. */
static const struct pump_line *handed_line(const struct pump_line given[PUMP_LINES])
{
    for (unsigned i = 0; i < PUMP_LINES; i++)
        if (given[i].handed)
            return &given[i];
    return NULL;
}

/* Waits for the descriptor. The code, which is to send it, may never do so: the wait is also over
 * when nobody listens any more. */
static bool is_sent(int door, int listener)
{
    struct pollfd fds[2] = {{.fd = door, .events = POLLIN}, {.fd = listener}};
    while (poll(fds, 2, -1) < 0)
        if (errno != EINTR)
            return false;
    return fds[0].revents && !fds[1].revents;
}

static uint64_t own_network; /* 0: the kernel does not say (before 5.14) */

static uint64_t network_of(int fd)
{
    uint64_t cookie = 0;
    socklen_t len = sizeof cookie;
    return getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len) == 0 ? cookie : 0;
}

static void note_network(void)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    own_network = fd < 0 ? 0 : network_of(fd);
    if (fd >= 0)
        close(fd);
}

/* W-1: a terminal; or a TCP connection, and not one of the host's. */
static bool is_what_is_carried(int fd, bool socket)
{
    int number = 0, protocol = 0;
    socklen_t len = sizeof number;
    if (!socket)
        return ioctl(fd, TIOCGPTN, &number) == 0;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &number, &len) == 0 && number == SOCK_STREAM &&
           getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len) == 0 &&
           protocol == IPPROTO_TCP && (!own_network || network_of(fd) != own_network);
}

/* PU-5. Whatever it is: it takes the place of the socket by which it came. */
static bool take_handed(const struct pump_line given[PUMP_LINES])
{
    const struct pump_line *by = handed_line(given);
    char word;
    int terminal = -1;
    struct iovec part = {&word, 1};
    struct rights rights = {.fds = &terminal, .room = 1};
    if (!by)
        return true;
    if (!is_sent(by->from, by->to) ||
        rights_receive(by->from, &part, 1, MSG_DONTWAIT, &rights) <= 0 || rights.count != 1 ||
        !is_what_is_carried(terminal, by->socket) || fcntl(terminal, F_SETFL, O_NONBLOCK) < 0)
        return false;
    for (unsigned i = 0; i < PUMP_LINES; i++) {
        int place = given[i].out ? given[i].from : given[i].to;
        if (given[i].handed && dup3(terminal, place, O_CLOEXEC) < 0)
            return false;
    }
    return close(terminal) == 0;
}

/* Where nothing came, or something else: who fails to make a terminal says why by another line. */
static void cut_handed(const struct pump_line given[PUMP_LINES])
{
    for (unsigned i = 0; i < PUMP_LINES; i++)
        if (given[i].handed)
            cut(&lines[i]);
}

static void be_pump(const struct pump_line given[PUMP_LINES], pid_t parent)
{
    struct err err = ERR_INIT;
    prctl(PR_SET_NAME, "brig-pump");
    setsid(); /* what a terminal sends is for its parent */
    signal(SIGPIPE, SIG_IGN);
    if (keep_only(given) < 0)
        seal_exit(1);
    for (unsigned i = 0; i < PUMP_LINES; i++) {
        lines[i].kind = given[i].kind;
        lines[i].out = given[i].out;
        lines[i].socket = given[i].socket;
        lines[i].from = given[i].from;
        lines[i].to = given[i].to;
        fcntl(lines[i].from, F_SETFL, O_NONBLOCK);
        fcntl(lines[i].to, F_SETFL, O_NONBLOCK);
    }
    note_network();
    /* A change of identity takes away what the parent's death sends. */
    if (seal_identity(NOBODY, NOBODY, "the pump", &err) < 0 ||
        prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent ||
        seal(handed_line(given) != NULL, lines[0].socket, &err) < 0)
        seal_exit(1);
    if (!take_handed(given))
        cut_handed(given);
    while (step())
        ;
    seal_exit(0);
}

/* ---- its parent ---- */

static int give_up(int one, int other)
{
    int why = errno;
    close(one);
    if (other >= 0)
        close(other);
    return -why;
}

int pump_lay(struct pump_line *line, bool out, int *theirs, int *ours)
{
    int first[2], second[2];
    if (pipe2(first, O_CLOEXEC) < 0)
        return -errno;
    if (!line) {
        *theirs = first[out];
        *ours = first[!out];
        fcntl(*ours, F_SETFL, O_NONBLOCK);
        return 0;
    }
    if (pipe2(second, O_CLOEXEC) < 0)
        return give_up(first[0], first[1]);
    *theirs = out ? first[1] : second[0];
    *ours = out ? second[0] : first[1];
    fcntl(*ours, F_SETFL, O_NONBLOCK);
    *line = (struct pump_line){.from = first[0], .to = second[1], .out = out};
    return 0;
}

int pump_lay_terminal(struct pump_line *line, bool out, int master, int *ours)
{
    int ends[2], copy = fcntl(master, F_DUPFD_CLOEXEC, 3);
    if (copy < 0)
        return -errno;
    if (!line) {
        *ours = copy;
        return 0;
    }
    if (pipe2(ends, O_CLOEXEC) < 0)
        return give_up(copy, -1);
    *ours = ends[!out];
    fcntl(*ours, F_SETFL, O_NONBLOCK);
    *line =
        (struct pump_line){.from = out ? copy : ends[0], .to = out ? ends[1] : copy, .out = out};
    return 0;
}

int pump_lay_sizes(struct pump_line *line, int master, int *ours)
{
    int result = pump_lay_terminal(line, false, master, ours);
    line->kind = PUMP_SIZES;
    return result;
}

/* The first line is the one that comes out of it, by which it is taken. */
int pump_lay_handed(struct pump_line given[PUMP_LINES], int *theirs, int ours[PUMP_TERMINAL])
{
    int door[2], r = 0;
    for (unsigned i = 0; i < PUMP_TERMINAL; i++)
        ours[i] = -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, door) < 0)
        return -errno;
    for (unsigned i = 0; r >= 0 && i < PUMP_TERMINAL; i++) {
        r = pump_lay_terminal(&given[i], i == 0, door[1], &ours[i]);
        given[i].handed = r >= 0;
    }
    close(door[1]);
    given[2].kind = PUMP_SIZES;
    if (r < 0)
        close(door[0]);
    else
        *theirs = door[0];
    return r;
}

static int copy_of(int fd)
{
    return fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

int pump_lay_connection(struct pump_line given[PUMP_LINES], int *theirs, int *ours)
{
    int door[2], pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, door) < 0)
        return -errno;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return give_up(door[0], door[1]);
    given[0] = (struct pump_line){.from = door[1], .to = pair[1], .out = true};
    given[1] = (struct pump_line){.from = copy_of(pair[1]), .to = copy_of(door[1])};
    for (unsigned i = 0; i < 2; i++)
        given[i].handed = given[i].socket = true;
    if (given[1].from < 0 || given[1].to < 0)
        return give_up(door[0], pair[0]);
    *theirs = door[0];
    *ours = pair[0];
    return 0;
}

int pump_lay_stream(struct pump_line given[PUMP_LINES], int theirs[2], int *ours)
{
    int pair[2], in[2], out[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return -errno;
    if (pipe2(in, O_CLOEXEC) < 0)
        return give_up(pair[0], pair[1]);
    given[0] = (struct pump_line){.to = pair[1], .from = -1, .out = true, .socket = true};
    given[1] = (struct pump_line){.from = copy_of(pair[1]), .to = in[1], .socket = true};
    if (given[1].from < 0 || pipe2(out, O_CLOEXEC) < 0)
        return give_up(pair[0], in[0]);
    given[0].from = out[0];
    theirs[0] = in[0];
    theirs[1] = out[1];
    *ours = pair[0];
    return 0;
}

void pump_close(struct pump_line given[PUMP_LINES])
{
    for (unsigned i = 0; i < PUMP_LINES; i++) {
        if (given[i].from >= 0)
            close(given[i].from);
        if (given[i].to >= 0)
            close(given[i].to);
    }
    pump_lines_init(given);
}

int pump_start(struct pump *p, struct pump_line given[PUMP_LINES])
{
    bool needed = false;
    for (unsigned i = 0; i < PUMP_LINES; i++)
        needed = needed || given[i].from >= 0;
    pid_t self = getpid(), pid = needed ? fork() : 0;
    if (needed && pid == 0)
        be_pump(given, self);
    int result = pid < 0 ? -errno : 0;
    pump_close(given);
    if (pid <= 0)
        return result;
    p->pidfd = sys_pidfd_open(pid);
    if (p->pidfd < 0) {
        result = -errno;
        kill(pid, SIGKILL); /* it has nothing yet that could hold it up */
        waitpid(pid, NULL, 0);
        return result;
    }
    p->pid = pid;
    return 0;
}

/* By its descriptor: on the process tier the supervisor reaps whatever comes up to it, and the
 * number may be somebody else's by now. */
static bool reap(const struct pump *p)
{
    siginfo_t info = {0};
    return waitid(P_PIDFD, (id_t)p->pidfd, &info, WEXITED | WNOHANG) == 0 && info.si_pid > 0 &&
           info.si_code == CLD_EXITED && info.si_status == 0;
}

bool pump_failed(struct pump *p)
{
    bool good = reap(p);
    close(p->pidfd);
    pump_init(p);
    return !good;
}

void pump_kill(const struct pump *p)
{
    if (p->pidfd >= 0)
        sys_pidfd_send_signal(p->pidfd, SIGKILL);
}

void pump_let_go(struct pump *p, uint64_t deadline_us)
{
    struct pollfd ended = {.fd = p->pidfd, .events = POLLIN};
    uint64_t now = clock_us();
    if (p->pidfd >= 0) {
        poll(&ended, 1, now < deadline_us ? (int)((deadline_us - now) / 1000) + 1 : 0);
        reap(p);
        close(p->pidfd);
    }
    pump_init(p);
}

void pump_end(struct pump *p)
{
    pump_kill(p);
    pump_let_go(p, clock_us() + PUMP_END_US);
}
