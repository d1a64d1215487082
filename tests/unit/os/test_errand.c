/* Errands: answers come back, and nothing that holds up the child holds up its parent. */
#include "os/errand.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum what { ADD, HANG, AWAIT, DIE, PID, TAKE, IS_OPEN, HAS_PARENT, MAY };

struct question {
    enum what what;
    int number;
};
struct reply {
    int number;
};

static int base = 40;

/* Has the parent a descriptor of the same file? */
static bool parent_has(int fd)
{
    char path[64];
    struct stat mine, other;
    bool found = false;
    cr_assert_eq(fstat(fd, &mine), 0);
    for (int i = 0; i < 256 && !found; i++) {
        snprintf(path, sizeof path, "/proc/%d/fd/%d", getppid(), i);
        found =
            stat(path, &other) == 0 && other.st_ino == mine.st_ino && other.st_dev == mine.st_dev;
    }
    return found;
}

static bool has_capability(int number)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};
    syscall(SYS_capget, &head, data);
    return data[0].effective & 1u << number;
}

static void work(void *ctx, const void *ask, const int fds[ERRAND_FDS], void *answer)
{
    const struct question *q = ask;
    struct reply *r = answer;
    r->number = *(int *)ctx + q->number;
    switch (q->what) {
    case ADD:
        return;
    case HANG:
        pause();
        return;
    case AWAIT:
        r->number = 0;
        if (read(q->number, &r->number, 1) != 1)
            _exit(3);
        return;
    case DIE:
        _exit(3);
    case PID:
        r->number = getpid();
        return;
    case TAKE: /* not closed here */
        r->number = fds[q->number];
        return;
    case HAS_PARENT:
        r->number = parent_has(fds[0]);
        close(fds[0]);
        return;
    case MAY: /* has it CAP_DAC_OVERRIDE where it is, and does it die with its parent? */
        prctl(PR_GET_PDEATHSIG, &r->number);
        r->number = r->number == SIGKILL && has_capability(1);
        return;
    case IS_OPEN:
        r->number = fcntl(q->number, F_GETFD) >= 0;
        return;
    }
}

static struct errand e;

static void setup(void)
{
    errand_init(&e, work, &base, sizeof(struct question), sizeof(struct reply));
}

static void teardown(void)
{
    errand_end(&e);
}

TestSuite(errand, .init = setup, .fini = teardown);

static int ask_with(enum what what, int number, int fds[ERRAND_FDS], unsigned ms, int *ret)
{
    struct question q = {what, number};
    struct reply r = {-1};
    int result = errand_ask(&e, &q, fds, &r, ms);
    *ret = r.number;
    return result;
}

static int ask(enum what what, int number, unsigned ms, int *ret)
{
    return ask_with(what, number, NULL, ms, ret);
}

/* So that nothing is left that a test did not mean to leave. */
static bool is_gone(pid_t pid)
{
    for (int i = 0; i < 2000 && kill(pid, 0) == 0; i++) {
        waitpid(pid, NULL, WNOHANG);
        usleep(5000);
    }
    return kill(pid, 0) < 0;
}

Test(errand, answers_come_back_from_one_child)
{
    int got, first, second;
    cr_assert_eq(ask(ADD, 2, 10000, &got), 0);
    cr_assert_eq(got, 42);
    cr_assert_eq(ask(PID, 0, 10000, &first), 0);
    cr_assert_eq(ask(PID, 0, 10000, &second), 0);
    cr_assert_eq(first, second);
    cr_assert_neq(first, getpid());
}

Test(errand, one_that_hangs_is_killed_and_the_next_is_answered)
{
    int got, pid;
    cr_assert_eq(ask(PID, 0, 10000, &pid), 0);
    uint64_t before = clock_us();
    cr_assert_eq(ask(HANG, 0, 50, &got), -ETIMEDOUT);
    cr_assert_lt(clock_us() - before, 10000000u);
    cr_assert(is_gone(pid));
    cr_assert_eq(ask(ADD, 1, 10000, &got), 0);
    cr_assert_eq(got, 41);
}

Test(errand, one_that_dies_is_an_error_and_the_next_is_answered)
{
    int got;
    cr_assert_eq(ask(DIE, 0, 10000, &got), -EIO);
    cr_assert_eq(ask(ADD, 1, 10000, &got), 0);
    cr_assert_eq(got, 41);
}

static int try_for(enum what what, int number, unsigned ms, int *ret)
{
    struct question q = {what, number};
    struct reply r = {-1};
    int result = errand_try(&e, &q, &r, ms);
    *ret = r.number;
    return result;
}

