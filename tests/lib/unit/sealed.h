/* Attempts to do what a sealed program must not. Each runs in a child that loads the filter, or for
 * the control does not. */
#pragma once

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The filter of the program that is tested. */
static int load_filter(void);

enum {
    WORKED = 10,
    REFUSED,
    OTHER,
};

static inline int told(long result)
{
    return result >= 0 ? WORKED : errno == EPERM ? REFUSED : OTHER;
}

static inline int try_open(void)
{
    return told(syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY));
}
static inline int try_unix_socket(void)
{
    return told(syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0));
}
static inline int try_inet_socket(void)
{
    return told(syscall(SYS_socket, AF_INET, SOCK_STREAM, 0));
}
static inline int try_inet6_datagrams(void)
{
    return told(syscall(SYS_socket, AF_INET6, SOCK_DGRAM, 0));
}
static inline int try_executable_memory(void)
{
    return told(
        syscall(SYS_mmap, NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}
static inline int try_plain_memory(void)
{
    return told(
        syscall(SYS_mmap, NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}
static inline int try_make_executable(void)
{
    void *p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return told(syscall(SYS_mprotect, p, 4096, PROT_READ | PROT_EXEC));
}
static inline int try_prctl(void)
{
    return told(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0));
}
static inline int try_duplicate(void)
{
    return told(fcntl(1, F_DUPFD, 100));
}
static inline int try_kill(void)
{
    return told(syscall(SYS_kill, getpid(), 0));
}
static inline int try_getpid(void)
{
    return told(syscall(SYS_getpid));
}
static inline int try_exec(void)
{
    char *argv[] = {(char *)"true", NULL};
    syscall(SYS_execve, "/bin/true", argv, argv);
    return OTHER;
}
static inline int try_fork(void)
{
    long pid = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0)
        syscall(SYS_exit_group, 0);
    return told(pid);
}
static inline int try_ptrace(void)
{
    return told(syscall(SYS_ptrace, 0, 0, 0, 0));
}

/* What came of it: WORKED …, or 0 for a clean exit, or -signal. */
static inline int run(int (*attempt)(void), bool sealed)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (sealed && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || load_filter() < 0))
            _exit(99);
        /* Not _exit: the sanitizer would first make a call that the filter does not know. */
        syscall(SYS_exit_group, attempt());
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static inline void refused(int (*attempt)(void))
{
    cr_expect_eq(run(attempt, false), WORKED, "control");
    cr_expect_eq(run(attempt, true), REFUSED);
}

static inline void deadly(int (*attempt)(void), int control)
{
    cr_expect_eq(run(attempt, false), control, "control");
    cr_expect_eq(run(attempt, true), -SIGSYS);
}
