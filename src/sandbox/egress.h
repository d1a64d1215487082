/* What the command line needs of the network besides a run: a proxy alone, a check of the secrets'
 * sources, and the records that runs leave. */
#pragma once

#include "base/buf.h"
#include "policy/policy.h"

/* Is each secret available? Calls back for each, in order; `error` is NULL where it is. Values stay
 * in brig-proxy. Negative: the check itself could not be made. */
typedef void sandbox_check_fn(void *ctx, const char *name, const char *source, const char *error);
int sandbox_secrets_check(const struct policy *p, sandbox_check_fn *fn, void *ctx, struct err *err);

/* A proxy for other tools, until SIGINT, SIGTERM or SIGHUP, or until the descriptor that `ready`
 * returned (a pidfd, say) can be read; -1: none. */
struct proxy_request {
    const struct policy *policy;
    const char *listen; /* "127.0.0.1:0", "[::1]:3128" */
    const char
        *token; /* what clients must show as password of user "brig"; NULL: nobody is asked */
    int (*ready)(void *ctx, uint16_t port, const char *ca_pem /* or NULL */);
    void (*event)(void *ctx, const char *json, size_t len);
    void *ctx;
};
int sandbox_proxy_serve(const struct proxy_request *r, struct buf *ret_summary, struct err *err);

/* What tells programs inside of a proxy that listens there on 127.0.0.1. */
void sandbox_proxy_variables(uint16_t port,
                             void (*set)(void *ctx, const char *name, const char *value),
                             void *ctx);

/* The record of a run with a network: {"sandbox_id", "state": "running|ended", "started", "rules":
 * […], "network": as netlog_write_json}. Kept below $XDG_STATE_HOME/brig/net (root:
 * /var/lib/brig/net). */
int netrecord_read(const char *id, struct buf *ret, struct err *err);
/* Newest first. */
int netrecord_list(void (*fn)(void *ctx, const char *id, const char *json), void *ctx,
                   struct err *err);
/* New rules for a run that still runs; what they do not allow any more is ended (*ret_ended). The
 * secrets of the run stay as they are. */
int netrecord_replace(const char *id, const struct egress *e, unsigned *ret_ended, struct err *err);
