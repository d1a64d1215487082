/* K-09, K-10, K-11, K-20: attacks on another process, by its number: a host process of the same
 * user, the supervisor, the sandbox's init. The victim counts what reached it. */
#include "attack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t target;
static unsigned long target_address; /* something readable in the victim, if known */

static volatile sig_atomic_t signals_seen;

static volatile sig_atomic_t asked;

static void count_signal(int number)
{
    if (number == SIGHUP)
        asked = 1;
    else
        signals_seen++;
}

/* victim FILE: waits to be attacked; writes "ready" and then every signal that came, to FILE. To a
 * SIGHUP it answers "so far" when everything that came before it is written down. */
int cmd_victim(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = count_signal};
    static const int numbers[] = {SIGURG, SIGUSR1, SIGUSR2, SIGIO, SIGTERM, SIGWINCH, SIGHUP};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaction(numbers[i], &action, NULL);
    int fd = argc > 1 ? open(argv[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644) : 1;
    static char secret[32] = "victim";
    dprintf(fd, "ready %lu\n", (unsigned long)secret);
    for (int told = 0;;) {
        usleep(20000);
        bool answer = asked; /* looked at first: what comes later is not part of the answer */
        int seen = signals_seen;
        if (seen != told)
            dprintf(fd, "signals %d\n", told = seen);
        if (strcmp(secret, "victim") != 0)
            dprintf(fd, "memory changed\n");
        if (answer) {
            asked = 0;
            dprintf(fd, "so far\n");
        }
    }
}

static int pidfd(void)
{
    return (int)syscall(SYS_pidfd_open, target, 0);
}

static int run_pidfd_getfd(void)
{
    int fd = pidfd();
    return fd < 0 ? errno : outcome(syscall(SYS_pidfd_getfd, fd, 0, 0));
}

static int run_pidfd_signal(void)
{
    int fd = pidfd();
    return fd < 0 ? errno : outcome(syscall(SYS_pidfd_send_signal, fd, SIGURG, NULL, 0));
}

static int run_setns_pidfd(void)
{
    int fd = pidfd();
    return fd < 0 ? errno : outcome(setns(fd, CLONE_NEWUTS));
}

static int run_setns_link(void)
{
    static const char *const kinds[] = {"uts", "net", "ipc", "mnt", "pid", "cgroup", "user"};
    int result = ENOENT;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%d/ns/%s", (int)target, kinds[i]);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        result = fd < 0 ? errno : outcome(setns(fd, 0));
        if (result == 0)
            return 0;
    }
    return result;
}

static int run_ptrace_attach(void)
{
    int result = outcome(ptrace(PTRACE_ATTACH, target, NULL, NULL));
    if (result == 0) {
        waitpid(target, NULL, __WALL);
        ptrace(PTRACE_DETACH, target, NULL, NULL);
    }
    return result;
}

static int run_ptrace_seize(void)
{
    int result = outcome(ptrace(PTRACE_SEIZE, target, NULL, NULL));
    if (result == 0)
        ptrace(PTRACE_DETACH, target, NULL, NULL);
    return result;
}

static int vm_access(long nr)
{
    char byte = 'v';
    struct iovec local = {&byte, 1}, remote = {(void *)target_address, 1};
    return outcome(syscall(nr, target, &local, 1, &remote, 1, 0));
}

static int run_vm_read(void)
{
    return vm_access(SYS_process_vm_readv);
}

static int run_vm_write(void)
{
    return vm_access(SYS_process_vm_writev);
}

static int open_proc(const char *file, int flags)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)target, file);
    return try_open(path, flags);
}

static int run_proc_mem(void)
{
    return open_proc("mem", O_RDWR);
}

static int run_proc_environ(void)
{
    return open_proc("environ", O_RDONLY);
}

static int run_proc_maps(void)
{
    return open_proc("maps", O_RDONLY);
}

static int run_proc_root(void)
{
    return open_proc("root/", O_RDONLY | O_DIRECTORY);
}

static int run_proc_cwd(void)
{
    return open_proc("cwd/", O_RDONLY | O_DIRECTORY);
}

static int run_proc_fd(void)
{
    return open_proc("fd/0", O_RDONLY);
}

static int run_proc_oom(void)
{
    return open_proc("oom_score_adj", O_WRONLY);
}

static int run_kill_urg(void)
{
    return outcome(kill(target, SIGURG));
}

static int run_kill_probe(void)
{
    return outcome(kill(target, 0));
}

static int run_tgkill(void)
{
    return outcome(syscall(SYS_tgkill, target, target, SIGURG));
}

static int run_tkill(void)
{
    return outcome(syscall(SYS_tkill, target, SIGURG));
}

static int run_sigqueue(void)
{
    union sigval value = {.sival_int = 0};
    return outcome(sigqueue(target, SIGURG, value));
}

static int run_kill_group(void)
{
    pid_t group = getpgid(target);
    if (group < 0)
        return errno;
    return outcome(kill(-group, SIGURG));
}

