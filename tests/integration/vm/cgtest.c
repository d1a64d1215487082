/* The cgroup module on a kernel with cgroup v2, run inside the test VM: `cgtest full|none|scope`.
 * Prints "ok NAME" or "not ok NAME" per check; lines with # are for the reader. */
#include "os/cgroup.h"
#include "os/cgroup_internal.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>

#define MIB (1024ULL * 1024)

static const char *role;
static int failures;

static bool check(bool good, const char *name, const struct err *err)
{
    printf("%sok %s: %s\n", good ? "" : "not ", role, name);
    if (!good && err && err->code)
        printf("# %s (%s)\n", err->message, err->hint);
    failures += !good;
    fflush(stdout);
    return good;
}

static uint64_t now_us(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static void say_took(const char *what, uint64_t since)
{
    printf("# %s: %s took %d us\n", role, what, (int)(now_us() - since));
}

static bool make(struct cgroup_group *g, const struct cgroup_limits *limits, const char *name)
{
    struct cgroup_host host;
    struct err err = ERR_INIT;
    cgroup_discover(&host);
    int r = cgroup_plan(&host, limits, name, g, &err);
    if (r == 0)
        r = cgroup_make(g, limits, &err);
    return r == 0 || check(false, name, &err);
}

/* Born inside the group, as the supervisor does it. */
static pid_t start(const struct cgroup_group *g, void (*body)(void))
{
    struct err err = ERR_INIT;
    cleanup_fd int dir = cgroup_clone_fd(g, &err);
    struct clone_args args = {
        .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (uint64_t)dir};
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0) {
        body();
        _exit(0);
    }
    if (pid < 0)
        printf("# clone3: %s\n", strerror(errno));
    return pid;
}

static void nap(void)
{
    for (;;)
        sleep(60);
}

static void eat(void)
{
    size_t size = 64 * MIB;
    char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; p != MAP_FAILED && i < size; i += 4096)
        p[i] = 1;
}

static void spin(void)
{
    clock_t end = CLOCKS_PER_SEC / 4;
    while (clock() < end)
        ;
}

static void fork_forever(void)
{
    for (;;)
        if (fork() < 0)
            sched_yield();
}

