/* K-05, K-06: every system call number, and the two foreign entries that x86-64 has for 64-bit
 * code. Elsewhere 64-bit code has the native entry alone. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* sweep NR…: each call with arguments that no call can use; prints the raw answer */
int cmd_sweep(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        int nr = (int)strtol(argv[i], NULL, 10), pipefd[2];
        if (pipe(pipefd) < 0)
            return 1;
        pid_t pid = fork();
        if (pid < 0)
            return 1;
        if (pid == 0) {
            alarm(2);
            errno = 0;
            long r = syscall(nr, -1L, -1L, -1L, -1L, -1L, -1L);
            int answer = r == -1 ? errno : 0;
            if (write(pipefd[1], &answer, sizeof answer) < 0)
                _exit(1);
            _exit(0);
        }
        close(pipefd[1]);
        int answer = 0, status = 0;
        ssize_t n = read(pipefd[0], &answer, sizeof answer);
        close(pipefd[0]);
        waitpid(pid, &status, 0);
        if (n == sizeof answer)
            printf("%d\t%s\n", nr, answer ? strerrorname_np(answer) : "OK");
        else
            printf("%d\tENDED %d\n", nr, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
        fflush(stdout);
    }
    return 0;
}

#ifdef __x86_64__
static long int80(long nr, long a, long b, long c)
{
    long ret;
    __asm__ volatile("int $0x80"
                     : "=a"(ret)
                     : "a"(nr), "b"(a), "c"(b), "d"(c), "S"(0L), "D"(0L)
                     : "memory", "r8", "r9", "r10", "r11");
    return (long)(int)ret;
}

static long low_path; /* a path below 4 GiB */

static int native(long r)
{
    return r < 0 && r > -4096 ? (int)-r : 0;
}

static int run_getpid32(void)
{
    return native(int80(20, 0, 0, 0));
}

static int run_open32(void)
{
    return native(int80(5, low_path, O_RDONLY, 0));
}

static int run_unshare32(void)
{
    return native(int80(310, 0x10000000 /* CLONE_NEWUSER */, 0, 0));
}

static int run_socketcall32(void)
{
    unsigned *args = (unsigned *)(low_path + 512);
    args[0] = 2 /* AF_INET */;
    args[1] = 1 /* SOCK_STREAM */;
    args[2] = 0;
    return native(int80(102, 1 /* SYS_SOCKET */, (long)args, 0));
}

static int run_keyctl32(void)
{
    return native(int80(288, 0 /* get id */, -3, 1));
}

static int run_x32_getpid(void)
{
    return outcome(syscall(0x40000000 | SYS_getpid));
}

static int run_x32_unshare(void)
{
    return outcome(syscall(0x40000000 | SYS_unshare, 0x10000000));
}
#endif

#ifdef __x86_64__
#define X86_64(name, run) PROBE("K-05", name, run)

static bool prepare(const char *path)
{
    char *low =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    if (low == MAP_FAILED)
        return false;
    snprintf(low, 512, "%s", path);
    low_path = (long)low;
    return true;
}
#else
#define X86_64(name, run) PROBE_ONLY("K-05", name, "x86-64")

static bool prepare(const char *path)
{
    (void)path;
    return true;
}
#endif

/* compat PATH: denied things through the 32-bit gate and with x32 numbers, from 64-bit code */
int cmd_compat(int argc, char **argv)
{
    static const struct probe probes[] = {
        X86_64("int80_getpid", run_getpid32),   X86_64("int80_open", run_open32),
        X86_64("int80_unshare", run_unshare32), X86_64("int80_socketcall", run_socketcall32),
        X86_64("int80_keyctl", run_keyctl32),   X86_64("x32_getpid", run_x32_getpid),
        X86_64("x32_unshare", run_x32_unshare),
    };
    if (!prepare(argc > 1 ? argv[1] : "/"))
        return 1;
    probes_run(probes, sizeof probes / sizeof *probes);
    return 0;
}
