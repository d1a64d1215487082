/* One box from the inside. */
#pragma once

#include "daemon/box/box.h"
#include "daemon/core/core_internal.h"

#define DENIED_WORDS_MAX 2048u
#define SETTLE_MS        5000u  /* what the warden and brig-proxy have to tell is a packet each */
#define LAUNCH_MS        15000u /* until the launcher has forked */
#define READY_MS         30000u /* until it is attested */
#define CLAIM_MS         60000u
#define END_MS           10000u /* then its socket is closed, which ends it too */
#define GONE_MS          20000u /* then its warden is killed: something inside may hold it up */
#define KILLED_MS        10000u /* then whoever waits for its end is told that it does not end */
#define ANSWER_MS        30000u /* whatever else is asked of a warden */

#define PROCESSES_MAX  256u
#define CONTEXTS_MAX   16u
#define FILE_WORKS_MAX 64u

/* Those who wait for something of a box, told together. */
struct box_waiter {
    struct box_waiter *next;
    box_done_fn *fn;
    void *ctx;
};
/* What E2B's sandboxes find in their environment, unless `but` has it; who makes the sandbox does
 * not say these. */
void box_write_names(struct json_writer *w, const struct box *b, const struct json *but);
bool box_is_own_name(const char *name);

/* False: no memory, and fn was told so. */
bool waiters_add(struct box_waiter **list, box_done_fn *fn, void *ctx);
void waiters_tell(struct box_waiter **list,
                  const struct err *err); /* not those who come meanwhile */

struct stats_ring;

struct box {
    struct trash trash;
    struct core *core;
    struct box *next, *prev, *next_in_bucket;
    struct box_info info;
    char token[BOX_TOKEN_LEN + 1];
    char *metadata, *network, *env; /* JSON text; env: only for the interpreter that waited */
    struct tmpl *tmpl;
    struct peer warden;
    int project; /* its number, or -1 */
    char policy_hash[72];
    struct command_rules *rules; /* of its own policy; NULL: the template's */
    bool launched;               /* the launcher has a process for it (or will have) */
    bool own_policy;             /* the request made the template's stricter */
    bool pooled;                 /* was launched for the pool */
    bool in_pool; /* counts there, as one that starts or (pool_idle) one that waits */
    bool pool_idle;
    bool freezing, ended, end_late, killed;
    struct box_waiter *wakers; /* for a resume: box_time.c */
    unsigned version;          /* of the template when it was launched */
    struct box *newer, *older; /* in the pool */
    uint64_t idle_since_ms;
    struct create *create; /* who waits for it */

    struct loop_timer timer; /* of its phase; later of its life */
    uint64_t end_at_ms;      /* monotonic; 0: none */
    int64_t left_ms;         /* while paused */
    uint64_t touched_ms;

    struct box_waiter *waiters; /* for its end */
    char reason[32];
    uint64_t launched_us;
    uint32_t launch_request;

    int interp_fds[INTERP_ENDS]; /* of the interpreter that waited; -1: none */
    int64_t interp_pid;
    bool pumped; /* what comes from inside was carried by another process, and may be on its way */
    enum interp_language interp_language;

    struct account *account; /* of its owner */
    struct hold hold;        /* of what the request that made it said */
    struct box_dependent *dependents;
    struct process *processes;
    struct context *contexts;
    struct file_work *works;
    unsigned process_count, context_count, work_count;
    struct stats_ring *stats;

    uint64_t denials, cpu_usec, memory_peak;
    struct box_denied {
        struct denial_list list;
        uint64_t at[DENIAL_KINDS_MAX]; /* the latest of each kind: how many there were by then */
    } * denied;                        /* NULL until there is one */
    unsigned events_this_second, events_kept_back;
    uint64_t events_second;
};

/* box_state.c: the only file that writes info.state. */
int box_enter(struct box *b, enum box_state next, const char *reason);
void box_on_launched(struct box *b, int fd);
void box_on_launch_failed(struct box *b, const struct err *err);
void box_on_ready(struct box *b, struct wire_msg *m, const struct json *tree);
void box_on_claimed(struct box *b);
void box_on_frozen(struct box *b);
void box_on_thawed(struct box *b);
void box_on_ended(struct box *b, const char *reason);
void box_on_gone(struct box *b, int64_t wait_status);
void box_end_is_late(struct box *b);
void box_fail(struct box *b, const struct err *err); /* misbehaved, or is not available: ends */

/* A record about it and its owner. */
struct usual_of box_who(const struct box *b);
void box_record(const struct box *b, const char *kind, const char *detail_json);

/* box.c */
struct box *box_lookup(struct core *c, const char *id); /* in any state */
struct box *box_new(struct core *c, struct tmpl *t, struct err *err);
void box_unlist(struct box *b);
bool box_usable(const struct box *b, struct err *err);
/* What its warden is told at its start, each a text or NULL; network and headers are JSON. */
struct box_order {
    const char *policy, *network, *headers;
};
/* `o` NULL: nothing. What goes wrong is told to those who wait for the box. */
void box_launch(struct box *b, const struct box_order *o);
void box_stop_work(struct box *b, const struct err *why); /* everything that clients wait for */
extern const struct peer_ops warden_ops;

/* box_create.c */
void create_box_ready(struct create *cr);
void create_box_running(struct create *cr);
void create_box_failed(struct create *cr, const struct err *err);
void create_slot_free(struct core *c); /* a box is gone */
/* A sandbox is ready for the pool: a request that waits gets it, or the slot that it occupies. */
void create_pool_ready(struct tmpl *t);
void create_all_fail(struct core *c, const struct err *err);
void quota_drop(struct core *c, const struct key *key);

/* box_time.c */
void box_time_start(struct box *b, int64_t timeout_ms);
void box_time_stop(struct box *b); /* pauses the clock */
void box_on_timer(struct loop_timer *t);

/* box_stats.c */
void box_stats_free(struct box *b);

/* process.c, process_io.c, process_log.c */
/* oom: killed because the sandbox ran out of memory. */
bool process_on_exit(struct box *b, int64_t pid, int wait_status, bool oom);
void process_stop_all(struct box *b);
/* file_work.c */
void file_stop_all(struct box *b, int error);
/* context.c */
bool context_on_exit(struct box *b, int64_t pid, int wait_status, bool oom);
void context_stop_all(struct box *b, const struct err *why);
void box_signal(struct box *b, int64_t pid, int sig, bool group, peer_answer_fn *fn, void *ctx);
bool process_busy(const struct box *b); /* somebody is attached */
bool context_busy(const struct box *b); /* something runs */
int fd_nonblocking(int fd);
uint64_t fd_waiting(int fd); /* bytes to be read at once */

/* pool.c */
void pool_ready(struct core *c);
void pool_setup(struct tmpl *t, const struct json *json);
struct box *pool_take(struct tmpl *t); /* NULL: none is there; counts as demand in any case */
void pool_undemand(struct tmpl *t);    /* it was refused: more waiting ones would not help */
void pool_add(struct box *b);          /* it is ready */
void pool_left(struct box *b); /* an idle or starting one is no longer: taken, ended or failed */
void pool_failed(struct box *b);
void pool_flush(struct tmpl *t);
bool pool_evict(struct core *c); /* ends an idle one of any template */
void pool_restore(struct core *c, const char *key, const struct json *value);
void pool_settings_free(struct core *c);
void pool_poke(struct tmpl *t); /* look whether more are wanted */
void pool_busy(struct core *c); /* somebody waits: making more of them must wait as well */
/* pool_size.c, pure. */
void demand_tick(struct demand *d);
unsigned demand_target(const struct demand *d, unsigned min, unsigned max);
