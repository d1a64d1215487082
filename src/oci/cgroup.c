/* The container's groups; see cgroup.h. */
#include "oci/cgroup.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "os/cgroup.h"
#include "os/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define SELF_MAX   65536
#define MAKE_TRIES 1000

/* ---- finding ---- */

static bool has_word(const char *list, const char *word)
{
    size_t len = strlen(word);
    for (const char *at = list; *at;) {
        size_t n = strcspn(at, ",");
        if (n == len && memcmp(at, word, n) == 0)
            return true;
        at += n + (at[n] == ',');
    }
    return false;
}

/* The options of a v1 mount that name controllers, without those of any mount. */
static void controllers_of(const char *options, char out[static 128])
{
    out[0] = '\0';
    for (const char *at = options; *at;) {
        size_t n = strcspn(at, ","), used = strlen(out);
        bool general = (n == 2 && (!memcmp(at, "rw", 2) || !memcmp(at, "ro", 2))) ||
                       (n == 5 && !memcmp(at, "xattr", 5)) ||
                       (n > 8 && !memcmp(at, "release_", 8)) ||
                       (n == 14 && !memcmp(at, "clone_children", 14));
        if (!general && used + n + 2 < 128)
            snprintf(out + used, 128 - used, "%s%.*s", used ? "," : "", (int)n, at);
        at += n + (at[n] == ',');
    }
}

static void take_mount(struct oci_cgroup *g, char *line, struct oci_hierarchy *unified)
{
    char place[256], type[32], options[256];
    char *rest = strstr(line, " - ");
    if (!rest || sscanf(line, "%*d %*d %*s %*s %255s", place) != 1 ||
        sscanf(rest + 3, "%31s %*s %255s", type, options) != 2)
        return;
    if (strcmp(type, "cgroup2") == 0 && !unified->mount[0])
        snprintf(unified->mount, sizeof unified->mount, "%s", place);
    if (strcmp(type, "cgroup") != 0 || g->count >= OCI_HIERARCHIES_MAX)
        return;
    struct oci_hierarchy *h = &g->item[g->count];
    controllers_of(options, h->controllers);
    snprintf(h->mount, sizeof h->mount, "%s", place);
    for (unsigned i = 0; i < g->count; i++)
        if (strcmp(g->item[i].controllers, h->controllers) == 0)
            return; /* mounted twice */
    g->count += h->controllers[0] != '\0';
}

/* Where this process is: "4:memory:/a/b". */
static void own_path(const char *self, const char *controllers, char out[static 512])
{
    snprintf(out, 512, "/");
    for (const char *line = self; line && *line; line = strchr(line, '\n'), line += line != NULL) {
        const char *first = strchr(line, ':'), *second = first ? strchr(first + 1, ':') : NULL;
        if (!second)
            continue;
        size_t n = (size_t)(second - first - 1), len = strcspn(second + 1, "\n");
        if (n == strlen(controllers) && memcmp(first + 1, controllers, n) == 0)
            snprintf(out, 512, "%.*s", (int)len, second + 1);
    }
}

static ssize_t read_self(const char *file, char **ret)
{
    *ret = malloc(SELF_MAX);
    if (!*ret)
        return -ENOMEM;
    cleanup_fd int fd = open(file, O_RDONLY | O_CLOEXEC);
    ssize_t n = 0, part = 1;
    while (fd >= 0 && part > 0 && n < SELF_MAX - 1) {
        part = read(fd, *ret + n, (size_t)(SELF_MAX - 1 - n));
        n += part > 0 ? part : 0;
    }
    (*ret)[n] = '\0';
    return fd < 0 ? -errno : n;
}

/* The root of all groups, or, below one that was delegated (v2), the place where this process is.
 */
int oci_cgroup_absolute(const char *path, char out[static 1024], struct err *err)
{
    char own[512] = "/";
    cleanup_free char *self = NULL;
    if (path[0] != '/' && read_self("/proc/self/cgroup", &self) > 0 && self[0] == '0')
        own_path(self, "", own);
    int n =
        snprintf(out, 1024, "%s/%s", strcmp(own, "/") == 0 ? "" : own, path + strspn(path, "/"));
    return n > 0 && n < 1024 ? 0 : err_set(err, ERR_USAGE, "the path of the cgroup is too long");
}