/* ER-1 */
Test(errand, who_has_other_things_to_do_comes_back_for_the_answer)
{
    int got = -1, result = -EINPROGRESS, ends[2];
    char byte = 'x';
    cr_assert_eq(pipe(ends), 0);
    e.keep[0] = &ends[0];
    uint64_t before = clock_us();
    cr_assert_eq(try_for(AWAIT, ends[0], 1, &got), -EINPROGRESS);
    cr_assert_eq(try_for(ADD, 2, 0, &got), -EINPROGRESS, "the first is still under way");
    cr_assert_lt(clock_us() - before, 5000000u);
    cr_assert_eq(write(ends[1], &byte, 1), 1);
    for (int i = 0; i < 1000 && result == -EINPROGRESS; i++)
        result = try_for(ADD, 2, 10, &got);
    cr_assert_eq(result, 0);
    cr_assert_eq(got, 'x', "the answer is the first one's");
    cr_assert_eq(ask(ADD, 2, 10000, &got), 0);
    cr_assert_eq(got, 42);
}

Test(errand, one_that_is_given_up_is_not_heard_of_again)
{
    int got, pid;
    cr_assert_eq(ask(PID, 0, 10000, &pid), 0);
    cr_assert_eq(try_for(HANG, 0, 1, &got), -EINPROGRESS);
    errand_end(&e);
    cr_assert(is_gone(pid));
    cr_assert_eq(ask(ADD, 1, 10000, &got), 0);
    cr_assert_eq(got, 41);
    cr_assert_eq(try_for(DIE, 0, 10000, &got), -EIO);
    cr_assert_eq(try_for(ADD, 1, 10000, &got), 0);
    cr_assert_eq(got, 41);
}

/* ER-3 */
Test(errand, it_has_the_descriptors_that_it_is_given)
{
    int got, kept = open("/dev/null", O_RDONLY), other = open("/dev/null", O_RDONLY);
    e.keep[1] = &kept;
    cr_assert_eq(ask(IS_OPEN, kept, 10000, &got), 0);
    cr_assert_eq(got, 1);
    cr_assert_eq(ask(IS_OPEN, other, 10000, &got), 0);
    cr_assert_eq(got, 0);
    cr_assert_eq(ask(IS_OPEN, 1, 10000, &got), 0);
    cr_assert_eq(got, 0, "not even stdout");
}

Test(errand, descriptors_come_at_their_places_and_are_closed_here)
{
    int got, first[ERRAND_FDS] = {open("/dev/null", O_RDONLY), -1};
    int second[ERRAND_FDS] = {-1, open("/dev/null", O_RDONLY)}, was = first[0];
    cr_assert_eq(ask_with(TAKE, 0, first, 10000, &got), 0);
    cr_assert_geq(got, 0);
    cr_assert_lt(fcntl(was, F_GETFD), 0);
    cr_assert_eq(ask_with(TAKE, 0, second, 10000, &got), 0);
    cr_assert_eq(got, -1);
}

/* ER-3: killed without a chance to end anything. */
/* Who sends is put aside at once for who receives, as on a busy machine. */
Test(errand, the_last_close_is_never_the_parents)
{
    cpu_set_t one;
    struct sched_param none = {0};
    int number;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);
    cr_assert_eq(ask_with(ADD, 1, NULL, 60000, &number),
                 0); /* it has started, with the usual priority */
    cr_assert_eq(sched_setscheduler(0, SCHED_IDLE, &none), 0);
    for (int i = 0; i < 100; i++) {
        int fds[ERRAND_FDS] = {memfd_create("given", MFD_CLOEXEC), -1};
        cr_assert_geq(fds[0], 0);
        cr_assert_eq(ask_with(HAS_PARENT, 0, fds, 60000, &number), 0);
        cr_assert_eq(number, 0, "it could be closed inside first, in try %d", i);
    }
}

Test(errand, it_dies_with_its_parent)
{
    int *seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t parent = fork();
    if (parent == 0) {
        ask(PID, 0, 10000, seen);
        kill(getpid(), SIGKILL);
    }
    cr_assert_eq(waitpid(parent, NULL, 0), parent);
    cr_assert_gt(*seen, 1);
    cr_assert(is_gone(*seen));
}

/* As many as there may be that were killed and are not gone, for so many microseconds. */
static void lose_all(unsigned us)
{
    for (unsigned i = 0; i < ERRANDS_LOST; i++) {
        e.lost[i] = fork();
        cr_assert_geq(e.lost[i], 0);
        if (e.lost[i] == 0) {
            usleep(us);
            _exit(0);
        }
    }
}

