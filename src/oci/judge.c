/* The floor; see judge.h. */
#include "oci/judge.h"

#include "base/cleanup.h"
#include "base/num.h"
#include "base/text.h"
#include "oci/fields.h"

#include <linux/capability.h>
#include <string.h>

#define CAP(name) (1ull << CAP_##name)
const uint64_t oci_caps_allowed = CAP(CHOWN) | CAP(DAC_OVERRIDE) | CAP(FOWNER) | CAP(FSETID) |
                                  CAP(KILL) | CAP(SETGID) | CAP(SETUID) | CAP(SETPCAP) |
                                  CAP(NET_BIND_SERVICE) | CAP(NET_RAW) | CAP(SYS_CHROOT) |
                                  CAP(MKNOD) | CAP(AUDIT_WRITE) | CAP(SETFCAP);

const struct oci_device oci_devices[] = {
    {"/dev/null", 1, 3},   {"/dev/zero", 1, 5},    {"/dev/full", 1, 7},
    {"/dev/random", 1, 8}, {"/dev/urandom", 1, 9}, {"/dev/tty", 5, 0},
};
const size_t oci_devices_len = ARRAY_LEN(oci_devices);

static int refuse(struct err *err, enum boundary_id boundary, const char *hint)
{
    err_at(err, boundary);
    return err_hint(err, "%s", hint);
}

int oci_judge_id(const char *id, struct err *err)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+-.";
    size_t len = strlen(id);
    if (len > 0 && len <= 255 && id[0] != '.' && strspn(id, letters) == len)
        return 0;
    err_set(err, ERR_USAGE, "invalid container id \"%.60s\"", id);
    return err_hint(err, "letters, digits and _ + - . (not at the beginning), at most 255");
}

static int judge_caps(const uint64_t caps[OCI_CAPS_COUNT], const struct oci_operator *o,
                      struct err *err)
{
    uint64_t all = 0;
    for (size_t i = 0; i < OCI_CAPS_COUNT; i++)
        all |= caps[i];
    all &= ~(oci_caps_allowed | o->caps);
    if (!all)
        return 0;
    err_set(err, ERR_REFUSED, "config: %s is not among the capabilities that a sandbox may have",
            oci_cap_name(__builtin_ctzll(all)));
    return refuse(
        err, BOUNDARY_KERNEL,
        "run it unprivileged and without that capability; the list is in docs/oci.md, and the "
        "operator can add to it in " OCI_OPERATOR_FILE " (capabilities)");
}

int oci_judge_process(const struct oci_process *p, const struct oci_operator *o, struct err *err)
{
    if (p->has_oom_score && p->oom_score < -999) {
        err_set(err, ERR_REFUSED,
                "config: process.oomScoreAdj -1000 would keep the sandbox's memory from ever being "
                "taken back");
        return refuse(err, BOUNDARY_LIFECYCLE, "ask for -999 or more");
    }
    return judge_caps(p->caps, o, err);
}

static int judge_left_out(const struct oci_config *c, struct err *err)
{
    static const enum oci_ns needed[] = {OCI_NS_PID, OCI_NS_NETWORK, OCI_NS_IPC, OCI_NS_UTS};
    for (size_t i = 0; i < ARRAY_LEN(needed); i++) {
        if (c->ns[needed[i]].listed)
            continue;
        err_set(err, ERR_REFUSED,
                "config: linux.namespaces has no %s: the sandbox would share the host's",
                oci_ns_name(needed[i]));
        return refuse(
            err, needed[i] == OCI_NS_NETWORK ? BOUNDARY_NETWORK : BOUNDARY_KERNEL,
            "do not ask for the host's (privileged, --pid host, --network host, hostNetwork …); "
            "a namespace of its own, or its pod's by path, is allowed");
    }
    return 0;
}

/* OC-3 */
static int judge_namespaces(const struct oci_config *c, const struct oci_operator *o,
                            struct err *err)
{
    for (enum oci_ns ns = 0; ns < OCI_NS_COUNT; ns++) {
        if (!c->ns[ns].path || o->joins[ns])
            continue;
        err_set(err, ERR_REFUSED, "config: linux.namespaces: a %s namespace is not joined by path",
                oci_ns_name(ns));
        return refuse(
            err, BOUNDARY_KERNEL,
            "leave the path out for a new one; the operator can allow pid in " OCI_OPERATOR_FILE
            " (joins)");
    }
    if (c->ns[OCI_NS_TIME].listed)
        return err_set(err, ERR_UNSUPPORTED,
                       "config: linux.namespaces: a time namespace is not made");
    return judge_left_out(c, err);
}

