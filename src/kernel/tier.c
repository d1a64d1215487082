/* The table of tiers; level and host → tier. What the host cannot give is refused with the reason,
 * never replaced. */
#include "kernel/tier.h"

#include "base/cleanup.h"
#include "kernel/gvisor.h"
#include "kernel/vm.h"
#include "os/beside.h"
#include "os/fd.h"
#include "os/landlock.h"
#include "os/sys.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#define WASM_ENGINE "brig-wasm"

/* brig-wasm is built where JavaScriptCore is; where brig runs, its library has to be there too. */
static bool probe_wasm(struct tier_answer *ret)
{
    static const char *const places[] = {"/usr/lib/aarch64-linux-gnu", "/usr/lib/x86_64-linux-gnu",
                                         "/usr/lib64", "/usr/lib"};
    char path[4200];
    struct err err = ERR_INIT;
    if (program_beside(WASM_ENGINE, path, sizeof path, &err) < 0) {
        snprintf(ret->why, sizeof ret->why, "brig was built without " WASM_ENGINE);
        snprintf(ret->how, sizeof ret->how,
                 "apt install libjavascriptcoregtk-4.1-dev, and build brig again");
        return false;
    }
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        snprintf(path, sizeof path, "%s/libjavascriptcoregtk-4.1.so.0", places[i]);
        if (access(path, R_OK) == 0)
            return true;
    }
    snprintf(ret->why, sizeof ret->why, "the library of JavaScriptCore is not installed");
    snprintf(ret->how, sizeof ret->how, "apt install libjavascriptcoregtk-4.1-0");
    return false;
}

/* Landlock is what keeps files apart on the process tier, and the second layer everywhere else. */
#define NEEDS_FILTERS (TIER_NEEDS_SECCOMP | TIER_NEEDS_LANDLOCK)
#define NEEDS_ALL     (NEEDS_FILTERS | TIER_NEEDS_NAMESPACES)

static const struct tier_row rows[TIER_COUNT] = {
    [TIER_PROCESS] = {.about = "the host's kernel, narrowed: filter and Landlock",
                      .needs = NEEDS_FILTERS,
                      .terminal = true},
    [TIER_CONTAINER] = {.about = "the same, in namespaces of its own",
                        .needs = NEEDS_ALL,
                        .terminal = true,
                        .served = true,
                        .cloned = true},
    [TIER_WASM_PROCESS] = {.about = "a module without system calls, in the process tier's walls",
                           .needs = NEEDS_FILTERS,
                           .engine = WASM_ENGINE,
                           .module = true,
                           .probe = probe_wasm},
    [TIER_WASM] = {.about = "a module without system calls, in the container tier's walls",
                   .needs = NEEDS_ALL,
                   .engine = WASM_ENGINE,
                   .module = true,
                   .served = true,
                   .probe = probe_wasm},
    [TIER_GVISOR] = {.about = "a kernel in user space (gVisor), in the container tier's walls",
                     .needs = NEEDS_ALL,
                     .engine = GVISOR_ENGINE,
                     .user_kernel = true,
                     .terminal = true,
                     .served = true,
                     .probe = gvisor_probe},
    /* Its engine is given more than arguments: sandbox/machine.c starts it. */
    [TIER_VM] = {.about = "a kernel of its own behind KVM, and its monitor in namespaces",
                 .needs = NEEDS_ALL,
                 .machine = true,
                 .terminal = true,
                 .served = true,
                 .cloned = true,
                 .probe = vm_probe},
};

const struct tier_row *tier_row(enum tier tier)
{
    return &rows[tier < TIER_COUNT ? tier : TIER_AUTO];
}

bool tier_served(const struct policy *p)
{
    bool all = p->tier == TIER_AUTO || tier_row(p->tier)->served;
    for (unsigned i = 0; i < p->wish.count; i++)
        all = all && tier_row(p->wish.tiers[i])->served;
    return all;
}

static enum tier tier_without_wish(const struct policy *p)
{
    return p->tier == TIER_AUTO ? tier_of_level(p->level) : p->tier;
}

bool tier_cloned(const struct policy *p)
{
    bool all = p->wish.count > 0 || tier_row(tier_without_wish(p))->cloned;
    for (unsigned i = 0; i < p->wish.count; i++)
        all = all && tier_row(p->wish.tiers[i])->cloned;
    return all;
}

bool tier_machine(const struct policy *p)
{
    bool all = p->wish.count > 0 || tier_row(tier_without_wish(p))->machine;
    for (unsigned i = 0; i < p->wish.count; i++)
        all = all && tier_row(p->wish.tiers[i])->machine;
    return all;
}

void tier_served_names(char out[static TIER_NAMES_SIZE])
{
    size_t used = 0;
    out[0] = '\0';
    for (int t = TIER_PROCESS; t < TIER_COUNT && used < TIER_NAMES_SIZE; t++)
        if (rows[t].served)
            used += (size_t)snprintf(out + used, TIER_NAMES_SIZE - used, "%s%s", used ? ", " : "",
                                     tier_name((enum tier)t));
}

