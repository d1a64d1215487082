/* Attacks on the filesystem boundary: the host's files, by every way that has led to them before.
 */
#include "verify/attack.h"

#include "base/cleanup.h"
#include "os/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

int attack_read_canary(struct attempt *a)
{
    return attack_read(a, a->place->file);
}

int attack_write_canary(struct attempt *a)
{
    cleanup_fd int fd = open(a->place->file, O_WRONLY | O_APPEND | O_CLOEXEC);
    return fd < 0 ? errno : attack_result(write(fd, "x", 1));
}

/* Landlock guards contents; that a file exists is hidden by the private root alone. */
int attack_stat_canary(struct attempt *a)
{
    struct stat sb;
    if (stat(a->place->file, &sb) < 0)
        return errno;
    attack_say(a, "%s exists, and is seen", a->place->file);
    return 0;
}

int attack_create(struct attempt *a)
{
    char path[PLACE_PATH + 16];
    snprintf(path, sizeof path, "%s/made", a->place->drop);
    cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return errno;
    if (a->outside)
        unlink(path);
    return 0;
}

int attack_link(struct attempt *a)
{
    char path[512];
    snprintf(path, sizeof path, "%s/hard", attack_scratch(a));
    int code = attack_result(link(a->place->file, path));
    if (code == 0 && a->outside)
        unlink(path);
    return code;
}

int attack_list_tmp(struct attempt *a)
{
    const char *name = strrchr(a->place->folder, '/') + 1;
    char parent[64];
    snprintf(parent, sizeof parent, "%.*s", (int)(name - 1 - a->place->folder), a->place->folder);
    DIR *dir = opendir(parent);
    if (!dir)
        return errno;
    bool found = false;
    for (struct dirent *e; !found && (e = readdir(dir));)
        found = strcmp(e->d_name, name) == 0;
    closedir(dir);
    if (!found)
        return ATTACK_NOTHING;
    attack_say(a, "the host's %s is listed", parent);
    return 0;
}

/* What an installer in a writable root begins with, and the home that every sandbox has. */
static bool is_of_sandbox(const char *folder, const char *name)
{
    if (strcmp(folder, "/var/lib") == 0)
        return strcmp(name, "dpkg") == 0 || strcmp(name, "apt") == 0;
    return strcmp(name, "user") == 0;
}

int attack_list_homes(struct attempt *a)
{
    static const char *const homes[] = {"/root", "/home", "/var/lib", "/srv", "/mnt", "/boot"};
    int code = ENOENT;
    for (size_t i = 0; i < ARRAY_LEN(homes); i++) {
        DIR *dir = opendir(homes[i]);
        if (!dir) {
            code = errno;
            continue;
        }
        bool found = false;
        for (struct dirent *e; !found && (e = readdir(dir));)
            found = e->d_name[0] != '.' && !is_of_sandbox(homes[i], e->d_name);
        closedir(dir);
        if (found) {
            attack_say(a, "%s is listed", homes[i]);
            return 0;
        }
        code = ATTACK_NOTHING;
    }
    return code;
}

/* Links in /proc that lead past every view: root and cwd of other tasks. */
int attack_proc_root(struct attempt *a)
{
    char path[160];
    int code = ENOENT;
    const int tasks[] = {1, (int)getppid(), a->place->victim};
    for (size_t i = 0; i < ARRAY_LEN(tasks); i++) {
        snprintf(path, sizeof path, "/proc/%d/root%s", tasks[i], a->place->file);
        if ((code = attack_read(a, path)) == 0)
            return 0;
    }
    return code;
}

/* Out of a chroot by a descriptor from before it, and up as far as it goes. */
int attack_climb(struct attempt *a)
{
    struct stat sb;
    char inside[512];
    snprintf(inside, sizeof inside, "%s/cell", attack_scratch(a));
    mkdir(inside, 0755);
    cleanup_fd int before = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool caged = before >= 0 && chroot(inside) == 0 && fchdir(before) == 0;
    for (int i = 0; i < 64 && chdir("..") == 0; i++)
        ;
    if (!caged && chdir("/") < 0)
        return errno;
    if (stat(a->place->file + 1, &sb) < 0)
        return errno;
    attack_say(a, "%s was reached from above", a->place->file);
    return 0;
}

int attack_shadow(struct attempt *a)
{
    static const char *const files[] = {"/etc/shadow",         "/etc/sudoers", "/etc/machine-id",
                                        "/etc/ssh/ssh_config", "/etc/fstab",   "/etc/crontab"};
    int code = ENOENT;
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        code = attack_open(files[i], O_RDONLY);
        if (code == 0) {
            attack_say(a, "%s can be read", files[i]);
            return 0;
        }
    }
    return code;
}

/* A file that the view shows and no Landlock rule covers. Outside any plain file will do. */
int attack_landlock(struct attempt *a)
{
    return a->outside || !a->place->namespaced ? attack_open(a->place->file, O_RDONLY)
                                               : attack_open("/.landlock", O_RDONLY);
}

int attack_device_node(struct attempt *a)
{
    char path[512];
    snprintf(path, sizeof path, "%s/node", attack_scratch(a));
    int code = attack_result(mknod(path, S_IFCHR | 0666, makedev(1, 3)));
    if (code == 0)
        unlink(path);
    return code;
}

static int copy_file(const char *from, const char *to)
{
    char block[65536];
    cleanup_fd int in = open(from, O_RDONLY | O_CLOEXEC);
    cleanup_fd int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
    if (in < 0 || out < 0)
        return errno;
    for (ssize_t n; (n = read(in, block, sizeof block)) != 0;)
        if (n < 0 || write(out, block, (size_t)n) != n)
            return errno ? errno : EIO;
    return fchmod(out, 0755) < 0 ? errno : 0;
}

int attack_exec_written(struct attempt *a)
{
    char path[512];
    snprintf(path, sizeof path, "%s/program", attack_scratch(a));
    int code = copy_file(a->outside ? a->place->tool : "/proc/self/exe", path);
    if (code)
        return code;
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_WRONLY);
        dup2(null, 1);
        execl(path, "brig", "--version", NULL);
        _exit(errno);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    unlink(path);
    return WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
}

int attack_system_write(struct attempt *a)
{
    char path[PLACE_PATH + 16];
    static const char *const folders[] = {"/usr", "/etc", "/"};
    int code = 0;
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        snprintf(path, sizeof path, "%s/brig-verify", a->outside ? a->place->drop : folders[i]);
        cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd >= 0) {
            unlink(path);
            attack_say(a, "a file could be made in %s", folders[i]);
            return 0;
        }
        code = errno;
    }
    return code;
}

/* As an engine's, a bus's or an agent's socket would be used. */
int attack_socket(struct attempt *a)
{
    return attack_dial(a->place->socket);
}

int attack_grant_socket(struct attempt *a)
{
    char path[PLACE_PATH + 16];
    snprintf(path, sizeof path, "%s/socket", a->place->ro);
    return attack_dial(path);
}
