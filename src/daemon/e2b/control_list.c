/* Lists of the control plane: metrics, templates. Sandboxes: control_sandboxes.c. */
#include "daemon/e2b/control.h"

#include "base/cleanup.h"
#include "base/num.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES_MAX 2048

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
