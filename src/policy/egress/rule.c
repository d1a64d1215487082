/* Rules: what a text or a mapping says becomes one rule or two, each kept once, the most specific
 * first, so that what is enforced does not depend on the order in which it was written. */
#include "base/cleanup.h"
#include "base/quote.h"
#include "base/sha256.h"
#include "policy/egress/internal.h"
#include "policy/egress/presets.h"

#include <stdio.h>
#include <string.h>

#define RULE_TEXT_MAX 240

void rule_done(struct egress_rule *r)
{
    list_done(&r->methods);
    list_done(&r->paths);
    list_done(&r->pass);
    free(r->text);
    free(r->budget);
    *r = (struct egress_rule){0};
}
#define cleanup_rule __attribute__((cleanup(rule_done)))

/* ---- texts ---- */

static void host_text(const struct host *h, struct buf *out)
{
    buf_fmt(out, h->kind == HOST_IPV6 ? "[%s]" : "%s", h->text);
}

void pattern_text(const struct host_pattern *p, struct buf *out)
{
    static const char *const stars[] = {"", "*.", "**."};
    if (p->stars == STARS_RANGE) {
        buf_fmt(out, "[%s/%u]", p->host.text, p->bits);
        return;
    }
    buf_str(out, stars[p->stars]);
    host_text(&p->host, out);
}

void origin_text(enum scheme scheme, const struct host *host, uint16_t port, struct buf *out)
{
    buf_fmt(out, "%s://", scheme_name(scheme));
    host_text(host, out);
    buf_fmt(out, ":%u", port);
}

static void full_text(const struct egress_rule *r, struct buf *out)
{
    for (size_t i = 0; i < r->methods.count; i++)
        buf_fmt(out, "%s%s", i ? "," : "", r->methods.items[i]);
    if (r->methods.count)
        buf_chr(out, ' ');
    /* Without a scheme these two ports would be read as http and https. */
    if (r->scheme != SCHEME_ANY || r->port == 80 || r->port == 443)
        buf_fmt(out, "%s://", scheme_name(r->scheme));
    pattern_text(&r->host, out);
    buf_fmt(out, ":%u", r->port);
    if (r->pinned) {
        buf_chr(out, '=');
        host_text(&r->address, out);
    }
    for (size_t i = 0; i < r->paths.count; i++)
        buf_fmt(out, "%s%s", i ? " " : "", r->paths.items[i]);
}

/* Events carry this text and budgets are found by it: short, and still not two the same. */
int rule_make_text(struct egress_rule *r, struct err *err)
{
    cleanup_buf struct buf text;
    char hex[SHA256_HEX_SIZE];
    buf_init(&text, 2 * EGRESS_TEXT_MAX);
    full_text(r, &text);
    free(r->text);
    r->text = NULL;
    if (text.len <= RULE_TEXT_MAX) {
        r->text = text.failed ? NULL : strdup(buf_text(&text));
        return r->text ? 0 : err_memory(err);
    }
    sha256_hex(buf_text(&text), text.len, hex);
    size_t size = RULE_TEXT_MAX + 32;
    r->text = malloc(size);
    if (!r->text || text.failed)
        return err_memory(err);
    snprintf(r->text, size, "%.*s… (%.12s)", RULE_TEXT_MAX, buf_text(&text), hex);
    return 0;
}

/* ---- budgets ---- */

const char *rule_budget(const struct egress_rule *r)
{
    return r->budget ? r->budget : r->text;
}

bool rule_is_counted(const struct egress_rule *r)
{
    return r->upload != POLICY_UNLIMITED || r->max_connections != POLICY_UNLIMITED ||
           r->requests != POLICY_UNLIMITED;
}

int rule_share_budget(struct egress_rule *r, const struct egress_rule *of, struct err *err)
{
    if (!rule_is_counted(of))
        return 0;
    char *budget = strdup(rule_budget(of));
    if (!budget)
        return err_memory(err);
    free(r->budget);
    r->budget = budget;
    return 0;
}

/* ---- order ---- */

bool pattern_equal(const struct host_pattern *a, const struct host_pattern *b)
{
    return a->stars == b->stars && a->bits == b->bits && host_equal(&a->host, &b->host);
}

