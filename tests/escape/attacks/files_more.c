/* More of the filesystem: attributes, set-id files, execution from writable places, shared memory
 * names, kernel control files, socket files. */
#include "attack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <mqueue.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

/* xattrs DIR: privileged attribute classes, a set-id file, and how much room attributes take */
int cmd_xattrs(int argc, char **argv)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/escape-attributes", argc > 1 ? argv[1] : "/tmp");
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0755);
    probe_print("F-19", "create", fd < 0 ? errno : 0);
    if (fd < 0)
        return 0;
    /* a valid revision-2 capability attribute with cap_sys_admin */
    static const unsigned caps[5] = {0x02000001, 0x00200000, 0, 0, 0};
    probe_print("F-19", "security.capability",
                outcome(fsetxattr(fd, "security.capability", caps, 20, 0)));
    probe_print("F-19", "trusted.escape", outcome(fsetxattr(fd, "trusted.escape", "x", 1, 0)));
    probe_print("F-19", "security.escape", outcome(fsetxattr(fd, "security.escape", "x", 1, 0)));
    static char block[60000];
    unsigned long total = 0;
    for (int i = 0; i < 4096; i++) {
        char name[32];
        snprintf(name, sizeof name, "user.escape%d", i);
        if (fsetxattr(fd, name, block, sizeof block, 0) < 0)
            break;
        total += sizeof block;
    }
    printf("USER\t%lu\n", total);
    fflush(stdout);
    probe_print("F-13", "fchmod set-uid", outcome(fchmod(fd, 06755)));
    struct stat st = {0};
    fstat(fd, &st);
    printf("MODE\t%o\n", st.st_mode & 07777);
    close(fd);
    unlink(path);
    return 0;
}

static int copy_self(const char *to)
{
    int in = open((const char *)getauxval(AT_EXECFN), O_RDONLY | O_CLOEXEC);
    if (in < 0)
        return errno;
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
    if (out < 0)
        return errno;
    static char buf[65536];
    for (ssize_t n; (n = read(in, buf, sizeof buf)) > 0;)
        if (write(out, buf, (size_t)n) != n)
            return ENOSPC;
    close(in);
    close(out);
    return 0;
}

/* Runs a program and says whether it really ran (it exits with 77). */
static int ran(const char *path, char *const argv[], int fd)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (fd >= 0)
            fexecve(fd, argv, environ);
        else
            execv(path, argv);
        _exit(errno == EACCES ? 101 : errno == EPERM ? 102 : 103);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    if (!WIFEXITED(status))
        return ECANCELED;
    switch (WEXITSTATUS(status)) {
    case 77:
        return 0;
    case 101:
        return EACCES;
    case 102:
        return EPERM;
    default:
        return ENOEXEC;
    }
}

/* exec DIR…: write a program there and run it directly, and through the side doors */
int cmd_exec(int argc, char **argv)
{
    char *args[] = {"attack", "die", "77", NULL};
    for (int i = 1; i < argc; i++) {
        char path[1024], name[1100];
        snprintf(path, sizeof path, "%s/escape-program", argv[i]);
        int result = copy_self(path);
        snprintf(name, sizeof name, "copy %s", argv[i]);
        probe_print("K-28", name, result);
        if (result)
            continue;
        snprintf(name, sizeof name, "direct %s", argv[i]);
        probe_print("K-28", name, ran(path, args, -1));
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        snprintf(name, sizeof name, "fexecve %s", argv[i]);
        probe_print("K-29", name, ran(path, args, fd));
        void *map = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
        snprintf(name, sizeof name, "map %s", argv[i]);
        probe_print("K-29", name, map == MAP_FAILED ? errno : 0);
        close(fd);
        unlink(path);
    }
    int memory = memfd_create("escape", MFD_CLOEXEC);
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", memory);
    int result = memory < 0 ? errno : copy_self(link);
    probe_print("K-29", "memfd", result ? result : ran("", args, memory));
    return 0;
}

#define KEY 0x62726967

static int look_up(bool make, const char *name)
{
    (void)name;
    return shmget(KEY, 4096, make ? IPC_CREAT | 0666 : 0) < 0 ? errno : 0;
}

