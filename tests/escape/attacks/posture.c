/* K-01, K-02, K-12, K-17, K-25: what a process of the sandbox finds about itself: descriptors,
 * capabilities, limits, the terminal, and the program files of its neighbours. */
#include "attack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void print_caps(const char *who)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};
    if (syscall(SYS_capget, &head, data) < 0) {
        printf("%s.capget\t%s\n", who, strerrorname_np(errno));
    } else {
        printf("%s.effective\t%08x%08x\n", who, data[1].effective, data[0].effective);
        printf("%s.permitted\t%08x%08x\n", who, data[1].permitted, data[0].permitted);
        printf("%s.inheritable\t%08x%08x\n", who, data[1].inheritable, data[0].inheritable);
    }
    unsigned bounding = 0, ambient = 0;
    for (int cap = 0; cap < 64; cap++) {
        bounding += prctl(PR_CAPBSET_READ, cap) == 1;
        ambient += prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, cap, 0, 0) == 1;
    }
    printf("%s.bounding\t%u\n%s.ambient\t%u\n", who, bounding, who, ambient);
}

static void print_self(const char *who)
{
    print_caps(who);
    printf("%s.no_new_privs\t%d\n", who, prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
    printf("%s.seccomp\t%d\n", who, prctl(PR_GET_SECCOMP));
    uid_t real, effective, saved;
    if (getresuid(&real, &effective, &saved) == 0)
        printf("%s.uids\t%u,%u,%u\n", who, real, effective, saved);
    gid_t rgid, egid, sgid;
    if (getresgid(&rgid, &egid, &sgid) == 0)
        printf("%s.gids\t%u,%u,%u\n", who, rgid, egid, sgid);
    gid_t groups[64];
    printf("%s.groups\t%d\n", who, getgroups(64, groups));
    static const struct {
        int id;
        const char *name;
    } limits[] = {{RLIMIT_CORE, "core"},   {RLIMIT_NOFILE, "nofile"}, {RLIMIT_MEMLOCK, "memlock"},
                  {RLIMIT_MSGQUEUE, "mq"}, {RLIMIT_RTPRIO, "rtprio"}, {RLIMIT_NICE, "nice"}};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct rlimit r;
        if (getrlimit(limits[i].id, &r) == 0)
            printf("%s.rlimit_%s\t%lld\n", who, limits[i].name, (long long)r.rlim_max);
    }
}

static void *thread_main(void *arg)
{
    (void)arg;
    print_self("thread");
    return NULL;
}

/* posture: the first process, a thread of it, a child and a grandchild that was executed anew */
int cmd_posture(int argc, char **argv)
{
    if (argc > 1) {
        print_self(argv[1]);
        return 0;
    }
    print_self("first");
    pthread_t thread;
    if (pthread_create(&thread, NULL, thread_main, NULL) == 0)
        pthread_join(thread, NULL);
    char cwd[256];
    printf("cwd\t%s\n", getcwd(cwd, sizeof cwd) ? cwd : strerrorname_np(errno));
    printf("pid\t%d\n", (int)getpid());
    /* What only Landlock refuses: a write to an own /proc file and an unknown ioctl on a device. */
    probe_print("landlock", "oom_score_adj", try_open("/proc/self/oom_score_adj", O_WRONLY));
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        print_self("child");
        fflush(stdout);
        if (fork() == 0) {
            execl((const char *)getauxval(AT_EXECFN), "attack", "posture", "grandchild", NULL);
            _exit(3);
        }
        wait(NULL);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    return 0;
}

/* fds TOKEN_NAME: every open descriptor, where it leads, and whether a climb from it finds the
 * token file */
