/* Measures commands from spawn to exit, all of them once in every round, so that what else the
 * machine does hits each of them alike. The order within a round is drawn anew each time, and a
 * short pause follows each run: the kernel takes namespaces apart after the last process is gone,
 * and no command shall pay for its neighbour's.
 *
 *   spawn times ROUNDS WARM-UP         one line per command: name, minimum, median, p99 (µs),
 *                                      CPU of the whole tree (µs, median), failures
 *   spawn rate MILLISECONDS PARALLEL   one line per command: name, runs per second, failures
 *
 * Commands come on stdin, one per line, words separated by tabs: NAME UID ARGV…  A UID other than 0
 * is taken on in the child, between vfork and exec: no helper program is part of the time. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COMMANDS_MAX 64
#define WORDS_MAX    128
#define PARALLEL_MAX 64
#define RATE_SLICES  5
#define PAUSE_US     3000

struct command {
    char *name;
    uid_t uid;
    char *argv[WORDS_MAX];
    double *took;
    double *cpu;
    unsigned failed;
};

static struct command commands[COMMANDS_MAX];
static size_t command_count;
static int null_fd;

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static unsigned long number(const char *text)
{
    char *end;
    errno = 0;
    unsigned long n = strtoul(text, &end, 10);
    if (errno || end == text || *end) {
        fprintf(stderr, "spawn: not a number: %s\n", text);
        exit(2);
    }
    return n;
}

static void take_command(char *line)
{
    struct command *c = &commands[command_count];
    char *save = NULL;
    size_t words = 0;
    c->name = strtok_r(line, "\t\n", &save);
    char *uid = strtok_r(NULL, "\t\n", &save);
    for (char *w; words + 1 < WORDS_MAX && (w = strtok_r(NULL, "\t\n", &save));)
        c->argv[words++] = w;
    if (!c->name || !uid || words == 0 || ++command_count == COMMANDS_MAX) {
        fprintf(stderr, "spawn: bad list of commands\n");
        exit(2);
    }
    c->uid = (uid_t)number(uid);
}

static void take_commands(void)
{
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, stdin) > 0) {
        take_command(line);
        line = NULL; /* its words are kept */
        room = 0;
    }
    free(line);
}

/* The child borrows our memory until it executes: raw calls only. */
static void become(const struct command *c)
{
    char *const environment[] = {"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", NULL};
    for (int fd = 0; fd < 3; fd++)
        dup2(null_fd, fd);
    if (c->uid != 0 && (syscall(SYS_setgroups, (size_t)0, NULL) < 0 ||
                        syscall(SYS_setresgid, c->uid, c->uid, c->uid) < 0 ||
                        syscall(SYS_setresuid, c->uid, c->uid, c->uid) < 0))
        _exit(127);
    execve(c->argv[0], c->argv, environment);
    _exit(127);
}

static pid_t start(const struct command *c)
{
    pid_t pid = vfork();
    if (pid == 0)
        become(c);
    if (pid < 0)
        fail("vfork");
    return pid;
}

static double cpu_us(const struct rusage *use)
{
    return (double)(use->ru_utime.tv_sec + use->ru_stime.tv_sec) * 1e6 +
           (double)(use->ru_utime.tv_usec + use->ru_stime.tv_usec);
}

/* Negative rounds warm up and are not kept. */
static void measure(struct command *c, long round)
{
    struct rusage use;
    int status = 0;
    double before = now_us();
    pid_t pid = start(c);
    while (wait4(pid, &status, 0, &use) < 0)
        if (errno != EINTR)
            fail("wait4");
    double after = now_us();
    if (status != 0)
        c->failed++;
    if (round < 0)
        return;
    c->took[round] = after - before;
    c->cpu[round] = cpu_us(&use);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double *sorted(double *values, size_t count)
{
    qsort(values, count, sizeof values[0], by_value);
    return values;
}

/* A fixed sequence, so that two runs of the benchmark differ in the machine only. */
static size_t draw(size_t below)
{
    static uint64_t state = 0x9e3779b97f4a7c15;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (size_t)(state % below);
}

static void shuffle(size_t *order, size_t count)
{
    for (size_t i = count; i > 1; i--) {
        size_t j = draw(i), other = order[j];
        order[j] = order[i - 1];
        order[i - 1] = other;
    }
}

static void measure_round(size_t *order, long round)
{
    shuffle(order, command_count);
    for (size_t i = 0; i < command_count; i++) {
        measure(&commands[order[i]], round);
        usleep(PAUSE_US);
    }
}

static void measure_times(size_t rounds, size_t warm_up)
{
    size_t order[COMMANDS_MAX];
    for (size_t i = 0; i < command_count; i++) {
        order[i] = i;
        commands[i].took = calloc(rounds, sizeof(double));
        commands[i].cpu = calloc(rounds, sizeof(double));
        if (!commands[i].took || !commands[i].cpu)
            fail("calloc");
    }
    for (long round = -(long)warm_up; round < (long)rounds; round++)
        measure_round(order, round);
    for (size_t i = 0; i < command_count; i++) {
        const double *t = sorted(commands[i].took, rounds);
        const double *u = sorted(commands[i].cpu, rounds);
        printf("%s\t%.1f\t%.1f\t%.1f\t%.1f\t%u\n", commands[i].name, t[0], t[rounds / 2],
               t[rounds * 99 / 100], u[rounds / 2], commands[i].failed);
    }
}

/* Keeps `parallel` runs going until the time is up. Returns the runs that ended in that time. */
static size_t run_for(struct command *c, double duration_us, size_t parallel)
{
    size_t done = 0, running = 0;
    double end = now_us() + duration_us;
    while (now_us() < end || running > 0) {
        bool open = now_us() < end;
        for (; open && running < parallel; running++)
            start(c);
        int status = 0;
        if (wait(&status) < 0)
            fail("wait");
        running--;
        if (status != 0)
            c->failed++;
        else if (now_us() < end)
            done++;
    }
    return done;
}

static void measure_rates(double duration_us, size_t parallel)
{
    size_t done[COMMANDS_MAX] = {0};
    for (int slice = 0; slice < RATE_SLICES; slice++)
        for (size_t i = 0; i < command_count; i++)
            done[i] += run_for(&commands[i], duration_us / RATE_SLICES, parallel);
    for (size_t i = 0; i < command_count; i++)
        printf("%s\t%.1f\t%u\n", commands[i].name, (double)done[i] / (duration_us / 1e6),
               commands[i].failed);
}

int main(int argc, char *argv[])
{
    if (argc != 4 || (strcmp(argv[1], "times") != 0 && strcmp(argv[1], "rate") != 0)) {
        fprintf(stderr, "usage: spawn times ROUNDS WARM-UP | spawn rate MS PARALLEL\n");
        return 2;
    }
    unsigned long first = number(argv[2]), second = number(argv[3]);
    null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null_fd < 0)
        fail("/dev/null");
    take_commands();
    if (first == 0 || (argv[1][0] == 'r' && (second == 0 || second > PARALLEL_MAX)))
        return 2;
    if (argv[1][0] == 't')
        measure_times(first, second);
    else
        measure_rates((double)first * 1e3, second);
    return 0;
}
