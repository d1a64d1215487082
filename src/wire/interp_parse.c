/* What a driver says, word by word. The driver shares its process with the user's code: each frame
 * is hostile text. Members that a word does not have are refused, with one exception that lets
 * drivers say more than this front knows: members of a result's data that have no name here are
 * dropped. */
#include "wire/interp.h"

#include "base/cleanup.h"

#include <string.h>

/* A table of a hundred columns and a hundred rows, and room. Each value takes some 64 bytes. */
static const struct json_limits limits = {
    .max_bytes = INTERP_FRAME_MAX,
    .max_depth = 64,
    .max_nodes = 131072,
};

static int nonsense(struct err *err, const char *what)
{
    return err_set(err, ERR_PROTOCOL, "the interpreter says nonsense: %s", what);
}

/* What a member of a result must be. */
enum kind { KIND_TEXT, KIND_BASE64, KIND_VALUE, KIND_OBJECT };
static const struct {
    const char *name;
    enum kind kind;
} members[] = {
    {"text", KIND_TEXT},       {"html", KIND_TEXT},   {"markdown", KIND_TEXT},
    {"svg", KIND_TEXT},        {"png", KIND_BASE64},  {"jpeg", KIND_BASE64},
    {"pdf", KIND_BASE64},      {"latex", KIND_TEXT},  {"json", KIND_VALUE},
    {"javascript", KIND_TEXT}, {"data", KIND_OBJECT}, {"chart", KIND_OBJECT},
    {"extra", KIND_OBJECT},
};

static bool is_member(const char *key)
{
    for (size_t i = 0; i < ARRAY_LEN(members); i++)
        if (strcmp(members[i].name, key) == 0)
            return true;
    return false;
}

static bool is_base64(const char *s)
{
    size_t len = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");
    size_t pad = strspn(s + len, "=");
    return s[len + pad] == '\0' && pad <= 2 && (len + pad) % 4 == 0;
}

static bool is_kind(const struct json *j, enum kind kind)
{
    switch (kind) {
    case KIND_TEXT:
        return json_type(j) == JSON_STRING;
    case KIND_BASE64:
        return json_type(j) == JSON_STRING && is_base64(json_string(j));
    case KIND_VALUE:
        return json_type(j) != JSON_NULL;
    case KIND_OBJECT:
        return json_type(j) == JSON_OBJECT;
    }
    return false;
}

/* The object's members are exactly those of the list, which ends with NULL. */
static bool has_only(const struct json *object, const char *const names[])
{
    size_t count = 0;
    for (; names[count]; count++)
        if (!json_get(object, names[count]))
            return false;
    return json_count(object) == count;
}

static const char *string_of(const struct json *object, const char *key, size_t max)
{
    const char *s = json_text(object, key);
    return s && strlen(s) <= max ? s : NULL;
}

static bool whole_number(const struct json *object, const char *key, int64_t *ret)
{
    const struct json *j = json_get(object, key);
    *ret = json_int(j);
    return json_type(j) == JSON_INT && *ret >= 0;
}

static int parse_ready(struct interp_said *s, struct err *err)
{
    static const char *const names[] = {"type", "language", "version", "pid", NULL};
    const char *language = string_of(s->tree, "language", 32);
    int64_t pid;
    if (!has_only(s->tree, names) || !language || !string_of(s->tree, "version", 64) ||
        interp_language_parse(language) == INTERP_NONE || !whole_number(s->tree, "pid", &pid))
        return nonsense(err, "its greeting");
    return 0;
}

static int parse_counted(struct interp_said *s, struct err *err)
{
    static const char *const names[] = {"type", "id", "value", NULL};
    if (!has_only(s->tree, names) || !whole_number(s->tree, "value", &s->count))
        return nonsense(err, "the number of executions");
    return 0;
}

static int parse_result(struct interp_said *s, struct err *err)
{
    static const char *const names[] = {"type", "id", "main", "data", NULL};
    const struct json *is_main = json_get(s->tree, "main");
    s->data = json_get(s->tree, "data");
    if (!has_only(s->tree, names) || json_type(is_main) != JSON_BOOL ||
        json_type(s->data) != JSON_OBJECT)
        return nonsense(err, "a result without main or data");
    s->main = json_bool(is_main);
    json_keep((struct json *)s->data, is_member);
    for (size_t i = 0; i < ARRAY_LEN(members); i++) {
        const struct json *j = json_get(s->data, members[i].name);
        if (j && !is_kind(j, members[i].kind))
            return nonsense(err, members[i].name);
    }
    return 0;
}

static int parse_error(struct interp_said *s, struct err *err)
{
    static const char *const names[] = {"type", "id", "name", "value", "traceback", NULL};
    s->name = string_of(s->tree, "name", INTERP_NAME_MAX);
    s->value = string_of(s->tree, "value", INTERP_VALUE_MAX);
    s->traceback = string_of(s->tree, "traceback", INTERP_TRACEBACK_MAX);
    if (!has_only(s->tree, names) || !s->name || !s->value || !s->traceback)
        return nonsense(err, "an error without its members, or of too many bytes");
    return 0;
}

static int parse_end(struct interp_said *s, struct err *err)
{
    static const char *const names[] = {"type", "id", NULL};
    return has_only(s->tree, names) ? 0 : nonsense(err, "the end");
}

static const struct {
    const char *type;
    enum interp_word word;
    int (*parse)(struct interp_said *s, struct err *err);
} words[] = {
    {"ready", INTERP_READY, parse_ready},    {"count", INTERP_COUNTED, parse_counted},
    {"result", INTERP_RESULT, parse_result}, {"error", INTERP_ERROR, parse_error},
    {"end", INTERP_END, parse_end},
};

static int parse_word(struct interp_said *s, struct err *err)
{
    const char *type = string_of(s->tree, "type", 16);
    for (size_t i = 0; type && i < ARRAY_LEN(words); i++) {
        int64_t id = 0;
        if (strcmp(words[i].type, type) != 0)
            continue;
        s->word = words[i].word;
        if (s->word != INTERP_READY && !whole_number(s->tree, "id", &id))
            return nonsense(err, "no id");
        s->id = (uint64_t)id;
        return words[i].parse(s, err);
    }
    return nonsense(err, "no type that is known");
}

/* r: of the JSON parser. */
static int parse_tree(int r, struct json *tree, struct interp_said *ret, struct err *err)
{
    struct interp_said s = {.tree = tree};
    if (r < 0) {
        if (err && err->code == ERR_POLICY)
            err->code = ERR_PROTOCOL;
        err_wrap(err, "the interpreter says nonsense");
        *ret = (struct interp_said){0};
        return -ERR_PROTOCOL;
    }
    r = parse_word(&s, err);
    if (r < 0)
        interp_said_done(&s);
    *ret = s;
    return r;
}

int interp_parse(const char *text, size_t len, struct interp_said *ret, struct err *err)
{
    struct json *tree = NULL;
    int r = json_parse(text, len, &limits, &tree, err);
    return parse_tree(r, tree, ret, err);
}

int interp_parse_in_place(char *text, size_t len, size_t max_memory, struct interp_said *ret,
                          struct err *err)
{
    struct json *tree = NULL;
    struct json_limits l = limits;
    l.max_memory = max_memory;
    int r = json_parse_in_place(text, len, &l, &tree, err);
    return parse_tree(r, tree, ret, err);
}

void interp_said_done(struct interp_said *s)
{
    json_free(s->tree);
    *s = (struct interp_said){0};
}
