/* Looking at the sandbox's tasks from outside, for what no kernel counter says. */
#include "lifecycle/lifecycle.h"

#include "os/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SAMPLE_TASKS_MAX 65536

#define DELETED_MAX 4096

struct deleted_files {
    ino_t ino[DELETED_MAX];
    size_t count;
};

static uint64_t ticks_to_usec(uint64_t ticks)
{
    static long hz;
    if (!hz)
        hz = sysconf(_SC_CLK_TCK);
    return ticks * 1000000u / (uint64_t)(hz > 0 ? hz : 100);
}

/* Fields 14 to 17 after the name: utime stime cutime cstime. A reaped child is counted by who
 * reaped it. */
static void add_stat(int proc, const char *pid, struct sampled *s, pid_t *ppid)
{
    char path[64], text[768];
    snprintf(path, sizeof path, "%s/stat", pid);
    if (file_read(proc, path, text, sizeof text) <= 0)
        return;
    char *at = strrchr(text, ')');
    if (!at || strlen(at) < 4)
        return;
    at += 4;
    *ppid = (pid_t)strtol(at, &at, 10);
    for (int field = 5; field <= 13; field++)
        strtoull(at, &at, 10);
    uint64_t ticks = 0;
    for (int field = 14; field <= 17; field++)
        ticks += strtoull(at, &at, 10);
    strtoll(at, &at, 10);
    strtoll(at, &at, 10);
    s->tasks += strtoull(at, &at, 10);
    s->cpu_usec += ticks_to_usec(ticks);
}

static uint64_t status_kib(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    return at ? strtoull(at + strlen(name), NULL, 10) * 1024u : 0;
}

/* Memory that belongs to this process, page tables included. Shared memory is counted for everyone
 * who maps it: where nothing better than sampling can be had, too much is the safe side. */
static void add_memory(int proc, const char *pid, struct sampled *s)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "%s/status", pid);
    if (file_read(proc, path, text, sizeof text) <= 0)
        return;
    s->memory += status_kib(text, "\nRssAnon:") + status_kib(text, "\nRssShmem:") +
                 status_kib(text, "\nVmPTE:");
    uint64_t data = status_kib(text, "\nVmData:");
    if (data > s->data_max)
        s->data_max = data;
}

/* Since Linux 6.2 the size of /proc/PID/fd is the number of descriptors. */
static void add_files(int proc, const char *pid, struct sampled *s)
{
    char path[64];
    struct stat sb;
    snprintf(path, sizeof path, "%s/fd", pid);
    if (fstatat(proc, path, &sb, 0) == 0 && (uint64_t)sb.st_size > s->open_files_max)
        s->open_files_max = (uint64_t)sb.st_size;
}

/* Files that were deleted but are still open: no walk of the folder finds them. Each is counted
 * once, however many descriptors lead to it. */
static void add_deleted(const struct lifecycle *l, pid_t pid, struct deleted_files *seen,
                        struct sampled *s)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        struct stat sb;
        if (e->d_name[0] == '.' || fstatat(dirfd(dir), e->d_name, &sb, 0) < 0 || sb.st_nlink > 0 ||
            sb.st_dev != l->work_dev || !S_ISREG(sb.st_mode))
            continue;
        bool known = false;
        for (size_t i = 0; !known && i < seen->count; i++)
            known = seen->ino[i] == sb.st_ino;
        if (known)
            continue;
        if (seen->count < DELETED_MAX)
            seen->ino[seen->count++] = sb.st_ino;
        s->deleted_bytes += (uint64_t)sb.st_blocks * 512u;
    }
    if (dir)
        closedir(dir);
}

struct process {
    pid_t pid, ppid;
    struct sampled use;
    bool inside;
};

static void read_process(int proc, const char *name, bool with_memory, struct process *p)
{
    *p = (struct process){.pid = (pid_t)strtol(name, NULL, 10)};
    add_stat(proc, name, &p->use, &p->ppid);
    if (with_memory)
        add_memory(proc, name, &p->use);
    add_files(proc, name, &p->use);
}

