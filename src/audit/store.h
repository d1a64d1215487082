/* What the recorder keeps on disk. SQLite is seen by store*.c alone. */
#pragma once

#include "audit/chain.h"
#include "audit/sign.h"
#include "base/json.h"
#include "base/sha256.h"

#include <sys/types.h>

#define STORE_FOLDER   "audit"
#define STORE_FILE     "records.db"
#define STORE_VERSION  2
#define STORE_LOCK     "lock"
#define STORE_NAME_MAX 64

/* Once per process, before a filter is in force. */
int store_prepare(struct err *err);

struct store;
/* dir: the folder `audit`. create: to write, alone (the recorder); else to read. The current folder
 * becomes `dir`, which SQLite's names are relative to. */
int store_open(struct store **ret, int dir, bool create, struct err *err);
void store_close(struct store *s);

/* ---- writing: between begin and commit; a failure rolls everything back ---- */

int store_begin(struct store *s, struct err *err);
/* Gives it its number (r->seq is not looked at). */
int store_append(struct store *s, const struct record *r, struct err *err);
/* Signs the place that was reached, unless it is signed already. */
int store_checkpoint(struct store *s, int64_t time_us, struct err *err);
/* value NULL: removes the row. told: its record is written already, see store_each_untold. */
int store_put(struct store *s, const char *table, const char *key, const char *value, bool told,
              struct err *err);
int store_commit(struct store *s, struct err *err);
void store_rollback(struct store *s);
/* After a commit: the file `head`. */
int store_write_head(struct store *s, int64_t time_us, struct err *err);

uint64_t store_seq(const struct store *s);       /* of the last record that is on disk */
uint64_t store_signed_to(const struct store *s); /* by a checkpoint */
const char *store_last_kind(const struct store *s);

/* ---- state ---- */

typedef int store_row_fn(void *ctx, const char *table, const char *key, const char *value,
                         struct err *err);
int store_each(struct store *s, const char *table /* NULL: all */, store_row_fn *fn, void *ctx,
               struct err *err);
/* Rows of table keys that a verb wrote and of which there is no record yet; store_told marks them,
 * inside a transaction. */
int store_each_untold(struct store *s, store_row_fn *fn, void *ctx, struct err *err);
int store_told(struct store *s, const char *key, struct err *err);
/* told: only rows that were told of count. */
bool store_has(struct store *s, const char *table, const char *key, bool told);
/* For a verb: one row of table keys, in a transaction of its own, untold. */
int store_put_key(struct store *s, const char *key, const char *value, struct err *err);
/* The process that has the lock, 0: none, -1: one of another pid namespace. */
pid_t store_owner(int dir);

/* ---- queries ---- */

struct store_filter {
    uint64_t after;        /* numbers above this */
    const char *box, *key; /* NULL: any */
    const char *kind;      /* "box.*" is a kind as well */
    const char *boundary;
    const char *since; /* record_time()'s form */
    uint64_t limit;    /* 0: none */
    bool last;         /* the last `limit` of them, still in order */
};
/* Negative: stop, with this error. Positive: stop. */
typedef int store_record_fn(void *ctx, uint64_t seq, const char *line, size_t len,
                            const uint8_t hash[32], struct err *err);
int store_find(struct store *s, const struct store_filter *f, store_record_fn *fn, void *ctx,
               struct err *err);
/* The members of an object that the caller has opened. */
int store_summary(struct store *s, const char *since, struct json_writer *w, struct err *err);
/* Checkpoints in order, from this number on. */
typedef int store_checkpoint_fn(void *ctx, uint64_t seq, const char *line, size_t len,
                                const uint8_t signature[CHAIN_SIGNATURE], struct err *err);
int store_checkpoints(struct store *s, uint64_t from, uint64_t limit, store_checkpoint_fn *fn,
                      void *ctx, struct err *err);
/* All reads until the end see one moment. */
int store_snapshot(struct store *s, bool begin, struct err *err);
int store_hash_of(struct store *s, uint64_t seq, uint8_t ret[32], struct err *err);

/* ---- verification, in pieces ---- */

struct verify_run;
/* verifier NULL: the folder's own public key. */
int store_verify_begin(struct store *s, struct verifier *verifier, struct verify_run **ret,
                       struct err *err);
/* The folder's own key, from the record after this checkpoint on. */
int store_verify_begin_at(struct store *s, uint64_t checkpoint, struct verify_run **ret,
                          struct err *err);
/* 1: there is more. */
int store_verify_step(struct verify_run *v, unsigned rows, struct err *err);
void store_verify_end(struct verify_run *v, struct verify_result *ret); /* frees */
/* All of it at once, with the public key alone. */
int store_verify(struct store *s, struct verify_result *ret, struct err *err);
void verify_write_json(const struct verify_result *r, struct json_writer *w); /* members */

/* ---- store_keys.c: API keys, as the records have them ---- */

#define KEY_WHY_SIZE 160
/* Of the newest record of a key. */
struct key_told {
    uint64_t seq; /* 0: there is none */
    bool removed, revoked, is_operator;
    char hash[SHA256_HEX_SIZE]; /* of the key; empty: the record has none */
    char row[SHA256_HEX_SIZE];  /* of its row; likewise */
};
int store_key_told(struct store *s, const char *key, struct key_told *ret, struct err *err);
bool key_is_revoked(const struct json *row);
void key_digest(const char *value, char ret[static SHA256_HEX_SIZE]); /* of a row as it is kept */
/* Could a verb have written this row after that record? */
bool key_may_follow(const struct key_told *told, const char *value);
/* All rows against all records. *ret_good false: `why` says which is not as it was recorded. */
int store_keys_check(struct store *s, bool *ret_good, char why[static KEY_WHY_SIZE],
                     struct err *err);

/* ---- store_receipt.c ---- */

/* Receipts that are kept to be asked for; older ones are gone, their records stay. */
#define STORE_RECEIPTS 2000
struct receipt;
/* In a transaction: the receipt's record, its checkpoint, and the receipt itself. The member
 * `signature` goes to `proof`. */
int store_receipt_add(struct store *s, const struct receipt *r, const struct record *record,
                      struct buf *proof, struct err *err);
/* The whole text, as it was signed. owner: the API key's id, may be empty. 1: found. */
int store_receipt_find(struct store *s, const char *box, struct buf *text,
                       char owner[static STORE_NAME_MAX + 1], struct err *err);

/* ---- head.c ---- */

struct head {
    char line[CHAIN_CHECKPOINT_MAX + 1];
    size_t len;
    uint8_t signature[CHAIN_SIGNATURE];
};
/* 1: read; 0: there is none. */
int head_read(int dir, struct head *ret, struct err *err);
/* durable: on disk when it returns. */
int head_write(int dir, const struct head *h, bool durable, struct err *err);
