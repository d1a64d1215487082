/* The keeper: a child of brig-proxy that keeps the caller's identity and fetches the values, so
 * that the process that talks to the sandbox and to the outside needs no right to read files, start
 * programs or reach Vault. Blocking and simple; speaks to its one parent over a socket pair. When
 * the pair ends, whoever died, it revokes every lease and exits.
 *
 * Sources: env:NAME, file:/path (regular file, owner the caller or root, no group or other access,
 * at most 8 KiB, no link), cmd:PROGRAM ARG… (no shell; split at blanks; 10 s; stdout is the value),
 * vault:PATH#FIELD (VAULT_ADDR and VAULT_TOKEN, or VAULT_ROLE_ID with VAULT_SECRET_ID; KV v2 and
 * dynamic secrets; leases are renewed while it lives and revoked at its end). */
#pragma once

#include "credentials/secret.h"
#include "policy/egress.h"

#include <sys/types.h>

/* Forks. The parent gets its end of the pair. */
int keeper_start(const struct egress *e, pid_t *ret_pid, int *ret_fd, struct err *err);
/* In the parent: ask for the value of secret `i`; the answer comes later on the descriptor. */
int keeper_ask(int fd, size_t i, struct err *err);
/* In the parent: one answer. 1: *ret_index, and *ret or, where the source failed, err filled in and
 * *ret NULL. 0: the keeper is gone. -EAGAIN: nothing yet. Answers also come unasked, when a lease
 * was renewed with a new value or was lost. */
int keeper_answer(int fd, size_t *ret_index, struct secret **ret, struct err *err);
/* Which variables of the environment do these sources need? Calls fn for each name (env: sources,
 * and the VAULT_ ones where there is a vault: source). */
void keeper_variables(const struct egress *e, void (*fn)(void *ctx, const char *name), void *ctx);
