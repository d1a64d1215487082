/* What the kernel counts for each task of a sandbox, added up. Counters only: no descriptor,
 * mapping or path of a task's is touched here (ER-1), and what they say is there at once, however
 * busy the machine is. */
#include "lifecycle/sample.h"
#include "lifecycle/sample_parse.h"

#include "base/cleanup.h"
#include "os/fd.h"
#include "os/procfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SAMPLE_TASKS_MAX 65536

struct sampler *sampler_new(void)
{
    struct sampler *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->pipe_bytes = SAMPLE_PIPE_PAGES * (uint64_t)sysconf(_SC_PAGESIZE);
    s->socket_bytes = 2 * sample_socket_buffer();
    return s;
}

void sampler_free(struct sampler *s)
{
    if (!s)
        return;
    free(s->before);
    inodes_done(&s->open);
    inodes_done(&s->known);
    inodes_done(&s->ending);
    inodes_done(&s->ending_before);
    free(s);
}

static uint64_t ticks_to_usec(uint64_t ticks)
{
    static long hz;
    if (!hz)
        hz = sysconf(_SC_CLK_TCK);
    return ticks * 1000000u / (uint64_t)(hz > 0 ? hz : 100);
}

/* ---- one process ---- */

static bool read_stat(int proc, const char *pid, struct process *ret)
{
    char path[64], text[768];
    struct proc_stat s;
    snprintf(path, sizeof path, "%s/stat", pid);
    if (file_read(proc, path, text, sizeof text) <= 0 || !procfs_stat_parse(text, &s))
        return false;
    *ret = (struct process){.seen = {.pid = (pid_t)strtol(pid, NULL, 10),
                                     .ppid = s.ppid,
                                     .start = s.start,
                                     .own = s.own,
                                     .reaped = s.reaped},
                            .tasks = s.tasks,
                            .ended = s.ended};
    return true;
}

static void add_memory(int proc, const char *at, struct sampled *s)
{
    char path[80], text[4096];
    snprintf(path, sizeof path, "%s/status", at);
    if (file_read(proc, path, text, sizeof text) <= 0)
        return;
    s->memory += sample_memory_parse(text);
    uint64_t data = sample_kib_parse(text, "\nVmData:");
    if (data > s->data_max)
        s->data_max = data;
}

/* Since Linux 6.2 the size of /proc/PID/fd is the number of descriptors. */
static void count_files(int proc, const char *at, struct sampled *s)
{
    char path[80];
    struct stat sb;
    snprintf(path, sizeof path, "%s/fd", at);
    if (fstatat(proc, path, &sb, 0) == 0 && (uint64_t)sb.st_size > s->open_files_max)
        s->open_files_max = (uint64_t)sb.st_size;
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
    int fd = openat(list->proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        long tid = strtol(e->d_name, NULL, 10);
        if (tid <= 0 || tid == p->seen.pid)
            continue;
        snprintf(out, PROCESS_NAME_SIZE, "%d/task/%ld", (int)p->seen.pid, tid);
        break;
    }
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
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
    if (proc < 0 || !read_stat(proc, name, &p))
        return; /* it has ended */
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

static void add_counters(const struct lifecycle *l, const struct processes *list,
                         const struct process *p, struct sampled *ret)
{
    char at[PROCESS_NAME_SIZE];
    ret->tasks += p->tasks;
    if (p->ended && p->tasks < 2)
        return;
    process_name(list, p, at);
    if (!lifecycle_counts_memory(l))
        add_memory(list->proc, at, ret);
    count_files(list->proc, at, ret);
}

/* ---- all of them ---- */

static bool is_pid(const char *name)
{
    return name[0] >= '1' && name[0] <= '9';
}

static bool push(struct processes *list, const struct process *p)
{
    if (list->count == list->room) {
        size_t room = list->room ? list->room * 2 : 256;
        struct process *more = realloc(list->items, room * sizeof *more);
        if (!more)
            return false;
        list->items = more;
        list->room = room;
    }
    list->items[list->count++] = *p;
    return true;
}

/* A process that ends meanwhile is none. */
static bool read_all(struct processes *list)
{
    int copy = openat(list->proc, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    if (!dir) {
        if (copy >= 0)
            close(copy);
        return false;
    }
    bool good = true;
    struct dirent *e;
    while (good && (errno = 0, e = readdir(dir))) {
        struct process p;
        if (is_pid(e->d_name) && read_stat(list->proc, e->d_name, &p))
            good = list->count < SAMPLE_TASKS_MAX && push(list, &p);
    }
    good = good && errno == 0;
    closedir(dir);
    return good;
}

static int by_pid(const void *a, const void *b)
{
    const struct process *x = a, *y = b;
    return x->seen.pid < y->seen.pid ? -1 : x->seen.pid > y->seen.pid;
}

static struct process_seen *find_now(const struct processes *now, pid_t pid)
{
    const struct process wanted = {.seen.pid = pid};
    struct process *p =
        now->count ? bsearch(&wanted, now->items, now->count, sizeof wanted, by_pid) : NULL;
    return p ? &p->seen : NULL;
}

/* Without a pid namespace the sandbox is what lies below init. A parent may have the higher number,
 * so mark until nothing changes. */
static void mark_below(struct processes *list, pid_t top)
{
    bool changed = true;
    for (int round = 0; changed && round < 64; round++) {
        changed = false;
        for (size_t i = 0; i < list->count; i++) {
            struct process_seen *p = &list->items[i].seen;
            const struct process_seen *parent = p->inside ? NULL : find_now(list, p->ppid);
            if (p->inside || (p->pid != top && p->ppid != top && !(parent && parent->inside)))
                continue;
            p->inside = changed = true;
        }
    }
}

static void keep_below(struct processes *list, pid_t top)
{
    size_t kept = 0;
    mark_below(list, top);
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].seen.inside)
            list->items[kept++] = list->items[i];
    list->count = kept;
}

