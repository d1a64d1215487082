/* Making a box: from the pool, or launched. One `struct create` per request, from box_create to its
 * callback.
 *
 * CR-1  Never more boxes than config.max_boxes, never more of a key's than its own limit: both are
 *       counted here, in one thread, from the request to the launcher's word that it is gone.
 * CR-2  What fails for a reason that may go away is tried again, later and later; what a rule
 *       refuses is not.
 * CR-3  A box that was offered to somebody is never offered to anybody else. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/container.h"
#include "base/wall.h"
#include "daemon/base/fault.h"
#include "daemon/base/random.h"
#include "daemon/box/box_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define ATTEMPTS     5u
#define BACKOFF_MS   50u /* then twice that, and so on; each time half of it at random */
#define SLOT_WAIT_MS 10000u
#define TEXT_MAX     (WIRE_TEXT_MAX / 3)
#define POLICY_MAX   (16u * 1024) /* escaped it still fits into one packet */
#define HEADERS_MAX  (16u * 1024)

struct create {
    struct trash trash;
    struct core *core;
    struct create *next, *prev;  /* of all */
    struct create *next_waiting; /* for a slot */
    bool waiting, done;
    struct tmpl *tmpl;
    const struct key *owner;
    int64_t timeout_ms;
    bool auto_pause, auto_resume, public_ports;
    enum said internet;
    size_t env_size, policy_size, headers_size; /* as they were charged */
    char mask_host[MASK_HOST_SIZE];
    struct hold hold;
    char *metadata, *env, *network, *policy;
    char *headers; /* secret: overwritten at the end */
    int project;   /* its number, or -1 */
    box_fn *fn;
    void *ctx;
    unsigned attempt;
    struct loop_timer timer; /* between two attempts, or for a slot */
    struct box *box;
    uint64_t began_us;
};

/* ---- how many a key has ---- */

static struct quota **quota_of(struct core *c, const struct key *key)
{
    struct quota **at = &c->quotas;
    while (*at && (*at)->key != key)
        at = &(*at)->next;
    return at;
}

static int quota_take(struct core *c, const struct key *key, struct err *err)
{
    struct quota **at = quota_of(c, key);
    if (*at && key->max_boxes && (*at)->boxes >= key->max_boxes)
        return err_set(err, ERR_LIMIT, "this key already has its %u sandboxes", key->max_boxes);
    if (!*at) {
        *at = calloc(1, sizeof **at);
        if (!*at)
            return err_memory(err);
        (*at)->key = key;
    }
    (*at)->boxes++;
    return 0;
}

void quota_drop(struct core *c, const struct key *key)
{
    struct quota **at = quota_of(c, key), *q = *at;
    if (!q || --q->boxes > 0)
        return;
    *at = q->next;
    free(q);
}

/* ---- the end of a request ---- */

static void create_free(struct trash *t)
{
    struct create *cr = container_of(t, struct create, trash);
    free(cr->metadata);
    free(cr->env);
    free(cr->network);
    free(cr->policy);
    if (cr->headers)
        explicit_bzero(cr->headers, strlen(cr->headers));
    free(cr->headers);
    hold_done(&cr->hold);
    free(cr);
}

static void stop_waiting(struct create *cr)
{
    struct core *c = cr->core;
    struct create **at = &c->waiting;
    loop_timer_cancel(c->loop, &cr->timer);
    if (!cr->waiting)
        return;
    cr->waiting = false;
    while (*at != cr)
        at = &(*at)->next_waiting;
    *at = cr->next_waiting;
    if (!*at)
        c->waiting_end = at;
    cr->next_waiting = NULL;
}

static void finish(struct create *cr, struct box *b, const struct err *err)
{
    struct core *c = cr->core;
    cr->done = true;
    stop_waiting(cr);
    if (cr->prev)
        cr->prev->next = cr->next;
    else
        c->creates = cr->next;
    if (cr->next)
        cr->next->prev = cr->prev;
    if (!b) {
        quota_drop(c, cr->owner);
        core_count(c, COUNT_CREATE_FAILED, 1);
    }
    cr->trash.free = create_free;
    core_discard(c, &cr->trash);
    cr->fn(cr->ctx, b, err);
}

