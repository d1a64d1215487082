/* One reading of a request: what could make a server see another one than was decided on.
 *
 * N-16 What the head says a second time about method, path or host is part of the decision
 *      (egress_decide); here is what that leaves: secrets that go by method or path, second words
 * on the host, and a method in the body, which is looked for before it leaves. */
#include "proxy/session.h"

#include <string.h>
#include <strings.h>

static const struct doubt method_member = {.kind = DOUBT_METHOD, .query = true, .name = "_method"};

const struct egress_rule *reading_rule(const struct session *s)
{
    const struct egress *e = &s->px->rules->egress;
    return s->x->rule < e->rule_count ? &e->rules[s->x->rule] : NULL;
}

static enum step refuse_doubt(struct session *s, const struct doubt *d)
{
    char hint[DENY_HINT_MAX];
    deny_doubt_hint(d, hint);
    return refuse(s, DENY_AMBIGUOUS, hint);
}

static bool secret_depends(const struct session *s)
{
    const struct target *t = &s->x->target;
    return inject_depends(&s->px->rules->egress, &t->host, t->port);
}

enum step reading_check(struct session *s)
{
    const struct doubt *d = secret_depends(s) ? doubts_open(&s->x->doubts, reading_rule(s)) : NULL;
    return d ? refuse_doubt(s, d) : STEP_ON;
}

void reading_take_hosts(struct session *s)
{
    struct http_headers *h = &s->x->request.headers;
    const struct egress_rule *rule = reading_rule(s);
    for (size_t i = 0; i < h->count;) {
        const char *name = h->items[i].name;
        if (doubt_is_host(name) && !(rule && rule_passes(rule, name, strlen(name), false)))
            http_header_remove_at(h, i);
        else
            i++;
    }
}

/* ---- a method in the body ---- */

static bool method_matters(const struct session *s)
{
    const struct egress_rule *rule = reading_rule(s);
    if (!rule || rule_passes(rule, method_member.name, strlen(method_member.name), true))
        return false;
    return rule->methods.count || secret_depends(s);
}

static bool is_encoded(const struct http_request *r)
{
    const char *coding = http_header_get(&r->headers, "Content-Encoding");
    return coding && (strcasecmp(coding, "identity") != 0 ||
                      http_header_count(&r->headers, "Content-Encoding") > 1);
}

enum step reading_watch_body(struct session *s)
{
    struct exchange *x = s->x;
    struct err err = ERR_INIT;
    const char *type = http_header_get(&x->request.headers, "Content-Type");
    enum form_kind kind = form_kind_of(type);
    if (x->body.done || !method_matters(s))
        return STEP_ON;
    if (http_header_count(&x->request.headers, "Content-Type") > 1)
        return refuse(s, DENY_AMBIGUOUS, "send one Content-Type");
    if (kind == FORM_UNCLEAR)
        return refuse(s, DENY_AMBIGUOUS, "send a Content-Type that names one kind of form");
    if (kind == FORM_NONE)
        return STEP_ON;
    if (is_encoded(&x->request))
        return refuse(s, DENY_AMBIGUOUS,
                      "send it without Content-Encoding, or name ?_method in the rule's pass");
    if (form_open(kind, type, doubt_is_method, &x->form, &err) < 0)
        return refuse(s, DENY_MALFORMED, NULL);
    return STEP_ON;
}

enum step reading_body(struct session *s, const char *piece, size_t len)
{
    struct err err = ERR_INIT;
    int r = s->x->form ? form_feed(s->x->form, piece, len, &err) : 0;
    if (r > 0)
        return refuse_doubt(s, &method_member);
    if (r == 0)
        return STEP_ON;
    exchange_note(s->x, err.message);
    return refuse(s, DENY_MALFORMED, NULL);
}
