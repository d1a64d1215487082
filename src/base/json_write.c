/* The JSON writer. What it is given may come from inside the sandbox: whatever the bytes are, the
 * output is one well-formed value, in UTF-8, in which nothing can move a terminal's cursor or
 * reorder its line. */
#include "base/hex.h"
#include "base/json_build.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void jw_init(struct json_writer *w, struct buf *out, bool pretty)
{
    *w = (struct json_writer){.out = out, .pretty = pretty};
}

void jw_begin(struct json_writer *w, struct buf *out, size_t cap)
{
    buf_init(out, cap);
    jw_init(w, out, false);
    jw_object_begin(w);
}

static void new_line(struct json_writer *w)
{
    if (!w->pretty)
        return;
    buf_chr(w->out, '\n');
    for (unsigned i = 0; i < w->depth; i++)
        buf_add(w->out, "  ", 2);
}

/* What stands between the previous token and the next value or key. */
static void separate(struct json_writer *w)
{
    if (w->after_key) {
        w->after_key = false;
        return;
    }
    if (w->need_comma)
        buf_chr(w->out, ',');
    if (w->depth > 0)
        new_line(w);
}

static void begin(struct json_writer *w, char bracket)
{
    separate(w);
    buf_chr(w->out, bracket);
    w->depth++;
    w->need_comma = false;
}

static void end(struct json_writer *w, char bracket)
{
    if (w->depth > 0)
        w->depth--;
    if (w->need_comma)
        new_line(w);
    buf_chr(w->out, bracket);
    w->need_comma = true;
}

void jw_object_begin(struct json_writer *w)
{
    begin(w, '{');
}

void jw_object_end(struct json_writer *w)
{
    end(w, '}');
}

void jw_array_begin(struct json_writer *w)
{
    begin(w, '[');
}

void jw_array_end(struct json_writer *w)
{
    end(w, ']');
}

/* Controls, line separators that some readers take for an end of line, and the marks that change
 * the direction of text. */
static bool must_escape(uint32_t code)
{
    return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x61C || code == 0x200E ||
           code == 0x200F || (code >= 0x2028 && code <= 0x202E) ||
           (code >= 0x2066 && code <= 0x2069);
}

void json_write_unit(struct buf *out, uint32_t unit)
{
    char text[] = {'\\',
                   'u',
                   HEX_DIGITS[unit >> 12 & 15],
                   HEX_DIGITS[unit >> 8 & 15],
                   HEX_DIGITS[unit >> 4 & 15],
                   HEX_DIGITS[unit & 15]};
    buf_add(out, text, sizeof text);
}

/* What one character becomes, at its longest: "\\u202e". */
#define LONGEST 6
/* So many plain ones in a row are found faster by their words than one by one. */
#define A_RUN 16

static size_t write_escape(char out[static LONGEST], uint32_t code)
{
    static const char values[] = "\b\f\n\r\t";
    static const char names[] = "bfnrt";
    const char *value = code && code < 0x20 ? strchr(values, (int)code) : NULL;
    out[0] = '\\';
    if (value) {
        out[1] = names[value - values];
        return 2;
    }
    out[1] = 'u';
    for (unsigned i = 0; i < 4; i++)
        out[2 + i] = HEX_DIGITS[code >> (12 - 4 * i) & 15];
    return LONGEST;
}

/* Returns how many bytes of the input were used up. */
static size_t write_foreign(char out[static LONGEST], const char *p, size_t left, size_t *ret_len)
{
    uint32_t code;
    size_t n = utf8_decode(p, left, &code);
    if (n == 0) {
        memcpy(out, "\xEF\xBF\xBD", 3); /* U+FFFD */
        *ret_len = 3;
        return 1;
    }
    if (must_escape(code)) {
        *ret_len = write_escape(out, code);
        return n;
    }
    memcpy(out, p, n);
    *ret_len = n;
    return n;
}

/* Those that are not plain, and plain ones between them, until many of these come. Whoever chooses
 * what is written can make all of it such: each byte has to be cheap. */
static size_t write_characters(struct buf *out, const char *p, size_t left, size_t most)
{
    char room[1024];
    size_t len = 0, at = 0, plain = 0;
    while (at < most && plain < A_RUN && len <= sizeof room - LONGEST) {
        unsigned char c = (unsigned char)p[at];
        if (c >= 0x80) {
            size_t n;
            at += write_foreign(room + len, p + at, left - at, &n);
            len += n;
            continue;
        }
        at++;
        if (c < 0x20 || c == 0x7F) {
            len += write_escape(room + len, c);
            plain = 0;
            continue;
        }
        bool quoted = c == '"' || c == '\\';
        if (quoted)
            room[len++] = '\\';
        room[len++] = (char)c;
        plain = quoted ? 0 : plain + 1;
    }
    buf_add(out, room, len);
    return at;
}

/* How many of the next bytes are characters beyond ASCII that stand for themselves: none of them
 * begins as those do that must_escape() knows, U+0080 to U+009F, U+061C and some of U+2000 to
 * U+207F. */
static size_t foreign_run(const char *p, size_t left)
{
    size_t n = 0, run = utf8_run(p, left);
    const unsigned char *u = (const unsigned char *)p;
    while (n < run && u[n] != 0xC2 && !(u[n] == 0xD8 && u[n + 1] == 0x9C) &&
           !(u[n] == 0xE2 && u[n + 1] < 0x82))
        n += u[n] < 0xE0 ? 2 : u[n] < 0xF0 ? 3 : 4;
    return n;
}