static void place(struct oci_hierarchy *h, const char *path)
{
    size_t len = strlen(h->mount);
    memcpy(h->dir, h->mount, len);
    snprintf(h->dir + len, sizeof h->dir - len, "%s", path);
}

int oci_cgroup_find(const char *path, struct oci_cgroup *g, struct err *err)
{
    cleanup_free char *mounts = NULL;
    struct oci_hierarchy unified = {.mount = ""};
    *g = (struct oci_cgroup){.count = 0};
    if (read_self("/proc/self/mountinfo", &mounts) < 0)
        return err_sys(err, "read the mounts of this process");
    for (char *line = mounts, *end; *line; line = end) {
        end = strchr(line, '\n');
        end = end ? end : line + strlen(line);
        if (*end)
            *end++ = '\0';
        take_mount(g, line, &unified);
    }
    if (g->count == 0 && unified.mount[0]) {
        g->item[g->count++] = unified;
        g->v2 = true;
    }
    for (unsigned i = 0; i < g->count; i++)
        place(&g->item[i], path);
    return 0;
}

static const char *dir_of(const struct oci_cgroup *g, const char *controller)
{
    for (unsigned i = 0; i < g->count; i++)
        if (g->v2 || has_word(g->item[i].controllers, controller))
            return g->item[i].dir;
    return NULL;
}

/* ---- files ---- */

static int write_to(const char *dir, const char *file, const char *text)
{
    char path[1800];
    if (snprintf(path, sizeof path, "%s/%s", dir, file) >= (int)sizeof path)
        return -ENAMETOOLONG;
    return file_write(AT_FDCWD, path, text);
}

static ssize_t read_from(const char *dir, const char *file, char *out, size_t size)
{
    char path[1800];
    if (!dir || snprintf(path, sizeof path, "%s/%s", dir, file) >= (int)sizeof path)
        return -ENOENT;
    return file_read(AT_FDCWD, path, out, size);
}

int64_t oci_cgroup_number(const struct oci_cgroup *g, const char *controller, const char *file)
{
    char text[64], *end;
    if (read_from(dir_of(g, controller), file, text, sizeof text) <= 0)
        return -1;
    if (text_begins(text, "max"))
        return INT64_MAX;
    int64_t n = strtoll(text, &end, 10);
    return end == text ? -1 : n;
}

int64_t oci_cgroup_word(const struct oci_cgroup *g, const char *file, const char *word)
{
    char text[4096];
    size_t len = strlen(word);
    if (read_from(g->count ? g->item[0].dir : NULL, file, text, sizeof text) <= 0)
        return -1;
    for (const char *line = text; line && *line; line = strchr(line, '\n'), line += line != NULL)
        if (strncmp(line, word, len) == 0 && line[len] == ' ')
            return strtoll(line + len, NULL, 10);
    return -1;
}

/* ---- making ---- */

/* A new cpuset is empty, and nobody can enter an empty one. */
static void inherit_cpuset(const char *dir)
{
    static const char *const files[] = {"cpuset.cpus", "cpuset.mems"};
    char parent[1800], text[256];
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        snprintf(parent, sizeof parent, "%s/..", dir);
        if (read_from(dir, files[i], text, sizeof text) > 1)
            continue;
        if (read_from(parent, files[i], text, sizeof text) > 0)
            (void)write_to(dir, files[i], text);
    }
}

/* v2: what a group may use is switched on in the group above it. */
static void switch_on(const char *parent)
{
    static const char *const controllers[] = {"+memory", "+pids", "+cpu", "+cpuset", "+io"};
    for (size_t i = 0; i < ARRAY_LEN(controllers); i++)
        (void)write_to(parent, "cgroup.subtree_control", controllers[i]);
}

static bool is_used(const char *dir)
{
    char text[64];
    struct stat sb;
    /* Two links: no groups below. Some file systems do not count them (1). */
    return read_from(dir, "cgroup.procs", text, sizeof text) > 0 ||
           (stat(dir, &sb) == 0 && sb.st_nlink > 2);
}

