/* What the files about egress share. Private to policy/. */
#pragma once

#include "base/buf.h"
#include "policy/policy.h"

/* Where a rule or a secret leads, as text says it. */
struct place_spec {
    struct host_pattern host;
    bool has_scheme;
    enum scheme scheme;
    uint16_t port; /* 0: not given */
    bool pinned;
    struct host address;
    const char *path; /* into the text, or NULL */
};
/* "[SCHEME://]HOST[:PORT][=ADDRESS][/PATH]"; `stars` and `pins` say whether those may be there. */
int place_parse(const char *text, bool stars, bool pins, struct place_spec *ret, struct err *err);
int scheme_parse(const char *text, size_t len, enum scheme *ret);
uint16_t scheme_port(enum scheme scheme); /* 0 where it has none of its own */
int address_parse(const char *text, struct host *ret, struct err *err);

int list_add(struct text_list *list, const char *text, struct err *err);
int list_copy(struct text_list *to, const struct text_list *from, struct err *err);
bool list_equal(const struct text_list *a, const struct text_list *b);
bool list_has(const struct text_list *list, const char *text);
void list_done(struct text_list *list);
int method_check(const char *method, struct err *err);
int pass_check(const char *name, struct err *err); /* pass.c */

/* What one item of network.allow says, before it becomes one rule or two. */
struct rule_draft {
    struct place_spec place;
    struct text_list methods;
    struct text_list paths;
    struct text_list pass;
    uint64_t upload;
    uint64_t max_connections;
    uint64_t requests;
    const char *budget; /* the caller's; NULL: its own */
    bool implied;
    const char *preset;
    struct origin origin;
};
void rule_draft_init(struct rule_draft *d, const struct origin *origin);
void rule_draft_done(struct rule_draft *d);
int rule_draft_add(struct egress *e, const struct rule_draft *d, struct err *err);

/* ---- shut.c: what opens nothing ---- */
/* Address or range: how all of it is local, such as "private"; NULL: it is not. */
const char *pattern_is_local(const struct host_pattern *p);
int refuse_local_range(const struct host_pattern *p, struct err *err);
/* A rule for such an address without a pin. */
int refuse_local_rule(const struct egress_rule *r, struct err *err);

void rule_done(struct egress_rule *r);
int rule_make_text(struct egress_rule *r, struct err *err);
/* Counts together with `of`. */
int rule_share_budget(struct egress_rule *r, const struct egress_rule *of, struct err *err);
/* Takes what is in r, also on failure. */
int rule_insert(struct egress *e, struct egress_rule *r, struct err *err);
bool pattern_equal(const struct host_pattern *a, const struct host_pattern *b);
/* Everything that b matches, a matches too. */
bool pattern_covers(const struct host_pattern *a, const struct host_pattern *b);
void pattern_text(const struct host_pattern *p, struct buf *out);
/* "https://h:443", v6 in brackets */
void origin_text(enum scheme scheme, const struct host *host, uint16_t port, struct buf *out);
/* Takes what is in s, also on failure. */
int secret_insert(struct egress *e, struct egress_secret *s, struct err *err);
/* The rules that the secrets bring along, where no rule names their origin. */
int secrets_imply(struct egress *e, struct err *err);
void secret_init(struct egress_secret *s, const struct origin *origin);
void secret_done(struct egress_secret *s);
bool secret_equal(const struct egress_secret *a, const struct egress_secret *b);
int secret_set_origin(struct egress_secret *s, const char *text, struct err *err);
/* "Name: value with {}" */
int secret_set_header(struct egress_secret *s, const char *text, struct err *err);
int secret_set_query(struct egress_secret *s, const char *name, struct err *err);
int secret_set_basic(struct egress_secret *s, const char *user, struct err *err);
int secret_set_name(struct egress_secret *s, const char *name, struct err *err);
int secret_set_source(struct egress_secret *s, const char *source, struct err *err);
/* Bytes of the methods and paths of all rules and secrets. */
int egress_check_text(const struct egress *e, struct err *err);

/* ---- ask.c ---- */
void egress_ask_write(const struct egress *e, struct json_writer *w);
void egress_ask_forget(struct egress *e);
int egress_ask_tighten(const struct egress *have, const struct egress *want, struct err *err);

bool blocked_find(const struct egress *e, const struct host_pattern *p);
bool variable_name_ok(const char *name); /* env.c */

/* ---- read.c: mappings, in policy files and on the way to the proxy. ---- */
struct item_place { /* where the mistake is */
    unsigned line;
    unsigned column;
};
struct item_reader {
    struct egress *e;
    struct origin origin;
    bool wire; /* from brig itself: `implied` and `placeholder` may be there, origins add no rule */
    struct item_place at;
    struct err *err;
};
int item_read_rule(struct item_reader *r, const struct json *item);
int item_read_blocked(struct item_reader *r, const struct json *item);
/* true, false, or a list of hosts. */
int egress_ask_read(struct item_reader *r, const struct json *j);
int item_read_secret(struct item_reader *r, const struct json *item);

/* The same for a policy, which also remembers where things came from. */
int policy_read_rule(struct policy *p, struct item_reader *r, const struct json *item);
int policy_read_blocked(struct policy *p, struct item_reader *r, const struct json *item);
int policy_read_ask(struct policy *p, struct item_reader *r, const struct json *j);
int policy_read_secret(struct policy *p, struct item_reader *r, const struct json *item);

/* ---- write.c ---- */
/* For brig-proxy, for people (a short text where that says everything), or for the hash. */
enum egress_form { EGRESS_WIRE, EGRESS_SHOWN, EGRESS_CANONICAL };
void egress_write_rules(const struct egress *e, struct json_writer *w, enum egress_form form);
void egress_write_blocked(const struct egress *e, struct json_writer *w);
void egress_write_secrets(const struct egress *e, struct json_writer *w, enum egress_form form);
