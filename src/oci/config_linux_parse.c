/* Reads the linux section of config.json: namespaces, identity maps, resources, and the lists that
 * the judge looks at. Hostile input; no I/O. */
#include "base/cleanup.h"
#include "oci/config.h"
#include "oci/fields.h"

#include <string.h>

static int read_namespace(const struct json *j, struct oci_config *c, struct err *err)
{
    const char *type = "", *path = NULL;
    if (json_type(j) != JSON_OBJECT)
        return field_wrong("linux", "namespaces", "a list of objects", err);
    if (field_text(j, "linux.namespaces[]", "type", &type, err) < 0 ||
        field_text(j, "linux.namespaces[]", "path", &path, err) < 0)
        return err_number(err);
    if (path && *path && path[0] != '/')
        return field_wrong("linux.namespaces[]", "path", "an absolute path", err);
    for (enum oci_ns ns = 0; ns < OCI_NS_COUNT; ns++) {
        if (strcmp(oci_ns_name(ns), type) != 0)
            continue;
        if (c->ns[ns].listed)
            return err_set(err, ERR_USAGE, "config: linux.namespaces: %s twice", type);
        c->ns[ns] = (struct oci_namespace){.listed = true, .path = path && *path ? path : NULL};
        return 0;
    }
    return err_set(err, ERR_USAGE, "config: linux.namespaces: unknown type \"%.60s\"", type);
}

static int read_maps(const struct json *list, const char *key, struct oci_map *maps, size_t *count,
                     struct err *err)
{
    if (json_count(list) > OCI_MAPS_MAX)
        return field_wrong("linux", key, "a list of at most 32 ranges", err);
    for (size_t i = 0; i < json_count(list); i++) {
        const struct json *j = json_at(list, i);
        struct oci_map m = {.count = 0};
        if (json_type(j) != JSON_OBJECT)
            return field_wrong("linux", key, "a list of objects", err);
        if (field_u32(j, key, "containerID", &m.inside, err) < 0 ||
            field_u32(j, key, "hostID", &m.outside, err) < 0 ||
            field_u32(j, key, "size", &m.count, err) < 0)
            return err_number(err);
        if (m.count == 0 || (uint64_t)m.inside + m.count > UINT32_MAX ||
            (uint64_t)m.outside + m.count > UINT32_MAX)
            return field_wrong("linux", key, "ranges of at least one id within 32 bits", err);
        maps[(*count)++] = m;
    }
    return 0;
}

static int read_memory(const struct json *j, struct oci_resources *r, struct err *err)
{
    static const char where[] = "linux.resources.memory";
    static const char *const unknown[] = {"kernelTCP", "swappiness", "kernel", NULL};
    if (field_int(j, where, "limit", &r->memory, err) < 0 ||
        field_int(j, where, "swap", &r->memory_swap, err) < 0 ||
        field_int(j, where, "reservation", &r->memory_reservation, err) < 0 ||
        field_bool(j, where, "disableOOMKiller", &r->oom_kill_off, err) < 0 ||
        field_bool(j, where, "checkBeforeUpdate", &r->check_memory, err) < 0)
        return err_number(err);
    return field_refuse(j, where, unknown, "it is not written to any group", err);
}

static int read_cpu(const struct json *j, struct oci_resources *r, struct err *err)
{
    static const char where[] = "linux.resources.cpu";
    static const char *const unknown[] = {"burst", "idle", "realtimeRuntime", "realtimePeriod",
                                          NULL};
    if (field_u64(j, where, "shares", &r->cpu_shares, err) < 0 ||
        field_u64(j, where, "period", &r->cpu_period, err) < 0 ||
        field_int(j, where, "quota", &r->cpu_quota, err) < 0 ||
        field_text(j, where, "cpus", &r->cpus, err) < 0 ||
        field_text(j, where, "mems", &r->mems, err) < 0)
        return err_number(err);
    return field_refuse(j, where, unknown, "it is not written to any group", err);
}

