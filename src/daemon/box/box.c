/* Finding boxes, and what a warden says about one. */
#include "daemon/box/box.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/container.h"
#include "base/num.h"
#include "base/text.h"
#include "base/wall.h"
#include "daemon/base/fault.h"
#include "daemon/base/random.h"
#include "daemon/box/box_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#define DENIED_LINES      3u  /* of what was refused, where a failure is told */
#define EVENTS_PER_SECOND 50u /* of one box, into the records; the rest is counted */

const struct box_info *box_info(const struct box *b)
{
    return &b->info;
}

int fd_nonblocking(int fd)
{
    return fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

uint64_t fd_waiting(int fd)
{
    int n = 0;
    return fd >= 0 && ioctl(fd, FIONREAD, &n) == 0 && n > 0 ? (uint64_t)n : 0;
}

/* ---- all of them ---- */

/* The ids are random: any bits of them will do. */
static struct box **bucket(struct core *c, const char *id)
{
    uint32_t h = 2166136261u;
    for (unsigned i = 0; i < 8; i++)
        h = (h ^ (uint8_t)id[i]) * 16777619u;
    return &c->buckets[(h ^ (h >> 15)) & (BOX_BUCKETS - 1)];
}

struct usual_of box_who(const struct box *b)
{
    return (struct usual_of){b->info.id, b->info.owner};
}

void box_record(const struct box *b, const char *kind, const char *detail_json)
{
    core_record(b->core, kind, b->info.id, b->info.owner, detail_json);
}

struct box *box_lookup(struct core *c, const char *id)
{
    if (!box_id_valid(id))
        return NULL;
    struct box *b = *bucket(c, id);
    while (b && strcmp(b->info.id, id) != 0)
        b = b->next_in_bucket;
    return b;
}

static bool is_visible(const struct box *b)
{
    return b->info.state == BOX_RUNNING || b->info.state == BOX_PAUSED;
}

static bool is_allowed(const struct box *b, const struct key *key)
{
    return key && (key->operator_key || b->info.owner == key);
}

struct box *box_find_any(struct core *c, const char *id)
{
    struct box *b = box_lookup(c, id);
    return b && is_visible(b) ? b : NULL;
}

struct box *box_find(struct core *c, const struct key *key, const char *id)
{
    struct box *b = box_find_any(c, id);
    return b && is_allowed(b, key) ? b : NULL;
}

/* Compares with all of them even after a match, so that the time taken does not tell which one
 * matched. */
struct box *box_by_token(struct core *c, bool (*match)(void *ctx, const struct box *b), void *ctx)
{
    struct box *found = NULL;
    for (struct box *b = c->first; b; b = b->next)
        if (is_visible(b) && match(ctx, b))
            found = b;
    return found;
}

void box_each(struct core *c, const struct key *key, void (*fn)(void *ctx, struct box *b),
              void *ctx)
{
    for (struct box *b = c->first, *next; b; b = next) {
        next = b->next;
        if (is_visible(b) && is_allowed(b, key))
            fn(ctx, b);
    }
}

bool box_usable(const struct box *b, struct err *err)
{
    if (b->info.state == BOX_RUNNING && !b->freezing)
        return true;
    if (is_visible(b))
        err_set(err, ERR_REFUSED, "sandbox %s is paused", b->info.id);
    else
        err_set(err, ERR_NOT_FOUND, "sandbox %s is gone", b->info.id);
    return false;
}

/* ---- one of them ---- */

static void enlist(struct box *b)
{
    struct core *c = b->core;
    b->next = c->first;
    if (c->first)
        c->first->prev = b;
    c->first = b;
    struct box **at = bucket(c, b->info.id);
    b->next_in_bucket = *at;
    *at = b;
    c->live++;
    b->tmpl->boxes[BOX_DORMANT]++;
}

struct account *box_account(const struct box *b)
{
    return b->account;
}

void box_depend(struct box *b, struct box_dependent *d)
{
    d->next = b->dependents;
    d->at = &b->dependents;
    if (d->next)
        d->next->at = &d->next;
    b->dependents = d;
}

struct box_dependent *box_dependents(struct box *b)
{
    return b->dependents;
}

void box_undepend(struct box_dependent *d)
{
    if (!d->at)
        return;
    *d->at = d->next;
    if (d->next)
        d->next->at = d->at;
    d->at = NULL;
}

static const char *const own_names[] = {"E2B_SANDBOX", "E2B_SANDBOX_ID", "E2B_TEMPLATE_ID"};

void box_write_names(struct json_writer *w, const struct box *b, const struct json *but)
{
    const char *const values[] = {"true", b->info.id, b->info.template_name};
    for (size_t i = 0; i < ARRAY_LEN(own_names); i++)
        if (!but || !json_get(but, own_names[i]))
            jw_kv_string(w, own_names[i], values[i]);
}

bool box_is_own_name(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(own_names); i++)
        if (!strcmp(name, own_names[i]))
            return true;
    return false;
}

