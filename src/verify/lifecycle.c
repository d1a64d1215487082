/* Attacks on the lifecycle boundary: too much of everything, and staying. What they take is little
 * more than the limit that the sandbox was given for this, so that a limit that does not hold hurts
 * nobody; and everything ends by itself. */
#include "verify/attack.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "os/syscalls.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB          (1u << 20)
#define FORKS        400
#define STAY_SECONDS 60

static uint64_t patience(const struct attempt *a)
{
    return a->outside ? 1000u : (uint64_t)a->place->patience * 1000u;
}

int attack_fork_bomb(struct attempt *a)
{
    pid_t children[FORKS];
    int count = 0, code = 0;
    for (; count < FORKS; count++) {
        children[count] = fork();
        if (children[count] == 0) {
            alarm(STAY_SECONDS);
            for (;;)
                pause();
        }
        if (children[count] < 0) {
            code = errno;
            break;
        }
    }
    /* Where the kernel counts what else the user runs, looking now and then ends it. */
    if (count == FORKS)
        usleep((useconds_t)patience(a));
    for (int i = 0; i < count; i++)
        kill(children[i], SIGKILL);
    for (int i = 0; i < count; i++)
        waitpid(children[i], NULL, 0);
    attack_say(a, "%d tasks", count);
    return count == FORKS ? 0 : code;
}

int attack_memory(struct attempt *a)
{
    size_t size = (size_t)a->place->limit * MIB * 2;
    char *room = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED)
        return errno;
    memset(room, 1, size);
    usleep((useconds_t)patience(a));
    attack_say(a, "%zu MiB taken and kept", size / MIB);
    munmap(room, size);
    return 0;
}

int attack_open_files(struct attempt *a)
{
    struct rlimit now;
    if (a->outside && getrlimit(RLIMIT_NOFILE, &now) == 0) {
        now.rlim_cur = now.rlim_max;
        setrlimit(RLIMIT_NOFILE, &now);
    }
    for (int i = 0; i < a->place->limit * 2; i++)
        if (dup(2) < 0)
            return errno;
    attack_say(a, "%d files open", a->place->limit * 2);
    return 0;
}

static int fill(const char *path, size_t bytes)
{
    static char block[65536];
    cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    memset(block, 'x', sizeof block);
    for (size_t done = 0; done < bytes; done += sizeof block)
        if (write(fd, block, sizeof block) != (ssize_t)sizeof block)
            return errno ? errno : ENOSPC;
    return 0;
}

/* In several files, since a limit on each file would not bound all of them together. */
int attack_disk(struct attempt *a)
{
    char path[512];
    int code = 0;
    signal(SIGXFSZ, SIG_IGN);
    for (int i = 0; i < 4 && code == 0; i++) {
        snprintf(path, sizeof path, "%s/fill-%d", attack_scratch(a), i);
        code = fill(path, (size_t)a->place->limit * MIB / 2);
    }
    if (code == 0)
        usleep((useconds_t)patience(a));
    for (int i = 0; a->outside && i < 4; i++) {
        snprintf(path, sizeof path, "%s/fill-%d", attack_scratch(a), i);
        unlink(path);
    }
    attack_say(a, "%d MiB written", a->place->limit * 2);
    return code;
}

int attack_inodes(struct attempt *a)
{
    char path[512];
    int made = 0, code = 0;
    for (; made < a->place->limit * 2 && code == 0; made++) {
        snprintf(path, sizeof path, "%s/many-%d", attack_scratch(a), made);
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        code = fd < 0 ? errno : 0;
        if (fd >= 0)
            close(fd);
    }
    if (code == 0)
        usleep((useconds_t)patience(a));
    for (int i = 0; a->outside && i < made; i++) {
        snprintf(path, sizeof path, "%s/many-%d", attack_scratch(a), i);
        unlink(path);
    }
    attack_say(a, "%d files made", made);
    return code;
}

