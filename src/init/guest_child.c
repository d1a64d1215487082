/* init as the first process of a virtual machine: loads the modules that came with it, mounts what
 * the monitor serves, hears from the monitor what to run, puts the walls of the plan around the
 * code and carries its input and output.
 *
 * The code stands here behind the same walls as without a machine: a uid of its own, no capability,
 * no-new-privs, Landlock, the system call filter, limits. Beyond them is this guest's kernel, then
 * the monitor.
 *
 * VM-15  The code holds pipes, never a stream of the monitor's, and its filter lets it make none.
 */
#include "init/guest_child.h"
#include "init/exec_child.h"
#include "init/perform_child.h"
#include "os/landlock.h"
#include "os/sys.h"
#include "plan/guest.h"

#include <sys/socket.h> /* first: what follows needs it */

#include <errno.h>
#include <fcntl.h>
#include <linux/random.h>
#include <linux/vm_sockets.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#define NEW_ROOT       "/view"
#define READ_AHEAD_KIB "1024"
#define PLACES_AT      64 /* lower descriptors may become the program's */

/* One direction between a pipe of the code's and a stream of the monitor's. */
struct carrier {
    int from, to; /* -1: closed */
    size_t len, at;
    char data[32768];
};

static struct {
    int control;
    struct guest_hello hello;
    const uint8_t *plan;
    int streams[3];
    int terminal, slave;        /* the code's, if it has one; -1 */
    struct carrier carriers[3]; /* input, output, errors */
    struct apply_state places;  /* of the code, as Landlock knows them */
    pid_t code;
    bool ended;
    int status;
} guest = {.control = -1, .terminal = -1, .slave = -1};

static void say(uint32_t type, int32_t value, uint32_t oom_kills, const struct err *err)
{
    struct guest_word word = {.type = type, .value = value, .oom_kills = oom_kills};
    if (err)
        word.err = *err;
    const char *data = (const char *)&word;
    for (size_t done = 0; done < sizeof word;) {
        ssize_t n = write(guest.control, data + done, sizeof word - done);
        if (n < 0 && errno != EINTR)
            return;
        done += n > 0 ? (size_t)n : 0;
    }
}

/* The monitor ends the machine when it has heard; without a monitor to hear, the kernel does. Who
 * fails before it has dialled uses another port first, so that nobody takes it for one that waits.
 */
static void give_up(const struct err *err)
{
    struct err ignored = ERR_INIT;
    if (guest.control < 0) {
        guest_dial(GUEST_STDERR, true, &ignored);
        guest.control = guest_dial(GUEST_CONTROL, true, &ignored);
    }
    if (guest.control < 0)
        reboot(RB_AUTOBOOT);
    say(GUEST_FAIL, 0, 0, err);
    for (;;)
        pause();
}

#define MODULES_MAX 32u

/* 1: loaded; 0: it needs another module first; negative: it cannot be loaded. */
static int load_module(unsigned number, struct err *err)
{
    char path[32];
    snprintf(path, sizeof path, GUEST_MODULE, number);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, "open %s", path);
    int result = (int)syscall(SYS_finit_module, fd, "", 0);
    close(fd);
    if (result < 0 && errno == ENOENT)
        return 0;
    if (result < 0 && errno != EEXIST)
        return err_sys(err, "load %s", path);
    unlink(path); /* its memory is the guest's */
    return 1;
}

/* Which module needs which differs from kernel to kernel: one that is refused for want of another
 * is tried again, as long as each round loads at least one. */
static int load_modules(struct err *err)
{
    char path[32];
    bool loaded[MODULES_MAX] = {false};
    unsigned count = 0, left;
    do
        snprintf(path, sizeof path, GUEST_MODULE, count);
    while (access(path, F_OK) == 0 && ++count < MODULES_MAX);
    left = count;
    while (left > 0) {
        unsigned before = left;
        for (unsigned i = 0; i < count; i++) {
            int result = loaded[i] ? 0 : load_module(i, err);
            if (result < 0)
                return err_number(err);
            loaded[i] |= result > 0;
            left -= result > 0;
        }
        if (left == before)
            return err_set(err, ERR_UNSUPPORTED, "modules of the guest's kernel lack others");
    }
    return 0;
}

