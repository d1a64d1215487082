/* The policy: what each of the five boundaries must enforce for one run. Pure: nothing here touches
 * the system. Every field knows where its value came from, so that `brig policy explain` can say
 * so. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "policy/commands/commands.h"
#include "policy/egress/egress.h"
#include "policy/origin.h"
#include "policy/tools/tools.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum level {
    LEVEL_LOW,
    LEVEL_MEDIUM,
    LEVEL_HIGH,
    LEVEL_CRITICAL,
    LEVEL_COUNT,
};

/* Every tier, once, from the weakest wall to the strongest. X(id, "word", namespaces): with
 * namespaces the code has a view, a network, pids and uids of its own. What a host must have for a
 * tier is in kernel/tier.c. */
#define POLICY_TIERS(X)                                                                            \
    X(PROCESS, "process", false)                                                                   \
    X(WASM_PROCESS, "wasm-process", false)                                                         \
    X(CONTAINER, "container", true)                                                                \
    X(WASM, "wasm", true)                                                                          \
    X(GVISOR, "gvisor", true)                                                                      \
    X(VM, "vm", true)

enum tier {
    TIER_AUTO, /* the level decides */
#define X(id, word, namespaces) TIER_##id,
    POLICY_TIERS(X)
#undef X
        TIER_COUNT,
};

/* How hard a mechanism is asked for. */
enum need {
    NEED_OFF,
    NEED_AUTO,    /* use it where the host has it, say in the receipt what was used instead */
    NEED_REQUIRE, /* refuse to start without it */
};

enum proc_view {
    PROC_PID,    /* only the sandbox's own tasks; kernel files do not exist */
    PROC_OWN,    /* plus what free, nproc and uptime read, with the sandbox's own numbers */
    PROC_SYSTEM, /* plus a few harmless kernel files (cpuinfo, meminfo, stat, uptime, …) */
};

/* What becomes of a limit that the kernel cannot keep here, so that brig can only look and kill. */
enum sampling {
    SAMPLING_ACCEPT, /* it is watched */
    SAMPLING_AUTO,   /* the level's own numbers are watched; any other must be kept */
    SAMPLING_REFUSE, /* refuse to start */
};

enum network_mode {
    NETWORK_OFF,       /* no route, no proxy */
    NETWORK_ALLOWLIST, /* what the rules name, through brig-proxy */
};

/* Every scalar field, once. X(id, "section.name", type, member) */
#define POLICY_FIELDS(X)                                                                           \
    X(LEVEL, "level", LEVEL, level)                                                                \
    X(TIER, "kernel.tier", TIER, tier)                                                             \
    X(UID, "kernel.uid", UINT, uid)                                                                \
    X(BESIDE, "kernel.root", BOOL, root_beside)                                                    \
    X(UNIX_SOCKETS, "kernel.unix_sockets", NEED, unix_sockets)                                     \
    X(ROOT, "filesystem.root", PATH, root)                                                         \
    X(WRITABLE_ROOT, "filesystem.writable_root", BOOL, writable_root)                              \
    X(CWD, "filesystem.cwd", PATH, cwd)                                                            \
    X(WORKSPACE, "filesystem.workspace", BOOL, workspace)                                          \
    X(EXEC, "filesystem.exec", BOOL, exec)                                                         \
    X(PROJECT, "filesystem.project", BOOL, project)                                                \
    X(SUBMOUNTS, "filesystem.submounts", BOOL, submounts)                                          \
    X(PROC, "filesystem.proc", PROC, proc)                                                         \
    X(LANDLOCK, "filesystem.landlock", NEED, landlock)                                             \
    X(REPORT, "filesystem.report", BOOL, report)                                                   \
    X(NETWORK_MODE, "network.mode", NETWORK, network_mode)                                         \
    X(MAX_CONNECTIONS, "network.max_connections", COUNT, egress.max_connections)                   \
    X(UPLOAD, "network.upload", SIZE, egress.upload)                                               \
    X(REQUESTS, "network.requests", COUNT, egress.requests)                                        \
    X(RESOLVER, "network.resolver", RESOLVER, resolver)                                            \
    X(DISK, "lifecycle.disk", SIZE, disk)                                                          \
    X(INODES, "lifecycle.inodes", COUNT, inodes)                                                   \
    X(MEMORY, "lifecycle.memory", SIZE, memory)                                                    \
    X(CPUS, "lifecycle.cpus", MILLI, cpus_milli)                                                   \
    X(PIDS, "lifecycle.pids", COUNT, pids)                                                         \
    X(TIMEOUT, "lifecycle.timeout", DURATION, timeout_ms)                                          \
    X(CPU_TIME, "lifecycle.cpu_time", DURATION, cpu_time_ms)                                       \
    X(OUTPUT, "lifecycle.output", SIZE, output)                                                    \
    X(OPEN_FILES, "lifecycle.open_files", COUNT, open_files)                                       \
    X(CGROUP, "lifecycle.cgroup", NEED, cgroup)                                                    \
    X(SAMPLING, "lifecycle.sampling", SAMPLING, sampling)

