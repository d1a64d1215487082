/* Rules and secrets out of JSON: the items of a policy document, and the whole as brig-proxy gets
 * it. One reader for both, so that the proxy enforces what the policy was checked for. */
#include "base/cleanup.h"
#include "base/num.h"
#include "base/quote.h"
#include "policy/egress/internal.h"
#include "policy/keys.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- values ---- */

static int fail_at(struct item_reader *r, const struct json *j, const char *key)
{
    r->at = (struct item_place){json_line(j), json_column(j)};
    return key ? err_wrap(r->err, "%s", key) : err_number(r->err);
}

static int wrong_type(struct item_reader *r, const struct json *j, const char *key,
                      const char *expected)
{
    err_set(r->err, ERR_POLICY, "expected %s, found %s", expected, json_type_name(json_type(j)));
    return fail_at(r, j, key);
}

static int read_text(struct item_reader *r, const struct json *j, const char *key,
                     const char *expected, const char **ret)
{
    if (json_type(j) != JSON_STRING)
        return wrong_type(r, j, key, expected);
    *ret = json_string(j);
    return 0;
}

typedef int number_fn(const char *text, uint64_t *ret, struct err *err);

/* Whole numbers and texts with a unit, or the word; never 0, never null. */
static int read_limit(struct item_reader *r, const struct json *j, const char *key,
                      number_fn *parse, const char *expected, uint64_t *ret)
{
    char space[32];
    const char *text = space;
    if (json_type(j) == JSON_INT)
        snprintf(space, sizeof space, "%" PRId64, json_int(j));
    else if (json_type(j) == JSON_STRING)
        text = json_string(j);
    else
        return wrong_type(r, j, key, expected);
    if (strcmp(text, "unlimited") == 0) {
        *ret = POLICY_UNLIMITED;
        return 0;
    }
    int n = parse(text, ret, r->err);
    return n < 0 ? fail_at(r, j, key) : 0;
}

static int read_upload(struct item_reader *r, const struct json *j, uint64_t *ret)
{
    return read_limit(r, j, "upload", num_parse_size, "a size such as 10M", ret);
}

static int read_count(struct item_reader *r, const struct json *j, const char *key, uint64_t *ret)
{
    int n = read_limit(r, j, key, num_parse_count, "a count such as 60", ret);
    if (n < 0 || *ret == POLICY_UNLIMITED || *ret <= UINT32_MAX)
        return n;
    err_set(r->err, ERR_POLICY, "out of range, expected at most %u or unlimited", UINT32_MAX);
    return fail_at(r, j, key);
}

/* An empty list would have to mean "none" or "all", and people do not agree which: it is an error.
 */
static int read_list(struct item_reader *r, const struct json *j, const char *key,
                     int (*check)(const char *, struct err *), struct text_list *ret)
{
    if (json_type(j) != JSON_ARRAY)
        return wrong_type(r, j, key, "a list");
    if (json_count(j) == 0) {
        err_set(r->err, ERR_POLICY, "the list is empty, expected at least one");
        err_hint(r->err, "leave the key out where all are meant");
        return fail_at(r, j, key);
    }
    for (size_t i = 0; i < json_count(j); i++) {
        const struct json *item = json_at(j, i);
        const char *text = NULL;
        int n = read_text(r, item, key, "a text", &text);
        if (n < 0)
            return n;
        if (check(text, r->err) < 0 || list_add(ret, text, r->err) < 0)
            return fail_at(r, item, key);
    }
    return 0;
}

/* ---- the members of a mapping ---- */

struct member {
    const char *key;
    int (*read)(struct item_reader *r, const struct json *value, void *out);
    bool wire_only;
};

static int unknown_key(struct item_reader *r, const struct json *item, size_t i, const char *what)
{
    key_unknown(what, json_key_at(item, i), r->err);
    r->at = (struct item_place){json_key_line_at(item, i), json_key_column_at(item, i)};
    return err_number(r->err);
}