/* The monitor always answers. How long that may take is said outside (a host may be busy, a machine
 * parked), not by the two seconds that a kernel waits for an answer. */
int guest_dial(uint32_t port, bool wait, struct err *err)
{
    struct sockaddr_vm to = {.svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_HOST, .svm_port = port};
    const struct timeval patience = {.tv_sec = 24 * 60 * 60};
    int fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC | (wait ? 0 : SOCK_NONBLOCK), 0);
    if (fd >= 0 &&
        setsockopt(fd, AF_VSOCK, SO_VM_SOCKETS_CONNECT_TIMEOUT, &patience, sizeof patience) == 0 &&
        (connect(fd, (struct sockaddr *)&to, sizeof to) == 0 || (!wait && errno == EINPROGRESS)))
        return fd;
    err_sys(err, "reach the monitor");
    if (fd >= 0)
        close(fd);
    return err_number(err);
}

int guest_read_all(int fd, void *to, size_t len, struct err *err)
{
    for (size_t done = 0; done < len;) {
        ssize_t n = read(fd, (char *)to + done, len - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return err_sys(err, "hear the monitor");
        done += (size_t)n;
    }
    return 0;
}

#ifndef RNDRESEEDCRNG
#define RNDRESEEDCRNG _IO('R', 7)
#endif

/* VM-30: until now the kernel may have the random numbers of every clone of the same machine. What
 * was sent goes in, and all that it has made of what it had before is thrown away. */
static int renew_entropy(struct err *err)
{
    struct {
        int bits, len;
        uint8_t data[GUEST_ENTROPY];
    } fresh = {.bits = 8 * GUEST_ENTROPY, .len = GUEST_ENTROPY};
    _Static_assert(sizeof fresh == sizeof(struct rand_pool_info) + GUEST_ENTROPY, "as it is read");
    memcpy(fresh.data, guest.hello.entropy, GUEST_ENTROPY);
    int fd = open("/dev/urandom", O_RDWR | O_CLOEXEC);
    bool done = fd >= 0 && ioctl(fd, RNDADDENTROPY, &fresh) == 0 && ioctl(fd, RNDRESEEDCRNG) == 0;
    if (!done)
        err_sys(err, "take random numbers of its own");
    explicit_bzero(&fresh, sizeof fresh);
    explicit_bzero(guest.hello.entropy, sizeof guest.hello.entropy);
    if (fd >= 0)
        close(fd);
    return done ? 0 : err_number(err);
}

static int become_one(struct err *err)
{
    const struct timespec now = {.tv_sec = (time_t)guest.hello.seconds,
                                 .tv_nsec = guest.hello.nanoseconds};
    if (renew_entropy(err) < 0)
        return err_number(err);
    return clock_settime(CLOCK_REALTIME, &now) < 0 ? err_sys(err, "set the guest's clock") : 0;
}

static int hear_plan(struct err *err)
{
    if (guest_read_all(guest.control, &guest.hello, sizeof guest.hello, err) < 0)
        return err_number(err);
    if (guest.hello.magic != GUEST_MAGIC || guest.hello.plan_len == 0 ||
        guest.hello.plan_len > PLAN_MAX_BYTES)
        return err_set(err, ERR_PROTOCOL, "the monitor sent no plan");
    void *plan = mmap(NULL, guest.hello.plan_len, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (plan == MAP_FAILED)
        return err_sys(err, "map the plan");
    guest.plan = plan;
    if (become_one(err) < 0)
        return err_number(err);
    return guest_read_all(guest.control, plan, guest.hello.plan_len, err);
}

static int mount_at(const char *what, const char *where, const char *type, unsigned long flags,
                    const char *options, struct err *err)
{
    if (mount(what, where, type, flags, options) < 0)
        return err_sys(err, "mount %s on %s", type, where);
    return 0;
}

/* Devices of the guest's own kernel; none of them leads to the host. */
static int make_devices(struct err *err)
{
    static const struct {
        const char *path;
        unsigned minor, major;
    } nodes[] = {{NEW_ROOT "/dev/null", 3, 1},    {NEW_ROOT "/dev/zero", 5, 1},
                 {NEW_ROOT "/dev/full", 7, 1},    {NEW_ROOT "/dev/random", 8, 1},
                 {NEW_ROOT "/dev/urandom", 9, 1}, {NEW_ROOT "/dev/tty", 0, 5}};
    static const struct {
        const char *to, *path;
    } links[] = {{"/proc/self/fd", NEW_ROOT "/dev/fd"},
                 {"/proc/self/fd/0", NEW_ROOT "/dev/stdin"},
                 {"/proc/self/fd/1", NEW_ROOT "/dev/stdout"},
                 {"/proc/self/fd/2", NEW_ROOT "/dev/stderr"},
                 {"pts/ptmx", NEW_ROOT "/dev/ptmx"}};
    if (mount_at("dev", NEW_ROOT "/dev", "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=64k", err) <
        0)
        return err_number(err);
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++)
        if (mknod(nodes[i].path, S_IFCHR | 0666, makedev(nodes[i].major, nodes[i].minor)) < 0)
            return err_sys(err, "make %s", nodes[i].path);
    for (size_t i = 0; i < sizeof links / sizeof *links; i++)
        if (symlink(links[i].to, links[i].path) < 0)
            return err_sys(err, "make %s", links[i].path);
    if (mkdir(NEW_ROOT "/dev/pts", 0755) < 0 || mkdir(NEW_ROOT "/dev/shm", 01777) < 0)
        return err_sys(err, "make folders in /dev");
    if (mount_at("devpts", NEW_ROOT "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
                 "newinstance,ptmxmode=0666,mode=600", err) < 0)
        return err_number(err);
    return mount_at("shm", NEW_ROOT "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
                    "mode=1777", err);
}

/* A program that starts is read in pieces of at most this size, and each is a request. Where it
 * cannot be set they stay an eighth of it, and there are more. */
static void read_far_ahead(void)
{
    struct stat sb;
    char path[64];
    mkdir("/sys", 0755);
    if (stat(NEW_ROOT, &sb) < 0 || mount("sys", "/sys", "sysfs", MS_NOEXEC, NULL) < 0)
        return;
    snprintf(path, sizeof path, "/sys/class/bdi/%u:%u/read_ahead_kb", major(sb.st_dev),
             minor(sb.st_dev));
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!write(fd, READ_AHEAD_KIB, strlen(READ_AHEAD_KIB));
        close(fd);
    }
    umount2("/sys", MNT_DETACH);
}

