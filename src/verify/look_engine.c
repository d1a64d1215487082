/* The tasks of an engine, read from the host's /proc while the code behind it holds what it was
 * given: namespaces, devices. The code's word about those is the engine's; this is the host's. */
#include "verify/row.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "os/fd.h"
#include "os/procfs.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#define NULL_DEVICE makedev(1, 3)

static bool differ(pid_t a, pid_t b, char *seen, size_t size)
{
    struct err err = ERR_INIT;
    uint64_t one[NS_COUNT], other[NS_COUNT];
    if (procfs_namespaces(a, one, &err) < 0 || procfs_namespaces(b, other, &err) < 0) {
        snprintf(seen, size, "it cannot be looked at: %.150s", err.message);
        return true;
    }
    for (int ns = 0; ns < NS_COUNT; ns++)
        if (one[ns] != other[ns]) {
            snprintf(seen, size, "a task of the engine is in another %s namespace than it",
                     proc_ns_name((enum proc_ns)ns));
            return true;
        }
    return false;
}

/* The control: one that this host's kernel did make is seen. */
static bool differ_from_child(char *seen, size_t size)
{
    int said[2];
    char byte = 0;
    if (pipe2(said, O_CLOEXEC) < 0)
        return false;
    pid_t pid = fork();
    if (pid == 0) {
        byte = unshare(CLONE_NEWUSER) == 0;
        if (write(said[1], &byte, 1) == 1)
            pause();
        _exit(0);
    }
    close(said[1]);
    bool made = pid > 0 && read(said[0], &byte, 1) == 1 && byte;
    bool found = made && differ(getpid(), pid, seen, size);
    close(said[0]);
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    return found;
}

bool look_engine_namespaces(const struct sight *s, char *seen, size_t size)
{
    return s->outside ? differ_from_child(seen, size) : differ(s->engine, s->pid, seen, size);
}

static bool is_device(int dir, const char *name, char *seen, size_t size)
{
    struct stat sb;
    if (fstatat(dir, name, &sb, 0) < 0 || !(S_ISCHR(sb.st_mode) || S_ISBLK(sb.st_mode)) ||
        sb.st_rdev == NULL_DEVICE)
        return false;
    snprintf(seen, size, "it has device %u:%u of the host open", major(sb.st_rdev),
             minor(sb.st_rdev));
    return true;
}

/* Meanwhile the code holds each device open that it could. */
bool look_engine_devices(const struct sight *s, char *seen, size_t size)
{
    char path[40];
    cleanup_fd int own = s->outside ? open("/dev/zero", O_RDONLY | O_CLOEXEC) : -1;
    (void)own; /* the control: is to be found */
    snprintf(path, sizeof path, "/proc/%d/fd", s->pid);
    DIR *dir = opendir(path);
    bool found = !dir;
    snprintf(seen, size, "its descriptors cannot be looked at");
    for (struct dirent *e; dir && !found && (e = readdir(dir));)
        found = e->d_name[0] != '.' && is_device(dirfd(dir), e->d_name, seen, size);
    if (dir)
        closedir(dir);
    return found;
}

static bool thread_without(const char *tid, int filters, char *seen, size_t size)
{
    struct err err = ERR_INIT;
    struct proc_status st;
    if (procfs_status((pid_t)strtol(tid, NULL, 10), &st, &err) < 0) {
        snprintf(seen, size, "it cannot be looked at: %.150s", err.message);
        return true;
    }
    snprintf(seen, size, "thread %.10s: seccomp mode %d, %d filters of brig's", tid, st.seccomp,
             st.seccomp_filters - filters);
    return st.seccomp != 2 || st.seccomp_filters - filters < 2;
}

/* Each processor of the guest is a thread, and a filter is a thread's: the sandbox's and one of its
 * own. We may ourselves be under somebody's. */
bool look_monitor_threads(const struct sight *s, char *seen, size_t size)
{
    struct err err = ERR_INIT;
    struct proc_status own;
    char path[40];
    unsigned count = 0;
    snprintf(path, sizeof path, "/proc/%d/task", s->pid);
    DIR *dir = procfs_status(getpid(), &own, &err) < 0 ? NULL : opendir(path);
    bool found = !dir;
    snprintf(seen, size, "its threads cannot be looked at");
    for (struct dirent *e; dir && !found && (e = readdir(dir));) {
        if (e->d_name[0] == '.')
            continue;
        count++;
        found = thread_without(e->d_name, own.seccomp_filters, seen, size);
    }
    if (dir)
        closedir(dir);
    if (!found && count < 2)
        snprintf(seen, size, "it has %u threads: no processor's is there", count);
    return found || count < 2;
}

static bool is_runsc(const char *command)
{
    return text_begins(command, "runsc-");
}

/* brig alone says with which options runsc runs: no variable reaches it, and what it is told about
 * sockets of the host is no. */
bool look_engine_options(const struct sight *s, char *seen, size_t size)
{
    char path[40], text[4096];
    snprintf(path, sizeof path, "/proc/%d/cmdline", s->pid);
    ssize_t len = file_read(AT_FDCWD, path, text, sizeof text);
    if (!s->outside && (len <= 0 || !is_runsc(text)))
        return false;
    bool closed = false;
    for (const char *at = text; at < text + len; at += strlen(at) + 1)
        closed |= strcmp(at, "--host-uds=none") == 0;
    snprintf(path, sizeof path, "/proc/%d/environ", s->pid);
    ssize_t more = file_read(AT_FDCWD, path, text, sizeof text);
    snprintf(seen, size, "runsc was started %s",
             more ? "with variables" : "without being told to keep to its own sockets");
    return more != 0 || !closed;
}
