/* A template's file. No I/O; its fuzzer is tests/fuzz/fuzz_template.c. */
#include "warden/template_parse.h"
#include "warden/template.h"

#include "base/num.h"
#include "kernel/tier.h"
#include "policy/text/yaml_parse.h"
#include "sandbox/sandbox.h"
#include "wire/interp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool template_name_ok(const char *name)
{
    size_t len = strlen(name);
    return len > 0 && len <= TEMPLATE_NAME_MAX && name[0] != '.' && name[0] != '-' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == len;
}

void template_drop_modules(struct template *t)
{
    while (t->module_count)
        free(t->modules[--t->module_count]);
}

/* What can stand after `import`. */
static bool module_name_ok(const char *name)
{
    size_t len = strlen(name);
    return len > 0 && len <= 128 && name[0] != '.' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._") == len;
}

struct reading {
    struct template *t;
    const char *name;
    struct err *err;
};

static int wrong(const struct reading *r, const struct json *j, const char *what,
                 const char *expected)
{
    return err_set(r->err, ERR_POLICY, "%.80s:%u:%u: %s: expected %s", r->name, json_line(j),
                   json_column(j), what, expected);
}

static int read_policy(struct reading *r, const struct json *j)
{
    return policy_load_json(&r->t->policy, r->name, j, r->err);
}

static int read_aliases(struct reading *r, const struct json *j)
{
    if (json_type(j) != JSON_ARRAY || json_count(j) > TEMPLATE_ALIASES_MAX)
        return wrong(r, j, "aliases", "a list of at most 8 names");
    for (size_t i = 0; i < json_count(j); i++) {
        const char *name = json_string(json_at(j, i));
        if (!name || !template_name_ok(name))
            return wrong(r, json_at(j, i), "aliases", "letters, digits, dots and dashes");
        snprintf(r->t->aliases[r->t->alias_count++], sizeof r->t->aliases[0], "%s", name);
    }
    return 0;
}

static int read_description(struct reading *r, const struct json *j)
{
    const char *text = json_string(j);
    if (!text || strlen(text) >= sizeof r->t->description)
        return wrong(r, j, "description", "a text of at most 255 bytes");
    snprintf(r->t->description, sizeof r->t->description, "%s", text);
    return 0;
}

static int read_interpreter(struct reading *r, const struct json *j)
{
    const char *name = json_type(j) == JSON_NULL ? "" : json_string(j);
    enum interp_language l = name ? interp_language_parse(name) : INTERP_NONE;
    if (!name || (*name && l == INTERP_NONE))
        return wrong(r, j, "interpreter", INTERP_LANGUAGES ", or null");
    snprintf(r->t->interpreter, sizeof r->t->interpreter, "%s",
             l == INTERP_NONE ? "" : interp_language_name(l));
    return 0;
}

static int read_modules(struct reading *r, const struct json *j)
{
    if (json_type(j) != JSON_ARRAY || json_count(j) > TEMPLATE_MODULES_MAX)
        return wrong(r, j, "modules", "a list of at most 64 names");
    template_drop_modules(r->t);
    for (size_t i = 0; i < json_count(j); i++) {
        const char *name = json_string(json_at(j, i));
        char *copy = name && module_name_ok(name) ? strdup(name) : NULL;
        if (!copy)
            return wrong(r, json_at(j, i), "modules", "the name of a module");
        r->t->modules[r->t->module_count++] = copy;
    }
    return 0;
}

static int read_idle(struct reading *r, const struct json *j)
{
    if (json_type(j) == JSON_INT && json_int(j) > 0 && json_int(j) <= 86400) {
        r->t->pool_idle_ms = (uint64_t)json_int(j) * 1000;
        return 0;
    }
    if (json_type(j) == JSON_STRING &&
        num_parse_duration(json_string(j), &r->t->pool_idle_ms, NULL) == 0)
        return 0;
    return wrong(r, j, "pool.idle", "a duration such as 60s");
}

