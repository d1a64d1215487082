/* The verdict on one row, from what the attack reported, what was seen and what the control did. */
#include "verify/judge.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

const char *verdict_word(enum verdict_kind kind)
{
    static const char *const words[] = {"held", "failed", "not applicable"};
    return words[kind];
}

static void rule(struct ruling *ret, enum verdict_kind kind, const char *text)
{
    ret->kind = kind;
    snprintf(ret->text, sizeof ret->text, "%s", text);
}

static bool reported_by_module(const struct row *r)
{
    return (r->flags & ROW_MODULE) && !r->look;
}

/* Another kernel may say yes and do nothing to the host: where there is a canary, only that counts.
 */
static bool judged_by_report(const struct row *r, bool sentry)
{
    bool reports = r->attack || reported_by_module(r);
    return reports && !(r->flags & (ROW_TOKEN | ROW_CHECK | ROW_MARKED)) && !(sentry && r->check);
}

/* What it gave is its own; whether anything of the host's was in it, the rows G-01 and G-03 say. */
static bool answered_itself(const struct row *r, const struct evidence_of_row *e)
{
    return e->sentry && (r->flags & ROW_ANSWERED) && !e->token && !e->seen && e->inside.worked;
}

/* An attack that fails where nothing stops it says nothing about what does. */
static bool vacuous(const struct row *r, const struct evidence_of_row *e, struct ruling *ret)
{
    char how[160], text[256];
    if (!e->control_ran) {
        rule(ret, ROW_NOT_APPLICABLE, "its control cannot be run here");
        return true;
    }
    if (e->control.worked)
        return false;
    outcome_text(&e->control, how, sizeof how);
    snprintf(text, sizeof text, "%s (%s)",
             r->flags & (ROW_PROXY | ROW_MODULE)
                 ? "what is allowed does not work either"
                 : "without the sandbox it does not work here either",
             how);
    rule(ret, ROW_NOT_APPLICABLE, text);
    return true;
}

static void rule_failed(const struct evidence_of_row *e, struct ruling *ret)
{
    char how[200];
    outcome_text(&e->inside, how, sizeof how);
    if (e->token)
        rule(ret, ROW_FAILED, "what only the host knows was read inside");
    else
        rule(ret, ROW_FAILED, e->what[0] ? e->what : how);
}

void judge_row(const struct row *r, const struct evidence_of_row *e, struct ruling *ret)
{
    char how[200];
    if (e->excuse) {
        rule(ret, ROW_NOT_APPLICABLE, e->excuse);
        return;
    }
    if (answered_itself(r, e)) {
        rule(ret, ROW_NOT_APPLICABLE,
             e->guest ? "the guest's kernel answers it itself, of its own things (docs/verify.md)"
                      : "gVisor's kernel answers it itself, of its own things (docs/verify.md)");
        return;
    }
    bool worked = e->inside.reported && e->inside.worked && judged_by_report(r, e->sentry);
    if (e->token || e->seen || worked) {
        rule_failed(e, ret);
        return;
    }
    bool silent = (r->flags & ROW_SILENT) && !e->shared;
    /* A limit may end a module before it begins; else one that says nothing was not tried at all.
     */
    if (reported_by_module(r) && !silent && !e->control.reported) {
        rule(ret, ROW_FAILED, "the module that is to try it was not run");
        return;
    }
    if (vacuous(r, e, ret))
        return;
    bool ended = e->limited || silent;
    bool answered = e->inside.reported || (r->look && e->looked) || ended || e->refused;
    if (!answered) {
        rule(ret, ROW_FAILED, "the attack gave no answer: the sandbox ended before it was over");
        return;
    }
    outcome_text(&e->inside, how, sizeof how);
    if (e->inside.reported && (e->inside.code || e->inside.signal))
        rule(ret, ROW_HELD, how);
    else
        rule(ret, ROW_HELD,
             r->look && !r->attack                 ? "in force, seen from outside"
             : e->refused                          ? "it was not run"
             : ended                               ? "ended by its limit"
             : r->flags & (ROW_CHECK | ROW_MARKED) ? "nothing of it was seen outside"
                                                   : "nothing came out");
}

int judge_status(const struct ruling *rulings, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (rulings[i].kind == ROW_FAILED)
            return 1;
    return 0;
}