static void record_refusal(struct create *cr, const struct err *err)
{
    cleanup_buf struct buf detail = {0};
    struct json_writer w;
    jw_begin(&w, &detail, 4096);
    jw_kv_string(&w, "template", cr->tmpl->name);
    jw_kv_string(&w, "error", err->message);
    jw_kv_uint(&w, "attempts", cr->attempt);
    jw_object_end(&w);
    core_record(cr->core, "box.refused", NULL, cr->owner, buf_text(&detail));
}

/* A client that is refused for want of room often tries again at once: the first refusal in a
 * second is recorded, the others are counted. */
static void on_refusals(struct loop_timer *t)
{
    struct core *c = container_of(t, struct core, refusal_timer);
    if (c->refusals > 0) {
        core_record(c, "box.refused", NULL, NULL, JSON_SMALL(JSON_NUMBER("count", c->refusals)));
        loop_timer_set(c->loop, t, 1000);
    }
    c->refusals = 0;
}

static void create_fail(struct create *cr, const struct err *err)
{
    struct core *c = cr->core;
    if (err->code == ERR_LIMIT && c->refusal_timer.due_ms) {
        c->refusals++;
    } else {
        record_refusal(cr, err);
        if (err->code == ERR_LIMIT) {
            c->refusal_timer.fn = on_refusals;
            loop_timer_set(c->loop, &c->refusal_timer, 1000);
        }
    }
    finish(cr, NULL, err);
}

void create_all_fail(struct core *c, const struct err *err)
{
    while (c->creates) {
        struct create *cr = c->creates;
        struct box *b = cr->box;
        cr->box = NULL;
        if (b)
            b->create = NULL;
        create_fail(cr, err);
        if (b)
            box_end(b, "shutdown", NULL, NULL);
    }
}

/* ---- attempts ---- */

static void create_try(struct create *cr);

static void fail_for_want_of_room(struct create *cr)
{
    struct err err = ERR_INIT;
    const struct core_config *config = &cr->core->config;
    bool few = config->max_boxes == config->possible_boxes;
    err_set(&err, ERR_LIMIT, "all %u sandboxes are in use%s", config->max_boxes,
            few ? " (more would need more descriptors: raise the limit of open files)" : "");
    create_fail(cr, &err);
}

static void on_create_timer(struct loop_timer *t)
{
    struct create *cr = container_of(t, struct create, timer);
    if (cr->waiting)
        fail_for_want_of_room(cr);
    else
        create_try(cr);
}

static void wait_for_slot(struct create *cr)
{
    struct core *c = cr->core;
    cr->waiting = true;
    *c->waiting_end = cr;
    c->waiting_end = &cr->next_waiting;
    loop_timer_set(c->loop, &cr->timer, SLOT_WAIT_MS);
}

void create_slot_free(struct core *c)
{
    if (c->handing_out)
        return;
    /* AY-5: one that fails at once leaves its slot, and calls this again. */
    c->handing_out = true;
    while (c->waiting && c->live < c->config.max_boxes && !c->lost) {
        struct create *cr = c->waiting;
        stop_waiting(cr);
        create_try(cr);
    }
    c->handing_out = false;
}

void create_pool_ready(struct tmpl *t)
{
    struct core *c = t->core;
    struct create *cr = c->waiting;
    if (!cr || c->lost)
        return;
    if (cr->tmpl == t) {
        stop_waiting(cr);
        create_try(cr);
    } else {
        pool_evict(c);
    }
}

/* Is there a slot to come for one more who waits? What is on its way out leaves one, and so does
 * what is being made for a pool: it is nobody's. */
static bool slot_will_come(const struct core *c)
{
    unsigned waiting = 0, coming = c->pool_starting;
    for (const struct create *cr = c->waiting; cr; cr = cr->next_waiting)
        waiting++;
    for (const struct tmpl *t = c->templates; t; t = t->next)
        coming += t->boxes[BOX_ENDING];
    return waiting < coming;
}

