/* Credentials into requests: what the client itself sent in that place is taken out first, and the
 * value goes to exactly the origin it is bound to.
 *
 * C-2  No byte of a secret leaves for another origin (scheme, host, port, method, path) than its
 * own.
 *
 * C-3  A placeholder is swapped only where it is declared, towards its own origin; elsewhere it
 * stays the worthless text that it is.
 *
 * C-10 At a host that a secret is bound to the code acts as that secret's account or as nobody: no
 * credential of its own goes there, on whatever port, unless the rule names the place. */
#pragma once

#include "credentials/secret.h"
#include "http/message.h"
#include "policy/egress/egress.h"

/* Values by index of egress->secrets; an entry is NULL while its value is not available. */
struct injector {
    const struct egress *egress;
    struct secret **values;
};

/* Is any secret bound to this host and port? */
bool inject_binds(const struct egress *e, const struct host *host, uint16_t port);
/* Takes out whatever has the shape of a credential (shape.h) where a secret is bound to the host of
 * t, but a placeholder alone and what `rule` (may be NULL) names in `pass`. Returns how many were
 * taken out that no secret takes the place of, with the name of the first of them; negative: no
 * memory. To be called before inject_apply. */
#define INJECT_NAME_MAX 64
int inject_strip(const struct egress *e, const struct egress_rule *rule, const struct target *t,
                 struct http_request *r, char first[static INJECT_NAME_MAX], struct err *err);
/* Does a secret that is bound to this host and port depend on the method or the path? */
bool inject_depends(const struct egress *e, const struct host *host, uint16_t port);
/* Applies every secret bound to t to the request. Returns how many were put in, or negative: a
 * bound secret has no value or its time is over (fail closed), or the request cannot carry it. The
 * target of the request (query form) may be replaced.
 *
 * The hop-by-hop headers are gone already. A request that is bound also loses what would keep its
 * response from being searched: Accept-Encoding becomes identity; Range, If-Range and
 * Sec-WebSocket-Extensions go. */
int inject_apply(const struct injector *in, const struct target *t, struct http_request *r,
                 struct err *err);
/* Does any secret bound to t want its placeholder swapped in the body? Then the body is collected
 * (at most INJECT_BODY_MAX) and handed here; *body is replaced. `type` is the Content-Type, or
 * NULL: the value is escaped as JSON or as a form where it says so. */
#define INJECT_BODY_MAX (1024u * 1024)
bool inject_wants_body(const struct injector *in, const struct target *t);
int inject_body_as(const struct injector *in, const struct target *t, const char *type,
                   struct buf *body, struct err *err);
/* A placeholder in the head of a request where it is not swapped (another origin, the target, a
 * header though its secret says no): its index, for the log, or -1. To be asked before
 * inject_apply. */
int inject_stray(const struct egress *e, const struct target *t, const struct http_request *r);