static void box_free(struct trash *t)
{
    struct box *b = container_of(t, struct box, trash);
    hold_done(&b->hold);
    loop_timer_cancel(b->core->loop, &b->timer);
    box_stats_free(b);
    free(b->denied);
    free(b->metadata);
    free(b->network);
    free(b->env);
    command_rules_free(b->rules);
    free(b);
}

void box_unlist(struct box *b)
{
    struct core *c = b->core;
    if (b->prev)
        b->prev->next = b->next;
    else
        c->first = b->next;
    if (b->next)
        b->next->prev = b->prev;
    struct box **at = bucket(c, b->info.id);
    while (*at != b)
        at = &(*at)->next_in_bucket;
    *at = b->next_in_bucket;
    c->live--;
    b->tmpl->boxes[b->info.state]--;
    loop_timer_cancel(c->loop, &b->timer);
    b->trash.free = box_free;
    core_discard(c, &b->trash);
}

struct box *box_new(struct core *c, struct tmpl *t, struct err *err)
{
    struct box *b = calloc(1, sizeof *b);
    if (!b) {
        err_memory(err);
        return NULL;
    }
    b->core = c;
    b->tmpl = t;
    b->project = -1;
    do
        random_id(b->info.id, BOX_ID_LEN);
    while (box_lookup(c, b->info.id));
    b->info.template_name = t->name;
    b->info.token = b->token;
    b->info.metadata = "{}";
    b->info.policy_hash = b->policy_hash;
    b->info.cpus_milli = t->cpus_milli;
    b->info.memory = t->memory;
    b->info.disk = t->disk;
    b->info.root = t->root;
    b->info.root_beside = t->root_beside;
    b->version = t->pool.version;
    b->timer.fn = box_on_timer;
    for (unsigned i = 0; i < INTERP_ENDS; i++)
        b->interp_fds[i] = -1;
    peer_init(&b->warden, c->loop, c->room, &warden_ops);
    enlist(b);
    return b;
}

/* JSON that was written before; null if there is none. */
static void write_text(struct json_writer *w, const char *key, const char *text)
{
    struct buf written = {.data = (char *)(uintptr_t)text, .len = text ? strlen(text) : 0};
    jw_key(w, key);
    jw_written(w, &written);
}

static void write_launch(const struct box *b, const struct box_order *o, struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out, false);
    jw_object_begin(&w);
    jw_kv_string(&w, "id", b->info.id);
    jw_kv_string(&w, "template", b->tmpl->name);
    jw_kv_bool(&w, "pooled", b->pooled);
    if (b->project >= 0)
        jw_kv_int(&w, "project", b->project);
    if (o && o->policy)
        jw_kv_string(&w, "policy", o->policy);
    if (o && o->headers) {
        write_text(&w, "network", o->network);
        write_text(&w, "headers", o->headers);
    }
    jw_object_end(&w);
}

void box_launch(struct box *b, const struct box_order *o)
{
    struct core *c = b->core;
    struct err err = ERR_INIT;
    if (box_enter(b, BOX_PROVISIONING, NULL) < 0)
        return;
    core_put(
        c, "boxes", b->info.id,
        JSON_SMALL(JSON_TEXT("template", b->tmpl->name), JSON_NUMBER("created_ms", wall_ms())));
    fault_point(FAULT_LAUNCH_BEFORE);
    struct buf *text = core_scratch(c);
    write_launch(b, o, text);
    b->launched_us = clock_us();
    b->launched = true;
    loop_timer_set(c->loop, &b->timer, LAUNCH_MS);
    /* The answer is LAUNCHED, or FAIL with this number. */
    b->launch_request = peer_number(&c->launcher);
    int r = text->failed
                ? -ENOMEM
                : peer_send(&c->launcher, WIRE_LAUNCH, b->launch_request, 0, text->data, text->len);
    fault_point(FAULT_LAUNCH_SENT);
    if (o && o->headers)
        explicit_bzero(text->data, text->len);
    if (r < 0) {
        errno = -r;
        err_sys(&err, "the launcher cannot be told");
        box_on_launch_failed(b, &err);
    }
}

