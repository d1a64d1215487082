/* The keeper: a child of brig-proxy that keeps the caller's identity and fetches the values, so
 * that the process that talks to the sandbox and to the outside needs no right to read files, start
 * programs or reach Vault. Blocking and simple; speaks to its one parent over a socket pair. When
 * the pair ends, whoever died, it revokes every lease and exits, at most ten seconds later.
 *
 * C-7  A lease ends with the run, however the run ends: the keeper alone holds it, and outlives
 * whoever is killed.
 *
 * Sources: env:NAME; file:/path (regular file, owner the caller or root, no group or other access,
 * at most 8 KiB, no link); cmd:PROGRAM ARG… (no shell; 10 s; stdout is the value); vault:PATH#FIELD
 * (VAULT_ADDR and VAULT_TOKEN, or VAULT_ROLE_ID with VAULT_SECRET_ID; KV v2 and dynamic secrets;
 * leases are renewed while it lives and revoked at its end). */
#pragma once

#include "credentials/secret.h"
#include "policy/egress/egress.h"

#include <sys/socket.h>
#include <sys/types.h>

/* TLS and names for Vault, lent by brig-proxy, which alone knows the libraries for them. All of it
 * runs in the keeper. `*want` is POLLIN or POLLOUT where the result is -EAGAIN. */
struct keeper_transport {
    /* Addresses of a name; returns how many (at most max), or negative. Has until deadline_ms of
     * CLOCK_MONOTONIC. */
    int (*resolve)(const char *host, uint16_t port, uint64_t deadline_ms,
                   struct sockaddr_storage *ret, size_t max, struct err *err);
    /* A session over a connected, non-blocking socket, which stays the caller's. */
    int (*open)(int fd, const char *host, const char *ca_file, void **ret, struct err *err);
    int (*handshake)(void *session, short *want, struct err *err); /* 0: done */
    ssize_t (*read)(void *session, void *data, size_t len, short *want);
    ssize_t (*write)(void *session, const void *data, size_t len, short *want);
    void (*close)(void *session);
};
/* To be said before keeper_start; without one Vault is reached by address and without TLS only. */
void keeper_use_transport(const struct keeper_transport *t);

/* Forks, before the caller holds anything that the keeper should not have. The parent gets its end
 * of the pair, non-blocking. In both processes the variables that held values are wiped. */
int keeper_start(const struct egress *e, pid_t *ret_pid, int *ret_fd, struct err *err);
/* In the parent: ask for the value of secret `i`; the answer comes later on the descriptor. */
int keeper_ask(int fd, size_t i, struct err *err);
/* In the parent: one answer. 1: *ret_index (below EGRESS_SECRETS_MAX), and *ret, which knows when
 * it ends, or, where the source failed, err filled in and *ret NULL. 0: the keeper is gone; err
 * says what it could not revoke, if anything. -EAGAIN: nothing yet. Answers also come unasked, when
 * a value was renewed or was lost. */
int keeper_answer(int fd, size_t *ret_index, struct secret **ret, struct err *err);
/* In the parent: no more questions. The keeper revokes what it has, and its end of the pair closes
 * (keeper_answer gives 0) when it is done. */
void keeper_end(int fd);

/* Which variables of the environment do these sources need? Calls fn for each name (env: sources,
 * the VAULT_ ones where there is a vault: source, PATH and HOME where there is a cmd: source). */
void keeper_variables(const struct egress *e, void (*fn)(void *ctx, const char *name), void *ctx);
/* Wipes those of them that hold credentials from this process's environment. */
void keeper_wipe_environment(const struct egress *e);
