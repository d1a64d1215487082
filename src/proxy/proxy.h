/* brig-proxy: the only process that talks to the outside, and the only one that holds secrets. This
 * is what its files share. */
#pragma once

#include "base/json.h"
#include "credentials/inject.h"
#include "credentials/redact.h"
#include "network/budget.h"
#include "network/channel.h"
#include "network/decide.h"
#include "network/standin.h"
#include "os/loop.h"
#include "proxy/stream.h"
#include "proxy/tls.h"

/* By which way a connection came in. */
enum entry {
    ENTRY_PROXY, /* absolute-form request */
    ENTRY_CONNECT,
    ENTRY_TRANSPARENT,
    ENTRY_GATEWAY, /* X-Forward-To */
    ENTRY_DNS,
};
const char *entry_name(enum entry entry);

/* The rules in force; connections hold a reference to those they were decided by. */
struct rules {
    struct egress egress;
    unsigned refs;
};

struct resolver;
struct keyring;
struct session;
struct sniff;
struct tunnel;
struct asks;
struct queued;
struct proxy {
    struct loop *loop;
    int control_fd;
    struct loop_io control;
    struct rules *rules;
    struct budgets budgets;
    struct standins standins;
    struct tls_context *tls;
    struct injector injector; /* injector.egress == &rules->egress */
    struct redactor *redactor;
    char *auth; /* standalone: what Proxy-Authorization must be ("Basic …"), else NULL */
    uint64_t lost_events;
    unsigned connections; /* from inside, of every kind */
    unsigned max_connections;
    bool learn; /* names that no rule knows get an address too; connections to it are denied */
    uint64_t start_ms;
    struct resolver *resolver;
    struct keyring *keyring; /* NULL: there are no secrets */
    /* What is open: each from its file. */
    struct session *sessions;
    struct sniff *sniffs;
    struct tunnel *tunnels;
    struct asks *asks; /* NULL: nothing was asked yet */
    /* Events that the supervisor has not taken yet. */
    struct queued *events, *last_event;
    size_t event_bytes;
};

/* ---- rules.c ---- */
struct rules *rules_hold(struct rules *r);
void rules_drop(struct rules *r); /* takes NULL */
/* Puts new rules into force: budgets move, what is no longer allowed is ended. Takes them. Returns
 * how many connections that were, or negative: then nothing has changed. */
int rules_replace(struct proxy *px, struct rules *r, struct err *err);
/* After a replacement: may what was decided by rule *rule of `old` go on? Then *rule is the index
 * in the rules of now and the counted connection has moved to it; else it has been given back.
 * `upstream` is where it was dialled to, or NULL before that. */
bool rules_follow(struct proxy *px, const struct rules *old, const struct target *t,
                  const struct stream *upstream, size_t *rule, enum deny_reason *reason);

/* ---- events.c: what was decided and what came of it. Never a query, a header or a body. ---- */
struct event {
    enum entry entry;
    const struct target *target;
    bool allowed;
    enum deny_reason reason; /* if not allowed, or cut later (a budget) */
    size_t rule;             /* or SIZE_MAX */
    const char *hint;
    const char *note; /* further words for an error ("certificate has expired"), or NULL */
    int status;       /* of the HTTP response, 0 if none */
    uint64_t up, down;
    uint64_t ms;
};
void event_send(struct proxy *px, const struct event *ev);
/* The supervisor reads again: what had to wait. True: nothing waits any more. */
bool events_flush(struct proxy *px);

/* ---- resolve.c: names to addresses, with the host's resolver and its /etc/hosts. ---- */
#define RESOLVE_MAX 32
/* `server`: "ADDRESS:PORT", or NULL for the host's. Reads every file that it will ever need. */
int resolver_new(struct loop *loop, const char *server, struct resolver **ret, struct err *err);
/* `done` gets every answer, or none and why; never before resolve_start returns. NULL: no memory.
 */
typedef void resolve_done(void *ctx, const struct sockaddr_storage *addrs, size_t count,
                          const char *error);
struct resolution;
struct resolution *resolve_start(struct resolver *r, const struct host *name, resolve_done *done,
                                 void *ctx);
void resolve_cancel(struct resolution *r);

/* ---- dial.c: to the outside. ---- */
/* Resolves (or takes the pin or the literal), checks every answer, connects to one that was
 * checked, and for SCHEME_HTTPS with `tls` shakes hands. `rule` is what the verdict said. `done`
 * gets the stream, or NULL and why (reason DENY_ADDRESS, DENY_BLOCKED or DENY_UPLOAD, or DENY_NONE
 * with an error text). Never calls back before it returns. */
