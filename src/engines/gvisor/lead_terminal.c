/* A terminal that is made behind the Sentry, where it has a name and programs can open /dev/tty.
 * The leader is at the head of its session and holds both sides of it; the program is its first
 * job.
 *
 * Bytes are carried between its master and two pipes, one piece at a time each way, so that who
 * does not read holds up nobody but the writer. */
#include "engines/gvisor/lead_child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

enum { TYPED = 0, SHOWN = 1, SIZES = 2 };

/* What its children still write when it has ended is not waited for. */
#define PIECES_AFTER_END 64

bool terminal_size(struct lead *l, const char *text)
{
    char *end = NULL;
    unsigned long columns = strtoul(text, &end, 10);
    if (end == text || *end != 'x')
        return false;
    l->size = (struct winsize){.ws_col = (unsigned short)columns,
                               .ws_row = (unsigned short)strtoul(end + 1, NULL, 10)};
    return true;
}

static void write_name(unsigned number, char name[static 32])
{
    static const char folder[] = "/dev/pts/";
    char digits[12];
    size_t n = 0, at = sizeof folder - 1;
    memcpy(name, folder, at);
    do
        digits[n++] = (char)('0' + number % 10);
    while ((number /= 10) && n < sizeof digits);
    while (n)
        name[at++] = digits[--n];
    name[at] = '\0';
}

int terminal_open(struct lead *l)
{
    int unlock = 0;
    unsigned number = 0;
    char name[32];
    if ((l->master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK)) < 0 ||
        ioctl(l->master, TIOCSPTLCK, &unlock) < 0 || ioctl(l->master, TIOCGPTN, &number) < 0)
        return -1;
    write_name(number, name);
    if ((l->slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC)) < 0 ||
        ioctl(l->slave, TIOCSWINSZ, &l->size) < 0)
        return -1;
    /* What the Sentry executes may be at the head of a session already. */
    if (setsid() < 0 && getsid(0) != getpid())
        return -1;
    for (int fd = TYPED; fd <= SIZES; fd++)
        if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
            return -1;
    return ioctl(l->slave, TIOCSCTTY, 0);
}

int terminal_take(struct lead *l)
{
    if (setpgid(0, 0) < 0 || tcsetpgrp(l->slave, getpid()) < 0)
        return -1;
    for (int fd = 0; fd < 3; fd++)
        if (dup2(l->slave, fd) < 0)
            return -1;
    return 0;
}

unsigned terminal_poll(struct lead *l, struct pollfd *fds)
{
    if (!l->terminal)
        return 0;
    short master = 0;
    if (l->in.len)
        master |= POLLOUT;
    if (!l->out.len)
        master |= POLLIN;
    fds[0] = (struct pollfd){.fd = l->in_ended || l->in.len ? -1 : TYPED, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = l->out.len ? SHOWN : -1, .events = POLLOUT};
    fds[2] = (struct pollfd){.fd = l->sizes_ended ? -1 : SIZES, .events = POLLIN};
    fds[3] = (struct pollfd){.fd = l->master, .events = master};
    return TERMINAL_POLLED;
}

static bool not_now(void)
{
    return errno == EAGAIN || errno == EINTR;
}

/* False: it has ended, or there is nothing just now. */
static bool fill(struct piece *p, int from, bool *ended)
{
    ssize_t n = p->len ? 0 : read(from, p->bytes, sizeof p->bytes);
    if (p->len)
        return false;
    if (n <= 0) {
        *ended = n == 0 || !not_now();
        return false;
    }
    p->at = 0;
    p->len = (size_t)n;
    return true;
}

/* False: nobody listens there any more. */
static bool empty(struct piece *p, int to)
{
    while (p->len) {
        ssize_t n = write(to, p->bytes + p->at, p->len);
        if (n < 0)
            return not_now();
        p->at += (size_t)n;
        p->len -= (size_t)n;
    }
    return true;
}

static pid_t foreground(const struct lead *l)
{
    pid_t group = 0;
    return ioctl(l->slave, TIOCGPGRP, &group) < 0 || group <= 1 || group == getpid() ? 0 : group;
}