static int read_members(struct item_reader *r, const struct json *item,
                        const struct member *members, size_t count, const char *what, void *out)
{
    for (size_t i = 0; i < json_count(item); i++) {
        const char *key = json_key_at(item, i);
        const struct member *m = NULL;
        for (size_t k = 0; k < count; k++) {
            if (strcmp(members[k].key, key) == 0 && (r->wire || !members[k].wire_only))
                m = &members[k];
        }
        if (!m)
            return unknown_key(r, item, i, what);
        int n = m->read(r, json_value_at(item, i), out);
        if (n < 0)
            return n;
    }
    return 0;
}

static int missing(struct item_reader *r, const struct json *item, const char *key)
{
    err_set(r->err, ERR_POLICY, "%s is missing", key);
    return fail_at(r, item, NULL);
}

/* ---- rules ---- */

static int rule_host(struct item_reader *r, const struct json *j, void *out)
{
    struct rule_draft *d = out;
    const char *text = NULL;
    struct quoted q;
    int n = read_text(r, j, "host", "a host such as example.org", &text);
    if (n < 0)
        return n;
    if (host_pattern_parse(text, strlen(text), &d->place.host, r->err) == 0)
        return 0;
    err_wrap(r->err, "%s is not a host", quote(&q, text));
    return fail_at(r, j, "host");
}

static int rule_scheme(struct item_reader *r, const struct json *j, void *out)
{
    struct rule_draft *d = out;
    const char *text = NULL;
    struct quoted q;
    int n = read_text(r, j, "scheme", "http, https, tcp or any", &text);
    if (n < 0)
        return n;
    d->place.has_scheme = true;
    if (scheme_parse(text, strlen(text), &d->place.scheme) == 0)
        return 0;
    err_set(r->err, ERR_POLICY, "unknown value %s, expected http, https, tcp or any",
            quote(&q, text));
    return fail_at(r, j, "scheme");
}

static int rule_port(struct item_reader *r, const struct json *j, void *out)
{
    struct rule_draft *d = out;
    if (json_type(j) != JSON_INT)
        return wrong_type(r, j, "port", "1 to 65535");
    if (json_int(j) < 1 || json_int(j) > UINT16_MAX) {
        err_set(r->err, ERR_POLICY, "%" PRId64 " is out of range, expected 1 to 65535",
                json_int(j));
        return fail_at(r, j, "port");
    }
    d->place.port = (uint16_t)json_int(j);
    return 0;
}

static int rule_address(struct item_reader *r, const struct json *j, void *out)
{
    struct rule_draft *d = out;
    const char *text = NULL;
    int n = read_text(r, j, "address", "an address such as 10.0.0.5", &text);
    if (n < 0)
        return n;
    d->place.pinned = true;
    return address_parse(text, &d->place.address, r->err) < 0 ? fail_at(r, j, "address") : 0;
}

static int rule_methods(struct item_reader *r, const struct json *j, void *out)
{
    struct rule_draft *d = out;
    return read_list(r, j, "methods", method_check, &d->methods);
}

static int rule_paths(struct item_reader *r, const struct json *j, void *out)
{
    struct rule_draft *d = out;
    return read_list(r, j, "paths", path_pattern_check, &d->paths);
}

static int rule_pass(struct item_reader *r, const struct json *j, void *out)
{
    struct rule_draft *d = out;
    return read_list(r, j, "pass", pass_check, &d->pass);
}

static int rule_upload(struct item_reader *r, const struct json *j, void *out)
{
    return read_upload(r, j, &((struct rule_draft *)out)->upload);
}

static int rule_connections(struct item_reader *r, const struct json *j, void *out)
{
    return read_count(r, j, "max_connections", &((struct rule_draft *)out)->max_connections);
}

static int rule_requests(struct item_reader *r, const struct json *j, void *out)
{
    return read_count(r, j, "requests", &((struct rule_draft *)out)->requests);
}

