/* What could make a server see another request than the one that was decided on.
 *
 * N-16  Where a rule speaks of methods or paths, a request that says a second method, path or host
 *       in its headers, its query or the form it carries is refused, unless the rule names that
 *       place in `pass`. A second word on the host never leaves, whatever the rule speaks of. */
#pragma once

#include "http/message.h"
#include "policy/egress/egress.h"

enum doubt_kind {
    DOUBT_METHOD,
    DOUBT_PATH,
    DOUBT_HOST,
    DOUBT_CODING, /* query and body in a charset in which these bytes are other letters */
};
#define DOUBTS_MAX 16
struct doubt {
    enum doubt_kind kind;
    bool query; /* a member of the query, not a header */
    char name[PASS_NAME_MAX + 1];
};
struct doubts {
    size_t count;
    bool more; /* than fit, or longer: whatever a rule names, it cannot mean these */
    struct doubt items[DOUBTS_MAX];
};

/* Of a head. */
void doubts_find(const struct http_request *r, struct doubts *ret);
/* One that the rule (may be NULL) does not name, or NULL. */
const struct doubt *doubts_open(const struct doubts *d, const struct egress_rule *r);
/* Could a header of this name say a second method, path or host? */
bool doubt_is_any(const char *header);
/* Does a header of this name say a host? */
bool doubt_is_host(const char *header);
/* Is this the name of a form's member that means a method ("_method")? */
bool doubt_is_method(const char *name, size_t len);
