/* Each attempt runs in a child that loads the filter, or for the control does not. */
#include "base/cleanup.h"
#include "daemon/seal.h"
#include "os/landlock.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum {
    WORKED = 10,
    REFUSED,
    OTHER,
};

static int told(long result)
{
    return result >= 0 ? WORKED : errno == EPERM ? REFUSED : OTHER;
}

static int try_open(void)
{
    return told(syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY));
}
static int try_unix_socket(void)
{
    return told(syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0));
}
static int try_inet_socket(void)
{
    return told(syscall(SYS_socket, AF_INET, SOCK_STREAM, 0));
}
static int try_inet6_datagrams(void)
{
    return told(syscall(SYS_socket, AF_INET6, SOCK_DGRAM, 0));
}
static int try_executable_memory(void)
{
    return told(
        syscall(SYS_mmap, NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}
static int try_plain_memory(void)
{
    return told(
        syscall(SYS_mmap, NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}
static int try_make_executable(void)
{
    void *p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return told(syscall(SYS_mprotect, p, 4096, PROT_READ | PROT_EXEC));
}
static int try_prctl(void)
{
    return told(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0));
}
static int try_duplicate(void)
{
    return told(fcntl(1, F_DUPFD, 100));
}
static int try_kill(void)
{
    return told(syscall(SYS_kill, getpid(), 0));
}
static int try_getpid(void)
{
    return told(syscall(SYS_getpid));
}
static int try_pipe(void)
{
    int fds[2];
    return told(pipe2(fds, O_CLOEXEC));
}
static int try_window_size(void)
{
    struct winsize ws = {0};
    int fds[2];
    return pipe2(fds, O_CLOEXEC) < 0 ? OTHER : told(ioctl(fds[0], TIOCSWINSZ, &ws));
}
/* Putting words into a terminal's mouth; on a pipe the harmless twin of it. */
static int try_terminal_input(void)
{
    int fds[2], on = 1;
    return pipe2(fds, O_CLOEXEC) < 0 ? OTHER : told(ioctl(fds[0], FIONBIO, &on));
}
static int try_exec(void)
{
    char *argv[] = {(char *)"true", NULL};
    syscall(SYS_execve, "/bin/true", argv, argv);
    return OTHER;
}
static int try_fork(void)
{
    long pid = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0)
        _exit(0);
    return told(pid);
}
static int try_ptrace(void)
{
    return told(syscall(SYS_ptrace, 0, 0, 0, 0));
}

/* What came of it: WORKED …, or 0 for a clean exit, or -signal. */
static int run(int (*attempt)(void), bool sealed)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (sealed && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || front_seal_calls(NULL) < 0))
            _exit(99);
        /* Not _exit: the sanitizer would first make a call that the filter does not know. */
        syscall(SYS_exit_group, attempt());
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static void refused(int (*attempt)(void))
{
    cr_expect_eq(run(attempt, false), WORKED, "control");
    cr_expect_eq(run(attempt, true), REFUSED);
}

static void deadly(int (*attempt)(void), int control)
{
    cr_expect_eq(run(attempt, false), control, "control");
    cr_expect_eq(run(attempt, true), -SIGSYS);
}

Test(seal_filter, refuses_files_and_new_rights)
{
    refused(try_open);
    refused(try_unix_socket);
    refused(try_inet_socket);
    refused(try_inet6_datagrams);
    refused(try_terminal_input);
    refused(try_executable_memory);
    refused(try_make_executable);
    refused(try_prctl);
    refused(try_duplicate);
    refused(try_kill);
}

Test(seal_filter, ends_who_tries_what_only_an_attacker_would)
{
    deadly(try_exec, 0);
    deadly(try_fork, WORKED);
    deadly(try_ptrace, WORKED);
}

Test(seal_filter, leaves_what_the_front_needs)
{
    cr_expect_eq(run(try_plain_memory, true), WORKED);
    cr_expect_eq(run(try_pipe, true), WORKED);
    cr_expect_eq(run(try_window_size, true), OTHER, "asked, and the pipe said that it is none");
    cr_expect_eq(run(try_getpid, true), WORKED);
}

/* All of it together, as whoever runs this. */
static int try_all(void)
{
    struct front_seal seal;
    struct err err = ERR_INIT;
    bool root = geteuid() == 0;
    if (front_seal(&seal, &err) < 0)
        return 1;
    if (root && syscall(SYS_getuid) >= 0)
        return 2; /* not even asked for any more */
    return seal.paths ? WORKED : OTHER;
}

Test(seal_filter, everything)
{
    int r = run(try_all, false);
    cr_expect(r == WORKED || (r == OTHER && landlock_abi() == 0), "%d", r);
}
