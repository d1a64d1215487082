/* API keys that `brig keys` wrote into the database. The verb has no part in the chain: it leaves a
 * row that is marked as untold; the recorder, told by SIGHUP or at its next start, writes the
 * record and tells the front. What the front itself PUTs is recorded in the same words. */
#include "audit/recorder_internal.h"

#include "base/cleanup.h"
#include "base/wall.h"

#include <stdlib.h>
#include <string.h>

/* With what verification needs to follow a key through its records: the hash, the rights, and a
 * digest of the row, which covers whatever else a row may come to hold. */
static void write_detail(struct recorder *r, const struct json *row, const char *value,
                         const char *by)
{
    struct json_writer w;
    char digest[SHA256_HEX_SIZE];
    const struct json *hash = row ? json_get(row, "hash") : NULL;
    const struct json *name = row ? json_get(row, "name") : NULL;
    const struct json *is_operator = row ? json_get(row, "operator") : NULL;
    const struct json *most = row ? json_get(row, "max_boxes") : NULL;
    buf_reset(&r->detail);
    jw_init(&w, &r->detail, false);
    jw_object_begin(&w);
    jw_kv_string(&w, "by", by);
    if (hash && json_type(hash) == JSON_STRING)
        jw_kv_string(&w, "hash", json_string(hash));
    if (most && json_type(most) == JSON_INT)
        jw_kv_int(&w, "max_boxes", json_int(most));
    if (name && json_type(name) == JSON_STRING)
        jw_kv_string(&w, "name", json_string(name));
    if (is_operator && json_type(is_operator) == JSON_BOOL)
        jw_kv_bool(&w, "operator", json_bool(is_operator));
    const struct json *projects = row ? json_get(row, "projects") : NULL;
    if (projects && json_type(projects) == JSON_ARRAY)
        jw_json((jw_key(&w, "projects"), &w), projects);
    if (value) {
        key_digest(value, digest);
        jw_kv_string(&w, "row", digest);
    }
    jw_object_end(&w);
}

int keys_record(struct recorder *r, const char *key, const char *value, const char *by,
                struct err *err)
{
    struct json *tree = NULL;
    if (value && json_parse(value, strlen(value), &json_default_limits, &tree, err) < 0)
        return err_number(err);
    if (tree && json_type(tree) != JSON_OBJECT) {
        json_free(tree);
        tree = NULL;
    }
    struct record record = {.time_us = wall_us(), .boundary = "api", .key = key};
    record.kind = !value                                   ? "key.removed"
                  : tree && key_is_revoked(tree)           ? "key.revoked"
                  : store_has(r->store, "keys", key, true) ? "key.changed"
                                                           : "key.added";
    write_detail(r, tree, value, by);
    record.detail = buf_text(&r->detail);
    json_free(tree);
    return store_append(r->store, &record, err);
}

/* No verb writes such a row. It is left as it is, not announced and not in force, for `brig audit
 * verify` to find. */
static int refuse_row(struct recorder *r, const char *key, struct err *err)
{
    struct record record = {
        .time_us = wall_us(),
        .boundary = "api",
        .kind = "key.refused",
        .key = key,
        .detail = "{\"what\":\"a row that makes a key other than it was, or gives it back\"}"};
    return store_append(r->store, &record, err);
}

static int collect(void *ctx, const char *table, const char *key, const char *value,
                   struct err *err)
{
    struct key_rows *rows = ctx;
    struct key_row *grown = reallocarray(rows->items, rows->count + 1, sizeof *grown);
    if (!grown)
        return err_memory(err);
    rows->items = grown;
    struct key_row *row = &rows->items[rows->count];
    *row = (struct key_row){.key = strdup(key), .value = strdup(value)};
    rows->count++;
    return row->key && row->value ? 0 : err_memory(err);
}

int keys_collect(struct recorder *r, struct key_rows *ret, struct err *err)
{
    if (store_each_untold(r->store, collect, ret, err) < 0)
        return err_number(err);
    for (size_t i = 0; i < ret->count; i++) {
        struct key_row *row = &ret->items[i];
        struct key_told told;
        if (store_key_told(r->store, row->key, &told, err) < 0)
            return err_number(err);
        row->refused = !key_may_follow(&told, row->value);
        if (row->refused ? refuse_row(r, row->key, err) < 0
                         : keys_record(r, row->key, row->value, "brig keys", err) < 0 ||
                               store_told(r->store, row->key, err) < 0)
            return err_number(err);
    }
    return 0;
}

void keys_tell(struct recorder *r, const struct key_rows *rows)
{
    struct err err = ERR_INIT;
    for (size_t i = 0; i < rows->count; i++)
        if (!rows->items[i].refused)
            (void)recorder_restore(r, "keys", rows->items[i].key, rows->items[i].value, &err);
}

void key_rows_done(struct key_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        free(rows->items[i].key);
        free(rows->items[i].value);
    }
    free(rows->items);
    *rows = (struct key_rows){.count = 0};
}
