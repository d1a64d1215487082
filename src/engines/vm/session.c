/* The session with init in the guest: hello and plan, then signals one way and the code's end the
 * other, and three streams beside it. What init says is a claim of the guest's: it can end the run
 * with any status, as the code itself could, and nothing else.
 *
 * A terminal of the code's is made in the guest, by its kernel: there are the session, the keys
 * that make signals, and the echo. The one that this process has is a line to it, and changes no
 * byte. Until the guest is up it is one like any other, so that ^C ends a boot. */
#include "engines/vm/session.h"

#include "plan/plan.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum { CONTROL, INPUT, OUTPUT, ERRORS }; /* streams */
enum { FD_IN, FD_OUT, FD_ERR, FD_SIGNALS };

static const int passed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH};

static int map_plan(struct session *s, int fd, struct err *err)
{
    struct stat sb;
    if (fstat(fd, &sb) < 0 || sb.st_size <= 0 || sb.st_size > PLAN_MAX_BYTES)
        return err_set(err, ERR_PROTOCOL, "no plan");
    s->plan = mmap(NULL, (size_t)sb.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (s->plan == MAP_FAILED)
        return err_sys(err, "map the plan");
    s->plan_len = (size_t)sb.st_size;
    close(fd);
    return 0;
}

static int watch_signals(struct session *s, struct err *err)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof passed_on / sizeof *passed_on; i++)
        sigaddset(&set, passed_on[i]);
    signal(SIGPIPE, SIG_IGN);
    sigprocmask(SIG_BLOCK, &set, NULL);
    s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return s->signal_fd < 0 ? err_sys(err, "signalfd") : 0;
}

/* What is typed is shown by who reads it, once. */
static void set_line(bool raw)
{
    struct termios line;
    if (tcgetattr(0, &line) < 0)
        return;
    line.c_lflag &= ~(tcflag_t)ECHO;
    if (raw)
        cfmakeraw(&line);
    tcsetattr(0, TCSANOW, &line);
}

static struct guest_size terminal_size(void)
{
    struct winsize size = {0};
    ioctl(0, TIOCGWINSZ, &size);
    return (struct guest_size){.rows = size.ws_row, .columns = size.ws_col};
}

int session_open(struct session *s, struct vsock *v, int plan, uint32_t uid, bool terminal,
                 struct err *err)
{
    memset(s, 0, sizeof *s);
    s->vsock = v;
    s->hello.uid = uid;
    s->terminal = terminal;
    if (terminal)
        set_line(false);
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0)
            return err_sys(err, "set up descriptor %d", fd);
    if (map_plan(s, plan, err) < 0)
        return err_number(err);
    return watch_signals(s, err);
}

void session_serve(struct session *s, const char *name)
{
    s->name = name;
    s->hello.serves = 1;
    s->in_ended = true; /* nobody says anything to it */
}

void session_begin(struct session *s, unsigned seconds)
{
    s->seconds = seconds;
    clock_gettime(CLOCK_MONOTONIC, &s->begun);
}

/* The guest has no clock but what it is told, and a clone's has the random numbers of all that were
 * made of the same machine until it gets its own (VM-30). */
static int greet(struct session *s)
{
    struct timespec now;
    if (s->greeted || !s->vsock->streams[CONTROL].open)
        return 0;
    if (getrandom(s->hello.entropy, sizeof s->hello.entropy, 0) != sizeof s->hello.entropy)
        return -EIO;
    clock_gettime(CLOCK_REALTIME, &now);
    s->hello.magic = GUEST_MAGIC;
    s->hello.plan_len = (uint32_t)s->plan_len;
    s->hello.seconds = (uint64_t)now.tv_sec;
    s->hello.nanoseconds = (uint32_t)now.tv_nsec;
    if (s->terminal) {
        set_line(true);
        s->hello.terminal = 1;
        s->hello.size = terminal_size();
    }
    vsock_put(s->vsock, CONTROL, &s->hello, sizeof s->hello);
    explicit_bzero(s->hello.entropy, sizeof s->hello.entropy);
    s->greeted = true;
    return 0;
}

static void send_plan(struct session *s)
{
    size_t len = s->plan_len - s->plan_sent, room = vsock_room(s->vsock, CONTROL);
    if (!s->greeted || len == 0)
        return;
    if (len > room)
        len = room;
    vsock_put(s->vsock, CONTROL, s->plan + s->plan_sent, len);
    s->plan_sent += len;
}

/* As long as no code runs, a signal ends the boot. */
static void end_boot(struct session *s, int sig)
{
    if (sig != SIGWINCH && s->signal == 0)
        s->signal = sig;
}

/* While there is no room to pass a signal on, it is not read: once read it could be lost. */
static bool takes_signals(const struct session *s)
{
    return !s->greeted || (s->plan_sent == s->plan_len &&
                           vsock_room(s->vsock, CONTROL) >= sizeof(struct guest_word));
}

static void pass_signal(struct session *s)
{
    struct signalfd_siginfo info;
    while (takes_signals(s) && read(s->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        struct guest_word word = {.type = GUEST_SIGNAL, .value = (int32_t)info.ssi_signo};
        if (s->terminal && info.ssi_signo == SIGWINCH) {
            word.type = GUEST_SIZE;
            word.size = terminal_size();
        }
        if (!s->greeted)
            end_boot(s, (int)info.ssi_signo);
        else
            vsock_put(s->vsock, CONTROL, &word, sizeof word);
    }
}

static void carry_in(struct session *s)
{
    uint8_t data[16384];
    size_t room = vsock_room(s->vsock, INPUT);
    if (s->in_ended || room == 0)
        return;
    ssize_t n = read(0, data, room < sizeof data ? room : sizeof data);
    if (n > 0)
        vsock_put(s->vsock, INPUT, data, (size_t)n);
    else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        s->in_ended = true;
        vsock_end(s->vsock, INPUT);
    }
}