enum policy_field {
#define X(id, path, type, member) FIELD_##id,
    POLICY_FIELDS(X)
#undef X
        FIELD_COUNT,
};

/* On the container tier what brig brings along lies there, and no grant does. */
#define SHOWN_DIR "/.brig"

struct grant {
    char *source; /* absolute, no . or .. */
    char *dest;   /* absolute; equal to source unless given */
    bool writable;
    struct origin origin;
};

struct env_var {
    char *name;
    char *value;
    struct origin origin;
};

/* kernel.tier as a list: the first that the host can give, and nothing weaker than all of them. */
struct tier_wish {
    unsigned count; /* 0: no list, the tier alone */
    enum tier tiers[TIER_COUNT];
};

struct policy {
    enum level level;
    enum tier tier; /* with a wish: the weakest of it */
    struct tier_wish wish;
    uint64_t uid;     /* inside the sandbox */
    bool root_beside; /* there is root as well, for whoever asks for it: sandboxes of brig serve */
    enum need unix_sockets;
    char *root;         /* "host", an absolute folder, or "image:" and a reference */
    bool writable_root; /* all of it can be changed, in a layer that ends with the sandbox */
    char *cwd;          /* NULL ("auto"): the workspace, or the project folder where there is one */
    bool workspace;
    bool exec;      /* may files in writable places be executed directly */
    bool project;   /* the caller's folder is granted read-write (level medium) */
    bool submounts; /* what is mounted below a granted folder comes along */
    enum proc_view proc;
    enum need landlock;
    bool report; /* look at every opened path and list what lies outside of the view */
    enum network_mode network_mode;
    char *resolver; /* "ADDRESS:PORT", v6 in brackets; NULL ("host"): as the host resolves */
    uint64_t disk;
    uint64_t inodes;
    uint64_t memory;
    uint64_t cpus_milli;
    uint64_t pids;
    uint64_t timeout_ms;
    uint64_t cpu_time_ms;
    uint64_t output;
    uint64_t open_files;
    enum need cgroup;
    enum sampling sampling;

    struct grant *grants;
    size_t grant_count;
    struct env_var *env;
    size_t env_count;
    struct egress egress;
    struct origin *blocked_from; /* of each of egress.blocked */
    struct origin ask_from;      /* of egress.ask */
    struct commands commands;    /* which command lines may be started */
    bool allow_given;            /* network.allow was given, if only as an empty list */
    struct tools tools;          /* of an MCP server that runs inside */

    struct origin origin[FIELD_COUNT];
};

/* All fields as the level's column of the table says. */
int policy_init(struct policy *p, enum level level);
void policy_done(struct policy *p);

/* One field from text, as an option gives it. `unlimited` is a word, 0 and negative numbers are
 * errors. What stands lower (level, file, option) never replaces what stands higher, in whatever
 * order the calls come; two options that disagree are an error. A new level refills what only a
 * level has set. The message begins with origin->name. */
