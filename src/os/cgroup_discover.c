/* Where may this process make child groups? Reads only. v2 wins where it can give memory and pids;
 * then v1; else nothing, with the reason and the way out. */
#include "os/cgroup_internal.h"
#include "os/cgroup_paths.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>

#define NEEDED (CGROUP_MEMORY | CGROUP_PIDS)

#define HOW_SCOPE "systemd-run --user --scope -p Delegate=yes -- brig ..."
#define HOW_DROPIN                                                                                 \
    "as root: mkdir -p /etc/systemd/system/user@.service.d; printf "                               \
    "'[Service]\\nDelegate=cpu cpuset io memory pids\\n' "                                         \
    ">/etc/systemd/system/user@.service.d/delegate.conf; systemctl daemon-reload; then log in "    \
    "again"

__attribute__((format(printf, 3, 4))) static void explain(struct cgroup_host *host, const char *how,
                                                          const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (vsnprintf(host->why, sizeof host->why, fmt, ap) < 0)
        host->why[0] = '\0';
    va_end(ap);
    snprintf(host->how, sizeof host->how, "%s", how);
}

/* mountinfo has no useful bound, so it goes through a window; a line longer than the window (an
 * overlay with very many layers) is no cgroup mount and is dropped. */
static int each_line(const char *path, void (*fn)(struct cgroup_paths *, const char *),
                     struct cgroup_paths *paths)
{
    char window[16384];
    size_t used = 0;
    bool drop = false;
    cleanup_fd int fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    for (;;) {
        ssize_t n = read(fd, window + used, sizeof window - 1 - used);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        used += (size_t)n;
        window[used] = '\0';
        char *line = window, *end;
        for (; (end = strchr(line, '\n')) != NULL; line = end + 1, drop = false) {
            *end = '\0';
            if (!drop)
                fn(paths, line);
        }
        used -= (size_t)(line - window);
        memmove(window, line, used);
        if (used == sizeof window - 1) {
            used = 0;
            drop = true;
        }
    }
}

static unsigned parse_controllers(const char *list)
{
    return (cgroup_has_word(list, "memory") ? CGROUP_MEMORY : 0) |
           (cgroup_has_word(list, "pids") ? CGROUP_PIDS : 0) |
           (cgroup_has_word(list, "cpu") ? CGROUP_CPU : 0);
}

static unsigned read_controllers(const char *dir, const char *file)
{
    char list[512];
    return cgroup_read_file(dir, file, list, sizeof list) < 0 ? 0 : parse_controllers(list);
}

/* New groups need the folder, and moving a task needs cgroup.procs of the common ancestor of both
 * groups: since a parent is always an ancestor of our own group, that is the parent's. */
static bool is_writable(const char *dir)
{
    char procs[CGROUP_PATH_MAX + 16];
    snprintf(procs, sizeof procs, "%s/cgroup.procs", dir);
    return access(dir, W_OK | X_OK) == 0 && access(procs, W_OK) == 0;
}

static bool has_delegate_mark(const char *dir)
{
    char value[2] = "";
    return (getxattr(dir, "user.delegate", value, sizeof value) == 1 && value[0] == '1') ||
           (getxattr(dir, "trusted.delegate", value, sizeof value) == 1 && value[0] == '1');
}

static bool is_alone(const char *dir)
{
    char text[64], own[24];
    snprintf(own, sizeof own, "%d\n", (int)getpid());
    return cgroup_read_file(dir, "cgroup.procs", text, sizeof text) > 0 && strcmp(text, own) == 0;
}

/* `systemd-run --scope -p Delegate=yes -- brig ...`: the service manager marked our own group as
 * handed over, and nobody else lives in it, so turning it into an inner node is ours to do.
 * Writability alone proves nothing: a user's manager leaves all its groups writable for that user.
 */
static bool find_own_scope(struct cgroup_host *host, const char *own)
{
    unsigned have = read_controllers(own, "cgroup.controllers");
    if ((have & NEEDED) != NEEDED || !is_writable(own) || !has_delegate_mark(own) || !is_alone(own))
        return false;
    host->own_scope = true;
    host->controllers = have;
    snprintf(host->parent[SLOT_V2], sizeof host->parent[SLOT_V2], "%s", own);
    return true;
}

struct v2_search {
    char writable[CGROUP_PATH_MAX]; /* the nearest group that we may write to, if any */
};

