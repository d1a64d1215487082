/* init in the guest of a sandbox that lives on: programs are started as they are asked for.
 *
 * A few streams to the monitor are dialled beforehand. When something comes over one, a child is
 * forked for it, the keeper of that program: it reads what to start, forks the program behind its
 * walls, and carries its descriptors as frames (plan/lines.h). What hangs or breaks in one hangs or
 * breaks there alone.
 *
 * A keeper has no capability but the one to signal the program, which has another uid and can
 * neither signal nor trace it; the guest's kernel does not choose it when memory is short. Its
 * stream ends: so does the program, with its group. What the program leaves running goes on, as it
 * would without a machine. */
#include "init/guest_child.h"
#include "init/perform_child.h"
#include "init/session_child.h"
#include "plan/lines.h"

#include <sys/socket.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define SPARES   4
#define LATER_MS 100 /* the monitor has no room, and is asked again */
#define HIGH     16  /* the program's low numbers are free above it */

/* ---- one program ---- */

enum { AT_SIGNALS = LINES_FDS, AT_REPORT, WATCHED };

static struct keeper {
    const struct guest_serve *s;
    struct lines lines;
    struct guest_order order;
    const void *block;
    int signals, report;
    int outer, inner; /* sides of the program's terminal, else -1 */
    pid_t code;
    uint32_t killed; /* before it began */
    bool started, ended, told;
    int status;
} keeper;

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Until it is on its way, or nobody listens. */
__attribute__((noreturn)) static void fail(struct keeper *k, const struct err *err)
{
    struct pollfd fds[LINES_FDS];
    lines_say(&k->lines, LINES_FAILED, err, sizeof *err);
    while (k->lines.out_len > 0 && k->lines.fd >= 0) {
        lines_watch(&k->lines, fds);
        poll(fds, 1, -1);
        lines_step(&k->lines, fds);
    }
    _exit(125);
}

static int settle(struct err *err)
{
    static struct apply_state st;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return err_sys(err, "set no-new-privs");
    return apply_drop_caps(&st, &(struct op){.kind = OP_DROP_CAPS, .num = {1u << CAP_KILL}}, err);
}

static int set_score(const char *score, struct err *err)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, score, strlen(score)) < 0)
        return err_sys(err, "say who is to go when memory is short");
    close(fd);
    return 0;
}

static int hear_order(struct keeper *k, int link, struct err *err)
{
    struct guest_order *o = &k->order;
    if (guest_read_all(link, o, sizeof *o, err) < 0)
        return err_number(err);
    if (o->magic == GUEST_MAGIC && o->port > 0 && o->port <= UINT16_MAX)
        return 0;
    if (o->magic != GUEST_MAGIC || o->port != 0 || o->plan_len == 0 ||
        o->plan_len > PLAN_MAX_BYTES || o->descriptors < 3 || o->descriptors > LINES_CHANNELS)
        return err_set(err, ERR_PROTOCOL, "nothing to start was said");
    void *block =
        mmap(NULL, o->plan_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED)
        return err_sys(err, "map what to start");
    k->block = block;
    return guest_read_all(link, block, o->plan_len, err);
}

static int high(int fd)
{
    int to = fcntl(fd, F_DUPFD_CLOEXEC, HIGH);
    close(fd);
    return to;
}

