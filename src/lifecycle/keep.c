/* Which limits the kernel keeps here, which brig can only watch, and what such a one can be overrun
 * by. One table, from which a start is refused, a person is told, and the receipt is written: what
 * is promised and what is said cannot differ (LC-4, LC-5). */
#include "lifecycle/keep.h"

#include "base/buf.h"
#include "base/cleanup.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A sandbox of the daemon that stands still is looked at four times a second. */
#define OFTEN          "40 times a second while it works"
#define WATCHED_MEMORY "sampling " OFTEN ", and RLIMIT_DATA of four times as much per process"
/* Of a number that is the level's own: lifecycle_strict_memory. */
#define LENIENT_OVERRUN                                                                            \
    "what lies in pipes, sockets and shared memory without a file; what is allocated between two " \
    "looks; the kernel's own objects; the run is ended when the host itself has little left"
#define MEMORY_OVERRUN                                                                             \
    "what is allocated between two looks; what no look sees: the kernel's own objects (mappings, " \
    "open files, rules) and descriptors in flight; the run is ended when the host itself "         \
    "has little left"
#define CPU_OVERRUN                                                                                \
    "the time of processes that nobody waits for and that end between two looks: at most the "     \
    "timeout times the processors"
#define PIDS_OVERRUN                                                                               \
    "as many tasks as other programs of the same user have ended meanwhile, until the next look"
#define DISK_OVERRUN                                                                               \
    "what is written between two looks, or within the five seconds that a look may stay away"
#define NOT_AT_ALL "all of it: nothing holds it"

static void keep(struct keepers *k, enum policy_field field, uint64_t value, const char *name,
                 const char *by, const char *overrun)
{
    k->items[k->count++] = (struct keeper){field, name, value, by, overrun};
}

static void keep_memory(const struct lifecycle *l, struct keepers *k)
{
    bool counted = lifecycle_counts_memory(l);
    const char *group = l->group.version == CGROUP_V1
                            ? "cgroup, swap off, with a part of it for the buffers of sockets"
                            : "cgroup, swap off";
    const char *watched = l->reserves ? "sampling " OFTEN : WATCHED_MEMORY;
    keep(k, FIELD_MEMORY, l->policy->memory, "memory", counted ? group : watched,
         counted                      ? NULL
         : lifecycle_strict_memory(l) ? MEMORY_OVERRUN
                                      : LENIENT_OVERRUN);
}

/* In a user namespace, or under a uid of its own, the kernel counts the sandbox's tasks alone. */
bool keep_counts_own_tasks(const struct lifecycle *l)
{
    return l->namespaced || l->private_uid;
}

static void keep_pids(const struct lifecycle *l, struct keepers *k)
{
    bool group = l->cgroup && (l->group.controllers & CGROUP_PIDS);
    bool own = keep_counts_own_tasks(l);
    keep(k, FIELD_PIDS, l->policy->pids, "pids",
         group ? "cgroup"
         : own ? "RLIMIT_NPROC"
               : "RLIMIT_NPROC beside what the user already has, and sampling " OFTEN,
         group || own ? NULL : PIDS_OVERRUN);
}

static void keep_cpu(const struct lifecycle *l, struct keepers *k)
{
    const struct policy *p = l->policy;
    bool share = l->cgroup && (l->group.controllers & CGROUP_CPU);
    bool time = l->cgroup && l->limits.cpu_time;
    bool all = p->cpus_milli >= (uint64_t)sysconf(_SC_NPROCESSORS_CONF) * 1000;
    keep(k, FIELD_CPUS, p->cpus_milli, "cpus_milli",
         share                   ? "cgroup"
         : all                   ? "the host, which has no more"
         : p->cgroup == NEED_OFF ? "nothing: lifecycle.cgroup is off"
                                 : "nothing: no cgroup cpu controller",
         share || all ? NULL : NOT_AT_ALL);
    keep(k, FIELD_CPU_TIME, p->cpu_time_ms, "cpu_time_ms",
         time ? "cgroup, sampled 10 times a second, and RLIMIT_CPU per process"
              : "sampling " OFTEN ", and RLIMIT_CPU per process",
         time ? NULL : CPU_OVERRUN);
}

static void keep_disk(const struct lifecycle *l, struct keepers *k)
{
    const struct policy *p = l->policy;
    const char *overrun = l->namespaced ? NULL : DISK_OVERRUN;
    if (p->workspace) {
        keep(k, FIELD_DISK, p->disk, "disk",
             l->namespaced ? "tmpfs" : "sampling " OFTEN ", and RLIMIT_FSIZE per file", overrun);
        keep(k, FIELD_INODES, p->inodes, "inodes", l->namespaced ? "tmpfs" : "sampling " OFTEN,
             overrun);
    }
    if (l->review) {
        keep(k, FIELD_DISK, p->disk, "review_disk",
             l->sizes_inside ? "sampling 10 times a second, and the Sentry per file"
                             : "sampling 10 times a second, and RLIMIT_FSIZE per file",
             DISK_OVERRUN);
        keep(k, FIELD_INODES, p->inodes, "review_inodes", "sampling 10 times a second",
             DISK_OVERRUN);
    }
}

