/* Growing a tree within its limits, and the messages of those who grow it. */
#include "base/json_build.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct json_limits json_default_limits = {
    .max_bytes = 1024 * 1024,
    .max_depth = 32,
    .max_nodes = 65536,
};

int json_build_fail(struct json_builder *b, struct json_pos pos, const char *fmt, ...)
{
    char what[400];
    va_list ap;
    va_start(ap, fmt);
    if (vsnprintf(what, sizeof what, fmt, ap) < 0)
        what[0] = '\0';
    va_end(ap);
    return err_set(b->err, ERR_POLICY, "%u:%u: %s", pos.line, pos.column, what);
}

int json_build_no_memory(struct json_builder *b)
{
    return err_memory(b->err);
}

int json_build_init(struct json_builder *b, const struct json_limits *limits, size_t len,
                    struct err *err)
{
    *b = (struct json_builder){.limits = limits ? *limits : json_default_limits, .err = err};
    if (b->limits.max_depth > JSON_DEPTH_CEILING)
        b->limits.max_depth = JSON_DEPTH_CEILING;
    /* Lines and columns are unsigned. */
    if (b->limits.max_bytes > INT32_MAX)
        b->limits.max_bytes = INT32_MAX;
    if (len > b->limits.max_bytes)
        return json_build_fail(b, (struct json_pos){1, 1},
                               "found %zu bytes of text, expected at most %zu", len,
                               b->limits.max_bytes);
    return 0;
}

void json_build_done(struct json_builder *b)
{
    json_sort_done(&b->sort);
    json_free(b->root);
    b->root = NULL;
}

struct json *json_build_steal(struct json_builder *b)
{
    struct json *root = b->root;
    b->root = NULL;
    if (root)
        ((struct json_root *)root)->memory = b->memory;
    return root;
}

size_t json_memory(const struct json *root)
{
    return root ? ((const struct json_root *)root)->memory : 0;
}

int json_build_take(struct json_builder *b, size_t bytes)
{
    if (b->limits.max_memory && bytes > b->limits.max_memory - b->memory)
        return err_set(b->err, ERR_LIMIT,
                       "the values of this text take more than %zu bytes of memory",
                       b->limits.max_memory);
    b->memory += bytes;
    return 0;
}

static int count_node(struct json_builder *b, struct json_pos pos)
{
    if (b->nodes >= b->limits.max_nodes)
        return json_build_fail(b, pos, "found more than %zu values, which is the limit",
                               b->limits.max_nodes);
    b->nodes++;
    return 0;
}

int json_build_root(struct json_builder *b, struct json_pos pos, struct json **ret)
{
    int r = count_node(b, pos);
    if (r < 0)
        return r;
    r = json_build_take(b, sizeof(struct json_root));
    if (r < 0)
        return r;
    struct json_root *root = calloc(1, sizeof *root);
    if (!root)
        return json_build_no_memory(b);
    b->root = &root->node;
    b->root->pos = pos;
    b->root->in_text = b->in_place;
    *ret = b->root;
    return 0;
}

static int grow(struct json_builder *b, struct json *array)
{
    size_t size = array->size ? array->size * 2 : 4;
    int r = json_build_take(b, (size - array->size) * sizeof *array->items);
    if (r < 0)
        return r;
    struct json *items = reallocarray(array->items, size, sizeof *items);
    if (!items)
        return json_build_no_memory(b);
    array->items = items;
    array->size = size;
    return 0;
}

int json_build_item(struct json_builder *b, struct json *array, struct json_pos pos,
                    struct json **ret)
{
    int r = count_node(b, pos);
    if (r < 0)
        return r;
    if (array->count == array->size && (r = grow(b, array)) < 0)
        return r;
    struct json *item = &array->items[array->count++];
    *item = (struct json){.type = JSON_NULL, .in_text = b->in_place, .pos = pos};
    *ret = item;
    return 0;
}

static int check_key(struct json_builder *b, const char *key, struct json_pos pos)
{
    size_t most = b->limits.max_key;
    return most && strnlen(key, most + 1) > most
               ? json_build_fail(b, pos, "found a key of more than %zu bytes, the limit", most)
               : 0;
}

int json_build_member(struct json_builder *b, struct json *object, char *key,
                      struct json_pos key_pos, struct json **ret)
{
    int r = check_key(b, key, key_pos);
    if (r == 0)
        r = json_build_item(b, object, key_pos, ret);
    if (r < 0) {
        if (!b->in_place)
            free(key);
        return r;
    }
    (*ret)->key = key;
    (*ret)->key_pos = key_pos;
    return 0;
}

