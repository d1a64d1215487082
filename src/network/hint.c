/* The words around a denial: what it was, and what the operator could write to allow it. A hint is
 * read by people and by models that may act on it, so there is none for what should stay closed. */
#include "network/address.h"
#include "network/decide.h"
#include "network/doubt.h"
#include "network/network.h"

#include "base/cleanup.h"
#include "policy/egress/presets.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *text;
} reasons[] = {
    [DENY_NONE] = {"none", "allowed"},
    [DENY_NO_RULE] = {"no-rule", "no rule for this host"},
    [DENY_BLOCKED] = {"blocked", "this host is blocked"},
    [DENY_PORT] = {"port", "this host is allowed on other ports only"},
    [DENY_SCHEME] = {"scheme", "this host and port are allowed for another protocol only"},
    [DENY_METHOD] = {"method", "this method is not allowed there"},
    [DENY_PATH] = {"path", "this path is not allowed there"},
    [DENY_AMBIGUOUS] = {"ambiguous", "it could be read as another request than was decided on"},
    [DENY_ADDRESS] = {"address", "the name leads to an address that is not public"},
    [DENY_LITERAL] = {"literal", "an address instead of a name, and no rule names it"},
    [DENY_CONNECTIONS] = {"connections", "too many connections at one time"},
    [DENY_UPLOAD] = {"upload", "the upload budget is used up"},
    [DENY_REQUESTS] = {"requests", "too many requests in this minute"},
    [DENY_SNI] = {"sni", "the server name of the handshake is another, missing or encrypted"},
    [DENY_MALFORMED] = {"malformed", "it cannot be read in exactly one way"},
    [DENY_CREDENTIAL] = {"credential", "the secret for it is not available"},
    [DENY_ASKED] = {"asked", "a person was asked and did not allow it"},
    [DENY_AUTH] = {"auth", "the password of the proxy is missing or wrong"},
    [DENY_RESPONSE] = {"response", "the answer is malformed or could not be checked for secrets"},
};
_Static_assert(ARRAY_LEN(reasons) == DENY_REASON_COUNT, "words for each reason");

const char *deny_text(enum deny_reason reason)
{
    return (unsigned)reason < DENY_REASON_COUNT ? reasons[reason].text : "denied";
}

const char *deny_name(enum deny_reason reason)
{
    return (unsigned)reason < DENY_REASON_COUNT ? reasons[reason].name : "denied";
}