static bool in_maps(const struct oci_map *maps, size_t count, uint32_t id)
{
    for (size_t i = 0; i < count; i++)
        if (id >= maps[i].inside && id - maps[i].inside < maps[i].count)
            return true;
    return count == 0;
}

static int judge_maps(const struct oci_config *c, struct err *err)
{
    const struct oci_process *p = &c->process;
    if ((c->uid_map_count || c->gid_map_count) && !c->ns[OCI_NS_USER].listed)
        return err_set(err, ERR_USAGE, "config: linux.uidMappings without a user namespace");
    if ((c->uid_map_count == 0) != (c->gid_map_count == 0))
        return err_set(err, ERR_USAGE, "config: linux.uidMappings and gidMappings go together");
    if (!in_maps(c->uid_maps, c->uid_map_count, p->uid) ||
        !in_maps(c->gid_maps, c->gid_map_count, p->gid))
        return err_set(err, ERR_USAGE,
                       "config: process.user is not in the maps of its user namespace");
    return 0;
}

static int judge_device(const struct json *j, struct err *err)
{
    const char *path = NULL, *type = "";
    int64_t major = -1, minor = -1, mode = 0666;
    if (json_type(j) != JSON_OBJECT)
        return field_wrong("linux", "devices", "a list of objects", err);
    if (field_int(j, "linux.devices[]", "fileMode", &mode, err) < 0 ||
        field_text(j, "linux.devices[]", "path", &path, err) < 0 ||
        field_text(j, "linux.devices[]", "type", &type, err) < 0 ||
        field_int(j, "linux.devices[]", "major", &major, err) < 0 ||
        field_int(j, "linux.devices[]", "minor", &minor, err) < 0)
        return err_number(err);
    bool character = strcmp(type, "c") == 0 || strcmp(type, "u") == 0;
    for (size_t i = 0; path && character && i < oci_devices_len; i++)
        if (strcmp(path, oci_devices[i].path) == 0 && major == oci_devices[i].major &&
            minor == oci_devices[i].minor)
            return (mode & 0777) == 0666 ? 0
                                         : field_wrong("linux.devices[]", "fileMode",
                                                       "0666, as the host's node has it", err);
    err_set(err, ERR_REFUSED, "config: linux.devices: %.100s is not among the devices of a sandbox",
            path ? path : "a device without a path");
    return refuse(err, BOUNDARY_KERNEL,
                  "do without it (privileged and --device ask for it); a sandbox has null, "
                  "zero, full, random, urandom, tty and terminals");
}

/* They allow or deny what device nodes do. There is no node but the listed ones, and none can be
 * made, so that a rule that denies holds already and one that allows gives nothing; one for
 * everything asks for a privileged container, which this is not. */
static int judge_device_rule(const struct json *j, struct err *err)
{
    static const char where[] = "linux.resources.devices[]";
    bool allow = false;
    const char *type = "a", *access = "rwm";
    int64_t major = -1, minor = -1;
    if (json_type(j) != JSON_OBJECT)
        return field_wrong("linux.resources", "devices", "a list of objects", err);
    if (field_bool(j, where, "allow", &allow, err) < 0 ||
        field_text(j, where, "type", &type, err) < 0 ||
        field_text(j, where, "access", &access, err) < 0 ||
        field_int(j, where, "major", &major, err) < 0 ||
        field_int(j, where, "minor", &minor, err) < 0)
        return err_number(err);
    if (!allow || strcmp(access, "m") == 0)
        return 0;
    bool character = strcmp(type, "c") == 0;
    for (size_t i = 0; character && i < oci_devices_len; i++)
        if (major == oci_devices[i].major && minor == oci_devices[i].minor)
            return 0;
    /* Terminals, and the node of tunnels, which engines list by habit and which is not there. */
    if (character &&
        (major == 136 || (major == 5 && minor >= 1 && minor <= 2) || (major == 10 && minor == 200)))
        return 0;
    err_set(err, ERR_REFUSED,
            "config: linux.resources.devices allows devices that a sandbox does not have");
    return refuse(err, BOUNDARY_KERNEL, "run it unprivileged, without --device");
}

