/* The members of a JSON object, by a table: every request body comes through here. A wrong type or
 * a number out of range names the field; null is the same as absent. */
#pragma once

#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum field_type {
    FIELD_BOOL,     /* bool */
    FIELD_INT,      /* int64_t, from min to max */
    FIELD_STRING,   /* const char * */
    FIELD_OBJECT,   /* const struct json * */
    FIELD_ARRAY,    /* const struct json * */
    FIELD_STRINGS,  /* const struct json *: an array of strings */
    FIELD_MAP,      /* const struct json *: an object whose values are strings */
    FIELD_DOCUMENT, /* const struct json *: an object, or a string that holds one */
    FIELD_UNUSED,   /* may stand there, says nothing */
    FIELD_REFUSED,  /* a thing that is not offered: refused unless it is empty, false or null */
};
struct field {
    const char *name;
    enum field_type type;
    void *ret; /* untouched where the field is absent */
    int64_t min, max;
    bool *has;       /* or NULL */
    const char *why; /* of what is refused: what there is instead */
};
enum fields_mode {
    FIELDS_STRICT, /* an unknown field is refused */
    FIELDS_PROTO,  /* proto3 JSON: unknown fields are ignored, numbers may be strings, snake_case is
                      taken as well */
};
int fields_read(const struct json *object, enum fields_mode mode, const struct field *fields,
                size_t count, struct err *err);
#define FIELDS_READ(object, mode, table, err)                                                      \
    fields_read(object, mode, table, ARRAY_LEN(table), err)

/* Names and values of an environment: a name is [A-Za-z_][A-Za-z0-9_]*, all of it at most 64 KB. */
int fields_check_env(const struct json *env, const char *field, struct err *err);
