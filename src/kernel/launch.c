/* Starting init: one clone3 into all namespaces but the network's, which costs as much as the
 * others together and which the child makes itself while the supervisor writes the plan, and the
 * cgroup's, whose root is the group that its maker is in; identity maps from outside, then the
 * child closes everything it does not need, takes the sandbox's uid and executes a sealed copy of
 * init. */
#include "kernel/kernel.h"

#include "base/cleanup.h"
#include "kernel/enter_child.h"
#include "os/fd.h"
#include "os/sys.h"
#include "os/weaken.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/securebits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

/* The bytes of build/brig-init, laid into this program by init_blob.S: no path to find, nothing to
 * replace on disk, and what the sandbox can see of it is a sealed copy (K-02 of the attack list).
 */
extern const char init_blob_start[], init_blob_end[];

#define NAMESPACES (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS)

static uint64_t namespaces(void)
{
    static const struct {
        enum guard guard;
        uint64_t flag;
    } each[] = {{GUARD_NS_USER, CLONE_NEWUSER},
                {GUARD_NS_MOUNT, CLONE_NEWNS},
                {GUARD_NS_PID, CLONE_NEWPID},
                {GUARD_NS_IPC, CLONE_NEWIPC},
                {GUARD_NS_UTS, CLONE_NEWUTS}};
    uint64_t flags = NAMESPACES;
    for (size_t i = 0; i < sizeof each / sizeof each[0]; i++)
        if (guard_left_out(each[i].guard))
            flags &= ~each[i].flag;
    return flags;
}

static int launch_failed(const struct kernel *k, struct err *err)
{
    char why[256], how[256];
    int code = errno;
    if (tier_namespaced(k->tier) &&
        (code == EPERM || code == ENOSPC || code == EINVAL || code == ENOSYS) &&
        !tier_probe_namespaces(why, how)) {
        err_set(err, ERR_UNSUPPORTED, "the container tier is not available here: %s", why);
        err_at(err, BOUNDARY_KERNEL);
        return err_hint(err, "%s; or accept less with --tier %s", how,
                        tier_name(tier_runs_modules(k->tier) ? TIER_WASM_PROCESS : TIER_PROCESS));
    }
    errno = code;
    err_sys(err, "start the sandbox's first process");
    return err_at(err, BOUNDARY_KERNEL);
}

/* Kernel quotas inside a user namespace (inotify, namespaces, …) are charged to its maker. Root's
 * are shared with the host and with every other sandbox, so the namespace is made by the sandbox's
 * own uid. The capabilities stay in effect for the moment: joining a cgroup at birth needs them. */
static long clone_as_owner(const struct kernel *k, struct sys_clone_args *args)
{
    int bits = prctl(PR_GET_SECUREBITS);
    if (bits < 0 || prctl(PR_SET_SECUREBITS, bits | SECBIT_NO_SETUID_FIXUP) < 0 ||
        syscall(SYS_setresuid, -1, k->host_uid, -1) < 0)
        return -1;
    long child = sys_clone3(args);
    int code = errno;
    if (child == 0)
        return 0;
    if (syscall(SYS_setresuid, -1, 0, -1) < 0 || prctl(PR_SET_SECUREBITS, bits) < 0) {
        /* A supervisor that is neither root nor the sandbox would do everything wrong from here on.
         */
        if (child > 0)
            kill((pid_t)child, SIGKILL);
        return -1;
    }
    errno = code;
    return child;
}

const void *kernel_init_program(size_t *len)
{
    *len = (size_t)(init_blob_end - init_blob_start);
    return init_blob_start;
}

int kernel_image(struct err *err)
{
    int image = memfd_sealed("brig-init", init_blob_start,
                             (size_t)(init_blob_end - init_blob_start), true, err);
    return image < 0 ? err_at(err, BOUNDARY_KERNEL) : image;
}

