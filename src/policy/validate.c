/* Contradictions between fields. Each field by itself was checked when it was set. */
#include "base/cleanup.h"
#include "base/quote.h"
#include "base/text.h"
#include "policy/egress/internal.h"
#include "policy/grants.h"
#include "policy/paths.h"

#include <string.h>

static bool has_root_folder(const struct policy *p)
{
    return strcmp(p->root, "host") != 0;
}

static int check_critical(const struct policy *p, struct err *err)
{
    struct quoted q;
    if (p->level != LEVEL_CRITICAL)
        return 0;
    if (p->grant_count > 0)
        err_set(err, ERR_POLICY, "level critical shows no host folder, but %s grants %s",
                grant_field(p->grants[0].writable), quote(&q, p->grants[0].source));
    else if (p->project)
        err_set(err, ERR_POLICY,
                "level critical shows no host folder, but filesystem.project is true");
    else if (has_root_folder(p))
        err_set(err, ERR_POLICY, "level critical shows no host folder, but filesystem.root is %s",
                quote(&q, p->root));
    else
        return 0;
    return err_hint(err, "remove it, or choose level high");
}

/* Without a mount namespace nothing can stand at another place, and nothing can be covered. */
static int check_moved(const struct policy *p, const struct grant *g, struct err *err)
{
    struct quoted source;
    struct quoted dest;
    if (strcmp(g->source, g->dest) == 0)
        return 0;
    err_set(err, ERR_POLICY,
            "tier %s has no mount namespace: %s cannot show %s at another place (%s)",
            tier_name(p->tier), grant_field(g->writable), quote(&source, g->source),
            quote(&dest, g->dest));
    return err_hint(err, "grant the folder at its own place, or use tier container");
}

/* Landlock's rules add up on the way down: what a parent may, each folder in it may. */
static int check_nested(const struct policy *p, const struct grant *g, struct err *err)
{
    struct quoted inner;
    struct quoted outer;
    for (size_t i = 0; i < p->grant_count && !g->writable; i++) {
        const struct grant *other = &p->grants[i];
        if (!other->writable || !path_covered(g->dest, other->dest))
            continue;
        err_set(err, ERR_POLICY,
                "tier %s has no mount namespace: %s cannot be read-only inside %s, which is "
                "granted read-write",
                tier_name(p->tier), quote(&inner, g->dest), quote(&outer, other->dest));
        return err_hint(err, "grant only the folders that must be writable, or use tier container");
    }
    return 0;
}

/* The layer lies where the workspace does, and whoever can write everywhere and execute nothing
 * that is written can start nothing at all. */
static int check_writable_root(const struct policy *p, struct err *err)
{
    if (!p->writable_root || (p->workspace && p->exec))
        return 0;
    err_set(err, ERR_POLICY, "filesystem.writable_root is true, but filesystem.%s is false",
            p->workspace ? "exec" : "workspace");
    return err_hint(err, "remove one of the two");
}

/* Two ids are mapped into a user namespace, and each has a place of its own to write. */
static int check_beside(const struct policy *p, struct err *err)
{
    if (!p->root_beside)
        return 0;
    if (p->uid == 0) {
        err_set(err, ERR_POLICY, "kernel.root is true, but kernel.uid is 0: root is the one user");
        return err_hint(err, "remove one of the two");
    }
    if (p->uid != 1000) {
        err_set(err, ERR_POLICY, "kernel.root is true, but kernel.uid is not 1000");
        return err_hint(err, "leave kernel.uid out");
    }
    if (p->tier != TIER_AUTO && p->tier != TIER_CONTAINER) {
        err_set(err, ERR_POLICY, "tier %s has one user inside: kernel.root cannot be true",
                tier_name(p->tier));
        return err_hint(err, "leave kernel.root out, or use tier container");
    }
    if (p->workspace)
        return 0;
    err_set(err, ERR_POLICY, "kernel.root is true, but filesystem.workspace is false");
    return err_hint(err, "remove one of the two");
}