/* Counted outside: how much of it arrives is what matters. */
int attack_flood(struct attempt *a)
{
    char block[4096];
    memset(block, '~', sizeof block);
    block[sizeof block - 1] = '\n';
    for (int i = 0; !a->outside && i < 256; i++)
        if (write(1, block, sizeof block) < 0)
            return errno;
    return 0;
}

static void ignore_signals(void)
{
    for (int sig = 1; sig < 32; sig++)
        signal(sig, SIG_IGN);
    signal(SIGCHLD, SIG_DFL);
}

int attack_deadline(struct attempt *a)
{
    uint64_t start = clock_us(), wait = patience(a) + (uint64_t)a->place->limit * 1000u;
    ignore_signals();
    while (clock_us() - start < wait)
        usleep(1000);
    attack_say(a, "still running long after the deadline");
    return 0;
}

static uint64_t own_cpu_us(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000000u + (uint64_t)ts.tv_nsec / 1000u;
}

int attack_cpu(struct attempt *a)
{
    uint64_t most = (uint64_t)a->place->limit * 1000u + patience(a);
    alarm(0); /* on a busy machine so much takes long; it ends by itself */
    while (own_cpu_us() < most)
        ;
    attack_say(a, "%llu ms of CPU time", (unsigned long long)most / 1000);
    return 0;
}

/* Tasks that have left parent, session and signals behind. */
static void scatter(const struct attempt *a)
{
    for (int i = 0; i < 3; i++) {
        pid_t pid = fork();
        if (pid != 0) {
            if (pid > 0)
                waitpid(pid, NULL, 0);
            continue;
        }
        setsid();
        /* Before there is anybody to be left: whoever looks for the name finds it. */
        prctl(PR_SET_NAME, a->place->mark);
        if (fork() != 0)
            _exit(0);
        for (int fd = 0; fd < 1024; fd++)
            close(fd);
        ignore_signals();
        signal(SIGALRM, SIG_DFL);
        alarm(STAY_SECONDS);
        for (;;)
            pause();
    }
}

int attack_leave_tasks(struct attempt *a)
{
    scatter(a);
    attack_say(a, "tasks in sessions of their own are left");
    return 0;
}

/* The supervisor is killed meanwhile: nothing of this may be there afterwards. */
int attack_wait_for_kill(struct attempt *a)
{
    scatter(a);
    if (a->outside)
        return 0;
    if (write(1, "@look\n", 6) < 0)
        return errno;
    ignore_signals();
    signal(SIGALRM, SIG_DFL);
    for (;;)
        pause();
}

int attack_nice(struct attempt *a)
{
    (void)a;
    return attack_result(setpriority(PRIO_PROCESS, 0, -5));
}

int attack_realtime(struct attempt *a)
{
    (void)a;
    struct sched_param p = {.sched_priority = 1};
    return attack_result(syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &p)); /* musl has none */
}

int attack_raise_limit(struct attempt *a)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_SIGPENDING, &limit) < 0)
        return errno;
    limit.rlim_max += 1;
    int code = attack_result(setrlimit(RLIMIT_SIGPENDING, &limit));
    if (code == 0)
        attack_say(a, "the limit of pending signals was raised to %llu",
                   (unsigned long long)limit.rlim_max);
    return code;
}

/* A core file would hold what the code had in its memory, in a folder of its choice. With a limit
 * of one byte there is none, and nothing for a program of the host either, to which the kernel
 * gives all that crashes with any other limit, none at all included (os/coredump.h). */
int attack_core(struct attempt *a)
{
    struct rlimit limit, none = {0};
    if (getrlimit(RLIMIT_CORE, &limit) < 0)
        return errno;
    if (limit.rlim_max > 1) {
        attack_say(a, "core files up to %llu bytes", (unsigned long long)limit.rlim_max);
        return 0;
    }
    none.rlim_max = limit.rlim_max;
    setrlimit(RLIMIT_CORE, &none);
    if (limit.rlim_max == 0 || getrlimit(RLIMIT_CORE, &limit) < 0 || limit.rlim_cur == 1)
        return EPERM;
    attack_say(a, "the limit that keeps crashes from a program of the host was taken away");
    return 0;
}
