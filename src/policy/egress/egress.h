/* The network and credential rules of a policy, as one object that can cross to brig-proxy as JSON:
 * the same reader and the same checks on both sides. Pure. */
#pragma once

#include "http/target.h"
#include "policy/origin.h"

#include "base/json.h"

struct text_list {
    char **items;
    size_t count;
};

struct egress_rule {
    struct host_pattern host;
    enum scheme scheme;
    uint16_t port;
    /* Dial `address` and nothing else; the only way to an address that is not public. */
    bool pinned;
    struct host address;
    struct text_list methods; /* empty: every method */
    struct text_list paths;   /* empty: every path */
    struct text_list pass;    /* headers, and ?members of the query, that are let through */
    uint64_t upload;          /* bytes in all runs of this rule, or POLICY_UNLIMITED */
    uint64_t max_connections; /* at one time */
    uint64_t requests;        /* per minute */
    /* Under which name its budgets are counted; NULL: under its own text. Rules that were made of
     * one rule count together, whatever became of them, and for as long as the run lasts. */
    char *budget;
    bool implied;       /* there because a secret is bound to it; an own rule takes its place */
    const char *preset; /* the name of the one that it came with, or NULL; lives for ever */
    char *text; /* as a person would write it, for events: "https://api.github.com:443"; unique */
    struct origin origin;
};

enum inject_form {
    INJECT_HEADER, /* `name`: `template`, where {} is the secret */
    INJECT_QUERY,  /* ?name=secret */
    INJECT_BASIC,  /* Authorization: Basic base64(name ":" secret) */
    INJECT_NONE,   /* the placeholder only */
};

struct egress_secret {
    char *name;         /* of the variable inside, which holds the placeholder */
    char *source;       /* "env:NAME", "file:/path", "cmd:PROGRAM ARG…", "vault:PATH#FIELD" */
    enum scheme scheme; /* the origin it is bound to, exactly */
    struct host host;
    uint16_t port;
    struct text_list methods;
    struct text_list paths;
    enum inject_form form;
    char *inject_name; /* header, query parameter or basic user */
    char *template;    /* INJECT_HEADER */
    bool swap_header;  /* the placeholder is swapped in headers (default) */
    bool swap_body;    /* and in bodies */
    uint64_t ttl_ms;   /* a value is fetched anew after this; POLICY_UNLIMITED: once */
    char *placeholder; /* set per run, never in a policy file */
    bool hidden;       /* a request's (headers.h): no variable inside, no placeholder */
    struct origin origin;
};

struct egress {
    struct egress_rule *rules; /* the most specific first, in whatever order they came */
    size_t rule_count;
    struct host_pattern *blocked; /* wins over every rule */
    size_t blocked_count;
    struct egress_secret *secrets;
    size_t secret_count;
    bool asks;                /* network.ask: a person is asked about hosts that no rule names */
    struct host_pattern *ask; /* only about these; none: about all */
    size_t ask_count;
    bool live;       /* of a sandbox of the daemon: what hints name is its fields, not options */
    uint64_t upload; /* totals of the run */
    uint64_t max_connections;
    uint64_t requests; /* per minute */
};
#define EGRESS_RULES_MAX   256
#define EGRESS_BLOCKED_MAX 256
#define EGRESS_SECRETS_MAX 32
#define EGRESS_LIST_MAX    64           /* methods or paths of one rule */
#define EGRESS_TEXT_MAX    (256 * 1024) /* all of them together: what is written can be read */

#define PASS_NAME_MAX 64
/* Does the rule name this header, or this member of the query, in `pass`? */
bool rule_passes(const struct egress_rule *r, const char *name, size_t len, bool query);
/* Nothing can be reached by it: a local address without its pin. */
bool rule_opens_nothing(const struct egress_rule *r);
const char *rule_budget(const struct egress_rule *r);
/* Has it a limit of its own? */
bool rule_is_counted(const struct egress_rule *r);

void egress_init(struct egress *e); /* nothing is allowed */
void egress_done(struct egress *e);

/* "@NAME": all rules of a preset (presets.h), in whose place one's own for the same host stands.
 * "HOST[:PORT][=ADDRESS]" or "SCHEME://HOST[:PORT][=ADDRESS][/PATH]": adds one rule, or two (http
 * and https) where neither scheme nor port is given. HOST:80 is http, HOST:443 is https, another
 * port is any. The same again changes nothing, a contradiction (another address, other limits) is
 * an error; an option stands above a file. */
int egress_allow(struct egress *e, const char *spec, const struct origin *origin, struct err *err);
int egress_block(struct egress *e, const char *pattern, struct err *err);
/* Also to be asked of the addresses that a name leads to. */
bool egress_blocks(const struct egress *e, const struct host *host);
/* "NAME=SOURCE@ORIGIN", the origin with its scheme and perhaps a path. Also adds the rule that
 * allows exactly that, if no rule names the origin. */
int egress_secret(struct egress *e, const char *spec, const struct origin *origin, struct err *err);
/* A person is asked about hosts of this pattern, if no rule names them. */
int egress_ask(struct egress *e, const char *pattern, struct err *err);
/* Is this a name, not blocked, that a person may be asked about? Whether a rule allows it is
 * another question. */
bool egress_asks(const struct egress *e, const struct host *host);
/* Asks about what `from` asks about. */
int egress_ask_copy(struct egress *to, const struct egress *from, struct err *err);
/* Random placeholders for every secret, before the run. */
int egress_make_placeholders(struct egress *e, struct err *err);

/* As proxies get it. */
void egress_write_json(const struct egress *e, struct json_writer *w);
int egress_read_json(struct egress *e, const struct json *j, struct err *err);
/* Does any rule or secret look inside TLS? */
bool egress_needs_ca(const struct egress *e);
/* The secret goes out unencrypted over what may be any network: worth a note. */
bool egress_secret_in_clear(const struct egress *e, const struct egress_secret *s);
/* The ports that transparent listeners inside are made for, ascending, each once; returns how many.
 * 80 is always among them, for the gateway; 53 and 3128 never are, brig listens there itself. */
size_t egress_ports(const struct egress *e, uint16_t *ret, size_t max);
