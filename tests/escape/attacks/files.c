/* F rows, K-08, K-18, K-21, K-28: what can be found, written, linked, made and executed in the
 * visible tree. */
#include "attack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

static const char *wanted;
static unsigned long seen_files;

static bool holds_token(const char *path, off_t size)
{
    static char buf[65536];
    if (size > (off_t)sizeof buf - 1)
        return false;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, buf, sizeof buf - 1);
    close(fd);
    return n > 0 && memmem(buf, (size_t)n, wanted, strlen(wanted));
}

static int visit(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)type, (void)ftw;
    seen_files++;
    if (strstr(path, wanted))
        printf("FOUND\tname\t%s\n", path);
    if (S_ISSOCK(st->st_mode))
        printf("SOCKET\t%s\n", path);
    /* The packaged tree is large and cannot hold a token; its names were looked at. */
    bool packaged = strncmp(path, "/usr/", 5) == 0 || strncmp(path, "/sys/", 5) == 0;
    bool odd = strncmp(path, "/proc/", 6) == 0 && !strstr(path, "/environ") &&
               !strstr(path, "/cmdline") && !strstr(path, "/maps");
    if (S_ISREG(st->st_mode) && !packaged && !odd && holds_token(path, st->st_size))
        printf("FOUND\tcontent\t%s\n", path);
    return 0;
}

/* direct TOKEN [PATH…]: try PATHs for TOKEN, also through the /proc links that lead to a root */
int cmd_direct(int argc, char **argv)
{
    static const char *const roots[] = {"",
                                        "/..",
                                        "/proc/self/root",
                                        "/proc/1/root",
                                        "/proc/self/cwd/../../../../../../..",
                                        "/proc/1/cwd/../../../../../..",
                                        "/proc/thread-self/root"};
    if (argc < 2)
        return 2;
    wanted = argv[1];
    for (int i = 2; i < argc; i++) {
        for (size_t r = 0; r < sizeof roots / sizeof *roots; r++) {
            char path[1024];
            snprintf(path, sizeof path, "%s%s", roots[r], argv[i]);
            if (holds_token(path, 0))
                printf("FOUND\tdirect\t%s\n", path);
            struct stat st;
            if (lstat(path, &st) == 0 && r == 0)
                printf("STAT\t%s\n", path);
        }
    }
    return 0;
}

/* search TOKEN [PATH…]: walk everything visible for TOKEN in names and contents, then do as
 * `direct` does */
int cmd_search(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    wanted = argv[1];
    DIR *top = opendir("/");
    for (struct dirent *entry; top && (entry = readdir(top));)
        printf("TOP\t%s\n", entry->d_name);
    nftw("/", visit, 64, FTW_PHYS);
    cmd_direct(argc, argv);
    printf("SEEN\t%lu\n", seen_files);
    return 0;
}

static const char *victim_file;
static const char *victim_dir;

static int write_into(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC, 0644);
    if (fd < 0)
        return errno;
    int result = outcome(write(fd, "x", 1));
    close(fd);
    return result;
}

#define IN_DIR(name) (snprintf(made, sizeof made, "%s/%s", victim_dir, name), made)
static char made[1024];

static int run_append(void)
{
    return write_into(victim_file, O_WRONLY | O_APPEND);
}

static int run_truncate(void)
{
    return outcome(truncate(victim_file, 1));
}

static int run_create(void)
{
    return write_into(IN_DIR("escape-created"), O_WRONLY | O_CREAT);
}

static int run_mkdir(void)
{
    return outcome(mkdir(IN_DIR("escape-folder"), 0755));
}

static int run_symlink(void)
{
    return outcome(symlink("/", IN_DIR("escape-link")));
}

static int run_link(void)
{
    return outcome(link(victim_file, IN_DIR("escape-hard")));
}

static int run_rename(void)
{
    return outcome(rename(victim_file, IN_DIR("escape-renamed")));
}

static int run_unlink(void)
{
    return outcome(unlink(victim_file));
}

static int run_chmod(void)
{
    return outcome(chmod(victim_file, 0777));
}

static int run_chown(void)
{
    return outcome(chown(victim_file, getuid(), getgid()));
}

static int run_utime(void)
{
    struct utimbuf times = {1, 1};
    return outcome(utime(victim_file, &times));
}

static int run_setxattr(void)
{
    return outcome(setxattr(victim_file, "user.escape", "x", 1, 0));
}

