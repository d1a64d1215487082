/* Reading: records by what they are about, numbers about all of them, and what the daemon keeps. */
#include "audit/store_internal.h"

#include "base/cleanup.h"

#include <stdio.h>
#include <string.h>

int store_snapshot(struct store *s, bool begin, struct err *err)
{
    /* The first read is what takes the snapshot. */
    return store_sql(s, begin ? "BEGIN; SELECT 1 FROM sqlite_schema LIMIT 1" : "COMMIT", err);
}

static int prepare(struct store *s, const char *sql, sqlite3_stmt **ret, struct err *err)
{
    if (sqlite3_prepare_v2(s->db, sql, -1, ret, NULL) == SQLITE_OK)
        return 0;
    return store_fail(s, "ask the audit database", err);
}

static const char *column(sqlite3_stmt *stmt, int i)
{
    const char *text = (const char *)sqlite3_column_text(stmt, i);
    return text ? text : "";
}

/* ---- records ---- */

static void bind_optional(sqlite3_stmt *stmt, int i, const char *text)
{
    if (text)
        sqlite3_bind_text(stmt, i, text, -1, SQLITE_STATIC);
}

static int prepare_find(struct store *s, const struct store_filter *f, sqlite3_stmt **ret,
                        struct err *err)
{
    char sql[640];
    snprintf(sql, sizeof sql,
             "SELECT * FROM (SELECT seq, line, hash FROM records WHERE seq > ?1%s%s%s%s%s"
             " ORDER BY seq %s LIMIT ?2) ORDER BY seq",
             f->box ? " AND box = ?3" : "", f->kind ? " AND kind GLOB ?4" : "",
             f->key ? " AND key = ?5" : "", f->boundary ? " AND boundary = ?6" : "",
             f->since ? " AND time >= ?7" : "", f->last ? "DESC" : "ASC");
    if (prepare(s, sql, ret, err) < 0)
        return err_number(err);
    sqlite3_bind_int64(*ret, 1, (sqlite3_int64)f->after);
    sqlite3_bind_int64(*ret, 2, f->limit ? (sqlite3_int64)f->limit : -1);
    bind_optional(*ret, 3, f->box);
    bind_optional(*ret, 4, f->kind);
    bind_optional(*ret, 5, f->key);
    bind_optional(*ret, 6, f->boundary);
    bind_optional(*ret, 7, f->since);
    return 0;
}

int store_find(struct store *s, const struct store_filter *f, store_record_fn *fn, void *ctx,
               struct err *err)
{
    cleanup_stmt sqlite3_stmt *stmt = NULL;
    int code;
    if (prepare_find(s, f, &stmt, err) < 0)
        return err_number(err);
    while ((code = sqlite3_step(stmt)) == SQLITE_ROW) {
        if (sqlite3_column_bytes(stmt, 2) != 32)
            return err_set(err, ERR_ATTEST, "a record is malformed");
        const char *line = column(stmt, 1);
        int r = fn(ctx, (uint64_t)sqlite3_column_int64(stmt, 0), line,
                   (size_t)sqlite3_column_bytes(stmt, 1), sqlite3_column_blob(stmt, 2), err);
        if (r != 0)
            return r < 0 ? r : 0;
    }
    return code == SQLITE_DONE ? 0 : store_fail(s, "read the records", err);
}

int store_hash_of(struct store *s, uint64_t seq, uint8_t ret[32], struct err *err)
{
    cleanup_stmt sqlite3_stmt *stmt = NULL;
    memset(ret, 0, 32);
    if (seq == 0)
        return 0;
    if (prepare(s, "SELECT hash FROM records WHERE seq = ?1", &stmt, err) < 0)
        return err_number(err);
    sqlite3_bind_int64(stmt, 1, (sqlite3_int64)seq);
    if (sqlite3_step(stmt) != SQLITE_ROW || sqlite3_column_bytes(stmt, 0) != 32)
        return err_set(err, ERR_ATTEST, "record %llu is not there", (unsigned long long)seq);
    memcpy(ret, sqlite3_column_blob(stmt, 0), 32);
    return 0;
}