static const char *excused_by_limit(const struct row *r, const struct circumstances *c)
{
    static const char *const whys[SCENE_COUNT] = {
        [SCENE_MEMORY] = "the policy sets no limit of memory",
        [SCENE_PIDS] = "the policy sets no limit of tasks",
        [SCENE_DEADLINE] = "the policy sets no time limit",
        [SCENE_DISK] = "the policy sets no limit of bytes in the workspace",
        [SCENE_INODES] = "the policy sets no limit of files in the workspace",
        [SCENE_OUTPUT] = "the policy sets no limit of output",
        [SCENE_MODULE_MEMORY] = "the policy sets no limit of memory",
        [SCENE_MODULE_DEADLINE] = "the policy sets no time limit",
    };
    return whys[r->scene] && !c->limited[r->scene] ? whys[r->scene] : NULL;
}

/* What stands outside of a guest: around its monitor, between the monitor and the host's files, and
 * around the run. All else that a row tries ends at walls inside as well, and then at the guest's
 * kernel. */
static uint64_t guards_outside(const struct row *r)
{
    uint64_t outside = GUARD_BIT(RULES) | GUARD_BIT(ADDRESS) | GUARD_BIT(ORIGIN) |
                       GUARD_BIT(REDACTION) | GUARD_BIT(TIMEOUT) | GUARD_BIT(CPU_TIME) |
                       GUARD_BIT(OUTPUT) | GUARD_BIT(DISK) | GUARD_BIT(INODES) |
                       GUARD_BIT(SUPERVISOR);
    /* Modes are no contents: Landlock inside says nothing about them. */
    if (r->flags & ROW_OWNER)
        outside |= GUARD_BIT(READ_ONLY);
    /* Without these two the monitor is not found where it is started: there is nothing to attack.
     */
    uint64_t needed = GUARD_BIT(ROOT) | GUARD_BIT(NS_MOUNT);
    return r->look || (r->flags & ROW_GUEST) ? ~needed : outside;
}

uint64_t row_guards(const struct row *r, const struct circumstances *c)
{
    bool own_uid =
        c->root && ((r->flags & ROW_OWNER) || ((r->flags & ROW_ENGINE) && !c->open_engine));
    if (!tier_namespaced(c->tier) && !(r->flags & ROW_MODULE))
        return own_uid ? 0 : r->process;
    if ((r->flags & ROW_COUNTED) && !c->cgroup)
        return 0;
    /* Besides the guards there is another kernel, which knows no socket of the host's. */
    bool alone = r->look || r->scene != SCENE_PLAIN || (r->flags & ROW_PASSED);
    if (c->sentry && (!alone || (r->flags & ROW_NO_SOCKETS)))
        return 0;
    uint64_t guards = r->container;
    if (c->guest)
        guards &= guards_outside(r);
    if (own_uid)
        guards &= ~(GUARD_BIT(ROOT) | GUARD_BIT(NS_MOUNT));
    if ((r->flags & ROW_LAYER) && c->writable_root)
        guards &= ~GUARD_BIT(READ_ONLY);
    return guards;
}

const char *row_excused(const struct row *r, const struct circumstances *c)
{
    if (!row_on_tier(r, c->tier) && (r->flags & (ROW_GUEST | ROW_SENTRY)))
        return "it is about an engine that this tier does not have";
    if (!row_on_tier(r, c->tier))
        return tier_runs_modules(c->tier) ? "a module has no sockets: there are no rules to attack"
                                          : "only the wasm tiers run modules";
    if ((r->flags & ROW_CONTAINER) && !tier_namespaced(c->tier))
        return "the process tier has nothing of the kind (docs/verify.md)";
    if ((r->flags & ROW_SENTRY) && !c->sentry)
        return "there is no engine on this tier";
    if ((r->flags & ROW_ROOT) && !c->root)
        return "only root has it to lose";
    if ((r->flags & ROW_CGROUP) && !c->cgroup)
        return "this sandbox has no cgroup";
    if ((r->flags & ROW_WORKSPACE) && !c->workspace)
        return "the policy gives nothing to write to";
    if ((r->flags & ROW_NOEXEC) && c->exec)
        return "the policy allows to execute what was written";
    if ((r->flags & ROW_READ_ONLY) && c->writable_root)
        return "the policy makes the root writable, in a layer of the sandbox's own";
    if ((r->flags & ROW_CLOSED) && c->writable_root)
        return "in a writable root Landlock says less: every file can be opened; the start probed "
               "it "
               "by a device node";
    if ((r->flags & ROW_IPV6) && !c->ipv6)
        return "this host has no IPv6";
    if ((r->flags & ROW_NO_SOCKETS) && c->unix_sockets)
        return "the policy allows UNIX sockets beside granted folders";
    if (r->scene == SCENE_NETWORK && !c->proxy)
        return "brig-proxy is not installed: no sandbox has a network";
    return excused_by_limit(r, c);
}
