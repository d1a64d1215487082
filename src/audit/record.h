/* Audit records: what happened, in a chain that shows if anything was changed.
 *
 * A record is one line of canonical JSON (sorted keys, compact):
 *   {"boundary":"lifecycle","box":"…","detail":{…},"key":"k_…","kind":"box.running","seq":17,
 *    "time":"2026-01-02T03:04:05.678901Z"}
 * Its hash is SHA-256 over "brig audit v1\n" ‖ previous hash (32 bytes) ‖ SHA-256 of the line: an
 * export can leave a record out, show its digest, and still be followed. Record 1 follows 32 zero
 * bytes. A checkpoint signs {"hash","seq","time"} with the installation's Ed25519 key: every 1000
 * records, every 60 s in which there were any, at the start and at the end of the daemon. The place
 * that was reached last stands signed in a file of its own, so that cutting the end off is found.
 *
 * AU-1  Append only: there is no message that changes or removes a record.
 * AU-2  No secret, no header, no query string, no environment value, no file content, no code in a
 *       record: paths, names, counts and verdicts only.
 * AU-3  A full disk or a flood loses nothing silently: equal denials are counted in one record, and
 *       what could not be written is counted and said as soon as it can be. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

#include <stdint.h>

#define RECORD_MAX         16384
#define RECORD_CHECK_EVERY 1000 /* records from one checkpoint to the next, at most */
#define RECORD_TIME_SIZE   28   /* "2026-01-02T03:04:05.678901Z" */

struct record {
    uint64_t seq;
    int64_t time_us;      /* wall clock */
    const char *boundary; /* "kernel", …, or "api", "audit" */
    const char *kind;   /* "box.running", "key.added", "denial", "request.refused", … [a-z._]+ */
    const char *box;    /* or NULL */
    const char *key;    /* id of the API key, or NULL */
    const char *detail; /* canonical JSON object text, or NULL */
};
/* The line, without a newline. Negative: too long, or a part that is malformed. */
int record_write(const struct record *r, struct buf *out, struct err *err);
/* What a sender may give: {"boundary","kind","box"?,"key"?,"detail"?}; everything else is refused.
 * The texts belong to `json`, the detail to detail_room. */
int record_read(const struct json *json, struct record *ret, struct buf *detail_room,
                struct err *err);
/* A line of the log back into its parts, strictly: its members and their forms. `ret` points into
 * *ret_tree and has no detail (it is member "detail" of the tree). */
int record_parse(const char *line, size_t len, struct json **ret_tree, struct record *ret,
                 struct err *err);

/* record_detail.c: sorted keys, compact, with AU-2 looked after a second time: what stands under a
 * name like "env" or "headers", a query string, an API key are kept back. count: the number that
 * member "count" shall have, NULL for what it has. */
int record_detail_write(const struct json *detail, const uint64_t *count, struct buf *out,
                        struct err *err);

/* "2026-01-02T03:04:05.678901Z": texts of one length, in the order of time. */
void record_time(int64_t time_us, char ret[static RECORD_TIME_SIZE]);

void chain_digest(const char *line, size_t len, uint8_t ret[32]); /* of a line alone */
void chain_add(const uint8_t previous[32], const uint8_t digest[32], uint8_t ret[32]);
void chain_next(const uint8_t previous[32], const char *line, size_t len, uint8_t ret[32]);
