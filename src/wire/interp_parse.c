/* What a driver says, word by word. The driver shares its process with the user's code: each frame
 * is hostile text. Members that a word does not have are refused, with one exception that lets
 * drivers say more than this front knows: members of a result's data that have no name here are
 * dropped. */
#include "wire/interp.h"

#include "base/cleanup.h"

#include <string.h>

/* A table of a hundred columns and a hundred rows, and room. Each value takes some 64 bytes. Two
 * keys are compared in one go: they are no longer than that may last. */
static const struct json_limits limits = {
    .max_bytes = INTERP_FRAME_MAX,
    .max_depth = 64,
    .max_nodes = 131072,
    .max_key = 64u << 10,
};

static int nonsense(struct err *err, const char *what)
{
    return err_set(err, ERR_PROTOCOL, "the interpreter says nonsense: %s", what);
}

#define MEMBERS_MAX 1024 /* of a result, known or not: they are gone through in one go */

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

/* How many of the next bytes are letters of base64. */
static size_t base64_run(const char *s, size_t most)
{
    size_t len = 0;
    while (len < most && ((s[len] >= 'A' && s[len] <= 'Z') || (s[len] >= 'a' && s[len] <= 'z') ||
                          (s[len] >= '0' && s[len] <= '9') || s[len] == '+' || s[len] == '/'))
        len++;
    return len;
}

static bool ends_base64(const char *s, size_t len)
{
    size_t pad = strspn(s + len, "=");
    return s[len + pad] == '\0' && pad <= 2 && (len + pad) % 4 == 0;
}

static bool is_kind(const struct json *j, enum kind kind)
{
    switch (kind) {
    case KIND_TEXT:
    case KIND_BASE64: /* what is in it: look_some */
        return json_type(j) == JSON_STRING;
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
    if (json_count(s->data) > MEMBERS_MAX)
        return nonsense(err, "a result with too many members");
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

/* ---- in pieces ---- */

/* The letters of what is said to be base64, some of them. 1: all are, 0: so far. */
static int look_some(struct interp_parsing *p, size_t most, struct err *err)
{
    for (; p->said.word == INTERP_RESULT && p->member < ARRAY_LEN(members); p->member++) {
        const struct json *j = json_get(p->said.data, members[p->member].name);
        if (!j || members[p->member].kind != KIND_BASE64)
            continue;
        const char *text = json_string(j);
        size_t run = base64_run(text + p->looked, most);
        p->looked += run;
        if (run == most)
            return 0;
        if (!ends_base64(text, p->looked))
            return nonsense(err, members[p->member].name);
        p->looked = 0;
        most -= run;
    }
    return 1;
}

/* A text that is no JSON, or none that is taken. */
static int misread(struct err *err)
{
    if (err && err->code == ERR_POLICY)
        err->code = ERR_PROTOCOL;
    err_wrap(err, "the interpreter says nonsense");
    return -ERR_PROTOCOL;
}

static int read_some(struct interp_parsing *p, size_t most, struct err *err)
{
    struct json *tree = NULL;
    int r = json_parser_next(p->json, most, &tree, err);
    if (r == 0)
        return 0;
    if (r < 0)
        return misread(err);
    json_parser_free(p->json);
    p->json = NULL;
    p->said.tree = tree;
    r = parse_word(&p->said, err);
    return r < 0 ? r : look_some(p, most, err);
}

int interp_parse(const char *text, size_t len, struct interp_said *ret, struct err *err)
{
    struct interp_parsing p = {0};
    *ret = (struct interp_said){0};
    int r = json_parse(text, len, &limits, &p.said.tree, err);
    if (r < 0)
        return misread(err);
    r = parse_word(&p.said, err);
    if (r >= 0)
        r = look_some(&p, SIZE_MAX, err);
    if (r >= 0)
        *ret = p.said;
    else
        interp_said_done(&p.said);
    return r < 0 ? r : 0;
}

int interp_parsing_begin(struct interp_parsing *p, char *text, size_t len, size_t max_memory,
                         struct err *err)
{
    struct json_limits l = limits;
    l.max_memory = max_memory;
    *p = (struct interp_parsing){.json = json_parser_new(text, len, &l, err)};
    return p->json ? 0 : misread(err);
}

int interp_parsing_next(struct interp_parsing *p, size_t most, struct interp_said *ret,
                        struct err *err)
{
    int r = p->json ? read_some(p, most, err) : look_some(p, most, err);
    *ret = (struct interp_said){0};
    if (r == 0)
        return 0;
    if (r > 0) {
        *ret = p->said;
        p->said = (struct interp_said){0};
    }
    interp_parsing_end(p);
    return r;
}

size_t interp_parsing_memory(const struct interp_parsing *p)
{
    return p->json ? json_parser_memory(p->json) : json_memory(p->said.tree);
}

void interp_parsing_end(struct interp_parsing *p)
{
    json_parser_free(p->json);
    interp_said_done(&p->said);
    *p = (struct interp_parsing){0};
}

void interp_said_done(struct interp_said *s)
{
    json_free(s->tree);
    *s = (struct interp_said){0};
}
