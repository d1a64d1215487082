/* What waits to be written, and writing it: one transaction per batch. When the disk does not take
 * it, it waits here; when there is no more room here either, it is counted; and both are said in a
 * record as soon as one can be written again (AU-3). */
#include "audit/receipt.h"
#include "audit/recorder_internal.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/wall.h"

#include <stdlib.h>
#include <string.h>

/* ---- in ---- */

static size_t size_of(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

/* Copies a text behind the item. */
static const char *lay(char **at, const char *text)
{
    size_t size = size_of(text);
    if (!size)
        return NULL;
    char *copy = *at;
    memcpy(copy, text, size);
    *at += size;
    return copy;
}

static struct item *item_new(const struct record *r, const char *table, const char *key,
                             const char *value, const char *receipt)
{
    size_t size = sizeof(struct item) + size_of(r->boundary) + size_of(r->kind) + size_of(r->box) +
                  size_of(r->key) + size_of(r->detail) + size_of(table) + size_of(key) +
                  size_of(value) + size_of(receipt);
    struct item *i = malloc(size);
    if (!i)
        return NULL;
    char *at = (char *)(i + 1);
    *i = (struct item){.size = size, .record = {.time_us = r->time_us}};
    i->record.boundary = lay(&at, r->boundary);
    i->record.kind = lay(&at, r->kind);
    i->record.box = lay(&at, r->box);
    i->record.key = lay(&at, r->key);
    i->record.detail = lay(&at, r->detail);
    i->table = lay(&at, table);
    i->key = lay(&at, key);
    i->value = lay(&at, value);
    i->receipt = lay(&at, receipt);
    return i;
}

static int push(struct recorder *r, struct item *i, struct err *err)
{
    if (!i || r->items >= QUEUE_ITEMS || r->bytes + i->size > QUEUE_BYTES) {
        free(i);
        return err_set(err, ERR_LIMIT, "more waits to be written than the recorder can hold");
    }
    *r->last = i;
    r->last = &i->next;
    r->items++;
    r->bytes += i->size;
    if (!r->batch_us)
        r->batch_us = clock_us() + BATCH_US;
    return 0;
}

void queue_record(struct recorder *r, const struct record *record)
{
    if (push(r, item_new(record, NULL, NULL, NULL, NULL), NULL) < 0)
        r->trouble.lost++;
}

void queue_receipt(struct recorder *r, const struct record *record, const char *body)
{
    if (push(r, item_new(record, NULL, NULL, NULL, body), NULL) < 0)
        r->trouble.lost++;
}

int queue_put(struct recorder *r, const char *table, const char *key, const char *value,
              uint32_t request, struct err *err)
{
    struct record none = {.time_us = wall_us()};
    struct item *i = item_new(&none, table, key, value, NULL);
    if (i)
        i->request = request;
    return push(r, i, err);
}

static void clear(struct recorder *r, bool all)
{
    struct item **at = &r->first;
    while (*at) {
        struct item *i = *at;
        if (all || i->request) {
            *at = i->next;
            r->items--;
            r->bytes -= i->size;
            free(i);
        } else {
            at = &i->next;
        }
    }
    r->last = at;
}

/* ---- out ---- */

static int write_receipt(struct recorder *r, const struct item *i, struct err *err)
{
    struct receipt receipt;
    cleanup_buf struct buf proof;
    buf_init(&proof, 4 * RECORD_MAX);
    receipt_init(&receipt);
    int result = receipt_body_read(i->receipt, strlen(i->receipt), &receipt, err);
    if (result >= 0)
        result = store_receipt_add(r->store, &receipt, &i->record, &proof, err);
    receipt_done(&receipt);
    return result;
}

static int write_item(struct recorder *r, const struct item *i, struct err *err)
{
    if (i->receipt)
        return write_receipt(r, i, err);
    if (!i->table)
        return store_append(r->store, &i->record, err);
    if (strcmp(i->table, "keys") == 0 && keys_record(r, i->key, i->value, "the daemon", err) < 0)
        return err_number(err);
    return store_put(r->store, i->table, i->key, i->value, true, err);
}

/* What happened while nothing could be written. */
static int write_trouble(struct recorder *r, struct err *err)
{
    const struct trouble *t = &r->trouble;
    cleanup_buf struct buf detail;
    struct json_writer w;
    char since[RECORD_TIME_SIZE];
    buf_init(&detail, 2048);
    if (!t->on && !t->lost)
        return 0;
    record_time(t->since_us ? t->since_us : wall_us(), since);
    jw_init(&w, &detail, false);
    jw_object_begin(&w);
    jw_kv_uint(&w, "late", t->late);
    jw_kv_uint(&w, "lost", t->lost);
    jw_kv_string(&w, "since", since);
    jw_key(&w, "why");
    jw_bytes(&w, t->why.message, strlen(t->why.message));
    jw_object_end(&w);
    struct record record = {.time_us = wall_us(),
                            .boundary = "audit",
                            .kind = "audit.resumed",
                            .detail = buf_text(&detail)};
    return store_append(r->store, &record, err);
}

static int write_all(struct recorder *r, bool check, struct key_rows *rows, struct err *err)
{
    if (store_begin(r->store, err) < 0)
        return err_number(err);
    for (const struct item *i = r->first; i; i = i->next) {
        if (write_item(r, i, err) < 0)
            return err_number(err);
    }
    if (write_trouble(r, err) < 0 || (r->keys_waiting && keys_collect(r, rows, err) < 0))
        return err_number(err);
    if (check && store_checkpoint(r->store, wall_us(), err) < 0)
        return err_number(err);
    return store_commit(r->store, err);
}

/* The records are safe: this only says so once more. */
static void write_head(struct recorder *r)
{
    struct err err = ERR_INIT;
    r->head_old = store_write_head(r->store, wall_us(), &err) < 0;
}

static void answer(struct recorder *r, const struct err *err)
{
    for (size_t i = 0; i < r->answer_count; i++) {
        if (err)
            recorder_fail(r, r->answers[i], err);
        else
            recorder_done(r, r->answers[i], NULL);
    }
    r->answer_count = 0;
}

static void failed(struct recorder *r, const struct err *err)
{
    struct trouble *t = &r->trouble;
    store_rollback(r->store);
    if (!t->on)
        t->since_us = wall_us();
    t->on = true;
    t->why = *err;
    t->retry_us = clock_us() + RETRY_US;
    /* Requests that somebody waits for fail now; records that nobody waits for are tried again. */
    clear(r, false);
    t->late = r->items;
    answer(r, err);
}

static void written(struct recorder *r, struct key_rows *rows)
{
    uint64_t now = clock_us();
    clear(r, true);
    r->batch_us = 0;
    r->keys_waiting = false;
    r->trouble = (struct trouble){.on = false};
    answer(r, NULL);
    keys_tell(r, rows);
    if (store_signed_to(r->store) == store_seq(r->store))
        r->check_us = 0;
    else if (!r->check_us)
        r->check_us = now + CHECK_US;
}

/* The last word of a daemon is signed, and so is whatever comes behind one: what somebody puts
 * there later cannot look like ours. */
static bool ends_or_follows(const struct recorder *r)
{
    static const char stopped[] = "daemon.stopped";
    for (const struct item *i = r->first; i; i = i->next) {
        if (i->record.kind && strcmp(i->record.kind, stopped) == 0)
            return true;
    }
    return strcmp(store_last_kind(r->store), stopped) == 0;
}

int queue_write(struct recorder *r, bool check, struct err *err)
{
    __attribute__((cleanup(key_rows_done))) struct key_rows rows = {.count = 0};
    uint64_t before = store_seq(r->store);
    check |= r->check_us && clock_us() >= r->check_us;
    check |= r->items && ends_or_follows(r);
    if (!r->items && !r->keys_waiting && !check && !r->trouble.lost) {
        answer(r, NULL);
        r->batch_us = 0;
        if (r->head_old)
            write_head(r);
        return 0;
    }
    if (write_all(r, check, &rows, err) < 0) {
        failed(r, err);
        return err_number(err);
    }
    written(r, &rows);
    if (store_seq(r->store) != before || r->head_old)
        write_head(r);
    return 0;
}
