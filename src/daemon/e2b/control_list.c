/* Lists of the control plane: sandboxes page by page, metrics, templates. */
#include "daemon/e2b/control.h"

#include "base/cleanup.h"
#include "base/num.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAGE_DEFAULT 100
#define PAGE_MAX     1000
#define SAMPLES_MAX  2048

/* ---- GET /sandboxes ---- */

struct listing {
    const struct box_info **items;
    size_t count, room;
    bool failed;
    bool running, paused; /* which states */
    bool oldest_first;    /* order=asc */
    int64_t after_ms;     /* startedAfter */
    char template_name[PARAM_LEN];
    char metadata[QUERY_LEN]; /* pairs, still encoded */
    int64_t from_ms;          /* of the page: what comes after this one */
    char from_id[BOX_ID_LEN + 1];
};

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

static bool metadata_matches(const struct listing *l, const struct box_info *info)
{
    struct json *have = NULL;
    bool all = true;
    const char *text = info->metadata ? info->metadata : "{}";
    if (!l->metadata[0])
        return true;
    if (json_parse(text, strlen(text), NULL, &have, NULL) < 0)
        return false;
    for (const char *at = l->metadata; all && *at;) {
        size_t len = strcspn(at, "&");
        all = pair_matches(have, at, len);
        at += len + (at[len] == '&');
    }
    json_free(have);
    return all;
}

static int order(const struct listing *l, const struct box_info *a, int64_t ms, const char *id)
{
    int r = a->started_ms < ms ? -1 : a->started_ms > ms ? 1 : strcmp(a->id, id);
    return l->oldest_first ? r : -r;
}

static int compare(const void *a, const void *b, void *ctx)
{
    const struct box_info *y = *(const struct box_info *const *)b;
    return order(ctx, *(const struct box_info *const *)a, y->started_ms, y->id);
}

static bool is_wanted(const struct listing *l, const struct box_info *info)
{
    if (!((info->state == BOX_RUNNING && l->running) || (info->state == BOX_PAUSED && l->paused)))
        return false;
    if (l->template_name[0] && strcmp(l->template_name, info->template_name) != 0)
        return false;
    if (info->started_ms <= l->after_ms)
        return false;
    if (l->from_id[0] && order(l, info, l->from_ms, l->from_id) <= 0)
        return false;
    return metadata_matches(l, info);
}

static void list_one(void *ctx, struct box *b)
{
    struct listing *l = ctx;
    if (!is_wanted(l, box_info(b)))
        return;
    if (l->count == l->room) {
        size_t room = l->room ? l->room * 2 : 64;
        const struct box_info **items = reallocarray(l->items, room, sizeof(*items));
        if (!items) {
            l->failed = true;
            return;
        }
        l->items = items;
        l->room = room;
    }
    l->items[l->count++] = box_info(b);
}

static int bad(struct err *err, const char *what, const char *expected)
{
    return err_set(err, ERR_USAGE, "%s: expected %s", what, expected);
}

static int read_states(struct listing *l, const char *text, struct err *err)
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

static int read_token(struct listing *l, char *text, struct err *err)
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

static int read_listing(const char *target, struct listing *l, uint64_t *ret_limit, struct err *err)
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
    if (r < 0 || (r > 0 && (r = read_limit(text, ret_limit, err)) < 0))
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

static void write_page(struct call *call, const struct listing *l, size_t limit)
{
    char token[64], domain[DOMAIN_SIZE];
    struct buf out cleanup_buf = {0};
    struct json_writer w;
    size_t n = l->count < limit ? l->count : limit;
    call_buf(call, &out, 16u << 20);
    jw_init(&w, &out, false);
    control_domain(call, domain);
    jw_array_begin(&w);
    for (size_t i = 0; i < n; i++)
        control_write_info(&w, l->items[i], domain, false);
    jw_array_end(&w);
    if (l->count > limit) {
        snprintf(token, sizeof(token), "%" PRId64 ".%s", l->items[n - 1]->started_ms,
                 l->items[n - 1]->id);
        exchange_add_header(call->x, "X-Next-Token", token);
    }
    call_reply(call, 200, &out);
}

void control_list(struct call *call)
{
    struct err err = ERR_INIT;
    struct listing l = {.running = true, .paused = true};
    uint64_t limit = PAGE_DEFAULT;
    if (read_listing(exchange_request(call->x)->target, &l, &limit, &err) < 0) {
        call_fail_err(call, &err);
        return;
    }
    /* The first version of this call knew no other state. */
    if (!strcmp(call->route->path, "/sandboxes"))
        l.paused = false;
    box_each(call->core, call->key, list_one, &l);
    if (l.failed) {
        call_fail_memory(call);
    } else {
        if (l.count)
            qsort_r(l.items, l.count, sizeof(*l.items), compare, &l);
        write_page(call, &l, limit);
    }
    free(l.items);
}

/* ---- GET /sandboxes/{id}/metrics ---- */

static void write_sample(struct json_writer *w, const struct box_stats *s)
{
    char time_text[TIME_TEXT_SIZE];
    control_time(s->time_ms, time_text);
    jw_object_begin(w);
    jw_kv_string(w, "timestamp", time_text);
    jw_kv_int(w, "timestampUnix", s->time_ms / 1000);
    jw_kv_uint(w, "cpuCount", (s->cpus_milli + 999) / 1000);
    jw_key(w, "cpuUsedPct");
    jw_real(w, s->cpu_percent);
    jw_kv_uint(w, "memUsed", s->memory);
    jw_kv_uint(w, "memTotal", s->memory_limit);
    jw_kv_uint(w, "memCache", s->memory_cache);
    jw_kv_uint(w, "diskUsed", s->disk);
    jw_kv_uint(w, "diskTotal", s->disk_limit);
    jw_object_end(w);
}

