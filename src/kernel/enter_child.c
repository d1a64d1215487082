/* Runs as a copy of the supervisor, before any namespace is configured: no heap, no locks, no
 * stdio. */
#include "kernel/enter_child.h"

#include "os/sys.h"
#include "os/weaken.h"
#include "plan/control.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>

/* What init needs inside its own user namespace to build the root; all of it is dropped before the
 * code runs. */
static const int set_up_caps[] = {CAP_SYS_ADMIN, CAP_NET_ADMIN,    CAP_NET_BIND_SERVICE,
                                  CAP_SETPCAP,   CAP_SYS_RESOURCE, CAP_SYS_TIME};

static void give_up(int ctl, struct err *err)
{
    struct ctl_msg msg = {.type = CTL_FAIL, .err = *err};
    msg.err.boundary = BOUNDARY_KERNEL;
    send(ctl, &msg, sizeof msg, MSG_NOSIGNAL);
    _exit(125);
}

/* v1 cgroups: before anything else, so that all that init forks and allocates is counted. */
static int join_groups(const struct launch *l, struct err *err)
{
    for (unsigned i = 0; i < l->join_count; i++)
        if (write(l->join_fds[i], "0", 1) != 1)
            return err_sys(err, "join a cgroup");
    return 0;
}

/* K-20: everything at its fixed number, nothing else open. Sources are first moved out of the way
 * of the targets. */
static int place_descriptors(const struct enter *e, int *image, struct err *err)
{
    const struct launch *l = e->launch;
    int limit = INIT_FD_TREES + (int)l->tree_count + 1;
    int source[INIT_FD_TREES + INIT_TREES_MAX + KERNEL_HANDED + 1];
    for (int i = 0; i < limit; i++) {
        int fd = i < 3               ? l->stdio[i]
                 : i == INIT_FD_CTL  ? l->ctl_fd
                 : i == INIT_FD_PLAN ? l->plan_fd
                 : i < limit - 1     ? l->trees[i - INIT_FD_TREES]
                                     : e->image_fd;
        source[i] = fd >= limit ? fd : fcntl(fd, F_DUPFD_CLOEXEC, limit);
        if (source[i] < 0)
            return err_sys(err, "move descriptor %d", fd);
    }
    for (int i = 0; i < limit; i++)
        if (dup2(source[i], i) < 0)
            return err_sys(err, "place descriptor %d", i);
    *image = limit - 1;
    if (!guard_left_out(GUARD_DESCRIPTORS) && sys_close_range((unsigned)limit, ~0u, 0) < 0)
        return err_sys(err, "close the other descriptors");
    return fcntl(*image, F_SETFD, FD_CLOEXEC) < 0 ? err_sys(err, "mark descriptor") : 0;
}

/* K-7: before anything else the child stops having the supervisor's uid. */
static int take_identity(const struct enter *e, struct err *err)
{
    /* Inside a user namespace init empties it; outside of one only who is still root can. */
    for (int cap = 0; !e->namespaced && e->drop_groups && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0;
         cap++)
        ;
    if (e->drop_groups && syscall(SYS_setgroups, (size_t)0, NULL) < 0)
        return err_sys(err, "drop the supplementary groups");
    if (syscall(SYS_setresgid, e->gid, e->gid, e->gid) < 0 ||
        syscall(SYS_setresuid, e->uid, e->uid, e->uid) < 0)
        return err_sys(err, "take uid %u", e->uid);
    if (sys_stop_merging() < 0)
        return err_sys(err, "keep memory from being merged with that of others");
    /* The caller's session keyring would come along; an empty one of the sandbox's own takes its
     * place. Where the kernel has no keys there is nothing to hide, and the filter closes the calls
     * in any case. */
    syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
    return 0;
}

/* An exec drops capabilities of a uid other than 0 unless they are ambient. */
static int keep_set_up_caps(uint64_t more, struct err *err)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &head, data) < 0)
        return err_sys(err, "capget");
    uint32_t wanted = (uint32_t)more;
    for (size_t i = 0; i < sizeof set_up_caps / sizeof set_up_caps[0]; i++)
        wanted |= 1u << set_up_caps[i];
    /* In a user namespace of its own it has them all; the host's root may lack some. */
    if (guard_left_out(GUARD_NS_USER))
        wanted &= data[0].permitted;
    data[0].inheritable = wanted;
    data[1].inheritable = 0;
    if (syscall(SYS_capset, &head, data) < 0)
        return err_sys(err, "capset");
    for (int cap = 0; cap < 32; cap++)
        if ((wanted & 1u << cap) && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) < 0)
            return err_sys(err, "keep capability %d for the set-up", cap);
    return 0;
}

/* By now it is in its groups, so that they are the root of what it sees: made together with the
 * others, the namespace would show the names of the sandbox's groups, and with them its id. */
static int hide_groups(const struct enter *e, struct err *err)
{
    if (!e->namespaced || guard_left_out(GUARD_NS_CGROUP))
        return 0;
    return unshare(CLONE_NEWCGROUP) < 0 ? err_sys(err, "make a cgroup namespace") : 0;
}

void enter_child(const struct enter *e)
{
    struct err err = ERR_INIT;
    struct ctl_msg msg;
    int ctl = e->launch->ctl_fd, image = -1;
    if (join_groups(e->launch, &err) < 0 || place_descriptors(e, &image, &err) < 0)
        give_up(ctl, &err);
    /* A supervisor that died shows as end of file here. */
    if (recv(INIT_FD_CTL, &msg, sizeof msg, 0) != (ssize_t)sizeof msg || msg.type != CTL_MAPPED)
        _exit(125);
    if (hide_groups(e, &err) < 0 || take_identity(e, &err) < 0 ||
        (e->namespaced && keep_set_up_caps(e->more_caps, &err) < 0))
        give_up(INIT_FD_CTL, &err);
    char *const argv[] = {"brig-init", NULL};
    char *const envp[] = {NULL};
    syscall(SYS_execveat, image, "", argv, guard_left_out(GUARD_ENVIRONMENT) ? environ : envp,
            SYS_AT_EMPTY_PATH);
    err_sys(&err, "execute init");
    give_up(INIT_FD_CTL, &err);
    __builtin_unreachable();
}
