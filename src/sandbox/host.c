/* What this host can enforce, for `brig doctor`. */
#include "kernel/kernel.h"
#include "os/cgroup.h"
#include "os/landlock.h"
#include "sandbox/link.h"
#include "sandbox/sandbox.h"

#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

static struct host_fact *fact(struct host_report *r, const char *name, bool present)
{
    struct host_fact *f = &r->facts[r->fact_count++];
    *f = (struct host_fact){.name = name, .present = present};
    return f;
}

static void look_at_kernel(struct host_report *r)
{
    struct utsname u;
    uname(&u);
    unsigned major = 0, minor = 0;
    sscanf(u.release, "%u.%u", &major, &minor);
    struct host_fact *f = fact(r, "kernel 5.13 or newer", major > 5 || (major == 5 && minor >= 13));
    snprintf(f->detail, sizeof f->detail, "%.100s", u.release);
    if (!f->present)
        snprintf(f->why, sizeof f->why, "Landlock and mount_setattr came with 5.12 and 5.13");
}

static bool look_at_seccomp(struct host_report *r)
{
    uint32_t action = SECCOMP_RET_USER_NOTIF;
    bool present = syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
    struct host_fact *f = fact(r, "seccomp notification", present);
    snprintf(f->detail, sizeof f->detail, "%s", present ? "refused calls are seen" : "");
    if (!present) {
        snprintf(f->why, sizeof f->why,
                 "the kernel was built without it, or an outer sandbox hides it");
        snprintf(f->how, sizeof f->how, "use a kernel with CONFIG_SECCOMP_FILTER");
    }
    return present;
}

static int look_at_landlock(struct host_report *r)
{
    int abi = landlock_abi();
    struct host_fact *f = fact(r, "Landlock", abi > 0);
    if (abi > 0)
        snprintf(f->detail, sizeof f->detail, "ABI %d: files%s%s%s", abi,
                 abi >= 3 ? ", truncate" : "", abi >= 4 ? ", TCP" : "",
                 abi >= 6 ? ", signals and abstract sockets" : "");
    else {
        snprintf(f->why, sizeof f->why,
                 "not built in, or not in the list of active security modules");
        snprintf(f->how, sizeof f->how, "add landlock to the lsm= list on the kernel command line");
    }
    return abi;
}

static bool look_at_namespaces(struct host_report *r)
{
    char why[256], how[256];
    bool present = tier_probe_namespaces(why, how);
    struct host_fact *f = fact(r, "user namespaces", present);
    snprintf(f->detail, sizeof f->detail, "%s",
             present ? "all seven kinds, with a private /proc" : "");
    snprintf(f->why, sizeof f->why, "%s", why);
    snprintf(f->how, sizeof f->how, "%s", how);
    return present;
}

static void look_at_cgroups(struct host_report *r)
{
    struct cgroup_host h;
    cgroup_discover(&h);
    struct host_fact *f = fact(r, "cgroup limits", h.version != CGROUP_NONE);
    if (h.version != CGROUP_NONE)
        snprintf(f->detail, sizeof f->detail, "v%d:%s%s%s", h.version,
                 h.controllers & CGROUP_MEMORY ? " memory" : "",
                 h.controllers & CGROUP_PIDS ? " pids" : "",
                 h.controllers & CGROUP_CPU ? " cpu" : "");
    else
        snprintf(f->detail, sizeof f->detail, "limits by rlimit, tmpfs size and sampling instead");
    snprintf(f->why, sizeof f->why, "%s", h.why);
    snprintf(f->how, sizeof f->how, "%s", h.how);
}

static void look_at_proxy(struct host_report *r)
{
    char path[4200];
    struct err err = ERR_INIT;
    bool present = link_program(path, sizeof path, &err) == 0;
    struct host_fact *f = fact(r, "brig-proxy", present);
    snprintf(f->detail, sizeof f->detail, "%.150s", present ? path : "no network for any sandbox");
    if (!present) {
        snprintf(f->why, sizeof f->why, "%.250s", err.message);
        snprintf(f->how, sizeof f->how, "%.250s", err.hint);
    }
}

static void judge_tiers(struct host_report *r, bool seccomp, int abi, bool namespaces)
{
    r->tiers[0].tier = TIER_PROCESS;
    r->tiers[1].tier = TIER_CONTAINER;
    r->tiers[2].tier = TIER_HARDWARE;
    r->tiers[0].available = seccomp && abi > 0;
    r->tiers[1].available = seccomp && abi > 0 && namespaces;
    for (int t = 0; t < 2; t++)
        for (unsigned i = 0; !r->tiers[t].available && i < r->fact_count; i++) {
            const struct host_fact *f = &r->facts[i];
            bool matters = strcmp(f->name, "cgroup limits") != 0 &&
                           strcmp(f->name, "brig-proxy") != 0 &&
                           (t == 1 || strcmp(f->name, "user namespaces") != 0);
            if (f->present || !matters)
                continue;
            snprintf(r->tiers[t].why, sizeof r->tiers[t].why, "%.80s: %.160s", f->name, f->why);
            snprintf(r->tiers[t].how, sizeof r->tiers[t].how, "%s", f->how);
            break;
        }
    snprintf(r->tiers[2].why, sizeof r->tiers[2].why, "this version of brig has no hardware tier");
}

static void judge_levels(struct host_report *r)
{
    for (int level = 0; level < LEVEL_COUNT; level++) {
        enum tier tier = tier_of_level((enum level)level);
        int t = tier == TIER_PROCESS ? 0 : tier == TIER_CONTAINER ? 1 : 2;
        r->levels[level].level = (enum level)level;
        r->levels[level].tier = tier;
        r->levels[level].available = r->tiers[t].available;
        memcpy(r->levels[level].why, r->tiers[t].why, sizeof r->levels[level].why);
        memcpy(r->levels[level].how, r->tiers[t].how, sizeof r->levels[level].how);
    }
}

void sandbox_host_report(struct host_report *ret)
{
    memset(ret, 0, sizeof *ret);
    look_at_kernel(ret);
    bool seccomp = look_at_seccomp(ret);
    int abi = look_at_landlock(ret);
    bool namespaces = look_at_namespaces(ret);
    look_at_cgroups(ret);
    look_at_proxy(ret);
    judge_tiers(ret, seccomp, abi, namespaces);
    judge_levels(ret);
}