static bool find_ancestor(struct cgroup_host *host, const struct cgroup_place *place,
                          struct v2_search *search)
{
    char dir[CGROUP_PATH_MAX];
    snprintf(dir, sizeof dir, "%s", place->dir);
    size_t mount_len = strlen(place->mount);
    for (;;) {
        if (is_writable(dir)) {
            unsigned have = read_controllers(dir, "cgroup.subtree_control");
            if (!search->writable[0])
                memcpy(search->writable, dir, sizeof dir);
            if ((have & NEEDED) == NEEDED) {
                host->controllers = have;
                memcpy(host->parent[SLOT_V2], dir, sizeof dir);
                return true;
            }
        }
        char *slash = strrchr(dir, '/');
        if (!slash || (size_t)(slash - dir) < mount_len)
            return false;
        *slash = '\0';
    }
}

static void explain_v2(struct cgroup_host *host, const struct cgroup_place *place,
                       const struct v2_search *search)
{
    int uid = (int)geteuid();
    if (!search->writable[0]) {
        explain(host,
                uid ? HOW_SCOPE
                    : "mount cgroup2 read-write where brig runs (in a container: its own writable "
                      "cgroup)",
                "no cgroup from %.120s upwards is writable by uid %d", place->dir, uid);
        return;
    }
    bool there = (read_controllers(search->writable, "cgroup.controllers") & NEEDED) == NEEDED;
    if (uid) {
        explain(host, there ? HOW_SCOPE : HOW_DROPIN,
                "memory and pids are not %s %.120s, the nearest cgroup writable by uid %d",
                there ? "enabled for children of" : "delegated to", search->writable, uid);
        return;
    }
    char how[sizeof host->how];
    snprintf(how, sizeof how, "echo '+memory +pids +cpu' >%.120s/cgroup.subtree_control",
             place->mount);
    explain(host, how, "memory and pids are not enabled for children of %.120s or any cgroup above",
            place->dir);
}

static bool discover_v2(struct cgroup_host *host, const struct cgroup_place *place)
{
    if (!place->mount[0] || !place->dir[0]) {
        explain(host, "mount -t cgroup2 none /sys/fs/cgroup",
                place->mount[0] ? "the mounted part of cgroup2 does not contain our own group"
                                : "cgroup2 is not mounted");
        return false;
    }
    struct v2_search search = {.writable = ""};
    if (!find_own_scope(host, place->dir) && !find_ancestor(host, place, &search)) {
        explain_v2(host, place, &search);
        return false;
    }
    host->version = CGROUP_V2;
    if (!(host->controllers & CGROUP_CPU))
        explain(host, geteuid() ? HOW_DROPIN : "enable +cpu in cgroup.subtree_control above it",
                "the cpu controller is not enabled for children of %.160s", host->parent[SLOT_V2]);
    return true;
}

static bool discover_v1(struct cgroup_host *host, const struct cgroup_paths *paths)
{
    static const char *const names[] = {"memory", "pids", "cpu", "cpuacct"};
    unsigned have = 0;
    char missing[64] = "";
    for (int i = CGROUP_V1_HIERARCHIES - 1; i >= 0; i--) {
        const char *dir = paths->place[i].dir;
        if (dir[0] && access(dir, W_OK | X_OK) == 0) {
            have |= 1U << i;
            memcpy(host->parent[i], dir, sizeof host->parent[i]);
        } else {
            snprintf(missing, sizeof missing, "%s", names[i]);
        }
    }
    if (missing[0])
        explain(host,
                geteuid() ? "run brig as root, or boot with systemd.unified_cgroup_hierarchy=1 and "
                            "use " HOW_SCOPE
                          : "mount the cgroup v1 hierarchies read-write, or use cgroup v2",
                "the cgroup v1 controller %s is not mounted or its group is not writable", missing);
    if ((have & NEEDED) != NEEDED)
        return false;
    host->version = CGROUP_V1;
    host->controllers = have;
    return true;
}

void cgroup_discover(struct cgroup_host *ret)
{
    memset(ret, 0, sizeof *ret);
    struct cgroup_paths paths;
    memset(&paths, 0, sizeof paths);
    int got = each_line("/proc/self/cgroup", cgroup_paths_membership, &paths);
    if (got == 0)
        got = each_line("/proc/self/mountinfo", cgroup_paths_mount, &paths);
    ret->failed = -got;
    if (ret->failed) {
        explain(ret, "see whether /proc is mounted", "/proc/self cannot be read: %s",
                strerror(ret->failed));
        return;
    }
    const struct cgroup_place *v2 = &paths.place[CGROUP_PATHS_V2];
    if (discover_v2(ret, v2))
        return;
    struct cgroup_host v1 = {.version = CGROUP_NONE};
    bool v1_mounted = paths.place[SLOT_MEMORY].mount[0] != '\0';
    if (discover_v1(&v1, &paths) || v1_mounted || !v2->mount[0])
        *ret = v1;
}
