/* Prepare, attest, teardown, and what happens between. */
#include "lifecycle/lifecycle.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "lifecycle/keep.h"
#include "lifecycle/sample.h"
#include "os/coredump.h"
#include "os/fd.h"
#include "os/procfs.h"
#include "os/sys.h"
#include "os/weaken.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

const char *limit_name(enum limit l)
{
    static const char *const names[] = {NULL,   "timeout", "cpu_time",   "memory", "pids",
                                        "disk", "inodes",  "open_files", "output"};
    return names[l];
}

void lifecycle_init(struct lifecycle *l)
{
    memset(l, 0, sizeof *l);
    guardian_init(&l->guardian);
    l->proc_fd = l->work_fd = l->review_fd = l->project_fd = l->dying_fd = -1;
    aside_init(l);
}

static int open_cgroup(struct lifecycle *l, const struct lifecycle_request *r, struct err *err)
{
    if (l->policy->cgroup == NEED_OFF)
        return 0;
    cgroup_discover(&l->host);
    if (l->host.failed) { /* not the same as a host that has none */
        err_set(err, ERR_SYSTEM, "look for a cgroup: %s", l->host.why);
        err_at(err, BOUNDARY_LIFECYCLE);
        return err_hint(err, "%s", l->host.how);
    }
    bool enough = l->host.version != CGROUP_NONE && (l->host.controllers & CGROUP_MEMORY) &&
                  (l->host.controllers & CGROUP_PIDS);
    if (!enough && l->policy->cgroup == NEED_REQUIRE) {
        err_set(err, ERR_UNSUPPORTED, "no usable cgroup: %s", l->host.why);
        err_at(err, BOUNDARY_LIFECYCLE);
        return err_hint(err, "%s", l->host.how);
    }
    if (!enough)
        return 0;
    l->limits = (struct cgroup_limits){.memory = l->policy->memory,
                                       .pids = l->policy->pids + 1, /* init */
                                       .cpu_time = r->watched ||
                                                   l->policy->cpu_time_ms != POLICY_UNLIMITED};
    l->limits.oom_one = r->watched;
    /* Without a cpu controller the share is not enforced; the receipt says so (LC-4). */
    if (l->policy->cpus_milli != POLICY_UNLIMITED && (l->host.controllers & CGROUP_CPU))
        l->limits.cpus_milli = l->policy->cpus_milli;
    if (l->host.version == CGROUP_V1 && !(l->host.controllers & CGROUP_CPUACCT))
        l->limits.cpu_time = false;
    if (cgroup_plan(&l->host, &l->limits, r->sandbox_id, &l->group, err) < 0)
        return err_at(err, BOUNDARY_LIFECYCLE);
    l->cgroup = true;
    return 0;
}

/* In a pid namespace the /proc that is looked at is the sandbox's own, and hides nothing; what runs
 * under another uid is watched by root. */
static int look_for_hiding(struct lifecycle *l, struct err *err)
{
    int r = l->namespaced || l->private_uid ? 0 : processes_can_hide();
    if (r < 0) {
        errno = -r;
        return err_sys(err, "see whether /proc shows all processes of this user");
    }
    l->hides = r > 0;
    return 0;
}

int lifecycle_open(struct lifecycle *l, const struct lifecycle_request *r, struct err *err)
{
    l->policy = r->policy;
    l->namespaced = r->namespaced;
    l->private_uid = r->private_uid;
    l->looker.user_ns = r->user_ns;
    l->scoped_signals = r->scoped_signals;
    l->stem = r->stem;
    l->cloned = r->cloned;
    l->review = r->review;
    l->reserves = r->reserves;
    l->session = r->watched;
    l->open_files = limits_open_files(r->engine_files ? r->engine_files : l->policy->open_files);
    if (look_for_hiding(l, err) < 0 || open_cgroup(l, r, err) < 0 || keepers_check(l, err) < 0 ||
        coredump_limit(&l->core_files, err) < 0)
        return err_number(err);
    l->looks_disk = l->review || (!l->namespaced && l->policy->workspace);
    l->layered = l->namespaced && l->policy->memory != POLICY_UNLIMITED &&
                 (l->review || l->policy->writable_root);
    l->sizes_inside = r->sizes_inside;
    l->memory_files =
        r->memory_files && !lifecycle_counts_memory(l) && l->policy->memory != POLICY_UNLIMITED;
    l->looks = l->looks_disk || l->layered || l->memory_files || lifecycle_strict_memory(l);
    /* A container without cgroups leaves nothing that the kernel does not clean by itself; a clone
     * ends by itself when it finds its supervisor gone, and the guardian does not wait for that. */
    l->guarded = (l->cgroup || !l->namespaced || l->cloned) && !guard_left_out(GUARD_SUPERVISOR);
    if (r->private_dir)
        snprintf(l->guardian.private_dir, sizeof l->guardian.private_dir, "%s", r->private_dir);
    if (!l->namespaced && r->private_uid)
        l->guardian.kill_uid = r->host_uid;
    return 0;
}

