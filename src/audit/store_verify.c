/* Follows the records of a database from one end to the other, in pieces, so that the recorder can
 * do it between its other work. One snapshot is looked at; the file `head` is read before it is
 * taken, since it never runs ahead of the records.
 *
 * AU-5  What stands beside the records hides none of them: tables, indexes and triggers are those
 *       that brig made, and each record is in each index. */
#include "audit/store_internal.h"

#include "base/cleanup.h"
#include "base/hex.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct verify_run {
    struct store *store;
    struct chain_check *chain;
    struct verifier *verifier; /* the caller's, or our own */
    struct verifier *own;
    sqlite3_stmt *rows;
    bool snapshot, whole;
    uint64_t unlisted; /* the first record that an index leaves out; 0: none */
};

/* Each record, and whether a question for what it is about would find it: indexes are no part of
 * the chain. */
#define LISTED(index, column)                                                                      \
    "EXISTS(SELECT 1 FROM records l INDEXED BY " index " WHERE l." column " = r." column           \
    " AND l.seq = r.seq)"
#define LISTED_BY_KIND LISTED("records_kind", "kind")
#define LISTED_BY_TIME LISTED("records_time", "time")
#define LISTED_BY_BOX  LISTED("records_box", "box")
static const char rows_sql[] =
    "SELECT r.seq, r.line, r.hash, c.line, c.signature, " LISTED_BY_KIND " AND " LISTED_BY_TIME
    " AND (r.box IS NULL OR " LISTED_BY_BOX ")"
    " FROM records r NOT INDEXED LEFT JOIN checkpoints c ON c.seq = r.seq"
    " WHERE r.seq > ?1 ORDER BY r.seq";

static int take_head(struct verify_run *v, struct err *err)
{
    struct head head;
    struct err why = ERR_INIT;
    int r = head_read(v->store->dir, &head, &why);
    if (r < 0 && why.code != ERR_ATTEST) {
        *err = why;
        return r;
    }
    if (r < 0)
        chain_check_bad(v->chain, 0, "%s", why.message);
    else if (r == 0)
        chain_check_bad(v->chain, 0, "the file of the newest checkpoint is missing");
    else
        chain_check_head(v->chain, head.line, head.len, head.signature);
    return 0;
}

/* The table's own definition computes what queries show: a changed one would lie about good
 * records. */
static void check_schema(struct verify_run *v)
{
    cleanup_stmt sqlite3_stmt *stmt = NULL;
    size_t seen = 0;
    int64_t version = store_number(v->store, "PRAGMA user_version");
    /* Every one: what SQLite keeps for itself has no text. */
    if (sqlite3_prepare_v2(v->store->db, "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL", -1,
                           &stmt, NULL) != SQLITE_OK) {
        chain_check_bad(v->chain, 0, "the tables of the database cannot be read");
        return;
    }
    while (sqlite3_step(stmt) == SQLITE_ROW) {
        const char *sql = (const char *)sqlite3_column_text(stmt, 0);
        const char *found = sql ? strstr(store_schema, sql) : NULL;
        if (!found && sql && version > 1)
            found = strstr(store_schema_2, sql);
        if (!found || !text_begins(found + strlen(sql), ";\n")) {
            chain_check_bad(v->chain, 0, "the tables of the database were changed");
            return;
        }
        seen += strlen(sql) + 2;
    }
    if (seen != strlen(store_schema) + (version > 1 ? strlen(store_schema_2) : 0))
        chain_check_bad(v->chain, 0, "the tables of the database were changed");
}

/* The record that a checkpoint stands for, as the place to begin. */
static int begin_chain(struct verify_run *v, uint64_t checkpoint, struct err *err)
{
    uint8_t hash[32];
    if (checkpoint == 0)
        return chain_check_new(&v->chain, 1, NULL, verifier_check, v->verifier, err);
    if (store_hash_of(v->store, checkpoint, hash, err) < 0)
        return err_number(err);
    return chain_check_new(&v->chain, checkpoint + 1, hash, verifier_check, v->verifier, err);
}

static int begin(struct store *s, struct verifier *verifier, uint64_t checkpoint,
                 struct verify_run *v, struct err *err)
{
    v->store = s;
    v->verifier = verifier;
    if (!verifier && verifier_open(&v->own, s->dir, err) < 0)
        return err_number(err);
    if (!verifier)
        v->verifier = v->own;
    if (begin_chain(v, checkpoint, err) < 0 || take_head(v, err) < 0 ||
        store_snapshot(s, true, err) < 0)
        return err_number(err);
    v->snapshot = true;
    v->whole = checkpoint == 0;
    check_schema(v);
    if (chain_check_failed(v->chain))
        return 0;
    if (store_prepare_one(s, rows_sql, &v->rows, err) < 0)
        return err_number(err);
    sqlite3_bind_int64(v->rows, 1, (sqlite3_int64)checkpoint);
    return 0;
}

static void verify_free(struct verify_run *v)
{
    sqlite3_finalize(v->rows);
    if (v->snapshot)
        (void)store_snapshot(v->store, false, NULL);
    chain_check_free(v->chain);
    verifier_free(v->own);
    free(v);
}

static int new_run(struct store *s, struct verifier *verifier, uint64_t checkpoint,
                   struct verify_run **ret, struct err *err)
{
    struct verify_run *v = calloc(1, sizeof *v);
    if (!v)
        return err_memory(err);
    int r = begin(s, verifier, checkpoint, v, err);
    if (r < 0) {
        verify_free(v);
        return r;
    }
    *ret = v;
    return 0;
}