static void create_launch(struct create *cr)
{
    struct core *c = cr->core;
    struct err err = ERR_INIT;
    if (c->live >= c->config.max_boxes) {
        /* Sandboxes that wait in a pool belong to nobody: end one to make room. */
        if (slot_will_come(c) || pool_evict(c)) {
            wait_for_slot(cr);
            return;
        }
        pool_undemand(cr->tmpl);
        fail_for_want_of_room(cr);
        return;
    }
    struct box *b = box_new(c, cr->tmpl, &err);
    if (!b) {
        create_fail(cr, &err);
        return;
    }
    cr->box = b;
    b->create = cr;
    b->project = cr->project;
    b->info.project = cr->project < 0 ? NULL : core_project(c, (size_t)cr->project);
    b->own_policy = cr->policy != NULL;
    const struct box_order order = {cr->policy, cr->network, cr->headers};
    box_launch(b, &order);
}

static void on_claim_answer(void *ctx, struct wire_msg *m, const struct err *err)
{
    (void)m;
    struct box *b = ctx;
    if (!b->create)
        return; /* it ended meanwhile, and who waited was told */
    if (err)
        box_fail(b, err);
    else
        create_box_running(b->create);
}

/* With those that the request says. */
static void write_env(struct buf *out, const struct box *b, const char *asked)
{
    struct json_writer w;
    jw_init(&w, out, false);
    jw_object_begin(&w);
    box_write_names(&w, b, NULL);
    if (asked && asked[1] != '}')
        buf_fmt(out, ",%s", asked + 1);
    else
        jw_object_end(&w);
}

static void create_claim(struct create *cr)
{
    struct box *b = cr->box;
    struct buf *out = core_scratch(cr->core);
    fault_point(FAULT_CLAIM_BEFORE);
    buf_fmt(out, "{\"env\":");
    write_env(out, b, cr->env);
    buf_str(out, ",\"network\":");
    buf_str(out, cr->network ? cr->network : "null");
    buf_chr(out, '}');
    peer_ask(&b->warden, WIRE_CLAIM, 0, out->data, out->len, CLAIM_MS, on_claim_answer, b);
    fault_point(FAULT_CLAIM_SENT);
}

static void create_try(struct create *cr)
{
    struct core *c = cr->core;
    struct err err = ERR_INIT;
    if (c->lost || c->draining || !cr->tmpl->listed) {
        err_set(&err, ERR_REFUSED, "%s",
                cr->tmpl->listed ? "the daemon is shutting down" : "the template was removed");
        create_fail(cr, &err);
        return;
    }
    /* What waits was made without a project, and with the template's own policy. */
    bool own = cr->project >= 0 || cr->policy || cr->headers;
    struct box *b = own ? NULL : pool_take(cr->tmpl);
    if (!b) {
        create_launch(cr);
        return;
    }
    cr->box = b;
    b->create = cr;
    create_claim(cr);
}

/* ---- what becomes of the box ---- */

void create_box_ready(struct create *cr)
{
    create_claim(cr);
}

static char *steal(char **from)
{
    char *text = *from;
    *from = NULL;
    return text;
}

void create_box_running(struct create *cr)
{
    struct core *c = cr->core;
    struct box *b = cr->box;
    b->create = NULL;
    cr->box = NULL;
    random_token(b->token);
    b->info.owner = cr->owner;
    b->account = b->warden.account = cr->hold.account;
    b->warden.io.share = account_share(b->account);
    b->hold = cr->hold;
    cr->hold = (struct hold){0};
    b->info.started_ms = wall_ms();
    b->info.auto_pause = cr->auto_pause;
    b->info.auto_resume = cr->auto_resume;
    b->info.public_ports = cr->public_ports;
    b->info.internet = cr->internet;
    memcpy(b->info.mask_host, cr->mask_host, sizeof b->info.mask_host);
    if (cr->metadata)
        b->info.metadata = b->metadata = steal(&cr->metadata);
    if (cr->network)
        b->info.network = b->network = steal(&cr->network);
    if (b->interp_fds[0] >= 0)
        b->env = steal(&cr->env);
    /* These go with `cr`. */
    hold_sub(&b->hold, cr->policy_size + cr->headers_size + (b->env ? 0 : cr->env_size));
    box_on_claimed(b);
    if (b->info.state != BOX_RUNNING) { /* a bug ended it; its quota goes with it */
        struct err err = ERR_INIT;
        err_set(&err, ERR_INTERNAL, "sandbox %s could not be handed over", b->info.id);
        b->info.owner = NULL;
        finish(cr, NULL, &err);
        return;
    }
    box_time_start(b, cr->timeout_ms);
    uint64_t took = clock_us() - cr->began_us;
    core_count(c, b->pooled ? COUNT_CLAIMED : COUNT_CREATED, 1);
    core_observe(c, b->pooled ? "claim" : "create", took);
    finish(cr, b, NULL);
}