bool tier_probe_seccomp(void)
{
    uint32_t action = SECCOMP_RET_USER_NOTIF;
    return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

void tier_probe(enum tier tier, struct tier_answer *ret)
{
    const struct tier_row *row = tier_row(tier);
    *ret = (struct tier_answer){0};
    if ((row->needs & TIER_NEEDS_SECCOMP) && !tier_probe_seccomp())
        snprintf(ret->why, sizeof ret->why, "the kernel has no seccomp notification");
    else if ((row->needs & TIER_NEEDS_LANDLOCK) && landlock_abi() <= 0)
        snprintf(ret->why, sizeof ret->why, "the kernel has no Landlock");
    else if (!(row->needs & TIER_NEEDS_NAMESPACES) || tier_probe_namespaces(ret->why, ret->how))
        ret->available = !row->probe || row->probe(ret);
}

enum tier tier_of_level(enum level level)
{
    switch (level) {
    case LEVEL_LOW:
        return TIER_PROCESS;
    case LEVEL_CRITICAL:
        return TIER_VM;
    default:
        return TIER_CONTAINER;
    }
}

/* The first of the list that this host can give. */
static int decide_wish(const struct policy *p, enum tier *ret, struct err *err)
{
    struct tier_answer answer;
    char reasons[400] = "", how[256] = "";
    size_t used = 0;
    for (unsigned i = 0; i < p->wish.count; i++) {
        *ret = p->wish.tiers[i];
        tier_probe(*ret, &answer);
        if (answer.available)
            return 0;
        int n = snprintf(reasons + used, sizeof reasons - used, "%s%s: %s", i ? "; " : "",
                         tier_name(*ret), answer.why);
        used = n < 0 || used + (size_t)n >= sizeof reasons ? sizeof reasons - 1 : used + (size_t)n;
        if (answer.how[0])
            snprintf(how, sizeof how, "for %s: %.200s", tier_name(*ret), answer.how);
    }
    err_set(err, ERR_UNSUPPORTED, "this host can give no tier of kernel.tier (%s)", reasons);
    err_at(err, BOUNDARY_KERNEL);
    return err_hint(err, "%s%sa weaker tier is used only where the policy or --tier names it", how,
                    how[0] ? "; " : "");
}

int tier_decide(const struct policy *p, enum tier *ret, struct err *err)
{
    if (p->wish.count)
        return decide_wish(p, ret, err);
    *ret = tier_without_wish(p);
    struct tier_answer answer = {0};
    if (*ret != TIER_VM || vm_probe(&answer))
        return 0;
    err_set(err, ERR_UNSUPPORTED, "the vm tier (%s) is not available here: %s",
            p->tier == TIER_AUTO || p->level == LEVEL_CRITICAL ? "level critical" : "--tier vm",
            answer.why);
    err_at(err, BOUNDARY_KERNEL);
    return err_hint(err,
                    "%s; --tier container runs the same behind a weaker kernel wall, and the "
                    "receipt will say so",
                    answer.how);
}

static bool read_setting(const char *path, char value[static 32])
{
    ssize_t n = file_read(AT_FDCWD, path, value, 32);
    if (n <= 0)
        return false;
    value[strcspn(value, "\n")] = '\0';
    return true;
}

static void explain(int code, char why[static 256], char how[static 256])
{
    char value[32];
    if (read_setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", value) &&
        value[0] == '1') {
        snprintf(
            why, 256,
            "AppArmor forbids user namespaces to unconfined programs (Ubuntu 23.10 and newer)");
        snprintf(how, 256,
                 "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor "
                 "profile for brig with `userns,`");
    } else if (read_setting("/proc/sys/kernel/unprivileged_userns_clone", value) &&
               value[0] == '0') {
        snprintf(why, 256, "user namespaces are switched off for ordinary users");
        snprintf(how, 256, "sudo sysctl kernel.unprivileged_userns_clone=1");
    } else if (read_setting("/proc/sys/user/max_user_namespaces", value) &&
               strcmp(value, "0") == 0) {
        snprintf(why, 256, "user namespaces are switched off");
        snprintf(how, 256, "sudo sysctl user.max_user_namespaces=15000");
    } else {
        snprintf(why, 256, "the kernel refuses new namespaces: %s", strerror(code));
        snprintf(how, 256,
                 "in a container, allow them (for Docker: --security-opt seccomp=unconfined "
                 "--security-opt apparmor=unconfined --security-opt systempaths=unconfined)");
    }
}

/* In the child: everything that tends to be forbidden, in the order in which a start needs it. */
static int try_namespaces(void)
{
    struct sys_mount_attr private = {.propagation = MS_PRIVATE};
    if (sys_mount_setattr(AT_FDCWD, "/", SYS_AT_RECURSIVE, &private) < 0)
        return errno;
    int fs = sys_fsopen("proc");
    if (fs < 0 || sys_fsconfig(fs, SYS_FSCONFIG_SET_STRING, "subset", "pid") < 0 ||
        sys_fsconfig(fs, SYS_FSCONFIG_CMD_CREATE, NULL, NULL) < 0 || sys_fsmount(fs, 0) < 0)
        return errno;
    return 0;
}

bool tier_probe_namespaces(char why[static 256], char how[static 256])
{
    struct sys_clone_args args = {.flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID |
                                           CLONE_NEWNET | CLONE_NEWIPC,
                                  .exit_signal = SIGCHLD};
    int status = 0;
    why[0] = how[0] = '\0';
    long pid = sys_clone3(&args);
    if (pid == 0)
        _exit(try_namespaces() & 0x7f);
    if (pid < 0) {
        explain(errno, why, how);
        return false;
    }
    while (waitpid((pid_t)pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    explain(WIFEXITED(status) ? WEXITSTATUS(status) : EPERM, why, how);
    return false;
}
