/* A document becomes a policy. The document may come from anybody: every key, type and value is
 * checked, and what is not understood is an error, never skipped. */
#include "base/cleanup.h"
#include "base/json.h"
#include "base/quote.h"
#include "policy/commands/internal.h"
#include "policy/egress/internal.h"
#include "policy/fields.h"
#include "policy/grants.h"
#include "policy/keys.h"
#include "policy/text/yaml_parse.h"
#include "policy/tools/internal.h"
#include "policy/values.h"
#include "policy/words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct load {
    struct policy *p;
    const char *name;
    struct err *err; /* never NULL */
};

struct place {
    unsigned line;
    unsigned column;
};

static struct place place_of(const struct json *j)
{
    return (struct place){json_line(j), json_column(j)};
}

static struct place place_of_key(const struct json *object, size_t i)
{
    return (struct place){json_key_line_at(object, i), json_key_column_at(object, i)};
}

/* Where it is wrong goes in front of what is wrong. */
static int blame(struct load *l, struct place at, const char *what)
{
    char text[sizeof l->err->message];
    snprintf(text, sizeof text, "%.200s:%u:%u: %s%s%s", l->name, at.line, at.column, what,
             *what ? ": " : "", l->err->message);
    memcpy(l->err->message, text, sizeof text);
    if (l->err->code == ERR_USAGE)
        l->err->code = ERR_POLICY;
    return err_number(l->err);
}

static struct origin origin_at(const struct load *l, const struct json *j)
{
    struct origin o = {.kind = ORIGIN_FILE, .line = json_line(j), .column = json_column(j)};
    const char *slash = strrchr(l->name, '/');
    snprintf(o.name, sizeof o.name, "%s", slash ? slash + 1 : l->name);
    return o;
}

static int wrong_type(struct load *l, const struct json *j, const char *what, const char *expected)
{
    err_set(l->err, ERR_POLICY, "expected %s, found %s", expected, json_type_name(json_type(j)));
    if (json_type(j) == JSON_NULL)
        err_hint(l->err, "leave the key out where the level's value is meant");
    return blame(l, place_of(j), what);
}

/* What each type of field may be written as; for the words the list is made from the words. */
struct spelling {
    unsigned types; /* bits of enum json_type */
    const char *expected;
};
#define BIT(type) (1U << (type))

static struct spelling spelling_of(enum field_type type)
{
    static const struct spelling table[] = {
        [TYPE_TIER] = {BIT(JSON_STRING) | BIT(JSON_ARRAY), NULL},
        [TYPE_BOOL] = {BIT(JSON_BOOL), NULL},
        [TYPE_PATH] = {BIT(JSON_STRING), "an absolute path"},
        [TYPE_RESOLVER] = {BIT(JSON_STRING), "host, or an address such as 9.9.9.9"},
        [TYPE_UINT] = {BIT(JSON_INT), "a whole number"},
        [TYPE_SIZE] = {BIT(JSON_STRING) | BIT(JSON_INT), "a size such as 512M"},
        [TYPE_COUNT] = {BIT(JSON_STRING) | BIT(JSON_INT), "a count such as 256 or 10k"},
        [TYPE_MILLI] = {BIT(JSON_STRING) | BIT(JSON_INT) | BIT(JSON_REAL), "a number such as 0.5"},
        [TYPE_DURATION] = {BIT(JSON_STRING) | BIT(JSON_INT) | BIT(JSON_REAL),
                           "a duration such as 30s"},
    };
    if (type < ARRAY_LEN(table) && table[type].types)
        return table[type];
    return (struct spelling){BIT(JSON_STRING), NULL};
}

/* Scalars become text again, so that a file and an option go through the same parser. */
static const char *scalar_text(const struct json *j, char *space, size_t size)
{
    switch (json_type(j)) {
    case JSON_STRING:
        return json_string(j);
    case JSON_BOOL:
        return json_bool(j) ? "true" : "false";
    case JSON_INT:
        snprintf(space, size, "%" PRId64, json_int(j));
        return space;
    default:
        snprintf(space, size, "%.15g", json_real(j));
        return space;
    }
}

/* A wish becomes the text that wish_parse reads. */
static int load_wish(struct load *l, enum policy_field id, const struct json *j)
{
    cleanup_buf struct buf text;
    buf_init(&text, 4096);
    for (size_t i = 0; i < json_count(j); i++) {
        const struct json *word = json_at(j, i);
        if (json_type(word) != JSON_STRING)
            return wrong_type(l, word, policy_field_path(id), "a tier such as container");
        buf_fmt(&text, "%s%s", i ? ", " : "", json_string(word));
    }
    struct origin origin = origin_at(l, j);
    if (!json_count(j) || text.failed)
        err_set(l->err, ERR_POLICY, "a list of tiers has at least one and names each once");
    else if (value_set(l->p, id, buf_text(&text), &origin, l->err) >= 0)
        return 0;
    return blame(l, place_of(j), policy_field_path(id));
}