uint64_t lifecycle_socket_buffer(const struct lifecycle *l)
{
    return lifecycle_strict_memory(l) ? sample_socket_buffer() : 0;
}

bool lifecycle_looks(const struct lifecycle *l)
{
    return l->looks || l->policy->memory != POLICY_UNLIMITED; /* for locks, now and then */
}

/* LC-6. Nobody may look into a process whose program may not be read, and the code's own /proc
 * lists none that may not be looked into. */
bool lifecycle_wants_proc(const struct lifecycle *l)
{
    return l->namespaced && (!l->cgroup || l->looks);
}

int lifecycle_take_proc(struct lifecycle *l, int *fd, struct err *err)
{
    struct statfs s;
    if (!lifecycle_wants_proc(l) || l->proc_fd >= 0 || fstatfs(*fd, &s) < 0 ||
        s.f_type != PROC_SUPER_MAGIC)
        return err_set(err, ERR_PROTOCOL, "init handed out what is no /proc, or not asked for");
    l->proc_fd = openat(*fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return l->proc_fd < 0 ? err_sys(err, "open the sandbox's /proc to watch its limits") : 0;
}

/* The limits that a test build sets, or looks for. */
static struct cgroup_limits limits_without(const struct cgroup_limits *limits,
                                           bool (*without)(enum guard g))
{
    struct cgroup_limits left = *limits;
    if (without(GUARD_MEMORY))
        left.memory = 0;
    if (without(GUARD_PIDS))
        left.pids = 0;
    return left;
}

int lifecycle_prepare(struct lifecycle *l, struct err *err)
{
    limits_reserve_files(l->open_files);
    /* The guardian counts every planned folder as made: it cannot know how far this got. */
    l->guardian.group = l->group;
    for (int i = 0; i < CGROUP_V1_HIERARCHIES; i++)
        l->guardian.group.made[i] = l->group.dir[i][0] != '\0';
    if (l->guarded && guardian_start(&l->guardian, err) < 0)
        return err_at(err, BOUNDARY_LIFECYCLE);
    if (!l->cgroup)
        return 0;
    struct cgroup_limits limits = limits_without(&l->limits, guard_left_out);
    int result = cgroup_make(&l->group, &limits, err);
    /* A name that somebody else has taken is struck out, so that nobody's group is cleaned but
     * ours. */
    if (result < 0)
        l->guardian.group = l->group;
    return result < 0 ? err_at(err, BOUNDARY_LIFECYCLE) : 0;
}

int lifecycle_adopt(struct lifecycle *l, pid_t init_pid, struct err *err)
{
    l->init_pid = init_pid;
    if (!l->namespaced || l->cloned)
        l->guardian.init_pid = init_pid;
    /* Best effort: if the whole host runs out of memory, the sandbox goes before anybody else. */
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/oom_score_adj", init_pid);
    file_write(AT_FDCWD, path, "800");
    if (l->cgroup && l->group.version == CGROUP_V2 && cgroup_attach(&l->group, init_pid, err) < 0)
        return err_at(err, BOUNDARY_LIFECYCLE);
    return 0;
}

static int check_rlimit(const char *text, const char *name, uint64_t most, struct err *err)
{
    uint64_t soft, hard;
    bool unattested = guard_unattested(GUARD_OPEN_FILES) || guard_unattested(GUARD_PIDS);
    if ((procfs_limit(text, name, &soft, &hard) == 0 && hard <= most) || unattested)
        return 0;
    return err_set(err, ERR_ATTEST, "the sandbox's limit \"%s\" is not as planned", name);
}

/* LC-9: less than that byte is not less, but all of it to a program of the host. */
static int check_core(const struct lifecycle *l, const char *text, struct err *err)
{
    uint64_t soft, hard;
    if (procfs_limit(text, "Max core file size", &soft, &hard) == 0 && soft == l->core_files &&
        hard == l->core_files)
        return 0;
    return err_set(err, ERR_ATTEST, "the sandbox's limit \"Max core file size\" is not as planned");
}

static int check_rlimits(const struct lifecycle *l, pid_t pid, struct err *err)
{
    char text[PROC_LIMITS_SIZE];
    if (l->stem)
        return 0;
    if (procfs_limits(pid, text, err) < 0 || check_core(l, text, err) < 0 ||
        (l->rlimit_pids && check_rlimit(text, "Max processes", l->rlimit_pids, err) < 0))
        return err_number(err);
    /* init has more of these than what it starts. */
    pid_t code = l->session ? l->clone_pid : pid;
    if (code <= 0)
        return 0;
    if (code != pid && procfs_limits(code, text, err) < 0)
        return err_number(err);
    return check_rlimit(text, "Max open files", l->open_files, err);
}

/* The private folder has no quota of the kernel's: a run that could not measure it would have no
 * disk limit at all. */
static int open_private_dir(struct lifecycle *l, struct err *err)
{
    struct stat sb;
    const char *path = l->guardian.private_dir;
    if (!path[0])
        return 0;
    l->work_fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (l->work_fd < 0 || fstat(l->work_fd, &sb) < 0)
        return err_sys(err, "open %s to measure it", path);
    l->work_dev = sb.st_dev;
    return 0;
}

static int open_view(pid_t pid, const char *place, int flags, int *ret, struct err *err)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/root/%s", (int)pid, place);
    *ret = open(path, flags | O_DIRECTORY | O_CLOEXEC);
    return *ret < 0 ? err_sys(err, "open /%s of the sandbox to watch its limits", place) : 0;
}