static int read_pool(struct reading *r, const struct json *j)
{
    if (json_type(j) != JSON_OBJECT)
        return wrong(r, j, "pool", "min, max and idle");
    for (size_t i = 0; i < json_count(j); i++) {
        const char *key = json_key_at(j, i);
        const struct json *v = json_value_at(j, i);
        bool count = json_type(v) == JSON_INT && json_int(v) >= 0 && json_int(v) <= 1024;
        if (strcmp(key, "idle") == 0) {
            if (read_idle(r, v) < 0)
                return err_number(r->err);
        } else if (strcmp(key, "min") == 0 && count) {
            r->t->pool_min = (unsigned)json_int(v);
        } else if (strcmp(key, "max") == 0 && count) {
            r->t->pool_max = (unsigned)json_int(v);
        } else {
            return wrong(r, v, "pool", "min and max from 0 to 1024, and idle");
        }
    }
    if (r->t->pool_min > r->t->pool_max)
        return wrong(r, j, "pool", "a min that is not above max");
    return 0;
}

static int read_ports(struct reading *r, const struct json *j)
{
    const char *text = json_string(j);
    if (!text || (strcmp(text, "public") != 0 && strcmp(text, "private") != 0))
        return wrong(r, j, "ports", "public or private");
    r->t->public_ports = strcmp(text, "public") == 0;
    return 0;
}

static int read_clones(struct reading *r, const struct json *j)
{
    if (json_type(j) != JSON_BOOL)
        return wrong(r, j, "clones", "true or false");
    r->t->cold = !json_bool(j);
    return 0;
}

static int read_member(struct reading *r, const char *key, const struct json *value)
{
    static const struct {
        const char *key;
        int (*read)(struct reading *r, const struct json *j);
    } members[] = {
        {"policy", read_policy},
        {"aliases", read_aliases},
        {"description", read_description},
        {"interpreter", read_interpreter},
        {"modules", read_modules},
        {"pool", read_pool},
        {"ports", read_ports},
        {"clones", read_clones},
    };
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        if (strcmp(members[i].key, key) == 0)
            return members[i].read(r, value);
    return wrong(r, value, key,
                 "policy, aliases, description, interpreter, modules, pool, ports or clones");
}

/* Where all that runs is a module (sandbox/cells.c). */
static int check_cells(const struct template *t, struct err *err)
{
    if (t->policy.root_beside) {
        err_set(err, ERR_POLICY, "template %s: kernel.root is of no use on tier %s", t->name,
                tier_name(t->policy.tier));
        return err_hint(err, "nothing can be started there as root: leave it out");
    }
    if (!t->interpreter[0] || strcmp(t->interpreter, "javascript") == 0)
        return 0;
    err_set(err, ERR_POLICY, "template %s: tier %s has no interpreter for %s", t->name,
            tier_name(t->policy.tier), t->interpreter);
    return err_hint(err, "interpreter: javascript, which is QuickJS there");
}

int template_check(const struct template *t, struct err *err)
{
    const struct policy *p = &t->policy;
    if (!tier_served(p)) {
        char names[TIER_NAMES_SIZE];
        tier_served_names(names);
        err_set(err, ERR_UNSUPPORTED, "template %s asks for the %s tier; the daemon has %s",
                t->name, tier_name(p->tier), names);
        return err_hint(err, "leave kernel.tier out, or use brig run");
    }
    if (policy_validate(p, err) < 0 ||
        (p->wish.count == 0 && run_check_policy(p, p->tier, err) < 0))
        return err_wrap(err, "template %s", t->name);
    return tier_runs_modules(p->tier) ? check_cells(t, err) : 0;
}

static int read_document(struct reading *r, const struct json *root)
{
    if (json_type(root) == JSON_NULL)
        return 0;
    if (json_type(root) != JSON_OBJECT)
        return wrong(r, root, "template", "keys and values");
    for (size_t i = 0; i < json_count(root); i++)
        if (read_member(r, json_key_at(root, i), json_value_at(root, i)) < 0)
            return err_number(r->err);
    return 0;
}

int template_parse(struct template *t, const char *name, const char *text, size_t len,
                   struct err *err)
{
    struct json *root = NULL;
    struct reading r = {t, name, err};
    size_t start = 0;
    while (start < len && (text[start] == ' ' || text[start] == '\n' || text[start] == '\r' ||
                           text[start] == '\t'))
        start++;
    int result = start < len && text[start] == '{'
                     ? json_parse(text, len, &json_default_limits, &root, err)
                     : yaml_parse(text, len, &json_default_limits, &root, err);
    if (result < 0)
        err_wrap(err, "%.80s", name);
    else
        result = read_document(&r, root);
    json_free(root);
    return result < 0 ? result : template_check(t, err);
}