/* stream OUTPUT to descriptor 1, ERRORS to 2 */
static void carry_out(struct session *s, unsigned stream)
{
    size_t len;
    int fd = stream == OUTPUT ? 1 : 2;
    const uint8_t *data = vsock_data(s->vsock, stream, &len);
    if (len == 0)
        return;
    ssize_t n = s->closed[fd - 1] ? (ssize_t)len : write(fd, data, len);
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        s->closed[fd - 1] = true;
        n = (ssize_t)len;
    }
    if (n > 0)
        vsock_drop(s->vsock, stream, (size_t)n);
}

/* Who started us reads it, and joins by it. */
static void tell_name(struct session *s)
{
    if (!s->name || s->up)
        return;
    s->up = true;
    dprintf(1, "%s\n", s->name);
    close(1);
}

/* VM-2: a message is copied at once, when all of it is there. */
static void hear(struct session *s)
{
    size_t len;
    struct guest_word word;
    const uint8_t *data = vsock_data(s->vsock, CONTROL, &len);
    while (len >= sizeof word) {
        memcpy(&word, data, sizeof word);
        vsock_drop(s->vsock, CONTROL, sizeof word);
        bool last = word.type == GUEST_FAIL || (word.type == GUEST_EXIT && !s->name);
        if (word.type == GUEST_UP)
            tell_name(s);
        if (!s->over && last) {
            s->word = word;
            s->over = true;
        }
        data = vsock_data(s->vsock, CONTROL, &len);
    }
}

/* The user's terminal is in raw mode then, and does not add the carriage return to a newline. */
static const char *line_end(const struct session *s)
{
    return s->terminal && s->greeted ? "\r" : "";
}

static bool drained(const struct session *s)
{
    for (unsigned i = OUTPUT; i <= ERRORS; i++)
        if (s->vsock->streams[i].from_len > 0)
            return false;
    return true;
}

/* Printable, and ended: it is the guest's text. */
static void say(const struct session *s, const char *text, size_t room)
{
    char clean[512];
    size_t n = 0;
    for (; n < room && n + 1 < sizeof clean && text[n]; n++)
        clean[n] = text[n] >= ' ' && text[n] < 127 ? text[n] : '?';
    clean[n] = '\0';
    dprintf(2, "brig: %s%s\n", clean, line_end(s));
}

static int settle(struct session *s)
{
    if (s->word.type == GUEST_FAIL) {
        say(s, s->word.err.message, sizeof s->word.err.message);
        return s->word.err.code == ERR_NOT_FOUND  ? 127
               : s->word.err.code == ERR_NOT_EXEC ? 126
                                                  : 125;
    }
    if (s->word.oom_kills > 0)
        dprintf(2,
                "brig: the guest ran out of memory and its kernel killed %u of its processes%s\n",
                s->word.oom_kills, line_end(s));
    if (WIFEXITED(s->word.value))
        return WEXITSTATUS(s->word.value);
    s->signal = WIFSIGNALED(s->word.value) ? WTERMSIG(s->word.value) : SIGKILL;
    return 128 + s->signal;
}

void session_watch(struct session *s, struct pollfd *fds)
{
    size_t len;
    fds[FD_IN] = (struct pollfd){.fd = 0, .events = POLLIN};
    if (s->in_ended || vsock_room(s->vsock, INPUT) == 0)
        fds[FD_IN].fd = -1;
    for (int i = FD_OUT; i <= FD_ERR; i++) {
        vsock_data(s->vsock, (unsigned)(i - FD_OUT) + OUTPUT, &len);
        bool wanted = len > 0 && !s->closed[i - FD_OUT] && !s->name;
        fds[i] = (struct pollfd){.fd = wanted ? i : -1, .events = POLLOUT};
    }
    fds[FD_SIGNALS] = (struct pollfd){.fd = takes_signals(s) ? s->signal_fd : -1, .events = POLLIN};
}

int session_patience(const struct session *s)
{
    struct timespec now;
    if (s->name ? s->up : s->greeted)
        return -1;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t left = (int64_t)s->seconds - (now.tv_sec - s->begun.tv_sec);
    return left > 0 ? (int)left * 1000 : 0;
}

int session_step(struct session *s, const struct pollfd *fds)
{
    if (session_patience(s) == 0) /* VM-14 */
        return session_lost(s, "the guest did not come up in time");
    if (greet(s) < 0)
        return session_lost(s, "there are no random numbers for the guest");
    send_plan(s);
    if (fds[FD_SIGNALS].revents)
        pass_signal(s);
    if (s->signal)
        return 128 + s->signal;
    if (fds[FD_IN].revents)
        carry_in(s);
    if (!s->name) {
        carry_out(s, OUTPUT);
        carry_out(s, ERRORS);
    }
    hear(s);
    vsock_flush(s->vsock);
    if (s->over && (s->name || drained(s)))
        return settle(s);
    return -1;
}

int session_lost(struct session *s, const char *why)
{
    dprintf(2, "brig-vmm: %s%s\n", why, line_end(s));
    return 125;
}

void session_end_as(const struct session *s)
{
    if (s->signal <= 0 || s->signal > 64)
        return;
    sigset_t set;
    signal(s->signal, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, s->signal);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    kill(getpid(), s->signal);
}
