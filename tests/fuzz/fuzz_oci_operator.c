/* The operator's file of `brig oci`: whatever it says, it is refused with a reason, or it allows no
 * more than such a file can. */
#include "oci/judge.h"

#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct oci_operator *o)
{
    static const int never[] = {CAP_SYS_ADMIN, CAP_SYS_MODULE, CAP_SYS_RAWIO, 39 /* CAP_BPF */};
    for (size_t i = 0; i < sizeof never / sizeof never[0]; i++)
        if (o->caps & 1ull << never[i])
            abort();
    if (o->joins[OCI_NS_USER] || o->joins[OCI_NS_MOUNT] || o->joins[OCI_NS_CGROUP] ||
        o->memory < 0 || o->pids < 0 || (o->log && o->log[0] != '/') ||
        (o->docker && o->docker[0] != '/'))
        abort();
}

/* A policy of the file's, by its first name: its rules can be used, or it is said why not. */
static void use(const struct oci_operator *o)
{
    static const char config[] = "{\"annotations\":{\"brig.policy\":\"p\"}}";
    struct oci_config c = {.version = ""};
    struct policy p;
    struct err err = ERR_INIT;
    if (json_parse(config, sizeof config - 1, &json_default_limits, &c.tree, &err) < 0)
        abort();
    c.annotations = json_get(c.tree, "annotations");
    int r = oci_egress_decide(&c, o, &p, &err);
    if ((r < 0) != (err.code != ERR_NONE) || r == 0)
        abort();
    if (r > 0)
        policy_done(&p);
    json_free(c.tree);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct oci_operator o;
    struct err err = ERR_INIT;
    int r = oci_operator_parse((const char *)data, size, &o, &err);
    if ((r < 0) != (err.code != ERR_NONE))
        abort();
    if (r < 0)
        return 0;
    check(&o);
    use(&o);
    oci_operator_done(&o);
    return 0;
}