int store_checkpoints(struct store *s, uint64_t from, uint64_t limit, store_checkpoint_fn *fn,
                      void *ctx, struct err *err)
{
    cleanup_stmt sqlite3_stmt *stmt = NULL;
    int code;
    if (prepare(s,
                "SELECT seq, line, signature FROM checkpoints WHERE seq >= ?1 ORDER BY seq"
                " LIMIT ?2",
                &stmt, err) < 0)
        return err_number(err);
    sqlite3_bind_int64(stmt, 1, (sqlite3_int64)from);
    sqlite3_bind_int64(stmt, 2, limit ? (sqlite3_int64)limit : -1);
    while ((code = sqlite3_step(stmt)) == SQLITE_ROW) {
        if (sqlite3_column_bytes(stmt, 2) != CHAIN_SIGNATURE)
            return err_set(err, ERR_ATTEST, "a checkpoint is malformed");
        const char *line = column(stmt, 1);
        int r = fn(ctx, (uint64_t)sqlite3_column_int64(stmt, 0), line,
                   (size_t)sqlite3_column_bytes(stmt, 1), sqlite3_column_blob(stmt, 2), err);
        if (r != 0)
            return r < 0 ? r : 0;
    }
    return code == SQLITE_DONE ? 0 : store_fail(s, "read the checkpoints", err);
}

/* ---- summary ---- */

#define DENIED "(kind GLOB 'denial*' OR kind GLOB '*.refused' OR kind GLOB '*.denied')"
#define COUNT  "coalesce(json_extract(line, '$.detail.count'), 1)"
#define SINCE  " time >= ?1 "

/* {"name": number, …} of a statement with two columns. */
static int counts(struct store *s, const char *sql, const char *since, struct json_writer *w,
                  const char *name, struct err *err)
{
    cleanup_stmt sqlite3_stmt *stmt = NULL;
    int code;
    if (prepare(s, sql, &stmt, err) < 0)
        return err_number(err);
    sqlite3_bind_text(stmt, 1, since, -1, SQLITE_STATIC);
    jw_key(w, name);
    jw_object_begin(w);
    while ((code = sqlite3_step(stmt)) == SQLITE_ROW)
        jw_kv_int(w, column(stmt, 0), sqlite3_column_int64(stmt, 1));
    jw_object_end(w);
    return code == SQLITE_DONE ? 0 : store_fail(s, "count the records", err);
}

static int denials(struct store *s, const char *since, struct json_writer *w, struct err *err)
{
    cleanup_stmt sqlite3_stmt *stmt = NULL;
    int code;
    if (prepare(s,
                "SELECT boundary, coalesce(json_extract(line, '$.detail.what'), kind),"
                " sum(" COUNT ") AS n, count(DISTINCT box) FROM records WHERE" SINCE "AND " DENIED
                " GROUP BY 1, 2 ORDER BY n DESC, 1, 2 LIMIT 10",
                &stmt, err) < 0)
        return err_number(err);
    sqlite3_bind_text(stmt, 1, since, -1, SQLITE_STATIC);
    jw_key(w, "denials");
    jw_array_begin(w);
    while ((code = sqlite3_step(stmt)) == SQLITE_ROW) {
        jw_object_begin(w);
        jw_kv_string(w, "boundary", column(stmt, 0));
        jw_kv_string(w, "what", column(stmt, 1));
        jw_kv_int(w, "count", sqlite3_column_int64(stmt, 2));
        jw_kv_int(w, "boxes", sqlite3_column_int64(stmt, 3));
        jw_object_end(w);
    }
    jw_array_end(w);
    return code == SQLITE_DONE ? 0 : store_fail(s, "count the denials", err);
}