static int load_field(struct load *l, enum policy_field id, const struct json *j)
{
    struct spelling spelling = spelling_of(field_type(id));
    if (!(spelling.types & BIT(json_type(j)))) {
        cleanup_buf struct buf words;
        buf_init(&words, 200);
        words_list(field_type(id), &words);
        return wrong_type(l, j, policy_field_path(id),
                          spelling.expected ? spelling.expected : buf_text(&words));
    }
    if (json_type(j) == JSON_ARRAY)
        return load_wish(l, id, j);
    char space[64];
    struct origin origin = origin_at(l, j);
    int r = value_set(l->p, id, scalar_text(j, space, sizeof space), &origin, l->err);
    return r < 0 ? blame(l, place_of(j), policy_field_path(id)) : 0;
}

static int load_grants(struct load *l, const struct json *j, bool writable)
{
    const char *what = grant_field(writable);
    if (json_type(j) != JSON_ARRAY)
        return wrong_type(l, j, what, "a list of folders such as [/opt/tools]");
    for (size_t i = 0; i < json_count(j); i++) {
        const struct json *spec = json_at(j, i);
        if (json_type(spec) != JSON_STRING)
            return wrong_type(l, spec, what, "a folder such as /opt/tools");
        struct origin origin = origin_at(l, spec);
        if (grant_add(l->p, json_string(spec), writable, &origin, l->err) < 0)
            return blame(l, place_of(spec), what);
    }
    return 0;
}

static int load_env(struct load *l, const struct json *j)
{
    static const char what[] = "credentials.env";
    if (json_type(j) != JSON_OBJECT)
        return wrong_type(l, j, what, "names and values such as {KEY: value}");
    for (size_t i = 0; i < json_count(j); i++) {
        const struct json *value = json_value_at(j, i);
        if (json_type(value) != JSON_STRING)
            return wrong_type(l, value, what, "a text (put numbers and true or false in quotes)");
        struct origin origin = origin_at(l, value);
        if (env_add(l->p, json_key_at(j, i), json_string(value), &origin, l->err) < 0)
            return blame(l, place_of_key(j, i), what);
    }
    return 0;
}

/* The lists of rules, blocked hosts and secrets. No list at all is an error: what null would mean
 * is anybody's guess. */
static int load_items(struct load *l, const struct json *j, const char *what, const char *expected,
                      int (*add)(struct policy *, struct item_reader *, const struct json *))
{
    if (json_type(j) != JSON_ARRAY)
        return wrong_type(l, j, what, expected);
    for (size_t i = 0; i < json_count(j); i++) {
        const struct json *item = json_at(j, i);
        struct item_reader r = {.e = &l->p->egress, .origin = origin_at(l, item), .err = l->err};
        if (add(l->p, &r, item) < 0)
            return blame(l, (struct place){r.at.line, r.at.column}, what);
    }
    return 0;
}

static int load_egress(struct load *l, const char *section, const char *key, const struct json *j)
{
    bool network = strcmp(section, "network") == 0;
    if (network && strcmp(key, "allow") == 0) {
        l->p->allow_given = true;
        return load_items(l, j, "network.allow", "a list of rules such as [api.example.org]",
                          policy_read_rule);
    }
    if (network)
        return load_items(l, j, "network.block", "a list of hosts such as [ads.example.org]",
                          policy_read_blocked);
    return load_items(l, j, "credentials.secrets",
                      "a list such as [\"TOKEN=env:TOKEN@https://api.example.org\"]",
                      policy_read_secret);
}

static bool is_egress(const char *section, const char *key)
{
    if (strcmp(section, "credentials") == 0)
        return strcmp(key, "secrets") == 0;
    return strcmp(section, "network") == 0 && (!strcmp(key, "allow") || !strcmp(key, "block"));
}

static int load_ask(struct load *l, const struct json *j)
{
    struct item_reader r = {.e = &l->p->egress, .origin = origin_at(l, j), .err = l->err};
    if (policy_read_ask(l->p, &r, j) < 0)
        return blame(l, (struct place){r.at.line, r.at.column}, "network.ask");
    return 0;
}

static int load_commands(struct load *l, const struct json *j)
{
    struct item_reader r = {.origin = origin_at(l, j), .err = l->err};
    if (policy_read_commands(l->p, &r, j) < 0)
        return blame(l, (struct place){r.at.line, r.at.column}, "");
    return 0;
}

