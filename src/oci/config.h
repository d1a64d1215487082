/* What a bundle's config.json says, read strictly into one structure. Reading does no I/O and
 * decides nothing; judge.h decides. Strings point into the tree, which the structure owns.
 *
 * OC-1  A field that protects is enforced or refused by its name, never left out in silence. */
#pragma once

#include "base/err.h"
#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OCI_CONFIG_MAX  ((size_t)4 << 20)
#define OCI_NODES_MAX   ((size_t)200000)
#define OCI_MEMORY_MAX  ((size_t)64 << 20)
#define OCI_MOUNTS_MAX  128u
#define OCI_GROUPS_MAX  256u
#define OCI_MAPS_MAX    32u
#define OCI_RLIMITS_MAX 16u
#define OCI_VERSION     "1.2.0" /* the newest version of the specification that is known */

enum oci_ns {
    OCI_NS_PID,
    OCI_NS_NETWORK,
    OCI_NS_MOUNT,
    OCI_NS_IPC,
    OCI_NS_UTS,
    OCI_NS_USER,
    OCI_NS_CGROUP,
    OCI_NS_TIME,
    OCI_NS_COUNT,
};
const char *oci_ns_name(enum oci_ns ns);

struct oci_namespace {
    bool listed;
    const char *path; /* NULL: a new one */
};

struct oci_map {
    uint32_t inside, outside, count;
};

struct oci_rlimit {
    int resource;
    uint64_t soft, hard;
};

enum oci_caps {
    OCI_CAPS_BOUNDING,
    OCI_CAPS_EFFECTIVE,
    OCI_CAPS_INHERITABLE,
    OCI_CAPS_PERMITTED,
    OCI_CAPS_AMBIENT,
    OCI_CAPS_COUNT,
};

struct oci_process {
    bool terminal;
    uint16_t columns, rows;
    uint32_t uid, gid, umask;
    bool has_umask;
    uint32_t groups[OCI_GROUPS_MAX];
    size_t group_count;
    const struct json *args, *env; /* lists of strings */
    const char *cwd;
    uint64_t caps[OCI_CAPS_COUNT];
    struct oci_rlimit rlimits[OCI_RLIMITS_MAX];
    size_t rlimit_count;
    bool has_oom_score;
    int oom_score;
};

enum oci_mount_type {
    OCI_MOUNT_BIND,
    OCI_MOUNT_TMPFS,
    OCI_MOUNT_PROC,
    OCI_MOUNT_SYSFS,
    OCI_MOUNT_DEVPTS,
    OCI_MOUNT_MQUEUE,
    OCI_MOUNT_CGROUP,
    OCI_MOUNT_OTHER, /* refused by the judge */
};

struct oci_mount {
    const char *dest, *source, *type_text;
    const struct json *options;
    enum oci_mount_type type;
    bool read_only, noexec, nosymfollow, recursive, copy_up;
    char *made;      /* the destination, where it is not in the tree */
    const char *odd; /* the first option that is not on the list of its type, or NULL */
    char data[256];  /* of the file system: key=value, separated by commas */
};

struct oci_device_rule {
    bool allow;
    char type; /* 'a', 'b', 'c' */
    int64_t major, minor;
};

struct oci_resources {
    int64_t memory, memory_swap, memory_reservation; /* -1: no limit; 0: not said */
    int64_t pids;
    uint64_t cpu_shares, cpu_period;
    int64_t cpu_quota;
    const char *cpus, *mems;
    bool oom_kill_off;
    bool check_memory;               /* a limit below what is used is refused */
    const struct json *device_rules; /* checked list */
    const struct json *unified;      /* checked: key to string */
};

struct oci_config {
    struct json *tree;
    const char *version, *hostname, *domainname;
    const char *root_path;
    bool root_read_only;
    bool has_process;
    struct oci_process process;
    struct oci_mount mounts[OCI_MOUNTS_MAX];
    size_t mount_count;
    struct oci_namespace ns[OCI_NS_COUNT];
    struct oci_map uid_maps[OCI_MAPS_MAX], gid_maps[OCI_MAPS_MAX];
    size_t uid_map_count, gid_map_count;
    const struct json *devices, *sysctl, *masked, *read_only_paths, *seccomp, *hooks, *annotations;
    const char *cgroups_path;
    bool scoped; /* the caller's word: it names a scope of the service manager's */
    struct oci_resources resources;
};

/* Of a bundle. `text` may be freed afterwards. On failure nothing is to be released. */
int oci_config_parse(const char *text, size_t len, struct oci_config *ret, struct err *err);
void oci_config_done(struct oci_config *c);

/* Of `exec --process`: a process alone. *ret_tree is the caller's. */
int oci_process_parse(const char *text, size_t len, struct json **ret_tree, struct oci_process *ret,
                      struct err *err);
/* Of `update --resources`. */
int oci_resources_parse(const char *text, size_t len, struct json **ret_tree,
                        struct oci_resources *ret, struct err *err);
int oci_resources_read(const struct json *j, struct oci_resources *ret, struct err *err);
/* The flags of mounts that are taken, between blanks. */
extern const char oci_mount_flags[];
int oci_mount_read(const struct json *j, struct oci_mount *ret, struct err *err);
int oci_linux_read(const struct json *j, struct oci_config *ret, struct err *err);

/* "CAP_CHOWN" → 0; negative: unknown. */
int oci_cap_number(const char *name);
const char *oci_cap_name(int number);
/* "RLIMIT_NOFILE" → RLIMIT_NOFILE; negative: unknown. */
int oci_rlimit_number(const char *name);
const char *oci_rlimit_name(int number);
/* "SIGTERM", "TERM", "15" → 15; negative: none. */
int oci_signal_number(const char *name);
