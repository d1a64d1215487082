/* Connections that wait for a person's answer; see ask.c. */
#pragma once

#include "proxy/proxy.h"

struct asking;
typedef void ask_done(void *ctx);

/* If this denial is one that a person may be asked about: asks, and calls `done` when it is time to
 * decide anew; never before it returns. NULL: it stays a denial. */
struct asking *ask_start(struct proxy *px, const struct target *t, enum deny_reason reason,
                         ask_done *done, void *ctx);
/* Takes NULL. The question stands: a yes counts for the next connection. */
void ask_cancel(struct asking *w);
/* A person said no to this origin, or nobody said anything. */
bool ask_was_denied(const struct proxy *px, const struct target *t);
/* The supervisor's answer to question `number`. */
int ask_answer(struct proxy *px, uint32_t number, bool allowed, struct err *err);