static int load_tools(struct load *l, const struct json *j)
{
    struct item_reader r = {.origin = origin_at(l, j), .err = l->err};
    if (policy_read_tools(l->p, &r, j) < 0)
        return blame(l, (struct place){r.at.line, r.at.column}, "");
    return 0;
}

static int load_version(struct load *l, const struct json *j)
{
    static const char what[] = "version";
    if (json_type(j) != JSON_INT)
        return wrong_type(l, j, what, "1");
    if (json_int(j) == 1)
        return 0;
    err_set(l->err, ERR_POLICY, "this version of brig reads policy version 1, found %" PRId64,
            json_int(j));
    return blame(l, place_of(j), what);
}

/* The i-th member of a section's mapping. */
static int load_member(struct load *l, const char *section, const struct json *object, size_t i)
{
    const char *key = json_key_at(object, i);
    const struct json *value = json_value_at(object, i);
    enum policy_field id = field_find(section, key);
    if (id != FIELD_COUNT)
        return load_field(l, id, value);
    if (strcmp(section, "filesystem") == 0 && (!strcmp(key, "ro") || !strcmp(key, "rw")))
        return load_grants(l, value, key[1] == 'w');
    if (strcmp(section, "credentials") == 0 && strcmp(key, "env") == 0)
        return load_env(l, value);
    if (strcmp(section, "network") == 0 && strcmp(key, "ask") == 0)
        return load_ask(l, value);
    if (is_egress(section, key))
        return load_egress(l, section, key, value);
    key_unknown(section, key, l->err);
    return blame(l, place_of_key(object, i), "");
}

static int load_section(struct load *l, const char *section, const struct json *object)
{
    if (json_type(object) != JSON_OBJECT)
        return wrong_type(l, object, section, "keys and values");
    for (size_t i = 0; i < json_count(object); i++) {
        int r = load_member(l, section, object, i);
        if (r < 0)
            return r;
    }
    return 0;
}

static int load_top(struct load *l, const struct json *root, size_t i)
{
    const char *key = json_key_at(root, i);
    const struct json *value = json_value_at(root, i);
    if (strcmp(key, "level") == 0)
        return load_field(l, FIELD_LEVEL, value);
    if (strcmp(key, "version") == 0)
        return load_version(l, value);
    if (section_exists(key))
        return load_section(l, key, value);
    if (strcmp(key, "commands") == 0)
        return load_commands(l, value);
    if (strcmp(key, "tools") == 0)
        return load_tools(l, value);
    key_unknown("", key, l->err);
    return blame(l, place_of_key(root, i), "");
}

static int empty_document(struct load *l)
{
    err_set(l->err, ERR_POLICY, "the policy is empty, expected at least a level");
    blame(l, (struct place){1, 1}, "");
    return err_hint(l->err, "a minimal policy is the one line \"level: high\"");
}

static int load_document(struct load *l, const struct json *root)
{
    if (json_type(root) == JSON_NULL || (json_type(root) == JSON_OBJECT && json_count(root) == 0))
        return empty_document(l);
    if (json_type(root) != JSON_OBJECT)
        return wrong_type(l, root, "", "keys and values such as level: high");
    for (size_t i = 0; i < json_count(root); i++) {
        int r = load_top(l, root, i);
        if (r < 0)
            return r;
    }
    return 0;
}

/* The readers put "LINE:COLUMN: " in front of their messages themselves. */
static int read_failed(struct load *l)
{
    char text[sizeof l->err->message];
    snprintf(text, sizeof text, "%.200s:%s", l->name, l->err->message);
    memcpy(l->err->message, text, sizeof text);
    if (l->err->code != ERR_SYSTEM && l->err->code != ERR_MEMORY)
        l->err->code = ERR_POLICY;
    return err_number(l->err);
}

int policy_load_json(struct policy *p, const char *name, const struct json *root, struct err *err)
{
    struct err ignored = ERR_INIT;
    struct load l = {p, name, err ? err : &ignored};
    return load_document(&l, root);
}

int policy_load(struct policy *p, const char *name, const char *text, size_t len, struct err *err)
{
    struct err ignored = ERR_INIT;
    struct load l = {p, name, err ? err : &ignored};
    cleanup_json struct json *root = NULL;
    size_t start = 0;
    while (start < len && strchr(" \t\r\n", text[start]) && text[start])
        start++;
    if (start == len)
        return empty_document(&l);
    int r = text[start] == '{' ? json_parse(text, len, &json_default_limits, &root, l.err)
                               : yaml_parse(text, len, &json_default_limits, &root, l.err);
    return r < 0 ? read_failed(&l) : load_document(&l, root);
}
