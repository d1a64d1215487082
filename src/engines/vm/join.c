/* One program in a guest that is there already, in a sandbox of `brig serve`. init starts this in
 * the place of the program, with the program's descriptors:
 *
 *   brig-vmm join NAME DESCRIPTORS SIZE FOLDER -- COMMAND [ARG…]
 *   brig-vmm join NAME port PORT
 *
 * It connects to the monitor (joins.h), says what to start, carries what the program reads and
 * writes (plan/lines.h), passes signals on, and ends as the program did. What could not be started
 * it says on JOIN_STATUS, a pipe of the warden's.
 *
 * With `port` it is a connection to a server in the guest that is carried, between descriptors 0
 * and 1.
 *
 * A terminal is made in the guest: descriptor 0 is what is typed, 1 what is shown, and over 2 come
 * its sizes.
 *
 * That nobody can catch SIGKILL does no harm: the end of the connection makes init in the guest
 * kill the program's group. What the program left running and still writes outlives it here as it
 * does there: the process that was started ends as the program ended, and a child of it goes on.
 *
 * What comes from the guest is hostile. It reaches pipes of this one request, this process's end,
 * and a message that is cleaned first; and this process has no more rights than the code itself has
 * on the container tier, less all system calls but a few. */
#include "engines/vm/join.h"

#include "base/num.h"
#include "base/text.h"
#include "os/seal.h"
#include "os/sys.h"
#include "plan/guest.h"
#include "plan/join.h"
#include "plan/lines.h"
#include "plan/plan.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define FIXED_ARGS 7
#define VARIABLE                                                                                   \
    "brig:" /* stands before the program's own variables, which nothing here obeys (credentials.h) \
             */

enum { STDIN, STDOUT, STDERR, REQUESTS, ANSWERS }; /* channels, and descriptors */
enum { AT_SIGNALS = LINES_FDS, AT_SIZES, WATCHED };

static struct join {
    const char *name, *folder;
    struct guest_order order;
    char **argv;
    int link, signals;
    int sizes;  /* of a terminal: where they come from; -1 */
    int errors; /* where brig's own words about the program go; -1 */
    bool told;  /* the warden knows how the start went */
    bool ended;
    struct lines_exit exit;
    struct winsize size;
    size_t size_len;
    struct lines lines;
} join = {.sizes = -1, .errors = -1};

/* ---- to the warden ---- */

__attribute__((noreturn)) static void fail(const struct err *err)
{
    (void)!write(JOIN_STATUS, err, sizeof *err);
    _exit(err_exit_status(err));
}

__attribute__((noreturn)) static void fail_with(enum err_code code, const char *text)
{
    struct err err = ERR_INIT;
    err_set(&err, code, "%s", text);
    err_at(&err, BOUNDARY_KERNEL);
    fail(&err);
}

__attribute__((noreturn)) static void end_by(int number)
{
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, number);
    signal(number, SIG_DFL);
    sigprocmask(SIG_UNBLOCK, &one, NULL);
    kill(getpid(), number);
    _exit(128 + number);
}

__attribute__((noreturn)) static void machine_gone(const struct join *j)
{
    if (!j->told)
        fail_with(ERR_SYSTEM, "the virtual machine ended before the process began");
    end_by(SIGKILL);
}

/* ---- what it was asked for ---- */

static uint32_t number(const char *text, uint32_t least, uint32_t most)
{
    uint64_t value;
    if (num_parse_uint(text, &value, NULL) < 0 || value < least || value > most)
        fail_with(ERR_USAGE, "brig starts this program, in a sandbox of brig serve");
    return (uint32_t)value;
}

static void take_size(struct join *j, const char *text)
{
    unsigned columns, rows;
    if (strcmp(text, "-") == 0)
        return;
    if (sscanf(text, "%4ux%4u", &columns, &rows) != 2)
        fail_with(ERR_USAGE, "a terminal's size is COLUMNSxROWS");
    j->order.terminal = 1;
    j->order.size = (struct guest_size){.rows = (uint16_t)rows, .columns = (uint16_t)columns};
}

static bool take_port(int argc, char *argv[], struct join *j)
{
    if (argc != 5 || strcmp(argv[3], "port") != 0 || strlen(argv[2]) != JOIN_NAME_LEN)
        return false;
    j->name = argv[2];
    j->order = (struct guest_order){
        .magic = GUEST_MAGIC, .descriptors = STDERR, .port = number(argv[4], 1, UINT16_MAX)};
    return true;
}

static void take_options(int argc, char *argv[], struct join *j)
{
    if (take_port(argc, argv, j))
        return;
    if (argc <= FIXED_ARGS || strcmp(argv[FIXED_ARGS - 1], "--") != 0 ||
        strlen(argv[2]) != JOIN_NAME_LEN)
        fail_with(ERR_USAGE, "brig starts this program, in a sandbox of brig serve");
    j->name = argv[2];
    j->order.magic = GUEST_MAGIC;
    j->order.descriptors = number(argv[3], 3, LINES_CHANNELS);
    take_size(j, argv[4]);
    j->folder = argv[5];
    j->argv = &argv[FIXED_ARGS];
}

