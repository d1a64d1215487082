/* The recorder: the process that owns the daemon's SQLite file and the signing key. It gets records
 * and state from the front over wire/wire.h and has no other way in; the front has no file open.
 *
 * It works in the folder `audit` of the state folder, 0700, which belongs to the recorder's uid:
 *   records.db    SQLite (WAL): records, checkpoints, and what the daemon keeps: keys, boxes that
 *                 live (to find leftovers after a crash), settings
 *   head          the signed place that the records reached last
 *   signing.key, signing.pub, lock
 *
 * Messages
 *   RECORD  {"boundary","kind",…} appended; written in batches, at most 50 ms late
 *   PUT     {"table":"keys|boxes|settings","key","value":{…}|null}; with a request number: DONE
 * once it is on disk. What happens to keys is recorded here ("key.added", "key.revoked",
 *           "key.removed"): nobody else needs to.
 *   QUERY   {"what":"audit","after":seq,"limit":n,"box"?,"kind"?,"key"?,"boundary"?,"since_us"?}
 *                                                    → DONE {"records":[…],"next":seq|null}
 *           {"what":"summary","since_us"?}            → DONE {"by_kind":{},"by_boundary":{},…}
 *           {"what":"verify"}                         → DONE {"good":bool,"records","why","seq",…}
 *           {"what":"receipt","box"}                  → DONE {"owner","receipt":{…}}, or {}
 *   RECEIPT {"box","key","receipt":{…}}: the end of a sandbox: recorded, signed, kept
 *   SYNC                                              → DONE when all of it is on disk
 * At its start it sends RESTORE for every row of keys, boxes and settings, then DONE with request
 * 0; FAIL with request 0 when it cannot work, and ends. RESTORE of table keys may come at any later
 * time as well: `brig keys` wrote one. A database whose last record is not "daemon.stopped" gets
 * the record "daemon.crashed".
 *
 * A record of kind "daemon.stopped" is the front's last word: a SYNC after it is answered when the
 * log is complete and signed. At the end of file without it (or "daemon.stopping") the recorder
 * writes "daemon.crashed". */
#pragma once

#include "audit/chain.h"
#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* The process' main: never returns. Seals itself (own filter, Landlock: the folder alone). */
int recorder_main(int sock, int state_dir);