typedef void dial_done(void *ctx, struct stream *upstream, enum deny_reason reason,
                       const struct err *err);
struct dial;
struct dial *dial_start(struct proxy *px, const struct target *t, size_t rule, bool tls,
                        dial_done *done, void *ctx);
void dial_cancel(struct dial *d);
/* Is the other end of this connection an address that the rules of now block? */
bool dial_leads_to_blocked(struct proxy *px, int fd);

/* ---- tunnel.c: bytes both ways, with splice(2) where both ends are plain. ---- */
struct tunnel_options {
    struct proxy *px;
    struct target target; /* path NULL */
    enum entry entry;
    size_t rule;
    bool websocket;       /* check frames in both directions */
    bool redact;          /* overwrite secrets in what comes back */
    const void *first_up; /* bytes that were read from the client already, to be sent first */
    size_t first_up_len;
    const void *first_down;
    size_t first_down_len;
    int status; /* for the event: 101, or 0 */
};
/* Takes both streams and counts for the rule's budgets until it ends; sends the event at its end.
 * The rule's connection was counted by the caller (budget_connect) and is given back here. */
void tunnel_start(const struct tunnel_options *o, struct stream *client, struct stream *upstream);

/* ---- sniff.c: a connection whose destination is known by name or address, and nothing else: the
 * transparent way, and what comes after a CONNECT. Looks at the first bytes, decides, and hands on
 * to http_session or tunnel. Takes the stream. `seen`: bytes that were read already. ---- */
void sniff_start(struct proxy *px, struct stream *client, enum entry entry, const struct host *host,
                 uint16_t port, const void *seen, size_t seen_len);

unsigned sniffs_review(struct proxy *px);

/* ---- listen.c: connections from inside. ---- */
/* Serves a listener of the sandbox, or one connection that was accepted for it. Takes the socket.
 */
int listener_add(struct proxy *px, int fd, uint32_t kind, struct err *err);
/* The kernel turned it away, because no listener stands there; it is told like any denial. */
int connection_refused(struct proxy *px, const char *asked, struct err *err);
int connection_add(struct proxy *px, int fd, uint32_t kind, const char *asked, struct err *err);

/* ---- dns.c: names inside. ---- */
int dns_udp_add(struct proxy *px, int fd, struct err *err);  /* takes the socket */
void dns_tcp_start(struct proxy *px, struct stream *client); /* takes the stream */

/* ---- keyring.c: the values of the secrets, fetched by the keeper and renewed in time. ---- */
/* Forks the keeper; before anything is sealed. */
int keyring_new(struct proxy *px, struct keyring **ret, struct err *err);
/* Waits for every value; names the first secret that is not available. */
int keyring_fetch(struct keyring *k, struct err *err);
/* Asks for every value and says what came of it, by CH_CHECKED. */
int keyring_check(struct keyring *k, struct err *err);
/* Renewals, on the loop. */
int keyring_watch(struct keyring *k, struct err *err);
/* Wipes all values and lets the keeper revoke its leases, which it does whether we wait or not.
 * With `ret_why`: waits, and says what could not be revoked. */
void keyring_free(struct keyring *k, struct err *ret_why);

/* ---- session.c: HTTP on a stream of the sandbox. Takes the stream. ---- */
/* `fixed`: scheme, host and port of every request (transparent or intercepted: what the Host header
 * says must agree); NULL: the explicit proxy, where each request names its own, CONNECT is answered
 * and the gateway listens. */
void http_session_start(struct proxy *px, struct stream *client, enum entry entry,
                        const struct target *fixed, const void *seen, size_t seen_len);
/* Ends every session and tunnel that the rules no longer allow; returns how many. */
unsigned sessions_review(struct proxy *px);
unsigned tunnels_review(struct proxy *px);
/* The run is over: all of them, each with its event. */
void sessions_end(struct proxy *px);
void tunnels_end(struct proxy *px);

/* ---- seal.c: after everything was opened: no new privileges, no capability, Landlock without a
 * single path, a system call filter without exec, open, ptrace or new processes; not dumpable,
 * memory locked where the limit allows. Writes what is in force as JSON members. ---- */
struct seal {
    uid_t uid; /* who to become, where we are root */
    gid_t gid;
};
int proxy_seal(const struct seal *who, struct json_writer *facts, struct err *err);
int seal_filter_load(struct err *err); /* seal_filter.c */