void box_stop_work(struct box *b, const struct err *why)
{
    process_stop_all(b);
    context_stop_all(b, why);
    file_stop_all(b, ECANCELED);
    while (b->dependents) {
        struct box_dependent *d = b->dependents;
        box_undepend(d);
        d->gone(d);
    }
    for (unsigned i = 0; i < INTERP_ENDS; i++)
        if (b->interp_fds[i] >= 0)
            close(fd_steal(&b->interp_fds[i]));
}

bool waiters_add(struct box_waiter **list, box_done_fn *fn, void *ctx)
{
    struct err err = ERR_INIT;
    struct box_waiter *w = malloc(sizeof *w);
    if (!w) {
        err_memory(&err);
        fn(ctx, &err);
        return false;
    }
    *w = (struct box_waiter){*list, fn, ctx};
    *list = w;
    return true;
}

void waiters_tell(struct box_waiter **list, const struct err *err)
{
    struct box_waiter *w = *list;
    *list = NULL;
    while (w) {
        struct box_waiter *next = w->next;
        w->fn(w->ctx, err);
        free(w);
        w = next;
    }
}

static void ignore(void *ctx, struct wire_msg *m, const struct err *err)
{
    (void)ctx, (void)m, (void)err;
}

void box_signal(struct box *b, int64_t pid, int sig, bool group, peer_answer_fn *fn, void *ctx)
{
    const char *text =
        JSON_SMALL(JSON_NUMBER("pid", pid), JSON_NUMBER("signal", sig), JSON_FLAG("group", group));
    peer_ask(&b->warden, WIRE_SIGNAL, 0, text, strlen(text), ANSWER_MS, fn ? fn : ignore, ctx);
}

/* ---- what was refused ---- */

struct settle {
    box_done_fn *fn;
    void *ctx;
};

static void on_settled(void *ctx, struct wire_msg *m, const struct err *err)
{
    struct settle *s = ctx;
    (void)m;
    s->fn(s->ctx, err);
    free(s);
}

void box_settle(struct box *b, box_done_fn *fn, void *ctx)
{
    struct err err = ERR_INIT;
    struct settle *s = malloc(sizeof *s);
    if (!s) {
        err_memory(&err);
        fn(ctx, &err);
        return;
    }
    *s = (struct settle){fn, ctx};
    peer_ask(&b->warden, WIRE_SETTLE, 0, "{}", 2, SETTLE_MS, on_settled, s);
}

/* ---- what the warden says ---- */

static struct box *box_of(struct peer *p)
{
    return container_of(p, struct box, warden);
}

static enum boundary_id boundary_named(const char *name)
{
    for (int i = 1; name && i < BOUNDARY_COUNT; i++)
        if (strcmp(boundary_name((enum boundary_id)i), name) == 0)
            return (enum boundary_id)i;
    return BOUNDARY_NONE;
}

/* A flood of refusals must not become a flood of records: beyond so many in a second they are
 * counted, and the count is one record. */
static bool event_fits(struct box *b)
{
    uint64_t second = loop_now_ms(b->core->loop) / 1000;
    if (second != b->events_second) {
        unsigned kept = b->events_kept_back;
        b->events_second = second;
        b->events_this_second = b->events_kept_back = 0;
        if (kept)
            record_send(b->core, "audit", "denial.more", b->info.id, b->info.owner,
                        JSON_SMALL(JSON_NUMBER("count", kept)));
    }
    if (++b->events_this_second <= EVENTS_PER_SECOND)
        return true;
    b->events_kept_back++;
    return false;
}

const struct denial_list *box_denials(const struct box *b)
{
    return b->denied ? &b->denied->list : NULL;
}