int store_verify_begin(struct store *s, struct verifier *verifier, struct verify_run **ret,
                       struct err *err)
{
    return new_run(s, verifier, 0, ret, err);
}

int store_verify_begin_at(struct store *s, uint64_t checkpoint, struct verify_run **ret,
                          struct err *err)
{
    return new_run(s, NULL, checkpoint, ret, err);
}

static bool take_row(struct verify_run *v)
{
    sqlite3_stmt *r = v->rows;
    uint64_t place = (uint64_t)sqlite3_column_int64(r, 0);
    const char *line = (const char *)sqlite3_column_text(r, 1);
    size_t len = (size_t)sqlite3_column_bytes(r, 1);
    if (!line || sqlite3_column_bytes(r, 2) != 32) {
        chain_check_bad(v->chain, place, "record %" PRIu64 " was changed: its hash is malformed",
                        place);
        return false;
    }
    if (!chain_check_row(v->chain, place, line, len, sqlite3_column_blob(r, 2)))
        return false;
    if (!v->unlisted && !sqlite3_column_int(r, 5))
        v->unlisted = place;
    if (sqlite3_column_type(r, 3) == SQLITE_NULL)
        return true;
    line = (const char *)sqlite3_column_text(r, 3);
    len = (size_t)sqlite3_column_bytes(r, 3);
    if (!line || sqlite3_column_bytes(r, 4) != CHAIN_SIGNATURE) {
        chain_check_bad(v->chain, place, "the checkpoint of record %" PRIu64 " is malformed",
                        place);
        return false;
    }
    return chain_check_signed(v->chain, line, len, sqlite3_column_blob(r, 4));
}

int store_verify_step(struct verify_run *v, unsigned rows, struct err *err)
{
    if (chain_check_failed(v->chain))
        return 0;
    for (; rows > 0; rows--) {
        int code = sqlite3_step(v->rows);
        if (code == SQLITE_DONE)
            return 0;
        if (code != SQLITE_ROW) {
            struct err why = ERR_INIT;
            store_fail(v->store, "read the records", &why);
            if (why.code != ERR_ATTEST) {
                *err = why;
                return err_number(err);
            }
            chain_check_bad(v->chain, chain_check_seq(v->chain) + 1, "%.150s", why.message);
            return 0;
        }
        if (!take_row(v))
            return 0;
    }
    return 1;
}

static void check_keys(struct verify_run *v)
{
    char why[KEY_WHY_SIZE] = "";
    struct err err = ERR_INIT;
    bool good = false;
    if (store_keys_check(v->store, &good, why, &err) < 0)
        chain_check_bad(v->chain, 0, "the API keys cannot be read: %.100s", err.message);
    else if (!good)
        chain_check_bad(v->chain, 0, "%s", why);
}

/* Last of all: a record that was changed is not found by what it was about either, and that is the
 * thing to say of it. */
static void judge_indexes(const struct verify_run *v, struct verify_result *ret)
{
    static const char *const counts[] = {
        "SELECT count(*) FROM records INDEXED BY records_kind WHERE kind IS NOT NULL",
        "SELECT count(*) FROM records INDEXED BY records_time WHERE time IS NOT NULL"};
    bool same = true;
    for (size_t i = 0; ret->good && v->whole && i < ARRAY_LEN(counts); i++)
        same = same && store_number(v->store, counts[i]) == (int64_t)ret->last;
    if (!ret->good || (!v->unlisted && same))
        return;
    ret->good = false;
    ret->seq = v->unlisted;
    if (v->unlisted)
        snprintf(ret->why, sizeof ret->why,
                 "an index of the database was changed: record %" PRIu64
                 " is not found by what it is about",
                 v->unlisted);
    else
        snprintf(ret->why, sizeof ret->why,
                 "an index of the database was changed: it names records that are not there");
}

void store_verify_end(struct verify_run *v, struct verify_result *ret)
{
    int64_t newest = store_number(v->store, "SELECT max(seq) FROM checkpoints");
    if (!chain_check_failed(v->chain))
        check_keys(v);
    chain_check_end(v->chain, newest > 0 ? (uint64_t)newest : 0, ret);
    judge_indexes(v, ret);
    verify_free(v);
}

int store_verify(struct store *s, struct verify_result *ret, struct err *err)
{
    struct verify_run *v = NULL;
    int r = store_verify_begin(s, NULL, &v, err);
    if (r < 0)
        return r;
    while ((r = store_verify_step(v, 10000, err)) > 0)
        ;
    store_verify_end(v, ret);
    return r;
}

void verify_write_json(const struct verify_result *r, struct json_writer *w)
{
    jw_kv_bool(w, "good", r->good);
    jw_kv_string(w, "why", r->good ? NULL : r->why);
    jw_key(w, "seq");
    if (r->good)
        jw_null(w);
    else
        jw_uint(w, r->seq);
    jw_kv_uint(w, "records", r->records);
    jw_kv_uint(w, "checkpoints", r->checkpoints);
    jw_kv_uint(w, "first", r->first);
    jw_kv_uint(w, "last", r->last);
    jw_kv_uint(w, "signed_to", r->signed_to);
    jw_kv_string(w, "signed_at", r->signed_at[0] ? r->signed_at : NULL);
    jw_kv_uint(w, "withheld", r->withheld);
    cleanup_buf struct buf hash;
    buf_init(&hash, 64);
    hex_write(&hash, r->hash, 32);
    jw_kv_string(w, "hash", r->good && r->records ? buf_text(&hash) : NULL);
}
