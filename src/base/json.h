/* A strict JSON reader that remembers where each value stood, and a writer.
 *
 * Strict means RFC 8259 and less: duplicate keys, trailing text, NUL (raw or escaped), lone
 * surrogates, invalid UTF-8, control characters in strings, numbers that do not fit (integers
 * outside int64, non-finite reals), depth and size over the limits are all errors. The tree is
 * read-only after parsing. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum json_type {
    JSON_NULL,
    JSON_BOOL,
    JSON_INT,
    JSON_REAL,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT,
};

struct json;

struct json_limits {
    size_t max_bytes;
    unsigned max_depth;
    size_t max_nodes;
    size_t max_memory; /* of the tree; ERR_LIMIT beyond. 0: whatever it takes */
    size_t max_key;    /* bytes; 0: as many as there are */
    bool wide;         /* a whole number over int64 that fits in uint64 becomes a JSON_REAL */
};
extern const struct json_limits json_default_limits; /* 1 MiB, 32 levels, 65536 nodes */

/* On failure err->message is "LINE:COLUMN: what was expected" (1-based; columns count bytes). */
int json_parse(const char *text, size_t len, const struct json_limits *limits, struct json **ret,
               struct err *err);
/* The same, but strings stay where they stand: the text is changed, also on failure, and must be
 * there as long as the tree is. Takes half the memory, and no time for copies. */
int json_parse_in_place(char *text, size_t len, const struct json_limits *limits, struct json **ret,
                        struct err *err);
/* The same in pieces, for those who cannot wait until all of it is read. NULL: it is too long. */
struct json_parser;
struct json_parser *json_parser_new(char *text, size_t len, const struct json_limits *limits,
                                    struct err *err);
/* 1: that was all, 0: there is more to do. `most`: some so many bytes, or what takes as long. */
int json_parser_next(struct json_parser *p, size_t most, struct json **ret, struct err *err);
size_t json_parser_memory(const struct json_parser *p); /* of the tree so far; NULL: nothing */
void json_parser_free(struct json_parser *p);           /* takes NULL */
void json_free(struct json *root);           /* takes NULL; frees the whole tree, root only */
size_t json_memory(const struct json *root); /* what the tree takes, root only; NULL: nothing */
#define cleanup_json __attribute__((cleanup(json_cleanup)))
static inline void json_cleanup(struct json **j)
{
    json_free(*j);
}

/* Removes the members of an object, with all below them, whose names `keep` does not want. */
void json_keep(struct json *object, bool (*keep)(const char *key));

enum json_type json_type(const struct json *j);
const char *
json_type_name(enum json_type type); /* "null", "true or false", "a whole number", … for messages */
unsigned json_line(const struct json *j);
unsigned json_column(const struct json *j);

bool json_bool(const struct json *j);
int64_t json_int(const struct json *j);
double json_real(const struct json *j); /* also for JSON_INT */
const char *
json_string(const struct json *j);       /* NUL-terminated, no NUL inside; NULL if not a string */
size_t json_count(const struct json *j); /* elements or members; 0 for others */
const struct json *json_at(const struct json *array, size_t i);
const struct json *json_get(const struct json *object, const char *key);
/* A member's text; NULL where there is none or it is no string, and "" for those who print it. */
const char *json_text(const struct json *object, const char *key);
const char *json_shown(const struct json *object, const char *key);
/* A member's whole number, 0 where there is none; json_uint() also takes a negative one for 0. */
int64_t json_number(const struct json *object, const char *key);
uint64_t json_uint(const struct json *object, const char *key);
bool json_flag(const struct json *object, const char *key); /* is there, and true */
const char *json_key_at(const struct json *object, size_t i);
const struct json *json_value_at(const struct json *object, size_t i);
/* Where the i-th key itself stood. */
unsigned json_key_line_at(const struct json *object, size_t i);
unsigned json_key_column_at(const struct json *object, size_t i);