static int totals(struct store *s, const char *since, struct json_writer *w, struct err *err)
{
    cleanup_stmt sqlite3_stmt *stmt = NULL;
    if (prepare(s,
                "SELECT count(*), min(time), max(time), count(DISTINCT box),"
                " coalesce(sum(CASE WHEN " DENIED " THEN " COUNT " END), 0)"
                " FROM records WHERE" SINCE,
                &stmt, err) < 0)
        return err_number(err);
    sqlite3_bind_text(stmt, 1, since, -1, SQLITE_STATIC);
    if (sqlite3_step(stmt) != SQLITE_ROW)
        return store_fail(s, "count the records", err);
    jw_kv_int(w, "records", sqlite3_column_int64(stmt, 0));
    jw_kv_string(w, "first", (const char *)sqlite3_column_text(stmt, 1));
    jw_kv_string(w, "last", (const char *)sqlite3_column_text(stmt, 2));
    jw_kv_int(w, "boxes", sqlite3_column_int64(stmt, 3));
    jw_kv_int(w, "refused", sqlite3_column_int64(stmt, 4));
    return 0;
}

int store_summary(struct store *s, const char *since, struct json_writer *w, struct err *err)
{
    static const struct {
        const char *name, *sql;
    } tables[] = {
        {"by_kind", "SELECT kind, count(*) AS n FROM records WHERE" SINCE
                    "GROUP BY 1 ORDER BY n DESC, 1 LIMIT 100"},
        {"by_boundary", "SELECT boundary, count(*) AS n FROM records WHERE" SINCE
                        "GROUP BY 1 ORDER BY n DESC, 1 LIMIT 20"},
        {"by_template", "SELECT json_extract(line, '$.detail.template') AS t, count(DISTINCT box)"
                        " AS n FROM records WHERE" SINCE "AND kind GLOB 'box.*' AND t IS NOT NULL"
                        " GROUP BY 1 ORDER BY n DESC, 1 LIMIT 50"},
    };
    const char *from = since ? since : "";
    jw_kv_string(w, "since", since);
    if (totals(s, from, w, err) < 0)
        return err_number(err);
    for (size_t i = 0; i < ARRAY_LEN(tables); i++) {
        if (counts(s, tables[i].sql, from, w, tables[i].name, err) < 0)
            return err_number(err);
    }
    return denials(s, from, w, err);
}

/* ---- state ---- */

static int each(struct store *s, const char *sql, const char *table, store_row_fn *fn, void *ctx,
                struct err *err)
{
    cleanup_stmt sqlite3_stmt *stmt = NULL;
    int code;
    if (prepare(s, sql, &stmt, err) < 0)
        return err_number(err);
    bind_optional(stmt, 1, table);
    while ((code = sqlite3_step(stmt)) == SQLITE_ROW) {
        int r = fn(ctx, column(stmt, 0), column(stmt, 1), column(stmt, 2), err);
        if (r < 0)
            return r;
    }
    return code == SQLITE_DONE ? 0 : store_fail(s, "read the daemon's state", err);
}

int store_each(struct store *s, const char *table, store_row_fn *fn, void *ctx, struct err *err)
{
    return each(s,
                table ? "SELECT tbl, key, value FROM state WHERE tbl = ?1 ORDER BY key"
                      : "SELECT tbl, key, value FROM state ORDER BY tbl DESC, key",
                table, fn, ctx, err);
}

int store_each_untold(struct store *s, store_row_fn *fn, void *ctx, struct err *err)
{
    return each(s, "SELECT tbl, key, value FROM state WHERE tbl = 'keys' AND told = 0 ORDER BY key",
                NULL, fn, ctx, err);
}

bool store_has(struct store *s, const char *table, const char *key, bool told)
{
    cleanup_stmt sqlite3_stmt *stmt = NULL;
    if (sqlite3_prepare_v2(s->db, "SELECT 1 FROM state WHERE tbl = ?1 AND key = ?2 AND told >= ?3",
                           -1, &stmt, NULL) != SQLITE_OK)
        return false;
    sqlite3_bind_text(stmt, 1, table, -1, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 2, key, -1, SQLITE_STATIC);
    sqlite3_bind_int(stmt, 3, told);
    return sqlite3_step(stmt) == SQLITE_ROW;
}

int store_put_key(struct store *s, const char *key, const char *value, struct err *err)
{
    if (store_sql(s, "PRAGMA query_only = OFF", err) < 0 || store_begin(s, err) < 0)
        return err_number(err);
    if (store_put(s, "keys", key, value, false, err) < 0) {
        store_rollback(s);
        return err_number(err);
    }
    return store_commit(s, err);
}