void terminal_hang_up(const struct lead *l)
{
    pid_t group = l->terminal ? foreground(l) : 0;
    if (group) {
        kill(-group, SIGHUP);
        kill(-group, SIGCONT);
    }
}

/* gVisor's kernel tells nobody of a new size. */
static void resize(struct lead *l, const struct winsize *size)
{
    if (memcmp(size, &l->size, sizeof *size) == 0 || ioctl(l->slave, TIOCSWINSZ, size) < 0)
        return;
    l->size = *size;
    pid_t group = foreground(l);
    if (group)
        kill(-group, SIGWINCH);
}

/* ---- keys that are signals ---- */

/* Builds of gVisor that are in use make no signals of keys. Done here, it is the same with all of
 * them: what is a signal does not get as far as the terminal. */
static int signal_of(const struct termios *t, char key)
{
    static const struct {
        int place, number;
    } keys[] = {{VINTR, SIGINT}, {VQUIT, SIGQUIT}, {VSUSP, SIGTSTP}};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        cc_t means = t->c_cc[keys[i].place];
        if (means != _POSIX_VDISABLE && means == (cc_t)key)
            return keys[i].number;
    }
    return 0;
}

/* As a terminal shows it: ^C. */
static void show_key(struct lead *l, const struct termios *t, char key)
{
    struct piece *p = &l->out;
    if (!p->len)
        p->at = 0;
    if (!(t->c_lflag & ECHO) || (unsigned char)key >= ' ' || p->at + p->len + 2 > sizeof p->bytes)
        return;
    p->bytes[p->at + p->len++] = '^';
    p->bytes[p->at + p->len++] = (char)(key + '@');
}

static void press(struct lead *l, const struct termios *t, char key)
{
    pid_t group = foreground(l);
    show_key(l, t, key);
    if (group)
        kill(-group, signal_of(t, key));
}

/* False: nobody takes it any more. */
static bool type(struct lead *l)
{
    struct piece *p = &l->in;
    struct termios t = {0};
    while (p->len) {
        bool keys = tcgetattr(l->slave, &t) == 0 && (t.c_lflag & ISIG);
        size_t plain = keys ? 0 : p->len;
        while (plain < p->len && !signal_of(&t, p->bytes[p->at + plain]))
            plain++;
        ssize_t n = 1;
        if (plain == 0)
            press(l, &t, p->bytes[p->at]);
        else if ((n = write(l->master, p->bytes + p->at, plain)) < 0)
            return not_now();
        p->at += (size_t)n;
        p->len -= (size_t)n;
    }
    return true;
}

/* ---- carrying ---- */

static void hear_sizes(struct lead *l)
{
    ssize_t n;
    while ((n = read(SIZES, l->record + l->record_len, sizeof l->record - l->record_len)) > 0) {
        struct winsize size;
        l->record_len += (size_t)n;
        if (l->record_len < sizeof l->record)
            continue;
        memcpy(&size, l->record, sizeof size);
        l->record_len = 0;
        resize(l, &size);
    }
    if (n == 0 || !not_now())
        l->sizes_ended = true;
}

/* Until the terminal has nothing more, or who reads it wants no more just now. */
static void show(struct lead *l)
{
    bool ended = false;
    do {
        if (l->out_ended)
            l->out.len = 0;
        else if (!empty(&l->out, SHOWN)) {
            l->out_ended = true;
            terminal_hang_up(l);
        }
    } while (fill(&l->out, l->master, &ended) && (!l->ended || l->after_end++ < PIECES_AFTER_END));
}

bool terminal_carry(struct lead *l, const struct pollfd *fds)
{
    if (!l->terminal)
        return false;
    if (fds[2].revents)
        hear_sizes(l);
    if (fds[0].revents)
        fill(&l->in, TYPED, &l->in_ended);
    if (!type(l))
        l->in.len = 0;
    show(l);
    return l->out.len > 0 && !l->out_ended && l->after_end <= PIECES_AFTER_END;
}