int kernel_launch(struct kernel *k, const struct launch *l, pid_t *pid, int *pidfd, struct err *err)
{
    cleanup_fd int image = kernel_image(err);
    if (image < 0)
        return image;
    struct enter enter = {
        .launch = l, .image_fd = image, .uid = k->inside_uid, .gid = k->inside_uid};
    enter.namespaced = tier_namespaced(k->tier);
    if (!enter.namespaced || guard_left_out(GUARD_NS_USER)) {
        enter.uid = k->host_uid;
        enter.gid = k->host_gid;
    }
    /* Root builds the view, so that the other user cannot change what it is made of. */
    if (k->beside)
        enter.uid = enter.gid = 0;
    enter.drop_groups = k->privileged && !guard_left_out(GUARD_GROUPS);
    enter.more_caps = k->keep_caps | k->set_up_caps;
    *pidfd = -1;
    struct sys_clone_args args = {.flags = SYS_CLONE_PIDFD | SYS_CLONE_CLEAR_SIGHAND,
                                  .pidfd = (uint64_t)(uintptr_t)pidfd,
                                  .exit_signal = SIGCHLD};
    if (enter.namespaced)
        args.flags |= namespaces();
    if (l->cgroup_fd >= 0) {
        args.flags |= SYS_CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)l->cgroup_fd;
    }
    bool as_owner = k->privileged && enter.namespaced;
    long child = as_owner ? clone_as_owner(k, &args) : sys_clone3(&args);
    if (child < 0)
        return launch_failed(k, err);
    if (child == 0)
        enter_child(&enter);
    *pid = (pid_t)child;
    k->init_pid = (pid_t)child;
    return 0;
}

/* A stem of root's has its whole block, under the same numbers: its clones get one each. */
void kernel_map_text(const struct kernel *k, uint32_t host_id, uint32_t root_id,
                     char out[static KERNEL_MAP_SIZE])
{
    uint32_t first = host_id & ~(KERNEL_LEASE_SIZE - 1);
    if (k->stem && k->privileged)
        snprintf(out, KERNEL_MAP_SIZE, "%u %u %u", first, first, KERNEL_LEASE_SIZE);
    else if (k->beside)
        snprintf(out, KERNEL_MAP_SIZE, "0 %u 1 %u %u 1", root_id, k->inside_uid, host_id);
    else
        snprintf(out, KERNEL_MAP_SIZE, "%u %u 1", k->inside_uid, host_id);
}

/* The kernel wants a line for each. */
static void split_lines(char *text)
{
    unsigned blanks = 0;
    for (; *text; text++)
        if (*text == ' ' && ++blanks % 3 == 0)
            *text = '\n';
}

static int write_map(const struct kernel *k, pid_t pid, const char *which, uint32_t outside,
                     uint32_t root, struct err *err)
{
    char path[64], text[KERNEL_MAP_SIZE];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, which);
    kernel_map_text(k, outside, root, text);
    split_lines(text);
    int result = file_write(AT_FDCWD, path, text);
    if (result == 0)
        return 0;
    char why[256], how[256];
    errno = -result;
    err_sys(err, "write the %s of the sandbox", which);
    err_at(err, BOUNDARY_KERNEL);
    if (result == -EPERM && !tier_probe_namespaces(why, how))
        err_hint(err, "%s", how);
    return err_number(err);
}

/* The groups of the caller stay with both users, as they do with the one: who is in a group to be
 * kept out by it does not get rid of it in a sandbox. */
static int map_two(struct kernel *k, pid_t pid, struct err *err)
{
    char path[64];
    const struct subid_lease root = {.uid = k->root_uid, .gid = k->root_gid, .fd = -1};
    if (subids_map(pid, k->inside_uid, &root, err) < 0)
        return err_number(err);
    snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
    k->users_fd = open(path, O_RDONLY | O_CLOEXEC);
    return k->users_fd < 0 ? err_sys(err, "open the user namespace of the sandbox") : 0;
}

int kernel_map(struct kernel *k, pid_t pid, struct err *err)
{
    char path[64];
    if (!tier_namespaced(k->tier) || guard_left_out(GUARD_NS_USER))
        return 0;
    snprintf(path, sizeof path, "/proc/%d/setgroups", pid);
    /* An ordinary user may only map a gid after giving up setgroups; root drops the groups instead.
     */
    int result = k->privileged ? 0 : file_write(AT_FDCWD, path, "deny");
    if (result < 0) {
        errno = -result;
        err_sys(err, "forbid setgroups in the sandbox");
        return err_at(err, BOUNDARY_KERNEL);
    }
    if (k->beside && !k->privileged)
        return map_two(k, pid, err);
    if (write_map(k, pid, "uid_map", k->host_uid, k->root_uid, err) < 0)
        return err_number(err);
    return write_map(k, pid, "gid_map", k->host_gid, k->root_gid, err);
}
