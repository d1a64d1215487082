/* Writing: one transaction per batch. A record's number and hash follow from the one before, which
 * is kept here; what a failed transaction had counted on is forgotten with it. */
#include "audit/store_internal.h"

#include "base/cleanup.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int store_fail(struct store *s, const char *what, struct err *err)
{
    int code = s->db ? sqlite3_errcode(s->db) & 0xff : SQLITE_NOMEM;
    errno = s->db ? sqlite3_system_errno(s->db) : ENOMEM;
    if (code == SQLITE_FULL)
        errno = ENOSPC;
    const char *text = s->db ? sqlite3_errmsg(s->db) : ERR_MEMORY_TEXT;
    if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB)
        return err_set(err, ERR_ATTEST, "%s: the database is damaged (%s)", what, text);
    if (code == SQLITE_CONSTRAINT)
        return err_set(err, ERR_ATTEST, "%s: somebody else wrote to the database (%s)", what, text);
    if (code == SQLITE_FULL || (code == SQLITE_IOERR && errno == ENOSPC)) {
        errno = ENOSPC;
        return err_sys(err, "%s", what);
    }
    if (code == SQLITE_BUSY || code == SQLITE_LOCKED) {
        errno = EBUSY;
        return err_sys(err, "%s", what);
    }
    return err_set(err, ERR_SYSTEM, "%s: %s", what, text);
}

int store_sql(struct store *s, const char *sql, struct err *err)
{
    if (sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK)
        return 0;
    return store_fail(s, "the audit database", err);
}

int store_prepare_one(struct store *s, const char *sql, sqlite3_stmt **ret, struct err *err)
{
    if (sqlite3_prepare_v3(s->db, sql, -1, SQLITE_PREPARE_PERSISTENT, ret, NULL) == SQLITE_OK)
        return 0;
    return store_fail(s, "the audit database", err);
}

int store_run(struct store *s, sqlite3_stmt *stmt, const char *what, struct err *err)
{
    int code = sqlite3_step(stmt);
    int r = code == SQLITE_DONE || code == SQLITE_ROW ? 0 : store_fail(s, what, err);
    sqlite3_reset(stmt);
    sqlite3_clear_bindings(stmt);
    return r;
}

static int run(struct store *s, enum store_stmt which, const char *what, struct err *err)
{
    static const char *const texts[STMT_COUNT] = {
        [STMT_BEGIN] = "BEGIN IMMEDIATE",
        [STMT_COMMIT] = "COMMIT",
        [STMT_ROLLBACK] = "ROLLBACK",
        [STMT_APPEND] = "INSERT INTO records(seq, line, hash) VALUES(?1, ?2, ?3)",
        [STMT_SIGN] = "INSERT INTO checkpoints(seq, line, signature) VALUES(?1, ?2, ?3)",
        [STMT_PUT] = ("INSERT INTO state(tbl, key, value, told) VALUES(?1, ?2, ?3, ?4)"
                      " ON CONFLICT(tbl, key) DO UPDATE SET value = ?3, told = ?4"),
        [STMT_REMOVE] = "DELETE FROM state WHERE tbl = ?1 AND key = ?2",
        [STMT_TOLD] = "UPDATE state SET told = 1 WHERE tbl = 'keys' AND key = ?1",
    };
    if (what)
        return store_run(s, s->stmts[which], what, err);
    return s->stmts[which] ? 0 : store_prepare_one(s, texts[which], &s->stmts[which], err);
}

/* Prepared when it is first needed, then kept. */
static int ready(struct store *s, enum store_stmt which, struct err *err)
{
    return run(s, which, NULL, err);
}

/* ---- transactions ---- */

int store_begin(struct store *s, struct err *err)
{
    if (ready(s, STMT_BEGIN, err) < 0 || run(s, STMT_BEGIN, "begin to write", err) < 0)
        return err_number(err);
    s->open = true;
    s->now = s->disk;
    memcpy(s->now_kind, s->last_kind, sizeof s->now_kind);
    return 0;
}

void store_rollback(struct store *s)
{
    struct err ignored = ERR_INIT;
    /* A full disk may have rolled it back already. */
    if (s->open && !sqlite3_get_autocommit(s->db) && ready(s, STMT_ROLLBACK, &ignored) >= 0)
        (void)run(s, STMT_ROLLBACK, "roll back", &ignored);
    s->open = false;
    s->now = s->disk;
}

int store_commit(struct store *s, struct err *err)
{
    if (!s->open || sqlite3_get_autocommit(s->db)) {
        store_rollback(s);
        return err_set(err, ERR_INTERNAL, "nothing is being written");
    }
    if (ready(s, STMT_COMMIT, err) < 0 || run(s, STMT_COMMIT, "write the records", err) < 0) {
        store_rollback(s);
        return err_number(err);
    }
    s->open = false;
    s->disk = s->now;
    memcpy(s->last_kind, s->now_kind, sizeof s->last_kind);
    return 0;
}

