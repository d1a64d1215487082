/* Decides what an unquoted YAML scalar means, and refuses those on which versions of YAML
 * disagree. */
#include "policy/text/yaml_type.h"

#include "base/cleanup.h"

#include <string.h>
#include <strings.h>

enum kind {
    KIND_TEXT,
    KIND_NULL,
    KIND_TRUE,
    KIND_FALSE,
    KIND_INT,
    KIND_REAL,
    KIND_MERGE,     /* << */
    KIND_WORD,      /* a boolean to YAML 1.1 only */
    KIND_AMBIGUOUS, /* a number to some readers, another number or text to others */
    KIND_INFINITE,
};

struct word {
    const char *text;
    enum kind kind;
};

/* YAML 1.2's core schema knows three spellings of each. */
static const struct word exact_words[] = {
    {"", KIND_NULL},       {"~", KIND_NULL},      {"null", KIND_NULL},   {"Null", KIND_NULL},
    {"NULL", KIND_NULL},   {"true", KIND_TRUE},   {"True", KIND_TRUE},   {"TRUE", KIND_TRUE},
    {"false", KIND_FALSE}, {"False", KIND_FALSE}, {"FALSE", KIND_FALSE}, {"<<", KIND_MERGE},
};

static const struct word any_case_words[] = {
    {"yes", KIND_WORD},      {"no", KIND_WORD},        {"on", KIND_WORD},
    {"off", KIND_WORD},      {"y", KIND_WORD},         {"n", KIND_WORD},
    {".inf", KIND_INFINITE}, {"+.inf", KIND_INFINITE}, {"-.inf", KIND_INFINITE},
    {".nan", KIND_INFINITE},
};

static enum kind classify_word(const char *text)
{
    for (size_t i = 0; i < ARRAY_LEN(exact_words); i++)
        if (strcmp(text, exact_words[i].text) == 0)
            return exact_words[i].kind;
    for (size_t i = 0; i < ARRAY_LEN(any_case_words); i++)
        if (strcasecmp(text, any_case_words[i].text) == 0)
            return any_case_words[i].kind;
    return KIND_TEXT;
}

static size_t count_digits(const char *p)
{
    return strspn(p, "0123456789");
}

/* 0x1F, 0o17, 0b11, 1_000: numbers to one version or the other, or with another value. */
static bool is_other_base(const char *p)
{
    if (p[0] == '0' && (p[1] == 'x' || p[1] == 'o' || p[1] == 'b'))
        return p[2] && p[2 + strspn(p + 2, "0123456789abcdefABCDEF_")] == '\0';
    return strchr(p, '_') && p[strspn(p, "0123456789_.")] == '\0';
}

/* 1:30 is ninety to YAML 1.1. */
static bool is_base_sixty(const char *p)
{
    size_t n = strspn(p, "0123456789_");
    if (n == 0 || p[n] != ':')
        return false;
    for (p += n; *p == ':'; p += n + 1) {
        n = count_digits(p + 1);
        if (n < 1 || n > 2 || (n == 2 && p[1] > '5'))
            return false;
    }
    return p[strspn(p, "0123456789_.")] == '\0';
}

/* p stands after the sign. A fraction makes a real in both versions; an exponent needs the fraction
 * and a sign of its own to do so. */
static enum kind classify_real(const char *p, size_t whole)
{
    const char *q = p + whole;
    bool point = *q == '.';
    size_t fraction = point ? count_digits(q + 1) : 0;
    if (whole + fraction == 0)
        return KIND_TEXT;
    q += point + fraction;
    bool doubtful = !point || (whole > 1 && p[0] == '0');
    if (*q == 'e' || *q == 'E') {
        bool sign = q[1] == '+' || q[1] == '-';
        size_t digits = count_digits(q + 1 + sign);
        if (digits == 0)
            return KIND_TEXT;
        doubtful = doubtful || !sign;
        q += 1 + sign + digits;
    }
    if (*q)
        return KIND_TEXT;
    return doubtful ? KIND_AMBIGUOUS : KIND_REAL;
}

static enum kind classify(const char *text)
{
    enum kind kind = classify_word(text);
    if (kind != KIND_TEXT)
        return kind;
    const char *p = text + (*text == '+' || *text == '-');
    size_t whole = count_digits(p);
    if (whole > 0 && p[whole] == '\0') /* 0644 is 420 to YAML 1.1 */
        return whole > 1 && p[0] == '0' ? KIND_AMBIGUOUS : KIND_INT;
    if ((whole > 0 || *p == '.') && (is_other_base(p) || is_base_sixty(p)))
        return KIND_AMBIGUOUS;
    return classify_real(p, whole);
}

static int refuse(struct json_builder *b, const struct yaml_scalar *s, enum kind kind)
{
    const struct json_found found = json_quote(s->text, strlen(s->text));
    switch (kind) {
    case KIND_MERGE:
        return json_build_fail(b, s->pos, "merge keys (<<) are not supported in policies");
    case KIND_WORD:
        return json_build_fail(b, s->pos,
                               "found %s, which not every YAML reads alike, expected true, false "
                               "or quotes",
                               found.text);
    case KIND_INFINITE:
        return json_build_fail(b, s->pos, "found %s, expected a finite number or quotes",
                               found.text);
    default:
        return json_build_fail(b, s->pos,
                               "found %s, which not every YAML reads alike, expected a plain "
                               "decimal number or quotes",
                               found.text);
    }
}

static void take_text(struct json *node, struct yaml_scalar *s)
{
    json_build_string(node, s->text);
    s->text = NULL;
}

int yaml_type_value(struct json_builder *b, struct json *node, struct yaml_scalar *s)
{
    enum kind kind = s->plain ? classify(s->text) : KIND_TEXT;
    switch (kind) {
    case KIND_TEXT:
        take_text(node, s);
        return 0;
    case KIND_NULL:
        return 0;
    case KIND_TRUE:
    case KIND_FALSE:
        node->type = JSON_BOOL;
        node->boolean = kind == KIND_TRUE;
        return 0;
    case KIND_INT:
        return json_build_int(b, node, s->text, strlen(s->text));
    case KIND_REAL:
        return json_build_real(b, node, s->text, strlen(s->text));
    default:
        return refuse(b, s, kind);
    }
}

int yaml_type_key(struct json_builder *b, const struct yaml_scalar *s)
{
    enum kind kind = s->plain ? classify(s->text) : KIND_TEXT;
    if (kind == KIND_TEXT)
        return 0;
    if (kind >= KIND_MERGE)
        return refuse(b, s, kind);
    return json_build_fail(b, s->pos, "found %s as a key, expected text: put it in quotes",
                           json_quote(s->text, strlen(s->text)).text);
}