int json_build_open(struct json_builder *b, struct json *node, enum json_type type)
{
    if (b->depth >= b->limits.max_depth)
        return json_build_fail(b, node->pos, "found more than %u levels of nesting, the limit",
                               b->limits.max_depth);
    b->depth++;
    node->type = type;
    node->items = NULL;
    node->count = 0;
    node->size = 0;
    node->by_key = NULL;
    return 0;
}

int json_build_close_begin(struct json_builder *b, struct json *node)
{
    b->depth--;
    if (node->type != JSON_OBJECT || node->count == 0)
        return 0;
    int r = json_build_take(b, node->count * sizeof *node->by_key);
    if (r < 0)
        return r;
    return json_sort_begin(&b->sort, node) < 0 ? json_build_no_memory(b) : 0;
}

int json_build_close_some(struct json_builder *b, struct json *node, size_t *fuel)
{
    const struct json_sort *s = &b->sort;
    if (node->type != JSON_OBJECT || node->count == 0)
        return 1;
    if (!json_sort_some(&b->sort, fuel))
        return 0;
    if (s->again)
        return json_build_fail(b, s->again->key_pos, "duplicate key %s (first at %u:%u)",
                               json_quote(s->again->key, strlen(s->again->key)).text,
                               s->first->key_pos.line, s->first->key_pos.column);
    node->by_key = b->sort.from;
    b->sort.from = NULL;
    json_sort_done(&b->sort);
    return 1;
}

int json_build_close(struct json_builder *b, struct json *node)
{
    size_t fuel = SIZE_MAX;
    int r = json_build_close_begin(b, node);
    if (r >= 0)
        r = json_build_close_some(b, node, &fuel);
    return r < 0 ? r : 0;
}

static int compare_keys(const void *left, const void *right)
{
    const struct json *a = *(const struct json *const *)left;
    const struct json *b = *(const struct json *const *)right;
    return strcmp(a->key, b->key);
}

void json_keep(struct json *object, bool (*keep)(const char *key))
{
    size_t kept = 0;
    if (!object || object->type != JSON_OBJECT || object->count == 0)
        return;
    for (size_t i = 0; i < object->count; i++) {
        if (keep(object->items[i].key))
            object->items[kept++] = object->items[i];
        else
            json_release(&object->items[i]);
    }
    object->count = kept;
    for (size_t i = 0; i < kept; i++)
        object->by_key[i] = &object->items[i];
    qsort(object->by_key, kept, sizeof *object->by_key, compare_keys);
}

static bool fits_unsigned(const char *text, size_t len)
{
    uint64_t value = 0;
    for (size_t i = 0; i < len; i++)
        if (text[i] < '0' || text[i] > '9' || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(text[i] - '0'), &value))
            return false;
    return true;
}

int json_build_int(struct json_builder *b, struct json *node, const char *text, size_t len)
{
    bool negative = len && text[0] == '-';
    int64_t value = 0;
    for (size_t i = len && (text[0] == '-' || text[0] == '+'); i < len; i++) {
        int digit = text[i] - '0';
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, negative ? -digit : digit, &value))
            return b->limits.wide && fits_unsigned(text, len)
                       ? json_build_real(b, node, text, len)
                       : json_build_fail(b, node->pos,
                                         "found a whole number that does not fit in 64 bits, "
                                         "expected at most %lld",
                                         (long long)INT64_MAX);
    }
    node->type = JSON_INT;
    node->integer = value;
    return 0;
}

/* strtod wants a NUL, and a decimal point: nothing in the program leaves the C locale. */
int json_build_real(struct json_builder *b, struct json *node, const char *text, size_t len)
{
    char copy[JSON_NUMBER_MAX + 1];
    if (len > JSON_NUMBER_MAX)
        return json_build_fail(b, node->pos,
                               "found a number of %zu characters, expected at most %d", len,
                               JSON_NUMBER_MAX);
    memcpy(copy, text, len);
    copy[len] = '\0';
    double value = strtod(copy, NULL);
    if (!isfinite(value))
        return json_build_fail(b, node->pos, "found a number that is too large for a double");
    node->type = JSON_REAL;
    node->real = value;
    return 0;
}

void json_build_string(struct json *node, char *string)
{
    node->type = JSON_STRING;
    node->string = string;
}