/* The layers of a review are a mount of their own: files of it are told by that. */
static int find_review_mount(struct lifecycle *l, pid_t pid, struct err *err)
{
    char path[4200];
    struct sys_statx sx;
    if (!l->review_place)
        return 0;
    snprintf(path, sizeof path, "/proc/%d/root%s", (int)pid, l->review_place);
    if (sys_statx_cached(AT_FDCWD, path, &sx) < 0)
        return err_sys(err, "look at the project in the sandbox");
    l->review_mount = sx.mnt_id;
    l->review_devs[0] = makedev(sx.dev_major, sx.dev_minor);
    return 0;
}

/* What will be looked at while the code runs is opened before it can interfere; without it there
 * would be no limit, hence no run. */
static int open_views(struct lifecycle *l, pid_t pid, struct err *err)
{
    if (!l->namespaced)
        return open_private_dir(l, err);
    if (lifecycle_wants_proc(l) && l->proc_fd < 0)
        return err_set(err, ERR_PROTOCOL, "init handed out no /proc to watch its limits in");
    if (!lifecycle_wants_proc(l) && open_view(pid, "proc", O_RDONLY, &l->proc_fd, err) < 0)
        return err_number(err);
    if (find_review_mount(l, pid, err) < 0)
        return err_number(err);
    return l->policy->workspace ? open_view(pid, "tmp", O_PATH, &l->work_fd, err) : 0;
}

/* Folders on an overlay have its device, whatever layers they come from. */
static int take_layer(void *ctx, const struct proc_mount *m, struct err *err)
{
    struct sampler *s = ctx;
    bool fresh;
    if (strcmp(m->type, "overlay") != 0)
        return 0;
    return inodes_put(&s->layers, m->dev, 0, &fresh) ? 0 : err_memory(err);
}

static int make_sampler(struct lifecycle *l, pid_t pid, struct err *err)
{
    if (l->sampler)
        return 0;
    if (!(l->sampler = sampler_new()))
        return err_memory(err);
    if ((l->namespaced && sample_sockets(l->init_pid, &l->sampler->sockets_before) < 0) ||
        sample_host_memory(&l->host_before) < 0)
        return err_set(err, ERR_SYSTEM, "cannot read in /proc what limits are watched by");
    l->sampler->kernel_low = l->host_before.unreclaimed;
    return l->layered ? procfs_mounts(pid, take_layer, l->sampler, err) : 0;
}

struct wanted_mount {
    uint64_t id;
    dev_t dev;
};

static int take_device(void *ctx, const struct mount_place *m, struct err *err)
{
    struct wanted_mount *w = ctx;
    (void)err;
    if (m->id == w->id)
        w->dev = m->dev;
    return 0;
}