/* For whoever asks what went wrong; the record has all of it. */
static void keep_denial(struct box *b, const struct denial *d)
{
    if (!b->denied && !(b->denied = calloc(1, sizeof *b->denied)))
        return;
    const struct denial *kept = denial_put(&b->denied->list, d);
    if (kept)
        b->denied->at[kept - b->denied->list.items] = b->denials;
}

/* What a warden says was refused, or (false) was done: its event without a kind is a refusal. */
static bool read_event(const struct json *tree, struct denial *ret)
{
    const struct json *count = json_get(tree, "count");
    const char *kind = json_text(tree, "kind");
    *ret = (struct denial){
        .boundary = boundary_named(json_text(tree, "boundary")),
        .count = count && json_type(count) == JSON_INT && json_int(count) > 0
                     ? (uint64_t)json_int(count)
                     : 1,
    };
    snprintf(ret->what, sizeof ret->what, "%s", json_shown(tree, "what"));
    snprintf(ret->rule, sizeof ret->rule, "%s", json_shown(tree, "rule"));
    snprintf(ret->hint, sizeof ret->hint, "%s", json_shown(tree, "hint"));
    return !kind || strcmp(kind, "denied") == 0;
}

uint64_t box_denied_mark(const struct box *b)
{
    return b->denials;
}

bool box_denied_since(const struct box *b, uint64_t mark, struct buf *out)
{
    unsigned lines = 0;
    for (size_t i = 0; b->denied && i < b->denied->list.count; i++) {
        if (b->denied->at[i] <= mark)
            continue;
        if (lines++ == DENIED_LINES)
            return true;
        struct denial d = b->denied->list.items[i];
        d.count = 1; /* the count is that of the sandbox's whole life, not of this process */
        if (lines > 1)
            buf_str(out, "; ");
        denial_line(&d, out);
    }
    return lines > 0;
}

static void on_event(struct box *b, const struct json *tree, const char *text)
{
    struct core *c = b->core;
    struct denial d;
    bool denied = read_event(tree, &d);
    if (denied) {
        b->denials += d.count;
        c->denials[d.boundary] += d.count;
        core_count(c, COUNT_DENIALS, d.count);
        keep_denial(b, &d);
    }
    if (event_fits(b))
        record_send(c, d.boundary ? boundary_name(d.boundary) : "audit",
                    denied ? "denial" : "event", b->info.id, b->info.owner, text);
}

static void read_usage(struct box *b, const struct json *usage)
{
    const struct json *cpu = json_get(usage, "cpu_usec");
    const struct json *memory = json_get(usage, "memory_peak_bytes");
    if (!memory)
        memory = json_get(usage, "memory_peak");
    b->cpu_usec = cpu && json_type(cpu) == JSON_INT ? (uint64_t)json_int(cpu) : 0;
    b->memory_peak = memory && json_type(memory) == JSON_INT ? (uint64_t)json_int(memory) : 0;
}

/* Only sandboxes that had an owner get a receipt. */
static void pass_receipt(struct box *b, const struct json *receipt)
{
    if (b->info.owner && json_type(receipt) == JSON_OBJECT)
        receipt_send(b->core, b->info.id, b->info.owner, receipt);
}

void box_explain_oom(const struct box *b, const char *who, struct err *err)
{
    char limit[NUM_TEXT_SIZE];
    num_format_size(b->info.memory, limit);
    err_set(err, ERR_LIMIT,
            "oom_killed: %s was killed because the sandbox ran out of memory (limit %s)", who,
            limit);
    bool own = b->info.memory < b->tmpl->memory;
    err_hint(err,
             "the sandbox and its other processes live on; use less memory at a time, or raise "
             "lifecycle.memory in %s%s",
             own ? "the policy that it was created with" : "template ",
             own ? "" : b->info.template_name);
    err_at(err, BOUNDARY_LIFECYCLE);
}

bool err_is_oom(const struct err *err)
{
    return err && err->code == ERR_LIMIT && text_begins(err->message, "oom_killed:");
}

static void on_exited(struct box *b, const struct json *tree, int status)
{
    const struct json *pid = json_get(tree, "pid"), *oom = json_get(tree, "oom_killed");
    if (!pid || json_type(pid) != JSON_INT)
        return;
    bool killed = oom && json_type(oom) == JSON_BOOL && json_bool(oom);
    fault_point(FAULT_EXITED);
    if (!process_on_exit(b, json_int(pid), status, killed))
        context_on_exit(b, json_int(pid), status, killed);
}

