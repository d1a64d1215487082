/* The five verbs of the kernel boundary (launching is in launch.c, the notifications in seen.c). */
#include "kernel/kernel.h"

#include "base/cleanup.h"
#include "kernel/process/hand.h"
#include "os/fd.h"
#include "os/landlock.h"
#include "os/weaken.h"
#include "plan/control.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

void kernel_init(struct kernel *k)
{
    memset(k, 0, sizeof *k);
    k->listener_fd = k->lease_fd = k->users_fd = -1;
    broker_connect_init(&k->connects);
    hand_init(k);
}

/* As root each sandbox gets a host uid of its own, so that no per-user quota or signal reaches a
 * neighbour. The supervisor's pid is a lease that needs no file: it is unique while the supervisor
 * lives, and the sandbox does not outlive it. Five random bits tell apart supervisors in different
 * pid namespaces, and one that got the number of a supervisor whose sandbox is still being killed.
 */
uid_t kernel_lease(void)
{
    uint8_t slot = 0;
    if (getrandom(&slot, sizeof slot, 0) != sizeof slot)
        slot = (uint8_t)time(NULL);
    return 0x70000000u + (uint32_t)(slot & 31) * KERNEL_LEASE_SIZE;
}

uid_t kernel_leased_uid(uid_t lease)
{
    if (!lease)
        lease = kernel_lease();
    return lease + ((uint32_t)getpid() & (KERNEL_LEASE_SIZE - 1));
}

/* A template process makes user namespaces, for which nobody needs a capability; root's makes each
 * under another uid of its block, for which it needs two, over that block and nothing else. */
static void open_stem(struct kernel *k)
{
    k->stem = true;
    k->inside_uid = k->privileged ? k->host_uid : KERNEL_STEM_UID;
    k->keep_caps = k->privileged ? 1u << CAP_SETUID | 1u << CAP_SETGID : 0;
}

/* Two users: two ids have to be mapped. Root has them; an ordinary user is one of them, and has to
 * be given the other one (subids.h). */
static int find_ids(struct kernel *k, struct err *err)
{
    k->beside = true;
    if (!k->privileged)
        return subids_find(&k->subids, err);
    k->root_uid = k->host_uid ^ KERNEL_UID_BESIDE;
    k->root_gid = (gid_t)k->root_uid;
    return 0;
}

static int open_beside(struct kernel *k, const struct kernel_request *r, struct err *err)
{
    if (!r->policy->root_beside)
        return 0;
    if (!r->session) {
        err_set(err, ERR_UNSUPPORTED, "kernel.root: what runs one command has one user");
        err_hint(err, "leave it out; to be root, kernel.uid: 0 (--uid 0). Sandboxes of brig serve "
                      "can have both");
    } else if (k->tier != TIER_CONTAINER) {
        err_set(err, ERR_UNSUPPORTED, "kernel.root: the %s tier has one user inside",
                tier_name(k->tier));
        err_hint(err, "use the container tier, or leave kernel.root out");
    } else {
        return find_ids(k, err);
    }
    return err_at(err, BOUNDARY_KERNEL);
}

static int choose_unix_sockets(struct kernel *k, const struct kernel_request *r, struct err *err)
{
    bool container = tier_namespaced(k->tier);
    enum need need = r->policy->unix_sockets;
    if (need == NEED_REQUIRE && !container) {
        err_set(err, ERR_UNSUPPORTED,
                "UNIX sockets cannot be allowed on the process tier: nothing there keeps the code "
                "from the host's sockets");
        err_at(err, BOUNDARY_KERNEL);
        return err_hint(err, "use --tier container, or drop --unix-sockets");
    }
    /* K-15: neither mounts nor Landlock stop a connection to a socket file that lies in a granted
     * folder, or in a folder that is the root. */
    k->options.unix_sockets =
        container && (need == NEED_REQUIRE || (need == NEED_AUTO && !r->host_folders));
    return 0;
}

/* A kernel may be built without time namespaces, and an administrator may allow none. */
static bool has_own_clocks(void)
{
    char quota[24];
    ssize_t n = file_read(AT_FDCWD, "/proc/sys/user/max_time_namespaces", quota, sizeof quota);
    return n > 0 && strcmp(quota, "0\n") != 0 && access("/proc/self/timens_offsets", W_OK) == 0;
}