int policy_set(struct policy *p, enum policy_field field, const char *text,
               const struct origin *origin, struct err *err);
/* "DIR[:DEST]", both absolute. */
int policy_grant(struct policy *p, const char *spec, bool writable, const struct origin *origin,
                 struct err *err);
/* "KEY=VALUE" */
int policy_env(struct policy *p, const char *spec, const struct origin *origin, struct err *err);
/* As egress_allow, egress_block and egress_secret; the first rule or secret turns the network on
 * where nobody has chosen a mode. */
int policy_allow(struct policy *p, const char *spec, const struct origin *origin, struct err *err);
int policy_block(struct policy *p, const char *host, const struct origin *origin, struct err *err);
int policy_secret(struct policy *p, const char *spec, const struct origin *origin, struct err *err);
/* A person is asked about hosts that no rule names: those of a pattern, or all (NULL). */
int policy_ask(struct policy *p, const char *pattern, const struct origin *origin, struct err *err);
/* allow, ask or deny commands of a dangerous shape. */
int policy_dangerous(struct policy *p, const char *text, const struct origin *origin,
                     struct err *err);
/* As tools_add. */
int policy_tool(struct policy *p, enum tool_verdict verdict, const char *spec,
                const struct origin *origin, struct err *err);

/* Read a policy document (JSON if the first non-blank byte is '{', else YAML) and lay it over p.
 * `name` is used in messages: "NAME:LINE:COLUMN: …, expected …". What an option has set stays; a
 * `level` in the document refills what nobody has set. After a failure p is only good for
 * policy_done. */
int policy_load(struct policy *p, const char *name, const char *text, size_t len, struct err *err);
/* The same for a document that stands in another one. */
int policy_load_json(struct policy *p, const char *name, const struct json *root, struct err *err);
/* Contradictions between fields; call once after everything was laid on top of each other. */
int policy_validate(const struct policy *p, struct err *err);
/* A request may only tighten: every field of `request` that was set from a file or option must be
 * at least as strict as in p; then it replaces the value in p. Refused otherwise, naming the field
 * and both values; p is then unchanged. A raised level brings along what is stricter in it. Call
 * policy_validate afterwards: the result may contradict itself (a grant and level critical). */
int policy_tighten(struct policy *p, const struct policy *request, struct err *err);

/* Canonical JSON (sorted, compact): what the policy hash is taken over. */
void policy_canonical(const struct policy *p, struct buf *out);
/* "sha256:…" (71 characters and the NUL). Negative, and an empty text, when there is no memory for
 * it. */
int policy_hash(const struct policy *p, char out[static 72]);
/* For `brig policy show` and `explain`. */
void policy_show_json(const struct policy *p, struct buf *out);
void policy_show_yaml(const struct policy *p, struct buf *out);
/* Aligned: field, value, where it came from. */
void policy_explain(const struct policy *p, struct buf *out);
void policy_explain_json(const struct policy *p, struct buf *out);

const char *level_name(enum level level);
int level_parse(const char *text, enum level *ret);
const char *tier_name(enum tier tier);
int tier_parse(const char *text, enum tier *ret);
/* Namespaces of every kind, and what hangs on them: POLICY_TIERS. */
bool tier_namespaced(enum tier tier);
/* What runs there is a module, and no program. */
bool tier_runs_modules(enum tier tier);
const char *policy_field_path(enum policy_field field);
const char *policy_field_help(enum policy_field field); /* one line, for help texts and docs */
/* The number is the one that the level brings, whoever wrote it down. */
bool policy_field_is_levels(const struct policy *p, enum policy_field field);
/* Somebody gave this value, by an option or in a line of a file. */
bool policy_field_is_chosen(const struct policy *p, enum policy_field field);
/* The value as a person would write it: "256M", "30s", "unlimited". */
void policy_field_text(const struct policy *p, enum policy_field field, struct buf *out);
