/* HashiCorp Vault, as far as the keeper needs it: a token, secrets, leases. */
#pragma once

#include "credentials/keeper.h"
#include "credentials/vault_parse.h"

struct vault;

struct vault_lease {
    bool used;
    char id[VAULT_LEASE_MAX];
    bool renewable;
    uint64_t asked_s;     /* what it was given for at first */
    uint64_t lifetime_ms; /* what it was given for, the last time */
    unsigned login;       /* by which login's token: it ends with that at the latest */
};

/* Takes the address and the credentials from the environment, which may be wiped afterwards.
 * Connects to nothing yet. */
int vault_new(const struct keeper_transport *t, int control_fd, struct vault **ret,
              struct err *err);
/* Reads a path. *ret_lease is NULL where there is no lease; else it is on the list of what is
 * revoked. */
int vault_fetch(struct vault *v, const char *path, struct json **ret,
                struct vault_lease **ret_lease, struct err *err);
/* More time; lease->lifetime_ms says how much. */
int vault_renew(struct vault *v, struct vault_lease *lease, struct err *err);
/* Ends a lease. One that could not be ended stays on the list. */
int vault_revoke(struct vault *v, struct vault_lease *lease, struct err *err);
/* The token that a login gave must be renewed at this time (CLOCK_MONOTONIC; UINT64_MAX: never). */
uint64_t vault_due_ms(const struct vault *v);
void vault_renew_token(struct vault *v);
/* Was the token that this lease hangs on replaced? Then its secret must be fetched anew. */
bool vault_outlived(const struct vault *v, const struct vault_lease *lease);
/* After that: the token before, and with it its leases, are revoked. */
void vault_drop_old(struct vault *v);
/* Revokes everything, the login's token last, and frees. Negative: some of it could not be. Takes
 * NULL. */
int vault_end(struct vault *v, struct err *err);