/* ---- the start ---- */

static void must(int result, const char *what)
{
    struct err err = ERR_INIT;
    if (result >= 0)
        return;
    err_sys(&err, "%s", what);
    err_at(&err, BOUNDARY_KERNEL);
    fail(&err);
}

static void connect_link(struct join *j)
{
    struct sockaddr_un full = {.sun_family = AF_UNIX};
    memcpy(full.sun_path + 1, j->name, JOIN_NAME_LEN); /* an abstract one: its first byte is 0 */
    j->link = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(j->link, "make a socket to the virtual machine");
    must(connect(j->link, (struct sockaddr *)&full,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + JOIN_NAME_LEN)),
         "reach the virtual machine");
}

static void watch_signals(struct join *j)
{
    sigset_t all;
    sigfillset(&all);
    signal(SIGPIPE, SIG_IGN);
    sigprocmask(SIG_BLOCK, &all, NULL);
    must(j->signals = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK), "watch signals");
}

/* Read, write, and go on as two. */
static int seal(struct err *err)
{
    static const int allowed[] = {
        SEAL_CALLS_LIFE, SYS_read,         SYS_write,           SYS_writev,          SYS_close,
        SYS_ppoll,       SYS_rt_sigaction, SYS_set_robust_list, SYS_set_tid_address,
#ifdef SYS_poll
        SYS_poll,
#endif
#ifdef SYS_fork
        SYS_fork,
#endif
    };
    const struct seal_choice choices[] = {
        SEAL_CHOICES_NO_CODE,
        {SYS_kill, 0, ~0u, {(uint32_t)getpid()}, 1},
        {SYS_clone, 0, ~(uint32_t)(CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID), {SIGCHLD}, 1},
    };
    return seal_calls(&(struct seal_calls){allowed, sizeof allowed / sizeof *allowed, choices,
                                           sizeof choices / sizeof *choices},
                      "the process that stands beside a program", err);
}

/* It is this request alone that waits. */
static void send_all(const struct join *j, const void *data, size_t len)
{
    for (size_t done = 0; done < len;) {
        struct pollfd out = {.fd = j->link, .events = POLLOUT};
        ssize_t n = write(j->link, (const char *)data + done, len - done);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            machine_gone(j);
        done += n > 0 ? (size_t)n : 0;
        if (n <= 0)
            poll(&out, 1, -1);
    }
}

static void plan_variables(struct plan *plan)
{
    for (char **each = environ; each && *each; each++)
        if (text_begins(*each, VARIABLE))
            plan_str(plan, OP_ENV, *each + sizeof VARIABLE - 1, NULL, 0);
}

static void send_order(struct join *j)
{
    struct plan plan;
    struct err err = ERR_INIT;
    if (j->order.port) {
        send_all(j, &j->order, sizeof j->order);
        return;
    }
    plan_init(&plan);
    for (char **each = j->argv; *each; each++)
        plan_arg(&plan, *each);
    plan_variables(&plan);
    plan_str(&plan, OP_CWD, j->folder, NULL, 0);
    if (plan_finish(&plan, &err) < 0)
        fail(&err);
    j->order.plan_len = (uint32_t)plan.bytes.len;
    send_all(j, &j->order, sizeof j->order);
    send_all(j, plan.bytes.data, plan.bytes.len);
    plan_done(&plan);
}

static void set_nonblocking(int fd)
{
    must(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), "set up a descriptor");
}

static int hear(void *ctx, const struct lines_frame *f);

static void open_channels(struct join *j)
{
    static const enum lines_way ways[LINES_CHANNELS] = {LINES_OUT, LINES_IN, LINES_IN, LINES_OUT,
                                                        LINES_IN};
    unsigned count = j->order.terminal ? STDERR : j->order.descriptors;
    lines_init(&j->lines, j->link, hear, j);
    if (j->order.terminal)
        j->sizes = STDERR;
    else if (!j->order.port)
        must(j->errors = fcntl(STDERR, F_DUPFD_CLOEXEC, JOIN_STATUS + 1), "set up a descriptor");
    set_nonblocking(j->link);
    for (int fd = STDIN; fd < (int)j->order.descriptors; fd++)
        set_nonblocking(fd);
    for (unsigned i = 0; i < count; i++)
        lines_open(&j->lines, i, ways[i], (int)i);
}

/* ---- while it runs ---- */

/* Printable, and ended: it is the guest's text. */
static void clean(char *text, size_t size)
{
    text[size - 1] = '\0';
    for (; *text; text++)
        if (*text < ' ' || *text > '~')
            *text = '?';
}