static int rule_implied(struct item_reader *r, const struct json *j, void *out)
{
    if (json_type(j) != JSON_BOOL)
        return wrong_type(r, j, "implied", "true or false");
    ((struct rule_draft *)out)->implied = json_bool(j);
    return 0;
}

static int rule_budget_name(struct item_reader *r, const struct json *j, void *out)
{
    return read_text(r, j, "budget", "a text", &((struct rule_draft *)out)->budget);
}

static int read_rule_mapping(struct item_reader *r, const struct json *item)
{
    static const struct member members[] = {
        {"host", rule_host, false},
        {"scheme", rule_scheme, false},
        {"port", rule_port, false},
        {"address", rule_address, false},
        {"methods", rule_methods, false},
        {"paths", rule_paths, false},
        {"pass", rule_pass, false},
        {"upload", rule_upload, false},
        {"max_connections", rule_connections, false},
        {"requests", rule_requests, false},
        {"budget", rule_budget_name, true},
        {"implied", rule_implied, true},
    };
    __attribute__((cleanup(rule_draft_done))) struct rule_draft d;
    rule_draft_init(&d, &r->origin);
    int n = read_members(r, item, members, ARRAY_LEN(members), "network.allow", &d);
    if (n < 0)
        return n;
    if (!json_get(item, "host"))
        return missing(r, item, "host");
    return rule_draft_add(r->e, &d, r->err) < 0 ? fail_at(r, item, NULL) : 0;
}

int item_read_rule(struct item_reader *r, const struct json *item)
{
    if (json_type(item) == JSON_OBJECT)
        return read_rule_mapping(r, item);
    if (json_type(item) != JSON_STRING)
        return wrong_type(r, item, NULL, "a rule such as api.example.org, or a mapping with host");
    if (egress_allow(r->e, json_string(item), &r->origin, r->err) < 0)
        return fail_at(r, item, NULL);
    return 0;
}

int item_read_blocked(struct item_reader *r, const struct json *item)
{
    const char *text = NULL;
    int n = read_text(r, item, NULL, "a host such as ads.example.org", &text);
    if (n < 0)
        return n;
    return egress_block(r->e, text, r->err) < 0 ? fail_at(r, item, NULL) : 0;
}

/* ---- secrets ---- */

/* Members that are one text, and what makes of it a part of the secret. */
static int text_member(struct item_reader *r, const struct json *j, const char *key,
                       const char *expected,
                       int (*set)(struct egress_secret *, const char *, struct err *), void *out)
{
    const char *text = NULL;
    int n = read_text(r, j, key, expected, &text);
    if (n < 0)
        return n;
    return set(out, text, r->err) < 0 ? fail_at(r, j, key) : 0;
}

static int secret_name(struct item_reader *r, const struct json *j, void *out)
{
    return text_member(r, j, "name", "the name of a variable", secret_set_name, out);
}

static int secret_source(struct item_reader *r, const struct json *j, void *out)
{
    return text_member(r, j, "source", "a source such as env:NAME", secret_set_source, out);
}

static int secret_origin(struct item_reader *r, const struct json *j, void *out)
{
    struct egress_secret *s = out;
    size_t before = s->paths.count;
    int n = text_member(r, j, "origin", "an origin such as https://api.example.org",
                        secret_set_origin, out);
    if (n == 0 && s->paths.count > before) {
        err_set(r->err, ERR_POLICY,
                "a path, expected https://HOST[:PORT] (paths have their own key)");
        return fail_at(r, j, "origin");
    }
    return n;
}

static int secret_methods(struct item_reader *r, const struct json *j, void *out)
{
    return read_list(r, j, "methods", method_check, &((struct egress_secret *)out)->methods);
}

static int secret_paths(struct item_reader *r, const struct json *j, void *out)
{
    return read_list(r, j, "paths", path_pattern_check, &((struct egress_secret *)out)->paths);
}