/* ---- records ---- */

static int insert(struct store *s, const uint8_t hash[32], struct err *err)
{
    if (ready(s, STMT_APPEND, err) < 0)
        return err_number(err);
    sqlite3_stmt *stmt = s->stmts[STMT_APPEND];
    sqlite3_bind_int64(stmt, 1, (sqlite3_int64)(s->now.seq + 1));
    sqlite3_bind_text(stmt, 2, s->line.data, (int)s->line.len, SQLITE_STATIC);
    sqlite3_bind_blob(stmt, 3, hash, 32, SQLITE_STATIC);
    return run(s, STMT_APPEND, "append a record", err);
}

int store_append(struct store *s, const struct record *r, struct err *err)
{
    struct record numbered = *r;
    uint8_t hash[32];
    numbered.seq = s->now.seq + 1;
    buf_reset(&s->line);
    if (record_write(&numbered, &s->line, err) < 0)
        return err_number(err);
    chain_next(s->now.hash, s->line.data, s->line.len, hash);
    if (insert(s, hash, err) < 0)
        return err_number(err);
    s->now.seq++;
    memcpy(s->now.hash, hash, 32);
    snprintf(s->now_kind, sizeof s->now_kind, "%s", r->kind);
    if (s->now.seq - s->now.signed_to >= RECORD_CHECK_EVERY)
        return store_checkpoint(s, r->time_us, err);
    return 0;
}

static int sign_place(struct store *s, const struct place *p, int64_t time_us, struct head *ret,
                      struct err *err)
{
    struct checkpoint c = {.seq = p->seq};
    cleanup_buf struct buf line;
    buf_init(&line, CHAIN_CHECKPOINT_MAX);
    memcpy(c.hash, p->hash, 32);
    record_time(time_us, c.time);
    checkpoint_write(&c, &line);
    memcpy(ret->line, buf_text(&line), line.len + 1);
    ret->len = line.len;
    return signer_sign(s->signer, ret->line, ret->len, ret->signature, err);
}

int store_checkpoint(struct store *s, int64_t time_us, struct err *err)
{
    struct head h;
    if (s->now.signed_to == s->now.seq)
        return 0;
    if (sign_place(s, &s->now, time_us, &h, err) < 0 || ready(s, STMT_SIGN, err) < 0)
        return err_number(err);
    sqlite3_stmt *stmt = s->stmts[STMT_SIGN];
    sqlite3_bind_int64(stmt, 1, (sqlite3_int64)s->now.seq);
    sqlite3_bind_text(stmt, 2, h.line, (int)h.len, SQLITE_STATIC);
    sqlite3_bind_blob(stmt, 3, h.signature, CHAIN_SIGNATURE, SQLITE_STATIC);
    if (run(s, STMT_SIGN, "write a checkpoint", err) < 0)
        return err_number(err);
    s->signed_head = h;
    s->now.signed_to = s->now.seq;
    return 0;
}

int store_write_head(struct store *s, int64_t time_us, struct err *err)
{
    struct head h;
    if (sign_place(s, &s->disk, time_us, &h, err) < 0)
        return err_number(err);
    return head_write(s->dir, &h, true, err);
}

uint64_t store_seq(const struct store *s)
{
    return s->disk.seq;
}

uint64_t store_signed_to(const struct store *s)
{
    return s->disk.signed_to;
}

const char *store_last_kind(const struct store *s)
{
    return s->last_kind;
}

/* ---- state ---- */

int store_put(struct store *s, const char *table, const char *key, const char *value, bool told,
              struct err *err)
{
    enum store_stmt which = value ? STMT_PUT : STMT_REMOVE;
    if (ready(s, which, err) < 0)
        return err_number(err);
    sqlite3_stmt *stmt = s->stmts[which];
    sqlite3_bind_text(stmt, 1, table, -1, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 2, key, -1, SQLITE_STATIC);
    if (value) {
        sqlite3_bind_text(stmt, 3, value, -1, SQLITE_STATIC);
        sqlite3_bind_int(stmt, 4, told);
    }
    return run(s, which, "keep the daemon's state", err);
}

int store_told(struct store *s, const char *key, struct err *err)
{
    if (ready(s, STMT_TOLD, err) < 0)
        return err_number(err);
    sqlite3_bind_text(s->stmts[STMT_TOLD], 1, key, -1, SQLITE_STATIC);
    return run(s, STMT_TOLD, "keep the daemon's state", err);
}