static int run_mkfifo(void)
{
    return outcome(mkfifo(IN_DIR("escape-fifo"), 0644));
}

/* rowrite DIR FILE: every way to change a folder or a file in it; unlink comes last, it takes the
 * file away */
int cmd_rowrite(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    victim_dir = argv[1];
    victim_file = argv[2];
#define FUNC(name) PROBE("F-11", #name, run_##name)
    static const struct probe probes[] = {
        FUNC(append), FUNC(create), FUNC(mkdir),    FUNC(symlink), FUNC(link),     FUNC(chmod),
        FUNC(chown),  FUNC(utime),  FUNC(setxattr), FUNC(mkfifo),  FUNC(truncate),
    };
    static const struct probe last[] = {FUNC(rename), FUNC(unlink)};
    probes_run(probes, sizeof probes / sizeof *probes);
    if (argc < 4) /* not on the machine's own files: a success would be felt */
        probes_run(last, sizeof last / sizeof *last);
    return 0;
}

/* climb TOKEN_PATH: out of a changed root, by a folder held open and by going up */
int cmd_climb(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "/etc/passwd";
    int held = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    mkdir("escape-deeper", 0755);
    probe_print("F-02", "nested chroot", outcome(chroot("escape-deeper")));
    rmdir("escape-deeper");
    probe_print("F-02", "fchdir", outcome(fchdir(held)));
    for (int i = 0; i < 64; i++)
        if (chdir("..") < 0)
            break;
    probe_print("F-02", "relative climb", try_open(path[0] == '/' ? path + 1 : path, O_RDONLY));
    char up[600] = "";
    for (int i = 0; i < 64; i++)
        strcat(up, "../");
    strcat(up, path[0] == '/' ? path + 1 : path);
    int fd = openat(held, up, O_RDONLY | O_CLOEXEC);
    probe_print("F-02", "openat climb", fd < 0 ? errno : 0);
    return 0;
}

/* links READONLY_FILE WRITABLE_DIR: make a read-only file writable through a second name */
int cmd_links(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    char name[1024];
    snprintf(name, sizeof name, "%s/escape-hard-%d", argv[2], (int)getpid());
    int result = outcome(link(argv[1], name));
    probe_print("F-05", "link", result);
    probe_print("F-05", "write through link",
                result ? result : write_into(name, O_WRONLY | O_APPEND));
    snprintf(name, sizeof name, "%s/escape-moved-%d", argv[2], (int)getpid());
    probe_print("F-05", "rename", outcome(rename(argv[1], name)));
    snprintf(name, sizeof name, "%s/escape-soft-%d", argv[2], (int)getpid());
    result = outcome(symlink(argv[1], name));
    probe_print("F-05", "write through symlink",
                result ? result : write_into(name, O_WRONLY | O_APPEND));
    return 0;
}

/* remount: make every read-only mount writable, then write */
int cmd_remount(int argc, char **argv)
{
    FILE *mounts = argc > 1 ? NULL : fopen("/proc/self/mountinfo", "re");
    char line[1024], point[512], options[256];
    if (argc > 1)
        unshare(CLONE_NEWNS);
    int index = 1;
    for (;;) {
        if (argc > 1) {
            if (index >= argc)
                break;
            snprintf(point, sizeof point, "%s", argv[index++]);
        } else {
            if (!mounts || !fgets(line, sizeof line, mounts))
                break;
            if (sscanf(line, "%*s %*s %*s %*s %511s %255s", point, options) != 2)
                continue;
            if (strncmp(options, "ro", 2) != 0)
                continue;
        }
        int result = outcome(mount(NULL, point, NULL, MS_REMOUNT | MS_BIND, NULL));
        snprintf(made, sizeof made, "%s/escape-remount", point);
        int wrote = write_into(made, O_WRONLY | O_CREAT);
        unlink(made);
        char name[600];
        snprintf(name, sizeof name, "remount %s", point);
        probe_print("K-08", name, result);
        snprintf(name, sizeof name, "write %s", point);
        probe_print("K-08", name, wrote);
    }
    if (!mounts && argc < 2)
        probe_print("K-08", "mountinfo", errno);
    return 0;
}

/* nodes PATH…: device files that came with a folder */
int cmd_nodes(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        int fd = open(argv[i], O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
        char byte;
        int result = fd < 0 ? errno : outcome(read(fd, &byte, 1));
        probe_print("F-12", argv[i], result);
    }
    return 0;
}