static void on_fail(struct box *b, struct wire_msg *m)
{
    struct err err = ERR_INIT;
    if (wire_err_read(m->text, m->text_len, &err) < 0 || err.code == ERR_NONE)
        err_set(&err, ERR_PROTOCOL, "the sandbox failed without saying why");
    box_fail(b, &err);
}

static void on_said(struct box *b, struct wire_msg *m, const struct json *tree)
{
    if (m->type == WIRE_READY) {
        box_on_ready(b, m, tree);
    } else if (m->type == WIRE_EXITED) {
        on_exited(b, tree, (int)m->value);
    } else if (m->type == WIRE_EVENT) {
        on_event(b, tree, m->text);
    } else if (m->type == WIRE_ENDED) {
        fault_point(FAULT_ENDED);
        const char *reason = json_text(tree, "reason");
        const struct json *usage = json_get(tree, "usage");
        if (usage)
            read_usage(b, usage);
        pass_receipt(b, json_get(tree, "receipt"));
        box_on_ended(b, reason ? reason : "ended");
    }
}

static void on_message(struct peer *p, struct wire_msg *m)
{
    struct box *b = box_of(p);
    if (m->type == WIRE_FAIL) {
        on_fail(b, m);
        return;
    }
    if (m->type == WIRE_DONE || m->type == WIRE_STATS)
        return; /* to a question that nobody asked */
    struct err err = ERR_INIT;
    struct json *tree = NULL;
    if (json_parse(m->text, m->text_len, NULL, &tree, &err) < 0 || json_type(tree) != JSON_OBJECT) {
        err_set(&err, ERR_PROTOCOL, "the warden sent nonsense (%s)", wire_type_name(m->type));
        box_fail(b, &err);
    } else {
        on_said(b, m, tree);
    }
    json_free(tree);
}

/* The process was started after all; nobody wants it any more. */
static void on_late(struct peer *p, enum wire_type asked, struct wire_msg *m)
{
    if (asked == WIRE_SPAWN && m->type == WIRE_DONE && m->value > 0)
        box_signal(box_of(p), m->value, SIGKILL, true, NULL, NULL);
}

static void on_closed(struct peer *p, const struct err *why)
{
    box_fail(box_of(p), why);
}

const struct peer_ops warden_ops = {
    .name = "the sandbox's warden",
    .message = on_message,
    .late = on_late,
    .closed = on_closed,
    .out_max = 2u << 20,
    .ask_max = 512,
};

/* ---- network ---- */

struct network_change {
    struct box *b;
    char *text;
    box_done_fn *fn;
    void *ctx;
};

static void on_network(void *ctx, struct wire_msg *m, const struct err *err)
{
    (void)m;
    struct network_change *n = ctx;
    if (!err) {
        hold_sub(&n->b->hold, n->b->network ? strlen(n->b->network) + 1 : 0);
        free(n->b->network);
        n->b->network = n->text;
        n->b->info.network = n->text;
        box_record(n->b, "network.changed", NULL);
    } else {
        hold_sub(&n->b->hold, strlen(n->text) + 1);
        free(n->text);
    }
    n->fn(n->ctx, err);
    free(n);
}

void box_set_network(struct box *b, const struct json *network, box_done_fn *fn, void *ctx)
{
    struct err err = ERR_INIT;
    struct buf out;
    struct json_writer w;
    buf_init(&out, WIRE_TEXT_MAX);
    jw_init(&w, &out, false);
    jw_json(&w, network);
    struct network_change *n = malloc(sizeof *n);
    if (!n || out.failed || !out.data)
        err_set(&err, ERR_LIMIT, "the network rules are too long");
    else if (!is_visible(b))
        box_usable(b, &err);
    else
        hold_add(&b->hold, out.len + 1, &err);
    if (err.code) {
        buf_done(&out);
        free(n);
        fn(ctx, &err);
        return;
    }
    *n = (struct network_change){b, out.data, fn, ctx};
    peer_ask(&b->warden, WIRE_NETWORK, 0, out.data, out.len, ANSWER_MS, on_network, n);
}
