/* The core from the inside: for the files that make it up. Everyone else but daemon/box sees
 * core.h. */
#pragma once

#include "base/buf.h"
#include "base/id.h"
#include "daemon/base/account.h"
#include "daemon/core/core.h"
#include "daemon/core/peer.h"
#include "daemon/core/states.h"
#include "policy/commands/commands.h"

#include <stddef.h>

#define IO_SIZE       (64u * 1024)
#define BOX_BUCKETS   1024u /* a power of two */
#define TEMPLATES_MAX 64u   /* also the bound of what the metrics name */

/* Freed after the callbacks of this round, one of which may still hold it. First member of what is
 * freed that way. */
struct trash {
    struct trash *next;
    void (*free)(struct trash *t);
};

/* ---- templates ---- */

/* Numbers of what boxes of a template usually do: mean and spread, after Welford. */
struct usual {
    uint64_t count;
    double mean, spread; /* spread: sum of squared distances */
};
enum usual_id { USUAL_MEMORY, USUAL_CPU, USUAL_DENIALS, USUAL_COUNT };

struct demand {
    double rate; /* claims per second, weighted towards now */
    unsigned this_second;
};

struct pool {
    struct box *newest, *oldest; /* idle ones */
    unsigned idle, starting, min, max;
    bool resized; /* by an operator: what the template says does not count any more */
    uint64_t idle_ms;
    struct demand demand;
    uint64_t hits, misses, expired, failures;
    unsigned failed_in_row;
    uint64_t not_before_ms;
    unsigned version;         /* of the template: older ones are not handed out */
    struct loop_timer tick;   /* once a second while something may change */
    struct loop_timer refill; /* a moment after a claim: the claim goes first */
    bool retired;             /* the launcher has nothing that clones are made from, or was told */
    uint64_t wanted_ms;       /* when a sandbox was last asked for */
};

/* On what is started in a sandbox, as the launcher or its warden says. */
struct command_rules {
    struct commands commands;
    char *roots[32]; /* folders in which commands may do as they like */
    size_t root_count;
};
/* The members "commands" and "roots", in the place of what was there. */
int command_rules_read(struct command_rules *r, const struct json *json, struct err *err);
void command_rules_free(struct command_rules *r); /* takes NULL */

struct tmpl {
    struct tmpl *next;
    struct core *core;
    char *name, *json;
    char *aliases[8];
    unsigned alias_count;
    uint64_t cpus_milli, memory, disk;
    int64_t created_ms, updated_ms;
    struct command_rules rules;
    bool listed;                    /* the launcher still has it */
    uint64_t boot_ms, boot_most_ms; /* a machine's: the template's own policy; a request's */
    bool public_ports;
    bool root;        /* the one user of its sandboxes is root, in their own view */
    bool root_beside; /* or root is there as a second one */
    unsigned boxes[BOX_STATE_COUNT];
    struct pool pool;
    struct usual usual[USUAL_COUNT];
    uint32_t exits_window;                      /* the last 32 exits, 1: failed */
    uint64_t exits, exits_failed, last_flag_at; /* of the failures */
};

/* ---- metrics ---- */

#define HISTOGRAM_BUCKETS 16u
#define HISTOGRAMS_MAX    16u
struct histogram {
    char name[32];
    uint64_t count, sum_usec, bucket[HISTOGRAM_BUCKETS + 1];
};
#define REASONS_MAX 24u
struct reason_count {
    char name[24];
    uint64_t count;
};
#define ANOMALIES_MAX 64u
struct anomaly {
    int64_t time_ms;
    char template_name[64], box[BOX_ID_LEN + 1], what[24];
    double value, mean, deviation; /* how many standard deviations away */
};

struct quota {
    struct quota *next;
    const struct key *key;
    unsigned boxes;
};

#define CORE_PROJECTS_MAX 16

/* What the core tells those who keep the sandboxes (box/boxes.c): they use the core, and it knows
 * of them only this. */
struct core_boxes {
    void (*launched)(struct core *c, const char *id, int fd); /* takes fd; -1: none came */
    void (*not_launched)(struct core *c, uint32_t request, const struct err *err);
    void (*gone)(struct core *c, const char *id, int64_t wait_status);
    void (*refuse)(struct core *c, const struct err *err); /* whoever waits for a sandbox */
    void (*end_all)(struct core *c, const char *reason);
    void (*forget_all)(struct core *c); /* the core is freed */

    void (*ready)(struct core *c); /* templates and settings are there */
    void (*template_changed)(struct tmpl *t, const struct json *pool);
    void (*template_gone)(struct tmpl *t);
    void (*template_poke)(struct tmpl *t); /* still there: more may be wanted */
    void (*setting)(struct core *c, const char *key, const struct json *value);
};