static int enter_view(struct err *err)
{
    mkdir(NEW_ROOT, 0755);
    if (mount_at(GUEST_VIEW, NEW_ROOT, "virtiofs", MS_NOSUID | MS_NODEV, "", err) < 0)
        return err_number(err);
    read_far_ahead();
    if (mount_at("proc", NEW_ROOT "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "", err) < 0 ||
        make_devices(err) < 0)
        return err_number(err);
    unlink("/init");
    if (chdir(NEW_ROOT) < 0 || mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0 ||
        chdir("/") < 0)
        return err_sys(err, "enter the view");
    return 0;
}

/* There is no network card, but programs expect 127.0.0.1 to be there all the same. */
static void start_loopback(void)
{
    struct ifreq lo = {.ifr_flags = IFF_UP | IFF_RUNNING};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    memcpy(lo.ifr_name, "lo", 3);
    if (fd >= 0) {
        ioctl(fd, SIOCSIFFLAGS, &lo);
        close(fd);
    }
}

static int connect_streams(struct err *err)
{
    for (uint32_t i = 0; i < 3; i++)
        if ((guest.streams[i] = guest_dial(GUEST_STDIN + i, true, err)) < 0)
            return err_number(err);
    return 0;
}

static int take_identity(uint32_t uid, struct err *err)
{
    for (int cap = 0; prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0; cap++)
        ;
    if (syscall(SYS_setgroups, (size_t)0, NULL) < 0 || syscall(SYS_setresgid, uid, uid, uid) < 0 ||
        syscall(SYS_setresuid, uid, uid, uid) < 0)
        return err_sys(err, "take uid %u", uid);
    return 0;
}

/* As the supervisor does outside: what could be opened before must not be openable now. */
static int check_landlock(const struct apply_state *st, struct err *err)
{
    if (st->landlock_probe &&
        (st->evidence.landlock_before != 0 || st->evidence.landlock_after != EACCES))
        return err_set(err, ERR_ATTEST, "Landlock is not in force inside the guest (%d, then %d)",
                       st->evidence.landlock_before, st->evidence.landlock_after);
    return 0;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static bool is_a_place(enum op_kind kind)
{
    return kind == OP_LANDLOCK_BEGIN || kind == OP_LANDLOCK_ALLOW || kind == OP_LANDLOCK_GRANT;
}

/* Once for all programs: each place is a question to the monitor, and they are the same for all.
 * Who starts one enforces them. */
static int find_places(struct err *err)
{
    struct apply_state *st = &guest.places;
    perform_init(st);
    if (perform_part(st, guest.plan, guest.hello.plan_len, is_a_place, err) < 0)
        return err_number(err);
    close_fd(&st->aside_fd); /* each program has one of its own */
    int low = st->ruleset_fd;
    if (low < 0)
        return 0;
    st->ruleset_fd = fcntl(low, F_DUPFD_CLOEXEC, PLACES_AT);
    close(low);
    return st->ruleset_fd < 0 ? err_sys(err, "keep the places of the code") : 0;
}

/* init itself did the rest. */
static bool is_the_codes(enum op_kind kind)
{
    return !guest_network_has(kind) && !is_a_place(kind);
}

static void set_size(int terminal, const struct guest_size *size)
{
    struct winsize now = {.ws_row = size->rows, .ws_col = size->columns};
    ioctl(terminal, TIOCSWINSZ, &now);
}

/* The terminal belongs to the uid of the code, which may open it by its name. */
int guest_terminal(uint32_t uid, const struct guest_size *size, int *outer, int *inner,
                   struct err *err)
{
    int unlock = 0;
    *outer = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (*outer < 0 || ioctl(*outer, TIOCSPTLCK, &unlock) < 0)
        return err_sys(err, "make a terminal");
    *inner = ioctl(*outer, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (*inner < 0 || fchown(*inner, uid, uid) < 0)
        return err_sys(err, "open the terminal");
    set_size(*outer, size);
    return 0;
}

static bool is_the_blocks(enum op_kind kind)
{
    return kind == OP_ARG || kind == OP_ENV || kind == OP_CWD;
}

static int perform_block(struct apply_state *st, const struct guest_code *c, struct err *err)
{
    return c->block ? perform_plan(st, c->block, c->block_len, is_the_blocks, err) : 0;
}

/* A request may name a program that is not there; of a run's program that was checked before. */
static int enter_folder(const struct apply_state *st, const struct guest_code *c, struct err *err)
{
    if (chdir(st->cwd ? st->cwd : "/") == 0)
        return 0;
    err_sys(err, "%s folder %s", c->block ? "cannot enter" : "enter", st->cwd);
    if (c->block)
        err->code = ERR_NOT_FOUND;
    return err_number(err);
}

void guest_become(const struct guest_code *c)
{
    static struct apply_state st;
    struct err err = ERR_INIT;
    st = *c->places;
    setsid();
    for (unsigned fd = 0; fd < c->count; fd++)
        dup2(c->fds[fd], (int)fd);
    st.aside_fd = landlock_aside(&err); /* takes the rights that the code is about to lose */
    if (c->terminal >= 0 && ioctl(0, TIOCSCTTY, 0) < 0)
        err_sys(&err, "take the terminal");
    else if (st.aside_fd >= 0 && take_identity(c->uid, &err) >= 0 &&
             perform_part(&st, c->walls, c->walls_len, is_the_codes, &err) >= 0 &&
             check_landlock(&st, &err) >= 0 && perform_block(&st, c, &err) >= 0 &&
             exec_limits(&st, &err) >= 0) {
        exec_default_signals();
        if (enter_folder(&st, c, &err) >= 0)
            exec_search(&st, &err);
    }
    if (write(c->report, &err, sizeof err) < 0)
        _exit(125);
    _exit(125);
}

/* What the code gets as its descriptors 0 to 2, and what carries it. */
static int connect_pipes(int pipes[3], struct err *err)
{
    int in[2], out[2], errors[2];
    if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0 || pipe2(errors, O_CLOEXEC) < 0)
        return err_sys(err, "pipe");
    pipes[0] = in[0];
    pipes[1] = out[1];
    pipes[2] = errors[1];
    guest.carriers[0] = (struct carrier){.from = guest.streams[0], .to = in[1]};
    guest.carriers[1] = (struct carrier){.from = out[0], .to = guest.streams[1]};
    guest.carriers[2] = (struct carrier){.from = errors[0], .to = guest.streams[2]};
    return 0;
}

/* The slave stays open here until the code ends: a program that closes all of its descriptors still
 * has its terminal. */
static int connect_terminal(int pipes[3], struct err *err)
{
    if (guest_terminal(guest.hello.uid, &guest.hello.size, &guest.terminal, &guest.slave, err) < 0)
        return err_number(err);
    for (int i = 0; i < 3; i++)
        if ((pipes[i] = fcntl(guest.slave, F_DUPFD_CLOEXEC, 3)) < 0)
            return err_sys(err, "duplicate the terminal");
    int in = fcntl(guest.terminal, F_DUPFD_CLOEXEC, 3);
    int out = fcntl(guest.terminal, F_DUPFD_CLOEXEC, 3);
    if (in < 0 || out < 0)
        return err_sys(err, "duplicate the terminal");
    guest.carriers[0] = (struct carrier){.from = guest.streams[0], .to = in};
    guest.carriers[1] = (struct carrier){.from = out, .to = guest.streams[1]};
    guest.carriers[2] = (struct carrier){.from = -1, .to = -1};
    close_fd(&guest.streams[2]);
    return 0;
}

static int start_code(struct err *err)
{
    int pipes[3] = {-1, -1, -1}, report[2];
    if (pipe2(report, O_CLOEXEC) < 0)
        return err_sys(err, "pipe");
    if ((guest.hello.terminal ? connect_terminal : connect_pipes)(pipes, err) < 0)
        return err_number(err);
    guest.code = fork();
    if (guest.code < 0)
        return err_sys(err, "start the code");
    if (guest.code == 0)
        guest_become(&(struct guest_code){.walls = guest.plan,
                                          .walls_len = guest.hello.plan_len,
                                          .places = &guest.places,
                                          .uid = guest.hello.uid,
                                          .fds = pipes,
                                          .count = 3,
                                          .terminal = guest.slave,
                                          .report = report[1]});
    for (int i = 0; i < 3; i++)
        close(pipes[i]);
    close(report[1]);
    ssize_t n = read(report[0], err, sizeof *err); /* its end: it was executed */
    close(report[0]);
    if (n == (ssize_t)sizeof *err)
        return err_number(err);
    for (int i = 0; i < 3; i++) {
        fcntl(guest.carriers[i].from, F_SETFL, O_NONBLOCK);
        fcntl(guest.carriers[i].to, F_SETFL, O_NONBLOCK);
    }
    return 0;
}

static bool again(ssize_t n)
{
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

static void carry(struct carrier *c)
{
    if (c->len == 0 && c->from >= 0) {
        ssize_t n = read(c->from, c->data, sizeof c->data);
        c->at = 0;
        c->len = n > 0 ? (size_t)n : 0;
        if (n <= 0 && !again(n))
            close_fd(&c->from);
    }
    if (c->len > 0 && c->to >= 0) {
        ssize_t n = write(c->to, c->data + c->at, c->len);
        if (n > 0) {
            c->at += (size_t)n;
            c->len -= (size_t)n;
        } else if (!again(n)) { /* nobody reads it */
            c->len = 0;
            close_fd(&c->to);
            close_fd(&c->from);
        }
    }
    if (c->from < 0 && c->len == 0)
        close_fd(&c->to);
}

static void hear_word(void)
{
    struct guest_word word;
    struct err err = ERR_INIT;
    if (guest_read_all(guest.control, &word, sizeof word, &err) < 0)
        reboot(RB_POWER_OFF);
    if (word.type == GUEST_SIGNAL && word.value > 0 && word.value <= 64)
        kill(-guest.code, word.value);
    if (word.type == GUEST_SIZE && guest.terminal >= 0)
        set_size(guest.terminal, &word.size);
}

static void reap(int signals)
{
    struct signalfd_siginfo info;
    int status;
    pid_t pid;
    while (read(signals, &info, sizeof info) == (ssize_t)sizeof info)
        ;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (pid == guest.code) {
            guest.ended = true;
            guest.status = status;
        }
}

/* Until the code has ended and all that it wrote is on its way. */
static void carry_until_end(int signals)
{
    while (!guest.ended || guest.carriers[1].to >= 0 || guest.carriers[2].to >= 0) {
        struct pollfd fds[8];
        fds[0] = (struct pollfd){.fd = signals, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = guest.control, .events = POLLIN};
        for (int i = 0; i < 3; i++) {
            struct carrier *c = &guest.carriers[i];
            fds[2 + 2 * i] = (struct pollfd){.fd = c->len == 0 ? c->from : -1, .events = POLLIN};
            fds[3 + 2 * i] = (struct pollfd){.fd = c->len > 0 ? c->to : -1, .events = POLLOUT};
        }
        if (poll(fds, 8, -1) < 0)
            continue;
        if (fds[0].revents)
            reap(signals);
        if (fds[1].revents)
            hear_word();
        for (int i = 0; i < 3; i++)
            if (fds[2 + 2 * i].revents || fds[3 + 2 * i].revents)
                carry(&guest.carriers[i]);
        /* Nothing outlives the code: what it left behind would keep its output open. */
        if (guest.ended) {
            kill(-1, SIGKILL);
            close_fd(&guest.slave);
        }
    }
}

uint32_t guest_oom_kills(void)
{
    char text[16384];
    uint32_t count = 0;
    int fd = open("/proc/vmstat", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    close_fd(&fd);
    text[n > 0 ? n : 0] = '\0';
    const char *at = strstr(text, "\noom_kill ");
    for (at = at ? at + 10 : ""; *at >= '0' && *at <= '9'; at++)
        count = count * 10 + (uint32_t)(*at - '0');
    return count;
}

/* What is the same in all guests with this kernel and this view: a machine may have been booted up
 * to here once and then been copied (engines/vm/park.c). So nothing up to here tells anybody
 * anything, is random, or depends on the time. */
static int set_up_machine(struct err *err)
{
    struct rlimit files = {.rlim_cur = 1u << 20, .rlim_max = 1u << 20};
    if (load_modules(err) < 0 || enter_view(err) < 0)
        return err_number(err);
    start_loopback();
    setrlimit(RLIMIT_NOFILE, &files);
    return sethostname("brig", 4) < 0 ? err_sys(err, "set the host name") : 0;
}

static int set_up(struct err *err)
{
    if (set_up_machine(err) < 0 || (guest.control = guest_dial(GUEST_CONTROL, true, err)) < 0 ||
        hear_plan(err) < 0)
        return err_number(err);
    if (guest_network_start(guest.plan, guest.hello.plan_len, guest.control, err) < 0 ||
        (!guest.hello.serves && connect_streams(err) < 0))
        return err_number(err);
    return find_places(err);
}

int guest_main(void)
{
    struct err err = ERR_INIT;
    sigset_t set;
    /* The kernel may have opened descriptors for a console, and there is none. */
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < 3; fd++)
        if (dup2(null, fd) < 0)
            reboot(RB_AUTOBOOT);
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (set_up(&err) < 0)
        give_up(&err);
    if (guest.hello.serves)
        guest_serve(&(struct guest_serve){.control = guest.control,
                                          .signals = signals,
                                          .walls = guest.plan,
                                          .walls_len = guest.hello.plan_len,
                                          .places = &guest.places,
                                          .uid = guest.hello.uid});
    if (start_code(&err) < 0)
        give_up(&err);
    carry_until_end(signals);
    say(GUEST_EXIT, guest.status, guest_oom_kills(), NULL);
    for (;;)
        pause();
}