/* One of header, query and basic: `inject_name` is still empty before the first of them. */
static int form_member(struct item_reader *r, const struct json *j, const char *key,
                       const char *expected,
                       int (*set)(struct egress_secret *, const char *, struct err *), void *out)
{
    const struct egress_secret *s = out;
    if (s->inject_name || s->form != INJECT_HEADER) {
        err_set(r->err, ERR_POLICY, "a second form, expected one of header, query and basic");
        return fail_at(r, j, key);
    }
    return text_member(r, j, key, expected, set, out);
}

static int set_header_or_none(struct egress_secret *s, const char *text, struct err *err)
{
    if (strcmp(text, "none") != 0)
        return secret_set_header(s, text, err);
    s->form = INJECT_NONE;
    return 0;
}

static int secret_header(struct item_reader *r, const struct json *j, void *out)
{
    return form_member(r, j, "header", "a header such as \"Authorization: Bearer {}\", or none",
                       set_header_or_none, out);
}

static int secret_query(struct item_reader *r, const struct json *j, void *out)
{
    return form_member(r, j, "query", "the name of a query parameter", secret_set_query, out);
}

static int secret_basic(struct item_reader *r, const struct json *j, void *out)
{
    return form_member(r, j, "basic", "a user name", secret_set_basic, out);
}

static int secret_swap(struct item_reader *r, const struct json *j, void *out)
{
    struct egress_secret *s = out;
    static const char expected[] = "[header], [header, body], [body] or none";
    s->swap_header = s->swap_body = false;
    if (json_type(j) == JSON_STRING && strcmp(json_string(j), "none") == 0)
        return 0;
    if (json_type(j) != JSON_ARRAY || json_count(j) == 0) {
        err_set(r->err, ERR_POLICY, "expected %s", expected);
        return fail_at(r, j, "swap");
    }
    for (size_t i = 0; i < json_count(j); i++) {
        const char *word = json_string(json_at(j, i));
        bool header = word && strcmp(word, "header") == 0;
        bool body = word && strcmp(word, "body") == 0;
        if ((!header && !body) || (header && s->swap_header) || (body && s->swap_body)) {
            err_set(r->err, ERR_POLICY, "expected %s", expected);
            return fail_at(r, json_at(j, i), "swap");
        }
        s->swap_header |= header;
        s->swap_body |= body;
    }
    return 0;
}

static int secret_ttl(struct item_reader *r, const struct json *j, void *out)
{
    return read_limit(r, j, "ttl", num_parse_duration, "a duration such as 10m",
                      &((struct egress_secret *)out)->ttl_ms);
}

static int set_placeholder(struct egress_secret *s, const char *text, struct err *err)
{
    size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyz_0123456789");
    if (len < 16 || text[len] || len > 128)
        return err_set(err, ERR_POLICY, "not a placeholder");
    free(s->placeholder);
    s->placeholder = strdup(text);
    return s->placeholder ? 0 : err_memory(err);
}

static int secret_placeholder(struct item_reader *r, const struct json *j, void *out)
{
    return text_member(r, j, "placeholder", "a text", set_placeholder, out);
}

static int secret_hidden(struct item_reader *r, const struct json *j, void *out)
{
    if (json_type(j) != JSON_BOOL)
        return wrong_type(r, j, "hidden", "true or false");
    ((struct egress_secret *)out)->hidden = json_bool(j);
    return 0;
}

static int read_secret_mapping(struct item_reader *r, const struct json *item)
{
    static const struct member members[] = {
        {"name", secret_name, false},
        {"source", secret_source, false},
        {"origin", secret_origin, false},
        {"methods", secret_methods, false},
        {"paths", secret_paths, false},
        {"header", secret_header, false},
        {"query", secret_query, false},
        {"basic", secret_basic, false},
        {"swap", secret_swap, false},
        {"ttl", secret_ttl, false},
        {"placeholder", secret_placeholder, true},
        {"hidden", secret_hidden, true},
    };
    static const char *const needed[] = {"name", "source", "origin"};
    __attribute__((cleanup(secret_done))) struct egress_secret s;
    secret_init(&s, &r->origin);
    int n = read_members(r, item, members, ARRAY_LEN(members), "credentials.secrets", &s);
    if (n < 0)
        return n;
    for (size_t i = 0; i < ARRAY_LEN(needed); i++) {
        if (!json_get(item, needed[i]))
            return missing(r, item, needed[i]);
    }
    n = secret_insert(r->e, &s, r->err);
    if (n == 0 && !r->wire)
        n = secrets_imply(r->e, r->err);
    return n < 0 ? fail_at(r, item, NULL) : 0;
}

