/* One row of the suite: an attack, where it runs, what it takes to try it, who holds it. */
#pragma once

#include "base/err.h"
#include "os/weaken.h"
#include "policy/policy.h"
#include "verify/attack.h"

/* Rows that do not disturb each other share a sandbox. */
enum scene_id {
    SCENE_PLAIN,   /* the policy as it is */
    SCENE_GRANTS,  /* and folders of the host */
    SCENE_NETWORK, /* and rules and a secret for the canaries' servers */
    SCENE_PIDS,    /* the rest: one limit each, as small as can be tried without harm */
    SCENE_FILES,
    SCENE_MEMORY,
    SCENE_DISK,
    SCENE_INODES,
    SCENE_OUTPUT,
    SCENE_DEADLINE,
    SCENE_CPU,
    SCENE_LEAVE,  /* tasks are left behind */
    SCENE_KILLED, /* the supervisor is killed */
    SCENE_SENTRY, /* behind an engine: the engine's kernel is killed */
    SCENE_ENGINE, /* in the place of an engine, as one that was broken into */
    SCENE_LIMITS, /* vm tier: all limits that end no sandbox, in one guest */
    /* wasm tier, where a module is what attacks */
    SCENE_MODULE,        /* with folders of the host */
    SCENE_MODULE_EDGE,   /* what may end the runner if it is not held */
    SCENE_MODULE_IMPORT, /* what must not be started */
    SCENE_MODULE_MEMORY, /* one limit each */
    SCENE_MODULE_CPU,
    SCENE_MODULE_DEADLINE,
    SCENE_COUNT,
};

enum {
    ROW_PRIVATE = 1 << 0,   /* the control needs namespaces of its own */
    ROW_CONTAINER = 1 << 1, /* the process tier has nothing of the kind, and says so */
    ROW_TOKEN = 1 << 2,     /* only the token in what came out counts */
    ROW_CHECK = 1 << 3,     /* only what is seen outside counts */
    ROW_PROXY = 1 << 4,     /* the control: an allowed request works in the same sandbox */
    ROW_SILENT = 1 << 5,    /* to be ended while trying is to be held */
    ROW_MARKED = 1 << 6,    /* about tasks that stay: found by their name */
    ROW_WORKSPACE = 1 << 7,
    ROW_NOEXEC = 1 << 8, /* where the policy forbids to execute what was written */
    ROW_ROOT = 1 << 9,   /* as root */
    ROW_CGROUP = 1 << 10,
    ROW_IPV6 = 1 << 11,
    ROW_NO_SOCKETS = 1 << 12, /* where the policy has no UNIX sockets in sandboxes with grants */
    ROW_OWNER = 1 << 13,      /* on files of the host as they are, root's own uids hold it too */
    ROW_COUNTED = 1 << 14,   /* container tier: where no cgroup counts memory the filter holds it */
    ROW_ENGINE = 1 << 15,    /* on sockets of the host as they are: as ROW_OWNER, if not for all */
    ROW_READ_ONLY = 1 << 16, /* where the policy keeps the root as it is */
    ROW_CLOSED = 1 << 17,    /* where Landlock leaves a file of the root closed */
    ROW_LAYER = 1 << 18, /* in a writable root a layer holds it, and no mount's being read-only */
    ROW_ANSWERED = 1 << 19, /* a kernel in user space may answer it itself, of its own things */
    ROW_PASSED = 1 << 20,   /* behind such a kernel the container tier's guards hold it as well */
    ROW_SENTRY = 1 << 21,   /* only where there is such a kernel */
    ROW_MODULE = 1 << 22,   /* wasm tier: a module tries it, and its control is in the module too */
    ROW_REFUSED = 1 << 23,  /* held if the module is not run at all */
    ROW_GUEST = 1 << 24,    /* vm tier: about the monitor and what it serves */
};

struct canaries;
struct sight {
    pid_t pid;    /* a task inside; our own for the control */
    pid_t engine; /* the first of an engine's, or 0 */
    const struct canaries *canaries;
    enum tier tier;
    bool outside;
    bool writable_root;
};
/* Looked at from outside, while it lives: true if the guard is not there, and what was seen. */
typedef bool look_fn(const struct sight *s, char *seen, size_t size);
/* After the end: true if somebody was there. */
typedef bool check_fn(const struct canaries *c);

struct row {
    const char *id; /* of the list of attacks, with a word where one stands for several */
    enum boundary_id boundary;
    enum scene_id scene;
    unsigned flags;
    const char *title;
    attack_fn *attack;
    look_fn *look;
    check_fn *check;
    /* Without any one of these it succeeds; 0: more than one guard holds it. The wasm tier's are
     * those of the container tier, in whose walls the runner stands. */
    uint64_t process, container;
};

extern const struct row rows[];
extern const size_t row_count;
#define ROWS_MAX 176

const char *guard_name(enum guard g);
const char *scene_name(enum scene_id scene);
/* A module runs there, not this program. */
bool scene_has_module(enum scene_id scene);
/* Where it is tried. A guest is dear to boot, and what ends it ends all that is tried after it:
 * what can be tried one after the other shares one there. */
enum scene_id row_scene(const struct row *r, bool guest);
/* Others have nothing to do with it: modules are the wasm tier's, and rules those of the rest. */
bool row_on_tier(const struct row *r, enum tier tier);

/* What a row needs to know of where it runs. */
struct circumstances {
    enum tier tier;
    bool sentry; /* a kernel in user space answers the code */
    bool guest;  /* a guest's kernel does */
    bool root, cgroup, workspace, exec, ipv6, proxy, unix_sockets, writable_root;
    bool open_engine;          /* anybody on this host can connect to an engine's socket */
    bool limited[SCENE_COUNT]; /* the policy has such a limit */
};
/* The guards of which each one's loss lets it succeed, there. */
uint64_t row_guards(const struct row *r, const struct circumstances *c);
/* Why it cannot be tried here, or NULL. */
const char *row_excused(const struct row *r, const struct circumstances *c);

/* look.c */
look_fn look_capabilities, look_no_new_privs, look_seccomp, look_identity, look_groups, look_maps,
    look_ns_user, look_ns_mnt, look_ns_pid, look_ns_net, look_ns_ipc, look_ns_uts, look_ns_cgroup,
    look_mount_flags, look_system_writable, look_limits, look_inbound, look_executable;
/* look_engine.c */
look_fn look_engine_namespaces, look_engine_devices, look_engine_options, look_monitor_threads;
/* check.c */
check_fn check_tcp, check_tcp6, check_udp, check_socket, check_abstract, check_file, check_drop,
    check_signal, check_granted, check_module, check_mode, check_set_id, check_granted_socket,
    check_closed, check_bound, check_special, check_dns, check_inner, check_other_origin,
    check_redirect, check_query;