bool pattern_covers(const struct host_pattern *a, const struct host_pattern *b)
{
    if (pattern_equal(a, b))
        return true;
    if (b->stars == STARS_NONE)
        return host_pattern_match(a, &b->host);
    if (a->stars == STARS_RANGE || b->stars == STARS_RANGE)
        return a->stars == b->stars && a->bits < b->bits && host_pattern_match(a, &b->host);
    /* Some names in front of b's tail: all of them end in what stands behind a's stars only if b's
     * tail is that, or ends in it behind a dot; one star cannot stand for more than one part. */
    return a->stars == STARS_MANY &&
           (host_equal(&a->host, &b->host) || host_pattern_match(a, &b->host));
}

static int compare_lists(const struct text_list *a, const struct text_list *b)
{
    /* A list narrows, so that none comes last. */
    if (!a->count != !b->count)
        return a->count ? -1 : 1;
    for (size_t i = 0; i < a->count && i < b->count; i++) {
        int r = strcmp(a->items[i], b->items[i]);
        if (r)
            return r;
    }
    return a->count < b->count ? -1 : a->count > b->count;
}

static int compare_hosts(const struct host_pattern *a, const struct host_pattern *b)
{
    size_t a_len = strlen(a->host.text);
    size_t b_len = strlen(b->host.text);
    if (a->stars != b->stars)
        return a->stars < b->stars ? -1 : 1;
    if (a->bits != b->bits)
        return a->bits > b->bits ? -1 : 1;
    if (a_len != b_len)
        return a_len > b_len ? -1 : 1;
    return strcmp(a->host.text, b->host.text);
}

static int rule_compare(const struct egress_rule *a, const struct egress_rule *b)
{
    int r = compare_hosts(&a->host, &b->host);
    if (r)
        return r;
    if (a->port != b->port)
        return a->port < b->port ? -1 : 1;
    if (a->scheme != b->scheme) {
        if (a->scheme == SCHEME_ANY || b->scheme == SCHEME_ANY)
            return a->scheme == SCHEME_ANY ? 1 : -1;
        return a->scheme < b->scheme ? -1 : 1;
    }
    r = compare_lists(&a->paths, &b->paths);
    return r ? r : compare_lists(&a->methods, &b->methods);
}

/* ---- each rule once ---- */

static bool same_place(const struct egress_rule *a, const struct egress_rule *b)
{
    return a->scheme == b->scheme && a->port == b->port && pattern_equal(&a->host, &b->host);
}

static bool same_pin(const struct egress_rule *a, const struct egress_rule *b)
{
    return a->pinned == b->pinned && (!a->pinned || host_equal(&a->address, &b->address));
}

static bool same_lists(const struct egress_rule *a, const struct egress_rule *b)
{
    return list_equal(&a->methods, &b->methods) && list_equal(&a->paths, &b->paths);
}

static bool same_limits(const struct egress_rule *a, const struct egress_rule *b)
{
    return a->upload == b->upload && a->max_connections == b->max_connections &&
           a->requests == b->requests && list_equal(&a->pass, &b->pass);
}

/* Everything that b leads to, a leads to as well (methods and paths aside). */
static bool reaches(const struct egress_rule *a, const struct egress_rule *b)
{
    return a->port == b->port && (a->scheme == b->scheme || a->scheme == SCHEME_ANY) &&
           pattern_covers(&a->host, &b->host);
}

static void remove_at(struct egress *e, size_t i)
{
    rule_done(&e->rules[i]);
    memmove(&e->rules[i], &e->rules[i + 1], (--e->rule_count - i) * sizeof *e->rules);
}

static bool same_file(const struct origin *a, const struct origin *b)
{
    return a->kind == ORIGIN_FILE && b->kind == ORIGIN_FILE && strcmp(a->name, b->name) == 0;
}

static int contradicts(const struct egress_rule *old, const struct egress_rule *r, struct err *err)
{
    struct quoted q;
    if (!same_pin(old, r) && old->pinned)
        return err_set(err, ERR_USAGE, "%s is pinned to %s already, expected one address",
                       quote(&q, r->text), old->address.text);
    if (!same_pin(old, r))
        return err_set(err, ERR_USAGE,
                       "%s is allowed already without an address, expected one rule",
                       quote(&q, old->text));
    return err_set(err, ERR_USAGE, "%s is allowed already with other limits", quote(&q, r->text));
}

enum settled {
    SETTLED_ADD,
    SETTLED_SKIP,
};

