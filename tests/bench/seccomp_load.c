/* What building and loading the filter costs, against libseccomp with the same calls in it (its
 * rules know no argument checks here, so that it has less to do). Medians, microseconds. */
#include "kernel/process/filter.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS    300
#define MAX_INSNS 4096

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof(values[0]), by_value);
    return values[count / 2];
}

/* Loading cannot be undone: every round has a child of its own, which leaves its time in `shared`.
 */
static double load_us(const struct sock_filter *code, size_t len, double *shared)
{
    double times[ROUNDS];
    struct sock_fprog fprog = {.len = (unsigned short)len, .filter = (struct sock_filter *)code};

    for (size_t i = 0; i < ROUNDS; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            double start = now_us();
            long r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &fprog);
            *shared = now_us() - start;
            _exit(r < 0);
        }
        int status = -1;
        if (pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0)
            exit(1);
        times[i] = *shared;
    }
    return median(times, ROUNDS);
}

static void bench_ours(const char *name, struct filter_options options, double *shared)
{
    struct filter_program program;
    double times[ROUNDS];

    for (size_t i = 0; i < ROUNDS; i++) {
        double start = now_us();
        if (filter_build(&options, &program, NULL) < 0)
            exit(1);
        times[i] = now_us() - start;
    }
    printf("%-24s %4u instructions  build %7.1f  load %6.1f\n", name, program.len,
           median(times, ROUNDS), load_us(program.code, program.len, shared));
}

static size_t build_theirs(unsigned optimize, struct sock_filter *code)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    FILE *f = tmpfile();
    struct filter_call call;

    if (!ctx || !f)
        exit(1);
    seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, optimize);
    for (size_t i = 0; i < filter_call_count(); i++) {
        filter_call_at(FILTER_NATIVE, i, &call);
        if (call.nr < 0)
            continue;
        if (strncmp(call.verdict, "allow", 5) == 0)
            seccomp_rule_add(ctx, SCMP_ACT_ALLOW, call.nr, 0);
        else if (strncmp(call.verdict, "deny", 4) == 0)
            seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), call.nr, 0);
    }
    seccomp_export_bpf(ctx, fileno(f));
    ssize_t n = pread(fileno(f), code, MAX_INSNS * sizeof(code[0]), 0);
    seccomp_release(ctx);
    fclose(f);
    return n > 0 ? (size_t)n / sizeof(code[0]) : 0;
}

static void bench_theirs(const char *name, unsigned optimize, double *shared)
{
    static struct sock_filter code[MAX_INSNS];
    double times[20];
    size_t len = 0;

    for (size_t i = 0; i < 20; i++) {
        double start = now_us();
        len = build_theirs(optimize, code);
        times[i] = now_us() - start;
    }
    printf("%-24s %4zu instructions  build %7.1f  load %6.1f\n", name, len, median(times, 20),
           load_us(code, len, shared));
}

int main(void)
{
    double *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    bench_ours("container", (struct filter_options){true, true, true, true, true, false}, shared);
    bench_ours("process, scoped signals", (struct filter_options){.scoped_signals = true}, shared);
    bench_ours("process", (struct filter_options){0}, shared);
    bench_theirs("libseccomp, by priority", 1, shared);
    bench_theirs("libseccomp, binary tree", 2, shared);
    return 0;
}
