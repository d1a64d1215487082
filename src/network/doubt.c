/* Finds headers and parameters that could make a server see another request than brig decided on,
 * such as X-HTTP-Method-Override. By the shape of their names rather than by a list: frameworks
 * invent new ones, but call a method a method. */
#include "network/doubt.h"

#include "base/cleanup.h"
#include "http/name.h"

#include <string.h>
#include <strings.h>

enum how {
    WORD, /* one of its words */
    PART, /* anywhere, borders aside */
};

static const struct shape {
    const char *text;
    enum how how;
    enum doubt_kind kind;
} shapes[] = {
    {"forwarded", WORD, DOUBT_HOST}, /* Forwarded, X-Forwarded-Host, -Proto, -For, -Uri, … */
    {"host", WORD, DOUBT_HOST},      /* X-Host, X-Original-Host, X-HTTP-Host-Override, … */
    {"hostname", WORD, DOUBT_HOST},  /* X-Hostname */
    {"authority", WORD, DOUBT_HOST}, /* X-Authority, X-Envoy-Original-Authority */
    {"method", WORD, DOUBT_METHOD},  /* X-HTTP-Method, X-Method-Override, … */
    {"httpmethod", PART, DOUBT_METHOD},
    {"methodoverride", PART, DOUBT_METHOD},
    {"verb", WORD, DOUBT_METHOD},
    {"override", WORD, DOUBT_PATH},
    {"original", WORD, DOUBT_PATH}, /* X-Original-URL */
    {"rewrite", WORD, DOUBT_PATH},  /* X-Rewrite-URL, X-Middleware-Rewrite */
    {"url", WORD, DOUBT_PATH},
    {"uri", WORD, DOUBT_PATH},
    {"path", WORD, DOUBT_PATH},
    {"route", WORD, DOUBT_PATH},
    {"prefix", WORD, DOUBT_PATH},
    {"scriptname", PART, DOUBT_PATH}, /* what of the path is cut off */
    {"pathinfo", PART, DOUBT_PATH},
    {"basepath", PART, DOUBT_PATH},
    {"subrequest", WORD, DOUBT_PATH}, /* X-Middleware-Subrequest: checks are left out */
    {"originalurl", PART, DOUBT_PATH},
    {"rewriteurl", PART, DOUBT_PATH},
    {"requesturi", PART, DOUBT_PATH},
    {"destination", WORD, DOUBT_PATH}, /* of COPY and MOVE */
    {"destinationurl", PART, DOUBT_PATH},
    {"copysource", PART, DOUBT_PATH}, /* X-Amz-Copy-Source and its kin: where it is read from */
    {"renamesource", PART, DOUBT_PATH},
    {"accelredirect", PART, DOUBT_PATH},
    {"sendfile", PART, DOUBT_PATH},
};

/* Names of that shape which mean something else, to every server. */
static const char *const harmless[] = {
    "Host", /* it has been compared */
    "Access-Control-Request-Method",
};

static bool is_harmless(const struct folded *name)
{
    for (size_t i = 0; i < ARRAY_LEN(harmless); i++)
        if (name_same(name, harmless[i]))
            return true;
    return false;
}

static const struct shape *shape_of(const struct folded *name)
{
    for (size_t i = 0; i < ARRAY_LEN(shapes); i++)
        if (shapes[i].how == WORD ? name_has_word(name, shapes[i].text)
                                  : name_has_part(name, shapes[i].text))
            return is_harmless(name) ? NULL : &shapes[i];
    return NULL;
}

bool doubt_is_method(const char *name, size_t len)
{
    static const char *const as_headers[] = {"X-HTTP-Method-Override", "X-HTTP-Method",
                                             "X-Method-Override", "HTTP-Method-Override",
                                             "Method-Override"};
    struct folded f;
    name_fold(name, len, true, &f);
    if (f.marked && name_has_word(&f, "method"))
        return true;
    for (size_t i = 0; i < ARRAY_LEN(as_headers); i++)
        if (name_same(&f, as_headers[i]))
            return true;
    return false;
}

/* "_url" and its kin, where servers take the path from the query. */
static bool is_path_member(const char *name, size_t len)
{
    static const char *const words[] = {"url", "uri", "path", "route"};
    struct folded f;
    name_fold(name, len, true, &f);
    for (size_t i = 0; f.marked && i < ARRAY_LEN(words); i++)
        if (name_has_word(&f, words[i]))
            return true;
    return false;
}

bool doubt_is_any(const char *header)
{
    struct folded f;
    name_fold(header, strlen(header), false, &f);
    return shape_of(&f) != NULL;
}

bool doubt_is_host(const char *header)
{
    struct folded f;
    name_fold(header, strlen(header), false, &f);
    const struct shape *s = shape_of(&f);
    return s && s->kind == DOUBT_HOST;
}

/* ASCII is the same in them. */
static bool is_usual(const char *charset, size_t len)
{
    static const char *const names[] = {"utf-8",     "utf8",   "ascii",      "us-ascii",
                                        "iso-8859-", "latin1", "windows-125"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        size_t most = strlen(names[i]);
        bool family = names[i][most - 1] == '-' || names[i][most - 1] == '5';
        if (strncasecmp(charset, names[i], most) == 0 && (family ? len <= most + 2 : len == most))
            return true;
    }
    return false;
}

/* Some servers read query and form in the charset of the Content-Type, with a body or without:
 * "_method" in EBCDIC or UTF-16 has none of the bytes that are looked for here. */
static bool has_odd_charset(const char *type)
{
    for (const char *at = type; (at = strcasestr(at, "charset"));) {
        at += strlen("charset");
        at += strspn(at, " \t");
        if (*at != '=')
            continue;
        at += 1 + strspn(at + 1, " \t\"'");
        size_t len = strcspn(at, " \t\"';,");
        if (len && !is_usual(at, len))
            return true;
    }
    return false;
}

static void add(struct doubts *d, enum doubt_kind kind, bool query, const char *name, size_t len)
{
    d->more |= d->count == DOUBTS_MAX || len > PASS_NAME_MAX;
    if (d->count == DOUBTS_MAX)
        return;
    struct doubt *item = &d->items[d->count++];
    *item = (struct doubt){.kind = kind, .query = query};
    memcpy(item->name, name, len < PASS_NAME_MAX ? len : PASS_NAME_MAX);
}

void doubts_find(const struct http_request *r, struct doubts *ret)
{
    *ret = (struct doubts){.count = 0};
    for (size_t i = 0; i < r->headers.count; i++) {
        const char *name = r->headers.items[i].name;
        struct folded f;
        name_fold(name, strlen(name), false, &f);
        const struct shape *s = shape_of(&f);
        if (s)
            add(ret, s->kind, false, name, strlen(name));
        else if (name_same(&f, "Content-Type") && has_odd_charset(r->headers.items[i].value))
            add(ret, DOUBT_CODING, false, name, strlen(name));
    }
    const char *query = r->target ? strchr(r->target, '?') : NULL;
    struct query_member m;
    while (query && query_member_next(&query, &m))
        if (doubt_is_method(m.text, m.name_len))
            add(ret, DOUBT_METHOD, true, m.text, m.name_len);
        else if (is_path_member(m.text, m.name_len))
            add(ret, DOUBT_PATH, true, m.text, m.name_len);
}

const struct doubt *doubts_open(const struct doubts *d, const struct egress_rule *r)
{
    if (d->more)
        return &d->items[0];
    for (size_t i = 0; i < d->count; i++) {
        const struct doubt *item = &d->items[i];
        if (!r || !rule_passes(r, item->name, strlen(item->name), item->query))
            return item;
    }
    return NULL;
}
