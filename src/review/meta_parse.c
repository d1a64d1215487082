/* The record of a review: JSON, one object. */
#include "base/cleanup.h"
#include "base/hex.h"
#include "review/review.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void review_meta_done(struct review_meta *m)
{
    free(m->source);
    free(m->dest);
    free(m->command);
    *m = (struct review_meta){0};
}

/* As text: JSON's own numbers end at 63 bits here. */
static void put(struct json_writer *w, const char *key, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    jw_kv_string(w, key, text);
}

/* Paths are bytes: those that are not UTF-8 would not come back as they went. Each byte outside of
 * plain ASCII is written as %XX. */
static void put_bytes(struct json_writer *w, const char *key, const char *text)
{
    cleanup_buf struct buf out;
    buf_init(&out, 3 * strlen(text) + 1);
    for (const char *p = text; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (c < 0x21 || c > 0x7e || c == '%')
            buf_fmt(&out, "%%%02X", c);
        else
            buf_chr(&out, *p);
    }
    jw_kv_string(w, key, buf_text(&out));
}

void review_meta_write(const struct review_meta *m, struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out, true);
    jw_object_begin(&w);
    jw_kv_string(&w, "id", m->id);
    jw_kv_bool(&w, "copy", m->copy);
    put_bytes(&w, "source", m->source);
    put_bytes(&w, "dest", m->dest);
    put_bytes(&w, "command", m->command);
    put(&w, "dev", m->dev);
    put(&w, "ino", m->ino);
    put(&w, "uid", m->uid);
    put(&w, "gid", m->gid);
    put(&w, "started_ns", (uint64_t)m->started_ns);
    put(&w, "limit", m->limit);
    jw_object_end(&w);
    buf_chr(out, '\n');
}

static int take_bytes(const struct json *root, const char *key, char **ret)
{
    const struct json *j = json_get(root, key);
    const char *text = j ? json_string(j) : NULL;
    char *out = *ret = text ? malloc(strlen(text) + 1) : NULL;
    if (!out)
        return -1;
    for (; *text; text++) {
        bool escaped = text[0] == '%';
        int c = escaped ? hex_byte(text + 1) : text[0];
        if (escaped && c <= 0)
            return -1;
        *out++ = (char)c;
        text += escaped ? 2 : 0;
    }
    *out = '\0';
    return 0;
}

static int take(const struct json *root, const char *key, uint64_t *ret)
{
    const struct json *j = json_get(root, key);
    const char *text = j ? json_string(j) : NULL;
    if (!text || !*text)
        return -1;
    for (*ret = 0; *text; text++) {
        unsigned digit = (unsigned)(*text - '0');
        if (digit > 9 || *ret > (UINT64_MAX - digit) / 10)
            return -1;
        *ret = *ret * 10 + digit;
    }
    return 0;
}

static int read_object(const struct json *root, struct review_meta *m)
{
    uint64_t started = 0;
    const struct json *id = json_get(root, "id"), *copy = json_get(root, "copy");
    const char *text = id ? json_string(id) : NULL;
    if (!text || strlen(text) >= sizeof m->id || !copy || json_type(copy) != JSON_BOOL ||
        take_bytes(root, "source", &m->source) < 0 || take_bytes(root, "dest", &m->dest) < 0 ||
        take_bytes(root, "command", &m->command) < 0 || take(root, "dev", &m->dev) < 0 ||
        take(root, "ino", &m->ino) < 0 || take(root, "uid", &m->uid) < 0 ||
        take(root, "gid", &m->gid) < 0 || take(root, "limit", &m->limit) < 0 ||
        take(root, "started_ns", &started) < 0 || started > INT64_MAX || m->source[0] != '/')
        return -1;
    snprintf(m->id, sizeof m->id, "%s", text);
    m->copy = json_bool(copy);
    m->started_ns = (int64_t)started;
    return 0;
}

int review_meta_parse(const char *text, size_t len, struct review_meta *ret, struct err *err)
{
    struct json *root = NULL;
    *ret = (struct review_meta){0};
    int r = json_parse(text, len, &json_default_limits, &root, err);
    if (r >= 0 && (json_type(root) != JSON_OBJECT || read_object(root, ret) < 0))
        r = err_set(err, ERR_PROTOCOL, "the record of the review is damaged");
    json_free(root);
    if (r < 0)
        review_meta_done(ret);
    return r;
}
