/* Receipts in the database: signed by the checkpoint of their record, in one transaction with it
 * (RC-2). */
#include "audit/receipt.h"
#include "audit/store_internal.h"

#include "base/cleanup.h"

#include <stdio.h>
#include <string.h>

#define TRIM_EVERY 64

static int keep_text(struct store *s, const struct record *record, const struct buf *text,
                     struct err *err)
{
    cleanup_stmt sqlite3_stmt *stmt = NULL;
    if (store_prepare_one(s, "INSERT INTO receipts(seq, box, owner, text) VALUES(?1, ?2, ?3, ?4)",
                          &stmt, err) < 0)
        return err_number(err);
    sqlite3_bind_int64(stmt, 1, (sqlite3_int64)s->now.seq);
    sqlite3_bind_text(stmt, 2, record->box, -1, SQLITE_STATIC);
    if (record->key)
        sqlite3_bind_text(stmt, 3, record->key, -1, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 4, text->data, (int)text->len, SQLITE_STATIC);
    return store_run(s, stmt, "keep a receipt", err);
}

static int trim(struct store *s, struct err *err)
{
    char sql[160];
    if (s->now.seq % TRIM_EVERY)
        return 0;
    snprintf(sql, sizeof sql,
             "DELETE FROM receipts WHERE seq <= (SELECT seq FROM receipts ORDER BY seq DESC"
             " LIMIT 1 OFFSET %d)",
             STORE_RECEIPTS);
    return store_sql(s, sql, err);
}

static int write_proof(struct store *s, const uint8_t previous[32], struct buf *proof,
                       struct err *err)
{
    struct receipt_proof p = {.record = buf_text(&s->line), .checkpoint = s->signed_head.line};
    memcpy(p.previous, previous, 32);
    memcpy(p.value, s->signed_head.signature, CHAIN_SIGNATURE);
    if (signer_key(s->signer, p.key, err) < 0)
        return err_number(err);
    receipt_proof_write(&p, proof);
    return proof->failed ? err_set(err, ERR_LIMIT, "the proof of a receipt is too long") : 0;
}

int store_receipt_add(struct store *s, const struct receipt *r, const struct record *record,
                      struct buf *proof, struct err *err)
{
    struct record full = *record;
    uint8_t previous[32];
    cleanup_buf struct buf detail, text;
    buf_init(&detail, RECORD_MAX);
    buf_init(&text, RECEIPT_MAX + 2 * RECORD_MAX);
    memcpy(previous, s->now.hash, 32);
    if (receipt_detail(r, &detail, err) < 0)
        return err_number(err);
    full.detail = buf_text(&detail);
    if (store_append(s, &full, err) < 0 || store_checkpoint(s, full.time_us, err) < 0 ||
        write_proof(s, previous, proof, err) < 0)
        return err_number(err);
    receipt_write_signed(&text, r->body.data, r->body.len, buf_text(proof), NULL);
    if (text.failed)
        return err_set(err, ERR_LIMIT, "the receipt is too long to be kept");
    return keep_text(s, &full, &text, err) < 0 ? err_number(err) : trim(s, err);
}

int store_receipt_find(struct store *s, const char *box, struct buf *text,
                       char owner[static STORE_NAME_MAX + 1], struct err *err)
{
    cleanup_stmt sqlite3_stmt *stmt = NULL;
    /* A database of version 1 has none. */
    if (store_number(s, "PRAGMA user_version") < 2)
        return 0;
    if (store_prepare_one(
            s, "SELECT text, owner FROM receipts WHERE box = ?1 ORDER BY seq DESC LIMIT 1", &stmt,
            err) < 0)
        return err_number(err);
    sqlite3_bind_text(stmt, 1, box, -1, SQLITE_STATIC);
    int code = sqlite3_step(stmt);
    if (code == SQLITE_DONE)
        return 0;
    if (code != SQLITE_ROW)
        return store_fail(s, "read a receipt", err);
    const char *key = (const char *)sqlite3_column_text(stmt, 1);
    snprintf(owner, STORE_NAME_MAX + 1, "%s", key ? key : "");
    buf_add(text, sqlite3_column_text(stmt, 0), (size_t)sqlite3_column_bytes(stmt, 0));
    return text->failed ? err_set(err, ERR_LIMIT, "the receipt is too long") : 1;
}
