/* jansson as a second opinion on our JSON reader: what we accept it must accept too, with the same
 * tree. Both libraries use some of the same names, so jansson's are renamed while its header is
 * read. */
#pragma once

#include "base/json.h"

#include <stdbool.h>
#include <string.h>

#define json_type   jansson_type
#define json_string jansson_string
#define json_real   jansson_real
#define JSON_NULL   JANSSON_NULL
#define JSON_REAL   JANSSON_REAL
#define JSON_STRING JANSSON_STRING
#define JSON_ARRAY  JANSSON_ARRAY
#define JSON_OBJECT JANSSON_OBJECT
#include <jansson.h>
#undef json_type
#undef json_string
#undef json_real
#undef JSON_NULL
#undef JSON_REAL
#undef JSON_STRING
#undef JSON_ARRAY
#undef JSON_OBJECT

static bool oracle_same(const struct json *ours, const json_t *theirs);

static bool oracle_same_text(const char *ours, const json_t *theirs)
{
    return strlen(ours) == json_string_length(theirs) &&
           strcmp(ours, json_string_value(theirs)) == 0;
}

static bool oracle_same_array(const struct json *ours, const json_t *theirs)
{
    if (json_count(ours) != json_array_size(theirs))
        return false;
    for (size_t i = 0; i < json_count(ours); i++)
        if (!oracle_same(json_at(ours, i), json_array_get(theirs, i)))
            return false;
    return true;
}

static bool oracle_same_object(const struct json *ours, const json_t *theirs)
{
    if (json_count(ours) != json_object_size(theirs))
        return false;
    for (size_t i = 0; i < json_count(ours); i++) {
        const char *key = json_key_at(ours, i);
        if (json_get(ours, key) != json_value_at(ours, i))
            return false;
        if (!oracle_same(json_value_at(ours, i), json_object_get(theirs, key)))
            return false;
    }
    return true;
}

static bool oracle_same(const struct json *ours, const json_t *theirs)
{
    if (!theirs)
        return false;
    switch (json_typeof(theirs)) {
    case JANSSON_NULL:
        return json_type(ours) == JSON_NULL;
    case JSON_TRUE:
    case JSON_FALSE:
        return json_type(ours) == JSON_BOOL &&
               json_bool(ours) == (json_typeof(theirs) == JSON_TRUE);
    case JSON_INTEGER:
        return json_type(ours) == JSON_INT && json_int(ours) == json_integer_value(theirs);
    case JANSSON_REAL:
        return json_type(ours) == JSON_REAL && json_real(ours) == json_real_value(theirs);
    case JANSSON_STRING:
        return json_type(ours) == JSON_STRING && oracle_same_text(json_string(ours), theirs);
    case JANSSON_ARRAY:
        return json_type(ours) == JSON_ARRAY && oracle_same_array(ours, theirs);
    case JANSSON_OBJECT:
        return json_type(ours) == JSON_OBJECT && oracle_same_object(ours, theirs);
    }
    return false;
}

/* Does jansson read this text, and see in it what we saw? */
static inline bool oracle_agrees(const char *text, size_t len, const struct json *ours)
{
    json_t *theirs = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
    bool same = oracle_same(ours, theirs);
    json_decref(theirs);
    return same;
}
