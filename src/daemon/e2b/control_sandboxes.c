/* GET /sandboxes: the sandboxes of a key, page by page.
 *
 * A key may have a thousand of them, and what each is told apart by is as long as its maker likes
 * it: they are looked at and written a few in each round of the event loop, and one that ends
 * meanwhile is left out. */
#include "daemon/api/activity.h"
#include "daemon/e2b/control.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/container.h"
#include "base/num.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAGE_DEFAULT 100
#define PAGE_MAX     1000
#define ANSWER_MAX   (2u << 20)
#define PAGE_BYTES   (1u << 20) /* what is more is for the next one */
#define ITEMS_MAX    (1u << 20) /* bytes */
#define TURN_US      1000u      /* then others have theirs */

/* What is asked for. */
struct wish {
    bool running, paused; /* which states */
    bool oldest_first;    /* order=asc */
    int64_t after_ms;     /* startedAfter */
    char template_name[PARAM_LEN];
    char metadata[QUERY_LEN]; /* pairs, still encoded */
    int64_t from_ms;          /* of the page: what comes after this one */
    char from_id[BOX_ID_LEN + 1];
    uint64_t limit;
};

/* Kept while others are served, so not by its address. */
struct item {
    int64_t started_ms;
    char id[BOX_ID_LEN + 1];
};

struct listing {
    struct activity activity;
    struct loop_timer turn;
    struct wish wish;
    struct buf items; /* struct item, in the order of the answer */
    size_t count, at;
    struct item last; /* of the page */
    uint64_t written;
    bool more; /* there is a next page */
    char domain[DOMAIN_SIZE];
    struct buf out;
    struct json_writer w;
};

/* ---- which ones ---- */

static bool metadata_has(const struct json *have, const char *key, const char *value)
{
    const char *found = json_text(have, key);
    return found && !strcmp(found, value);
}

/* Clients encode each part once more than the query itself. */
static bool decode_twice(const char *text, size_t len, char *out, size_t size)
{
    char once[QUERY_LEN];
    return percent_decode(text, len, true, once, sizeof(once)) == 0 &&
           percent_decode(once, strlen(once), false, out, size) == 0;
}

static bool pair_matches(const struct json *have, const char *pair, size_t len)
{
    char key[QUERY_LEN], value[QUERY_LEN];
    size_t equals = strcspn(pair, "=");
    if (equals >= len)
        return false;
    return decode_twice(pair, equals, key, sizeof(key)) &&
           decode_twice(pair + equals + 1, len - equals - 1, value, sizeof(value)) &&
           metadata_has(have, key, value);
}

static bool metadata_matches(const struct wish *l, const struct box_info *info)
{
    struct json *have cleanup_json = NULL;
    const char *text = info->metadata ? info->metadata : "{}";
    if (!l->metadata[0])
        return true;
    if (json_parse(text, strlen(text), NULL, &have, NULL) < 0)
        return false;
    for (const char *at = l->metadata; *at;) {
        size_t len = strcspn(at, "&");
        if (!pair_matches(have, at, len))
            return false;
        at += len + (at[len] == '&');
    }
    return true;
}

static int order(const struct wish *l, const struct item *a, int64_t ms, const char *id)
{
    int r = a->started_ms < ms ? -1 : a->started_ms > ms ? 1 : strcmp(a->id, id);
    return l->oldest_first ? r : -r;
}

static int compare(const void *a, const void *b, void *ctx)
{
    const struct item *y = b;
    return order(ctx, a, y->started_ms, y->id);
}

/* As far as it costs nothing to tell. */
static bool is_wanted(const struct wish *l, const struct box_info *info)
{
    return ((info->state == BOX_RUNNING && l->running) ||
            (info->state == BOX_PAUSED && l->paused)) &&
           (!l->template_name[0] || !strcmp(l->template_name, info->template_name)) &&
           info->started_ms > l->after_ms;
}

static void add_item(void *ctx, struct box *b)
{
    struct listing *l = ctx;
    const struct box_info *info = box_info(b);
    struct item item = {.started_ms = info->started_ms};
    memcpy(item.id, info->id, sizeof(item.id));
    if (is_wanted(&l->wish, info) &&
        (!l->wish.from_id[0] || order(&l->wish, &item, l->wish.from_ms, l->wish.from_id) > 0))
        buf_add(&l->items, &item, sizeof(item));
}

/* ---- the question ---- */

static int bad(struct err *err, const char *what, const char *expected)
{
    return err_set(err, ERR_USAGE, "%s: expected %s", what, expected);
}

static int read_states(struct wish *l, const char *text, struct err *err)
{
    l->running = l->paused = false;
    while (*text) {
        size_t len = strcspn(text, ",");
        if (len == 7 && !memcmp(text, "running", len))
            l->running = true;
        else if (len == 6 && !memcmp(text, "paused", len))
            l->paused = true;
        else
            return bad(err, "state", "running, paused or both with a comma");
        text += len + (text[len] == ',');
    }
    return 0;
}

static int read_time(const char *text, int64_t *ret_ms, struct err *err)
{
    struct tm tm = {0};
    const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    if (!end || (*end != 'Z' && *end != '.' && *end != '\0'))
        return bad(err, "startedAfter", "a time like 2026-01-02T03:04:05Z");
    *ret_ms = (int64_t)timegm(&tm) * 1000;
    return 0;
}

