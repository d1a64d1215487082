/* What this host can enforce, for `brig doctor`. */
#include "base/cleanup.h"
#include "kernel/subids.h"
#include "kernel/tier.h"
#include "os/cgroup.h"
#include "os/fd.h"
#include "os/landlock.h"
#include "sandbox/link.h"
#include "sandbox/module.h"
#include "sandbox/sandbox.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

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
    bool present = tier_probe_seccomp();
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

/* For root beside an ordinary user in one sandbox (kernel.root). */
static void look_at_users(struct host_report *r)
{
    char why[256] = "", how[256] = "", command[256] = "";
    bool present = geteuid() == 0 || subids_probe(why, how, command);
    struct host_fact *f = fact(r, "two users", present);
    snprintf(f->detail, sizeof f->detail, "%s",
             present ? "root beside the ordinary user in a sandbox" : "");
    memcpy(f->why, why, sizeof f->why);
    memcpy(f->how, how, sizeof f->how);
    memcpy(f->command, command, sizeof f->command);
}

/* Only by one of two services, which then stand in the line about hosts; Debian has neither by
 * default. */
bool host_finds_port_names(void)
{
    char text[8192];
    const char *line = file_read(AT_FDCWD, "/etc/nsswitch.conf", text, sizeof text) > 0
                           ? strstr(text, "\nhosts:")
                           : NULL;
    if (!line)
        return false;
    text[(size_t)(line - text) + 1 + strcspn(line + 1, "\n")] = '\0';
    return strstr(line, "myhostname") || strstr(line, "resolve");
}

static void look_at_names(struct host_report *r)
{
    bool present = host_finds_port_names();
    struct host_fact *f = fact(r, "names of ports", present);
    snprintf(f->detail, sizeof f->detail, "%s",
             present ? "PORT-ID.localhost is found (brig serve)"
                     : "PORT-ID.localhost is found by browsers and curl alone (brig serve)");
    if (present)
        return;
    snprintf(f->why, sizeof f->why,
             "Node.js, Python and the like ask the C library, which knows no names below localhost "
             "here");
    snprintf(f->how, sizeof f->how,
             "apt-get install libnss-myhostname (Debian, Ubuntu), or see docs/serve.md, Ports, for "
             "ways without it");
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

/* What a tier needs of the kernel, by the names under which the report has it. */
static bool matters(const struct tier_row *row, const char *fact)
{
    static const struct {
        const char *name;
        unsigned need; /* 0: of every tier that runs on this kernel */
    } each[] = {{"kernel 5.13 or newer", 0},
                {"seccomp notification", TIER_NEEDS_SECCOMP},
                {"Landlock", TIER_NEEDS_LANDLOCK},
                {"user namespaces", TIER_NEEDS_NAMESPACES}};
    for (size_t i = 0; i < ARRAY_LEN(each); i++)
        if (strcmp(each[i].name, fact) == 0)
            return row->needs && (!each[i].need || (row->needs & each[i].need));
    return false;
}

static void judge_tier(struct host_report *r, struct host_tier *t, unsigned found)
{
    const struct tier_row *row = tier_row(t->tier);
    t->available = (row->needs & ~found) == 0;
    for (unsigned i = 0; !t->available && i < r->fact_count; i++) {
        const struct host_fact *f = &r->facts[i];
        if (f->present || !matters(row, f->name))
            continue;
        snprintf(t->why, sizeof t->why, "%.80s: %.160s", f->name, f->why);
        snprintf(t->how, sizeof t->how, "%s", f->how);
        return;
    }
    struct tier_answer answer = {0};
    if (!t->available || !row->probe)
        return;
    if (row->probe(&answer)) {
        memcpy(t->how, answer.how, sizeof t->how); /* what would make it available */
        return;
    }
    t->available = false;
    memcpy(t->why, answer.why, sizeof t->why);
    memcpy(t->how, answer.how, sizeof t->how);
}

static void judge_levels(struct host_report *r)
{
    for (int level = 0; level < LEVEL_COUNT; level++) {
        enum tier tier = tier_of_level((enum level)level);
        const struct host_tier *t = host_tier_of(r, tier);
        r->levels[level].level = (enum level)level;
        r->levels[level].tier = tier;
        r->levels[level].available = t->available;
        memcpy(r->levels[level].why, t->why, sizeof r->levels[level].why);
        memcpy(r->levels[level].how, t->how, sizeof r->levels[level].how);
    }
}

static void look_at_languages(struct host_report *r)
{
    cleanup_free struct module *found = malloc(sizeof *found);
    const char *language;
    for (size_t i = 0; found && i < HOST_LANGUAGES_MAX - 1 && (language = module_language_at(i));
         i++) {
        struct err err = ERR_INIT;
        struct host_language *l = &r->languages[i];
        l->name = language;
        if (module_find(language, found, &err) == 0) {
            snprintf(l->module, sizeof l->module, "%.190s", found->path);
        } else {
            snprintf(l->why, sizeof l->why, "%.250s", err.message);
            snprintf(l->how, sizeof l->how, "%.250s", err.hint);
        }
    }
}

const struct host_tier *host_tier_of(const struct host_report *report, enum tier tier)
{
    return &report->tiers[tier < TIER_PROCESS ? 0 : tier - TIER_PROCESS];
}

void sandbox_host_report(struct host_report *ret)
{
    memset(ret, 0, sizeof *ret);
    look_at_kernel(ret);
    unsigned found = look_at_seccomp(ret) ? TIER_NEEDS_SECCOMP : 0;
    if (look_at_landlock(ret) > 0)
        found |= TIER_NEEDS_LANDLOCK;
    if (look_at_namespaces(ret))
        found |= TIER_NEEDS_NAMESPACES;
    look_at_cgroups(ret);
    look_at_users(ret);
    look_at_names(ret);
    look_at_proxy(ret);
    for (size_t i = 0; i < ARRAY_LEN(ret->tiers); i++) {
        ret->tiers[i].tier = (enum tier)(TIER_PROCESS + i);
        ret->tiers[i].about = tier_row(ret->tiers[i].tier)->about;
        judge_tier(ret, &ret->tiers[i], found);
    }
    judge_levels(ret);
    look_at_languages(ret);
}
