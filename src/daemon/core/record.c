/* The recorder's socket: records, rows of state, questions. Records are sent and forgotten; when
 * the recorder does not keep up, what could not be sent is counted and said as soon as it can be
 * (AU-3). */
#include "base/cleanup.h"
#include "base/container.h"
#include "base/text.h"
#include "daemon/core/core_internal.h"

#include <stdio.h>
#include <string.h>

static struct core *core_of(struct peer *p)
{
    return container_of(p, struct core, recorder);
}

/* ---- records ---- */

static void say_lost(struct core *c)
{
    if (!c->records_lost)
        return;
    char text[160];
    int n = snprintf(text, sizeof text,
                     "{\"boundary\":\"audit\",\"kind\":\"audit.lost\",\"detail\":{\"count\":%llu}}",
                     (unsigned long long)c->records_lost);
    if (peer_send(&c->recorder, WIRE_RECORD, 0, 0, text, (size_t)n) == 0)
        c->records_lost = 0;
}

void record_send(struct core *c, const char *boundary, const char *kind, const char *box,
                 const struct key *key, const char *detail)
{
    if (c->drained)
        return; /* nothing follows the record of the end */
    struct buf *out = core_scratch(c);
    struct json_writer w;
    jw_init(&w, out, false);
    jw_object_begin(&w);
    jw_kv_string(&w, "boundary", boundary);
    jw_kv_string(&w, "kind", kind);
    if (box)
        jw_kv_string(&w, "box", box);
    if (key)
        jw_kv_string(&w, "key", key->id);
    if (detail) {
        jw_key(&w, "detail");
        buf_str(out, detail);
    }
    buf_chr(out, '}');
    say_lost(c);
    if (c->records_lost || out->failed ||
        peer_send(&c->recorder, WIRE_RECORD, 0, 0, out->data, out->len) < 0)
        c->records_lost++;
}

void receipt_send(struct core *c, const char *box, const struct key *key,
                  const struct json *receipt)
{
    struct buf *out = core_scratch(c);
    struct json_writer w;
    jw_init(&w, out, false);
    jw_object_begin(&w);
    jw_kv_string(&w, "box", box);
    jw_kv_string(&w, "key", key ? key->id : NULL);
    jw_kv_json(&w, "receipt", receipt);
    jw_object_end(&w);
    if (out->failed || peer_send(&c->recorder, WIRE_RECEIPT, 0, 0, out->data, out->len) < 0)
        c->records_lost++;
}

static const char *boundary_of(const char *kind)
{
    static const struct {
        const char *prefix, *boundary;
    } table[] = {
        {"box.", "lifecycle"},    {"pool.", "lifecycle"}, {"process.", "kernel"},
        {"execution.", "kernel"}, {"context.", "kernel"}, {"file.", "filesystem"},
        {"network.", "network"},  {"port.", "network"},   {"daemon.", "audit"},
        {"anomaly.", "audit"},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        if (text_begins(kind, table[i].prefix))
            return table[i].boundary;
    return "api";
}

void core_record(struct core *c, const char *kind, const char *box, const struct key *key,
                 const char *detail_json)
{
    record_send(c, boundary_of(kind), kind, box, key, detail_json);
}

/* ---- state ---- */

void core_put(struct core *c, const char *table, const char *key, const char *value_json)
{
    struct buf *out = core_scratch(c);
    struct json_writer w;
    jw_init(&w, out, false);
    jw_object_begin(&w);
    jw_kv_string(&w, "table", table);
    jw_kv_string(&w, "key", key);
    jw_key(&w, "value");
    buf_str(out, value_json ? value_json : "null");
    buf_chr(out, '}');
    if (out->failed || peer_send(&c->recorder, WIRE_PUT, 0, 0, out->data, out->len) < 0)
        c->records_lost++;
}

static int restore_key(struct core *c, const char *id, const struct json *value, struct err *err)
{
    cleanup_buf struct buf text = {0};
    struct json_writer w;
    const struct key *key = keys_find(c->keys, id);
    bool was_good = key && !key->revoked_ms;
    buf_init(&text, WIRE_TEXT_MAX);
    jw_init(&w, &text, false);
    jw_json(&w, value);
    int r = keys_restore(c->keys, id, buf_text(&text), text.len, err);
    if (r >= 0 && was_good && key->revoked_ms && c->revoked_fn)
        c->revoked_fn(c->revoked_ctx, key);
    return r;
}

static int restore(struct core *c, const struct json *row, struct err *err)
{
    const char *table = json_text(row, "table");
    const char *key = json_text(row, "key");
    const struct json *value = json_get(row, "value");
    if (!table || !key || !value)
        return err_set(err, ERR_PROTOCOL, "the recorder gave back a row without its parts");
    if (strcmp(table, "boxes") == 0 && !c->restored)
        leftovers_add(c, key);
    if (strcmp(table, "settings") == 0 && !c->restored)
        c->config.boxes->setting(c, key, value);
    return strcmp(table, "keys") == 0 ? restore_key(c, key, value, err) : 0;
}

static void on_restore(struct core *c, struct wire_msg *m)
{
    struct err err = ERR_INIT;
    struct json *row = NULL;
    int r = json_parse(m->text, m->text_len, NULL, &row, &err);
    if (r >= 0)
        r = restore(c, row, &err);
    json_free(row);
    if (r < 0) {
        err_wrap(&err, "what the recorder kept cannot be read");
        core_lose(c, &err);
    }
}

static void on_message(struct peer *p, struct wire_msg *m)
{
    struct core *c = core_of(p);
    struct err err = ERR_INIT;
    /* Keys may come at any time: `brig keys` made or revoked one. */
    if (m->type == WIRE_RESTORE) {
        on_restore(c, m);
    } else if (m->type == WIRE_DONE && m->request == 0) {
        c->restored = true;
        core_check_ready(c);
    } else if (m->type == WIRE_FAIL) {
        if (wire_err_read(m->text, m->text_len, &err) < 0)
            err_set(&err, ERR_PROTOCOL, "the recorder failed");
        core_lose(c, &err);
    }
}

static void on_closed(struct peer *p, const struct err *why)
{
    core_lose(core_of(p), why);
}

static const struct peer_ops recorder_ops = {
    .name = "the recorder",
    .message = on_message,
    .closed = on_closed,
    .out_max = 4u << 20,
    .ask_max = 256,
};

int recorder_open(struct core *c, int fd, struct err *err)
{
    peer_init(&c->recorder, c->loop, c->room, &recorder_ops);
    return peer_open(&c->recorder, fd, err);
}

/* ---- questions ---- */

struct question {
    core_query_fn *fn;
    void *ctx;
};

static void on_answer(void *ctx, struct wire_msg *m, const struct err *err)
{
    struct question *q = ctx;
    q->fn(q->ctx, m ? m->text : NULL, m ? m->text_len : 0, err);
    free(q);
}

void core_query(struct core *c, const char *json, core_query_fn *fn, void *ctx)
{
    struct err err = ERR_INIT;
    struct question *q = malloc(sizeof *q);
    if (!q) {
        err_memory(&err);
        fn(ctx, NULL, 0, &err);
        return;
    }
    *q = (struct question){fn, ctx};
    peer_ask(&c->recorder, WIRE_QUERY, 0, json, strlen(json), 120000, on_answer, q);
}
