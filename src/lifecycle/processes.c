/* The processes that belong to a sandbox, as /proc lists them. */
#include "lifecycle/sample.h"

#include "base/cleanup.h"
#include "os/fd.h"
#include "os/procfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define SAMPLE_TASKS_MAX 65536

bool sample_is_gone(int error)
{
    return error == ENOENT || error == ESRCH;
}

/* ---- one process ---- */

bool process_is_named(const char *name)
{
    return name[0] >= '1' && name[0] <= '9';
}

int process_read(int proc, const char *pid, struct process *ret)
{
    char path[64], text[768];
    struct proc_stat s;
    snprintf(path, sizeof path, "%s/stat", pid);
    ssize_t n = file_read(proc, path, text, sizeof text);
    if (n < 0)
        return sample_is_gone((int)-n) ? 0 : (int)n;
    if (!procfs_stat_parse(text, &s))
        return -EBADMSG;
    *ret = (struct process){.seen = {.pid = (pid_t)strtol(pid, NULL, 10),
                                     .ppid = s.ppid,
                                     .start = s.start,
                                     .own = s.own,
                                     .reaped = s.reaped},
                            .tasks = s.tasks,
                            .ended = s.ended,
                            .ending = s.ending};
    return 1;
}

/* A process whose first thread has ended shows neither memory nor descriptors, and may have both:
 * any other thread of it does. */
void process_name(const struct processes *list, const struct process *p,
                  char out[static PROCESS_NAME_SIZE])
{
    char path[48];
    snprintf(out, PROCESS_NAME_SIZE, "%d", (int)p->seen.pid);
    if (!p->ended || p->tasks < 2)
        return;
    snprintf(path, sizeof path, "%d/task", (int)p->seen.pid);
    DIR *dir = folder_open(list->proc, path);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        long tid = strtol(e->d_name, NULL, 10);
        if (tid <= 0 || tid == p->seen.pid)
            continue;
        snprintf(out, PROCESS_NAME_SIZE, "%d/task/%ld", (int)p->seen.pid, tid);
        break;
    }
    if (dir)
        closedir(dir);
}

void lifecycle_started_own(struct lifecycle *l, pid_t pid)
{
    char name[16];
    struct process p;
    if (!l->looks || pid <= 1)
        return;
    cleanup_fd int proc = l->namespaced && l->proc_fd >= 0
                              ? openat(l->proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                              : open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    snprintf(name, sizeof name, "%d", (int)pid);
    if (proc < 0 || process_read(proc, name, &p) <= 0)
        return; /* it has ended, or counts as one of the code's: the safe side */
    l->own[l->own_next++ % LIFECYCLE_OWN_MAX] =
        (struct own_task){.pid = pid, .start = p.seen.start};
}

bool process_is_own(const struct lifecycle *l, const struct process *p)
{
    for (unsigned i = 0; i < LIFECYCLE_OWN_MAX; i++)
        if (l->own[i].pid == p->seen.pid && l->own[i].start == p->seen.start)
            return true;
    return false;
}

bool process_is_init(const struct lifecycle *l, const struct processes *list,
                     const struct process *p)
{
    return p->seen.pid == (list->own ? 1 : l->init_pid);
}

/* A process that hides from its own user, until the other end of the line is closed, which the
 * death of its parent does as well. */
static void hide(int line)
{
    char byte = 'x';
    prctl(PR_SET_DUMPABLE, 0);
    if (write(line, &byte, 1) == 1)
        while (read(line, &byte, 1) < 0 && errno == EINTR)
            ;
    _exit(0);
}

static int is_hidden(pid_t pid, int line)
{
    char name[16], byte;
    struct process p;
    if (read(line, &byte, 1) != 1)
        return -EIO;
    cleanup_fd int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (proc < 0)
        return -errno;
    snprintf(name, sizeof name, "%d", (int)pid);
    return process_read(proc, name, &p) <= 0;
}

/* Asked of the kernel itself: /proc may be mounted with hidepid, and this user be exempt. */
int processes_can_hide(void)
{
    int line[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, line) < 0)
        return -errno;
    pid_t pid = fork();
    int result = pid < 0 ? -errno : 0;
    if (pid == 0) {
        close(line[0]);
        hide(line[1]);
    }
    close(line[1]);
    if (pid > 0)
        result = is_hidden(pid, line[0]);
    close(line[0]);
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    return result;
}