void keepers_list(const struct lifecycle *l, struct keepers *ret)
{
    ret->count = 0;
    keep_memory(l, ret);
    keep_pids(l, ret);
    keep_cpu(l, ret);
    keep_disk(l, ret);
    keep(ret, FIELD_TIMEOUT, l->policy->timeout_ms, "timeout_ms", "supervisor", NULL);
    keep(ret, FIELD_OPEN_FILES, l->open_files, "open_files", "RLIMIT_NOFILE per process", NULL);
    keep(ret, FIELD_OUTPUT, l->policy->output, "output", "supervisor", NULL);
}

static bool is_watched(const struct keeper *k)
{
    return k->overrun && k->value != POLICY_UNLIMITED;
}

static bool is_accepted(const struct policy *p, const struct keeper *k)
{
    return p->sampling == SAMPLING_ACCEPT ||
           (p->sampling == SAMPLING_AUTO && policy_field_is_levels(p, k->field));
}

static const char *why_not(const struct lifecycle *l, const struct keeper *k)
{
    if (k->field == FIELD_DISK || k->field == FIELD_INODES)
        return l->namespaced ? "a review keeps its changes on a disk of the host's"
                             : "the process tier's folder is on a disk of the host's";
    if (l->policy->cgroup == NEED_OFF)
        return "lifecycle.cgroup is off";
    return l->host.why[0] ? l->host.why : "no cgroup has the controller";
}

static const char *way_out(const struct lifecycle *l, const struct keeper *k)
{
    bool disk = k->field == FIELD_DISK || k->field == FIELD_INODES;
    if (disk)
        return l->namespaced ? "leave the limit as the level has it" : "use --tier container";
    return l->host.how[0] ? l->host.how : "leave lifecycle.cgroup at auto";
}

/* LC-6: what a process can hide from is not watched either. Without a cgroup its end would not find
 * it, whatever the limits are. */
static int check_sight(const struct lifecycle *l, const struct keepers *all, struct err *err)
{
    bool needed = !l->cgroup;
    for (unsigned i = 0; i < all->count; i++)
        needed |= is_watched(&all->items[i]) && all->items[i].field != FIELD_CPUS;
    if (!l->hides || !needed)
        return 0;
    err_set(err, ERR_UNSUPPORTED,
            "the process tier cannot watch its limits here: /proc is mounted with hidepid, and the "
            "code could hide its processes from you");
    err_at(err, BOUNDARY_LIFECYCLE);
    return err_hint(err, "use --tier container; or have root mount /proc without hidepid, or with "
                         "gid= of a group that you are in");
}

/* LC-5 */
int keepers_check(const struct lifecycle *l, struct err *err)
{
    struct keepers all;
    const struct policy *p = l->policy;
    keepers_list(l, &all);
    if (check_sight(l, &all, err) < 0)
        return err_number(err);
    for (unsigned i = 0; i < all.count; i++) {
        const struct keeper *k = &all.items[i];
        if (!is_watched(k) || is_accepted(p, k))
            continue;
        cleanup_buf struct buf value;
        buf_init(&value, 64);
        policy_field_text(p, k->field, &value);
        err_set(err, ERR_UNSUPPORTED, "%s of %s cannot be kept here, only watched: %s",
                policy_field_path(k->field), buf_text(&value), why_not(l, k));
        err_at(err, BOUNDARY_LIFECYCLE);
        return err_hint(err, "--sampling accept takes that for enough; else: %s", way_out(l, k));
    }
    return 0;
}

bool lifecycle_watches(const struct lifecycle *l, enum policy_field field)
{
    struct keepers all;
    keepers_list(l, &all);
    for (unsigned i = 0; i < all.count; i++)
        if (all.items[i].field == field && is_watched(&all.items[i]))
            return true;
    return false;
}

bool lifecycle_note(const struct lifecycle *l, char *out, size_t size)
{
    struct keepers all;
    const char *first = NULL;
    cleanup_buf struct buf names;
    buf_init(&names, 128);
    keepers_list(l, &all);
    for (unsigned i = 0; i < all.count; i++) {
        const struct keeper *k = &all.items[i];
        if (!is_watched(k))
            continue;
        const char *path = strchr(policy_field_path(k->field), '.') + 1;
        if (strstr(buf_text(&names), path))
            continue;
        buf_fmt(&names, "%s%s", first ? ", " : "", path);
        first = first ? first : why_not(l, k);
    }
    if (first)
        snprintf(out, size, "not held by the kernel, at best watched by brig: %s (%.120s)",
                 buf_text(&names), first);
    return first != NULL;
}

/* LC-4 */
void keepers_write(const struct lifecycle *l, struct evidence *out)
{
    struct keepers all;
    keepers_list(l, &all);
    for (unsigned i = 0; i < all.count; i++) {
        const struct keeper *k = &all.items[i];
        char text[160], name[32];
        if (k->value == POLICY_UNLIMITED) {
            evidence_string(out, k->name, "unlimited");
            continue;
        }
        snprintf(text, sizeof text, "%" PRIu64 " by %s", k->value, k->by);
        evidence_string(out, k->name, text);
        if (!k->overrun)
            continue;
        snprintf(name, sizeof name, "%s_overrun", k->name);
        evidence_string(out, name, k->overrun);
    }
}
