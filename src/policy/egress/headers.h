/* Headers that a request sets on what its sandbox sends: see headers.c.
 *
 * C-11 They go only where the rules lead anyway, and to no host that the policy itself binds a
 * secret to. */
#pragma once

#include "policy/egress/egress.h"

struct egress_header {
    const char *host;     /* one host, no pattern */
    const char *name;     /* of the header */
    const char *template; /* with {} for the value, as in a policy: "Bearer {}" */
    const char *variable; /* that holds the value where brig-proxy is started */
};

/* Adds to e->secrets what sends this header to each origin of the host that `rules`, those in
 * force, lead to: over https, and over http only where no rule leads there by https, so that code
 * which asks for http:// does not make it readable on the way. Refused where nothing leads there,
 * and where the policy itself binds a secret to that host. */
int egress_bind_header(struct egress *e, const struct egress *rules, const struct egress_header *h,
                       struct err *err);
