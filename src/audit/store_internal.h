/* The database from the inside: for store*.c alone. */
#pragma once

#include "audit/store.h"

#include <sqlite3.h>

enum store_stmt {
    STMT_BEGIN,
    STMT_COMMIT,
    STMT_ROLLBACK,
    STMT_APPEND,
    STMT_SIGN,
    STMT_PUT,
    STMT_REMOVE,
    STMT_TOLD,
    STMT_COUNT,
};

struct place {
    uint64_t seq;
    uint8_t hash[32];
    uint64_t signed_to;
};

struct store {
    sqlite3 *db;
    int dir;  /* our own */
    int lock; /* the writer's; -1: a reader */
    struct signer *signer;
    struct head signed_head; /* the checkpoint that was written last */
    struct place disk;       /* committed */
    struct place now;        /* in the open transaction */
    bool open;               /* a transaction is */
    char last_kind[STORE_NAME_MAX + 1];
    char now_kind[STORE_NAME_MAX + 1];
    struct buf line;
    sqlite3_stmt *stmts[STMT_COUNT];
};

/* What SQLite says, as one of our errors. */
int store_fail(struct store *s, const char *what, struct err *err);
int store_sql(struct store *s, const char *sql, struct err *err);
/* Runs it to its end and makes it ready for the next time. */
int store_run(struct store *s, sqlite3_stmt *stmt, const char *what, struct err *err);
int store_prepare_one(struct store *s, const char *sql, sqlite3_stmt **ret, struct err *err);
int64_t store_number(struct store *s, const char *sql); /* of one row; -1: none */
extern const char store_schema[];                       /* what makes a new database, */
extern const char store_schema_2[];                     /* and what version 2 added */
/* store_open.c: what a writer looks at before it goes on. */
int store_resume(struct store *s, struct err *err);

static inline void store_finalize(sqlite3_stmt **stmt)
{
    sqlite3_finalize(*stmt);
}
#define cleanup_stmt __attribute__((cleanup(store_finalize)))
