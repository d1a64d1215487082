/* The tree from the inside, for those who fill it: the JSON and the YAML parser. Everyone else sees
 * json.h.
 *
 * A container keeps its children in one growing array. An array only grows while its container is
 * the innermost open one, so a pointer to an open node stays valid until that node is closed. */
#pragma once

#include "base/json.h"

/* No limit that a caller sets goes deeper than this: the code that walks a tree recurses. */
#define JSON_DEPTH_CEILING 256

/* Longest number that is read: more digits than any double or int64 can hold. */
#define JSON_NUMBER_MAX 256

struct json_pos {
    unsigned line;
    unsigned column;
};

struct json {
    enum json_type type;
    bool in_text; /* key and string belong to the text that was parsed */
    struct json_pos pos;
    struct json_pos key_pos;
    char *key; /* owned; NULL unless the parent is an object */
    union {
        bool boolean;
        int64_t integer;
        double real;
        char *string; /* owned */
        struct {
            struct json *items;
            size_t count;
            size_t size;
            const struct json *
                *by_key; /* objects, once closed: the items in the order of their keys */
        };
    };
};

/* The first one of a tree. */
struct json_root {
    struct json node;
    size_t memory;
};

/* Where a parser stands in its text. */
struct json_cursor {
    const char *text;
    size_t len;
    size_t at;
    size_t line_start;
    unsigned line;
};

/* The byte `ahead` bytes further on, -1 past the end. */
static inline int json_cursor_peek(const struct json_cursor *c, size_t ahead)
{
    return ahead < c->len - c->at ? (unsigned char)c->text[c->at + ahead] : -1;
}
struct json_pos json_cursor_pos(const struct json_cursor *c);
void json_cursor_newline(struct json_cursor *c); /* steps over the line feed it stands on */
/* Names what the cursor stands on, for "found X, expected Y". */
struct json_found {
    char text[64];
};
struct json_found json_cursor_found(const struct json_cursor *c);
/* Text in double quotes, cut to fit and with everything but printable ASCII escaped. */
struct json_found json_quote(const char *text, size_t len);

/* The members of an object on their way into the order of their keys (json_sort.c). */
struct json_sort {
    const struct json **from, **to; /* owned */
    size_t count, width;            /* runs of that width are in order */
    size_t start, second, one, two; /* of two runs: where they begin, and what was taken of them */
    const struct json *first, *again; /* the first key of the text that had been there before */
    size_t work;                      /* done by one call */
};
int json_sort_begin(struct json_sort *s, const struct json *object); /* negative: no memory */
bool json_sort_some(struct json_sort *s, size_t *fuel);              /* true: all is in order */
void json_sort_done(struct json_sort *s);

struct json_builder {
    struct json_limits limits;
    struct json *root; /* owned until stolen */
    size_t nodes;
    size_t memory; /* of the tree so far */
    unsigned depth;
    bool in_place;
    struct json_sort sort; /* of the object that is being closed */
    struct err *err;
};

/* limits may be NULL for the defaults; fails if the text is too long for them. */
int json_build_init(struct json_builder *b, const struct json_limits *limits, size_t len,
                    struct err *err);
void json_build_done(struct json_builder *b);
struct json *json_build_steal(struct json_builder *b);

/* Each new value is null until it is set. */
int json_build_root(struct json_builder *b, struct json_pos pos, struct json **ret);
int json_build_item(struct json_builder *b, struct json *array, struct json_pos pos,
                    struct json **ret);
/* Consumes key, also on failure. */
int json_build_member(struct json_builder *b, struct json *object, char *key,
                      struct json_pos key_pos, struct json **ret);
int json_build_open(struct json_builder *b, struct json *node, enum json_type type);
/* Refuses an object with two equal keys. */
int json_build_close(struct json_builder *b, struct json *node);
/* The same in pieces; 1: it is closed, 0: not yet. What is done is taken off the fuel. */
int json_build_close_begin(struct json_builder *b, struct json *node);
int json_build_close_some(struct json_builder *b, struct json *node, size_t *fuel);
/* Both take text that has the shape of a number and refuse one that does not fit. */
int json_build_int(struct json_builder *b, struct json *node, const char *text, size_t len);
int json_build_real(struct json_builder *b, struct json *node, const char *text, size_t len);
void json_build_string(struct json *node, char *string); /* consumes string */

/* Counts what is about to be allocated for the tree. */
int json_build_take(struct json_builder *b, size_t bytes);

/* How many of the next bytes are printable ASCII that a string has as it is. */
size_t json_plain_run(const char *text, size_t left);
/* How many there are before the next quote, backslash or control character. */
size_t json_string_run(const char *text, size_t left);
/* Inside of a string: what stands for itself and what is escaped, of some `most` bytes of the text.
 * Returns how many were used up. */
size_t json_write_some(struct buf *out, const char *text, size_t left, size_t most);

/* Frees all that a node owns, not the node. */
void json_release(struct json *j);

int json_build_fail(struct json_builder *b, struct json_pos pos, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int json_build_no_memory(struct json_builder *b);
