/* Questions to a person about what a sandbox is to do. Held in memory, answered over the API by
 * operators alone: the key that asks must not be able to answer itself. */
#pragma once

#include "approvals/approval.h"
#include "daemon/box/box.h"

typedef void approvals_fn(void *ctx, enum approval_answer answer);

/* `text` and `reason` are fit to be shown. `wanted` (gets ctx) says whether anybody still waits: a
 * question that nobody waits for is withdrawn when somebody looks at it. `fn` is called once, never
 * before this returns. Negative: too many questions wait already, and fn is not called. */
int approvals_ask(struct box *b, enum approval_kind kind, const char *text, const char *reason,
                  const char *program, bool (*wanted)(void *ctx), approvals_fn *fn, void *ctx,
                  struct err *err);
/* The sandbox has ended: its questions are denied. */
void approvals_drop(struct box *b);
