/* The operator's own file: what this node allows beyond the floor. Nothing else widens anything. */
#include "base/cleanup.h"
#include "oci/fields.h"
#include "oci/judge.h"
#include "os/fd.h"
#include "os/trusted.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Those that the operator can add: each is over the sandbox's own user namespace only. */
static const int more_caps[] = {
    CAP_SYS_PTRACE,   CAP_IPC_LOCK,        CAP_SYS_NICE,      CAP_NET_ADMIN, CAP_IPC_OWNER,
    CAP_SYS_RESOURCE, CAP_DAC_READ_SEARCH, CAP_NET_BROADCAST, CAP_LEASE,     CAP_LINUX_IMMUTABLE};

static int read_caps(const struct json *list, struct oci_operator *o, struct err *err)
{
    for (size_t i = 0; i < json_count(list); i++) {
        const char *name = json_string(json_at(list, i));
        bool known = false;
        for (size_t k = 0; k < ARRAY_LEN(more_caps); k++)
            known |= oci_cap_number(name) == more_caps[k];
        if (!known)
            return err_set(err, ERR_POLICY,
                           OCI_OPERATOR_FILE ": capabilities: %.60s cannot be added", name);
        o->caps |= 1ull << oci_cap_number(name);
    }
    return 0;
}

static int read_joins(const struct json *list, struct oci_operator *o, struct err *err)
{
    static const enum oci_ns can[] = {OCI_NS_NETWORK, OCI_NS_IPC, OCI_NS_UTS, OCI_NS_PID};
    if (list)
        memset(o->joins, 0, sizeof o->joins);
    for (size_t i = 0; i < json_count(list); i++) {
        const char *name = json_string(json_at(list, i));
        bool known = false;
        for (size_t k = 0; k < ARRAY_LEN(can); k++) {
            if (strcmp(oci_ns_name(can[k]), name) == 0)
                known = o->joins[can[k]] = true;
        }
        if (!known)
            return err_set(err, ERR_POLICY,
                           OCI_OPERATOR_FILE ": joins: %.60s is none of network, ipc, uts, pid",
                           name);
    }
    return 0;
}

static int check_keys(const struct json *j, struct err *err)
{
    static const char *const keys[] = {"hooks", "sockets", "capabilities", "joins", "memory",
                                       "pids",  "allow",   "policies",     "log",   "docker",
                                       "tier",  "level",   "receipts",     "runsc"};
    for (size_t i = 0; i < json_count(j); i++) {
        bool known = false;
        for (size_t k = 0; k < ARRAY_LEN(keys); k++)
            known |= strcmp(keys[k], json_key_at(j, i)) == 0;
        if (!known)
            return err_set(err, ERR_POLICY, OCI_OPERATOR_FILE ": unknown key \"%.60s\"",
                           json_key_at(j, i));
    }
    return 0;
}

/* A rule that cannot be read is found before anybody asks for it. */
static int try_rules(const struct json *list, const char *where, struct err *err)
{
    struct policy p;
    if (policy_init(&p, LEVEL_HIGH) < 0)
        return err_memory(err);
    int r = oci_rules_read(list, where, &p, err);
    policy_done(&p);
    return r;
}

static int read_network(struct oci_operator *o, struct err *err)
{
    const struct json *j = o->tree;
    if (field_texts(j, "", "allow", &o->allow, err) < 0 ||
        field_object(j, "", "policies", &o->policies, err) < 0 ||
        field_text(j, "", "log", &o->log, err) < 0 || try_rules(o->allow, "allow", err) < 0)
        return err_number(err);
    for (size_t i = 0; i < json_count(o->policies); i++) {
        const struct json *rules = NULL;
        const char *name = json_key_at(o->policies, i);
        if (field_texts(o->policies, "policies", name, &rules, err) < 0 ||
            try_rules(rules, name, err) < 0)
            return err_number(err);
    }
    if (o->log && o->log[0] != '/')
        return err_set(err, ERR_POLICY, OCI_OPERATOR_FILE ": log is an absolute path");
    return 0;
}

static int read_docker(struct oci_operator *o, struct err *err)
{
    if (field_text(o->tree, "", "docker", &o->docker, err) < 0)
        return err_number(err);
    if (o->docker && o->docker[0] != '/')
        return err_set(err, ERR_POLICY,
                       OCI_OPERATOR_FILE ": docker is the absolute path of dockerd");
    return 0;
}

static int read_walls(struct oci_operator *o, struct err *err)
{
    const char *tier = NULL, *level = NULL;
    if (field_text(o->tree, "", "tier", &tier, err) < 0 ||
        field_text(o->tree, "", "level", &level, err) < 0)
        return err_number(err);
    if (tier && (tier_parse(tier, &o->tier) < 0 || o->tier < TIER_CONTAINER))
        return err_set(err, ERR_POLICY,
                       OCI_OPERATOR_FILE ": tier %.60s is none of container, wasm, gvisor, vm",
                       tier);
    o->leveled = level != NULL;
    if (level && level_parse(level, &o->level) < 0)
        return err_set(err, ERR_POLICY,
                       OCI_OPERATOR_FILE ": level %.60s is none of low, medium, high, critical",
                       level);
    return 0;
}

