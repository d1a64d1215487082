/* What the parts of the daemon share: the loop, the launcher, the recorder, templates, pools,
 * counters. */
#pragma once

#include "base/buf.h"
#include "base/json.h"
#include "daemon/base/keys.h"
#include "os/loop.h"
#include "wire/wire.h"

struct core;
struct core_boxes; /* core_internal.h */

struct accounts; /* daemon/base/account.h */

struct core_config {
    const struct core_boxes *boxes; /* who keeps the sandboxes: &core_boxes of box/box.h */
    struct accounts *accounts;      /* that are charged; NULL: its own */
    unsigned max_boxes;             /* live ones, pooled ones included; 0: 1024 */
    unsigned possible_boxes;        /* for which there are descriptors; 0: any number */
    int64_t default_timeout_ms;     /* 300 000 */
    int64_t max_timeout_ms;         /* 24 h */
    int64_t idle_timeout_ms;        /* nobody used it; 0: none */
    const char *domain; /* ports are called "PORT-ID." and this; NULL: as the client calls us */
};
/* Takes both sockets. The program ignores SIGPIPE: processes may close their stdin. */
/* What is 0 in `config` gets the value in the comment (idle_timeout_ms stays 0). */
int core_new(struct core **ret, struct loop *loop, const struct core_config *config,
             int launcher_fd, int recorder_fd, struct err *err);
void core_free(struct core *c);
struct loop *core_loop(struct core *c);
struct keys *core_keys(struct core *c);
const char *core_domain(const struct core *c);
struct accounts *core_accounts(struct core *c);
/* Until the launcher said hello and the recorder gave back what it keeps. */
void core_when_ready(struct core *c, void (*fn)(void *ctx, const struct err *err), void *ctx);
/* Afterwards: the launcher or the recorder is gone, and the daemon must end. Without fn the loop is
 * stopped. */
void core_on_lost(struct core *c, void (*fn)(void *ctx, const struct err *err), void *ctx);
/* The launcher was told to end: drain, then stop the loop. Without fn that is done here. */
void core_on_stop(struct core *c, void (*fn)(void *ctx), void *ctx);
/* A key that was good is so no longer. */
void core_on_revoked(struct core *c, void (*fn)(void *ctx, const struct key *key), void *ctx);
/* The listeners are served: the launcher tells whoever waits for that. */
void core_serving(struct core *c);
/* SIGTERM: no new boxes; end all; then fn. */
void core_drain(struct core *c, void (*fn)(void *ctx), void *ctx);
void core_reload(struct core *c);
/* An audit record, see audit/record.h: {"boundary","kind","box","key",…}. */
void core_record(struct core *c, const char *kind, const char *box /* its id, or NULL */,
                 const struct key *key, const char *detail_json /* object or NULL */);
typedef void core_query_fn(void *ctx, const char *json, size_t len, const struct err *err);
void core_query(struct core *c, const char *json, core_query_fn *fn, void *ctx);

/* The i-th folder that the operator offers for reviews, or NULL. */
const char *core_project(const struct core *c, size_t i);
/* The first of them that the key may have, or NULL. */
const char *core_project_of(const struct core *c, const struct key *key);

/* What a face of the API keeps as long as the core lives; known by its `free`. */
struct core_part {
    struct core_part *next;
    void (*free)(struct core_part *p);
};
void core_add_part(struct core *c, struct core_part *p);
struct core_part *core_part(struct core *c, void (*free)(struct core_part *p)); /* NULL: none yet */

/* State that outlives the daemon: a row of "keys" or "settings". NULL removes it. */
void core_put(struct core *c, const char *table, const char *key, const char *value_json);

/* templates: as the launcher said in HELLO: {"name","aliases":[],"cpus_milli","memory","disk",
 * "interpreters":[…],"pool":{"min","max","idle_ms"},"description"} */
struct template_info {
    const char *json;
    int64_t created_ms, updated_ms; /* when this daemon came to know it, and what it says now */
    uint64_t claims;
};
size_t core_templates(struct core *c, void (*fn)(void *ctx, const struct template_info *t),
                      void *ctx);
bool core_has_template(struct core *c, const char *name);
/* Are the ports of its sandboxes open to whoever knows their name, unless a request says? */
bool core_template_public(struct core *c, const char *name);

/* metrics.c: Prometheus text, and the anomaly list as JSON. */
void core_metrics(struct core *c, struct buf *out);
void core_anomalies(struct core *c, struct json_writer *w);
/* Notes a request without a valid key. */
void strangers_seen(struct core *c);
enum counter {
    COUNT_CREATED,
    COUNT_CLAIMED,
    COUNT_CREATE_FAILED,
    COUNT_ENDED,
    COUNT_SPAWNED,
    COUNT_EXECUTED,
    COUNT_REQUESTS,
    COUNT_REFUSED,
    COUNT_DENIALS,
    COUNT_LIMITS,
    COUNTER_COUNT,
};
void core_count(struct core *c, enum counter counter, uint64_t n);
void core_observe(struct core *c, const char *what, uint64_t usec); /* a latency */
