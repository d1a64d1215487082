/* What the keeper borrows from brig-proxy to reach Vault. */
#pragma once

#include "credentials/keeper.h"

extern const struct keeper_transport vault_transport;

/* vault_names.c */
int vault_resolve(const char *host, uint16_t port, uint64_t deadline_ms,
                  struct sockaddr_storage *ret, size_t max, struct err *err);
