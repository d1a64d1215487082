/* Which requests a browser, or a name that somebody else chose, may have sent here (D-03). Decides
 * on the parsed Host alone; nothing here depends on a key. */
#include "base/text.h"
#include "daemon/server/connection.h"

#include <stdio.h>
#include <string.h>

static bool is_this_machine(const struct host *h)
{
    static const uint8_t v4[4] = {127, 0, 0, 1}, v6[16] = {[15] = 1};
    switch (h->kind) {
    case HOST_NAME:
        return !strcmp(h->text, "localhost");
    case HOST_IPV4:
        return !memcmp(h->addr, v4, sizeof v4);
    case HOST_IPV6:
        return !memcmp(h->addr, v6, sizeof v6);
    }
    return false;
}

static bool is_below(const struct host *h, const struct host *above)
{
    size_t len = strlen(h->text), tail = strlen(above->text);
    return h->kind == HOST_NAME && len > tail + 1 && h->text[len - tail - 1] == '.' &&
           !strcmp(h->text + len - tail, above->text);
}

/* What is below localhost is this machine as well, whoever asks (RFC 6761): the ports of sandboxes
 * are called so where there is no other name. */
static const struct host_rule local_ports = {.host = {.text = "localhost"}, .below = true};

static const struct host_rule *find_rule(const struct server *s, const struct host *h)
{
    if (is_below(h, &local_ports.host))
        return &local_ports;
    for (size_t i = 0; i < s->host_count; i++) {
        const struct host_rule *rule = &s->hosts[i];
        if (rule->below ? is_below(h, &rule->host) : host_equal(h, &rule->host))
            return rule;
    }
    return NULL;
}

/* MCP's clients may name the server itself as their Origin, and its conformance test does. There is
 * no page of that origin: a browser never sends it. */
static bool is_mcp(const struct http_request *r)
{
    return is_this_machine(&r->host) && text_begins(r->target, "/mcp") &&
           (!r->target[4] || r->target[4] == '?');
}

/* A page that a sandbox itself serves, below one of our names, talks to itself: what it reaches is
 * the same port of the same sandbox. Nobody else who has an Origin is served. */
static bool is_own_page(const struct http_request *r, const struct host_rule *rule,
                        const char *origin)
{
    struct url u;
    if (!((rule && rule->below) || is_mcp(r)) || url_parse(origin, strlen(origin), &u, NULL) < 0 ||
        u.path_len || u.query)
        return false;
    uint16_t port = r->port ? r->port : u.scheme == SCHEME_HTTPS ? 443 : 80;
    return host_equal(&u.host, &r->host) && u.port == port;
}

static bool is_foreign_page(const struct http_request *r, const struct host_rule *rule)
{
    const char *origin = http_header_get(&r->headers, "Origin");
    const char *site = http_header_get(&r->headers, "Sec-Fetch-Site");
    if (origin && (http_header_count(&r->headers, "Origin") > 1 || !is_own_page(r, rule, origin)))
        return true;
    return site && strcmp(site, "none") != 0 && strcmp(site, "same-origin") != 0;
}

int host_check(const struct server *s, const struct http_request *r, bool local,
               const char **ret_why)
{
    const struct host_rule *rule = find_rule(s, &r->host);
    *ret_why = "requests for another host are not served here";
    if (r->form != FORM_ORIGIN) {
        *ret_why = "this is no proxy: the target of a request begins with a slash";
        return 400;
    }
    if (!local && !rule && (!r->host.text[0] || !is_this_machine(&r->host)))
        return 403;
    *ret_why = "requests of web pages are not served here";
    return is_foreign_page(r, rule) ? 403 : 0;
}