/* May it be different the next time? What befell a box that waited says nothing about the next;
 * only what was asked for would fail again. */
static bool is_transient(const struct err *err, bool pooled)
{
    static const int errors[] = {EAGAIN,  ENOMEM, EMFILE, ENFILE,    EBUSY,
                                 EINTR,   ENOSPC, EDQUOT, ETIMEDOUT, ECONNRESET,
                                 ETXTBSY, EUSERS, EIO,    EPIPE,     ESRCH};
    if (err->code == ERR_ATTEST || err->code == ERR_INTERRUPTED || err->code == ERR_MEMORY)
        return true;
    if (pooled && (err->code == ERR_PROTOCOL || err->code == ERR_SYSTEM))
        return true;
    if (err->code != ERR_SYSTEM)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(errors); i++)
        if (err->sys_errno == errors[i])
            return true;
    return err->sys_errno == 0; /* a process that went without saying why */
}

void create_box_failed(struct create *cr, const struct err *err)
{
    struct core *c = cr->core;
    struct box *b = cr->box;
    cr->box = NULL;
    if (cr->done)
        return;
    if (!is_transient(err, b && b->pooled) || ++cr->attempt >= ATTEMPTS || c->draining || c->lost) {
        create_fail(cr, err);
        return;
    }
    uint64_t wait = (uint64_t)BACKOFF_MS << (cr->attempt - 1);
    if (b && b->pooled)
        wait = 0;
    else
        wait = wait / 2 + random_below((uint32_t)(wait / 2) + 1);
    cr->timer.fn = on_create_timer;
    loop_timer_set(c->loop, &cr->timer, wait);
}

/* ---- a request ---- */

static int take_text(struct create *cr, struct buf *out, char **ret, struct err *err)
{
    if (out->failed || !out->data) {
        buf_done(out);
        if (hold_refusal(&cr->hold, err) < 0)
            return err_number(err);
        return err_set(err, ERR_LIMIT, "metadata, environment or network rules are over %u bytes",
                       TEXT_MAX);
    }
    *ret = out->data;
    return 0;
}

static int copy_text(struct create *cr, const struct json *json, char **ret, struct err *err)
{
    struct buf out;
    struct json_writer w;
    if (!json)
        return 0;
    buf_init_metered(&out, TEXT_MAX, &cr->hold.meter);
    jw_init(&w, &out, false);
    jw_json(&w, json);
    return take_text(cr, &out, ret, err);
}

static int copy_env(struct create *cr, const struct json *env, struct err *err)
{
    struct buf out;
    struct json_writer w;
    if (!env)
        return 0;
    buf_init_metered(&out, TEXT_MAX, &cr->hold.meter);
    jw_init(&w, &out, false);
    jw_object_begin(&w);
    for (size_t i = 0; i < json_count(env); i++)
        if (!box_is_own_name(json_key_at(env, i)))
            jw_kv_string(&w, json_key_at(env, i), json_string(json_value_at(env, i)));
    jw_object_end(&w);
    int r = take_text(cr, &out, &cr->env, err);
    cr->env_size = r < 0 ? 0 : out.size;
    return r;
}

static int copy_policy(struct create *cr, const struct json *policy, struct err *err)
{
    struct buf out;
    struct json_writer w;
    if (!policy)
        return 0;
    buf_init_metered(&out, POLICY_MAX, &cr->hold.meter);
    jw_init(&w, &out, false);
    if (json_type(policy) == JSON_STRING)
        buf_str(&out, json_string(policy));
    else
        jw_json(&w, policy);
    buf_chr(&out, '\0'); /* so that an empty one is there as well: its warden complains */
    if (out.failed || !out.data) {
        buf_done(&out);
        if (hold_refusal(&cr->hold, err) < 0)
            return err_number(err);
        return err_set(err, ERR_USAGE, "\"policy\": more than %u bytes", POLICY_MAX - 1);
    }
    cr->policy = out.data;
    cr->policy_size = out.size;
    return 0;
}

