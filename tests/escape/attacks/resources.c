/* R rows: exhaustion of processes, memory, processor time, and attempts to outlive the deadline.
 * Each runs for a bounded time by itself, so that a control run ends too. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB (1024ul * 1024)

static unsigned long number(int argc, char **argv, int i, unsigned long otherwise)
{
    return argc > i ? strtoul(argv[i], NULL, 10) : otherwise;
}

/* forkbomb MAX SECONDS: children that fork again; all end after SECONDS, or when there are MAX of
 * them. Says how many were refused. */
int cmd_forkbomb(int argc, char **argv)
{
    unsigned long max = number(argc, argv, 1, 100000), seconds = number(argc, argv, 2, 2);
    unsigned *count = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (count == MAP_FAILED)
        return 1;
    time_t end = time(NULL) + (time_t)seconds;
    pid_t first = getpid();
    for (;;) {
        if (time(NULL) >= end)
            break;
        /* Reserved before it is made: the control run must never make more than it says. */
        if (__atomic_add_fetch(&count[0], 1, __ATOMIC_RELAXED) > max) {
            __atomic_sub_fetch(&count[0], 1, __ATOMIC_RELAXED);
            break;
        }
        if (fork() < 0) {
            __atomic_sub_fetch(&count[0], 1, __ATOMIC_RELAXED);
            __atomic_add_fetch(&count[1], 1, __ATOMIC_RELAXED);
            usleep(1000);
        }
    }
    if (getpid() == first) {
        printf("forked\t%u\nrefused\t%u\n", count[0], count[1]);
        fflush(stdout);
    }
    _exit(0);
}

/* forkchain SECONDS: each process forks its successor and ends: never the same pid twice */
int cmd_forkchain(int argc, char **argv)
{
    time_t end = time(NULL) + (time_t)number(argc, argv, 1, 10);
    say("forking\n");
    signal(SIGCHLD, SIG_IGN);
    for (int i = 0; i < 3; i++)
        if (fork() == 0)
            break;
    setsid();
    while (time(NULL) < end) {
        pid_t pid = fork();
        if (pid > 0)
            _exit(0);
        if (pid < 0)
            usleep(500);
    }
    return 0;
}

#define ROOM 16

/* How many processes can be made at once, up to ROOM. */
static unsigned long room(void)
{
    unsigned long held = 0;
    pid_t pids[ROOM];
    for (; held < ROOM && (pids[held] = fork()) >= 0; held++)
        if (pids[held] == 0) {
            pause();
            _exit(0);
        }
    for (unsigned long i = 0; i < held; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
    return held;
}

/* orphans COUNT: short double-forked processes whose parent never waits; then is there still room?
 */
int cmd_orphans(int argc, char **argv)
{
    unsigned long count = number(argc, argv, 1, 1000), refused = 0;
    for (unsigned long i = 0; i < count; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            if (fork() == 0)
                _exit(0);
            _exit(0);
        }
        if (pid < 0) {
            refused++;
            usleep(1000);
        } else {
            waitpid(pid, NULL, 0);
        }
    }
    unsigned long held = room();
    for (int i = 0; held < ROOM && i < 500; i++) { /* who reaps may have others before us */
        usleep(20000);
        held = room();
    }
    printf("refused\t%lu\nroom\t%lu\n", refused, held);
    return 0;
}

static void touch_pages(char *p, size_t size, size_t step)
{
    for (size_t i = 0; i < size; i += step)
        p[i] = 1;
}

static unsigned long eat_heap(unsigned long mib)
{
    unsigned long done = 0;
    for (; done < mib; done++) {
        char *p = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            break;
        touch_pages(p, MIB, 4096);
    }
    return done;
}

static unsigned long eat_file(int fd, unsigned long mib)
{
    static char block[MIB];
    memset(block, 1, sizeof block);
    unsigned long done = 0;
    while (fd >= 0 && done < mib && write(fd, block, MIB) == (ssize_t)MIB)
        done++;
    return done;
}

static unsigned long eat_tmpfs(const char *dir, unsigned long mib)
{
    char path[512];
    snprintf(path, sizeof path, "%s/escape-memory", dir);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    unlink(path);
    return eat_file(fd, mib);
}

static unsigned long eat_shm(unsigned long mib)
{
    unsigned long done = 0;
    for (; done < mib; done += 4) {
        int id = shmget(IPC_PRIVATE, 4 * MIB, IPC_CREAT | 0600);
        if (id < 0)
            break;
        char *p = shmat(id, NULL, 0);
        shmctl(id, IPC_RMID, NULL);
        if (p == (char *)-1)
            break;
        touch_pages(p, 4 * MIB, 4096);
    }
    return done;
}