static int reap(pid_t pid)
{
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

static bool is_gone(const struct cgroup_group *g)
{
    return access(g->dir[0], F_OK) < 0 && errno == ENOENT;
}

static void finish(struct cgroup_group *g, const char *name)
{
    struct err err = ERR_INIT;
    bool good = cgroup_kill(g, 20000, &err) == 0 && cgroup_remove(g, 20000, &err) == 0;
    check(good && is_gone(g), name, &err);
}

static void test_discover(void)
{
    struct cgroup_host host;
    cgroup_discover(&host);
    printf("# %s: parent %s, controllers %u, why '%s', how '%s'\n", role, host.parent[0],
           host.controllers, host.why, host.how);
    check(host.version == CGROUP_V2, "v2 is found", NULL);
    check(host.controllers == (CGROUP_MEMORY | CGROUP_PIDS | CGROUP_CPU), "all controllers", NULL);
}

static void test_limits(void)
{
    struct cgroup_limits limits = {.memory = 32 * MIB + 5, .pids = 20, .cpus_milli = 500};
    struct cgroup_group g;
    struct err err = ERR_INIT;
    uint64_t t = now_us();
    if (!make(&g, &limits, "limits"))
        return;
    say_took("make", t);
    t = now_us();
    pid_t pid = start(&g, nap), self = getpid();
    say_took("clone into the group", t);
    check(pid > 0 && cgroup_verify(&g, &limits, &pid, 1, &err) == 0, "born inside, limits hold",
          &err);
    check(cgroup_attach(&g, pid, &err) == 0, "attach of a member changes nothing", &err);
    struct cgroup_limits other = limits;
    other.cpus_milli = 600;
    check(cgroup_verify(&g, &other, &pid, 1, NULL) < 0, "a wrong CPU limit is noticed", NULL);
    other = limits;
    other.memory = MIB;
    check(cgroup_verify(&g, &other, &pid, 1, NULL) < 0, "a wrong memory limit is noticed", NULL);
    check(cgroup_verify(&g, &limits, &self, 1, NULL) < 0, "a stranger is noticed", NULL);
    struct cgroup_usage u;
    t = now_us();
    cgroup_usage(&g, &u);
    say_took("usage", t);
    check(u.pids_now == 1 && u.oom_kills == 0 && u.pids_max_hits == 0 && u.memory_now < 32 * MIB &&
              u.memory_peak != UINT64_MAX && u.cpu_usec != UINT64_MAX,
          "usage is readable", NULL);
    t = now_us();
    finish(&g, "killed and removed");
    say_took("kill and remove", t);
    check(WIFSIGNALED(reap(pid)), "the process was killed", NULL);
}

static void test_attach(void)
{
    struct cgroup_limits limits = {.pids = 20};
    struct cgroup_group g;
    struct err err = ERR_INIT;
    if (!make(&g, &limits, "attach"))
        return;
    pid_t pid = fork();
    if (pid == 0)
        nap();
    check(cgroup_verify(&g, &limits, &pid, 1, NULL) < 0, "control: not inside yet", NULL);
    check(cgroup_attach(&g, pid, &err) == 0 && cgroup_verify(&g, &limits, &pid, 1, &err) == 0,
          "attach moves a process", &err);
    finish(&g, "removed after attach");
    reap(pid);
}

static void test_freeze(void)
{
    struct cgroup_limits limits = {.pids = 20};
    struct cgroup_group g;
    struct err err = ERR_INIT;
    if (!make(&g, &limits, "freeze"))
        return;
    pid_t pid = start(&g, nap);
    check(cgroup_freeze(&g, true, &err) == 0, "freeze", &err);
    char text[128] = "";
    for (int i = 0; i < 2000 && !strstr(text, "frozen 1"); i++) {
        usleep(1000);
        cgroup_read_file(g.dir[0], "cgroup.events", text, sizeof text);
    }
    check(strstr(text, "frozen 1") != NULL, "is frozen", NULL);
    finish(&g, "a frozen group can be killed");
    reap(pid);
}

static void test_verdicts(void)
{
    struct cgroup_limits limits = {.memory = 16 * MIB, .pids = 20};
    struct cgroup_group g;
    struct cgroup_usage u;
    if (!make(&g, &limits, "oom"))
        return;
    int status = reap(start(&g, eat));
    cgroup_usage(&g, &u);
    check(WIFSIGNALED(status) && u.oom_kills >= 1, "memory bomb has a verdict", NULL);
    check(u.memory_peak <= 16 * MIB, "the peak stays under the limit", NULL);
    finish(&g, "removed after the memory bomb");

    limits.memory = 0;
    if (!make(&g, &limits, "nolimit"))
        return;
    status = reap(start(&g, eat));
    check(status == 0, "control: without a limit it lives", NULL);
    finish(&g, "removed after the control run");

    limits = (struct cgroup_limits){.pids = 20, .cpus_milli = 100, .cpu_time = true};
    if (!make(&g, &limits, "spin"))
        return;
    reap(start(&g, spin));
    cgroup_usage(&g, &u);
    check(u.cpu_usec > 150000 && u.cpu_usec != UINT64_MAX, "CPU time is counted", NULL);
    check(u.throttled_usec > 0 && u.throttled_usec != UINT64_MAX, "CPU is throttled", NULL);
    finish(&g, "removed after the spin");
}

static void wait_for_hits(const struct cgroup_group *g, struct cgroup_usage *u)
{
    do
        cgroup_usage(g, u);
    while (u->pids_max_hits == 0);
}

static void test_fork_bomb(bool by_loop)
{
    struct cgroup_limits limits = {.memory = 128 * MIB, .pids = 100};
    struct cgroup_group g;
    struct cgroup_usage u;
    if (!make(&g, &limits, "forks"))
        return;
    pid_t pid = start(&g, fork_forever);
    wait_for_hits(&g, &u);
    /* A fork that is about to be refused is counted for a moment, one on each CPU. */
    check(u.pids_now <= 100 + 2, "fork bomb is contained", NULL);
    struct cgroup_group as_v1 = g;
    as_v1.version = CGROUP_V1;
    memcpy(as_v1.dir[SLOT_PIDS], g.dir[0], sizeof g.dir[0]);
    struct err err = ERR_INIT;
    if (by_loop)
        check(cgroup_kill(&as_v1, 20000, &err) == 0, "killed without cgroup.kill", &err);
    finish(&g, by_loop ? "removed after the loop" : "fork bomb is killed at once");
    reap(pid);
}

static struct {
    struct cgroup_group group;
    int supervisor; /* pidfd: unlike the end of a pipe, nothing that forks can keep it from
                       reporting */
} guarded;

static int guardian(void *arg)
{
    struct pollfd p = {.fd = guarded.supervisor, .events = POLLIN};
    while (poll(&p, 1, -1) < 0)
        ;
    while (cgroup_kill_and_remove_child(&guarded.group, 5000))
        ;
    syscall(SYS_exit_group, 0);
    return 0;
}

/* A supervisor dies by SIGKILL with a fork bomb in its group; a process that shares its memory
 * cleans up. */
static void test_guardian(void)
{
    struct cgroup_group *g = &guarded.group;
    static _Alignas(16) char stack[65536];
    struct cgroup_limits limits = {.memory = 128 * MIB, .pids = 60};
    struct cgroup_host host;
    cgroup_discover(&host);
    struct err err = ERR_INIT;
    if (cgroup_plan(&host, &limits, "guarded", g, &err) < 0) {
        check(false, "guardian set-up", &err);
        return;
    }
    pid_t supervisor = fork();
    if (supervisor == 0) {
        guarded.supervisor = (int)syscall(SYS_pidfd_open, getpid(), 0);
        clone(guardian, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL);
        struct cgroup_usage u;
        if (cgroup_make(g, &limits, NULL) < 0 || start(g, fork_forever) < 0)
            _exit(1);
        wait_for_hits(g, &u);
        raise(SIGKILL);
    }
    check(WIFSIGNALED(reap(supervisor)), "the supervisor is killed", NULL);
    for (int i = 0; i < 10000 && !is_gone(g); i++)
        usleep(1000);
    check(is_gone(g), "the guardian leaves nothing", NULL);
}

static void test_none(void)
{
    struct cgroup_host host;
    struct cgroup_group g;
    struct cgroup_limits limits = {.pids = 1};
    struct err err = ERR_INIT;
    cgroup_discover(&host);
    printf("# %s: why '%s', how '%s'\n", role, host.why, host.how);
    check(host.version == CGROUP_NONE, "nothing is available", NULL);
    check(strlen(host.why) > 10 && strlen(host.how) > 10, "the way out is explained", NULL);
    check(cgroup_plan(&host, &limits, "none", &g, &err) < 0 && err.code == ERR_UNSUPPORTED,
          "a plan is refused", NULL);
}

/* Called alone in a fresh group that belongs to this user. */
static void test_scope(const char *own)
{
    struct cgroup_host host;
    struct err err = ERR_INIT;
    cgroup_discover(&host);
    check(!host.own_scope, "control: an unmarked scope is left alone", NULL);
    check(setxattr(own, "user.delegate", "1", 1, 0) == 0, "mark the scope", NULL);
    cgroup_discover(&host);
    check(host.own_scope && strcmp(host.parent[0], own) == 0, "a delegated scope is found", NULL);
    struct cgroup_limits limits = {.memory = 32 * MIB, .pids = 5, .cpus_milli = 1000};
    struct cgroup_group g;
    if (!make(&g, &limits, "scoped"))
        return;
    pid_t pid = start(&g, nap);
    check(pid > 0 && cgroup_verify(&g, &limits, &pid, 1, &err) == 0, "limits hold in the scope",
          &err);
    finish(&g, "removed from the scope");
    reap(pid);
    cgroup_discover(&host);
    check(!host.own_scope && strcmp(host.parent[0], own) == 0, "the second run needs no move",
          NULL);
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[2] : "";
    role = argc > 1 ? argv[1] : "cgtest";
    if (strcmp(what, "none") == 0) {
        test_none();
    } else if (strcmp(what, "scope") == 0 && argc > 3) {
        test_scope(argv[3]);
    } else if (strcmp(what, "full") == 0) {
        test_discover();
        test_limits();
        test_attach();
        test_freeze();
        test_verdicts();
        test_fork_bomb(false);
        test_fork_bomb(true);
        test_guardian();
    } else {
        fprintf(stderr, "usage: cgtest ROLE full|none|scope [GROUP]\n");
        return 2;
    }
    return failures != 0;
}