/* The kernel sends the signal for us when the descriptor becomes ready. */
static int run_fowner_signal(void)
{
    int fds[2];
    if (pipe(fds) < 0 || fcntl(fds[0], F_SETOWN, target) < 0)
        return errno;
    if (fcntl(fds[0], F_SETSIG, SIGURG) < 0 || fcntl(fds[0], F_SETFL, O_ASYNC | O_NONBLOCK) < 0)
        return errno;
    return write(fds[1], "x", 1) == 1 ? 0 : errno; /* the victim knows whether it came */
}

static int run_prlimit(void)
{
    struct rlimit limit = {.rlim_cur = 0, .rlim_max = 0};
    return outcome(prlimit(target, RLIMIT_NICE, &limit, NULL));
}

static int run_setpriority(void)
{
    return outcome(setpriority(PRIO_PROCESS, (id_t)target, 19));
}

static int run_setpriority_user(void)
{
    if (getuid() == 0)
        return EPERM; /* the control must not renice the whole machine */
    return outcome(setpriority(PRIO_USER, 0, 1));
}

static int run_scheduler(void)
{
    struct sched_param p = {0};
    return outcome(sched_setscheduler(target, SCHED_IDLE, &p));
}

static int run_affinity(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    return outcome(sched_setaffinity(target, sizeof set, &set));
}

static int run_ioprio(void)
{
    return outcome(syscall(SYS_ioprio_set, 1, target, (3 << 13) | 7));
}

static int run_robust_list(void)
{
    void *head;
    size_t len;
    return outcome(syscall(SYS_get_robust_list, target, &head, &len));
}

static int run_kcmp(void)
{
    return outcome(syscall(SYS_kcmp, getpid(), target, 2 /* files */, 0, 0));
}

#define FUNC(row, name) PROBE(row, #name, run_##name)
static const struct probe probes[] = {
    FUNC("K-09", pidfd_getfd),   FUNC("K-09", setns_pidfd),      FUNC("K-09", setns_link),
    FUNC("K-10", ptrace_attach), FUNC("K-10", ptrace_seize),     FUNC("K-10", vm_read),
    FUNC("K-10", vm_write),      FUNC("K-10", proc_mem),         FUNC("K-10", proc_environ),
    FUNC("K-10", proc_maps),     FUNC("K-10", proc_root),        FUNC("K-10", proc_cwd),
    FUNC("K-10", proc_fd),       FUNC("K-10", proc_oom),         FUNC("K-10", robust_list),
    FUNC("K-10", kcmp),          FUNC("K-20", kill_probe),       FUNC("K-20", kill_urg),
    FUNC("K-20", pidfd_signal),  FUNC("K-20", tgkill),           FUNC("K-20", tkill),
    FUNC("K-20", sigqueue),      FUNC("K-20", kill_group),       FUNC("K-20", prlimit),
    FUNC("K-20", scheduler),     FUNC("K-20", affinity),         FUNC("K-20", ioprio),
    FUNC("K-20", setpriority),   FUNC("K-20", setpriority_user),
};
static const struct probe fowner = PROBE("K-20", "fowner_signal", run_fowner_signal);

static void attack_pid(pid_t pid, unsigned long address)
{
    target = pid;
    target_address = address;
    probes_run(probes, sizeof probes / sizeof *probes);
    probe_run(&fowner);
}

/* peer PID [ADDRESS] */
int cmd_peer(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    attack_pid((pid_t)strtol(argv[1], NULL, 10), argc > 2 ? strtoul(argv[2], NULL, 10) : 0);
    return 0;
}

static void list_tasks(void)
{
    DIR *dir = opendir("/proc");
    if (!dir) {
        printf("tasks\t%s\n", strerrorname_np(errno));
        return;
    }
    for (struct dirent *entry; (entry = readdir(dir));)
        if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9')
            printf("task\t%s\n", entry->d_name);
    closedir(dir);
}

static int run_kill_everyone(void)
{
    return outcome(kill(-1, SIGURG));
}

/* init: the helper that lives in the sandbox (our parent or pid 1), everyone at once, and a list of
 * all we see */
int cmd_init(int argc, char **argv)
{
    (void)argc, (void)argv;
    pid_t helper = getppid();
    printf("helper\t%d\n", (int)helper);
    list_tasks();
    fflush(stdout);
    attack_pid(helper > 0 ? helper : 1, 0);
    static const struct probe everyone = PROBE("K-20", "kill_everyone", run_kill_everyone);
    probe_run(&everyone);
    return 0;
}

/* killinit KILL|STOP FILE: daemons first, then the helper above us is ended or stopped; do the
 * daemons live on? */
int cmd_killinit(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    int sig = strcmp(argv[1], "STOP") == 0 ? SIGSTOP : SIGKILL;
    pid_t helper = getppid();
    for (int i = 0; i < 3; i++) {
        if (fork() != 0)
            continue;
        setsid();
        for (int beat = 0; beat < 12000; beat++) {
            int fd = open(argv[2], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
            if (fd >= 0 && write(fd, ".", 1) == 1)
                close(fd);
            usleep(50000);
        }
        _exit(0);
    }
    await_size(argv[2], 3);
    probe_print("K-11", "signal to the helper", outcome(kill(helper, sig)));
    usleep(300000);
    probe_print("K-11", "parent is still the helper", getppid() == helper ? 0 : ESRCH);
    sleep(600);
    return 0;
}