__attribute__((noreturn)) static void fail_as_told(const struct lines_frame *f)
{
    struct err err;
    memcpy(&err, f->data, sizeof err);
    if (!err_code_known(err.code) || err.boundary < 0 || err.boundary >= BOUNDARY_COUNT)
        fail_with(ERR_PROTOCOL, "the process could not be started");
    clean(err.message, sizeof err.message);
    clean(err.hint, sizeof err.hint);
    fail(&err);
}

static int hear(void *ctx, const struct lines_frame *f)
{
    struct join *j = ctx;
    switch (f->type) {
    case LINES_STARTED:
        if (!j->told)
            close(JOIN_STATUS);
        j->told = true;
        return 0;
    case LINES_FAILED:
        if (!j->told)
            fail_as_told(f);
        return -EPROTO;
    case LINES_EXIT:
        if (!j->told || j->ended)
            return -EPROTO;
        memcpy(&j->exit, f->data, sizeof j->exit);
        j->ended = true;
        return 0;
    default:
        return -EPROTO;
    }
}

/* What has no room now stays pending. */
static void pass_signals(struct join *j)
{
    struct signalfd_siginfo info;
    while (sizeof j->lines.out - j->lines.out_len > LINES_HEAD + 1 &&
           read(j->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        uint8_t what = info.ssi_signo == JOIN_STOP ? SIGSTOP : (uint8_t)info.ssi_signo;
        /* SIGCHLD and SIGPIPE are this process's own. */
        if (what != SIGCHLD && what != SIGPIPE)
            lines_say(&j->lines, LINES_SIGNAL, &what, 1);
    }
}

static void pass_size(struct join *j)
{
    ssize_t n = read(j->sizes, (char *)&j->size + j->size_len, sizeof j->size - j->size_len);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        close(j->sizes);
        j->sizes = -1;
        return;
    }
    if ((j->size_len += (size_t)n) < sizeof j->size)
        return;
    const struct guest_size size = {.rows = j->size.ws_row, .columns = j->size.ws_col};
    j->size_len = 0;
    lines_say(&j->lines, LINES_SIZE, &size,
              sizeof size); /* one that is lost is followed by another */
}

static void say_killed(const struct join *j)
{
    if (j->exit.oom_kills > 0 && j->errors >= 0)
        dprintf(j->errors,
                "brig: the guest ran out of memory and its kernel killed %u of its processes\n",
                (unsigned)j->exit.oom_kills);
}

__attribute__((noreturn)) static void end_as_it_did(const struct join *j)
{
    int status = j->exit.status, sig = WTERMSIG(status);
    if (WIFEXITED(status))
        _exit(WEXITSTATUS(status));
    end_by(WIFSIGNALED(status) && sig > 0 && sig <= 64 ? sig : SIGKILL);
}

static void step(struct join *j)
{
    struct pollfd fds[WATCHED];
    lines_watch(&j->lines, fds);
    fds[AT_SIGNALS] = (struct pollfd){.fd = j->signals, .events = POLLIN};
    fds[AT_SIZES] = (struct pollfd){.fd = j->sizes, .events = POLLIN};
    if (poll(fds, WATCHED, -1) < 0 && errno != EINTR)
        machine_gone(j);
    if (fds[AT_SIGNALS].revents)
        pass_signals(j);
    if (fds[AT_SIZES].revents)
        pass_size(j);
    if (lines_step(&j->lines, fds) < 0 && !j->ended)
        machine_gone(j);
}

/* The program has ended, but processes that it left may still write to its pipes: they are carried
 * on, and nobody waits for it. */
static void outlive(struct join *j)
{
    if (j->errors >= 0)
        close(j->errors);
    j->errors = -1;
    if (lines_over(&j->lines, LINES_IN) || fork() != 0)
        end_as_it_did(j);
    /* Signals are for the program, which has ended. */
    close(j->signals);
    j->signals = -1;
    while (!lines_over(&j->lines, LINES_IN))
        step(j);
    _exit(0);
}

void join_main(int argc, char *argv[])
{
    struct join *j = &join;
    struct err err = ERR_INIT;
    fcntl(JOIN_STATUS, F_SETFD, FD_CLOEXEC);
    take_options(argc, argv, j);
    watch_signals(j);
    connect_link(j);
    open_channels(j);
    if (seal(&err) < 0)
        fail(&err);
    send_order(j);
    /* Whoever hears of the end looks for no more output, so all of it must be in the pipes by then.
     */
    while (!j->ended || !lines_written(&j->lines)) {
        step(j);
        bool connected = j->told && j->order.port;
        if (connected && j->lines.fd < 0 && lines_over(&j->lines, LINES_IN))
            _exit(0);
        if (j->lines.fd < 0 && !j->ended && !connected)
            machine_gone(j);
    }
    say_killed(j);
    outlive(j);
    _exit(125);
}
