/* A second id for a sandbox of an ordinary user, where it has two users: one of those that
 * /etc/subuid and /etc/subgid give to this user. Into the map of a user namespace only root may
 * write it; newuidmap and newgidmap, two set-id programs of the host's (shadow's, in Debian's
 * package uidmap), do that for whoever the files name.
 *
 * SI-1  These programs run in a child, at one place that root has, with nothing of ours but the
 *       numbers, and are not waited for longer than a few seconds.
 * SI-2  The id is none of an account of the host's.
 * SI-3  Two sandboxes of a user have different ids as long as there are enough; the kernel forgets
 * a lease with its holder. SI-4  What they wrote is believed when it was read back (attest.c). */
#pragma once

#include "base/err.h"
#include "kernel/subid_parse.h"

#include <sys/types.h>

struct subids {
    struct subid_ranges uids, gids;
};

/* What /etc/subuid and /etc/subgid give this user, or the reason why nothing is available. */
int subids_find(struct subids *ret, struct err *err);
/* The same for a report. `command` sets it right, as root; empty: none does. */
bool subids_probe(char why[static 256], char how[static 256], char command[static 256]);

struct subid_lease {
    uid_t uid;
    gid_t gid;
    int fd; /* who holds it has the lease; -1: shared with another sandbox */
};
int subids_lease(const struct subids *s, struct subid_lease *ret, struct err *err);

/* `inside` becomes this user, and 0 becomes `root`, in the user namespace of the process. */
int subids_map(pid_t pid, uid_t inside, const struct subid_lease *root, struct err *err);