/* Of a mapped file older kernels show the device that the upper layer lies on. It may have two
 * numbers: that of stat, and that of the file system (btrfs). */
static int find_upper_devices(struct lifecycle *l, dev_t dev, struct err *err)
{
    struct wanted_mount w = {.id = procfs_mount_of(l->review_fd), .dev = dev};
    if (procfs_each_mount(take_device, &w, err) < 0)
        return err_at(err, BOUNDARY_LIFECYCLE);
    l->review_devs[1] = dev;
    l->review_devs[2] = w.dev;
    return 0;
}

int lifecycle_watch_review(struct lifecycle *l, const struct lifecycle_review *r, struct err *err)
{
    struct stat sb;
    l->review_fd = fcntl(r->fd, F_DUPFD_CLOEXEC, 3);
    l->review_bytes = r->bytes;
    l->review_inodes = r->inodes;
    l->review_place = r->place;
    if (l->review_fd < 0 || fstat(l->review_fd, &sb) < 0) {
        err_sys(err, "hold the folder of the review to measure it");
        return err_at(err, BOUNDARY_LIFECYCLE);
    }
    if (!l->namespaced)
        l->review_dev = sb.st_dev;
    else if (r->project && (l->project_fd = open(r->project, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0)
        return err_sys(err, "open the project %s", r->project);
    return l->namespaced ? find_upper_devices(l, sb.st_dev, err) : 0;
}

int lifecycle_attest(struct lifecycle *l, pid_t pid, struct evidence *out, struct err *err)
{
    if (check_rlimits(l, pid, err) < 0)
        return err_at(err, BOUNDARY_LIFECYCLE);
    const pid_t pids[] = {pid, l->clone_pid};
    struct cgroup_limits limits = limits_without(&l->limits, guard_unattested);
    if (l->cgroup && cgroup_verify(&l->group, &limits, pids, l->clone_pid > 0 ? 2 : 1, err) < 0)
        return err_at(err, BOUNDARY_LIFECYCLE);
    if ((!l->sampler && open_views(l, pid, err) < 0) || make_sampler(l, pid, err) < 0)
        return err_at(err, BOUNDARY_LIFECYCLE);
    lifecycle_write_enforced(l, out);
    return 0;
}

void lifecycle_started(struct lifecycle *l)
{
    if (l->policy->timeout_ms != POLICY_UNLIMITED && !guard_left_out(GUARD_TIMEOUT))
        l->deadline_us = clock_us() + l->policy->timeout_ms * 1000;
}

void lifecycle_kill(struct lifecycle *l)
{
    aside_done(l);
    if (!l->namespaced && !guardian_has_children(l->guardian.pid, l->helpers))
        return;
    if (l->cgroup)
        cgroup_kill(&l->group, 2000, NULL);
    if (l->namespaced)
        return;
    /* init last: as long as it lives all of the sandbox is below it, where the guardian finds it
     * should this supervisor be killed meanwhile (LC-2). */
    guardian_kill_tree(l->init_pid);
    if (!guardian_kill_children(getpid(), l->guardian.pid, l->helpers))
        l->stuck = true;
}

void lifecycle_unwatch(struct lifecycle *l)
{
    aside_done(l);
    int *fds[] = {&l->proc_fd, &l->work_fd, &l->review_fd, &l->project_fd, &l->dying_fd};
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        if (*fds[i] >= 0)
            close(*fds[i]);
        *fds[i] = -1;
    }
    sampler_free(l->sampler);
    l->sampler = NULL;
}

int lifecycle_teardown(struct lifecycle *l, struct err *err)
{
    int result = 0;
    lifecycle_unwatch(l);
    /* The guardian looks once more, when nobody waits for us any longer. */
    if (l->stuck) {
        l->cgroup = false;
        return 0;
    }
    /* What can be removed is empty; what cannot is emptied first. */
    if (l->cgroup && cgroup_remove(&l->group, 0, NULL) < 0 && !guard_left_out(GUARD_TEARDOWN)) {
        cgroup_kill(&l->group, 2000, NULL);
        if ((result = cgroup_remove(&l->group, 5000, err)) < 0) {
            err_at(err, BOUNDARY_LIFECYCLE);
            err_hint(err, "rmdir it when nothing is in it any more");
        }
    }
    l->cgroup = false;
    guardian_dismiss(&l->guardian);
    return result;
}
