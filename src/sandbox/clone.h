/* Provisioning by cloning: the steps that differ when a sandbox's first processes come from a
 * template process (warden/stem.h) instead of being started. What is applied inside and what is
 * attested afterwards is the same. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "os/pump.h"

#include <sys/types.h>

struct sandbox;
struct filesystem;

/* What is shown in a stem's sandbox, besides the interpreters' drivers. */
struct stem_files {
    struct buf library, config;
    uid_t lease;
};
/* Between prepare and plan. */
int stem_show(const struct stem_files *f, struct filesystem *fs, struct err *err);

/* Where a clone comes from. */
struct clone_source {
    int door;  /* of the template process */
    int image; /* of init, sealed, the same for all */
    uid_t lease;
    unsigned patience_ms;
};

/* The interpreter starts where a program of a user would, without being started. */
void clone_plan(struct sandbox *s);
int clone_connect(struct sandbox *s, struct pump_line lines[PUMP_LINES], int stdio[3],
                  int channel[2], struct err *err);
/* It presented itself: from here on it is in our hands. Takes the descriptor. */
int clone_born(struct sandbox *s, int *pidfd, pid_t pid, struct err *err);
/* 1: init has spoken, too. */
int clone_waits(struct sandbox *s, pid_t inside, pid_t pid, struct err *err);
/* What the five boundaries do not look at: the second process, and that nothing is the template's.
 */
int clone_attest(struct sandbox *s, struct err *err);