static int read_runsc(struct oci_operator *o, struct err *err)
{
    if (field_text(o->tree, "", "runsc", &o->runsc, err) < 0)
        return err_number(err);
    return !o->runsc || o->runsc[0] == '/'
               ? 0
               : err_set(err, ERR_POLICY, OCI_OPERATOR_FILE ": runsc is an absolute path");
}

static int read_receipts(struct oci_operator *o, struct err *err)
{
    const char *word = NULL;
    if (field_text(o->tree, "", "receipts", &word, err) < 0)
        return err_number(err);
    if (!word)
        return 0;
    bool all = strcmp(word, "signed") == 0;
    o->receipts = all ? OCI_RECEIPTS_ALL : OCI_RECEIPTS_ASKED;
    return all || strcmp(word, "asked") == 0
               ? 0
               : err_set(err, ERR_POLICY, OCI_OPERATOR_FILE ": receipts is signed or asked");
}

static void defaults(struct oci_operator *o)
{
    *o = (struct oci_operator){.tree = NULL};
    o->joins[OCI_NS_NETWORK] = o->joins[OCI_NS_IPC] = o->joins[OCI_NS_UTS] = true;
}

static int read_all(struct oci_operator *o, struct err *err)
{
    const struct json *caps = NULL, *joins = NULL, *j = o->tree;
    if (json_type(j) != JSON_OBJECT)
        return err_set(err, ERR_POLICY, OCI_OPERATOR_FILE " must be one JSON object");
    if (check_keys(j, err) < 0 || field_texts(j, "", "hooks", &o->hooks, err) < 0 ||
        field_texts(j, "", "sockets", &o->sockets, err) < 0 ||
        field_texts(j, "", "capabilities", &caps, err) < 0 || read_caps(caps, o, err) < 0 ||
        field_texts(j, "", "joins", &joins, err) < 0 || read_joins(joins, o, err) < 0 ||
        field_int(j, "", "memory", &o->memory, err) < 0 ||
        field_int(j, "", "pids", &o->pids, err) < 0 || read_network(o, err) < 0 ||
        read_docker(o, err) < 0 || read_walls(o, err) < 0 || read_receipts(o, err) < 0 ||
        read_runsc(o, err) < 0)
        return err_number(err);
    if (o->memory < 0 || o->pids < 0)
        return err_set(err, ERR_POLICY, OCI_OPERATOR_FILE ": memory and pids are at least 1");
    return 0;
}

int oci_operator_parse(const char *text, size_t len, struct oci_operator *ret, struct err *err)
{
    defaults(ret);
    if (json_parse(text, len, &json_default_limits, &ret->tree, err) < 0)
        return err_wrap(err, OCI_OPERATOR_FILE);
    if (read_all(ret, err) == 0)
        return 0;
    oci_operator_done(ret);
    return err_number(err);
}

/* OC-5: whose file it is could not be told: of what it says the limits hold, and nothing that
 * allows more. Engines of ordinary users call from a user namespace in which root's files are
 * nobody's. */
static void only_limits(struct oci_operator *o)
{
    o->hooks = o->sockets = o->allow = o->policies = NULL;
    o->docker = o->log = o->runsc = NULL;
    o->caps = 0;
    o->receipts = OCI_RECEIPTS_NONE;
    o->joins[OCI_NS_PID] = false;
}

static int check_owner(int fd, struct oci_operator *o, struct err *err)
{
    struct stat sb;
    if (fstat(fd, &sb) < 0)
        return err_sys(err, "look at " OCI_OPERATOR_FILE);
    if (sb.st_uid != 0 && sb.st_uid != geteuid())
        only_limits(o);
    return 0;
}

int oci_operator_load(struct oci_operator *ret, struct err *err)
{
    cleanup_free char *text = NULL;
    defaults(ret);
    cleanup_fd int fd =
        trusted_open(AT_FDCWD, OCI_OPERATOR_FILE, "the operator's file", TRUSTED_STRICTER, err);
    if (fd < 0 && err->sys_errno == ENOENT) {
        *err = (struct err)ERR_INIT;
        return 0;
    }
    if (fd < 0)
        return err_number(err);
    text = malloc(OCI_OPERATOR_MAX);
    if (!text)
        return err_memory(err);
    ssize_t n = read(fd, text, OCI_OPERATOR_MAX);
    if (n < 0)
        return err_sys(err, "read " OCI_OPERATOR_FILE);
    if (oci_operator_parse(text, (size_t)n, ret, err) < 0)
        return err_number(err);
    if (check_owner(fd, ret, err) == 0)
        return 0;
    oci_operator_done(ret);
    return err_number(err);
}

void oci_operator_done(struct oci_operator *o)
{
    json_free(o->tree);
    o->tree = NULL;
}