/* The next group on the way to the innermost, as a path of its own; NULL behind the last. */
static const char *next_group(const struct oci_hierarchy *h, size_t *at, char out[static 1536])
{
    size_t len = strlen(h->dir);
    if (*at >= len)
        return NULL;
    *at += 1 + strcspn(h->dir + *at + 1, "/");
    memcpy(out, h->dir, *at);
    out[*at] = '\0';
    return out;
}

static int make_folders(const struct oci_hierarchy *h)
{
    char path[1536];
    for (size_t at = strlen(h->mount); next_group(h, &at, path);)
        if (mkdir(path, 0755) < 0 && errno != EEXIST)
            return -errno;
    return 0;
}

/* What a group has of the one around it. With the innermost there, none of them can be removed. */
static void settle(const struct oci_cgroup *g, const struct oci_hierarchy *h)
{
    char path[1536], parent[1800];
    bool cpuset = !g->v2 && has_word(h->controllers, "cpuset");
    for (size_t at = strlen(h->mount); next_group(h, &at, path);) {
        snprintf(parent, sizeof parent, "%s/..", path);
        bool ours = !g->scoped || h->dir[at] == '\0';
        if (g->v2 && ours)
            switch_on(parent);
        else if (cpuset)
            inherit_cpuset(path);
    }
}

void oci_cgroup_settle(const struct oci_cgroup *g)
{
    for (unsigned i = 0; i < g->count; i++)
        settle(g, &g->item[i]);
}

/* The group around all containers goes with the last of them: it may be gone again before ours is
 * in it. */
static int make_path(const struct oci_cgroup *g, const struct oci_hierarchy *h, struct err *err)
{
    int r = -ENOENT;
    for (int i = 0; i < MAKE_TRIES && r == -ENOENT; i++)
        r = make_folders(h);
    if (r < 0) {
        errno = -r;
        return err_sys(err, "make the group %s", h->dir);
    }
    if (!g->scoped || !g->v2) /* in a scope somebody is still: oci_cgroup_settle */
        settle(g, h);
    return 0;
}

int oci_cgroup_is_free(const struct oci_cgroup *g, struct err *err)
{
    for (unsigned i = 0; i < g->count; i++)
        if (is_used(g->item[i].dir)) {
            err_set(err, ERR_REFUSED, "the group %s is in use", g->item[i].dir);
            err_at(err, BOUNDARY_LIFECYCLE);
            return err_hint(err,
                            "a container's linux.cgroupsPath is its own; nobody else may be in it");
        }
    return 0;
}

int oci_cgroup_make(struct oci_cgroup *g, struct err *err)
{
    for (unsigned i = 0; i < g->count; i++)
        if (make_path(g, &g->item[i], err) < 0) {
            g->count = i + 1;
            oci_cgroup_remove(g);
            return err_number(err);
        }
    g->made = g->count > 0;
    return 0;
}

int oci_cgroup_enter(const struct oci_cgroup *g, pid_t pid, struct err *err)
{
    char text[24];
    snprintf(text, sizeof text, "%d", pid);
    for (unsigned i = 0; i < g->count; i++) {
        int r = write_to(g->item[i].dir, "cgroup.procs", text);
        if (r < 0) {
            errno = -r;
            return err_sys(err, "put the container into its group %s", g->item[i].dir);
        }
    }
    return 0;
}

/* ---- limits ---- */

static int set(const struct oci_cgroup *g, const char *controller, const char *file,
               const char *value, struct err *err)
{
    const char *dir = dir_of(g, controller);
    if (!dir) {
        err_set(err, ERR_UNSUPPORTED, "no cgroup of this host keeps %s", file);
        return err_hint(err, "ask for no such limit, or mount the controller %s", controller);
    }
    int r = write_to(dir, file, value);
    if (r == 0)
        return 0;
    errno = -r;
    err_sys(err, "limit the container: %s to %s", file, value);
    return err_at(err, BOUNDARY_LIFECYCLE);
}