static unsigned long eat_pipes(unsigned long mib)
{
    static char block[65536];
    unsigned long bytes = 0;
    int fds[2];
    while (bytes < mib * MIB && pipe2(fds, O_NONBLOCK | O_CLOEXEC) == 0) {
        fcntl(fds[1], F_SETPIPE_SZ, 1 << 20);
        ssize_t n, got = 0;
        while ((n = write(fds[1], block, sizeof block)) > 0)
            got += n;
        if (got == 0)
            break;
        bytes += (unsigned long)got;
    }
    return bytes / MIB;
}

/* One page in every 2 MiB: the tables that map it take as much again. */
static unsigned long eat_page_tables(unsigned long mib)
{
    size_t span = (size_t)1 << 30;
    unsigned long pages = 0;
    while (pages * 8192 < mib * MIB) {
        char *p = mmap(NULL, span, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED)
            break;
        volatile char sink = 0;
        for (size_t i = 0; i < span; i += 2 * MIB, pages++)
            sink = (char)(sink + p[i]); /* the zero page: only the table is charged */
    }
    return pages * 4096 / MIB;
}

/* memory KIND MIB [DIR]: takes up to MIB and says how much it got, then holds it for a moment */
int cmd_memory(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    const char *kind = argv[1], *dir = argc > 3 ? argv[3] : "/tmp";
    unsigned long mib = number(argc, argv, 2, 64), got = 0;
    if (strcmp(kind, "heap") == 0)
        got = eat_heap(mib);
    else if (strcmp(kind, "many") == 0)
        for (int i = 0; i < 8; i++) {
            if (fork() == 0) {
                eat_heap(mib / 8);
                sleep(2);
                _exit(0);
            }
        }
    else if (strcmp(kind, "tmpfs") == 0)
        got = eat_tmpfs(dir, mib);
    else if (strcmp(kind, "memfd") == 0)
        got = eat_file(memfd_create("escape", MFD_CLOEXEC), mib);
    else if (strcmp(kind, "shm") == 0)
        got = eat_shm(mib);
    else if (strcmp(kind, "pipes") == 0)
        got = eat_pipes(mib);
    else if (strcmp(kind, "tables") == 0)
        got = eat_page_tables(mib);
    else
        return 2;
    while (wait(NULL) > 0)
        ;
    printf("got\t%lu\n", got);
    fflush(stdout);
    usleep(300000);
    return 0;
}

static void *spin_thread(void *arg)
{
    volatile uint64_t x = 0;
    time_t end = *(time_t *)arg;
    while (time(NULL) < end)
        for (int i = 0; i < 100000; i++)
            x = x + 1;
    return NULL;
}

/* spin THREADS SECONDS */
int cmd_spin(int argc, char **argv)
{
    unsigned long threads = number(argc, argv, 1, 4);
    time_t end = time(NULL) + (time_t)number(argc, argv, 2, 2);
    pthread_t ids[64];
    unsigned long started = 0;
    for (; started < threads && started < 64; started++)
        if (pthread_create(&ids[started], NULL, spin_thread, &end) != 0)
            break;
    for (unsigned long i = 0; i < started; i++)
        pthread_join(ids[i], NULL);
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    printf("cpu_ms\t%ld\n", use.ru_utime.tv_sec * 1000 + use.ru_utime.tv_usec / 1000);
    return 0;
}

/* stubborn SECONDS: ignores what can be ignored, blocks the rest, sleeps */
int cmd_stubborn(int argc, char **argv)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    for (int n = 1; n < 64; n++)
        signal(n, SIG_IGN);
    say("stubborn\n");
    sleep((unsigned)number(argc, argv, 1, 30));
    return 0;
}

/* Leaves every group and session and lives on; appends to a file for as long as it can. */
static void become_daemon(const char *path, unsigned long seconds, int depth)
{
    if (fork() != 0)
        return;
    setsid();
    if (depth > 0 && fork() != 0)
        _exit(0);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    prctl(PR_SET_PDEATHSIG, 0);
    for (unsigned long i = 0; i < seconds * 20; i++) {
        int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : -1;
        if (fd >= 0) {
            if (write(fd, ".", 1) < 0)
                _exit(1);
            close(fd);
        }
        usleep(50000);
    }
    _exit(0);
}

/* daemons FILE SECONDS wait|leave: with leave, the first process ends as soon as its daemons write,
 * and leaves them */
int cmd_daemons(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : NULL;
    unsigned long seconds = number(argc, argv, 2, 30);
    for (int depth = 0; depth < 2; depth++)
        become_daemon(path, seconds, depth);
    say("daemons\n");
    if (argc > 3 && strcmp(argv[3], "wait") == 0)
        sleep((unsigned)seconds);
    else if (path && strcmp(path, "/dev/null") != 0)
        await_size(path, 2);
    else
        usleep(100000);
    return 0;
}

/* linger: ends at once and leaves a sleeping child in a session of its own */
int cmd_linger(int argc, char **argv)
{
    if (argc > 1) {
        int fd = open(argv[1], O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        if (fd >= 0)
            close(fd);
    }
    become_daemon(NULL, 60, 1);
    return 0;
}
