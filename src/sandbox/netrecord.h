/* The record of one run's network, in a folder of the caller's, and the socket by which the rules
 * of the run can be changed. */
#pragma once

#include "audit/netlog.h"
#include "base/buf.h"
#include "policy/policy.h"

struct netrecord {
    int dir; /* -1: there is none, and nothing is written */
    char id[32];
    char started[32];
    int listen_fd; /* -1: none */
    int client_fd; /* who asked for new rules and waits for the answer, -1: nobody */
    uint64_t written_us;
};

void netrecord_init(struct netrecord *r);
/* A caller without a folder of his own has no records; that is no reason not to run. */
void netrecord_open(struct netrecord *r, const char *id);
/* At most every half second unless `last`. */
void netrecord_write(struct netrecord *r, const struct netlog *log, const struct egress *e,
                     bool last);
/* The start was refused: there is nothing to record. */
void netrecord_forget(struct netrecord *r);
/* A caller connects: reads its rules. 1: *ret is filled in (egress_done it) and the caller waits
 * for an answer; 0: there were none. */
int netrecord_accept(struct netrecord *r, struct egress *ret);
void netrecord_answer(struct netrecord *r, bool good, unsigned ended, const char *why);
void netrecord_done(struct netrecord *r);