static int set_number(const struct oci_cgroup *g, const char *controller, const char *file,
                      int64_t value, struct err *err)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)value);
    if (value < 0)
        snprintf(text, sizeof text, "%s", g->v2 ? "max" : "-1");
    return set(g, controller, file, text, err);
}

/* v1's two limits move together: the lower one cannot pass the higher. */
static int limit_memory_v1(const struct oci_cgroup *g, const struct oci_resources *r,
                           struct err *err)
{
    int64_t now = oci_cgroup_number(g, "memory", "memory.limit_in_bytes");
    bool swap =
        r->memory_swap && oci_cgroup_number(g, "memory", "memory.memsw.limit_in_bytes") >= 0;
    bool raises = r->memory_swap < 0 || (now >= 0 && r->memory_swap > now);
    if (swap && raises &&
        set_number(g, "memory", "memory.memsw.limit_in_bytes", r->memory_swap, err) < 0)
        return err_number(err);
    if (r->memory && set_number(g, "memory", "memory.limit_in_bytes", r->memory, err) < 0)
        return err_number(err);
    if (swap && !raises &&
        set_number(g, "memory", "memory.memsw.limit_in_bytes", r->memory_swap, err) < 0)
        return err_number(err);
    if (r->memory_reservation &&
        set_number(g, "memory", "memory.soft_limit_in_bytes", r->memory_reservation, err) < 0)
        return err_number(err);
    /* v1 counts the buffers of TCP apart, and without a word does not limit them. */
    return r->memory
               ? set_number(
                     g, "memory", CGROUP_V1_SOCKETS_FILE,
                     r->memory < 0 ? -1 : (int64_t)cgroup_v1_for_sockets((uint64_t)r->memory), err)
               : 0;
}

/* v1 does so by itself; v2 would kill somebody. */
static int check_memory(const struct oci_cgroup *g, const struct oci_resources *r, struct err *err)
{
    int64_t used = oci_cgroup_number(g, "memory", "memory.current");
    if (!r->check_memory || r->memory <= 0 || used <= r->memory)
        return 0;
    err_set(err, ERR_REFUSED,
            "config: linux.resources.memory.limit is below the %lld bytes that are used",
            (long long)used);
    return err_at(err, BOUNDARY_LIFECYCLE);
}

/* The specification counts memory and swap together, v2 swap alone. */
static int limit_memory_v2(const struct oci_cgroup *g, const struct oci_resources *r,
                           struct err *err)
{
    if (check_memory(g, r, err) < 0)
        return err_number(err);
    if (r->memory && set_number(g, "memory", "memory.max", r->memory, err) < 0)
        return err_number(err);
    if (r->memory_reservation &&
        set_number(g, "memory", "memory.low", r->memory_reservation, err) < 0)
        return err_number(err);
    if (!r->memory_swap)
        return 0;
    /* In an update the memory may stay as it is. */
    int64_t memory = r->memory ? r->memory : oci_cgroup_number(g, "memory", "memory.max");
    if (r->memory_swap > 0 && (memory <= 0 || memory == INT64_MAX)) {
        err_set(err, ERR_USAGE,
                "config: linux.resources.memory.swap counts the memory as well, and there is no "
                "memory.limit");
        return err_hint(err, "say memory.limit, too");
    }
    if (r->memory_swap > 0 && r->memory_swap < memory)
        return err_set(err, ERR_USAGE, "config: linux.resources.memory.swap is below memory.limit");
    if (oci_cgroup_number(g, "memory", "memory.swap.max") < 0)
        return 0; /* a kernel without swap */
    return set_number(g, "memory", "memory.swap.max",
                      r->memory_swap < 0 ? -1 : r->memory_swap - memory, err);
}

/* OC-6: what is swapped out is memory as well. Whatever was said of swap, and by what name: both
 * together are at most what the operator says. */
