/* Reads queries, forms and paths; query.h says what is refused. */
#include "http/query.h"

#include "base/hex.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* What %XX stands for; negative if it is none, or a NUL. */
static int percent_value(const char *text, size_t left)
{
    int c = left >= 3 ? hex_byte(text + 1) : -1;
    return c ? c : -1;
}

static bool is_plain(char c)
{
    return (unsigned char)c > ' ' && (unsigned char)c < 0x7f;
}

/* Returns the length of what was written, without the NUL that ends it. */
static int decode(const char *text, size_t len, bool plus, char *out, size_t *ret_len,
                  struct err *err)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        int c = (unsigned char)text[i];
        if (c == '%') {
            c = percent_value(text + i, len - i);
            if (c < 0)
                return err_set(err, ERR_USAGE, "a percent sign that stands for no character");
            i += 2;
        } else if (!is_plain(text[i])) {
            return err_set(err, ERR_USAGE, "a byte that no URL has: 0x%02x", (unsigned)c);
        } else if (plus && c == '+') {
            c = ' ';
        }
        out[n++] = (char)c;
    }
    out[n] = '\0';
    *ret_len = n;
    return 0;
}

/* ---- queries ---- */

static size_t count_pairs(const char *text, size_t len)
{
    size_t n = 1;
    for (size_t i = 0; i < len; i++)
        n += text[i] == '&';
    return n;
}

static int read_pair(const char *text, size_t len, struct query_pair *ret, char **room,
                     struct err *err)
{
    const char *equals = memchr(text, '=', len);
    size_t name = equals ? (size_t)(equals - text) : len;
    size_t value = equals ? len - name - 1 : 0;
    size_t out = 0;
    ret->name = *room;
    if (decode(text, name, true, *room, &out, err) < 0)
        return err_number(err);
    *room += out + 1;
    ret->value = *room;
    if (decode(equals ? equals + 1 : text, value, true, *room, &out, err) < 0)
        return err_number(err);
    *room += out + 1;
    return 0;
}

static int read_pairs(const char *text, size_t len, struct query *q, char *room, struct err *err)
{
    for (size_t at = 0; at < len;) {
        const char *end = memchr(text + at, '&', len - at);
        size_t piece = end ? (size_t)(end - text) - at : len - at;
        if (piece) {
            if (q->count == QUERY_PAIRS_MAX)
                return err_set(err, ERR_USAGE, "more than %d parameters", QUERY_PAIRS_MAX);
            if (read_pair(text + at, piece, &q->pairs[q->count], &room, err) < 0)
                return err_number(err);
            q->count++;
        }
        at += piece + 1;
    }
    return 0;
}

int query_parse(const char *text, size_t len, struct query *ret, struct err *err)
{
    struct query q = {0};
    *ret = q;
    if (!len)
        return 0;
    size_t pairs = count_pairs(text, len);
    if (pairs > QUERY_PAIRS_MAX)
        pairs = QUERY_PAIRS_MAX;
    /* Decoding makes nothing longer; each pair ends with two NULs, in place of "=" and "&". */
    char *block = malloc(pairs * sizeof(*q.pairs) + len + 2 * pairs + 2);
    if (!block)
        return err_memory(err);
    q.pairs = (struct query_pair *)(void *)block;
    int r = read_pairs(text, len, &q, block + pairs * sizeof(*q.pairs), err);
    if (r < 0)
        query_done(&q);
    else
        *ret = q;
    return r;
}

void query_done(struct query *q)
{
    free(q->pairs);
    *q = (struct query){0};
}

const char *query_get(const struct query *q, const char *name)
{
    for (size_t i = 0; i < q->count; i++)
        if (!strcmp(q->pairs[i].name, name))
            return q->pairs[i].value;
    return NULL;
}

/* ---- paths ---- */

static bool is_dots(const char *segment, size_t len)
{
    return (len == 1 && segment[0] == '.') || (len == 2 && segment[0] == '.' && segment[1] == '.');
}

static int check_segments(const char *path, struct err *err)
{
    for (const char *p = path; *p;) {
        size_t len = strcspn(p, "/");
        if (is_dots(p, len))
            return err_set(err, ERR_USAGE, "a path with . or .. in it");
        p += len + (p[len] == '/');
    }
    return 0;
}

int path_decode(const char *text, size_t len, char *out, struct err *err)
{
    size_t n = 0;
    for (size_t i = 0; i + 2 < len; i++) {
        int c = text[i] == '%' ? percent_value(text + i, len - i) : 0;
        if (c == '/' || c == '\\')
            return err_set(err, ERR_USAGE, "a slash that is written as a percent sign");
    }
    if (decode(text, len, false, out, &n, err) < 0)
        return err_number(err);
    return check_segments(out, err);
}