static int check_process(const struct policy *p, struct err *err)
{
    struct quoted q;
    if (p->tier == TIER_AUTO || tier_namespaced(p->tier))
        return 0;
    if (has_root_folder(p)) {
        err_set(err, ERR_POLICY, "tier %s has no mount namespace: filesystem.root cannot be %s",
                tier_name(p->tier), quote(&q, p->root));
        return err_hint(err, "leave filesystem.root at host, or use tier container");
    }
    if (p->writable_root) {
        err_set(err, ERR_POLICY,
                "tier %s has no mount namespace: filesystem.writable_root cannot be true",
                tier_name(p->tier));
        return err_hint(err, "leave filesystem.writable_root out, or use tier container");
    }
    if (p->origin[FIELD_UID].kind > ORIGIN_LEVEL) {
        err_set(err, ERR_POLICY, "tier %s has no user namespace: kernel.uid cannot be chosen",
                tier_name(p->tier));
        return err_hint(err, "leave kernel.uid out, or use tier container");
    }
    for (size_t i = 0; i < p->grant_count; i++) {
        int r = check_moved(p, &p->grants[i], err);
        if (r == 0)
            r = check_nested(p, &p->grants[i], err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int check_network(const struct policy *p, struct err *err)
{
    const struct egress *e = &p->egress;
    if (p->network_mode == NETWORK_OFF && (e->rule_count || e->secret_count || e->asks)) {
        err_set(err, ERR_POLICY, "network.mode is off, but %s",
                e->secret_count ? "credentials.secrets has secrets that go over the network"
                : e->rule_count ? "network.allow has rules"
                                : "network.ask asks about hosts");
        return err_hint(err, "remove one of the two, or say mode: allowlist");
    }
    for (size_t i = 0; i < e->rule_count; i++) {
        int r = refuse_local_rule(&e->rules[i], err);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < e->secret_count; i++) {
        if (e->secrets[i].hidden || !env_find(p, e->secrets[i].name))
            continue;
        err_set(err, ERR_POLICY, "%s is both in credentials.env and the name of a secret",
                e->secrets[i].name);
        return err_hint(err, "inside, the variable of a secret holds its placeholder: remove the "
                             "one in credentials.env");
    }
    return 0;
}

/* A module has no sockets, and its runner needs the host's libraries. */
static int check_wasm(const struct policy *p, struct err *err)
{
    for (unsigned i = 0; i < p->wish.count; i++)
        if (tier_runs_modules(p->wish.tiers[i])) {
            const char *word = tier_name(p->wish.tiers[i]);
            err_set(err, ERR_POLICY, "kernel.tier: what runs on tier %s runs on no other", word);
            return err_hint(err, "name %s alone, or leave it out", word);
        }
    if (!tier_runs_modules(p->tier))
        return 0;
    const char *word = tier_name(p->tier);
    if (p->wish.count)
        err_set(err, ERR_POLICY, "kernel.tier: what runs on tier %s runs on no other", word);
    else if (p->network_mode != NETWORK_OFF)
        err_set(err, ERR_POLICY, "tier %s has no sockets: network.mode must be off", word);
    else if (has_root_folder(p) || p->writable_root)
        err_set(err, ERR_POLICY, "tier %s shows folders, and no root: filesystem.%s", word,
                p->writable_root ? "writable_root cannot be true" : "root must be host");
    else
        return 0;
    return err_hint(err, "leave it out, or use tier container");
}

int policy_validate(const struct policy *p, struct err *err)
{
    struct err ignored;
    if (!err)
        err = &ignored;
    int r = check_critical(p, err);
    if (r == 0)
        r = check_network(p, err);
    if (r == 0)
        r = check_process(p, err);
    if (r == 0)
        r = check_wasm(p, err);
    if (r == 0)
        r = check_beside(p, err);
    return r < 0 ? r : check_writable_root(p, err);
}