size_t json_write_some(struct buf *out, const char *text, size_t left, size_t most)
{
    size_t at = 0, end = left < most ? left : most;
    while (at < end && !out->failed) {
        /* A character may reach beyond the piece, not beyond the text. */
        size_t run = (unsigned char)text[at] < 0x80
                         ? json_plain_run(text + at, end - at)
                         : foreign_run(text + at, left - at < 4096 ? left - at : 4096);
        if (run)
            buf_add(out, text + at, run);
        else
            run = write_characters(out, text + at, left - at, end - at);
        at += run;
    }
    return at;
}

static void write_quoted(struct buf *out, const char *p, size_t len)
{
    buf_chr(out, '"');
    json_write_some(out, p, len, len);
    buf_chr(out, '"');
}

void jw_key(struct json_writer *w, const char *key)
{
    separate(w);
    write_quoted(w->out, key, strlen(key));
    buf_str(w->out, w->pretty ? ": " : ":");
    w->need_comma = true;
    w->after_key = true;
}

void jw_bytes(struct json_writer *w, const void *data, size_t len)
{
    separate(w);
    write_quoted(w->out, data, len);
    w->need_comma = true;
}

static void write_bare(struct json_writer *w, const char *text)
{
    separate(w);
    buf_str(w->out, text);
    w->need_comma = true;
}

void jw_written(struct json_writer *w, const struct buf *value)
{
    separate(w);
    if (value->len && !value->failed)
        buf_add(w->out, value->data, value->len);
    else
        buf_str(w->out, "null");
    w->need_comma = true;
}

void jw_string(struct json_writer *w, const char *s)
{
    if (s)
        jw_bytes(w, s, strlen(s));
    else
        jw_null(w);
}

void jw_int(struct json_writer *w, int64_t v)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, v);
    write_bare(w, text);
}

void jw_uint(struct json_writer *w, uint64_t v)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, v);
    write_bare(w, text);
}

/* The shortest text that reads back as the same number, and as a real: 3.0 stays 3.0. JSON has no
 * word for what is not finite. */
void jw_real(struct json_writer *w, double v)
{
    char text[40];
    if (!isfinite(v)) {
        jw_null(w);
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            break;
    }
    if (!strpbrk(text, ".e"))
        memcpy(text + strlen(text), ".0", sizeof ".0");
    write_bare(w, text);
}

void jw_bool(struct json_writer *w, bool v)
{
    write_bare(w, v ? "true" : "false");
}

void jw_null(struct json_writer *w)
{
    write_bare(w, "null");
}

static void write_tree(struct json_writer *w, const struct json *j, bool sorted);

static void write_box(struct json_writer *w, const struct json *j, bool sorted)
{
    bool object = j->type == JSON_OBJECT;
    begin(w, object ? '{' : '[');
    for (size_t i = 0; i < j->count && !w->out->failed; i++) {
        const struct json *item = object && sorted ? j->by_key[i] : &j->items[i];
        if (object)
            jw_key(w, item->key);
        write_tree(w, item, sorted);
    }
    end(w, object ? '}' : ']');
}

/* Recursion is bounded by JSON_DEPTH_CEILING. */
static void write_tree(struct json_writer *w, const struct json *j, bool sorted)
{
    switch (json_type(j)) {
    case JSON_NULL:
        jw_null(w);
        break;
    case JSON_BOOL:
        jw_bool(w, j->boolean);
        break;
    case JSON_INT:
        jw_int(w, j->integer);
        break;
    case JSON_REAL:
        jw_real(w, j->real);
        break;
    case JSON_STRING:
        jw_string(w, j->string);
        break;
    case JSON_ARRAY:
    case JSON_OBJECT:
        write_box(w, j, sorted);
        break;
    }
}

void jw_json(struct json_writer *w, const struct json *j)
{
    write_tree(w, j, false);
}

void jw_json_sorted(struct json_writer *w, const struct json *j)
{
    write_tree(w, j, true);
}

void jw_kv_string(struct json_writer *w, const char *key, const char *s)
{
    jw_key(w, key);
    jw_string(w, s);
}

void jw_kv_int(struct json_writer *w, const char *key, int64_t v)
{
    jw_key(w, key);
    jw_int(w, v);
}

void jw_kv_uint(struct json_writer *w, const char *key, uint64_t v)
{
    jw_key(w, key);
    jw_uint(w, v);
}

void jw_kv_bool(struct json_writer *w, const char *key, bool v)
{
    jw_key(w, key);
    jw_bool(w, v);
}

void jw_kv_bytes(struct json_writer *w, const char *key, const void *bytes, size_t len)
{
    jw_key(w, key);
    jw_bytes(w, bytes, len);
}

void jw_kv_json(struct json_writer *w, const char *key, const struct json *tree)
{
    jw_key(w, key);
    jw_json(w, tree);
}

void jw_kv_object(struct json_writer *w, const char *key)
{
    jw_key(w, key);
    jw_object_begin(w);
}

void jw_kv_array(struct json_writer *w, const char *key)
{
    jw_key(w, key);
    jw_array_begin(w);
}

const char *json_small(char at[static JSON_SMALL_MAX], const struct json_member *members,
                       size_t count)
{
    cleanup_buf struct buf out;
    struct json_writer w;
    buf_init(&out, JSON_SMALL_MAX - 1);
    jw_init(&w, &out, false);
    jw_object_begin(&w);
    for (size_t i = 0; i < count; i++) {
        const struct json_member *m = &members[i];
        jw_key(&w, m->key);
        if (m->type == JSON_STRING)
            jw_string(&w, m->string);
        else if (m->type == JSON_BOOL)
            jw_bool(&w, m->number != 0);
        else
            jw_int(&w, m->number);
    }
    jw_object_end(&w);
    snprintf(at, JSON_SMALL_MAX, "%s", out.failed ? "{\"cut\":true}" : buf_text(&out));
    return at;
}