/* Writer: emits well-formed JSON into a buf whatever bytes it is given. */
struct json_writer {
    struct buf *out;
    bool pretty; /* two-space indentation */
    unsigned depth;
    bool need_comma;
    bool after_key;
};
void jw_init(struct json_writer *w, struct buf *out, bool pretty);
/* A compact object in a buffer of its own: buf_init, jw_init and jw_object_begin. */
void jw_begin(struct json_writer *w, struct buf *out, size_t cap);
void jw_object_begin(struct json_writer *w);
void jw_object_end(struct json_writer *w);
void jw_array_begin(struct json_writer *w);
void jw_array_end(struct json_writer *w);
void jw_key(struct json_writer *w, const char *key);
void jw_string(struct json_writer *w, const char *s); /* NULL writes null */
/* Bytes of unknown encoding: invalid UTF-8 becomes U+FFFD, NUL and controls are escaped. */
void jw_bytes(struct json_writer *w, const void *data, size_t len);
void jw_int(struct json_writer *w, int64_t v);
void jw_uint(struct json_writer *w, uint64_t v);
void jw_real(struct json_writer *w, double v);
void jw_bool(struct json_writer *w, bool v);
void jw_null(struct json_writer *w);
/* "\\uXXXX": one unit of UTF-16. */
void json_write_unit(struct buf *out, uint32_t unit);
/* A whole parsed tree. */
void jw_json(struct json_writer *w, const struct json *j);
/* A tree in pieces, for those who cannot wait until all of it is written, or have no room for it.
 * The tree must stay as it is meanwhile. */
struct json_pieces;
struct json_pieces *json_pieces_new(const struct json *j); /* NULL: no memory */
/* Some `most` bytes more, a few less or more. True: that was all. */
bool json_pieces_next(struct json_pieces *p, struct buf *out, size_t most);
void json_pieces_free(struct json_pieces *p); /* takes NULL */
/* A value that a writer of ours wrote, as it is; null if there is none. */
void jw_written(struct json_writer *w, const struct buf *value);
/* The same with the members of each object in the order of their names (as bytes): without blanks
 * there is one text for one value, which hashes are taken over. */
void jw_json_sorted(struct json_writer *w, const struct json *j);
/* A small object in one expression: JSON_SMALL(JSON_TEXT("id", id), JSON_NUMBER("count", n)). It
 * lives as long as the block that it stands in. One that does not fit becomes {"cut":true}. */
#define JSON_SMALL_MAX 512
struct json_member {
    const char *key;
    enum json_type type;
    const char *string;
    int64_t number;
};
#define JSON_TEXT(k, v) ((struct json_member){.key = (k), .type = JSON_STRING, .string = (v)})
#define JSON_NUMBER(k, v)                                                                          \
    ((struct json_member){.key = (k), .type = JSON_INT, .number = (int64_t)(v)})
#define JSON_FLAG(k, v) ((struct json_member){.key = (k), .type = JSON_BOOL, .number = (v)})
#define JSON_SMALL(...)                                                                            \
    json_small((char[JSON_SMALL_MAX]){0}, (const struct json_member[]){__VA_ARGS__},               \
               sizeof((const struct json_member[]){__VA_ARGS__}) / sizeof(struct json_member))
const char *json_small(char at[static JSON_SMALL_MAX], const struct json_member *members,
                       size_t count);
/* Key and value in one call. */
void jw_kv_string(struct json_writer *w, const char *key, const char *s);
void jw_kv_int(struct json_writer *w, const char *key, int64_t v);
void jw_kv_uint(struct json_writer *w, const char *key, uint64_t v);
void jw_kv_bool(struct json_writer *w, const char *key, bool v);
void jw_kv_bytes(struct json_writer *w, const char *key, const void *bytes, size_t len);
void jw_kv_json(struct json_writer *w, const char *key, const struct json *tree);
/* A key and the beginning of what it stands for. */
void jw_kv_object(struct json_writer *w, const char *key);
void jw_kv_array(struct json_writer *w, const char *key);
