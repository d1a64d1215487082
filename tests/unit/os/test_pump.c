/* The child that carries bytes between the code's pipes and ours. */
#include "os/pump.h"
#include "os/rights.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

static struct pump pump;
static struct pump_line lines[PUMP_LINES];
static int theirs[2], ours[2]; /* what the code reads, what it writes */

static void start(void)
{
    pump_init(&pump);
    pump_lines_init(lines);
    cr_assert_eq(pump_lay(&lines[0], false, &theirs[0], &ours[0]), 0);
    cr_assert_eq(pump_lay(&lines[1], true, &theirs[1], &ours[1]), 0);
    cr_assert_eq(pump_start(&pump, lines), 0);
    signal(SIGPIPE, SIG_IGN);
}

static int wait_for(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 60000);
}

static bool ends_within(int ms)
{
    struct pollfd p = {.fd = pump.pidfd, .events = POLLIN};
    return poll(&p, 1, ms) > 0;
}

Test(pump, carries_in_both_directions_and_ends_with_its_lines, .init = start)
{
    char text[16];
    cr_assert_eq(write(ours[0], "in", 2), 2);
    cr_assert_eq(read(theirs[0], text, sizeof text), 2);
    cr_assert_eq(write(theirs[1], "out", 3), 3);
    cr_assert_eq(wait_for(ours[1]), 1);
    cr_assert_eq(read(ours[1], text, sizeof text), 3);
    cr_assert_eq(lines[0].from, -1, "they are the pump's");
    close(ours[0]);
    cr_assert_eq(read(theirs[0], text, sizeof text), 0, "the end is carried too");
    close(theirs[1]);
    cr_assert_eq(wait_for(ours[1]), 1);
    cr_assert_eq(read(ours[1], text, sizeof text), 0);
    cr_assert(ends_within(60000));
    cr_assert(!pump_failed(&pump));
}

Test(pump, nothing_is_lost_when_the_code_ends_first, .init = start)
{
    static char block[4096], room[sizeof block];
    size_t sent = 0, got = 0;
    memset(block, 'x', sizeof block);
    fcntl(theirs[1], F_SETFL, O_NONBLOCK);
    for (int i = 0; i < 3000; i++) { /* until it is full, and a while longer */
        ssize_t n = write(theirs[1], block, sizeof block);
        sent += n > 0 ? (size_t)n : 0;
        if (n < 0)
            poll(NULL, 0, 1);
    }
    close(theirs[1]);
    fcntl(ours[1], F_SETFL, 0);
    for (ssize_t n; (n = read(ours[1], room, sizeof room)) > 0;)
        got += (size_t)n;
    cr_assert_eq(got, sent);
    cr_assert_gt(sent, 2 * 65536);
}

Test(pump, who_writes_learns_that_nobody_listens, .init = start)
{
    close(ours[1]);
    struct pollfd gone = {.fd = theirs[1]};
    cr_assert_eq(poll(&gone, 1, 60000), 1);
    cr_assert(gone.revents & POLLERR);
    close(theirs[0]);
    gone.fd = ours[0];
    cr_assert_eq(poll(&gone, 1, 60000), 1);
    cr_assert(ends_within(60000));
}

Test(pump, one_that_was_killed_has_failed, .init = start)
{
    kill(pump.pid, SIGKILL);
    cr_assert(ends_within(60000));
    cr_assert(pump_failed(&pump));
}

