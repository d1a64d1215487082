/* One record: how it is written, what a sender may say, how it is read back. Pure. */
#include "audit/record.h"

#include "base/cleanup.h"
#include "base/sha256.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* A detail is small: deeper or wider than this is none of ours. */
static const struct json_limits line_limits = {
    .max_bytes = RECORD_MAX, .max_depth = 12, .max_nodes = 2048};

/* ---- parts ---- */

static bool is_word(const char *text, const char *set, size_t max)
{
    size_t len = text ? strlen(text) : 0;
    return len > 0 && len <= max && strspn(text, set) == len;
}

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define ID    LOWER "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

static int check_parts(const struct record *r, struct err *err)
{
    if (!is_word(r->boundary, LOWER, 20))
        return err_set(err, ERR_PROTOCOL, "a record's boundary is a word in lower case");
    if (!is_word(r->kind, LOWER "._", 64))
        return err_set(err, ERR_PROTOCOL, "a record's kind is words in lower case with dots");
    if (r->box && !is_word(r->box, ID, 64))
        return err_set(err, ERR_PROTOCOL, "a record's box is not an id");
    if (r->key && !is_word(r->key, ID, 32))
        return err_set(err, ERR_PROTOCOL, "a record's key is not an id");
    return 0;
}

void record_time(int64_t time_us, char ret[static RECORD_TIME_SIZE])
{
    int64_t sec = time_us / 1000000, us = time_us % 1000000;
    struct tm tm = {0};
    if (us < 0) {
        us += 1000000;
        sec--;
    }
    gmtime_r(&(time_t){sec}, &tm);
    /* Bounded, so that a broken clock cannot make the text longer. */
    snprintf(ret, RECORD_TIME_SIZE, "%04u-%02u-%02uT%02u:%02u:%02u.%06uZ",
             (unsigned)(tm.tm_year + 1900) % 10000, (unsigned)(tm.tm_mon + 1) % 100,
             (unsigned)tm.tm_mday % 100, (unsigned)tm.tm_hour % 100, (unsigned)tm.tm_min % 100,
             (unsigned)tm.tm_sec % 100, (unsigned)us % 1000000);
}

static bool is_time(const char *text)
{
    static const char form[] = "0000-00-00T00:00:00.000000Z";
    if (!text || strlen(text) != sizeof form - 1)
        return false;
    for (size_t i = 0; form[i]; i++) {
        bool digit = text[i] >= '0' && text[i] <= '9';
        if (form[i] == '0' ? !digit : text[i] != form[i])
            return false;
    }
    return true;
}

/* ---- write ---- */

static int check_detail(const char *text, struct err *err)
{
    struct json *tree = NULL;
    int r = json_parse(text, strlen(text), &line_limits, &tree, err);
    if (r >= 0 && json_type(tree) != JSON_OBJECT)
        r = err_set(err, ERR_PROTOCOL, "it is no object");
    json_free(tree);
    return r < 0 ? err_wrap(err, "a record's detail") : 0;
}

/* The detail is JSON already. */
static void add_raw(struct json_writer *w, const char *key, const char *json)
{
    jw_key(w, key);
    buf_str(w->out, json);
    w->after_key = false;
}

int record_write(const struct record *r, struct buf *out, struct err *err)
{
    struct json_writer w;
    char time[RECORD_TIME_SIZE];
    size_t before = out->len;
    if (check_parts(r, err) < 0 || (r->detail && check_detail(r->detail, err) < 0))
        return err_number(err);
    record_time(r->time_us, time);
    jw_init(&w, out, false);
    jw_object_begin(&w);
    jw_kv_string(&w, "boundary", r->boundary);
    if (r->box)
        jw_kv_string(&w, "box", r->box);
    if (r->detail)
        add_raw(&w, "detail", r->detail);
    if (r->key)
        jw_kv_string(&w, "key", r->key);
    jw_kv_string(&w, "kind", r->kind);
    jw_kv_uint(&w, "seq", r->seq);
    jw_kv_string(&w, "time", time);
    jw_object_end(&w);
    if (out->failed || out->len - before > RECORD_MAX)
        return err_set(err, ERR_LIMIT, "a record is at most %d bytes", RECORD_MAX);
    return 0;
}