/* In an update what is not said stays as it is, and so within what the operator allows. */
static int judge_limit(const char *what, int64_t value, bool update, int64_t most, struct err *err)
{
    if (value < -1)
        return err_set(err, ERR_USAGE, "config: linux.resources.%s is negative", what);
    if (most == 0 || (value > 0 && value <= most) || (update && value == 0))
        return 0;
    err_set(err, ERR_REFUSED,
            "config: linux.resources.%s is over what the operator allows, or not said", what);
    return refuse(err, BOUNDARY_LIFECYCLE, "ask for at most what " OCI_OPERATOR_FILE " says");
}

/* The same limits by another name: what is written last is what holds. */
static int judge_unified_limit(const char *key, const char *value, const struct oci_operator *o,
                               struct err *err)
{
    uint64_t asked = 0;
    int64_t most = strcmp(key, "memory.max") == 0 ? o->memory
                   : strcmp(key, "pids.max") == 0 ? o->pids
                                                  : 0;
    if (most == 0 ||
        (num_parse_uint(value, &asked, NULL) == 0 && asked > 0 && asked <= (uint64_t)most))
        return 0;
    err_set(err, ERR_REFUSED,
            "config: linux.resources.unified: %s is over what the operator allows", key);
    return refuse(err, BOUNDARY_LIFECYCLE,
                  "ask for at most what " OCI_OPERATOR_FILE " says, as a plain number");
}

static int judge_unified(const struct json *j, const struct oci_operator *o, struct err *err)
{
    static const char *const keys[] = {
        "memory.max",       "memory.high", "memory.low",       "memory.min", "memory.swap.max",
        "memory.oom.group", "pids.max",    "cpu.max",          "cpu.weight", "cpu.idle",
        "cpuset.cpus",      "cpuset.mems", "memory.swap.high", "io.weight",
    };
    for (size_t i = 0; i < json_count(j); i++) {
        bool known = false;
        for (size_t k = 0; k < ARRAY_LEN(keys); k++)
            known |= strcmp(keys[k], json_key_at(j, i)) == 0;
        if (!known)
            return err_set(err, ERR_REFUSED,
                           "config: linux.resources.unified: %.60s is not on the list of keys",
                           json_key_at(j, i));
        if (strpbrk(json_string(json_value_at(j, i)), "\n"))
            return err_set(err, ERR_USAGE, "config: linux.resources.unified: more than one line");
        if (judge_unified_limit(json_key_at(j, i), json_string(json_value_at(j, i)), o, err) < 0)
            return err_number(err);
    }
    return 0;
}

static bool plain_set(const char *text)
{
    return !text || text[strspn(text, "0123456789,-")] == '\0';
}

int oci_judge_resources(const struct oci_resources *r, bool update, const struct oci_operator *o,
                        struct err *err)
{
    if (judge_limit("memory.limit", r->memory, update, o->memory, err) < 0 ||
        judge_limit("pids.limit", r->pids, update, o->pids, err) < 0 ||
        judge_limit("memory.swap", r->memory_swap, update, 0, err) < 0 ||
        judge_limit("memory.reservation", r->memory_reservation, update, 0, err) < 0 ||
        judge_limit("cpu.quota", r->cpu_quota, update, 0, err) < 0 ||
        judge_unified(r->unified, o, err) < 0)
        return err_number(err);
    if (!plain_set(r->cpus) || !plain_set(r->mems))
        return err_set(err, ERR_USAGE,
                       "config: linux.resources.cpu: cpus and mems are lists such as 0-3,7");
    if (r->oom_kill_off) {
        err_set(err, ERR_REFUSED,
                "config: linux.resources.memory.disableOOMKiller would let the sandbox hang where "
                "it should end");
        return refuse(err, BOUNDARY_LIFECYCLE,
                      "leave it out (--oom-kill-disable asks for it), or give it more memory");
    }
    for (size_t i = 0; i < json_count(r->device_rules); i++)
        if (judge_device_rule(json_at(r->device_rules, i), err) < 0)
            return err_number(err);
    return 0;
}

bool oci_asks_limits(const struct oci_resources *r)
{
    return r->memory || r->memory_swap || r->memory_reservation || r->pids || r->cpu_shares ||
           r->cpu_period || r->cpu_quota || (r->cpus && *r->cpus) || (r->mems && *r->mems) ||
           json_count(r->unified);
}