/* ER-2: on a busy machine it takes a moment until they are gone. */
Test(errand, those_that_were_killed_just_now_are_waited_for)
{
    int got;
    lose_all(20000);
    e.killed_us = clock_us();
    cr_assert_eq(ask(ADD, 2, 10000, &got), 0);
    cr_assert_eq(got, 42);
}

Test(errand, those_that_the_kernel_holds_are_not)
{
    int got;
    lose_all(600000000);
    cr_assert_eq(ask(ADD, 2, 10000, &got), -EAGAIN);
    for (unsigned i = 0; i < ERRANDS_LOST; i++)
        kill(e.lost[i], SIGKILL);
    e.killed_us = clock_us();
    cr_assert_eq(ask(ADD, 2, 10000, &got), 0);
}

/* ER-2: a connection with unsent data that lingers for ten minutes, of which the child has the last
 * copy. */
static int lingering(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    struct linger linger = {1, 600};
    static char block[65536];
    int listener = socket(AF_INET, SOCK_STREAM, 0), c = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(bind(listener, (struct sockaddr *)&at, len), 0);
    cr_assert_eq(listen(listener, 1), 0);
    cr_assert_eq(getsockname(listener, (struct sockaddr *)&at, &len), 0);
    cr_assert_eq(setsockopt(c, SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
    cr_assert_eq(connect(c, (struct sockaddr *)&at, len), 0);
    cr_assert_geq(accept(listener, NULL, NULL), 0);
    while (send(c, block, sizeof block, MSG_DONTWAIT) > 0)
        ;
    return c;
}

Test(errand, nobody_lingers_for_what_the_child_holds)
{
    int got, pid, fds[ERRAND_FDS] = {-1, lingering()};
    cr_assert_eq(ask(PID, 0, 10000, &pid), 0);
    uint64_t before = clock_us();
    cr_assert_eq(ask_with(TAKE, 1, fds, 10000, &got), 0); /* closes ours */
    cr_assert_geq(got, 0);
    errand_end(&e);
    cr_assert_lt(clock_us() - before, 5000000u);
    cr_assert(is_gone(pid), "it lingers");
}

static void on_alarm(int sig)
{
    (void)sig;
}

/* The control: who closes it last without being killed waits, here until a signal comes. */
Test(errand, control_a_close_lingers)
{
    int status, sock = lingering(), null = open("/dev/null", O_RDONLY), ready[2];
    cr_assert_eq(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct sigaction action = {.sa_handler = on_alarm};
        char word;
        sigaction(SIGALRM, &action, NULL);
        if (read(ready[0], &word, 1) != 1)
            _exit(2);
        uint64_t before = clock_us();
        ualarm(300000, 0);
        close(sock);
        _exit(clock_us() - before >= 250000 ? 0 : 1);
    }
    cr_assert_eq(dup2(null, sock), sock);
    cr_assert_eq(write(ready[1], "g", 1), 1);
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert_eq(status, 0, "it did not linger: %x", status);
}

/* A user namespace of this user's, with nobody in it but who holds it open here. */
static int user_namespace(void)
{
    char path[64];
    int ready[2], hold[2];
    char word;
    cr_assert_eq(pipe(ready), 0);
    cr_assert_eq(pipe(hold), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(hold[1]);
        if (unshare(CLONE_NEWUSER) < 0 || write(ready[1], "r", 1) != 1)
            _exit(1);
        _exit(read(hold[0], &word, 1) != 0);
    }
    cr_assert_eq(read(ready[0], &word, 1), 1);
    snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    cr_assert_geq(fd, 0);
    close(hold[1]);
    waitpid(pid, NULL, 0);
    return fd;
}

/* ER-5 */
Test(errand, a_child_in_a_user_namespace_may_what_its_parent_may_not)
{
    int got, ns = -1;
    if (geteuid() == 0) {
        cr_assert_eq(setresuid(65534, 65534, 65534), 0);
        cr_assert_eq(prctl(PR_SET_DUMPABLE, 1),
                     0); /* else its children are not its own to look at */
    }
    e.user_ns = &ns;
    cr_assert_eq(ask(MAY, 0, 10000, &got), 0);
    cr_assert_eq(got, 0, "control: outside it has nothing");
    errand_end(&e);
    ns = user_namespace();
    cr_assert_eq(ask(MAY, 0, 10000, &got), 0);
    cr_assert_eq(got, 1, "it is in there, and dies with its parent");
    errand_end(&e);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    cr_assert_eq(dup2(null, ns), ns);
    cr_assert_lt(ask(ADD, 1, 10000, &got), 0, "there or not at all");
}
