/* Reading a finished tree. Every accessor takes any node, also NULL, and answers with nothing when
 * the node is of another type: a validator that forgot a check reads zero, never foreign memory. */

/* jansson, which the tests hold this reader against, has functions of the same names. Hidden, ours
 * stay out of its way when both are linked into one program. */
#pragma GCC visibility push(hidden)
#include "base/json_build.h"
#pragma GCC visibility pop

#include <stdlib.h>
#include <string.h>

static bool is_box(const struct json *j)
{
    return j && (j->type == JSON_ARRAY || j->type == JSON_OBJECT);
}

/* Recursion is bounded by JSON_DEPTH_CEILING. */
void json_release(struct json *j)
{
    if (is_box(j)) {
        for (size_t i = 0; i < j->count; i++)
            json_release(&j->items[i]);
        free(j->items);
        free(j->by_key);
    } else if (j->type == JSON_STRING && !j->in_text) {
        free(j->string);
    }
    if (!j->in_text)
        free(j->key);
}

void json_free(struct json *root)
{
    if (!root)
        return;
    json_release(root);
    free(root);
}

enum json_type json_type(const struct json *j)
{
    return j ? j->type : JSON_NULL;
}

const char *json_type_name(enum json_type type)
{
    static const char *const names[] = {
        [JSON_NULL] = "null",          [JSON_BOOL] = "true or false",
        [JSON_INT] = "a whole number", [JSON_REAL] = "a number with a fraction",
        [JSON_STRING] = "a string",    [JSON_ARRAY] = "a list",
        [JSON_OBJECT] = "a mapping",
    };
    return type <= JSON_OBJECT ? names[type] : "unknown";
}

unsigned json_line(const struct json *j)
{
    return j ? j->pos.line : 0;
}

unsigned json_column(const struct json *j)
{
    return j ? j->pos.column : 0;
}

bool json_bool(const struct json *j)
{
    return j && j->type == JSON_BOOL && j->boolean;
}

int64_t json_int(const struct json *j)
{
    return j && j->type == JSON_INT ? j->integer : 0;
}

double json_real(const struct json *j)
{
    if (j && j->type == JSON_INT)
        return (double)j->integer;
    return j && j->type == JSON_REAL ? j->real : 0;
}

const char *json_string(const struct json *j)
{
    return j && j->type == JSON_STRING ? j->string : NULL;
}

size_t json_count(const struct json *j)
{
    return is_box(j) ? j->count : 0;
}

const struct json *json_at(const struct json *array, size_t i)
{
    return array && array->type == JSON_ARRAY && i < array->count ? &array->items[i] : NULL;
}

static int compare_key(const void *key, const void *slot)
{
    const struct json *member = *(const struct json *const *)slot;
    return strcmp(key, member->key);
}

const struct json *json_get(const struct json *object, const char *key)
{
    if (!object || object->type != JSON_OBJECT || !object->by_key)
        return NULL;
    const struct json **slot =
        bsearch(key, object->by_key, object->count, sizeof *object->by_key, compare_key);
    return slot ? *slot : NULL;
}

const char *json_text(const struct json *object, const char *key)
{
    return json_string(json_get(object, key));
}

const char *json_shown(const struct json *object, const char *key)
{
    const char *text = json_text(object, key);
    return text ? text : "";
}

int64_t json_number(const struct json *object, const char *key)
{
    return json_int(json_get(object, key));
}

uint64_t json_uint(const struct json *object, const char *key)
{
    int64_t n = json_number(object, key);
    return n > 0 ? (uint64_t)n : 0;
}

bool json_flag(const struct json *object, const char *key)
{
    return json_bool(json_get(object, key));
}

const struct json *json_value_at(const struct json *object, size_t i)
{
    return object && object->type == JSON_OBJECT && i < object->count ? &object->items[i] : NULL;
}

const char *json_key_at(const struct json *object, size_t i)
{
    const struct json *member = json_value_at(object, i);
    return member ? member->key : NULL;
}

unsigned json_key_line_at(const struct json *object, size_t i)
{
    const struct json *member = json_value_at(object, i);
    return member ? member->key_pos.line : 0;
}

unsigned json_key_column_at(const struct json *object, size_t i)
{
    const struct json *member = json_value_at(object, i);
    return member ? member->key_pos.column : 0;
}