/* ---- all of them ---- */

static int push(struct processes *list, const struct process *p)
{
    if (list->count == SAMPLE_TASKS_MAX)
        return -E2BIG;
    if (list->count == list->room) {
        size_t room = list->room ? list->room * 2 : 256;
        struct process *more = reallocarray(list->items, room, sizeof *more);
        if (!more)
            return -ENOMEM;
        list->items = more;
        list->room = room;
    }
    list->items[list->count++] = *p;
    return 0;
}

/* On a host that hides them (hidepid=1) others' processes are listed and cannot be read. None of
 * the sandbox's is among them: where they could hide so, there is no run (processes_can_hide). */
static bool is_others(const struct processes *list, int result)
{
    return !list->own && (result == -EPERM || result == -EACCES);
}

static int read_open(DIR *dir, struct processes *list)
{
    struct dirent *e;
    int worst = 0;
    while ((errno = 0, e = readdir(dir))) {
        struct process p;
        if (!process_is_named(e->d_name))
            continue;
        int result = process_read(list->proc, e->d_name, &p);
        if (result > 0 && (result = push(list, &p)) < 0)
            return result;
        if (result < 0 && !is_others(list, result))
            worst = result;
    }
    return errno ? -errno : worst;
}

static int read_all(struct processes *list)
{
    DIR *dir = folder_open(list->proc, ".");
    if (!dir)
        return -errno;
    int result = read_open(dir, list);
    closedir(dir);
    return result;
}

static int by_pid(const void *a, const void *b)
{
    const struct process *x = a, *y = b;
    return x->seen.pid < y->seen.pid ? -1 : x->seen.pid > y->seen.pid;
}

struct process *processes_find(const struct processes *list, pid_t pid)
{
    const struct process wanted = {.seen.pid = pid};
    return list->count ? bsearch(&wanted, list->items, list->count, sizeof wanted, by_pid) : NULL;
}

/* From here upwards until somebody is known: all on the way are on that side. A list that was read
 * while numbers changed hands may lead in a circle, which is nowhere. */
static void take_side(struct processes *list, struct process *p)
{
    const struct process *known = p;
    for (size_t steps = 0; known && known->side == SIDE_UNKNOWN; steps++)
        known = steps < list->count ? processes_find(list, known->seen.ppid) : NULL;
    enum side side = known ? known->side : SIDE_OUTSIDE;
    for (; p && p->side == SIDE_UNKNOWN; p = processes_find(list, p->seen.ppid))
        p->side = side;
}

/* Without a pid namespace the sandbox is what lies below init. A parent may have the higher
 * number. */
static void keep_below(struct processes *list, pid_t top)
{
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].seen.pid == top || list->items[i].seen.ppid == top)
            list->items[i].side = SIDE_INSIDE;
    for (size_t i = 0; i < list->count; i++)
        take_side(list, &list->items[i]);
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].side == SIDE_INSIDE)
            list->items[kept++] = list->items[i];
    list->count = kept;
}

int processes_read(const struct lifecycle *l, struct processes *ret)
{
    bool own = l->namespaced && l->proc_fd >= 0;
    int proc = own ? l->proc_fd : open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *ret = (struct processes){.proc = proc, .own = own};
    int result = proc < 0 ? -errno : read_all(ret);
    if (ret->count)
        qsort(ret->items, ret->count, sizeof *ret->items, by_pid);
    if (!own)
        keep_below(ret, l->init_pid);
    return result;
}

void processes_done(struct processes *list)
{
    free(list->items);
    if (!list->own && list->proc >= 0)
        close(list->proc);
}