/* ---- read ---- */

/* null is as good as nothing. */
static int take_text(const struct json *value, const char **ret)
{
    if (json_type(value) == JSON_NULL)
        return 0;
    *ret = json_string(value);
    return *ret ? 0 : -1;
}

static int take_member(const char *name, const struct json *value, struct record *r,
                       const struct json **detail)
{
    if (strcmp(name, "boundary") == 0)
        return take_text(value, &r->boundary);
    if (strcmp(name, "kind") == 0)
        return take_text(value, &r->kind);
    if (strcmp(name, "box") == 0)
        return take_text(value, &r->box);
    if (strcmp(name, "key") == 0)
        return take_text(value, &r->key);
    if (strcmp(name, "detail") != 0)
        return -1;
    if (json_type(value) == JSON_NULL)
        return 0;
    *detail = value;
    return json_type(value) == JSON_OBJECT ? 0 : -1;
}

int record_read(const struct json *json, struct record *ret, struct buf *detail_room,
                struct err *err)
{
    const struct json *detail = NULL;
    *ret = (struct record){.seq = 0};
    if (json_type(json) != JSON_OBJECT)
        return err_set(err, ERR_PROTOCOL, "a record is an object");
    for (size_t i = 0; i < json_count(json); i++) {
        const char *name = json_key_at(json, i);
        if (take_member(name, json_value_at(json, i), ret, &detail) < 0)
            return err_set(err, ERR_PROTOCOL, "a record has no such member: %.40s", name);
    }
    if (check_parts(ret, err) < 0)
        return err_number(err);
    if (!detail)
        return 0;
    buf_reset(detail_room);
    int r = record_detail_write(detail, NULL, detail_room, err);
    ret->detail = buf_text(detail_room);
    return r;
}

static int parse_members(const struct json *tree, struct record *r, struct err *err)
{
    const struct json *seq = json_get(tree, "seq"), *time = json_get(tree, "time");
    const struct json *detail = NULL;
    if (!seq || json_type(seq) != JSON_INT || json_int(seq) < 1)
        return err_set(err, ERR_PROTOCOL, "it has no number");
    if (!time || !is_time(json_string(time)))
        return err_set(err, ERR_PROTOCOL, "it has no time");
    r->seq = (uint64_t)json_int(seq);
    for (size_t i = 0; i < json_count(tree); i++) {
        const char *name = json_key_at(tree, i);
        if (strcmp(name, "seq") != 0 && strcmp(name, "time") != 0 &&
            take_member(name, json_value_at(tree, i), r, &detail) < 0)
            return err_set(err, ERR_PROTOCOL, "it has a strange member");
    }
    return check_parts(r, err);
}

int record_parse(const char *line, size_t len, struct json **ret_tree, struct record *ret,
                 struct err *err)
{
    *ret = (struct record){.seq = 0};
    *ret_tree = NULL;
    int r = json_parse(line, len, &line_limits, ret_tree, err);
    if (r >= 0 && json_type(*ret_tree) != JSON_OBJECT)
        r = err_set(err, ERR_PROTOCOL, "it is no object");
    if (r >= 0)
        r = parse_members(*ret_tree, ret, err);
    if (r < 0) {
        json_free(*ret_tree);
        *ret_tree = NULL;
    }
    return r;
}

/* ---- chain ---- */

void chain_digest(const char *line, size_t len, uint8_t ret[32])
{
    struct sha256 h;
    sha256_init(&h);
    sha256_add(&h, line, len);
    sha256_finish(&h, ret);
}

void chain_add(const uint8_t previous[32], const uint8_t digest[32], uint8_t ret[32])
{
    static const char domain[] = "brig audit v1\n";
    struct sha256 h;
    sha256_init(&h);
    sha256_add(&h, domain, sizeof domain - 1);
    sha256_add(&h, previous, 32);
    sha256_add(&h, digest, 32);
    sha256_finish(&h, ret);
}

void chain_next(const uint8_t previous[32], const char *line, size_t len, uint8_t ret[32])
{
    uint8_t digest[32];
    chain_digest(line, len, digest);
    chain_add(previous, digest, ret);
}