bool oci_sysctl_allowed(const char *name)
{
    static const char *const exact[] = {
        "kernel.shmmax",          "kernel.shmall", "kernel.shmmni",
        "kernel.shm_rmid_forced", "kernel.msgmax", "kernel.msgmnb",
        "kernel.msgmni",          "kernel.sem",    "kernel.domainname"};
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    size_t len = strlen(name);
    if (len == 0 || len > 200 || strspn(name, letters) != len || strstr(name, "..") ||
        name[len - 1] == '.')
        return false;
    for (size_t i = 0; i < ARRAY_LEN(exact); i++)
        if (strcmp(exact[i], name) == 0)
            return true;
    return text_begins(name, "net.") || text_begins(name, "fs.mqueue.");
}

static int judge_sysctls(const struct json *j, struct err *err)
{
    for (size_t i = 0; i < json_count(j); i++) {
        const char *name = json_key_at(j, i);
        if (oci_sysctl_allowed(name) && strlen(json_string(json_value_at(j, i))) < 256)
            continue;
        err_set(err, ERR_REFUSED,
                "config: linux.sysctl: %.100s does not belong to a namespace of the sandbox", name);
        return refuse(err, BOUNDARY_KERNEL,
                      "net.*, fs.mqueue.*, kernel.shm*, kernel.msg* and kernel.sem do, written "
                      "with dots");
    }
    return 0;
}

bool oci_text_in(const struct json *list, const char *text)
{
    for (size_t i = 0; i < json_count(list); i++)
        if (strcmp(json_string(json_at(list, i)), text) == 0)
            return true;
    return false;
}

/* A group that is named by a path below the hierarchy's root. */
static int oci_judge_cgroup(const char *path, struct err *err)
{
    const char *at = path;
    if (strchr(path, ':')) {
        err_set(err, ERR_UNSUPPORTED,
                "config: linux.cgroupsPath \"%.80s\" is for a service manager", path);
        return err_hint(err, "with --systemd-cgroup it is one's (podman: --cgroup-manager systemd; "
                             "containerd: SystemdCgroup = true; kubelet: cgroupDriver: systemd)");
    }
    while (*at) {
        size_t len = strcspn(at, "/");
        if ((len == 1 && at[0] == '.') || (len == 2 && at[0] == '.' && at[1] == '.') || len > 255)
            return err_set(err, ERR_REFUSED, "config: linux.cgroupsPath climbs");
        at += len + (at[len] == '/');
    }
    return strlen(path) < 1024 && path[strspn(path, "/")]
               ? 0
               : field_wrong("linux", "cgroupsPath", "a path", err);
}

static int judge_paths(const struct json *list, const char *key, struct err *err)
{
    for (size_t i = 0; i < json_count(list); i++)
        if (json_string(json_at(list, i))[0] != '/')
            return field_wrong("linux", key, "a list of absolute paths", err);
    return 0;
}

static bool plain_name(const char *name)
{
    return !name || (strlen(name) <= 64 && !strpbrk(name, "/\n"));
}

int oci_judge(const struct oci_config *c, const struct oci_operator *o, struct err *err)
{
    if (!c->has_process)
        return field_wrong("", "process", "there", err);
    if (!plain_name(c->hostname) || !plain_name(c->domainname))
        return field_wrong("", "hostname", "a name of at most 64 bytes", err);
    if (oci_judge_process(&c->process, o, err) < 0 || judge_namespaces(c, o, err) < 0 ||
        judge_maps(c, err) < 0 || judge_sysctls(c->sysctl, err) < 0 ||
        oci_judge_hooks(c, o, err) < 0 || oci_judge_annotations(c->annotations, err) < 0 ||
        oci_judge_resources(&c->resources, false, o, err) < 0 ||
        (c->cgroups_path && *c->cgroups_path && !c->scoped &&
         oci_judge_cgroup(c->cgroups_path, err) < 0) ||
        judge_paths(c->masked, "maskedPaths", err) < 0 ||
        judge_paths(c->read_only_paths, "readonlyPaths", err) < 0)
        return err_number(err);
    for (size_t i = 0; i < c->mount_count; i++)
        if (oci_judge_mount(&c->mounts[i], c->uid_map_count > 0, err) < 0)
            return err_number(err);
    for (size_t i = 0; i < json_count(c->devices); i++)
        if (judge_device(json_at(c->devices, i), err) < 0)
            return err_number(err);
    return 0;
}
