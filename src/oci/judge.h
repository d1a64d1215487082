/* Holds a configuration against brig's walls. They are the floor: a configuration can ask for less,
 * or for what an engine needs; where it would open a wall it is refused with the rule and the
 * remedy. Pure.
 *
 * OC-2  Capabilities are at most those of the list, and only over the sandbox's own user namespace.
 * OC-3  A namespace of the host is never the sandbox's: left out means refused, or a new one.
 * OC-4  Mounts are of the listed kinds with the listed options; nothing propagates.
 * OC-5  Programs outside (hooks), joins and sockets of the host are the operator's to allow, in a
 * file that only root can write; a configuration cannot, and the variables that it gives to a hook
 * lead to no other program; Docker's own program may name a network and nothing else. OC-6  A limit
 * is never above the operator's; a cgroup is the container's own. OC-10  An annotation brig.* is
 * understood, and within what the operator's file says, or the container is not made. OC-16  Tier
 * and level of a container are at least those that the operator's file says, and what cannot be
 * given is refused. */
#pragma once

#include "oci/config.h"
#include "policy/policy.h"

#define OCI_OPERATOR_FILE "/etc/brig/oci.json"
#define OCI_OPERATOR_MAX  ((size_t)1 << 20)
/* What a hook has that names no variable; its folders are all that a PATH may name. */
#define OCI_HOOK_PATH "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* Whose receipts are signed. */
enum oci_receipts { OCI_RECEIPTS_NONE, OCI_RECEIPTS_ASKED, OCI_RECEIPTS_ALL };

struct oci_operator {
    struct json *tree;
    const struct json *hooks;    /* programs that may be hooks */
    const char *docker;          /* the dockerd that may connect networks; or NULL */
    const struct json *sockets;  /* socket files of the host that may be mounted */
    uint64_t caps;               /* more than the list has */
    bool joins[OCI_NS_COUNT];    /* namespaces that may be named by a path */
    int64_t memory, pids;        /* the most; 0: any */
    const struct json *allow;    /* rules: what brig.allow can ask for */
    const struct json *policies; /* name to rules: what brig.policy can ask for */
    const char *log;             /* gets denials and receipts of all containers; or NULL */
    enum tier tier;              /* the weakest of its containers; TIER_AUTO: the container tier */
    bool leveled;                /* its containers are of this level, or a higher one */
    enum level level;
    enum oci_receipts receipts;
    const char *runsc; /* gVisor's, whatever it is known to lack; or NULL */
};
int oci_operator_parse(const char *text, size_t len, struct oci_operator *ret, struct err *err);
/* The file, or what holds without one. */
int oci_operator_load(struct oci_operator *ret, struct err *err);
void oci_operator_done(struct oci_operator *o);

int oci_judge(const struct oci_config *c, const struct oci_operator *o, struct err *err);
/* The same for what `exec` and `update` bring. */
int oci_judge_process(const struct oci_process *p, const struct oci_operator *o, struct err *err);
int oci_judge_resources(const struct oci_resources *r, bool update, const struct oci_operator *o,
                        struct err *err);
/* Is there one that only a group of the container's own can keep? */
bool oci_asks_limits(const struct oci_resources *r);
/* annotations.c: do those of ours say something that is understood? */
int oci_judge_annotations(const struct json *annotations, struct err *err);
#define OCI_KEY_TIER    "brig.tier"
#define OCI_KEY_LEVEL   "brig.level"
#define OCI_KEY_RECEIPT "brig.receipt"

/* tier.c: what a container has to be beyond the floor. */
struct oci_walls {
    enum tier tier;
    bool leveled; /* it is held to a level */
    enum level level;
    enum level least; /* the operator's, or the same: a higher level has what a lower one has not */
};
/* From the annotations and the operator's file; what is weaker than the latter, or not there, is
 * refused (OC-16). */
int oci_walls_decide(const struct json *annotations, const struct oci_operator *o,
                     struct oci_walls *ret, struct err *err);
/* The level against what the configuration says of root and network. `rules`: it has ways out. */
int oci_level_judge(const struct oci_walls *w, const struct oci_config *c, bool rules,
                    struct err *err);
/* The same for one bind mount, whose source is a folder or a file of the host. */
int oci_level_judge_folder(const struct oci_walls *w, const struct oci_mount *m, struct err *err);
int oci_level_judge_file(const struct oci_walls *w, const struct oci_mount *m, struct err *err);
/* A network namespace of its own in the place of one that is named by a path. */
bool oci_network_own(const struct oci_config *c);
/* The rules by which it may go out, the annotations' held against the operator's. 1: *ret is the
 * caller's (policy_done); 0: none were asked for, and there is no way out; negative: refused. */
int oci_egress_decide(const struct oci_config *c, const struct oci_operator *o, struct policy *ret,
                      struct err *err);
/* A list of rules of the operator's file, laid over p. */
int oci_rules_read(const struct json *list, const char *where, struct policy *p, struct err *err);
/* judge_hook.c */
int oci_judge_hooks(const struct oci_config *c, const struct oci_operator *o, struct err *err);
/* The way in which Docker's engine names itself. */
bool oci_hook_of_docker(const char *path);
#define OCI_DOCKER_ID 2 /* of that hook's arguments the one that is the container's id */
/* judge_mount.c */
/* `mapped`: the container has ids of its own. */
int oci_judge_mount(const struct oci_mount *m, bool mapped, struct err *err);

bool oci_text_in(const struct json *list, const char *text);

/* One of the device nodes that a sandbox has: by number, and by the path that it has in there. */
struct oci_device {
    const char *path;
    unsigned major, minor;
};
extern const struct oci_device oci_devices[];
extern const size_t oci_devices_len;
/* Of the set of capabilities of the list. */
extern const uint64_t oci_caps_allowed;
bool oci_sysctl_allowed(const char *name);
/* An id that names a folder: letters, digits, "_+-.", not beginning with a dot. */
int oci_judge_id(const char *id, struct err *err);
