/* One sandbox's group: plan, make, limit, attach, read, check, kill, remove. What differs between
 * v1 and v2 is in the two tables of cgroup_v1.c and cgroup_v2.c. */
#include "os/cgroup_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "brig-"

static const struct cgroup_ops *ops_of(const struct cgroup_group *g)
{
    return g->version == CGROUP_V2 ? &cgroup_v2_ops : &cgroup_v1_ops;
}

static bool name_is_valid(const char *name)
{
    size_t len = strlen(name);
    return len > 0 && len <= 64 && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == len;
}

/* Memory and pids are always joined: usage, verdicts and the kill need them also where no limit is
 * set. Every further v1 hierarchy costs a mkdir and a move, so it is joined on request only. */
static unsigned wanted_controllers(const struct cgroup_host *host,
                                   const struct cgroup_limits *limits)
{
    unsigned want = CGROUP_MEMORY | CGROUP_PIDS;
    if (limits->cpus_milli)
        want |= CGROUP_CPU;
    if (limits->cpu_time && host->version == CGROUP_V1)
        want |= CGROUP_CPUACCT;
    return want;
}

static int plan_dir(const char *parent, const char *name, char *ret, struct err *err)
{
    int n = snprintf(ret, CGROUP_PATH_MAX, "%s/" PREFIX "%s", parent, name);
    if (n < 0 || n >= CGROUP_PATH_MAX) {
        ret[0] = '\0';
        return err_set(err, ERR_LIMIT, "the cgroup path %.200s... is too long", parent);
    }
    return 0;
}

