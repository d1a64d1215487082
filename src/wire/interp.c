/* Frames to and from an interpreter's driver, and the names of the languages. */
#include "wire/interp.h"

#include "base/cleanup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define HEADER      4u
#define ROOM_MIN    4096u
#define KEPT_MAX    (256u << 10) /* what an empty reader may hold on to */
#define READER_SIZE (INTERP_FRAME_MAX + HEADER + ROOM_MIN)

static const struct {
    const char *name;
    enum interp_language language;
} names[] = {
    {"python", INTERP_PYTHON},
    {"python3", INTERP_PYTHON},
    {"py", INTERP_PYTHON},
    {"js", INTERP_JAVASCRIPT},
    {"javascript", INTERP_JAVASCRIPT},
    {"node", INTERP_JAVASCRIPT},
    {"bash", INTERP_BASH},
    {"sh", INTERP_BASH},
    {"typescript", INTERP_TYPESCRIPT},
    {"ts", INTERP_TYPESCRIPT},
    {"r", INTERP_R},
    {"java", INTERP_JAVA},
};

enum interp_language interp_language_parse(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcasecmp(names[i].name, name) == 0)
            return names[i].language;
    return INTERP_NONE;
}

const char *interp_language_name(enum interp_language l)
{
    static const char *const texts[INTERP_COUNT] = {
        [INTERP_NONE] = "none",
        [INTERP_PYTHON] = "python",
        [INTERP_JAVASCRIPT] = "javascript",
        [INTERP_BASH] = "bash",
        [INTERP_TYPESCRIPT] = "typescript",
        [INTERP_R] = "r",
        [INTERP_JAVA] = "java",
    };
    return l < INTERP_COUNT ? texts[l] : "unknown";
}

const char *interp_language_package(enum interp_language l)
{
    static const char *const packages[INTERP_COUNT] = {
        [INTERP_NONE] = "",
        [INTERP_PYTHON] = "python3",
        [INTERP_JAVASCRIPT] = "nodejs",
        [INTERP_BASH] = "bash",
        [INTERP_TYPESCRIPT] = "nodejs",
        [INTERP_R] = "r-base-core",
        [INTERP_JAVA] = "default-jdk-headless",
    };
    return l < INTERP_COUNT ? packages[l] : "";
}

void interp_reader_init(struct interp_reader *r)
{
    *r = (struct interp_reader){0};
}

/* How much is charged to the account: a small base is free. */
static size_t charged(size_t size)
{
    return size > INTERP_READER_BASE ? size - INTERP_READER_BASE : 0;
}

static void release(struct interp_reader *r)
{
    free(r->data);
    if (r->meter && charged(r->size))
        r->meter->fn(r->meter, charged(r->size), 0);
    r->data = NULL;
    r->size = r->len = r->taken = 0;
}

void interp_reader_done(struct interp_reader *r)
{
    release(r);
    *r = (struct interp_reader){0};
}