static int set_nonblocking(int fd)
{
    return fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

/* theirs: the program's end. */
static int make_pipe(struct keeper *k, unsigned channel, int *theirs, struct err *err)
{
    static const enum lines_way ways[LINES_CHANNELS] = {LINES_IN, LINES_OUT, LINES_OUT, LINES_IN,
                                                        LINES_OUT};
    int ends[2];
    bool in = ways[channel] == LINES_IN;
    if (pipe2(ends, O_CLOEXEC) < 0 || (*theirs = high(ends[in ? 0 : 1])) < 0 ||
        set_nonblocking(ends[in ? 1 : 0]) < 0)
        return err_sys(err, "pipe");
    lines_open(&k->lines, channel, ways[channel], ends[in ? 1 : 0]);
    return 0;
}

/* The inner side stays open here until the program ends: one that closes all of its descriptors
 * still has its terminal. */
static int make_terminal(struct keeper *k, int *theirs, struct err *err)
{
    if (guest_terminal(k->s->uid, &k->order.size, &k->outer, &k->inner, err) < 0)
        return err_number(err);
    int in = fcntl(k->outer, F_DUPFD_CLOEXEC, HIGH), out = fcntl(k->outer, F_DUPFD_CLOEXEC, HIGH);
    for (int i = 0; i < 3; i++)
        if ((theirs[i] = fcntl(k->inner, F_DUPFD_CLOEXEC, HIGH)) < 0)
            return err_sys(err, "duplicate the terminal");
    if (in < 0 || out < 0 || set_nonblocking(k->outer) < 0)
        return err_sys(err, "set the terminal up");
    lines_open(&k->lines, 0, LINES_IN, in);
    lines_open(&k->lines, 1, LINES_OUT, out);
    return 0;
}

static int make_descriptors(struct keeper *k, int theirs[LINES_CHANNELS], struct err *err)
{
    if (k->order.terminal)
        return make_terminal(k, theirs, err);
    for (unsigned i = 0; i < k->order.descriptors; i++)
        if (make_pipe(k, i, &theirs[i], err) < 0)
            return err_number(err);
    return 0;
}

/* A connection is carried as a program's descriptors are; there is no program. */
static int connect_server(struct keeper *k, struct err *err)
{
    int to = settle(err) < 0 ? -1 : connect_port((int)k->order.port, err);
    int from = to < 0 ? -1 : fcntl(to, F_DUPFD_CLOEXEC, HIGH);
    if (to >= 0 && from < 0)
        err_sys(err, "set the connection up");
    if (from < 0)
        return err_number(err);
    lines_open(&k->lines, 0, LINES_IN, to);
    lines_open(&k->lines, 1, LINES_OUT, from);
    k->started = k->ended = k->told = true;
    lines_say(&k->lines, LINES_STARTED, NULL, 0);
    return 0;
}

static int start(struct keeper *k, struct err *err)
{
    int theirs[LINES_CHANNELS] = {-1, -1, -1, -1, -1}, report[2];
    if (make_descriptors(k, theirs, err) < 0)
        return err_number(err);
    if (pipe2(report, O_CLOEXEC) < 0 || (report[1] = high(report[1])) < 0)
        return err_sys(err, "pipe");
    unsigned count = k->order.terminal ? 3 : k->order.descriptors;
    k->report = report[0];
    k->killed = guest_oom_kills();
    if ((k->code = fork()) < 0)
        return err_sys(err, "start a process in the guest");
    if (k->code == 0) {
        const struct guest_code c = {.walls = k->s->walls,
                                     .walls_len = k->s->walls_len,
                                     .places = k->s->places,
                                     .block = k->block,
                                     .block_len = k->order.plan_len,
                                     .uid = k->s->uid,
                                     .fds = theirs,
                                     .count = count,
                                     .terminal = k->inner,
                                     .report = report[1]};
        set_score("0", err);
        guest_become(&c);
    }
    for (unsigned i = 0; i < count; i++)
        close(theirs[i]);
    close(report[1]);
    close(k->s->places->ruleset_fd);
    return settle(err);
}

/* True: it was executed, or an error was said in its place. */
static void hear_report(struct keeper *k)
{
    struct err err = ERR_INIT;
    ssize_t n = read(k->report, &err, sizeof err);
    if (n < 0)
        return;
    close_fd(&k->report);
    if (n > 0)
        fail(k, &err);
    k->started = true;
    lines_say(&k->lines, LINES_STARTED, NULL, 0);
}

static void signal_code(const struct keeper *k, int number)
{
    /* A child that was forked a moment ago has no group of its own yet. */
    if (!k->ended && kill(-k->code, number) < 0)
        kill(k->code, number);
}

static int hear(void *ctx, const struct lines_frame *f)
{
    struct keeper *k = ctx;
    struct guest_size size;
    if (f->type == LINES_SIGNAL && f->data[0] > 0 && f->data[0] <= 64) {
        signal_code(k, f->data[0]);
        return 0;
    }
    if (f->type != LINES_SIZE)
        return -EPROTO;
    memcpy(&size, f->data, sizeof size);
    struct winsize now = {.ws_row = size.rows, .ws_col = size.columns};
    if (k->outer >= 0)
        ioctl(k->outer, TIOCSWINSZ, &now);
    return 0;
}

static void reap(struct keeper *k)
{
    struct signalfd_siginfo info;
    while (read(k->signals, &info, sizeof info) == (ssize_t)sizeof info)
        ;
    if (k->ended || waitpid(k->code, &k->status, WNOHANG) != k->code)
        return;
    k->ended = true;
    lines_note_due(&k->lines);
    close_fd(&k->inner);
}

/* How a program ended is said after all that it wrote: whoever hears it looks for no more output.
 */
static void tell_end(struct keeper *k)
{
    if (!k->ended || k->told || !k->started)
        return;
    lines_drain(&k->lines);
    if (!lines_sent_due(&k->lines))
        return;
    const struct lines_exit e = {.status = k->status, .oom_kills = guest_oom_kills() - k->killed};
    k->told = lines_say(&k->lines, LINES_EXIT, &e, sizeof e);
    lines_drain(&k->lines);
}

/* Whoever read the terminal has gone: its session gets SIGHUP, as when a line hangs up. */
static void hang_up(struct keeper *k)
{
    if (k->outer < 0 || k->lines.channels[1].fd >= 0)
        return;
    close_fd(&k->lines.channels[0].fd);
    close_fd(&k->inner);
    close_fd(&k->outer);
}

static void step(struct keeper *k)
{
    struct pollfd fds[WATCHED];
    lines_watch(&k->lines, fds);
    fds[AT_SIGNALS] = (struct pollfd){.fd = k->signals, .events = POLLIN};
    fds[AT_REPORT] = (struct pollfd){.fd = k->report, .events = POLLIN};
    if (poll(fds, WATCHED, -1) < 0)
        return;
    if (fds[AT_REPORT].revents)
        hear_report(k);
    if (fds[AT_SIGNALS].revents)
        reap(k);
    lines_step(&k->lines, fds);
    hang_up(k);
    tell_end(k);
}

static bool is_done(const struct keeper *k)
{
    return k->told && lines_over(&k->lines, LINES_OUT) &&
           (!k->order.port || lines_over(&k->lines, LINES_IN));
}

static void keep(const struct guest_serve *s, int link)
{
    struct keeper *k = &keeper;
    struct err err = ERR_INIT;
    sigset_t set;
    *k = (struct keeper){.s = s, .report = -1, .outer = -1, .inner = -1};
    lines_init(&k->lines, link, hear, k);
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    if ((k->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0 ||
        set_score("-1000", &err) < 0 || hear_order(k, link, &err) < 0 || set_nonblocking(link) < 0)
        _exit(125);
    if ((k->order.port ? connect_server : start)(k, &err) < 0)
        fail(k, &err);
    while (k->lines.fd >= 0 && !is_done(k))
        step(k);
    signal_code(k, SIGKILL);
    _exit(0);
}

/* ---- all of them ---- */

static struct {
    const struct guest_serve *s;
    int spares[SPARES];
} serve = {.spares = {-1, -1, -1, -1}};

static bool dial_spares(void)
{
    struct err ignored = ERR_INIT;
    bool all = true;
    for (int i = 0; i < SPARES; i++) {
        if (serve.spares[i] < 0)
            serve.spares[i] = guest_dial(GUEST_JOIN, true, &ignored);
        all = all && serve.spares[i] >= 0;
    }
    return all;
}

static void begin(int *spare)
{
    int link = *spare;
    char byte;
    *spare = -1;
    ssize_t n = recv(link, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n > 0 && fork() == 0) {
        for (int i = 0; i < SPARES; i++)
            close_fd(&serve.spares[i]);
        close(serve.s->control);
        close(serve.s->signals);
        keep(serve.s, link);
    }
    close(link);
}

static void reap_all(void)
{
    struct signalfd_siginfo info;
    while (read(serve.s->signals, &info, sizeof info) == (ssize_t)sizeof info)
        ;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}

static void say_up(void)
{
    const struct guest_word word = {.type = GUEST_UP};
    const char *data = (const char *)&word;
    for (size_t done = 0; done < sizeof word;) {
        ssize_t n = write(serve.s->control, data + done, sizeof word - done);
        if (n < 0 && errno != EINTR)
            reboot(RB_POWER_OFF);
        done += n > 0 ? (size_t)n : 0;
    }
}

/* The monitor says nothing more here: the next event is the end of the stream. */
static void hear_monitor(void)
{
    char none[64];
    ssize_t n = read(serve.s->control, none, sizeof none);
    if (n == 0 || (n < 0 && errno != EINTR))
        reboot(RB_POWER_OFF);
}

void guest_serve(const struct guest_serve *s)
{
    enum { AT_CONTROL = SPARES, AT_CHILDREN, ALL };
    struct pollfd fds[ALL];
    serve.s = s;
    bool full = dial_spares();
    say_up();
    for (;;) {
        for (int i = 0; i < SPARES; i++)
            fds[i] = (struct pollfd){.fd = serve.spares[i], .events = POLLIN};
        fds[AT_CONTROL] = (struct pollfd){.fd = s->control, .events = POLLIN};
        fds[AT_CHILDREN] = (struct pollfd){.fd = s->signals, .events = POLLIN};
        if (poll(fds, ALL, full ? -1 : LATER_MS) < 0)
            continue;
        for (int i = 0; i < SPARES; i++)
            if (fds[i].revents)
                begin(&serve.spares[i]);
        if (fds[AT_CONTROL].revents)
            hear_monitor();
        if (fds[AT_CHILDREN].revents)
            reap_all();
        full = dial_spares();
    }
}
