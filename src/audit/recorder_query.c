/* Answers. Questions go to a connection of their own, so that no question holds up a batch; the
 * long one, verification, is done in pieces. */
#include "audit/recorder_internal.h"

#include "base/cleanup.h"

#include <string.h>

#define LIMIT_DEFAULT 100
#define LIMIT_MAX     1000
#define VERIFY_ROWS   2000

/* Blocking: the front reads. If it is gone, the end of file says so. */
static void send_text(struct recorder *r, enum wire_type type, uint32_t request,
                      const struct buf *text)
{
    (void)wire_send(r->sock, type, request, 0, text ? buf_text(text) : "", text ? text->len : 0,
                    NULL, 0);
}

void recorder_done(struct recorder *r, uint32_t request, const struct buf *text)
{
    send_text(r, WIRE_DONE, request, text);
}

void recorder_fail(struct recorder *r, uint32_t request, const struct err *err)
{
    cleanup_buf struct buf text;
    buf_init(&text, 8192);
    wire_err_write(err, &text);
    send_text(r, WIRE_FAIL, request, &text);
}

int recorder_restore(void *ctx, const char *table, const char *key, const char *value,
                     struct err *err)
{
    struct recorder *r = ctx;
    struct json_writer w;
    buf_reset(&r->text);
    jw_init(&w, &r->text, false);
    jw_object_begin(&w);
    jw_kv_string(&w, "table", table);
    jw_kv_string(&w, "key", key);
    jw_key(&w, "value");
    buf_str(&r->text, value);
    w.after_key = false;
    jw_object_end(&w);
    if (r->text.failed)
        return err_set(err, ERR_LIMIT, "the row %.40s of %s is too long", key, table);
    send_text(r, WIRE_RESTORE, 0, &r->text);
    return 0;
}

/* ---- records ---- */

struct page {
    struct buf *out;
    uint64_t count, limit, last;
    bool full;
};

static int add_record(void *ctx, uint64_t seq, const char *line, size_t len, const uint8_t hash[32],
                      struct err *err)
{
    struct page *p = ctx;
    if (p->out->len + len + 64 > p->out->cap) {
        p->full = true;
        return 1;
    }
    if (p->count++)
        buf_chr(p->out, ',');
    buf_add(p->out, line, len);
    p->last = seq;
    return 0;
}

static uint64_t number_of(const struct json *q, const char *name, uint64_t otherwise)
{
    const struct json *j = json_get(q, name);
    return j && json_type(j) == JSON_INT && json_int(j) >= 0 ? (uint64_t)json_int(j) : otherwise;
}

/* NULL when the question has none. */
static const char *since_of(const struct json *q, char out[static RECORD_TIME_SIZE])
{
    uint64_t us = number_of(q, "since_us", 0);
    if (!us)
        return NULL;
    record_time((int64_t)us, out);
    return out;
}

static int ask_records(struct recorder *r, const struct json *q, struct err *err)
{
    char since[RECORD_TIME_SIZE];
    uint64_t limit = number_of(q, "limit", LIMIT_DEFAULT);
    limit = limit < 1 ? 1 : limit > LIMIT_MAX ? LIMIT_MAX : limit;
    struct store_filter f = {.after = number_of(q, "after", 0),
                             .box = json_text(q, "box"),
                             .kind = json_text(q, "kind"),
                             .key = json_text(q, "key"),
                             .boundary = json_text(q, "boundary"),
                             .since = since_of(q, since),
                             .limit = limit};
    struct page page = {.out = &r->text, .limit = limit};
    buf_str(&r->text, "{\"records\":[");
    if (store_find(r->reader, &f, add_record, &page, err) < 0)
        return err_number(err);
    buf_str(&r->text, "],\"next\":");
    if (page.full || page.count == limit)
        buf_fmt(&r->text, "%llu}", (unsigned long long)page.last);
    else
        buf_str(&r->text, "null}");
    return 0;
}

static int ask_summary(struct recorder *r, const struct json *q, struct err *err)
{
    char since[RECORD_TIME_SIZE];
    struct json_writer w;
    jw_init(&w, &r->text, false);
    jw_object_begin(&w);
    int result = store_summary(r->reader, since_of(q, since), &w, err);
    jw_object_end(&w);
    return result;
}

/* ---- receipts ---- */

/* Write the queue first: a record that came a moment ago may still be in it. */
static int ask_receipt(struct recorder *r, const struct json *q, struct err *err)
{
    char owner[STORE_NAME_MAX + 1];
    const char *box = json_text(q, "box");
    cleanup_buf struct buf text;
    struct json_writer w;
    struct err ignored = ERR_INIT;
    buf_init(&text, WIRE_TEXT_MAX);
    if (r->items)
        (void)queue_write(r, false, &ignored);
    int found = box ? store_receipt_find(r->reader, box, &text, owner, err) : 0;
    buf_reset(&r->text);
    jw_init(&w, &r->text, false);
    jw_object_begin(&w);
    if (found > 0) {
        jw_kv_string(&w, "owner", owner);
        jw_key(&w, "receipt");
        jw_written(&w, &text);
    }
    jw_object_end(&w);
    return found < 0 ? found : 0;
}

/* ---- verification ---- */

static int begin_verify(struct recorder *r, uint32_t request, struct err *err)
{
    if (r->verify)
        return err_set(err, ERR_LIMIT, "a verification is under way");
    if (store_verify_begin(r->reader, NULL, &r->verify, err) < 0)
        return err_number(err);
    r->verify_request = request;
    return 0;
}

void recorder_verify_step(struct recorder *r)
{
    struct verify_result result;
    struct json_writer w;
    struct err err = ERR_INIT;
    int left = store_verify_step(r->verify, VERIFY_ROWS, &err);
    if (left > 0)
        return;
    store_verify_end(r->verify, &result);
    r->verify = NULL;
    if (left < 0) {
        recorder_fail(r, r->verify_request, &err);
        return;
    }
    buf_reset(&r->text);
    jw_init(&w, &r->text, false);
    jw_object_begin(&w);
    verify_write_json(&result, &w);
    jw_object_end(&w);
    recorder_done(r, r->verify_request, &r->text);
}

static int ask(struct recorder *r, uint32_t request, const struct json *q, struct err *err)
{
    const char *what = json_text(q, "what");
    /* One connection, one snapshot. */
    if (r->verify)
        return err_set(err, ERR_LIMIT, "a verification is under way");
    if (what && strcmp(what, "audit") == 0)
        return ask_records(r, q, err);
    if (what && strcmp(what, "summary") == 0)
        return ask_summary(r, q, err);
    if (what && strcmp(what, "receipt") == 0)
        return ask_receipt(r, q, err);
    if (what && strcmp(what, "verify") == 0)
        return begin_verify(r, request, err) < 0 ? err_number(err) : 1;
    return err_set(err, ERR_USAGE, "the recorder answers audit, summary, receipt and verify");
}

void recorder_query(struct recorder *r, uint32_t request, const struct json *q)
{
    struct err err = ERR_INIT;
    buf_reset(&r->text);
    int result = ask(r, request, q, &err);
    if (result == 0 && r->text.failed)
        result = err_set(&err, ERR_LIMIT, "the answer is too long");
    if (result < 0)
        recorder_fail(r, request, &err);
    else if (result == 0)
        recorder_done(r, request, &r->text);
}
