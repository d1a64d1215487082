/* The headers that a request sets on what its sandbox sends: E2B's network rules,
 *
 *     {"HOST":[{"transform":{"headers":{"NAME":"VALUE"}}}]}
 *
 * Values are secrets: no message here repeats one. They go into `values`, which brig-proxy is
 * started with; the policy of this one sandbox learns where each is sent, never what it is. */
#include "warden/template.h"

#include "base/cleanup.h"
#include "base/quote.h"
#include "network/doubt.h"
#include "policy/egress/headers.h"
#include "policy/egress/live.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define HOSTS_MAX   10
#define HEADERS_MAX 20
#define NAME_LEN    64
#define VALUE_MIN   8 /* what is shorter could not be taken out of answers (credentials/secret.h) */
#define VALUE_MAX   2048

struct reading {
    struct egress *e;           /* of the template */
    const struct egress *rules; /* in force */
    struct run_values *values;
    const char *host;
    struct err *err;
};

/* ---- one header ---- */

static int check_name(const struct reading *r, const char *name)
{
    struct quoted q;
    size_t len = strlen(name);
    if (len == 0 || len > NAME_LEN || strcspn(name, " :{}") != len)
        return err_set(r->err, ERR_USAGE, "%s is not the name of a header", quote(&q, name));
    if (doubt_is_any(name))
        return err_set(
            r->err, ERR_USAGE,
            "the header %s could make a server see another request than the one that was "
            "decided on",
            quote(&q, name));
    return 0;
}

static int check_value(const struct reading *r, const char *name, const char *value)
{
    size_t len = strlen(value);
    bool plain = len > 0 && value[0] != ' ' && value[len - 1] != ' ';
    for (size_t i = 0; plain && i < len; i++)
        plain = value[i] >= ' ' && value[i] <= '~';
    if (strstr(value, "${e2b."))
        return err_set(r->err, ERR_UNSUPPORTED,
                       "the header %s: secrets and identities of the API are not offered here",
                       name);
    if (plain && len >= VALUE_MIN && len <= VALUE_MAX)
        return 0;
    err_set(r->err, ERR_USAGE,
            "the value of the header %s is not one of %d to %d printable "
            "characters of ASCII, without blanks at its ends",
            name, VALUE_MIN, VALUE_MAX);
    return err_hint(r->err, "it is kept out of answers, which a shorter one would tear holes into");
}

/* Of "Bearer TOKEN" it is the token that servers repeat without the word. The word becomes part of
 * the policy, which is no secret: only those that mean nothing. */
static const char *secret_part(const char *value)
{
    static const char *const words[] = {"Bearer ", "Basic ", "Token ", "ApiKey ", "Bot "};
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        size_t len = strlen(words[i]);
        if (strncasecmp(value, words[i], len) == 0 && value[len] != ' ' &&
            strlen(value + len) >= VALUE_MIN)
            return value + len;
    }
    return value;
}

static int read_header(struct reading *r, const char *name, const struct json *j)
{
    char variable[32], template[16];
    const char *value = json_string(j);
    if (check_name(r, name) < 0)
        return err_number(r->err);
    if (!value)
        return err_set(r->err, ERR_USAGE, "the header %s: expected a string", name);
    if (check_value(r, name, value) < 0)
        return err_number(r->err);
    const char *secret = secret_part(value);
    snprintf(template, sizeof template, "%.*s{}", (int)(secret - value), value);
    snprintf(variable, sizeof variable, "BRIG_NETWORK_RULE_%zu", r->values->count + 1);
    const struct egress_header h = {r->host, name, template, variable};
    if (egress_bind_header(r->e, r->rules, &h, r->err) < 0)
        return err_number(r->err);
    return run_values_add(r->values, variable, secret, r->err);
}

/* ---- the rest ---- */

/* The one member that an object may have; NULL with err set where there is another. */
static int only_member(const struct reading *r, const struct json *j, const char *key,
                       const struct json **ret)
{
    *ret = NULL;
    if (json_type(j) != JSON_OBJECT)
        return err_set(r->err, ERR_USAGE, "expected an object with \"%s\"", key);
    for (size_t i = 0; i < json_count(j); i++) {
        struct quoted q;
        if (strcmp(json_key_at(j, i), key) != 0)
            return err_set(r->err, ERR_USAGE, "%s: unknown field, expected \"%s\"",
                           quote(&q, json_key_at(j, i)), key);
        *ret = json_value_at(j, i);
    }
    if (*ret && json_type(*ret) == JSON_NULL)
        *ret = NULL;
    return 0;
}

static int read_host(struct reading *r, const struct json *list)
{
    const struct json *transform, *headers;
    if (json_type(list) != JSON_ARRAY || json_count(list) > 1)
        return err_set(r->err, ERR_USAGE, "expected a list of one rule");
    if (json_count(list) == 0)
        return 0;
    if (only_member(r, json_at(list, 0), "transform", &transform) < 0 ||
        (transform && only_member(r, transform, "headers", &headers) < 0))
        return err_number(r->err);
    if (!transform || !headers)
        return 0;
    if (json_type(headers) != JSON_OBJECT || json_count(headers) > HEADERS_MAX)
        return err_set(r->err, ERR_USAGE, "headers: expected an object of at most %d strings",
                       HEADERS_MAX);
    for (size_t i = 0; i < json_count(headers); i++)
        if (read_header(r, json_key_at(headers, i), json_value_at(headers, i)) < 0)
            return err_number(r->err);
    return 0;
}

static int read_hosts(struct reading *r, const struct json *headers)
{
    struct quoted q;
    if (json_type(headers) != JSON_OBJECT || json_count(headers) > HOSTS_MAX)
        return err_set(r->err, ERR_USAGE, "network.rules: expected an object of at most %d hosts",
                       HOSTS_MAX);
    for (size_t i = 0; i < json_count(headers); i++) {
        r->host = json_key_at(headers, i);
        if (read_host(r, json_value_at(headers, i)) < 0)
            return err_wrap(r->err, "network.rules: %s", quote(&q, r->host));
    }
    return 0;
}

/* The sandbox starts with the rules of its request: brig-proxy and its certificate must be there
 * from the start. */
static void take_rules(struct policy *p, struct egress *fresh)
{
    struct egress_rule *rules = p->egress.rules;
    size_t count = p->egress.rule_count;
    p->egress.rules = fresh->rules;
    p->egress.rule_count = fresh->rule_count;
    fresh->rules = rules;
    fresh->rule_count = count;
    if (p->egress.rule_count)
        p->network_mode = NETWORK_ALLOWLIST;
}

int template_set_headers(struct template *t, const struct json *network, const struct json *headers,
                         struct run_values *values, struct err *err)
{
    struct egress fresh;
    struct policy *p = &t->policy;
    struct reading r = {&p->egress, &p->egress, values, NULL, err};
    bool own = network && json_type(network) != JSON_NULL;
    egress_init(&fresh);
    int result = own ? egress_live(&p->egress, network, &fresh, err) : 0;
    if (own)
        r.rules = &fresh;
    if (result == 0)
        result = read_hosts(&r, headers);
    if (result == 0 && own)
        take_rules(p, &fresh);
    egress_done(&fresh);
    return result < 0 ? result : policy_validate(p, err);
}