struct box;
struct create;
struct setting;
struct leftover;
struct question; /* box/questions.h */
struct question_watcher;

/* Requests without a good key, see unauthorized.c. */
struct strangers {
    uint64_t count;     /* since the last record */
    uint64_t window_ms; /* 0: none for a while */
    struct loop_timer timer;
};

struct core {
    struct loop *loop;
    struct core_config config;
    struct accounts *accounts, *own_accounts; /* own: nobody else gave any */
    struct keys *keys;
    struct wire_msg *room;
    char *projects[CORE_PROJECTS_MAX]; /* that the operator offers, in the launcher's order */
    size_t project_count;
    char *io_room; /* IO_SIZE: what is read from any pipe */
    struct peer launcher, recorder;
    struct buf scratch; /* for one message that is being written */

    bool hello, restored, ready, lost, draining, drained;
    void (*ready_fn)(void *ctx, const struct err *err);
    void *ready_ctx;
    struct loop_timer ready_timer;
    void (*lost_fn)(void *ctx, const struct err *err);
    void *lost_ctx;
    void (*stop_fn)(void *ctx);
    void *stop_ctx;
    void (*revoked_fn)(void *ctx, const struct key *key);
    void *revoked_ctx;
    void (*drain_fn)(void *ctx);
    void *drain_ctx;
    struct loop_timer drain_timer;
    uint64_t records_lost;
    struct leftover *leftovers; /* boxes of an earlier life whose rows are still there */
    unsigned leftover_count;

    struct tmpl *templates;
    unsigned template_count, pool_starting;
    uint64_t busy_until_ms;   /* somebody waits for a claim or a first output */
    struct setting *settings; /* pools as they were resized, until the templates are known */
    unsigned setting_count;

    struct box *buckets[BOX_BUCKETS];
    struct box *first; /* all of them */
    unsigned live;     /* those that are not gone; never more than config.max_boxes */
    struct quota *quotas;
    uint64_t refusals; /* since the last record of one */
    struct loop_timer refusal_timer;
    struct strangers strangers;
    struct create *creates, *waiting, **waiting_end;
    bool handing_out; /* slots to those that wait */

    struct core_part *parts;
    struct question *questions; /* that wait for a person */
    struct question_watcher *question_watchers;

    struct trash *trash, **trash_end;
    struct loop_task trash_task;
    struct loop_timer tidy_timer;

    size_t log_bytes; /* of all processes' last output */
    uint64_t counters[COUNTER_COUNT];
    uint64_t denials[BOUNDARY_COUNT];
    struct histogram histograms[HISTOGRAMS_MAX];
    struct reason_count reasons[REASONS_MAX];
    struct anomaly anomalies[ANOMALIES_MAX];
    unsigned anomaly_at, anomaly_count;
    int64_t started_ms;
};

void core_discard(struct core *c, struct trash *t);
/* Much was freed: soon, and once for all that is freed till then, it goes back to the system. */
void core_tidy_soon(struct core *c);
void core_stop(struct core *c);                        /* the launcher wants an end in order */
void core_lose(struct core *c, const struct err *err); /* the daemon cannot go on */
/* One message at a time is written into it; NULL never. */
struct buf *core_scratch(struct core *c);

/* templates.c */
struct tmpl *core_template(struct core *c, const char *name); /* by name or alias; listed ones */
int templates_read(struct core *c, const struct json *list, struct err *err);
void templates_free(struct core *c);

/* leftovers.c */
void leftovers_add(struct core *c, const char *id);
void leftovers_clean(struct core *c); /* has the launcher remove what is left of them */
void leftovers_free(struct core *c);

/* launcher_link.c */
int launcher_open(struct core *c, int fd, struct err *err);
/* record.c */
int recorder_open(struct core *c, int fd, struct err *err);
void record_send(struct core *c, const char *boundary, const char *kind, const char *box,
                 const struct key *key, const char *detail);
/* The end of a sandbox, to be signed. */
void receipt_send(struct core *c, const char *box, const struct key *key,
                  const struct json *receipt);
/* unauthorized.c */
void strangers_on_timer(struct loop_timer *t);
void strangers_end(struct core *c); /* what was not yet written */
void core_check_ready(struct core *c);
void core_check_drained(struct core *c);

/* metrics.c, anomalies.c */
void metrics_reason(struct core *c, const char *reason);
/* What a box of the template did; who: its id and its owner, for the record. */
struct usual_of {
    const char *box;
    const struct key *owner;
};
void usual_see(struct tmpl *t, struct usual_of who, enum usual_id id, double value);
void usual_exit(struct tmpl *t, struct usual_of who, bool failed);
double root_of(double v);

/* usage.c */
void usage_watch(struct core *c);
void usage_unwatch(struct core *c);
void usage_metrics(struct core *c, struct buf *out);
