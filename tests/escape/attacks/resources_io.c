/* More R rows: descriptors, per-user quotas, disk, inodes, output; and the heartbeat of the
 * neighbour. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* descriptors PROCESSES: open until refused, in several processes at once */
int cmd_descriptors(int argc, char **argv)
{
    unsigned long processes = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
    for (unsigned long p = 0; p < processes; p++) {
        pid_t pid = processes > 1 ? fork() : 0;
        if (pid != 0)
            continue;
        unsigned long count = 0;
        while (count < 100000 && eventfd(0, 0) >= 0)
            count++;
        int error = errno;
        char line[64];
        snprintf(line, sizeof line, "opened\t%lu\t%s\n", count, strerrorname_np(error));
        say(line);
        usleep(300000);
        if (processes > 1)
            _exit(0);
    }
    while (wait(NULL) > 0)
        ;
    return 0;
}

/* quotas hold SECONDS | probe: what the kernel counts per user: watches, pipe pages, pending
 * signals, processes */
int cmd_quotas(int argc, char **argv)
{
    bool hold = argc > 2 && strcmp(argv[1], "hold") == 0;
    unsigned long limit = hold ? 100000 : 4;
    unsigned long watches = 0, pipes = 0, timers = 0, signals = 0, processes = 0;
    while (watches < limit && inotify_init1(IN_CLOEXEC) >= 0)
        watches++;
    int fds[2];
    while (pipes < (hold ? 200ul : 4ul) && pipe2(fds, O_CLOEXEC) == 0) {
        /* A full pipe-user-pages quota shows as a refused enlargement. */
        if (fcntl(fds[1], F_SETPIPE_SZ, 1 << 17) < 0)
            break;
        pipes++;
    }
    timer_t timer;
    while (timers < limit && timer_create(CLOCK_MONOTONIC, NULL, &timer) == 0)
        timers++;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &set, NULL);
    union sigval value = {.sival_int = 0};
    while (signals < limit && sigqueue(getpid(), SIGRTMIN, value) == 0)
        signals++;
    for (; processes < limit; processes++) {
        pid_t pid = fork();
        if (pid < 0)
            break;
        if (pid == 0) {
            sleep(hold ? (unsigned)strtoul(argv[2], NULL, 10) : 1);
            _exit(0);
        }
    }
    printf("inotify\t%lu\npipes\t%lu\ntimers\t%lu\nsignals\t%lu\nprocesses\t%lu\n", watches, pipes,
           timers, signals, processes);
    fflush(stdout);
    if (hold)
        sleep((unsigned)strtoul(argv[2], NULL, 10));
    return 0;
}

/* One file until it is refused; deleted but held open. Returns the bytes written, and why it ended.
 */
static unsigned long fill_file(const char *dir, unsigned long max, int *error)
{
    static char block[65536];
    char path[512];
    memset(block, 7, sizeof block);
    snprintf(path, sizeof path, "%s/escape-fill", dir);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    *error = fd < 0 ? errno : 0;
    unlink(path);
    unsigned long done = 0;
    while (fd >= 0 && done < max) {
        ssize_t n = write(fd, block, sizeof block);
        if (n <= 0) {
            *error = errno;
            break;
        }
        done += (unsigned long)n;
    }
    return done;
}

/* fill MIB DIR…: write until refused in each folder; a limit per file is answered with another file
 */
int cmd_fill(int argc, char **argv)
{
    unsigned long max = (argc > 1 ? strtoul(argv[1], NULL, 10) : 1) << 20, all = 0;
    signal(SIGXFSZ, SIG_IGN);
    for (int i = 2; i < argc; i++) {
        unsigned long done = 0;
        int error = 0;
        for (int files = 0; files < 400 && done < max && (error == 0 || error == EFBIG); files++)
            done += fill_file(argv[i], max - done, &error);
        all += done;
        printf("filled\t%s\t%lu\t%s\n", argv[i], done, error ? strerrorname_np(error) : "OK");
        fflush(stdout);
    }
    printf("total\t%lu\n", all);
    fflush(stdout);
    usleep(200000);
    return 0;
}

/* inodes MAX DIR: empty files until refused */
int cmd_inodes(int argc, char **argv)
{
    unsigned long max = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000, made = 0;
    int error = 0;
    for (; made < max; made++) {
        char path[512];
        snprintf(path, sizeof path, "%s/escape-inode-%lu", argc > 2 ? argv[2] : "/tmp", made);
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0) {
            error = errno;
            break;
        }
        close(fd);
    }
    printf("made\t%lu\t%s\n", made, error ? strerrorname_np(error) : "OK");
    return 0;
}

/* flood MIB lines|line|bytes|both|binary */
int cmd_flood(int argc, char **argv)
{
    static char block[65536];
    unsigned long bytes = (argc > 1 ? strtoul(argv[1], NULL, 10) : 1) * 1024 * 1024;
    const char *kind = argc > 2 ? argv[2] : "lines";
    size_t unit = sizeof block;
    memset(block, 'a', sizeof block);
    if (strcmp(kind, "lines") == 0 || strcmp(kind, "both") == 0)
        for (size_t i = 79; i < sizeof block; i += 80)
            block[i] = '\n';
    if (strcmp(kind, "binary") == 0)
        for (size_t i = 0; i < sizeof block; i++)
            block[i] = (char)(i * 37);
    if (strcmp(kind, "bytes") == 0) {
        unit = 1;
        bytes = 20000;
    }
    signal(SIGPIPE, SIG_IGN);
    for (unsigned long done = 0; done < bytes; done += unit) {
        if (write(1, block, unit) < 0)
            break;
        if (strcmp(kind, "both") == 0 && write(2, block, unit) < 0)
            break;
    }
    return 0;
}

/* holdout SECONDS: ends at once while a child keeps both output streams open */
int cmd_holdout(int argc, char **argv)
{
    if (fork() == 0) {
        setsid();
        sleep(argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 30);
        _exit(0);
    }
    say("done\n");
    return 0;
}

/* beat SECONDS: a line with the time every 20 ms; the longest gap shows what a neighbour suffered
 */
int cmd_beat(int argc, char **argv)
{
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 5, worst = 0;
    struct timespec start, now, last;
    clock_gettime(CLOCK_MONOTONIC, &start);
    last = start;
    say("beating\n");
    do {
        usleep(20000);
        clock_gettime(CLOCK_MONOTONIC, &now);
        double gap =
            (double)(now.tv_sec - last.tv_sec) + (double)(now.tv_nsec - last.tv_nsec) / 1e9;
        worst = gap > worst ? gap : worst;
        last = now;
    } while ((double)(now.tv_sec - start.tv_sec) < seconds);
    printf("worst_ms\t%.0f\n", worst * 1000);
    return 0;
}

/* touch FILE: the canary that says that the payload ran */
int cmd_touch(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        int fd = open(argv[i], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        if (fd < 0 || write(fd, "ran\n", 4) != 4)
            return 1;
        close(fd);
    }
    say("touched\n");
    return 0;
}

/* die STATUS | die signal N */
int cmd_die(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "signal") == 0) {
        raise((int)strtol(argv[2], NULL, 10));
        return 99;
    }
    return argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0;
}

extern char **environ;

/* environ: what was handed over */
int cmd_environ(int argc, char **argv)
{
    (void)argc, (void)argv;
    for (char **e = environ; *e; e++)
        printf("env\t%s\n", *e);
    return 0;
}
