/* Joins the five boundaries: one call runs one command behind all of them. */
#pragma once

#include "audit/denial.h"
#include "base/buf.h"
#include "base/err.h"
#include "policy/learn/learn.h"
#include "policy/policy.h"

#include <stdbool.h>
#include <stdint.h>

/* What becomes of the receipt. */
enum run_sign {
    RUN_SIGN_NOT,      /* somebody else does */
    RUN_SIGN_WISHED,   /* if it cannot be signed it says so */
    RUN_SIGN_REQUIRED, /* if it could not be signed nothing is run */
};

/* Variables that sources of secrets name (env:NAME) and that come from a request, not from this
 * process's environment. Wiped as soon as brig-proxy has them. */
struct run_values {
    size_t count;
    struct run_value {
        char name[32];
        char *text;
    } items[EGRESS_SECRETS_MAX];
};
int run_values_add(struct run_values *v, const char *name, const char *text, struct err *err);
const char *run_values_find(const struct run_values *v, const char *name); /* NULL takes NULL */
void run_values_wipe(struct run_values *v);                                /* takes NULL */

struct stream_hash;
struct run_request {
    const struct policy *policy;
    struct run_values *values; /* or NULL */
    char *const *argv;         /* NULL-terminated; argv[0] is looked up in the sandbox's PATH */
    /* On a tier that runs modules: the one that runs the language of the code (sandbox/module.h),
     * by its absolute path; NULL: argv[0] names it. */
    const char *module;
    const char *project; /* absolute folder granted read-write when policy->project; else NULL */
    const char *review;  /* absolute folder of which the code gets a copy-on-write view, or NULL;
                            takes the place of the project */
    const char *review_dest;
    int stdin_fd; /* read by the supervisor and fed through a pipe; -1: empty */
    /* Of what the code was given of it, where no receipt is written; or NULL. */
    struct stream_hash *stdin_hash;
    int stdout_fd; /* where output streams to; -1: capture only */
    int stderr_fd;
    bool tty;     /* a private terminal; stdin_fd is then the user's terminal */
    bool capture; /* keep stdout and stderr in the result */
    bool receipt; /* write the receipt */
    enum run_sign sign;
    bool code;         /* what comes through stdin is the code itself */
    bool keep_changes; /* of a writable root: what the code changed becomes result->changes */
    /* Learn mode: what is refused becomes result->learned. The caller's working folder, or NULL;
     * the network must be on, if without a rule. */
    bool learn;
    const char *learn_cwd;
    uint64_t ask_timeout_ms; /* how long a person may take to answer; 0: as always */
    /* Something waits for `brig approve ID`, and there is no terminal to ask on; NULL: nobody wants
     * to know. Both texts are fit to be shown. */
    void (*held)(const char *id, const char *what, const char *reason);
    const char *term; /* TERM for the private terminal, or NULL */
    /* One end of a pipe or socket, not 0: when the other end is closed, the sandbox is ended as by
     * SIGTERM. 0: none. */
    int lifeline_fd;
    /* A program of brig's own that is shown inside, read-only, at run_tool_path(); or NULL. It is
     * no grant of the policy's, and changes nothing that depends on there being any. */
    const char *tool;
    /* A program of brig's own in the place of the tier's engine (or monitor), with the command as
     * its arguments: `brig verify` tries what one that was broken into could do. Or NULL. */
    const char *engine;
    /* gVisor's platform, whatever is known of it here: a trial; or NULL. */
    const char *platform;
    /* A folder of brig's own that is the root, whatever the policy says; and one that the program
     * may fill, at its workspace. For brig's own programs; or NULL. */
    const char *root, *output;
    /* What the policy's root names (sandbox_image_open); or NULL where that is no image. */
    const struct image *image;
};
const char *run_tool_path(enum tier tier, const char *tool);
/* On this tier a kernel in user space answers the code, and the code's tasks are those of an
 * engine.
 */
bool run_behind_sentry(enum tier tier);
/* On this tier a kernel of the code's own does, and all that the host has of it is a monitor. */
bool run_in_machine(enum tier tier);
/* What such a machine may take to come up; 0 on other tiers. */
uint64_t run_boot_ms(enum tier tier);
/* Whether the tier has what the policy asks for; where it has not, why. */
int run_check_policy(const struct policy *p, enum tier tier, struct err *err);

#define RUN_NOTICES_MAX 8
#define RUN_ASKED_MAX   40

