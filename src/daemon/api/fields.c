/* Reading members by a table: see fields.h. */
#include "daemon/api/fields.h"

#include "base/num.h"

#include <ctype.h>
#include <string.h>

#define ENV_MAX (64u * 1024)

static int wrong(const struct field *f, const char *expected, const struct json *found,
                 struct err *err)
{
    return err_set(err, ERR_USAGE, "\"%s\": expected %s, found %s", f->name, expected,
                   json_type_name(json_type(found)));
}

/* proto3 writes 64-bit numbers as strings. */
static bool int_of(const struct json *j, enum fields_mode mode, int64_t *ret)
{
    uint64_t number;
    if (json_type(j) == JSON_INT) {
        *ret = json_int(j);
        return true;
    }
    if (mode != FIELDS_PROTO || json_type(j) != JSON_STRING ||
        num_parse_uint(json_string(j), &number, NULL) < 0 || number > INT64_MAX)
        return false;
    *ret = (int64_t)number;
    return true;
}

static int read_int(const struct field *f, const struct json *j, enum fields_mode mode,
                    struct err *err)
{
    int64_t value;
    if (!int_of(j, mode, &value))
        return wrong(f, "a whole number", j, err);
    if (value < f->min || value > f->max)
        return err_set(err, ERR_USAGE, "\"%s\": expected a number from %lld to %lld", f->name,
                       (long long)f->min, (long long)f->max);
    *(int64_t *)f->ret = value;
    return 0;
}

static int read_tree(const struct field *f, const struct json *j, enum json_type type,
                     const char *expected, bool of_strings, struct err *err)
{
    if (json_type(j) != type)
        return wrong(f, expected, j, err);
    for (size_t i = 0; of_strings && i < json_count(j); i++) {
        const struct json *item = type == JSON_ARRAY ? json_at(j, i) : json_value_at(j, i);
        if (json_type(item) != JSON_STRING)
            return wrong(f, expected, item, err);
    }
    *(const struct json **)f->ret = j;
    return 0;
}

static bool is_empty(const struct json *j)
{
    switch (json_type(j)) {
    case JSON_BOOL:
        return !json_bool(j);
    case JSON_ARRAY:
    case JSON_OBJECT:
        return !json_count(j);
    case JSON_STRING:
        return !*json_string(j);
    default:
        return false;
    }
}

static int read_one(const struct field *f, const struct json *j, enum fields_mode mode,
                    struct err *err)
{
    switch (f->type) {
    case FIELD_BOOL:
        if (json_type(j) != JSON_BOOL)
            return wrong(f, "true or false", j, err);
        *(bool *)f->ret = json_bool(j);
        return 0;
    case FIELD_INT:
        return read_int(f, j, mode, err);
    case FIELD_STRING:
        if (json_type(j) != JSON_STRING)
            return wrong(f, "a string", j, err);
        *(const char **)f->ret = json_string(j);
        return 0;
    case FIELD_OBJECT:
        return read_tree(f, j, JSON_OBJECT, "an object", false, err);
    case FIELD_ARRAY:
        return read_tree(f, j, JSON_ARRAY, "a list", false, err);
    case FIELD_STRINGS:
        return read_tree(f, j, JSON_ARRAY, "a list of strings", true, err);
    case FIELD_MAP:
        return read_tree(f, j, JSON_OBJECT, "an object of strings", true, err);
    case FIELD_DOCUMENT:
        if (json_type(j) != JSON_OBJECT && json_type(j) != JSON_STRING)
            return wrong(f, "an object or a string", j, err);
        *(const struct json **)f->ret = j;
        return 0;
    case FIELD_REFUSED:
        return is_empty(j) ? 0
                           : err_set(err, ERR_UNSUPPORTED, "\"%s\" is not offered here: %s",
                                     f->name, f->why);
    case FIELD_UNUSED:
        break;
    }
    return 0;
}

/* "watcherId" is also "watcher_id". */
static bool name_matches(const char *key, const char *name, enum fields_mode mode)
{
    if (!strcmp(key, name))
        return true;
    if (mode != FIELDS_PROTO)
        return false;
    for (; *key && *name; key++, name++) {
        if (isupper((unsigned char)*name)) {
            if (*key++ != '_' || *key != tolower((unsigned char)*name))
                return false;
        } else if (*key != *name) {
            return false;
        }
    }
    return !*key && !*name;
}

static const struct field *find(const char *key, enum fields_mode mode, const struct field *fields,
                                size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (name_matches(key, fields[i].name, mode))
            return &fields[i];
    return NULL;
}

int fields_read(const struct json *object, enum fields_mode mode, const struct field *fields,
                size_t count, struct err *err)
{
    if (json_type(object) != JSON_OBJECT)
        return err_set(err, ERR_USAGE, "expected an object, found %s",
                       json_type_name(json_type(object)));
    for (size_t i = 0; i < json_count(object); i++) {
        const struct json *value = json_value_at(object, i);
        const struct field *f = find(json_key_at(object, i), mode, fields, count);
        if (!f && mode == FIELDS_STRICT)
            return err_set(err, ERR_USAGE, "\"%.64s\": unknown field", json_key_at(object, i));
        if (!f || json_type(value) == JSON_NULL)
            continue;
        int r = read_one(f, value, mode, err);
        if (r < 0)
            return r;
        if (f->has)
            *f->has = true;
    }
    return 0;
}

static bool env_name_valid(const char *name)
{
    if (!isalpha((unsigned char)*name) && *name != '_')
        return false;
    while (isalnum((unsigned char)*name) || *name == '_')
        name++;
    return !*name;
}

int fields_check_env(const struct json *env, const char *field, struct err *err)
{
    size_t sum = 0;
    for (size_t i = 0; env && i < json_count(env); i++) {
        const char *name = json_key_at(env, i);
        if (!env_name_valid(name))
            return err_set(err, ERR_USAGE, "\"%s\": \"%.64s\" is no name of a variable", field,
                           name);
        sum += strlen(name) + strlen(json_string(json_value_at(env, i))) + 2;
    }
    if (sum > ENV_MAX)
        return err_set(err, ERR_USAGE, "\"%s\": more than %u bytes; put them into a file instead",
                       field, ENV_MAX);
    return 0;
}