static int limit_swap(const struct oci_cgroup *g, int64_t most, struct err *err)
{
    const char *file = g->v2 ? "memory.swap.max" : "memory.memsw.limit_in_bytes";
    int64_t swap = oci_cgroup_number(g, "memory", file);
    int64_t memory = g->v2 ? oci_cgroup_number(g, "memory", "memory.max") : 0;
    if (!most || swap < 0) /* a kernel without swap, or one that does not count it */
        return 0;
    int64_t left = memory < 0 || memory > most ? 0 : most - memory;
    return swap <= left ? 0 : set_number(g, "memory", file, left, err);
}

static int limit_cpu(const struct oci_cgroup *g, const struct oci_resources *r, struct err *err)
{
    char text[64];
    uint64_t shares = r->cpu_shares > 262144 ? 262144 : r->cpu_shares < 2 ? 2 : r->cpu_shares;
    uint64_t weight = 1 + ((shares - 2) * 9999) / 262142;
    if (r->cpu_shares && set_number(g, "cpu", g->v2 ? "cpu.weight" : "cpu.shares",
                                    (int64_t)(g->v2 ? weight : shares), err) < 0)
        return err_number(err);
    if (g->v2 && (r->cpu_quota || r->cpu_period)) {
        uint64_t period = r->cpu_period ? r->cpu_period : 100000;
        if (r->cpu_quota > 0)
            snprintf(text, sizeof text, "%lld %llu", (long long)r->cpu_quota,
                     (unsigned long long)period);
        else
            snprintf(text, sizeof text, "max %llu", (unsigned long long)period);
        return set(g, "cpu", "cpu.max", text, err);
    }
    if (r->cpu_period && set_number(g, "cpu", "cpu.cfs_period_us", (int64_t)r->cpu_period, err) < 0)
        return err_number(err);
    return r->cpu_quota ? set_number(g, "cpu", "cpu.cfs_quota_us", r->cpu_quota, err) : 0;
}

/* v1 keeps a list of devices; what is not on it cannot be opened, whoever made the node. */
static int limit_devices(const struct oci_cgroup *g, struct err *err)
{
    static const char *const allowed[] = {"c 1:3 rwm", "c 1:5 rwm", "c 1:7 rwm",
                                          "c 1:8 rwm", "c 1:9 rwm", "c 5:0 rwm",
                                          "c 5:1 rwm", "c 5:2 rwm", "c 136:* rwm"};
    if (g->v2 || !dir_of(g, "devices"))
        return 0;
    if (set(g, "devices", "devices.deny", "a", err) < 0)
        return err_number(err);
    for (size_t i = 0; i < ARRAY_LEN(allowed); i++)
        if (set(g, "devices", "devices.allow", allowed[i], err) < 0)
            return err_number(err);
    return 0;
}

static int limit_unified(const struct oci_cgroup *g, const struct json *j, struct err *err)
{
    if (json_count(j) && !g->v2)
        return err_set(err, ERR_UNSUPPORTED,
                       "config: linux.resources.unified needs cgroup v2, which this host lacks");
    for (size_t i = 0; i < json_count(j); i++)
        if (set(g, "", json_key_at(j, i), json_string(json_value_at(j, i)), err) < 0)
            return err_number(err);
    return 0;
}

int oci_cgroup_limit(const struct oci_cgroup *g, const struct oci_resources *r, int64_t most,
                     struct err *err)
{
    if ((g->v2 ? limit_memory_v2(g, r, err) : limit_memory_v1(g, r, err)) < 0 ||
        limit_cpu(g, r, err) < 0 || limit_devices(g, err) < 0 ||
        limit_unified(g, r->unified, err) < 0 || limit_swap(g, most, err) < 0)
        return err_number(err);
    if (r->pids && set_number(g, "pids", "pids.max", r->pids, err) < 0)
        return err_number(err);
    if (r->cpus && *r->cpus && set(g, "cpuset", "cpuset.cpus", r->cpus, err) < 0)
        return err_number(err);
    return r->mems && *r->mems ? set(g, "cpuset", "cpuset.mems", r->mems, err) : 0;
}

/* ---- using and removing ---- */

static const char *list_dir(const struct oci_cgroup *g)
{
    const char *dir = dir_of(g, "pids");
    return dir ? dir : g->count ? g->item[0].dir : NULL;
}