bool processes_read(const struct lifecycle *l, struct processes *ret)
{
    bool own = l->namespaced && l->proc_fd >= 0;
    int proc = own ? l->proc_fd : open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *ret = (struct processes){.proc = proc, .own = own};
    bool whole = proc >= 0 && read_all(ret);
    if (ret->count)
        qsort(ret->items, ret->count, sizeof *ret->items, by_pid);
    if (!own)
        keep_below(ret, l->init_pid);
    return whole;
}

void processes_done(struct processes *list)
{
    free(list->items);
    if (!list->own && list->proc >= 0)
        close(list->proc);
}

/* ---- CPU time of processes that nobody waited for ---- */

/* The kernel adds the time of an ended process to that of who waited for it. If nobody did, because
 * its parent ignores SIGCHLD, it vanishes from everywhere: what was last seen of it is kept here.
 * Who ended and was waited for is known by the growth of an ancestor's account. */

static int seen_by_pid(const void *a, const void *b)
{
    const struct process_seen *x = a, *y = b;
    return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static const struct process_seen *find_before(const struct sampler *s, pid_t pid)
{
    const struct process_seen wanted = {.pid = pid};
    return s->before_count
               ? bsearch(&wanted, s->before, s->before_count, sizeof wanted, seen_by_pid)
               : NULL;
}

static struct process_seen *living_ancestor(const struct sampler *s, struct processes *now,
                                            const struct process_seen *gone)
{
    for (int depth = 0; gone && depth < 64; depth++) {
        struct process_seen *parent = find_now(now, gone->ppid);
        if (parent)
            return parent;
        gone = find_before(s, gone->ppid);
    }
    return NULL;
}

static uint64_t explain(struct process_seen *by, uint64_t ticks)
{
    uint64_t part = !by ? 0 : by->reaped_growth < ticks ? by->reaped_growth : ticks;
    if (by)
        by->reaped_growth -= part;
    return ticks - part;
}

static void settle_gone(struct sampler *s, struct processes *now, pid_t init)
{
    for (size_t i = 0; i < now->count; i++) {
        struct process_seen *p = &now->items[i].seen;
        const struct process_seen *old = find_before(s, p->pid);
        bool same = old && old->start == p->start;
        p->reaped_growth = same && p->reaped > old->reaped ? p->reaped - old->reaped
                           : same                          ? 0
                                                           : p->reaped;
    }
    for (size_t i = 0; i < s->before_count; i++) {
        const struct process_seen *old = &s->before[i];
        const struct process_seen *still = find_now(now, old->pid);
        if (still && still->start == old->start)
            continue;
        uint64_t left = explain(living_ancestor(s, now, old), old->own + old->reaped);
        s->lost_ticks += explain(find_now(now, init), left);
    }
}

static void remember_all(struct sampler *s, const struct processes *now)
{
    struct process_seen *copy = realloc(s->before, (now->count ? now->count : 1) * sizeof *copy);
    if (!copy)
        return;
    for (size_t i = 0; i < now->count; i++)
        copy[i] = now->items[i].seen;
    s->before = copy;
    s->before_count = now->count;
}

static void add_cpu(const struct lifecycle *l, struct processes *now, struct sampled *ret)
{
    struct sampler *s = l->sampler;
    uint64_t ticks = 0;
    for (size_t i = 0; i < now->count; i++)
        ticks += now->items[i].seen.own + now->items[i].seen.reaped;
    /* A cgroup counts processes that have ended too; without one, add what was last seen of
     * them. */
    if (s && !l->cgroup) {
        settle_gone(s, now, now->own ? 1 : l->init_pid);
        remember_all(s, now);
        ticks += s->lost_ticks;
    }
    ret->cpu_usec = ticks_to_usec(ticks);
}

/* ---- all of it ---- */

void sample_tasks(const struct lifecycle *l, struct sampled *ret)
{
    struct processes list;
    *ret = (struct sampled){0};
    ret->blind = !processes_read(l, &list);
    for (size_t i = 0; i < list.count; i++)
        add_counters(l, &list, &list.items[i], ret);
    add_cpu(l, &list, ret);
    processes_done(&list);
}

uint64_t sample_host_free(uint64_t *ret_all)
{
    char text[1024];
    if (file_read(AT_FDCWD, "/proc/meminfo", text, sizeof text) <= 0)
        text[0] = '\0';
    if (ret_all)
        *ret_all = sample_kib_parse(text, "MemTotal:");
    return sample_kib_parse(text, "\nMemAvailable:");
}

uint64_t sample_user_tasks(uid_t uid)
{
    uint64_t tasks = 0;
    DIR *dir = opendir("/proc");
    for (struct dirent *e; dir && (e = readdir(dir));) {
        struct stat sb;
        struct process p;
        if (is_pid(e->d_name) && fstatat(dirfd(dir), e->d_name, &sb, 0) == 0 && sb.st_uid == uid &&
            read_stat(dirfd(dir), e->d_name, &p))
            tasks += p.tasks;
    }
    if (dir)
        closedir(dir);
    return tasks;
}
