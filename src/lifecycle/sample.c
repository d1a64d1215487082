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
#include <sys/stat.h>
#include <unistd.h>

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
    inodes_done(&s->layers);
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

/* What is said of several looks: the last thing that went wrong. */
static void note(int *worst, int result)
{
    if (result < 0)
        *worst = result;
}

/* ---- one process ---- */

/* Its status says nothing of memory: so it is with a process that ends, which gives it back before
 * it is gone. Of any other it was not seen. */
static int has_none(const struct processes *list, const struct process *p)
{
    char pid[16];
    struct process now;
    snprintf(pid, sizeof pid, "%d", (int)p->seen.pid);
    int result = process_read(list->proc, pid, &now);
    if (result <= 0)
        return result;
    return (now.ended || now.ending) && now.tasks < 2 ? 0 : -EBADMSG;
}

static int add_memory(const struct processes *list, const struct process *p, const char *at,
                      struct sampled *s)
{
    char path[80], few[PROC_STATUS_SIZE];
    cleanup_free char *many = NULL;
    snprintf(path, sizeof path, "%s/status", at);
    const char *text = procfs_status_text(list->proc, path, few, &many);
    if (!text)
        return sample_is_gone(errno) ? 0 : -errno;
    if (!sample_has_memory(text))
        return has_none(list, p);
    s->memory += sample_memory_parse(text);
    s->shared += sample_kib_parse(text, "\nRssShmem:");
    uint64_t data = sample_kib_parse(text, "\nVmData:");
    if (data > s->data_max)
        s->data_max = data;
    return 0;
}

/* Since Linux 6.2 the size of /proc/PID/fd is the number of descriptors. */
static int count_files(int proc, const char *at, struct sampled *s)
{
    char path[80];
    struct stat sb;
    snprintf(path, sizeof path, "%s/fd", at);
    if (fstatat(proc, path, &sb, 0) < 0)
        return sample_is_gone(errno) ? 0 : -errno;
    if ((uint64_t)sb.st_size > s->open_files_max)
        s->open_files_max = (uint64_t)sb.st_size;
    return 0;
}

static int add_counters(const struct lifecycle *l, const struct processes *list,
                        const struct process *p, struct sampled *ret)
{
    char at[PROCESS_NAME_SIZE];
    int worst = 0;
    ret->tasks += p->tasks;
    if (p->ended && p->tasks < 2)
        return 0;
    process_name(list, p, at);
    if (!lifecycle_counts_memory(l))
        note(&worst, add_memory(list, p, at, ret));
    note(&worst, count_files(list->proc, at, ret));
    return worst;
}

/* ---- CPU time of processes that nobody waited for ---- */

static struct process_seen *find_now(const struct processes *now, pid_t pid)
{
    struct process *p = processes_find(now, pid);
    return p ? &p->seen : NULL;
}

/* The kernel adds the time of an ended process to that of the process that waited for it. If none
 * did, because its parent ignores SIGCHLD, it vanishes from everywhere: what was last seen of it is
 * kept here. Processes that were waited for show in the growth of an ancestor's time. */

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

static int remember_all(struct sampler *s, const struct processes *now)
{
    struct process_seen *copy = reallocarray(s->before, now->count ? now->count : 1, sizeof *copy);
    s->before_count = 0; /* those who are gone count once, also if nobody can be remembered */
    if (!copy)
        return -ENOMEM;
    for (size_t i = 0; i < now->count; i++)
        copy[i] = now->items[i].seen;
    s->before = copy;
    s->before_count = now->count;
    return 0;
}

static int add_cpu(const struct lifecycle *l, struct processes *now, struct sampled *ret)
{
    struct sampler *s = l->sampler;
    uint64_t ticks = 0;
    int result = 0;
    for (size_t i = 0; i < now->count; i++)
        ticks += now->items[i].seen.own + now->items[i].seen.reaped;
    /* A cgroup counts processes that have ended too; without one, add what was last seen of
     * them. */
    if (s && !l->cgroup) {
        settle_gone(s, now, now->own ? 1 : l->init_pid);
        result = remember_all(s, now);
        ticks += s->lost_ticks;
    }
    ret->cpu_usec = ticks_to_usec(ticks);
    return result;
}

/* ---- all of it ---- */

int sample_tasks(const struct lifecycle *l, struct sampled *ret)
{
    struct processes list;
    *ret = (struct sampled){0};
    int worst = processes_read(l, &list);
    for (size_t i = 0; i < list.count; i++)
        note(&worst, add_counters(l, &list, &list.items[i], ret));
    note(&worst, add_cpu(l, &list, ret));
    processes_done(&list);
    return worst;
}

int sample_host_memory(struct host_memory *ret)
{
    char text[4096];
    ssize_t n = file_read(AT_FDCWD, "/proc/meminfo", text, sizeof text);
    if (n < 0)
        return (int)n;
    *ret = (struct host_memory){.left = sample_kib_parse(text, "\nMemAvailable:"),
                                .all = sample_kib_parse(text, "MemTotal:"),
                                .unreclaimed = sample_kib_parse(text, "\nSUnreclaim:")};
    return 0;
}

static int count_user(DIR *dir, uid_t uid, uint64_t *tasks)
{
    struct dirent *e;
    int worst = 0;
    while ((errno = 0, e = readdir(dir))) {
        struct stat sb;
        struct process p;
        if (!process_is_named(e->d_name) || fstatat(dirfd(dir), e->d_name, &sb, 0) < 0 ||
            sb.st_uid != uid)
            continue;
        int result = process_read(dirfd(dir), e->d_name, &p);
        *tasks += result > 0 ? p.tasks : 0;
        note(&worst, result);
    }
    return errno ? -errno : worst;
}

int sample_user_tasks(uid_t uid, uint64_t *ret)
{
    DIR *dir = opendir("/proc");
    *ret = 0;
    if (!dir)
        return -errno;
    int result = count_user(dir, uid, ret);
    closedir(dir);
    return result;
}