int kernel_open(struct kernel *k, const struct kernel_request *r, struct err *err)
{
    if (tier_decide(r->policy, &k->tier, err) < 0)
        return err_number(err);
    bool container = tier_namespaced(k->tier);
    k->privileged = geteuid() == 0;
    k->tty = r->tty;
    k->host_uid = k->privileged ? kernel_leased_uid(r->lease) : getuid();
    k->host_gid = k->privileged ? (gid_t)k->host_uid : getgid();
    k->inside_uid = container ? (uid_t)r->policy->uid : k->host_uid;
    if (r->stem)
        open_stem(k);
    else if (open_beside(k, r, err) < 0)
        return err_number(err);
    /* An overlay works on its layers with the rights that its maker had: on files of the one uid
     * that is mapped, as that uid could by itself after a chmod. */
    if (r->overlay && container)
        k->set_up_caps = 1u << CAP_CHOWN | 1u << CAP_DAC_OVERRIDE | 1u << CAP_FOWNER;
    int abi = landlock_abi();
    k->options = (struct filter_options){
        .isolated_pids = container,
        .isolated_ipc = container,
        .isolated_net = container,
        .brokered_net = r->network && !container,
        .watched_net = (r->network || r->watched) && container,
        .scoped_signals = abi >= 6,
        .own_view = container,
        .own_uid = k->privileged,
        .one_owner = container && !k->stem && r->policy->writable_root && k->inside_uid == 0,
        .other_owner = k->beside && r->policy->writable_root ? k->inside_uid : 0,
        .scoped_truncate = abi >= 3,
        .host_writable = r->host_writable,
        .tracer = tier_row(k->tier)->user_kernel,
        .module = tier_row(k->tier)->module,
        .notify = true};
    if (choose_unix_sockets(k, r, err) < 0)
        return err_number(err);
    /* GV-2, VM-13: of the engine, which gives them up before it starts anything; the code's are the
     * engine's own, and lead to no file of the host. A monitor has one in a session alone. */
    k->options.unix_sockets |= k->options.tracer || (r->session && tier_row(k->tier)->machine);
    k->own_clock = container && !k->stem && r->policy->proc == PROC_OWN &&
                   !guard_left_out(GUARD_NS_USER) && has_own_clocks();
    k->report = r->policy->report;
    k->learn.asked = r->learn;
    k->watch_only = !r->network;
    return 0;
}

static int take_lease(struct kernel *k, struct err *err)
{
    struct subid_lease root;
    if (!k->beside || k->privileged)
        return 0;
    if (subids_lease(&k->subids, &root, err) < 0)
        return err_number(err);
    k->root_uid = root.uid;
    k->root_gid = root.gid;
    k->lease_fd = root.fd;
    return 0;
}

int kernel_prepare(struct kernel *k, struct err *err)
{
    if (take_lease(k, err) < 0)
        return err_number(err);
    return k->options.brokered_net ? broker_connect_open(&k->connects, err) : 0;
}

static int build_filters(struct kernel *k, struct err *err)
{
    struct filter_options plain = k->options;
    plain.private_shm = false;
    bool watched = k->report || k->learn.asked || k->options.private_shm;
    if (watched && filter_build(&plain, &k->plain, err) < 0)
        return err_at(err, BOUNDARY_KERNEL);
    k->options.report = k->report;
    k->options.learn = k->learn.asked != NULL;
    if (filter_build(&k->options, &k->filter, err) < 0)
        return err_at(err, BOUNDARY_KERNEL);
    return 0;
}

/* On the process tier nobody could load a filter without the flag. */
static bool left_out_privs(const struct kernel *k)
{
    return guard_left_out(GUARD_NO_NEW_PRIVS) && tier_namespaced(k->tier);
}

