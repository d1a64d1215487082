/* Headers that a request sets on what its sandbox sends to a host: bound as the operator's secrets
 * are, but only to origins that the rules lead to anyway. The values are not here: each stands in a
 * variable that the caller gives to brig-proxy alone. */
#include "policy/egress/headers.h"

#include "http/name.h"
#include "policy/egress/internal.h"

#include <stdio.h>
#include <string.h>

#define NAME_SIZE 48

static const struct origin request_origin = {.kind = ORIGIN_OPTION, .name = "network.rules"};

/* ---- who may be told something ---- */

static bool leads_to(const struct egress_rule *r, enum scheme scheme, const struct host *host)
{
    return r->scheme == scheme && host_pattern_match(&r->host, host);
}

static bool any_leads_to(const struct egress *rules, enum scheme scheme, const struct host *host)
{
    for (size_t i = 0; i < rules->rule_count; i++)
        if (leads_to(&rules->rules[i], scheme, host))
            return true;
    return false;
}

static int refuse_host(const struct egress *rules, const struct host *host, struct err *err)
{
    if (!egress_blocks(rules, host) && any_leads_to(rules, SCHEME_ANY, host)) {
        err_set(err, ERR_REFUSED, "the rules do not say whether http or https is spoken there");
        return err_hint(err, "a header needs a rule with a scheme, such as https://%s:8443",
                        host->text);
    }
    err_set(err, ERR_REFUSED, "no rule allows this host, and a header does not open it");
    return err_hint(err, "name it in network.allowOut too; hosts beyond the template's need an "
                         "operator key");
}

/* C-10: there the code acts as the operator's account or as nobody. */
static int refuse_bound(const struct egress_secret *s, struct err *err)
{
    err_set(err, ERR_REFUSED, "the template binds the secret %s to this host", s->name);
    return err_hint(err, "what is sent there besides is the operator's to say");
}

/* ---- binding ---- */

static bool has_name(const struct egress *e, const char *name)
{
    for (size_t i = 0; i < e->secret_count; i++)
        if (strcmp(e->secrets[i].name, name) == 0)
            return true;
    return false;
}

static void free_name(const struct egress *e, char out[static NAME_SIZE])
{
    unsigned number = 1;
    do
        snprintf(out, NAME_SIZE, "NETWORK_RULE_%u", number++);
    while (has_name(e, out));
}

static int bind_one(struct egress *e, const struct egress_header *h, const struct host *host,
                    enum scheme scheme, uint16_t port, struct err *err)
{
    __attribute__((cleanup(secret_done))) struct egress_secret s;
    char name[NAME_SIZE], source[NAME_SIZE], form[512];
    secret_init(&s, &request_origin);
    s.scheme = scheme;
    s.host = *host;
    s.port = port;
    s.swap_header = false;
    s.hidden = true;
    free_name(e, name);
    snprintf(source, sizeof source, "env:%s", h->variable);
    snprintf(form, sizeof form, "%s: %s", h->name, h->template);
    int r = secret_set_name(&s, name, err);
    if (r == 0)
        r = secret_set_source(&s, source, err);
    if (r == 0)
        r = secret_set_header(&s, form, err);
    return r < 0 ? r : secret_insert(e, &s, err);
}

/* Among the first `count`. */
static bool is_bound(const struct egress *e, size_t count, const struct host *host,
                     enum scheme scheme, uint16_t port, const struct egress_header *h)
{
    struct folded f;
    name_fold(h->name, strlen(h->name), false, &f);
    for (size_t i = 0; i < count; i++) {
        const struct egress_secret *s = &e->secrets[i];
        if (s->hidden && s->scheme == scheme && s->port == port && host_equal(&s->host, host) &&
            name_same(&f, s->inject_name))
            return true;
    }
    return false;
}

/* Rules may lead to one origin in several ways, by methods or paths. */
static int bind_all(struct egress *e, const struct egress *rules, const struct egress_header *h,
                    const struct host *host, enum scheme scheme, struct err *err)
{
    size_t before = e->secret_count;
    for (size_t i = 0; i < rules->rule_count; i++) {
        const struct egress_rule *r = &rules->rules[i];
        if (!leads_to(r, scheme, host))
            continue;
        if (is_bound(e, before, host, scheme, r->port, h))
            return err_set(err, ERR_USAGE, "the header %s is there twice", h->name);
        if (is_bound(e, e->secret_count, host, scheme, r->port, h))
            continue;
        int result = bind_one(e, h, host, scheme, r->port, err);
        if (result < 0)
            return result;
    }
    return 0;
}

int egress_bind_header(struct egress *e, const struct egress *rules, const struct egress_header *h,
                       struct err *err)
{
    struct host host;
    if (strchr(h->host, '*'))
        return err_set(err, ERR_USAGE,
                       "expected the name of one host: by a pattern the value would "
                       "go to hosts that nobody has named");
    int r = host_parse(h->host, strlen(h->host), false, &host, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < e->secret_count; i++)
        if (!e->secrets[i].hidden && host_equal(&e->secrets[i].host, &host))
            return refuse_bound(&e->secrets[i], err);
    bool https = any_leads_to(rules, SCHEME_HTTPS, &host);
    if (egress_blocks(rules, &host) || (!https && !any_leads_to(rules, SCHEME_HTTP, &host)))
        return refuse_host(rules, &host, err);
    return bind_all(e, rules, h, &host, https ? SCHEME_HTTPS : SCHEME_HTTP, err);
}
