/* The chain of runs: what the notaries of `brig run` write, many short processes, one after the
 * other. One file of lines, runs.jsonl, in the form of an export (audit/export.h) that grows:
 *
 *   {"brig_audit":1,"first":1,"previous":"00…"}
 *   {"hash":HEX,"record":{…}}
 *   {"checkpoint":{…},"signature":HEX}                  every record is signed at once
 *
 * beside `head`, `lock`, signing.key and signing.pub, as the recorder's. Whoever writes holds the
 * lock, looks at the last signed line, appends both lines with one write, and renews the head.
 *
 * RU-1  Killed at any point, the chain can be verified and continued: half a line is cut off by the
 *       next one, and only what no signature covers and no head knows is ever cut off.
 * RU-2  Two never write at the same time, and nobody writes behind a place that he did not verify.
 *
 * Nothing waits for the disk: a run must not become slower because it is written down. What the
 * machine loses with its power in the half minute before the kernel has written it, the head may
 * still know. That is told from tampering by the identity of the boot (file `boot`): a head that is
 * ahead within one boot is not continued; after a restart a record `audit.lost` says, for ever,
 * which numbers are missing and what hash they led to. */
#pragma once

#include "audit/sign.h"
#include "audit/store.h"

#define RUNS_FILE "runs.jsonl"

struct receipt;
struct runs;
/* Once per process, before a filter is in force: reads the identity of the boot. */
void runs_prepare(void);
/* To write. In the folder `audit`; a new one is begun. Holds no lock when it returns. */
int runs_open(struct runs **ret, int dir, struct err *err);
void runs_free(struct runs *r);
/* Appends a record, signed. receipt: what it is about, or NULL; its proof goes to `proof`. */
int runs_append(struct runs *r, const struct record *record, const struct receipt *receipt,
                struct buf *proof, struct err *err);

/* For readers: the file as it was at one moment, with the head of that moment. -1 when there is
 * none. */
struct runs_view {
    int fd;
    off_t size;
    bool has_head;
    struct head head;
};
int runs_look(int dir, struct runs_view *ret, struct err *err);