static uint32_t frame_length(const struct interp_reader *r)
{
    const unsigned char *p = (const unsigned char *)r->data + r->taken;
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static int check_length(uint32_t length, struct err *err)
{
    if (length > 0 && length <= INTERP_FRAME_MAX)
        return 0;
    return err_set(err, ERR_PROTOCOL, "the interpreter says nonsense: a frame of %u bytes", length);
}

/* 0; -EDQUOT: the meter has no room. */
static int resize(struct interp_reader *r, size_t size, struct err *err)
{
    if (r->meter && charged(size) > charged(r->size) &&
        !r->meter->fn(r->meter, charged(r->size), charged(size)))
        return -EDQUOT;
    char *data = realloc(r->data, size);
    if (!data) {
        if (r->meter)
            r->meter->fn(r->meter, charged(size), charged(r->size));
        errno = ENOMEM;
        return err_sys(err, "hear an interpreter");
    }
    r->data = data;
    r->size = size;
    return 0;
}

static void drop_taken(struct interp_reader *r)
{
    if (r->taken == 0)
        return;
    r->len -= r->taken;
    memmove(r->data, r->data + r->taken, r->len);
    r->taken = 0;
    if (r->len == 0 && r->size > KEPT_MAX)
        release(r);
}

/* The frame that has begun is not kept: the rest of it is read and forgotten. */
static int begin_dropping(struct interp_reader *r, struct err *err)
{
    uint32_t length = frame_length(r);
    size_t rest = HEADER + length - r->len;
    release(r);
    r->dropping = rest;
    r->dropped = length;
    return resize(r, INTERP_READER_BASE, err);
}

/* Grows with what has come, not with what a frame's length promises. */
int interp_reader_room(struct interp_reader *r, void **ret, size_t *ret_len, struct err *err)
{
    drop_taken(r);
    if (r->len >= HEADER && check_length(frame_length(r), err) < 0)
        return -ERR_PROTOCOL;
    if (r->size - r->len < ROOM_MIN) {
        size_t size = r->size ? r->size * 2 : INTERP_READER_BASE;
        if (size > READER_SIZE)
            size = READER_SIZE;
        /* Happens only if the caller did not take the frames that are complete. */
        if (size - r->len < ROOM_MIN)
            return err_set(err, ERR_LIMIT, "an interpreter sends more than is read");
        int rc = resize(r, size, err);
        if (rc == -EDQUOT)
            rc = begin_dropping(r, err);
        if (rc < 0)
            return rc;
    }
    *ret = r->data + r->len;
    *ret_len = r->size - r->len;
    return 0;
}

void interp_reader_add(struct interp_reader *r, size_t len)
{
    size_t gone = len < r->dropping ? len : r->dropping;
    if (gone) {
        memmove(r->data + r->len, r->data + r->len + gone, len - gone);
        r->dropping -= gone;
    }
    r->len += len - gone;
}

size_t interp_reader_dropped(struct interp_reader *r)
{
    size_t length = r->dropped;
    if (r->dropping)
        return 0; /* not all of it has gone by yet */
    r->dropped = 0;
    return length;
}

int interp_reader_next(struct interp_reader *r, const char **ret, size_t *ret_len, struct err *err)
{
    size_t left = r->len - r->taken;
    if (left < HEADER)
        return 0;
    uint32_t length = frame_length(r);
    int rc = check_length(length, err);
    if (rc < 0)
        return rc;
    if (left - HEADER < length)
        return 0;
    *ret = r->data + r->taken + HEADER;
    *ret_len = length;
    r->taken += HEADER + length;
    return 1;
}

static void write_header(struct buf *out, size_t at)
{
    size_t length = out->len - at - HEADER;
    if (out->failed)
        return;
    for (unsigned i = 0; i < HEADER; i++)
        out->data[at + i] = (char)(unsigned char)(length >> 8 * i);
}

static void write_env(struct json_writer *w, const struct json *env)
{
    jw_key(w, "env");
    jw_object_begin(w);
    for (size_t i = 0; i < json_count(env); i++)
        if (json_string(json_value_at(env, i)))
            jw_kv_string(w, json_key_at(env, i), json_string(json_value_at(env, i)));
    jw_object_end(w);
}

/* The members always come in this order: the driver that is written in bash relies on it. */
void interp_write_execute(struct buf *out, uint64_t id, const char *code, size_t len,
                          const struct json *env)
{
    struct json_writer w;
    size_t at = out->len;
    if (len > INTERP_CODE_MAX)
        out->failed = true;
    buf_add(out, "\0\0\0\0", HEADER);
    jw_init(&w, out, false);
    jw_object_begin(&w);
    jw_kv_string(&w, "op", "execute");
    jw_kv_uint(&w, "id", id);
    jw_key(&w, "code");
    jw_bytes(&w, code, len);
    write_env(&w, env);
    jw_object_end(&w);
    write_header(out, at);
}