int cgroup_plan(const struct cgroup_host *host, const struct cgroup_limits *limits,
                const char *name, struct cgroup_group *ret, struct err *err)
{
    memset(ret, 0, sizeof *ret);
    if (!name_is_valid(name))
        return err_set(err, ERR_INTERNAL, "bad cgroup name");
    unsigned want = wanted_controllers(host, limits);
    if (host->version == CGROUP_NONE || (want & ~host->controllers)) {
        err_set(err, ERR_UNSUPPORTED, "cgroup limits are not available: %s", host->why);
        return host->how[0] ? err_hint(err, "%s", host->how) : -(int)ERR_UNSUPPORTED;
    }
    ret->version = host->version;
    ret->controllers = want;
    ret->own_scope = host->own_scope;
    if (host->version == CGROUP_V2)
        return plan_dir(host->parent[SLOT_V2], name, ret->dir[SLOT_V2], err);
    for (int i = 0; i < CGROUP_V1_HIERARCHIES; i++) {
        if (!(want & (1U << i)))
            continue;
        int r = plan_dir(host->parent[i], name, ret->dir[i], err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* What exists under a planned name but was not made by us is somebody else's: the guardian must not
 * empty it. */
static void forget_unmade(struct cgroup_group *g)
{
    for (int i = 0; i < CGROUP_V1_HIERARCHIES; i++)
        if (!g->made[i])
            g->dir[i][0] = '\0';
}

static int make_dirs(struct cgroup_group *g, struct err *err)
{
    for (int i = 0; i < CGROUP_V1_HIERARCHIES; i++) {
        if (!cgroup_slot_is_first(g, i))
            continue;
        if (mkdir(g->dir[i], 0755) == 0) {
            g->made[i] = true;
            continue;
        }
        int r = err_sys(err, "make the cgroup %s", g->dir[i]);
        forget_unmade(g);
        return r;
    }
    return 0;
}

static int parent_of(const char *dir, char *ret)
{
    const char *slash = strrchr(dir, '/');
    size_t len = slash ? (size_t)(slash - dir) : 0;
    memcpy(ret, dir, len);
    ret[len] = '\0';
    return slash ? 0 : -1;
}

int cgroup_take_scope(struct err *err)
{
    struct cgroup_host host;
    cgroup_discover(&host);
    return host.version == CGROUP_V2 && host.own_scope
               ? cgroup_v2_enter_leaf(host.parent[SLOT_V2], err)
               : 0;
}

int cgroup_make(struct cgroup_group *g, const struct cgroup_limits *limits, struct err *err)
{
    int r = 0;
    if (g->own_scope) {
        char scope[CGROUP_PATH_MAX];
        if (parent_of(g->dir[SLOT_V2], scope) < 0)
            return err_set(err, ERR_INTERNAL, "cgroup without a parent");
        r = cgroup_v2_enter_leaf(scope, err);
    }
    if (r == 0)
        r = make_dirs(g, err);
    if (r == 0)
        r = ops_of(g)->limit(g, limits, err);
    if (r < 0)
        (void)cgroup_remove(g, 100, NULL);
    return r;
}

int cgroup_clone_fd(const struct cgroup_group *g, struct err *err)
{
    if (g->version != CGROUP_V2)
        return err_number(err);
    int fd = openat(AT_FDCWD, g->dir[SLOT_V2], O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 ? fd : err_sys(err, "open %s", g->dir[SLOT_V2]);
}

int cgroup_join_fds(const struct cgroup_group *g, int fds[CGROUP_V1_HIERARCHIES], struct err *err)
{
    int count = 0;
    for (int i = 0; g->version == CGROUP_V1 && i < CGROUP_V1_HIERARCHIES; i++) {
        if (!cgroup_slot_is_first(g, i))
            continue;
        fds[count] = cgroup_open_control(g->dir[i], "tasks", O_WRONLY);
        if (fds[count] < 0) {
            int r = err_sys(err, "open the tasks of %s", g->dir[i]);
            while (count > 0)
                close(fds[--count]);
            return r;
        }
        count++;
    }
    return count;
}

int cgroup_attach(const struct cgroup_group *g, pid_t pid, struct err *err)
{
    return ops_of(g)->attach(g, pid, err);
}

void cgroup_usage(const struct cgroup_group *g, struct cgroup_usage *ret)
{
    memset(ret, 0xff, sizeof *ret);
    if (g->version != CGROUP_NONE)
        ops_of(g)->usage(g, ret);
}

uint64_t cgroup_memory_cache(const struct cgroup_group *g)
{
    char text[4096];
    if (g->version == CGROUP_NONE)
        return UINT64_MAX;
    bool v2 = g->version == CGROUP_V2;
    if (cgroup_read_file(g->dir[v2 ? SLOT_V2 : SLOT_MEMORY], "memory.stat", text, sizeof text) <= 0)
        return UINT64_MAX;
    return cgroup_keyed_u64(text, v2 ? "file" : "total_cache");
}

uint64_t cgroup_memory_spare(const struct cgroup_group *g)
{
    static const char *const keys[][2] = {{"total_inactive_file", "total_active_file"},
                                          {"inactive_file", "active_file"}};
    char text[4096];
    uint64_t bytes = 0;
    bool v2 = g->version == CGROUP_V2;
    if (g->version == CGROUP_NONE ||
        cgroup_read_file(g->dir[v2 ? SLOT_V2 : SLOT_MEMORY], "memory.stat", text, sizeof text) <= 0)
        return 0;
    for (int i = 0; i < 2; i++) {
        uint64_t part = cgroup_keyed_u64(text, keys[v2][i]);
        bytes += part == UINT64_MAX ? 0 : part;
    }
    return bytes;
}

int cgroup_verify(const struct cgroup_group *g, const struct cgroup_limits *limits,
                  const pid_t *pids, unsigned count, struct err *err)
{
    if (g->version == CGROUP_NONE)
        return err_set(err, ERR_ATTEST, "there is no cgroup");
    for (int i = 0; i < CGROUP_V1_HIERARCHIES; i++) {
        if (!cgroup_slot_is_first(g, i))
            continue;
        int missing = cgroup_lists_pids(g->dir[i], pids, count);
        if (missing < 0)
            return err_sys(err, "read the processes of %s", g->dir[i]);
        if (missing < (int)count)
            return err_set(err, ERR_ATTEST, "process %d is not in %s", (int)pids[missing],
                           g->dir[i]);
    }
    return ops_of(g)->verify(g, limits, err);
}

int cgroup_kill(const struct cgroup_group *g, unsigned deadline_ms, struct err *err)
{
    int r = cgroup_kill_child(g, deadline_ms);
    if (r == 0)
        return 0;
    errno = -r;
    return err_sys(err, "kill everything in %s", g->dir[0]);
}

int cgroup_freeze(const struct cgroup_group *g, bool freeze, struct err *err)
{
    if (g->version != CGROUP_V2)
        return err_set(err, ERR_UNSUPPORTED, "freezing needs cgroup v2");
    if (cgroup_write_file(g->dir[SLOT_V2], "cgroup.freeze", freeze ? "1" : "0", 1) < 0)
        return err_sys(err, "freeze %s", g->dir[SLOT_V2]);
    return 0;
}

int cgroup_remove(struct cgroup_group *g, unsigned deadline_ms, struct err *err)
{
    int result = 0;
    for (int i = 0; i < CGROUP_V1_HIERARCHIES; i++) {
        if (!g->made[i])
            continue;
        int r = cgroup_rmdir_child(g->dir[i], deadline_ms);
        if (r == 0) {
            g->made[i] = false;
            continue;
        }
        errno = -r;
        result = err_sys(err, "remove %s", g->dir[i]);
    }
    return result;
}

bool cgroup_clean(const struct cgroup_host *host, const char *name)
{
    struct cgroup_group g;
    struct cgroup_limits all = {.cpus_milli = host->controllers & CGROUP_CPU ? 1 : 0,
                                .cpu_time = (host->controllers & CGROUP_CPUACCT) != 0};
    bool any = false;
    if (host->version == CGROUP_NONE || cgroup_plan(host, &all, name, &g, NULL) < 0)
        return false;
    for (int i = 0; i < CGROUP_V1_HIERARCHIES; i++) {
        g.made[i] = g.dir[i][0] && access(g.dir[i], F_OK) == 0;
        any |= g.made[i];
    }
    forget_unmade(&g);
    if (!any)
        return false;
    cgroup_kill(&g, 2000, NULL);
    cgroup_remove(&g, 5000, NULL);
    return true;
}