/* What a person was asked, as it was shown, and the answer. */
struct run_asked {
    char id[16];
    char kind[12];
    char text[256];
    char reason[160];
    char answer[16];
    char by[24];
};

/* What the code changed in a writable root over a folder, once nobody is left to change it. All of
 * it is hostile: names, kinds, modes, contents. */
struct run_changes {
    int fd; /* of a tmpfs: "root" is what lies at the top, "layerN/upper" an overlay's upper layer
             */
    unsigned count;
    struct run_change {
        char path[64];    /* "/usr": what the root had at its top when the code began */
        char target[192]; /* of a symbolic link, else empty */
        int layer;        /* of a folder: the number of its overlay's layer; else -1 */
    } tops[];
};

struct run_result {
    char sandbox_id[32];
    enum level level;
    enum tier tier;
    int exit_status; /* what `brig run` exits with */
    int exit_code;   /* the command's own, -1 if it did not exit by itself */
    int signal;      /* that ended the command, 0 if none */
    struct buf out;  /* captured */
    struct buf errout;
    bool stdout_truncated;
    bool stderr_truncated;
    bool timed_out;
    bool oom_killed;
    const char *limit_hit; /* NULL, "timeout", "cpu_time", "memory", "pids", "output", "disk",
                              "inodes", "open_files" */
    /* NULL, or: the run was ended because a part of brig's own failed, e.g. "its guardian died". */
    const char *ended_because;
    double duration_ms;
    double cpu_ms;
    uint64_t peak_memory_bytes;
    struct denial_list denials;
    struct learn *learned; /* NULL: nothing was learned; its text is the caller's to make */
    struct buf receipt;    /* a JSON object, complete; empty if it was not asked for */
    bool is_signed;
    struct err why_not_signed;
    /* Sentences for stderr about what is weaker than the level asks for because the operator said
     * so. */
    bool reviewed; /* it ran with a review; is there something in it? */
    bool review_pending;
    struct err left; /* what could not be removed, and why; code 0: nothing is left */
    char notices[RUN_NOTICES_MAX][256];
    unsigned notice_count;
    struct run_asked asked[RUN_ASKED_MAX];
    unsigned asked_count;
    struct run_changes *changes; /* NULL: they were not asked for, or are not available */
};

/* Negative on failure: nothing untrusted was run (err_exit_status(err) is the exit status),
 * everything is cleaned up. Otherwise the result is complete. */
int sandbox_run(const struct run_request *request, struct run_result *result, struct err *err);
void run_result_init(struct run_result *result);
void run_result_done(struct run_result *result);
/* Members exit_code and signal, null where there is none. */
void run_result_write_end(const struct run_result *result, struct json_writer *w);
/* The object of `--json`. */
void run_result_json(const struct run_result *result, struct buf *out, bool pretty);
/* The operations that this request would perform, as text (for --plan and golden tests). */
int sandbox_plan_text(const struct run_request *request, struct buf *out, struct err *err);

/* What this host can enforce, for `brig doctor`. */
struct host_fact {
    const char *name; /* "user namespaces" */
    bool present;
    char detail[160]; /* "ABI 7", "v1: memory, pids, cpu" */
    char why[256];    /* if missing */
    char how[256];    /* the command that enables it */
    /* The same as a line for root's shell, where the report has made one; else empty. */
    char command[256];
};
#define HOST_FACTS_MAX     24
#define HOST_LANGUAGES_MAX 4
struct host_report {
    struct host_fact facts[HOST_FACTS_MAX];
    unsigned fact_count;
    struct host_tier {
        enum tier tier;
        bool available;
        const char *about; /* the wall, in a few words */
        char why[256];
        char how[256];
    } tiers[TIER_COUNT - TIER_PROCESS]; /* from the weakest to the strongest */
    struct {
        enum level level;
        bool available;
        enum tier tier; /* that the level would get here */
        char why[256];
        char how[256];
    } levels[LEVEL_COUNT];
    struct host_language {
        const char *name; /* that the wasm tiers run by a module; NULL after the last */
        char module[200]; /* "": there is none */
        char why[256];
        char how[256];
    } languages[HOST_LANGUAGES_MAX];
};
void sandbox_host_report(struct host_report *ret);
/* Does the C library of programs here find names below localhost? Those of ports of sandboxes lie
 * there: 3000-ID.localhost. */
bool host_finds_port_names(void);
/* Besides, tries what the report only read in files: sandboxes are made for that, in children. */
void sandbox_host_try(struct host_report *report);
const struct host_tier *host_tier_of(const struct host_report *report, enum tier tier);