/* ipc make|find|remove NAME: objects with a fixed key in every System V and POSIX kind */
int cmd_ipc(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    bool make = strcmp(argv[1], "make") == 0;
    char name[128];
    snprintf(name, sizeof name, "/%s", argv[2]);
    if (strcmp(argv[1], "remove") == 0) {
        shmctl(shmget(KEY, 0, 0), IPC_RMID, NULL);
        semctl(semget(KEY, 0, 0), 0, IPC_RMID);
        msgctl(msgget(KEY, 0), IPC_RMID, NULL);
        shm_unlink(name);
        sem_unlink(name);
        mq_unlink(name);
        return 0;
    }
    probe_print("K-22", "shm", look_up(make, name));
    probe_print("K-22", "sem", outcome(semget(KEY, 1, make ? IPC_CREAT | 0666 : 0)));
    probe_print("K-22", "msg", outcome(msgget(KEY, make ? IPC_CREAT | 0666 : 0)));
    int fd = shm_open(name, make ? O_CREAT | O_RDWR : O_RDONLY, 0666);
    probe_print("K-22", "posix shm", fd < 0 ? errno : 0);
    sem_t *semaphore = make ? sem_open(name, O_CREAT, 0666, 1) : sem_open(name, 0);
    probe_print("K-22", "posix sem", semaphore == SEM_FAILED ? errno : 0);
    mqd_t queue = mq_open(name, make ? O_CREAT | O_RDWR : O_RDONLY, 0666, NULL);
    probe_print("K-22", "mqueue", queue == (mqd_t)-1 ? errno : 0);
    if (make && argc > 3) {
        say("made\n");
        sleep((unsigned)strtoul(argv[3], NULL, 10));
    }
    return 0;
}

/* await PATH FILE SECONDS: once PATH exists, try to use what is behind it */
int cmd_await(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    say("waiting\n");
    struct stat st;
    int rounds = (int)(strtod(argv[3], NULL) * 50);
    while (stat(argv[1], &st) < 0 && rounds-- > 0)
        usleep(20000);
    if (stat(argv[1], &st) < 0) {
        probe_print("await", "exists", errno);
        return 0;
    }
    probe_print("await", "exists", 0);
    probe_print("await", "list", try_open(argv[1], O_RDONLY | O_DIRECTORY));
    char path[1024], other[1024];
    snprintf(path, sizeof path, "%s/%s", argv[1], argv[2]);
    snprintf(other, sizeof other, "%s/escape-new", argv[1]);
    probe_print("await", "read", try_open(path, O_RDONLY));
    probe_print("await", "write", try_open(path, O_WRONLY));
    probe_print("await", "truncate", outcome(truncate(path, 0)));
    probe_print("await", "create", try_open(other, O_WRONLY | O_CREAT));
    probe_print("await", "rename", outcome(rename(path, other)));
    probe_print("await", "unlink", outcome(unlink(other)));
    return 0;
}

static unsigned long opened_for_write;

static int visit_control(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)type, (void)ftw;
    static char own[32];
    snprintf(own, sizeof own, "/proc/%d/", (int)getpid());
    bool mine = strncmp(path, own, strlen(own)) == 0 || strncmp(path, "/proc/self", 10) == 0 ||
                (path[6] >= '0' && path[6] <= '9');
    if (S_ISREG(st->st_mode) && !mine && try_open(path, O_WRONLY) == 0) {
        opened_for_write++;
        printf("WRITABLE\t%s\n", path);
    }
    return 0;
}

/* controls: open every kernel file below /proc and /sys for writing. Never run outside: opening is
 * an act. */
int cmd_controls(int argc, char **argv)
{
    (void)argc, (void)argv;
    nftw("/proc", visit_control, 32, FTW_PHYS);
    nftw("/sys", visit_control, 32, FTW_PHYS);
    printf("OPENED\t%lu\n", opened_for_write);
    return 0;
}

static int visit_socket(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)type, (void)ftw;
    if (S_ISSOCK(st->st_mode))
        printf("SOCKET\t%s\n", path);
    return 0;
}

int cmd_sockets(int argc, char **argv)
{
    nftw(argc > 1 ? argv[1] : "/", visit_socket, 64, FTW_PHYS);
    return 0;
}