/* What to do about a rule for the same place. Negative: they contradict each other. */
static int settle(struct egress *e, size_t i, const struct egress_rule *r, struct err *err)
{
    const struct egress_rule *old = &e->rules[i];
    struct quoted q;
    /* What a preset brings along contradicts nobody and widens nothing: one's own rule stands. */
    if (r->preset)
        return SETTLED_SKIP;
    if (old->preset) {
        remove_at(e, i);
        return SETTLED_ADD;
    }
    if (same_pin(old, r) && !same_lists(old, r))
        return SETTLED_ADD;
    if (same_pin(old, r) && same_limits(old, r)) {
        if (same_file(&old->origin, &r->origin))
            return err_set(err, ERR_USAGE,
                           "%s is allowed already (line %u), expected each rule once",
                           quote(&q, r->text), old->origin.line);
        return SETTLED_SKIP;
    }
    if (old->origin.kind == r->origin.kind)
        return contradicts(old, r, err);
    if (old->origin.kind > r->origin.kind)
        return SETTLED_SKIP;
    remove_at(e, i);
    return SETTLED_ADD;
}

/* The rule that a secret implies is needed only if no other rule covers it. */
static bool implied_needless(const struct egress *e, const struct egress_rule *r)
{
    for (size_t i = 0; i < e->rule_count; i++) {
        const struct egress_rule *old = &e->rules[i];
        if (reaches(old, r) && (!old->implied || (same_place(old, r) && same_lists(old, r))))
            return true;
    }
    return false;
}

static int settle_all(struct egress *e, const struct egress_rule *r, struct err *err)
{
    if (r->implied)
        return implied_needless(e, r) ? SETTLED_SKIP : SETTLED_ADD;
    for (size_t i = e->rule_count; i-- > 0;) {
        const struct egress_rule *old = &e->rules[i];
        int s = SETTLED_ADD;
        if (old->implied && reaches(r, old))
            remove_at(e, i);
        else if (!old->implied && same_place(old, r))
            s = settle(e, i, r, err);
        if (s != SETTLED_ADD)
            return s;
    }
    return SETTLED_ADD;
}

int rule_insert(struct egress *e, struct egress_rule *r, struct err *err)
{
    cleanup_rule struct egress_rule own = *r;
    *r = (struct egress_rule){0};
    int s = rule_make_text(&own, err);
    if (s < 0 || (s = settle_all(e, &own, err)) != SETTLED_ADD)
        return s < 0 ? s : 0;
    if (e->rule_count >= EGRESS_RULES_MAX)
        return err_set(err, ERR_LIMIT, "too many rules, expected at most %d", EGRESS_RULES_MAX);
    struct egress_rule *rules = realloc(e->rules, (e->rule_count + 1) * sizeof *rules);
    if (!rules)
        return err_memory(err);
    e->rules = rules;
    size_t at = e->rule_count++;
    for (; at > 0 && rule_compare(&rules[at - 1], &own) > 0; at--)
        rules[at] = rules[at - 1];
    rules[at] = own;
    own = (struct egress_rule){0};
    return egress_check_text(e, err);
}

/* ---- from what was written ---- */

void rule_draft_init(struct rule_draft *d, const struct origin *origin)
{
    *d = (struct rule_draft){
        .upload = POLICY_UNLIMITED,
        .max_connections = POLICY_UNLIMITED,
        .requests = POLICY_UNLIMITED,
        .origin = *origin,
    };
}

void rule_draft_done(struct rule_draft *d)
{
    list_done(&d->methods);
    list_done(&d->paths);
    list_done(&d->pass);
}

static int check_draft(const struct rule_draft *d, enum scheme scheme, uint16_t port,
                       struct err *err)
{
    const struct place_spec *p = &d->place;
    bool literal = p->host.host.kind != HOST_NAME;
    if (port == 0)
        return err_set(err, ERR_USAGE, "%s has no port of its own, expected HOST:PORT",
                       scheme_name(scheme));
    if ((d->methods.count || d->paths.count || d->pass.count) && scheme != SCHEME_HTTP &&
        scheme != SCHEME_HTTPS)
        return err_set(
            err, ERR_USAGE,
            "methods, paths and pass exist in http and https only, expected one of these as "
            "scheme");
    if (p->host.stars == STARS_RANGE && p->pinned)
        return err_set(err, ERR_USAGE, "a range cannot be pinned, expected one address or name");
    if (p->host.stars == STARS_RANGE && p->host.bits == 0) {
        err_set(err, ERR_USAGE, "a range of all addresses, expected hosts");
        return err_hint(err, "name what is needed: names stay closed under such a rule");
    }
    int r = refuse_local_range(&p->host, err);
    if (r < 0)
        return r;
    if (literal && p->pinned && !host_equal(&p->host.host, &p->address))
        return err_set(err, ERR_USAGE, "an address cannot be pinned to another address");
    return 0;
}

