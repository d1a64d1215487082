/* The recorder: the process that owns the daemon's SQLite file and the signing key. It gets records
 * and state from the front over wire/wire.h and has no other way in; the front has no file open.
 *
 * One database (WAL) in the state folder, 0600: records, checkpoints, keys, boxes that live (to
 * find leftovers after a crash), pool sizes. Messages: RECORD  {"boundary","kind",…} appended;
 * written in batches, at most 50 ms late PUT {"table":"keys|boxes|settings","key","value":{…}|null}
 *   QUERY   {"what":"audit","after":seq,"limit":n,"box"?,"kind"?,"key"?}  → DONE
 * {"records":[…],"next"}
 *           {"what":"summary","since_us"?}            → DONE {"by_kind":{},"by_boundary":{},…}
 *           {"what":"verify"}                         → DONE {"good":bool,"records","why","seq"}
 *   SYNC                                              → DONE when all of it is on disk
 * At its start it sends RESTORE for every row of keys, boxes and settings, then DONE; a database
 * whose last record is not "daemon.stopped" gets the record "daemon.crashed". */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct store; /* store.c: SQLite */
int store_open(struct store **ret, int state_dir, bool create, struct err *err);
void store_close(struct store *s);

/* The process' main: never returns. Seals itself (own filter, Landlock: the state folder alone). */
int recorder_main(int sock, int state_dir);

struct verify_result {
    bool good;
    uint64_t records, checkpoints;
    uint64_t seq;  /* where it first went wrong */
    char why[160]; /* "record 17 was changed", "records 5 to 9 are missing", … */
};
/* For `brig audit verify`, on a database or on an export, with the public key alone. */
int store_verify(struct store *s, struct verify_result *ret, struct err *err);
