/* Tier and level of a container: what its annotations ask for, and what the operator's file asks of
 * every container, become one pair. A word that is weaker than another one that holds is refused,
 * and so is what is not there (OC-16). Pure.
 *
 * A level fills in nothing, as it does in `brig run`: it is held against the configuration. */
#include "base/cleanup.h"
#include "base/quote.h"
#include "oci/judge.h"

#include <string.h>

#define ASKED "config: annotation "

/* ---- which ---- */

static int unknown(const char *key, const char *value, const char *words, struct err *err)
{
    struct quoted q;
    err_set(err, ERR_USAGE, ASKED "%s: %s is not known", key, quote(&q, value));
    return err_hint(err, "it is one of %s", words);
}

static int refuse_weaker(const char *key, const char *value, const char *least, const char *who,
                         struct err *err)
{
    err_set(err, ERR_REFUSED, ASKED "%s: %s is weaker than %s, which %s", key, value, least, who);
    err_at(err, BOUNDARY_KERNEL);
    return err_hint(err, "ask for %s or more, or for nothing; an annotation cannot weaken", least);
}

static int read_level(const char *value, const struct oci_operator *o, struct oci_walls *ret,
                      struct err *err)
{
    ret->leveled = o->leveled || value;
    ret->level = ret->least = o->level;
    if (!value)
        return 0;
    if (level_parse(value, &ret->level) < 0)
        return unknown(OCI_KEY_LEVEL, value, "low, medium, high, critical", err);
    if (o->leveled && ret->level < o->level)
        return refuse_weaker(OCI_KEY_LEVEL, value, level_name(o->level),
                             "the operator's file asks for", err);
    if (!o->leveled)
        ret->least = ret->level;
    return 0;
}

static int read_tier(const char *value, const struct oci_operator *o, struct oci_walls *ret,
                     struct err *err)
{
    enum tier asked = TIER_CONTAINER;
    bool critical = ret->leveled && ret->level == LEVEL_CRITICAL;
    ret->tier = o->tier > TIER_CONTAINER ? o->tier : TIER_CONTAINER;
    if (critical)
        ret->tier = TIER_VM;
    if (!value)
        return 0;
    if (tier_parse(value, &asked) < 0)
        return unknown(OCI_KEY_TIER, value, "container, wasm, gvisor, vm", err);
    if (asked < TIER_CONTAINER)
        return refuse_weaker(OCI_KEY_TIER, value, tier_name(TIER_CONTAINER), "every container has",
                             err);
    if (asked < ret->tier)
        return refuse_weaker(OCI_KEY_TIER, value, tier_name(ret->tier),
                             critical ? "level critical asks for" : "the operator's file asks for",
                             err);
    ret->tier = asked;
    return 0;
}

/* Who asks for one that is not there gets nothing in its place. */
static int check_there(enum tier tier, struct err *err)
{
    if (tier == TIER_CONTAINER || tier == TIER_WASM || tier == TIER_GVISOR)
        return 0;
    err_set(err, ERR_UNSUPPORTED,
            "config: " OCI_KEY_TIER ": containers of engines are not made on the tier %s, and "
            "nothing else is put in its place",
            tier_name(tier));
    err_at(err, BOUNDARY_KERNEL);
    return err_hint(err, "`brig run --tier %s --image NAME` has that tier for an image",
                    tier_name(tier));
}

int oci_walls_decide(const struct json *annotations, const struct oci_operator *o,
                     struct oci_walls *ret, struct err *err)
{
    *ret = (struct oci_walls){.tier = TIER_CONTAINER};
    if (read_level(json_text(annotations, OCI_KEY_LEVEL), o, ret, err) < 0 ||
        read_tier(json_text(annotations, OCI_KEY_TIER), o, ret, err) < 0)
        return err_number(err);
    return check_there(ret->tier, err);
}

/* ---- what a level asks of a configuration ---- */

/* Every container has more than the kernel boundary of level medium; of the others' columns these
 * are what a configuration can miss. */
static const struct {
    bool off;                /* no ways out, not by brig-proxy either */
    bool writable, readable; /* folders of the host */
} levels[LEVEL_COUNT] = {
    [LEVEL_LOW] = {.off = true, .readable = true},
    [LEVEL_MEDIUM] = {.writable = true, .readable = true},
    [LEVEL_HIGH] = {.readable = true},
    [LEVEL_CRITICAL] = {.off = false},
};

static int refuse_level(enum level level, enum boundary_id boundary, const char *what,
                        const char *hint, struct err *err)
{
    err_set(err, ERR_REFUSED, "config: " OCI_KEY_LEVEL ": level %s has %s", level_name(level),
            what);
    err_at(err, boundary);
    return err_hint(err, "%s; the level is asked for by the annotation, or in " OCI_OPERATOR_FILE,
                    hint);
}

static int judge_at(enum level level, const struct oci_config *c, bool rules, struct err *err)
{
    if (!c->root_read_only)
        return refuse_level(level, BOUNDARY_FILESYSTEM, "a root that is read-only",
                            "set root.readonly (podman, docker: --read-only)", err);
    if (c->ns[OCI_NS_NETWORK].path)
        return refuse_level(level, BOUNDARY_NETWORK, "no network that was made outside",
                            "let the engine make none (--network none), or say brig.network: own",
                            err);
    if (rules && levels[level].off)
        return refuse_level(level, BOUNDARY_NETWORK, "no ways out",
                            "leave brig.allow and brig.policy out", err);
    return 0;
}

/* Against both: an annotation that names a higher level must not give what the operator's has not
 * (medium has ways out and folders that can be written, low has neither). */
int oci_level_judge(const struct oci_walls *w, const struct oci_config *c, bool rules,
                    struct err *err)
{
    if (!w->leveled)
        return 0;
    int r = judge_at(w->level, c, rules, err);
    return r == 0 && w->least != w->level ? judge_at(w->least, c, rules, err) : r;
}

static int judge_folder_at(enum level level, const struct oci_mount *m, struct err *err)
{
    if (!levels[level].readable)
        return refuse_level(level, BOUNDARY_FILESYSTEM, "no folder of the host",
                            "leave the volume out, or take a tmpfs", err);
    if (!m->read_only && !levels[level].writable)
        return refuse_level(level, BOUNDARY_FILESYSTEM, "no folder of the host that can be written",
                            "mount it read-only, or take a tmpfs", err);
    return 0;
}

int oci_level_judge_folder(const struct oci_walls *w, const struct oci_mount *m, struct err *err)
{
    if (!w->leveled)
        return 0;
    int r = judge_folder_at(w->level, m, err);
    return r == 0 && w->least != w->level ? judge_folder_at(w->least, m, err) : r;
}

/* Those that engines make for each container, and lay over its root. */
static bool is_engines(const char *dest)
{
    static const char *const places[] = {"/etc/hosts", "/etc/hostname", "/etc/resolv.conf",
                                         "/run/.containerenv", "/dev/termination-log"};
    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        if (strcmp(dest, places[i]) == 0)
            return true;
    return false;
}

int oci_level_judge_file(const struct oci_walls *w, const struct oci_mount *m, struct err *err)
{
    return is_engines(m->dest) ? 0 : oci_level_judge_folder(w, m, err);
}