/* Without scheme and port two rules are made of one, which is still one rule: what was written
 * names their budget. */
static int name_budget(struct egress_rule *r, const struct rule_draft *d, struct err *err)
{
    if (d->budget) {
        r->budget = strdup(d->budget);
        return r->budget ? 0 : err_memory(err);
    }
    if (d->place.has_scheme || d->place.port)
        return 0;
    struct egress_rule written = *r;
    written.scheme = SCHEME_ANY;
    written.port = 0;
    written.text = written.budget = NULL;
    int result = rule_make_text(&written, err);
    if (result == 0)
        result = rule_share_budget(r, &written, err);
    free(written.text);
    return result;
}

static int add_one(struct egress *e, const struct rule_draft *d, enum scheme scheme, uint16_t port,
                   struct err *err)
{
    const struct place_spec *p = &d->place;
    int r = check_draft(d, scheme, port, err);
    if (r < 0)
        return r;
    cleanup_rule struct egress_rule rule = {
        .host = p->host,
        .scheme = scheme,
        .port = port,
        .pinned = p->pinned,
        .address = p->pinned ? p->address : (struct host){0},
        .upload = d->upload,
        .max_connections = d->max_connections,
        .requests = d->requests,
        .implied = d->implied,
        .preset = d->preset,
        .origin = d->origin,
    };
    if ((r = list_copy(&rule.methods, &d->methods, err)) < 0 ||
        (r = list_copy(&rule.paths, &d->paths, err)) < 0 ||
        (r = list_copy(&rule.pass, &d->pass, err)) < 0 || (r = name_budget(&rule, d, err)) < 0)
        return r;
    return rule_insert(e, &rule, err);
}

int rule_draft_add(struct egress *e, const struct rule_draft *d, struct err *err)
{
    const struct place_spec *p = &d->place;
    if (p->has_scheme)
        return add_one(e, d, p->scheme, p->port ? p->port : scheme_port(p->scheme), err);
    if (p->port)
        return add_one(e, d,
                       p->port == 80    ? SCHEME_HTTP
                       : p->port == 443 ? SCHEME_HTTPS
                                        : SCHEME_ANY,
                       p->port, err);
    int r = add_one(e, d, SCHEME_HTTP, 80, err);
    return r < 0 ? r : add_one(e, d, SCHEME_HTTPS, 443, err);
}

#define cleanup_draft __attribute__((cleanup(rule_draft_done)))

static int allow_one(struct egress *e, const char *spec, const struct origin *origin,
                     const char *preset, struct err *err)
{
    cleanup_draft struct rule_draft d;
    struct quoted q;
    rule_draft_init(&d, origin);
    d.preset = preset;
    int r = place_parse(spec, true, true, &d.place, err);
    if (r < 0)
        return r;
    if (d.place.path && (r = path_pattern_check(d.place.path, err)) == 0)
        r = list_add(&d.paths, d.place.path, err);
    if (r < 0)
        return err_wrap(err, "%s", quote(&q, spec));
    return rule_draft_add(e, &d, err);
}

static int no_preset(const char *name, struct err *err)
{
    struct quoted q;
    cleanup_buf struct buf names;
    const struct preset *p;
    buf_init(&names, 1024);
    for (size_t i = 0; (p = preset_at(i)); i++)
        buf_fmt(&names, "%s%s", i ? " " : "", p->name);
    err_set(err, ERR_USAGE, "there is no preset %s", quote(&q, name));
    return err_hint(err, "`brig policy presets` lists them: %s", buf_text(&names));
}

int egress_allow(struct egress *e, const char *spec, const struct origin *origin, struct err *err)
{
    if (spec[0] != '@')
        return allow_one(e, spec, origin, NULL, err);
    const struct preset *p = preset_find(spec);
    int r = p ? 0 : no_preset(spec, err);
    for (size_t i = 0; r >= 0 && i < PRESET_HOSTS_MAX && p->rules[i]; i++)
        r = allow_one(e, p->rules[i], origin, p->name, err);
    return r;
}
