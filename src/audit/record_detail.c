/* The detail of a record: JSON of the sender's, written anew with sorted keys, and without what
 * must not be in a record (AU-2). The senders leave it out already; this is the second look. */
#include "audit/record.h"

#include "base/api_key.h"
#include "base/cleanup.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MEMBERS_MAX 64
#define DEPTH_MAX   8
#define TEXT_MAX    2048
#define KEPT_BACK   "[kept back]"

/* Names whose texts, lists and objects are nobody's business. Numbers and truth under them are
 * harmless: an exit code, the length of a body. */
static const char *const private_names[] = {
    "access_token", "accesstoken", "api_key",    "apikey",   "authorization", "body",    "code",
    "content",      "contents",    "cookie",     "cookies",  "data",          "env",     "environ",
    "environment",  "envs",        "env_vars",   "envvars",  "header",        "headers", "input",
    "key_text",     "output",      "passphrase", "password", "private_key",   "query",   "secret",
    "secrets",      "set_cookie",  "stderr",     "stdin",    "stdout",        "token",   "tokens",
    "value",        "values",      "x_api_key",
};

static bool same_name(const char *name, const char *listed)
{
    for (; *name && *listed; name++, listed++) {
        char c = *name == '-' ? '_' : *name;
        if (strncasecmp(&c, listed, 1) != 0)
            return false;
    }
    return !*name && !*listed;
}

static bool is_private(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(private_names); i++) {
        if (same_name(name, private_names[i]))
            return true;
    }
    return false;
}

/* ---- texts ---- */

/* "?a=b": a query, up to the next blank. A question mark alone is one. */
static size_t query_at(const char *p)
{
    if (*p != '?')
        return 0;
    size_t len = strcspn(p, " \t\n\"'<>");
    return memchr(p, '=', len) ? len : 0;
}

/* "//user:password@host": what stands before the '@'. */
static size_t userinfo_at(const char *start, const char *p)
{
    if (p - start < 2 || p[-1] != '/' || p[-2] != '/')
        return 0;
    size_t len = strcspn(p, "/?# \t\n\"'<>");
    const char *at = memrchr(p, '@', len);
    return at && memchr(p, ':', (size_t)(at - p)) ? (size_t)(at - p) : 0;
}

static void clean_text(const char *text, struct buf *out)
{
    const char *p = text, *end = text + strlen(text);
    while (p < end && out->len < TEXT_MAX) {
        size_t skip = api_key_at(p);
        skip = skip ? skip : query_at(p);
        skip = skip ? skip : userinfo_at(text, p);
        if (skip) {
            buf_str(out, *p == '?' ? "?" KEPT_BACK : KEPT_BACK);
            p += skip;
            continue;
        }
        uint32_t code;
        size_t len = utf8_decode(p, (size_t)(end - p), &code);
        len = len ? len : 1;
        buf_add(out, p, len);
        p += len;
    }
    if (p < end)
        buf_str(out, "…");
}

static void write_text(struct json_writer *w, const char *text)
{
    cleanup_buf struct buf clean;
    buf_init(&clean, TEXT_MAX + 64);
    clean_text(text, &clean);
    jw_bytes(w, buf_text(&clean), clean.len);
}

/* ---- tree ---- */

static int write_value(struct json_writer *w, const struct json *j, unsigned depth,
                       struct err *err);

struct member {
    const char *name;
    const struct json *value; /* NULL: the count */
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct member *)a)->name, ((const struct member *)b)->name);
}

static bool is_quiet(const struct json *j)
{
    enum json_type t = json_type(j);
    return t == JSON_STRING || t == JSON_ARRAY || t == JSON_OBJECT;
}

static int write_member(struct json_writer *w, const struct member *m, const uint64_t *count,
                        unsigned depth, struct err *err)
{
    jw_key(w, m->name);
    if (!m->value)
        jw_uint(w, *count);
    else if (is_private(m->name) && is_quiet(m->value))
        jw_string(w, KEPT_BACK);
    else
        return write_value(w, m->value, depth + 1, err);
    return 0;
}

static int write_object(struct json_writer *w, const struct json *j, const uint64_t *count,
                        unsigned depth, struct err *err)
{
    struct member members[MEMBERS_MAX + 1];
    size_t n = 0;
    if (json_count(j) > MEMBERS_MAX || depth > DEPTH_MAX)
        return err_set(err, ERR_LIMIT, "the detail of a record has too many parts");
    for (size_t i = 0; i < json_count(j); i++) {
        if (!count || strcmp(json_key_at(j, i), "count") != 0)
            members[n++] = (struct member){json_key_at(j, i), json_value_at(j, i)};
    }
    if (count)
        members[n++] = (struct member){.name = "count"};
    qsort(members, n, sizeof members[0], by_name);
    jw_object_begin(w);
    for (size_t i = 0; i < n; i++) {
        int r = write_member(w, &members[i], count, depth, err);
        if (r < 0)
            return r;
    }
    jw_object_end(w);
    return 0;
}

static int write_array(struct json_writer *w, const struct json *j, unsigned depth, struct err *err)
{
    if (depth > DEPTH_MAX)
        return err_set(err, ERR_LIMIT, "the detail of a record is too deep");
    jw_array_begin(w);
    for (size_t i = 0; i < json_count(j); i++) {
        int r = write_value(w, json_at(j, i), depth + 1, err);
        if (r < 0)
            return r;
    }
    jw_array_end(w);
    return 0;
}

static int write_value(struct json_writer *w, const struct json *j, unsigned depth, struct err *err)
{
    switch (json_type(j)) {
    case JSON_STRING:
        write_text(w, json_string(j));
        return 0;
    case JSON_OBJECT:
        return write_object(w, j, NULL, depth, err);
    case JSON_ARRAY:
        return write_array(w, j, depth, err);
    default:
        jw_json(w, j);
        return 0;
    }
}

int record_detail_write(const struct json *detail, const uint64_t *count, struct buf *out,
                        struct err *err)
{
    struct json_writer w;
    if (json_type(detail) != JSON_OBJECT)
        return err_set(err, ERR_PROTOCOL, "the detail of a record is an object");
    jw_init(&w, out, false);
    int r = write_object(&w, detail, count, 0, err);
    if (r >= 0 && out->failed)
        r = err_set(err, ERR_LIMIT, "the detail of a record is too long");
    return r;
}
