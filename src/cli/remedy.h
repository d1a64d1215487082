/* `brig doctor --fix`: for what this host lacks, the command that sets it right. A remedy is a line
 * for /bin/sh, written to be read: it is shown before it is run, and it is run only when the caller
 * said so. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "sandbox/sandbox.h"

#include <stdbool.h>

struct remedy {
    const char *fact; /* what it is for, by its name in the report */
    char why[256];
    char command[640]; /* empty: no command does it, `words` say what does */
    char words[256];   /* what to do besides, or instead */
    bool root;         /* it takes root's rights */
    bool tried;
    int status; /* of the command, where it was tried: 0 is good */
};

#define REMEDIES_MAX HOST_FACTS_MAX

/* One for each thing that is missing, in the order of the report. */
unsigned remedies_find(const struct host_report *r, struct remedy out[static REMEDIES_MAX]);
/* As the caller would type it: with sudo where it takes rights that the caller has not. */
void remedy_show(const struct remedy *m, struct buf *out);
/* The caller has the rights that it takes. */
bool remedy_can_run(const struct remedy *m);
/* Runs it, with the caller's terminal. */
int remedy_run(struct remedy *m, struct err *err);