size_t oci_cgroup_pids(const struct oci_cgroup *g, pid_t *pids, size_t max)
{
    char path[1800];
    size_t count = 0;
    int pid;
    const char *dir = list_dir(g);
    if (!dir || snprintf(path, sizeof path, "%s/cgroup.procs", dir) >= (int)sizeof path)
        return 0;
    FILE *f = fopen(path, "re");
    while (f && count < max && fscanf(f, "%d", &pid) == 1)
        if (pid > 0)
            pids[count++] = pid;
    if (f)
        fclose(f);
    return count;
}

void oci_cgroup_kill(const struct oci_cgroup *g, int sig)
{
    pid_t pids[1024];
    if (sig == SIGKILL && g->v2 && g->count && write_to(g->item[0].dir, "cgroup.kill", "1") == 0)
        return;
    size_t count = oci_cgroup_pids(g, pids, ARRAY_LEN(pids));
    for (size_t i = 0; i < count; i++)
        kill(pids[i], sig);
}

bool oci_cgroup_frozen(const struct oci_cgroup *g)
{
    char text[32];
    if (g->v2)
        return oci_cgroup_number(g, "", "cgroup.freeze") == 1;
    return read_from(dir_of(g, "freezer"), "freezer.state", text, sizeof text) > 0 &&
           text[0] == 'F';
}

static void rest_ms(long ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (ms % 1000) * 1000000};
    nanosleep(&t, NULL);
}

int oci_cgroup_freeze(const struct oci_cgroup *g, bool on, struct err *err)
{
    const char *v1 = on ? "FROZEN" : "THAWED";
    if (!g->count || (!g->v2 && !dir_of(g, "freezer"))) {
        err_set(err, ERR_UNSUPPORTED, "this container has no group that can be frozen");
        return err_hint(err, "mount the freezer controller, or use cgroup v2");
    }
    /* v1 tells when it is done, and has to be asked again while somebody was on the way. */
    for (int i = 0; i < 1000; i++) {
        if (set(g, g->v2 ? "" : "freezer", g->v2 ? "cgroup.freeze" : "freezer.state",
                g->v2 ? (on ? "1" : "0") : v1, err) < 0)
            return err_number(err);
        if (g->v2 || oci_cgroup_frozen(g) == on)
            return 0;
        rest_ms(5);
    }
    return err_set(err, ERR_SYSTEM, "the container does not come to rest");
}

/* Who was killed is still in it for a moment. */
static void remove_group(const char *dir)
{
    for (int i = 0; i < 200; i++) {
        if (rmdir(dir) == 0 || (errno != EBUSY && errno != EINTR))
            return;
        rest_ms(5);
    }
}

/* The group around all containers goes with the last of them, if it is ours; who is in it keeps it.
 * So does that of a scope in hierarchies that the manager does not look at. Where it looks, it
 * removes the group itself: one that vanishes it takes for one that somebody is in. */
static void remove_around(const struct oci_cgroup *g, const struct oci_hierarchy *h)
{
    static const char ours[] = "/" OCI_CGROUP_PARENT;
    char path[1536];
    const char *end = strrchr(h->dir, '/');
    size_t len = end ? (size_t)(end - h->dir) : 0, name = sizeof ours - 1;
    bool managed = g->v2 || text_begins(h->controllers, "name=");
    if (len < strlen(h->mount) + name || (g->scoped && managed) ||
        (!g->scoped && memcmp(h->dir + len - name, ours, name) != 0))
        return;
    snprintf(path, sizeof path, "%.*s", (int)len, h->dir);
    (void)rmdir(path);
}

void oci_cgroup_remove(struct oci_cgroup *g)
{
    for (unsigned i = 0; i < g->count; i++) {
        remove_group(g->item[i].dir);
        remove_around(g, &g->item[i]);
    }
    g->made = false;
}

int64_t oci_cgroup_cpu_ns(const struct oci_cgroup *g)
{
    if (!g->v2)
        return oci_cgroup_number(g, "cpuacct", "cpuacct.usage");
    int64_t us = oci_cgroup_word(g, "cpu.stat", "usage_usec");
    return us < 0 ? -1 : us * 1000;
}