static int check_texts(const struct json *j, const char *where, const char *key, struct err *err)
{
    for (size_t i = 0; i < json_count(j); i++)
        if (json_type(json_value_at(j, i)) != JSON_STRING)
            return field_wrong(where, key, "an object of strings", err);
    return 0;
}

int oci_resources_read(const struct json *j, struct oci_resources *r, struct err *err)
{
    static const char where[] = "linux.resources";
    static const char *const unknown[] = {"blockIO", "hugepageLimits", "network", "rdma", NULL};
    const struct json *memory = NULL, *cpu = NULL, *pids = NULL;
    *r = (struct oci_resources){.memory = 0};
    if (field_object(j, where, "memory", &memory, err) < 0 || read_memory(memory, r, err) < 0 ||
        field_object(j, where, "cpu", &cpu, err) < 0 || read_cpu(cpu, r, err) < 0 ||
        field_object(j, where, "pids", &pids, err) < 0 ||
        field_int(pids, "linux.resources.pids", "limit", &r->pids, err) < 0 ||
        field_list(j, where, "devices", &r->device_rules, err) < 0 ||
        field_object(j, where, "unified", &r->unified, err) < 0 ||
        check_texts(r->unified, where, "unified", err) < 0)
        return err_number(err);
    return field_refuse(j, where, unknown, "no group keeps this limit", err);
}

static int check_propagation(const struct json *j, struct err *err)
{
    static const char *const private[] = {"private", "rprivate",   "slave",
                                          "rslave",  "unbindable", "runbindable"};
    const char *p = NULL;
    if (field_text(j, "linux", "rootfsPropagation", &p, err) < 0)
        return err_number(err);
    if (!p || !*p)
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(private); i++)
        if (strcmp(p, private[i]) == 0)
            return 0;
    err_set(err, ERR_REFUSED,
            "config: linux.rootfsPropagation %.40s would let mounts out of the sandbox", p);
    return err_hint(err, "brig's mounts are private; leave it out");
}

static int read_lists(const struct json *j, struct oci_config *c, struct err *err)
{
    if (field_list(j, "linux", "devices", &c->devices, err) < 0 ||
        field_object(j, "linux", "sysctl", &c->sysctl, err) < 0 ||
        check_texts(c->sysctl, "linux", "sysctl", err) < 0 ||
        field_texts(j, "linux", "maskedPaths", &c->masked, err) < 0 ||
        field_texts(j, "linux", "readonlyPaths", &c->read_only_paths, err) < 0 ||
        field_object(j, "linux", "seccomp", &c->seccomp, err) < 0 ||
        field_text(j, "linux", "cgroupsPath", &c->cgroups_path, err) < 0)
        return err_number(err);
    return 0;
}

int oci_linux_read(const struct json *j, struct oci_config *c, struct err *err)
{
    static const char *const unknown[] = {"intelRdt",   "personality",  "timeOffsets", "mountLabel",
                                          "netDevices", "memoryPolicy", NULL};
    const struct json *namespaces = NULL, *uids = NULL, *gids = NULL, *resources = NULL;
    if (field_refuse(j, "linux", unknown, "it would be lost", err) < 0 ||
        check_propagation(j, err) < 0 ||
        field_list(j, "linux", "namespaces", &namespaces, err) < 0 ||
        field_list(j, "linux", "uidMappings", &uids, err) < 0 ||
        field_list(j, "linux", "gidMappings", &gids, err) < 0 ||
        read_maps(uids, "uidMappings", c->uid_maps, &c->uid_map_count, err) < 0 ||
        read_maps(gids, "gidMappings", c->gid_maps, &c->gid_map_count, err) < 0 ||
        field_object(j, "linux", "resources", &resources, err) < 0 ||
        oci_resources_read(resources, &c->resources, err) < 0)
        return err_number(err);
    for (size_t i = 0; i < json_count(namespaces); i++)
        if (read_namespace(json_at(namespaces, i), c, err) < 0)
            return err_number(err);
    return read_lists(j, c, err);
}