static int plan_seal(struct kernel *k, struct plan *plan, struct err *err)
{
    if (k->stem) {
        plan_num(plan, OP_DROP_CAPS, k->keep_caps, 0, 0);
        return 0;
    }
    if (build_filters(k, err) < 0)
        return err_number(err);
    /* Without no-new-privs a filter can be loaded only as long as init has capabilities. */
    bool late = left_out_privs(k);
    if (!late && k->beside)
        plan_num(plan, OP_DROP_CAPS, 1u << CAP_SETUID | 1u << CAP_SETGID, true, 0);
    else if (!late && !guard_left_out(GUARD_CAPABILITIES))
        plan_op(plan, OP_DROP_CAPS);
    if (!guard_left_out(GUARD_SECCOMP))
        plan_add(plan, &(struct op){.kind = OP_SECCOMP,
                                    .num = {k->options.notify},
                                    .data = k->filter.code,
                                    .data_len = k->filter.len * sizeof k->filter.code[0]});
    if (late && !k->beside)
        plan_op(plan, OP_DROP_CAPS);
    /* Last of all: what comes before it holds for both. */
    if (k->beside)
        plan_num(plan, OP_BESIDE, k->inside_uid, 0, 0);
    return 0;
}

/* The guest has the kernel, its pids and its network to itself. */
int kernel_plan_guest(struct plan *plan, struct err *err)
{
    struct filter_options options = {.isolated_pids = true,
                                     .isolated_ipc = true,
                                     .isolated_net = true,
                                     .unix_sockets = true,
                                     .own_view = true,
                                     .own_uid = true,
                                     .counted_memory = true,
                                     .host_writable = true};
    static struct filter_program program;
    if (filter_build(&options, &program, err) < 0)
        return err_at(err, BOUNDARY_KERNEL);
    plan_op(plan, OP_DROP_CAPS);
    plan_add(plan, &(struct op){.kind = OP_SECCOMP,
                                .data = program.code,
                                .data_len = program.len * sizeof program.code[0]});
    return 0;
}

/* After the network's helper has ended: it takes whichever descriptors are free, and while it works
 * those may be the ones that stand here at their place afterwards. */
static void plan_handed(const struct kernel *k, struct plan *plan)
{
    for (unsigned i = 0; k->machine && !k->machine->later && i < KERNEL_HANDED; i++)
        plan_num(plan, OP_HAND, k->machine->first_tree + i, INIT_FD_TREES + i, 0);
}

int kernel_plan(struct kernel *k, enum plan_stage stage, struct plan *plan, struct err *err)
{
    bool container = tier_namespaced(k->tier);
    switch (stage) {
    case STAGE_BIRTH:
        /* Without a user namespace of its own the quotas would be the host's. */
        if (container && !k->stem && !guard_left_out(GUARD_NS_USER))
            plan_op(plan, OP_QUOTAS);
        if (container && !guard_left_out(GUARD_NS_UTS))
            plan_str(plan, OP_HOSTNAME, "brig", NULL, 0);
        break;
    case STAGE_VIEW:
        /* While the host's /proc is still there, and not at birth: before Linux 6.3 a process that
         * waits to enter a time namespace cannot start one that shares its memory, as the helper
         * for the network does. */
        if (k->own_clock)
            plan_op(plan, OP_OWN_CLOCK);
        break;
    case STAGE_RESTRICT:
        if (k->tty)
            plan_str(plan, OP_TTY, container ? "/dev/ptmx" : NULL, NULL, 0);
        if (k->beside)
            plan_num(plan, OP_BESIDE_DOOR, k->options.unix_sockets, 0, 0);
        if (!left_out_privs(k))
            plan_op(plan, OP_NO_NEW_PRIVS);
        break;
    case STAGE_SEAL:
        plan_handed(k, plan);
        /* Without a pid namespace init is a process like any other: a domain below init's keeps the
         * code from it. */
        if (!container && k->options.scoped_signals)
            plan_num(plan, OP_SCOPE_CODE, LL_SCOPE_SIGNAL, 0, 0);
        return plan_seal(k, plan, err);
    default:
        break;
    }
    return 0;
}

void kernel_teardown(struct kernel *k)
{
    hand_rest(k);
    int *const fds[] = {&k->listener_fd, &k->users_fd, &k->lease_fd};
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        if (*fds[i] >= 0)
            close(*fds[i]);
        *fds[i] = -1;
    }
    broker_connect_close(&k->connects);
}