static int read_token(struct wish *l, char *text, struct err *err)
{
    char *dot = strchr(text, '.');
    uint64_t ms;
    if (dot)
        *dot = '\0';
    if (!dot || num_parse_uint(text, &ms, NULL) < 0 || ms > INT64_MAX || !box_id_valid(dot + 1))
        return bad(err, "nextToken", "what X-Next-Token said");
    l->from_ms = (int64_t)ms;
    memcpy(l->from_id, dot + 1, sizeof(l->from_id));
    return 0;
}

static int read_limit(const char *text, uint64_t *ret, struct err *err)
{
    if (num_parse_uint(text, ret, NULL) < 0 || !*ret || *ret > PAGE_MAX)
        return bad(err, "limit", "a number from 1 to 1000");
    return 0;
}

static int read_listing(const char *target, struct wish *l, struct err *err)
{
    char text[QUERY_LEN];
    int r = target_query(target, "state", text, sizeof(text), err);
    if (r < 0 || (r > 0 && (r = read_states(l, text, err)) < 0))
        return r;
    r = target_query(target, "startedAfter", text, sizeof(text), err);
    if (r < 0 || (r > 0 && (r = read_time(text, &l->after_ms, err)) < 0))
        return r;
    r = target_query(target, "nextToken", text, sizeof(text), err);
    if (r < 0 || (r > 0 && (r = read_token(l, text, err)) < 0))
        return r;
    r = target_query(target, "limit", text, sizeof(text), err);
    if (r < 0 || (r > 0 && (r = read_limit(text, &l->limit, err)) < 0))
        return r;
    r = target_query(target, "order", text, sizeof(text), err);
    if (r < 0)
        return r;
    l->oldest_first = r > 0 && !strcmp(text, "asc");
    r = target_query(target, "template", l->template_name, sizeof(l->template_name), err);
    if (r < 0)
        return r;
    r = target_query(target, "metadata", l->metadata, sizeof(l->metadata), err);
    return r < 0 ? r : 0;
}

/* ---- the answer, some of it at a time ---- */

static void listing_stop(struct activity *a)
{
    loop_timer_cancel(a->loop, &container_of(a, struct listing, activity)->turn);
}

static void listing_done(struct activity *a)
{
    struct listing *l = container_of(a, struct listing, activity);
    buf_done(&l->items);
    buf_done(&l->out);
}

static const struct activity_ops listing_ops = {.stop = listing_stop, .done = listing_done};

static void listing_reply(struct listing *l)
{
    struct err err = ERR_INIT;
    char token[64];
    jw_array_end(&l->w);
    struct call *call = activity_end(&l->activity);
    if (l->more) {
        snprintf(token, sizeof(token), "%" PRId64 ".%s", l->last.started_ms, l->last.id);
        exchange_add_header(call->x, "X-Next-Token", token);
    }
    if ((l->out.failed || l->items.failed) && hold_refusal(&l->activity.hold, &err) < 0)
        call_fail_err(call, &err);
    else if (l->items.failed)
        call_fail_memory(call);
    else
        call_reply(call, 200, &l->out);
}

/* One that has ended meanwhile is not missed. */
static void write_item(struct listing *l, const struct item *item)
{
    struct box *b = box_find(l->activity.core, l->activity.call->key, item->id);
    if (!b || !is_wanted(&l->wish, box_info(b)) || !metadata_matches(&l->wish, box_info(b)))
        return;
    if (l->written == l->wish.limit || l->out.len >= PAGE_BYTES) {
        l->more = true;
        return;
    }
    control_write_info(&l->w, box_info(b), l->domain, false);
    l->written++;
    l->last = *item;
}

static bool is_complete(const struct listing *l)
{
    return l->at == l->count || l->more || l->out.failed || l->items.failed;
}

static void write_some(struct listing *l)
{
    const struct item *items = (const struct item *)(const void *)l->items.data;
    uint64_t began = clock_us();
    while (!is_complete(l) && clock_us() - began < TURN_US)
        write_item(l, &items[l->at++]);
    if (is_complete(l))
        listing_reply(l);
    else
        loop_timer_set(l->activity.loop, &l->turn, 1);
}

static void on_turn(struct loop_timer *t)
{
    write_some(container_of(t, struct listing, turn));
}

void control_list(struct call *call)
{
    struct err err = ERR_INIT;
    struct listing *l =
        activity_new(sizeof(*l), &listing_ops, call->core, call->hold.account, &err);
    if (!l) {
        call_fail_err(call, &err);
        return;
    }
    l->turn.fn = on_turn;
    l->turn.share = account_share(l->activity.hold.account);
    l->wish = (struct wish){.running = true, .paused = true, .limit = PAGE_DEFAULT};
    if (read_listing(exchange_request(call->x)->target, &l->wish, &err) < 0) {
        activity_end(&l->activity);
        call_fail_err(call, &err);
        return;
    }
    /* The first version of this call knew no other state. */
    if (!strcmp(call->route->path, "/sandboxes"))
        l->wish.paused = false;
    activity_serve(&l->activity, call);
    call_watch(call);
    activity_buf(&l->activity, &l->items, ITEMS_MAX);
    activity_buf(&l->activity, &l->out, ANSWER_MAX);
    box_each(call->core, call->key, add_item, l);
    l->count = l->items.len / sizeof(struct item);
    if (l->count)
        qsort_r(l->items.data, l->count, sizeof(struct item), compare, &l->wish);
    control_domain(call, l->domain);
    jw_init(&l->w, &l->out, false);
    jw_array_begin(&l->w);
    write_some(l);
}
