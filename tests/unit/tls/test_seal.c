/* Each attempt runs in a child that loads the filter, or for the control does not. */
#include "tls/gate.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

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
static int try_inet_socket(void)
{
    return told(syscall(SYS_socket, AF_INET, SOCK_STREAM, 0));
}
static int try_unix_socket(void)
{
    return told(syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0));
}
static int try_memory_file(void)
{
    return told(syscall(SYS_memfd_create, "x", 0));
}
static int try_executable_memory(void)
{
    return told(
        syscall(SYS_mmap, NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}
static int try_dumpable(void)
{
    return told(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0));
}
static int try_duplicate(void)
{
    return told(fcntl(1, F_DUPFD, 100));
}
static int try_set_flags(void)
{
    return told(fcntl(0, F_SETFL, fcntl(0, F_GETFL)));
}
static int try_set_option(void)
{
    static int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
        return OTHER;
    return told(setsockopt(fds[0], SOL_SOCKET, SO_KEEPALIVE, &(int){1}, sizeof(int)));
}
static int try_kill(void)
{
    return told(syscall(SYS_kill, getpid(), 0));
}
static int try_pair(void)
{
    int fds[2];
    return told(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds));
}
static int try_plain_memory(void)
{
    return told(
        syscall(SYS_mmap, NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
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
        syscall(SYS_exit_group, 0);
    return told(pid);
}

/* What came of it: WORKED …, or 0 for a clean exit, or -signal. */
static int run(int (*attempt)(void), bool sealed)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (sealed && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || gate_seal_calls(NULL) < 0))
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

Test(tls_seal, refuses_files_sockets_and_new_rights)
{
    refused(try_open);
    refused(try_inet_socket);
    refused(try_unix_socket);
    refused(try_memory_file);
    refused(try_executable_memory);
    refused(try_dumpable);
    refused(try_duplicate);
    refused(try_kill);
    refused(try_set_flags);
    refused(try_set_option);
}

Test(tls_seal, ends_who_tries_what_only_an_attacker_would)
{
    cr_expect_eq(run(try_exec, false), 0, "control");
    cr_expect_eq(run(try_exec, true), -SIGSYS);
    cr_expect_eq(run(try_fork, false), WORKED, "control");
    cr_expect_eq(run(try_fork, true), -SIGSYS);
}

Test(tls_seal, leaves_what_it_needs)
{
    cr_expect_eq(run(try_pair, true), WORKED);
    cr_expect_eq(run(try_plain_memory, true), WORKED);
}

static int try_all(void)
{
    struct err err = ERR_INIT;
    return pair_prepare(&err) < 0 || gate_seal(&err) < 0 ? OTHER : WORKED;
}

Test(tls_seal, everything)
{
    cr_expect_eq(run(try_all, false), WORKED);
}