Test(pump, its_end_leaves_nobody, .init = start)
{
    pump_end(&pump);
    cr_assert(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
    cr_assert_eq(pump.pidfd, -1);
}

Test(pump, a_terminal_is_carried_in_both_directions)
{
    char text[16] = "";
    int to = -1, from = -1, master = posix_openpt(O_RDWR | O_NOCTTY);
    cr_assert(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    pump_init(&pump);
    pump_lines_init(lines);
    cr_assert_eq(pump_lay_terminal(&lines[0], true, master, &from), 0);
    cr_assert_eq(pump_lay_terminal(&lines[1], false, master, &to), 0);
    cr_assert_eq(pump_start(&pump, lines), 0);
    cr_assert_eq(write(slave, "x", 1), 1);
    fcntl(from, F_SETFL, 0);
    cr_assert_eq(read(from, text, sizeof text), 1);
    cr_assert_eq(write(to, "y\n", 2), 2);
    cr_assert_eq(read(slave, text, sizeof text), 2);
    close(master);
    close(slave);
    while (read(from, text, sizeof text) > 0) /* its echo */
        ;
    cr_assert(ends_within(60000));
}

/* A reader that was told by a word looks no further than what stands in the other pipe. */
Test(pump, words_come_after_what_was_written_before_them)
{
    static char block[200000], room[sizeof block];
    int code[2], front[2];
    size_t got = 0;
    pump_init(&pump);
    pump_lines_init(lines);
    cr_assert_eq(pump_lay(&lines[0], true, &code[0], &front[0]), 0);
    cr_assert_eq(pump_lay(&lines[1], true, &code[1], &front[1]), 0);
    lines[1].kind = PUMP_WORDS;
    cr_assert_eq(pump_start(&pump, lines), 0);
    pid_t writer = fork();
    if (writer == 0) {
        bool good = write(code[0], block, sizeof block) == (ssize_t)sizeof block;
        _exit(!good || write(code[1], "word", 4) != 4);
    }
    close(code[0]);
    close(code[1]);
    while (got < sizeof block) {
        struct pollfd both[2] = {{.fd = front[0], .events = POLLIN},
                                 {.fd = front[1], .events = POLLIN}};
        cr_assert_gt(poll(both, 2, 60000), 0);
        /* What is in the other pipe is all of it. */
        ssize_t n = read(front[0], room, sizeof room);
        got += n > 0 ? (size_t)n : 0;
        if (both[1].revents)
            while ((n = read(front[0], room, sizeof room)) > 0)
                got += (size_t)n;
        cr_assert(!both[1].revents || got == sizeof block, "%zu", got);
    }
    cr_assert_eq(wait_for(front[1]), 1);
    cr_assert_eq(read(front[1], room, sizeof room), 4);
    cr_assert_eq(waitpid(writer, NULL, 0), writer);
    cr_assert(ends_within(60000));
}

Test(pump, sets_the_size_of_a_terminal)
{
    int from = -1, sizes = -1, master = posix_openpt(O_RDWR | O_NOCTTY);
    struct winsize size = {.ws_col = 99, .ws_row = 11}, now = {0};
    cr_assert(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    pump_init(&pump);
    pump_lines_init(lines);
    cr_assert_eq(pump_lay_terminal(&lines[0], true, master, &from), 0);
    cr_assert_eq(pump_lay_sizes(&lines[1], master, &sizes), 0);
    cr_assert_eq(pump_start(&pump, lines), 0);
    cr_assert_eq(write(sizes, &size, sizeof size), (ssize_t)sizeof size);
    for (int i = 0; i < 60000 && now.ws_col != 99; i++) {
        cr_assert_eq(ioctl(slave, TIOCGWINSZ, &now), 0);
        poll(NULL, 0, 1);
    }
    cr_assert(now.ws_col == 99 && now.ws_row == 11);
    close(master);
    close(slave);
    cr_assert(ends_within(60000), "the size alone is nothing to stay for");
}

/* ---- a terminal that is handed over ---- */

static int door, end[PUMP_TERMINAL];

static void start_handed(void)
{
    pump_init(&pump);
    pump_lines_init(lines);
    cr_assert_eq(pump_lay_handed(lines, &door, end), 0);
    cr_assert_eq(pump_start(&pump, lines), 0);
    signal(SIGPIPE, SIG_IGN);
}

static void hand(int fd)
{
    struct iovec part = {(void *)(uintptr_t) "x", 1};
    cr_assert_eq(rights_send(door, &part, 1, &fd, 1, 0), 1);
}

static int open_terminal(int *slave)
{
    struct termios plain;
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    cr_assert(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    *slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    cr_assert_eq(tcgetattr(*slave, &plain), 0);
    cfmakeraw(&plain); /* else a line that is too long is dropped */
    cr_assert_eq(tcsetattr(*slave, TCSANOW, &plain), 0);
    return master;
}

Test(pump, a_terminal_that_is_handed_over_is_carried, .init = start_handed)
{
    struct winsize size = {.ws_col = 99, .ws_row = 11}, now = {0};
    char text[16];
    int slave, master = open_terminal(&slave);
    cr_assert_eq(write(end[1], "early\n", 6), 6);
    hand(master);
    close(master);
    cr_assert_eq(read(slave, text, sizeof text), 6);
    cr_assert_eq(write(end[2], &size, sizeof size), (ssize_t)sizeof size);
    for (int i = 0; i < 60000 && now.ws_col != 99; i++) {
        cr_assert_eq(ioctl(slave, TIOCGWINSZ, &now), 0);
        poll(NULL, 0, 1);
    }
    cr_assert_eq(now.ws_row, 11);
    close(slave);
    fcntl(end[0], F_SETFL, 0);
    cr_assert_eq(read(end[0], text, sizeof text), 0);
    cr_assert(ends_within(60000));
}

/* Whatever it is, who has the pump hears of an end and waits for nothing. */
static void ends_with(int fd)
{
    char text[16];
    if (fd >= 0)
        hand(fd);
    close(door);
    cr_assert_eq(wait_for(end[0]), 1);
    cr_assert_eq(read(end[0], text, sizeof text), 0);
    cr_assert(ends_within(60000));
}

Test(pump, what_is_no_terminal_is_not_carried, .init = start_handed)
{
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    ends_with(ends[0]);
}

Test(pump, a_terminal_that_never_comes_is_an_end, .init = start_handed)
{
    ends_with(-1);
}

Test(pump, nobody_listens_any_more_to_a_terminal_that_never_comes, .init = start_handed)
{
    close(end[0]);
    cr_assert(ends_within(60000));
}

/* What init hands out it may keep a copy of, and with it the flags. */
static void make_it_wait(int master)
{
    cr_assert_eq(fcntl(master, F_SETFL, fcntl(master, F_GETFL) & ~O_NONBLOCK), 0);
}

static bool all_is_written(int to)
{
    static char block[256 * 1024];
    for (size_t done = 0; done < sizeof block;) {
        ssize_t n = write(to, block + done, sizeof block - done);
        if (n < 0 && errno == EAGAIN)
            return false;
        cr_assert_gt(n, 0);
        done += (size_t)n;
    }
    return true;
}

Test(pump, one_that_others_make_wait_holds_up_the_pump_alone, .init = start_handed)
{
    int slave, master = open_terminal(&slave);
    hand(master);
    cr_assert_eq(write(slave, "x", 1), 1);
    cr_assert_eq(wait_for(end[0]), 1, "it is carried by now");
    make_it_wait(master);
    while (!all_is_written(end[1])) {
        struct pollfd room = {.fd = end[1], .events = POLLOUT};
        if (poll(&room, 1, 100) == 0)
            break; /* the pump takes no more, and we know */
    }
    pump_end(&pump);
    cr_assert_eq(pump.pidfd, -1);
}

Test(pump, control_who_has_the_terminal_itself_waits)
{
    int slave, said[2], master = open_terminal(&slave);
    char word;
    fcntl(master, F_SETFL, O_RDWR | O_NONBLOCK);
    make_it_wait(master);
    cr_assert_eq(pipe(said), 0);
    pid_t writer = fork();
    if (writer == 0) {
        bool done = all_is_written(master);
        (void)!write(said[1], done ? "d" : "n", 1);
        _exit(0);
    }
    struct pollfd full = {.fd = master, .events = POLLOUT},
                  told = {.fd = said[0], .events = POLLIN};
    while (poll(&full, 1, 0) > 0)
        cr_assert_eq(poll(&told, 1, 1), 0, "it says that there is no room");
    cr_assert_eq(poll(&told, 1, 100), 0);
    kill(writer, SIGKILL);
    cr_assert_eq(waitpid(writer, NULL, 0), writer);
    close(said[1]);
    cr_assert_eq(read(said[0], &word, 1), 0);
}

/* ---- a connection that is handed over ---- */

static int ours_is;

static void start_connection(void)
{
    pump_init(&pump);
    pump_lines_init(lines);
    cr_assert_eq(pump_lay_connection(lines, &door, &ours_is), 0);
    cr_assert_eq(pump_start(&pump, lines), 0);
    fcntl(ours_is, F_SETFL, 0);
    signal(SIGPIPE, SIG_IGN);
}

Test(pump, what_is_no_connection_of_the_sandboxs_is_not_carried, .init = start_connection)
{
    char text[4];
    hand(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)); /* one of our own network */
    cr_assert_eq(read(ours_is, text, sizeof text), 0);
    cr_assert(ends_within(60000));
}

/* One that somebody carries by two pipes. */
Test(pump, each_direction_of_a_stream_ends_by_itself)
{
    char text[8];
    int theirs[2];
    pump_init(&pump);
    pump_lines_init(lines);
    cr_assert_eq(pump_lay_stream(lines, theirs, &ours_is), 0);
    cr_assert_eq(pump_start(&pump, lines), 0);
    fcntl(ours_is, F_SETFL, 0);
    cr_assert_eq(write(ours_is, "to it", 5), 5);
    shutdown(ours_is, SHUT_WR);
    cr_assert_eq(read(theirs[0], text, sizeof text), 5);
    cr_assert_eq(read(theirs[0], text, sizeof text), 0, "its end");
    cr_assert_eq(write(theirs[1], "back", 4), 4, "the other direction goes on");
    close(theirs[1]);
    cr_assert_eq(read(ours_is, text, sizeof text), 4);
    cr_assert_eq(read(ours_is, text, sizeof text), 0);
    cr_assert(ends_within(60000));
}

/* Only who may make a network of its own has a connection that is none of ours. */
Test(pump, each_direction_of_a_connection_ends_by_itself)
{
    char text[8];
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    pid_t child;
    int told[2];
    start_connection();
    cr_assert_eq(pipe(told), 0);
    if ((child = fork()) == 0) {
        struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
        bool own = unshare(geteuid() ? CLONE_NEWUSER | CLONE_NEWNET : CLONE_NEWNET) == 0;
        int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
        own = own && ioctl(client, SIOCSIFFLAGS, &lo) == 0 && listen(listener, 1) == 0 &&
              getsockname(listener, (struct sockaddr *)&at, &len) == 0;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        own = own && connect(client, (struct sockaddr *)&at, sizeof at) == 0;
        int peer = own ? accept(listener, NULL, NULL) : -1;
        (void)!write(told[1], own ? "y" : "n", 1);
        if (!own)
            _exit(0);
        hand(client);
        close(client);
        bool good = read(peer, text, 3) == 3 && read(peer, text, 1) == 0; /* the end of one */
        good = good && write(peer, "answer", 6) == 6;
        _exit(good ? 0 : 1);
    }
    close(door);
    cr_assert_eq(read(told[0], text, 1), 1);
    if (text[0] == 'n')
        cr_skip_test("no network of its own can be made here");
    cr_assert_eq(write(ours_is, "ask", 3), 3);
    cr_assert_eq(shutdown(ours_is, SHUT_WR), 0);
    cr_assert_eq(read(ours_is, text, sizeof text), 6);
    cr_assert_eq(read(ours_is, text, sizeof text), 0);
    int status = 1;
    cr_assert(waitpid(child, &status, 0) == child && status == 0);
    close(ours_is);
    cr_assert(ends_within(60000));
}

static uint64_t status_number(const char *name, int base)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/status", pump.pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *at = strstr(text, name);
    return at ? strtoull(at + strlen(name), NULL, base) : ~0ull;
}

/* It says nothing of itself; but what it carries comes after it was sealed. */
Test(pump, it_can_do_nothing_else, .init = start)
{
    char text[4];
    cr_assert_eq(write(theirs[1], "x", 1), 1);
    cr_assert_eq(wait_for(ours[1]), 1);
    cr_assert_eq(read(ours[1], text, sizeof text), 1);
    cr_assert_eq(status_number("Seccomp:", 10), 2);
    cr_assert_eq(status_number("NoNewPrivs:", 10), 1);
    cr_assert_eq(status_number("CapPrm:", 16), 0);
    cr_assert_neq(status_number("Uid:", 10), 0, "not even where its parent is root");
    pump_end(&pump);
}

/* Who gives up an upload stops listening before it ends it. Whoever waits for that end has the end
 * of the other line in front of it then, however late the pump comes. */
Test(pump, the_end_of_what_was_given_up_comes_after_that)
{
    for (int i = 0; i < 100; i++) {
        char byte;
        pump_init(&pump);
        pump_lines_init(lines);
        cr_assert_eq(pump_lay(&lines[0], false, &theirs[0], &ours[0]), 0);
        cr_assert_eq(pump_lay(&lines[1], true, &theirs[1], &ours[1]), 0);
        lines[0].kind = PUMP_WHOLE;
        cr_assert_eq(pump_start(&pump, lines), 0);
        kill(pump.pid, SIGSTOP);
        close(ours[1]);
        close(ours[0]);
        kill(pump.pid, SIGCONT);
        fcntl(theirs[0], F_SETFL, O_NONBLOCK);
        while (read(theirs[0], &byte, 1) < 0)
            ;
        struct pollfd listener = {.fd = theirs[1]};
        cr_assert_eq(poll(&listener, 1, 0), 1);
        close(theirs[0]);
        close(theirs[1]);
        cr_assert(ends_within(60000));
        cr_assert(!pump_failed(&pump));
    }
}
