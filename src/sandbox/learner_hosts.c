/* Denied places of the network, as rules. Only what a rule can name exactly, and what is public. */
#include "base/cleanup.h"
#include "http/host.h"
#include "network/decide.h"
#include "sandbox/learner.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* More names than this below one domain look like data that leaves in names. */
#define NAMES_OF_ONE_MAX 8
#define LABEL_PLAIN_MAX  30

static void describe(struct learner_host *h, const struct netlog_denied *d)
{
    if (h->name_only)
        snprintf(h->asked, sizeof h->asked, "its name was looked up");
    else
        snprintf(h->asked, sizeof h->asked, "%s%s%s%s%s:%u%s", d->method, d->method[0] ? " " : "",
                 d->scheme, d->scheme[0] ? "://" : "", d->host, d->port, d->path);
}

void learner_hear(void *learner, const struct netlog_denied *d)
{
    struct learner *l = learner;
    bool name_only = strcmp(d->entry, "dns") == 0;
    for (size_t i = 0; i < l->host_count; i++) {
        struct learner_host *h = &l->hosts[i];
        if (strcmp(h->host, d->host) == 0 && h->port == d->port && h->name_only == name_only &&
            strcmp(h->scheme, d->scheme) == 0 && strcmp(h->reason, d->reason) == 0) {
            h->count++;
            return;
        }
    }
    if (l->host_count == LEARNER_HOSTS_MAX) {
        l->dropped++;
        return;
    }
    struct learner_host *h = &l->hosts[l->host_count++];
    *h = (struct learner_host){.port = d->port, .name_only = name_only, .count = 1};
    snprintf(h->host, sizeof h->host, "%s", d->host);
    snprintf(h->scheme, sizeof h->scheme, "%s", d->scheme);
    snprintf(h->reason, sizeof h->reason, "%s", d->reason);
    snprintf(h->text, sizeof h->text, "%s", d->text);
    describe(h, d);
}

/* The last two parts of a name. */
static const char *domain_of(const char *name)
{
    unsigned dots = 0;
    const char *at = name + strlen(name);
    for (; at > name; at--)
        if (at[-1] == '.' && ++dots == 2)
            break;
    return at;
}

static unsigned names_below(const struct learner *r, const char *domain)
{
    unsigned names = 0;
    for (size_t i = 0; i < r->host_count; i++) {
        bool again = false;
        for (size_t k = 0; k < i && !again; k++)
            again = strcmp(r->hosts[k].host, r->hosts[i].host) == 0;
        names += !again && strcmp(domain_of(r->hosts[i].host), domain) == 0;
    }
    return names;
}

static bool is_local_name(const char *name)
{
    static const char *const ends[] = {".local", ".localhost", ".internal", ".lan",
                                       ".home",  ".corp",      ".intranet", ".home.arpa"};
    size_t len = strlen(name);
    if (!strchr(name, '.'))
        return true;
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        size_t n = strlen(ends[i]);
        if (len > n && strcasecmp(name + len - n, ends[i]) == 0)
            return true;
    }
    return false;
}

static bool has_long_label(const char *name)
{
    for (; *name; name += strspn(name, ".")) {
        size_t len = strcspn(name, ".");
        if (len > LABEL_PLAIN_MAX)
            return true;
        name += len;
    }
    return false;
}

/* NULL: it may be proposed. */
static const char *objection(const struct learner *r, const struct learner_host *h)
{
    struct host host;
    if (host_parse(h->host, strlen(h->host), false, &host, NULL) < 0)
        return "it is no host that a rule can name";
    switch (deny_class(&host)) {
    case ADDRESS_PUBLIC:
        break;
    case ADDRESS_METADATA:
        return "clouds give out credentials there";
    default:
        return "the address is not public; pin it by hand if you must (--allow NAME:PORT=ADDRESS)";
    }
    if (host.kind == HOST_NAME && is_local_name(h->host))
        return "a name of the local network; pin it by hand if you must (--allow "
               "NAME:PORT=ADDRESS)";
    if (host.kind == HOST_NAME && names_below(r, domain_of(h->host)) > NAMES_OF_ONE_MAX)
        return "so many names below one domain can be data on its way out";
    return NULL;
}

/* Refused because no rule allows it, not because a rule forbids it. */
static bool wants_rule(const struct learner_host *h)
{
    static const char *const reasons[] = {"no-rule", "port", "scheme", "literal"};
    for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
        if (strcmp(h->reason, reasons[i]) == 0)
            return true;
    return false;
}

static bool connected_too(const struct learner *r, const struct learner_host *name)
{
    for (size_t i = 0; i < r->host_count; i++)
        if (!r->hosts[i].name_only && strcmp(r->hosts[i].host, name->host) == 0)
            return true;
    return false;
}

static void propose(struct learn *l, const struct learner_host *h)
{
    char rule[300];
    bool http = strcmp(h->scheme, "http") == 0, https = strcmp(h->scheme, "https") == 0;
    bool usual = (http && h->port == 80) || (https && h->port == 443);
    bool v6 = strchr(h->host, ':') != NULL;
    snprintf(rule, sizeof rule, "%s%s%s%s:%u",
             usual || !(http || https) ? ""
             : http                    ? "http://"
                                       : "https://",
             v6 ? "[" : "", h->host, v6 ? "]" : "", h->port);
    learn_host(l, rule, h->asked,
               has_long_label(h->host) ? "high: a name like this can carry data by itself"
                                       : "medium: what the program sees can be sent there",
               h->count);
}

void learner_hosts(const struct learner *r, struct learn *l)
{
    for (size_t i = 0; i < r->host_count; i++) {
        const struct learner_host *h = &r->hosts[i];
        if (h->name_only && connected_too(r, h))
            continue;
        const char *why = objection(r, h);
        if (!why && !wants_rule(h))
            why = h->text[0] ? h->text : h->reason;
        if (!why && (h->name_only || h->port == 0))
            why = "its name was looked up, and no TCP connection followed";
        if (why)
            learn_refuse(l, h->name_only || !h->port ? h->host : h->asked, why, h->count);
        else
            propose(l, h);
    }
}