/* Names under which clouds give out credentials to whoever asks from the inside. */
static bool is_metadata_name(const char *name)
{
    static const char *const names[] = {
        "metadata",
        "metadata.goog",
        "metadata.google.internal",
        "metadata.tencentyun.com",
        "instance-data",
        "instance-data.ec2.internal",
    };
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

enum address_class deny_class(const struct host *host)
{
    switch (host->kind) {
    case HOST_IPV4:
        return address_classify_v4(host->addr);
    case HOST_IPV6:
        return address_classify_v6(host->addr);
    case HOST_NAME:
        break;
    }
    return is_metadata_name(host->text) ? ADDRESS_METADATA : ADDRESS_PUBLIC;
}

/* "host:port", or the name alone where only that was asked for; "scheme://host:port" where the
 * short form means another protocol. */
static void write_spec(const struct target *t, bool explicit, char *out, size_t size)
{
    static const char *const prefix[] = {[SCHEME_ANY] = "",
                                         [SCHEME_HTTP] = "http://",
                                         [SCHEME_HTTPS] = "https://",
                                         [SCHEME_TCP] = "tcp://"};
    bool v6 = t->host.kind == HOST_IPV6;
    enum scheme usual = t->port == 80 ? SCHEME_HTTP : t->port == 443 ? SCHEME_HTTPS : SCHEME_ANY;
    bool short_form = usual == SCHEME_ANY || t->scheme == SCHEME_ANY || t->scheme == usual;
    bool full = explicit || !short_form;
    int n = snprintf(out, size, "%s%s%s%s",
                     full && (unsigned)t->scheme < SCHEME_COUNT ? prefix[t->scheme] : "",
                     v6 ? "[" : "", t->host.text, v6 ? "]" : "");
    if (t->port)
        snprintf(out + n, size - n, ":%u", t->port);
}

/* Whether the hint names options of the command line or fields of the daemon's API. A client of the
 * daemon may not say which address a name has: only the template does. */
static const char *lead_in(bool live, bool pinned)
{
    if (live)
        return pinned ? "network.allow of the template can name it: "
                      : "name it in allowOut, or in network.allow of the template: ";
    return pinned ? "pin it: --allow " : "add --allow ";
}

/* The rule that would allow it; with `address` one that is pinned to that. Brackets and slashes are
 * kept from the shell. */
static void hint_rule(const struct target *t, bool explicit, const char *address, bool live,
                      char out[static DENY_HINT_MAX])
{
    char spec[288];
    write_spec(t, explicit, spec, sizeof spec);
    const struct preset *preset = address ? NULL : preset_of(&t->host);
    const char *quote = strpbrk(spec, "[/") && !live ? "'" : "";
    const char *also = !preset ? "" : live ? ", or " : ", or --allow ";
    int n = snprintf(out, DENY_HINT_MAX, "%s%s%s%s%s%s%s%s", lead_in(live, address), quote, spec,
                     address ? "=" : "", address ? address : "", quote, also,
                     preset ? preset->name : "");
    if (n >= DENY_HINT_MAX) /* half of a name would be another's */
        out[0] = '\0';
}

static bool is_plain_word(const char *text)
{
    size_t len = strlen(text);
    return len > 0 && strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") == len;
}

/* Addresses of a kind that an operator may have reasons to open. */
static bool is_local(enum address_class class)
{
    return class == ADDRESS_LOOPBACK || class == ADDRESS_PRIVATE || class == ADDRESS_CGNAT;
}

void deny_hint(enum deny_reason reason, const struct target *t, bool live,
               char out[static DENY_HINT_MAX])
{
    enum address_class class = deny_class(&t->host);
    out[0] = '\0';
    if (class == ADDRESS_METADATA || t->port == 0)
        return;
    switch (reason) {
    case DENY_NO_RULE:
    case DENY_PORT:
    case DENY_LITERAL:
        if (class == ADDRESS_PUBLIC)
            hint_rule(t, false, NULL, live, out);
        else if (is_local(class))
            hint_rule(t, false, t->host.text, live, out);
        break;
    case DENY_SCHEME:
        hint_rule(t, true, NULL, live, out);
        break;
    case DENY_METHOD:
        if (is_plain_word(t->method))
            snprintf(out, DENY_HINT_MAX, "add %s to the methods of the rule", t->method);
        break;
    case DENY_PATH:
        snprintf(
            out, DENY_HINT_MAX, "%s",
            t->path && path_is_plain(t->path)
                ? "add the path to the paths of the rule"
                : "write the path without dot segments, double slashes and encoded separators");
        break;
    default: /* budgets and malformed input have no switch to open; a blocked host stays blocked */
        break;
    }
}

void deny_offline_hint(const struct target *t, bool live, char out[static DENY_HINT_MAX])
{
    enum address_class class = deny_class(&t->host);
    out[0] = '\0';
    /* brig itself answers on the port of names: no rule opens it. */
    if ((class != ADDRESS_PUBLIC && !is_local(class)) || t->port == NETWORK_DNS_PORT)
        return;
    hint_rule(t, false, class == ADDRESS_PUBLIC ? NULL : t->host.text, live, out);
}

void deny_doubt_hint(const struct doubt *d, char out[static DENY_HINT_MAX])
{
    static const char *const words[] = {
        [DOUBT_METHOD] = "method", [DOUBT_PATH] = "path", [DOUBT_HOST] = "host"};
    out[0] = '\0';
    for (const char *at = d->name; *at; at++)
        if (*at <= ' ' || *at > '~')
            return;
    if (d->kind == DOUBT_CODING) {
        snprintf(out, DENY_HINT_MAX, "send it as UTF-8, or name %s in pass of the rule", d->name);
        return;
    }
    snprintf(out, DENY_HINT_MAX, "a second %s: leave out %s%s, or name it in pass of the rule",
             words[d->kind], d->query ? "?" : "", d->name);
}

/* The operator knows the address, or finds it in `brig net`; the code, which reads this too, has no
 * business to learn it. */
void deny_address_hint(const struct target *t, enum address_class answer, bool live,
                       char out[static DENY_HINT_MAX])
{
    out[0] = '\0';
    if (is_local(answer) && deny_class(&t->host) != ADDRESS_METADATA)
        hint_rule(t, false, "ADDRESS", live, out);
}