static void add(struct sampled *sum, const struct sampled *one)
{
    sum->memory += one->memory;
    sum->cpu_usec += one->cpu_usec;
    sum->tasks += one->tasks;
    if (one->open_files_max > sum->open_files_max)
        sum->open_files_max = one->open_files_max;
    if (one->data_max > sum->data_max)
        sum->data_max = one->data_max;
}

/* Without a pid namespace the sandbox is what lies below init. Parents may come after children in
 * the list, so mark until nothing changes. */
static void sum_below(struct process *list, size_t count, pid_t top, struct sampled *sum)
{
    bool changed = true;
    for (int round = 0; changed && round < 64; round++) {
        changed = false;
        for (size_t i = 0; i < count; i++) {
            bool below = list[i].pid == top || list[i].ppid == top;
            for (size_t j = 0; !below && !list[i].inside && j < count; j++)
                below = list[j].inside && list[j].pid == list[i].ppid;
            if (below && !list[i].inside)
                list[i].inside = changed = true;
        }
    }
    for (size_t i = 0; i < count; i++)
        if (list[i].inside)
            add(sum, &list[i].use);
}

static bool is_pid(const char *name)
{
    return name[0] >= '1' && name[0] <= '9';
}

/* All processes of the host; the caller frees the list. */
static struct process *list_host(bool with_memory, size_t *ret_count)
{
    size_t count = 0, room = 0;
    struct process *list = NULL;
    DIR *dir = opendir("/proc");
    for (struct dirent *e; dir && count < SAMPLE_TASKS_MAX && (e = readdir(dir));) {
        if (!is_pid(e->d_name))
            continue;
        if (count == room) {
            struct process *more = realloc(list, (room = room ? room * 2 : 256) * sizeof *list);
            if (!more)
                break;
            list = more;
        }
        read_process(dirfd(dir), e->d_name, with_memory, &list[count++]);
    }
    if (dir)
        closedir(dir);
    *ret_count = count;
    return list;
}

static void sample_host(const struct lifecycle *l, struct sampled *ret)
{
    size_t count;
    struct process *list = list_host(!l->cgroup, &count);
    sum_below(list, count, l->init_pid, ret);
    free(list);
}

void sample_deleted(const struct lifecycle *l, struct sampled *ret)
{
    static struct deleted_files seen;
    struct sampled sum = {0};
    size_t count;
    struct process *list = list_host(false, &count);
    *ret = (struct sampled){0};
    sum_below(list, count, l->init_pid, &sum);
    seen.count = 0;
    for (size_t i = 0; i < count; i++)
        if (list[i].inside)
            add_deleted(l, list[i].pid, &seen, ret);
    free(list);
}

static void sample_own_proc(const struct lifecycle *l, struct sampled *ret)
{
    int copy = openat(l->proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        struct process p;
        if (!is_pid(e->d_name))
            continue;
        read_process(l->proc_fd, e->d_name, !l->cgroup, &p);
        add(ret, &p.use);
    }
    if (dir)
        closedir(dir);
}

void sample_tasks(const struct lifecycle *l, struct sampled *ret)
{
    *ret = (struct sampled){0};
    if (l->namespaced && l->proc_fd >= 0)
        sample_own_proc(l, ret);
    else
        sample_host(l, ret);
}

uint64_t sample_user_tasks(uid_t uid)
{
    uint64_t tasks = 0;
    DIR *dir = opendir("/proc");
    for (struct dirent *e; dir && (e = readdir(dir));) {
        struct stat sb;
        struct sampled s = {0};
        pid_t ppid;
        if (!is_pid(e->d_name) || fstatat(dirfd(dir), e->d_name, &sb, 0) < 0 || sb.st_uid != uid)
            continue;
        add_stat(dirfd(dir), e->d_name, &s, &ppid);
        tasks += s.tasks;
    }
    if (dir)
        closedir(dir);
    return tasks;
}
