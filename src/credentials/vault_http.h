/* One request to Vault over a connection of its own. Waits, but not for ever. For vault.c alone. */
#pragma once

#include "base/buf.h"
#include "credentials/keeper.h"
#include "http/host.h"

struct vault_server {
    bool tls;
    struct host host;
    uint16_t port;
    char *ns;                                 /* X-Vault-Namespace, or NULL */
    char *ca_file;                            /* VAULT_CACERT, or NULL */
    const struct keeper_transport *transport; /* or NULL */
    int control_fd;       /* when its other end is gone there is less time; -1: not any more */
    uint64_t deadline_ms; /* of everything, CLOCK_MONOTONIC; UINT64_MAX: none */
};

struct vault_request {
    const char *method;
    const char *path;           /* below /v1/ */
    const struct secret *token; /* or NULL */
    const char *body;           /* JSON, or NULL */
    size_t body_len;
};

/* The status, and the body of the response in `ret`; or negative where there is none. */
int vault_call(struct vault_server *v, const struct vault_request *q, struct buf *ret,
               struct err *err);
