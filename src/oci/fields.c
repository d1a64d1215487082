/* Members of a configuration, each with the type that it must have. */
#include "oci/fields.h"

#include <string.h>

int field_wrong(const char *where, const char *key, const char *expected, struct err *err)
{
    const char *dot = where[0] ? "." : "";
    err_set(err, ERR_USAGE, "config: %s%s%s must be %s", where, dot, key, expected);
    return err_number(err);
}

static const struct json *member(const struct json *j, const char *key)
{
    const struct json *m = json_get(j, key);
    return json_type(m) == JSON_NULL ? NULL : m;
}

int field_bool(const struct json *j, const char *where, const char *key, bool *ret, struct err *err)
{
    const struct json *m = member(j, key);
    if (m && json_type(m) != JSON_BOOL)
        return field_wrong(where, key, "true or false", err);
    if (m)
        *ret = json_bool(m);
    return 0;
}

int field_text(const struct json *j, const char *where, const char *key, const char **ret,
               struct err *err)
{
    const struct json *m = member(j, key);
    if (m && json_type(m) != JSON_STRING)
        return field_wrong(where, key, "a string", err);
    if (m)
        *ret = json_string(m);
    return 0;
}

int field_int(const struct json *j, const char *where, const char *key, int64_t *ret,
              struct err *err)
{
    const struct json *m = member(j, key);
    if (m && json_type(m) != JSON_INT)
        return field_wrong(where, key, "a whole number", err);
    if (m)
        *ret = json_int(m);
    return 0;
}

int field_u32(const struct json *j, const char *where, const char *key, uint32_t *ret,
              struct err *err)
{
    int64_t value = *ret;
    if (field_int(j, where, key, &value, err) < 0)
        return err_number(err);
    if (value < 0 || value > UINT32_MAX)
        return field_wrong(where, key, "from 0 to 4294967295", err);
    *ret = (uint32_t)value;
    return 0;
}

int field_u64(const struct json *j, const char *where, const char *key, uint64_t *ret,
              struct err *err)
{
    const struct json *m = member(j, key);
    if (!m)
        return 0;
    if (json_type(m) == JSON_INT && json_int(m) >= -1)
        *ret = (uint64_t)json_int(m);
    else if (json_type(m) == JSON_REAL && json_real(m) >= 9223372036854775808.0)
        *ret = UINT64_MAX;
    else
        return field_wrong(where, key, "a whole number of at most 64 bits", err);
    return 0;
}

int field_object(const struct json *j, const char *where, const char *key, const struct json **ret,
                 struct err *err)
{
    const struct json *m = member(j, key);
    if (m && json_type(m) != JSON_OBJECT)
        return field_wrong(where, key, "an object", err);
    if (m)
        *ret = m;
    return 0;
}

int field_list(const struct json *j, const char *where, const char *key, const struct json **ret,
               struct err *err)
{
    const struct json *m = member(j, key);
    if (m && json_type(m) != JSON_ARRAY)
        return field_wrong(where, key, "a list", err);
    if (m)
        *ret = m;
    return 0;
}

int field_texts(const struct json *j, const char *where, const char *key, const struct json **ret,
                struct err *err)
{
    const struct json *list = NULL;
    if (field_list(j, where, key, &list, err) < 0)
        return err_number(err);
    for (size_t i = 0; i < json_count(list); i++)
        if (json_type(json_at(list, i)) != JSON_STRING)
            return field_wrong(where, key, "a list of strings", err);
    if (list)
        *ret = list;
    return 0;
}

/* Nothing is asked for by an empty string, 0, false, null, and by what holds nothing else. The
 * reader bounds the depth. */
static bool says_something(const struct json *m)
{
    switch (json_type(m)) {
    case JSON_NULL:
        return false;
    case JSON_BOOL:
        return json_bool(m);
    case JSON_INT:
        return json_int(m) != 0;
    case JSON_STRING:
        return json_string(m)[0] != '\0';
    case JSON_ARRAY:
        return json_count(m) > 0;
    case JSON_OBJECT:
        for (size_t i = 0; i < json_count(m); i++)
            if (says_something(json_value_at(m, i)))
                return true;
        return false;
    default:
        return true;
    }
}

int field_refuse(const struct json *j, const char *where, const char *const *keys, const char *why,
                 struct err *err)
{
    for (; *keys; keys++) {
        if (!says_something(json_get(j, *keys)))
            continue;
        err_set(err, ERR_UNSUPPORTED, "config: %s%s%s is not enforced by brig: %s", where,
                where[0] ? "." : "", *keys, why);
        return err_hint(err, "leave it out of the configuration (docs/oci.md lists what is "
                             "enforced); it is not ignored, because it may protect something");
    }
    return 0;
}
