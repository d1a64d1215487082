/* Reads and writes rows of API keys through brig-daemon, for `brig keys`. */
#include "cli/serve/keys_rows.h"

#include "base/cleanup.h"
#include "cli/backend.h"

#include <stdio.h>
#include <string.h>

/* ---- a key as it is kept ---- */

static void copy_text(char *out, size_t size, const struct json *j, const char *key)
{
    const struct json *value = json_get(j, key);
    const char *text = value ? json_string(value) : NULL;
    snprintf(out, size, "%s", text ? text : "");
}

static void read_projects(const struct json *value, struct key_row *ret)
{
    const struct json *list = json_get(value, "projects");
    bool good = list && json_type(list) == JSON_ARRAY;
    for (size_t i = 0; good && i < json_count(list) && ret->project_count < KEY_PROJECTS; i++) {
        const char *path = json_string(json_at(list, i));
        if (path && strlen(path) < KEY_PATH_SIZE)
            snprintf(ret->projects[ret->project_count++], KEY_PATH_SIZE, "%s", path);
    }
}

/* {"id","value":{…}} */
static bool row_read(const struct json *j, struct key_row *ret)
{
    const struct json *value = json_get(j, "value"), *id = json_get(j, "id");
    if (!value || json_type(value) != JSON_OBJECT || !id || !json_string(id))
        return false;
    const struct json *is_operator = json_get(value, "operator");
    *ret = (struct key_row){.created_ms = json_number(value, "created_ms"),
                            .revoked_ms = json_number(value, "revoked_ms"),
                            .max_boxes = json_number(value, "max_boxes")};
    ret->operator_key =
        is_operator && json_type(is_operator) == JSON_BOOL && json_bool(is_operator);
    copy_text(ret->id, sizeof ret->id, j, "id");
    copy_text(ret->name, sizeof ret->name, value, "name");
    copy_text(ret->hash, sizeof ret->hash, value, "hash");
    read_projects(value, ret);
    return true;
}

static void row_write(const struct key_row *row, struct json_writer *w)
{
    jw_object_begin(w);
    jw_kv_int(w, "created_ms", row->created_ms);
    jw_kv_string(w, "hash", row->hash);
    jw_kv_int(w, "max_boxes", row->max_boxes);
    jw_kv_string(w, "name", row->name);
    jw_kv_bool(w, "operator", row->operator_key);
    if (row->project_count) {
        jw_key(w, "projects");
        jw_array_begin(w);
        for (unsigned i = 0; i < row->project_count; i++)
            jw_string(w, row->projects[i]);
        jw_array_end(w);
    }
    jw_kv_int(w, "revoked_ms", row->revoked_ms);
    jw_object_end(w);
}

/* ---- asking ---- */

static int no_line(void *ctx, const char *line, size_t len, struct err *err)
{
    return 0;
}

int key_put(const char *state, const struct key_row *row, char ret_effect[static KEY_EFFECT_SIZE],
            struct err *err)
{
    cleanup_buf struct buf request;
    struct json_writer w;
    struct json *end = NULL;
    struct backend_reader reader = {.line = no_line};
    buf_init(&request, 16384);
    buf_init(&reader.end, 4096);
    int r = backend_begin(&w, &request, "keys.put", state, err);
    if (r >= 0) {
        jw_kv_string(&w, "id", row->id);
        jw_key(&w, "value");
        row_write(row, &w);
        r = backend_end(&w, err);
    }
    if (r >= 0)
        r = backend_run(buf_text(&request), &reader, err);
    snprintf(ret_effect, KEY_EFFECT_SIZE, "unknown");
    if (r >= 0 &&
        json_parse(buf_text(&reader.end), reader.end.len, &json_default_limits, &end, NULL) >= 0) {
        const struct json *inner = json_get(end, "end");
        if (inner && json_type(inner) == JSON_OBJECT)
            copy_text(ret_effect, KEY_EFFECT_SIZE, inner, "effect");
    }
    json_free(end);
    buf_done(&reader.end);
    return r;
}

struct rows {
    key_row_fn *fn;
    void *ctx;
};

static int row_line(void *ctx, const char *line, size_t len, struct err *err)
{
    struct rows *rows = ctx;
    struct json *j = NULL;
    struct key_row row;
    if (json_parse(line, len, &json_default_limits, &j, err) < 0)
        return err_wrap(err, "the answer of brig-daemon");
    int r = json_type(j) == JSON_OBJECT && row_read(j, &row) ? rows->fn(rows->ctx, &row, err) : 0;
    json_free(j);
    return r;
}

int key_each(const char *state, key_row_fn *fn, void *ctx, struct err *err)
{
    struct rows rows = {.fn = fn, .ctx = ctx};
    cleanup_buf struct buf request;
    struct json_writer w;
    struct backend_reader reader = {.line = row_line, .ctx = &rows};
    buf_init(&request, 16384);
    buf_init(&reader.end, 4096);
    int r = backend_begin(&w, &request, "keys.list", state, err);
    if (r >= 0)
        r = backend_end(&w, err);
    if (r >= 0)
        r = backend_run(buf_text(&request), &reader, err);
    buf_done(&reader.end);
    return r;
}