/* Into memory that does not move: no copy of a value stays behind. */
static int copy_headers(struct create *cr, const struct json *headers, struct err *err)
{
    struct buf out;
    struct json_writer w;
    if (!headers)
        return 0;
    buf_init_metered(&out, HEADERS_MAX, &cr->hold.meter);
    buf_room(&out, HEADERS_MAX - 1);
    jw_init(&w, &out, false);
    jw_json(&w, headers);
    cr->headers = out.data; /* to be overwritten, whatever became of it */
    cr->headers_size = out.size;
    if (!out.failed && out.data)
        return 0;
    if (hold_refusal(&cr->hold, err) < 0)
        return err_number(err);
    return err_set(err, ERR_USAGE, "\"network.rules\": more than %u bytes", HEADERS_MAX - 1);
}

/* RV-8: what is not bound to the key is not there for it. */
static int find_project(const struct core *c, const struct key *key, const char *name)
{
    const char *path;
    for (int i = 0; (path = core_project(c, (size_t)i)); i++) {
        const char *last = strrchr(path, '/');
        if (key_has_project(key, path) &&
            (strcmp(path, name) == 0 || (last && strcmp(last + 1, name) == 0)))
            return i;
    }
    return -1;
}

static int create_fill(struct create *cr, const struct box_request *r, struct err *err)
{
    struct core *c = cr->core;
    if (c->draining || c->lost || !c->ready)
        return err_set(err, ERR_REFUSED,
                       c->ready ? "the daemon is shutting down" : "the daemon is not ready yet");
    cr->tmpl = core_template(c, r->template_name);
    if (!cr->tmpl)
        return err_set(err, ERR_NOT_FOUND, "there is no such template");
    cr->timeout_ms = r->timeout_ms > 0 ? r->timeout_ms : c->config.default_timeout_ms;
    if (cr->timeout_ms > c->config.max_timeout_ms)
        return err_set(err, ERR_USAGE, "the longest time to live is %lld s",
                       (long long)c->config.max_timeout_ms / 1000);
    cr->project = r->project ? find_project(c, r->owner, r->project) : -1;
    if (r->project && cr->project < 0) {
        err_set(err, ERR_NOT_FOUND, "the project \"%.200s\" is not offered to this key",
                r->project);
        return err_hint(err, "the operator offers one with brig serve --project DIR, and binds it "
                             "to a key with brig keys add --project DIR");
    }
    hold_init(&cr->hold, account_of(c->accounts, cr->owner));
    int result = copy_text(cr, r->metadata, &cr->metadata, err);
    if (result >= 0)
        result = copy_env(cr, r->env, err);
    if (result >= 0)
        result = copy_text(cr, r->network, &cr->network, err);
    if (result >= 0)
        result = copy_policy(cr, r->policy, err);
    if (result >= 0)
        result = copy_headers(cr, r->headers, err);
    return result;
}

void box_create(struct core *c, const struct box_request *r, box_fn *fn, void *ctx)
{
    struct err err = ERR_INIT;
    struct create *cr = calloc(1, sizeof *cr);
    if (!cr) {
        err_memory(&err);
        fn(ctx, NULL, &err);
        return;
    }
    *cr = (struct create){.core = c,
                          .owner = r->owner,
                          .auto_pause = r->auto_pause,
                          .auto_resume = r->auto_resume,
                          .public_ports = r->public_ports,
                          .internet = r->internet,
                          .fn = fn};
    cr->ctx = ctx;
    if (r->mask_host)
        snprintf(cr->mask_host, sizeof cr->mask_host, "%s", r->mask_host);
    cr->timer.fn = on_create_timer;
    cr->began_us = clock_us();
    if (create_fill(cr, r, &err) < 0 || quota_take(c, r->owner, &err) < 0) {
        create_free(&cr->trash);
        core_count(c, COUNT_CREATE_FAILED, 1);
        fn(ctx, NULL, &err);
        return;
    }
    cr->next = c->creates;
    if (c->creates)
        c->creates->prev = cr;
    c->creates = cr;
    create_try(cr);
}
