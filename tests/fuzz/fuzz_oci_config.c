/* A bundle's config.json, from an image or a pod: read, judged, its filter compiled. Whatever it
 * says: refused with a reason, or within the floor. */
#include "kernel/process/filter.h"
#include "oci/engine.h"
#include "oci/judge.h"
#include "oci/seccomp.h"

#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>

/* OC-16, OC-18: at least what the file says, and what an engine cannot have is refused. */
static void check_walls(const struct oci_config *c, const struct oci_operator *o)
{
    struct oci_walls w;
    struct err err = ERR_INIT;
    int r = oci_walls_decide(c->annotations, o, &w, &err);
    if ((r < 0) != (err.code != ERR_NONE))
        abort();
    if (r < 0)
        return;
    if (w.tier < TIER_WASM || !w.leveled || w.level < LEVEL_MEDIUM)
        abort();
    if (oci_level_judge(&w, c, false, &err) == 0 &&
        (!c->root_read_only || c->ns[OCI_NS_NETWORK].path))
        abort();
    err = (struct err)ERR_INIT;
    r = oci_engine_judge_config(w.tier, c, &err);
    if ((r < 0) != (err.code != ERR_NONE))
        abort();
    for (size_t i = 0; r == 0 && i < c->mount_count; i++)
        if (c->mounts[i].nosymfollow)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_floor(const struct oci_config *c)
{
    uint64_t all = 0;
    for (int i = 0; i < OCI_CAPS_COUNT; i++)
        all |= c->process.caps[i];
    if (all & ~oci_caps_allowed)
        abort();
    if (!c->ns[OCI_NS_PID].listed || !c->ns[OCI_NS_NETWORK].listed || !c->ns[OCI_NS_IPC].listed ||
        c->ns[OCI_NS_PID].path || c->ns[OCI_NS_USER].path || c->ns[OCI_NS_MOUNT].path)
        abort();
    for (size_t i = 0; i < c->mount_count; i++)
        if (c->mounts[i].type == OCI_MOUNT_OTHER || c->mounts[i].odd || c->mounts[i].dest[0] != '/')
            abort();
    for (size_t i = 0; i < json_count(c->sysctl); i++)
        if (strchr(json_key_at(c->sysctl, i), '/'))
            abort();
    if (json_count(json_get(c->hooks, "prestart")))
        abort();
}

/* Every way through the program ends. */
static void check_filter(const struct oci_filter *f)
{
    static struct filter_program p;
    if (f->len > FILTER_MAX_INSNS)
        return;
    memcpy(p.code, f->code, f->len * sizeof f->code[0]);
    p.len = f->len;
    for (int nr = 0; nr < 460; nr += 7) {
        struct seccomp_data call = {
            .nr = nr, .arch = FILTER_NATIVE, .args = {(uint64_t)nr, 5, 0x100000000}};
        (void)filter_run(&p, &call);
    }
}

/* OC-10: rules of the file's alone, whatever the annotations say. */
static void check_ways_out(const struct oci_config *c, const struct oci_operator *o)
{
    struct policy p;
    struct err err = ERR_INIT;
    int r = oci_egress_decide(c, o, &p, &err);
    if ((r < 0) != (err.code != ERR_NONE))
        abort();
    if (r <= 0)
        return;
    for (size_t i = 0; i < p.egress.rule_count; i++)
        if (!strstr(p.egress.rules[i].text, ".fuzz.test") || p.egress.rules[i].pinned)
            abort();
    if (p.egress.rule_count == 0 || p.egress.secret_count || egress_needs_ca(&p.egress) ||
        (c->ns[OCI_NS_NETWORK].path && !oci_network_own(c)))
        abort();
    policy_done(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char file[] =
        "{\"allow\":[\"*.fuzz.test\"],\"policies\":{\"p\":[\"p.fuzz.test\"]},"
        "\"tier\":\"wasm\",\"level\":\"medium\"}";
    static struct oci_config c;
    static struct oci_filter f;
    struct oci_operator o;
    struct err err = ERR_INIT;
    if (oci_operator_parse(file, sizeof file - 1, &o, &err) < 0)
        abort();
    int r = oci_config_parse((const char *)data, size, &c, &err);
    if ((r < 0) != (err.code != ERR_NONE))
        abort();
    if (r == 0) {
        r = oci_judge(&c, &o, &err);
        if ((r < 0) != (err.code != ERR_NONE))
            abort();
        if (r == 0) {
            check_floor(&c);
            check_ways_out(&c, &o);
            check_walls(&c, &o);
        }
        err = (struct err)ERR_INIT;
        r = oci_filter_compile(c.seccomp, &f, &err);
        if ((r < 0) != (err.code != ERR_NONE))
            abort();
        if (r == 0 && f.len)
            check_filter(&f);
        oci_config_done(&c);
    }
    oci_operator_done(&o);
    return 0;
}