int item_read_secret(struct item_reader *r, const struct json *item)
{
    if (json_type(item) == JSON_OBJECT)
        return read_secret_mapping(r, item);
    if (json_type(item) != JSON_STRING || r->wire)
        return wrong_type(r, item, NULL,
                          "a secret such as TOKEN=env:TOKEN@https://api.example.org, or a mapping "
                          "with name, source and origin");
    if (egress_secret(r->e, json_string(item), &r->origin, r->err) < 0)
        return fail_at(r, item, NULL);
    return 0;
}

/* ---- the whole ---- */

static int read_items(struct item_reader *r, const struct json *list, const char *key,
                      int (*read)(struct item_reader *, const struct json *))
{
    if (json_type(list) != JSON_ARRAY)
        return wrong_type(r, list, key, "a list");
    for (size_t i = 0; i < json_count(list); i++) {
        int n = read(r, json_at(list, i));
        if (n < 0)
            return n;
    }
    return 0;
}

static int all_rules(struct item_reader *r, const struct json *j, void *out)
{
    (void)out;
    return read_items(r, j, "rules", item_read_rule);
}

static int all_blocked(struct item_reader *r, const struct json *j, void *out)
{
    (void)out;
    return read_items(r, j, "blocked", item_read_blocked);
}

static int all_secrets(struct item_reader *r, const struct json *j, void *out)
{
    (void)out;
    return read_items(r, j, "secrets", item_read_secret);
}

static int all_upload(struct item_reader *r, const struct json *j, void *out)
{
    return read_upload(r, j, &((struct egress *)out)->upload);
}

static int all_connections(struct item_reader *r, const struct json *j, void *out)
{
    return read_count(r, j, "max_connections", &((struct egress *)out)->max_connections);
}

static int all_requests(struct item_reader *r, const struct json *j, void *out)
{
    return read_count(r, j, "requests", &((struct egress *)out)->requests);
}

static int all_ask(struct item_reader *r, const struct json *j, void *out)
{
    (void)out;
    return egress_ask_read(r, j);
}

static int all_live(struct item_reader *r, const struct json *j, void *out)
{
    if (json_type(j) != JSON_BOOL)
        return wrong_type(r, j, "live", "true or false");
    ((struct egress *)out)->live = json_bool(j);
    return 0;
}

static int read_whole(struct item_reader *r, const struct json *j)
{
    static const struct member members[] = {
        {"rules", all_rules, true},
        {"blocked", all_blocked, true},
        {"secrets", all_secrets, true},
        {"upload", all_upload, true},
        {"max_connections", all_connections, true},
        {"requests", all_requests, true},
        {"ask", all_ask, true},
        {"live", all_live, true},
    };
    const size_t needed = 6; /* the others may be left out */
    if (json_type(j) != JSON_OBJECT)
        return wrong_type(r, j, NULL, "the rules of a run");
    for (size_t i = 0; i < needed; i++) {
        if (!json_get(j, members[i].key))
            return missing(r, j, members[i].key);
    }
    return read_members(r, j, members, ARRAY_LEN(members), "egress", r->e);
}

int egress_read_json(struct egress *e, const struct json *j, struct err *err)
{
    struct err ignored = ERR_INIT;
    struct item_reader r = {.e = e, .wire = true, .err = err ? err : &ignored};
    egress_init(e);
    int n = read_whole(&r, j);
    if (n < 0) {
        egress_done(e);
        n = err_wrap(r.err, "egress:%u:%u", r.at.line, r.at.column);
    }
    return n;
}