static bool read_moment(struct call *call, const char *name, int64_t *ret_ms)
{
    char text[32];
    uint64_t seconds;
    int r = call_query(call, name, text, sizeof(text));
    if (r == 0)
        return true;
    if (r < 0)
        return false;
    if (num_parse_uint(text, &seconds, NULL) < 0 || seconds > INT64_MAX / 2000) {
        call_fail(call, 400, "%s: expected seconds since 1970", name);
        return false;
    }
    *ret_ms = (int64_t)seconds * 1000;
    return true;
}

static void write_samples(struct call *call, struct box *b, int64_t from, int64_t to)
{
    struct box_stats *samples cleanup_free = calloc(SAMPLES_MAX, sizeof(*samples));
    struct buf out cleanup_buf = {0};
    struct json_writer w;
    size_t n = samples ? box_stats(b, from, to, samples, SAMPLES_MAX) : 0;
    call_buf(call, &out, 4u << 20);
    jw_init(&w, &out, false);
    jw_array_begin(&w);
    for (size_t i = 0; i < n; i++)
        write_sample(&w, &samples[i]);
    jw_array_end(&w);
    call_reply(call, 200, &out);
}

/* Whoever asks gets what is used now as the newest sample. */
static void sampled(void *ctx, const struct err *err)
{
    struct call *call = ctx;
    int64_t from = 0, to = INT64_MAX;
    struct box *b;
    if (!call_back(call))
        return;
    if (!read_moment(call, "start", &from) || !read_moment(call, "end", &to) ||
        !(b = call_box(call)))
        return;
    if (to < INT64_MAX)
        to += 999; /* the whole second */
    write_samples(call, b, from, to);
}

void control_metrics(struct call *call)
{
    int64_t moment;
    struct box *b;
    if (!read_moment(call, "start", &moment) || !read_moment(call, "end", &moment) ||
        !(b = call_box(call)))
        return;
    call_watch(call);
    call_wait(call);
    if (box_info(b)->state == BOX_PAUSED)
        sampled(call, NULL);
    else
        box_sample(b, sampled, call);
}

/* ---- GET /templates ---- */

static void write_names(struct json_writer *w, const char *key, const struct json *t)
{
    const struct json *aliases = json_get(t, "aliases");
    jw_kv_array(w, key);
    jw_string(w, json_text(t, "name"));
    for (size_t i = 0; aliases && i < json_count(aliases); i++)
        jw_string(w, json_string(json_at(aliases, i)));
    jw_array_end(w);
}

struct template_list {
    const struct key *key;
    struct json_writer w;
};

/* What E2B's clients show of a template. There is one build of each: the operator's file as it was
 * read. How often all keys together used it is the operator's to know. */
static void write_history(struct template_list *l, const char *name,
                          const struct template_info *info)
{
    struct json_writer *w = &l->w;
    char created[TIME_TEXT_SIZE], updated[TIME_TEXT_SIZE];
    control_time(info->created_ms, created);
    control_time(info->updated_ms, updated);
    jw_kv_string(w, "buildID", name);
    jw_kv_string(w, "createdAt", created);
    jw_kv_string(w, "updatedAt", updated);
    jw_key(w, "createdBy");
    jw_null(w);
    jw_key(w, "lastSpawnedAt");
    jw_null(w);
    jw_kv_uint(w, "spawnCount", l->key->operator_key ? info->claims : 0);
    jw_kv_uint(w, "buildCount", 1);
}

static void write_template(void *ctx, const struct template_info *info)
{
    struct template_list *l = ctx;
    struct json_writer *w = &l->w;
    struct json *t = NULL;
    if (json_parse(info->json, strlen(info->json), NULL, &t, NULL) < 0)
        return;
    const char *description = json_text(t, "description");
    jw_object_begin(w);
    jw_kv_string(w, "templateID", json_text(t, "name"));
    write_names(w, "aliases", t);
    write_names(w, "names", t);
    write_history(l, json_text(t, "name"), info);
    jw_kv_uint(w, "cpuCount", (json_uint(t, "cpus_milli") + 999) / 1000);
    jw_kv_uint(w, "memoryMB", json_uint(t, "memory") >> 20);
    jw_kv_uint(w, "diskSizeMB", json_uint(t, "disk") >> 20);
    jw_kv_string(w, "description", description ? description : "");
    jw_kv_bool(w, "public", false);
    jw_kv_string(w, "buildStatus", "ready");
    jw_kv_string(w, "envdVersion", ENVD_VERSION);
    jw_object_end(w);
    json_free(t);
}

void control_templates(struct call *call)
{
    struct buf out cleanup_buf = {0};
    struct template_list l = {.key = call->key};
    buf_init(&out, 4u << 20);
    jw_init(&l.w, &out, false);
    jw_array_begin(&l.w);
    core_templates(call->core, write_template, &l);
    jw_array_end(&l.w);
    call_reply(call, 200, &out);
}

void control_alias(struct call *call)
{
    struct buf out cleanup_buf = {0};
    struct json_writer w;
    buf_init(&out, 4096);
    if (!core_has_template(call->core, call->params.value[0])) {
        call_fail(call, 404, "there is no template \"%s\"", call->params.value[0]);
        return;
    }
    jw_init(&w, &out, false);
    jw_object_begin(&w);
    jw_kv_string(&w, "templateID", call->params.value[0]);
    jw_kv_bool(&w, "public", false);
    jw_object_end(&w);
    call_reply(call, 200, &out);
}
