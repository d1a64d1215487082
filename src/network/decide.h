/* The decision: may this target be reached? One function, for every way into the proxy, on one
 * canonical object. Pure: no sockets, no clock of its own.
 *
 * N-3  What no rule names is denied; no rules: everything is denied; a blocked host is denied
 *      whatever the rules say.
 * N-4  An address literal is allowed only by a rule that names that address, or a range that it is
 *      in; a range leads to no name. */
#pragma once

#include "network/address.h"
#include "policy/egress/egress.h"

#include <sys/socket.h>

enum deny_reason {
    DENY_NONE,
    DENY_NO_RULE, /* no rule names the host */
    DENY_BLOCKED,
    DENY_PORT,   /* the host is allowed on other ports */
    DENY_SCHEME, /* the host and port are, for another protocol */
    DENY_METHOD,
    DENY_PATH,
    DENY_AMBIGUOUS,   /* a second method, path or host stands in it (network/doubt.h) */
    DENY_ADDRESS,     /* the name led to an address that is never dialled without a pin */
    DENY_LITERAL,     /* an address instead of a name */
    DENY_CONNECTIONS, /* max_connections */
    DENY_UPLOAD,      /* byte budget */
    DENY_REQUESTS,    /* per minute */
    DENY_SNI,         /* the server name of the handshake is another, missing or encrypted */
    DENY_MALFORMED,   /* what came cannot be read in exactly one way */
    DENY_CREDENTIAL,  /* the secret that belongs to it is not available */
    DENY_RESPONSE,    /* the answer could not be checked for secrets, or is malformed */
    DENY_ASKED,       /* a person was asked and did not allow it */
    DENY_AUTH,        /* the proxy alone: its password is missing or wrong */
    DENY_REASON_COUNT,
};
/* "no rule for this host", …: a short sentence for people. */
const char *deny_text(enum deny_reason reason);
/* "no-rule", "port", …: for programs. */
const char *deny_name(enum deny_reason reason);

#define DENY_HINT_MAX 192

struct verdict {
    bool allow;
    enum deny_reason reason;
    size_t rule;              /* index into egress->rules, where one matched, else SIZE_MAX */
    char hint[DENY_HINT_MAX]; /* what would allow it: "add --allow evil.com:443"; empty if nothing
                                 should */
};

/* hint.c: what would allow it, or "". egress_decide fills it in; for reasons that are found later,
 * by others. `live`: in a sandbox of the daemon, whose rules come with the request or with the
 * template; else the caller's options are meant. No hint holds an address that the code did not
 * name itself (N-15). */
void deny_hint(enum deny_reason reason, const struct target *t, bool live,
               char out[static DENY_HINT_MAX]);
/* Where there are no rules at all. Without a port the name alone was asked for. */
void deny_offline_hint(const struct target *t, bool live, char out[static DENY_HINT_MAX]);
/* For DENY_ADDRESS: of which kind the answer was. */
void deny_address_hint(const struct target *t, enum address_class answer, bool live,
                       char out[static DENY_HINT_MAX]);
struct doubt;
void deny_doubt_hint(const struct doubt *d, char out[static DENY_HINT_MAX]);

/* Of a name: public, unless it is one under which clouds give out credentials. */
enum address_class deny_class(const struct host *host);

/* With method "" and path NULL: could any method and path be allowed (a tunnel, a connection before
 * its first request)? With scheme SCHEME_ANY: could any protocol be? A rule on methods or paths
 * never allows SCHEME_TCP. */
void egress_decide(const struct egress *e, const struct target *t, struct verdict *ret);
/* Must TLS to this host and port be opened to decide: does any rule or secret for it look inside?
 */
bool egress_looks_inside(const struct egress *e, const struct host *host, uint16_t port);
/* May this name be answered by the DNS responder: does any rule match it? */
bool egress_knows_name(const struct egress *e, const struct host *host);
