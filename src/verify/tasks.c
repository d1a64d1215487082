/* Finds the tasks of an engine below a supervisor, and tells afterwards whether one is left. A task
 * that was made later is found by the pid namespace that all of them share. */
#include "verify/tasks.h"

#include "base/cleanup.h"
#include "os/fd.h"
#include "os/procfs.h"
#include "os/sys.h"
#include "verify/canaries.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* As an engine is called: by where it is shown, or, without a private root, by its own name; a
 * monitor gives itself one. */
static const char *const engine_names[] = {".brig-tool", "brig-gvisor", "brig-vmm"};

bool task_lives(const struct host_task *t)
{
    struct proc_stat s;
    return procfs_stat(t->pid, &s) && !s.ended && s.start == t->start;
}

static void add(struct tasks *t, pid_t pid)
{
    struct proc_stat s;
    if (t->count < TASKS_MAX && procfs_stat(pid, &s) && !s.ended)
        t->list[t->count++] = (struct host_task){pid, s.start};
}

static uint64_t pid_namespace(pid_t pid)
{
    struct err err = ERR_INIT;
    uint64_t all[NS_COUNT];
    return procfs_namespaces(pid, all, &err) < 0 ? 0 : all[NS_PID];
}

/* The kernel gives the number of a namespace that is gone to the next one that is made, which may
 * be that of somebody else's sandbox: whoever goes by the number holds the namespace. */
static void hold_namespace(struct tasks *t, pid_t pid)
{
    char path[32];
    struct stat sb;
    snprintf(path, sizeof path, "/proc/%d/ns/pid", pid);
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &sb) < 0 || sb.st_ino == pid_namespace(getpid()))
        return;
    t->pid_ns = sb.st_ino;
    t->pid_ns_fd = fd_steal(&fd);
}

void tasks_done(struct tasks *t)
{
    if (t->pid_ns)
        close(t->pid_ns_fd);
    *t = (struct tasks){0};
}

void tasks_find(struct tasks *ret, pid_t supervisor)
{
    pid_t engine = 0;
    tasks_done(ret);
    for (size_t i = 0; !engine && i < ARRAY_LEN(engine_names); i++)
        engine = marked_below(engine_names[i], supervisor);
    if (!engine)
        return;
    add(ret, engine);
    DIR *proc = opendir("/proc");
    for (struct dirent *e; proc && (e = readdir(proc));) {
        pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
        if (pid > 0 && pid != engine && is_below(pid, engine))
            add(ret, pid);
    }
    if (proc)
        closedir(proc);
    hold_namespace(ret, engine);
}

static void end_task(const struct host_task *t)
{
    cleanup_fd int fd = sys_pidfd_open(t->pid);
    /* Looked at again while the descriptor keeps the number from being given away. */
    if (fd >= 0 && task_lives(t))
        sys_pidfd_send_signal(fd, SIGKILL);
}

static bool is_listed(const struct tasks *t, pid_t pid)
{
    for (unsigned i = 0; i < t->count; i++)
        if (t->list[i].pid == pid)
            return true;
    return false;
}

static unsigned others_alive(const struct tasks *t, bool end)
{
    unsigned found = 0;
    DIR *proc = t->pid_ns ? opendir("/proc") : NULL;
    for (struct dirent *e; proc && (e = readdir(proc));) {
        struct proc_stat s;
        pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
        if (pid <= 0 || is_listed(t, pid) || !procfs_stat(pid, &s) || s.ended ||
            pid_namespace(pid) != t->pid_ns)
            continue;
        found++;
        if (end)
            end_task(&(struct host_task){pid, s.start});
    }
    if (proc)
        closedir(proc);
    return found;
}

unsigned tasks_alive(const struct tasks *t, bool end)
{
    unsigned found = others_alive(t, end);
    for (unsigned i = 0; i < t->count; i++) {
        if (!task_lives(&t->list[i]))
            continue;
        found++;
        if (end)
            end_task(&t->list[i]);
    }
    return found;
}

bool tasks_end_sentry(const struct tasks *t)
{
    for (unsigned i = 0; i < t->count; i++) {
        char path[40], name[32];
        snprintf(path, sizeof path, "/proc/%d/cmdline", t->list[i].pid);
        if (file_read(AT_FDCWD, path, name, sizeof name) <= 0 || strcmp(name, "runsc-sandbox") != 0)
            continue;
        end_task(&t->list[i]);
        return true;
    }
    return false;
}