int cmd_fds(int argc, char **argv)
{
    const char *token = argc > 1 ? argv[1] : "token";
    for (int fd = 0; fd < 4096; fd++) {
        struct stat st;
        if (fcntl(fd, F_GETFD) < 0 || fstat(fd, &st) < 0)
            continue;
        char link[64], target[256] = "?";
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, target, sizeof target - 1);
        if (n > 0)
            target[n] = '\0';
        printf("fd\t%d\t%o\t%s\n", fd, st.st_mode & S_IFMT, target);
        char climb[256] = "";
        for (int up = 0; up < 4; up++) {
            char path[512];
            snprintf(path, sizeof path, "%s%s", climb, token);
            int found = openat(fd, path, O_RDONLY | O_CLOEXEC);
            if (found >= 0)
                printf("REACHED\t%d\topenat %s\n", fd, path);
            strcat(climb, "../");
        }
        if (fchdir(fd) == 0 && fd > 2)
            printf("REACHED\t%d\tfchdir\n", fd);
        char buf[128] = "";
        if (fd > 2 && S_ISREG(st.st_mode) && pread(fd, buf, sizeof buf - 1, 0) > 0)
            printf("REACHED\t%d\tread %.100s\n", fd, buf);
        if (fd > 2 && S_ISSOCK(st.st_mode))
            printf("REACHED\t%d\tsocket\n", fd);
    }
    return 0;
}

/* Writing the byte that is already there proves the power to write without using it. */
static int identity_write(int fd)
{
    char first;
    int in = -1, result = EBADF;
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    in = open(link, O_RDONLY | O_CLOEXEC);
    if (in < 0 || pread(in, &first, 1, 0) != 1)
        result = errno;
    int out = open(link, O_WRONLY | O_CLOEXEC);
    result = out < 0 ? errno : outcome(pwrite(out, &first, 1, 0));
    if (out >= 0)
        close(out);
    if (in >= 0)
        close(in);
    return result;
}

/* exewrite [HELPER]: try to write the program file of every visible task; with HELPER, hold the
 * file of a program that then ends (a running one is busy), which is how the runtime's own binary
 * was once overwritten */
int cmd_exewrite(int argc, char **argv)
{
    for (int pid = 1; pid < 256; pid++) {
        char path[64], name[96];
        snprintf(path, sizeof path, "/proc/%d/exe", pid);
        int fd = open(path, O_PATH | O_CLOEXEC);
        if (fd < 0)
            continue;
        struct stat st = {0};
        fstat(fd, &st);
        snprintf(name, sizeof name, "%d dev %lu ino %lu", pid, (unsigned long)st.st_dev,
                 (unsigned long)st.st_ino);
        probe_print("exe", name, identity_write(fd));
        close(fd);
    }
    if (argc > 1) {
        pid_t pid = fork();
        if (pid == 0) {
            execl(argv[1], argv[1], "stubborn", "30", NULL);
            _exit(127);
        }
        char path[64];
        snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
        struct stat running = {0}, wanted = {0};
        for (int i = 0; i < 1000 && (stat(path, &running) < 0 || stat(argv[1], &wanted) < 0 ||
                                     running.st_ino != wanted.st_ino);
             i++)
            usleep(10000);
        int fd = open(path, O_PATH | O_CLOEXEC);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        probe_print("exe", "held after end", fd < 0 ? errno : identity_write(fd));
    }
    return 0;
}

/* tiocsti TEXT: type into the terminal that the sandbox was started from */
int cmd_tiocsti(int argc, char **argv)
{
    const char *text = argc > 1 ? argv[1] : "x";
    for (int i = 0; i < 4; i++) {
        int fd = i < 3 ? i : open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
        int result = fd < 0 ? errno : 0;
        for (const char *c = text; result == 0 && *c; c++)
            result = outcome(ioctl(fd, TIOCSTI, c));
        char name[32];
        snprintf(name, sizeof name, i < 3 ? "fd %d" : "/dev/tty", i);
        probe_print("tiocsti", name, result);
    }
    return 0;
}

/* startup: what an early hook sees; called by the preload library and by hand */
int cmd_startup(int argc, char **argv)
{
    (void)argc, (void)argv;
    printf("startup\tseccomp=%d no_new_privs=%d uid=%u\n", prctl(PR_GET_SECCOMP),
           prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), (unsigned)getuid());
    return 0;
}
