/* The database's side of `brig audit` and `brig keys`: `brig-daemon audit REQUEST`. brig is static
 * and small and has no SQLite; it reads the command line and writes for people, this reads the
 * database, beside a running daemon or without one.
 *
 * The request is one JSON object, {"verb":…,"state":"DIR",…}:
 *   tail     {"lines":n,"follow":bool,"box","kind","key","boundary","since_us"}
 *   show     {"seq":n}
 *   summary  {"since_us"}
 *   verify   {"public_key":"FILE","export":"FILE","expect":"SEQ:HASH"}
 *   export   {"box","since_us"}
 *   keys.list, keys.put {"id","value":{…}}
 *   receipt.verify {"file","public_key" or "folders":[…]}, receipt.key
 * "runs":true: the folder is that of `brig run`'s receipts (audit/runs.h).
 * The answer is JSON lines on stdout; the last is {"end":{…}}, or {"error":{…}} as in wire.h. An
 * export is what the file shall hold and nothing else. As root it works as the owner of the audit
 * folder. */
#pragma once

#include "audit/store.h"

int audit_ask(const char *request); /* the exit status */

/* Between its files. */
struct ask {
    struct json *request;
    const char *verb;
    int folder; /* `audit` */
    struct store *store;
    struct verifier *verifier; /* of the public key that was named; NULL: none was */
    struct buf out;
};
/* ask_form.c */
uint64_t ask_number(const struct ask *a, const char *name, uint64_t otherwise);
const char *ask_text(const struct ask *a, const char *name); /* NULL: none */
bool ask_flag(const struct ask *a, const char *name);
const char *ask_since(const struct ask *a, char room[static RECORD_TIME_SIZE]); /* or NULL */
/* A line from a.out to stdout. */
int ask_flush(struct ask *a, struct err *err);
/* The last line, and all before it; how: JSON of a writer. */
int ask_end(struct ask *a, const char *how, struct err *err);

/* ask_read.c, ask_verify.c, ask_keys.c, ask_receipt.c, export.c; each is a verb. */
int ask_print_verdict(struct ask *a, const struct verify_result *r, struct err *err);
/* The folder is one of `brig run`. */
int ask_runs(struct ask *a, struct err *err);
int ask_receipt_verify(struct ask *a, struct err *err);
int ask_receipt_key(struct ask *a, struct err *err);
int ask_tail(struct ask *a, struct err *err);
int ask_show(struct ask *a, struct err *err);
int ask_summary(struct ask *a, struct err *err);
int ask_verify(struct ask *a, struct err *err);
/* The caller's own file, read before the folder's owner takes over. */
int ask_load_key(struct ask *a, struct err *err);
int ask_export(struct ask *a, struct err *err);
int ask_keys_list(struct ask *a, struct err *err);
int ask_keys_put(struct ask *a, struct err *err);
