#include "daemon/api/fields.h"

#include <criterion/criterion.h>
#include <string.h>

static struct json *tree;

static const struct json *parsed(const char *text)
{
    struct err err = ERR_INIT;
    json_free(tree);
    tree = NULL;
    cr_assert_eq(json_parse(text, strlen(text), NULL, &tree, &err), 0, "%s", err.message);
    return tree;
}

struct read {
    bool flag, has_flag;
    int64_t number;
    const char *text;
    const struct json *list, *map;
};

static int get(const char *text, enum fields_mode mode, struct read *ret, struct err *err)
{
    const struct field fields[] = {
        {"flag", FIELD_BOOL, &ret->flag, .has = &ret->has_flag},
        {"aNumber", FIELD_INT, &ret->number, 1, 100},
        {"text", FIELD_STRING, &ret->text},
        {"list", FIELD_STRINGS, &ret->list},
        {"map", FIELD_MAP, &ret->map},
        {"unused", FIELD_UNUSED},
        {"refused", FIELD_REFUSED},
    };
    return FIELDS_READ(parsed(text), mode, fields, err);
}

Test(fields, are_read_by_name)
{
    struct read r = {.number = 7};
    cr_assert_eq(get("{\"flag\":true,\"text\":\"x\",\"list\":[\"a\"],\"map\":{\"k\":\"v\"},"
                     "\"unused\":[1]}",
                     FIELDS_STRICT, &r, NULL),
                 0);
    cr_assert(r.flag && r.has_flag);
    cr_assert_eq(r.number, 7, "absent: untouched");
    cr_assert_str_eq(r.text, "x");
    cr_assert_eq(json_count(r.list), 1);
    cr_assert_str_eq(json_text(r.map, "k"), "v");
}

Test(fields, null_is_absent)
{
    struct read r = {.number = 7};
    cr_assert_eq(get("{\"flag\":null,\"aNumber\":null,\"text\":null,\"list\":null}", FIELDS_STRICT,
                     &r, NULL),
                 0);
    cr_assert_not(r.has_flag);
    cr_assert_eq(r.number, 7);
}

Test(fields, what_is_wrong_is_named)
{
    static const struct {
        const char *text, *name;
    } bad[] = {
        {"{\"flag\":1}", "\"flag\""},
        {"{\"flag\":\"true\"}", "\"flag\""},
        {"{\"aNumber\":\"5\"}", "\"aNumber\""},
        {"{\"aNumber\":5.0}", "\"aNumber\""},
        {"{\"aNumber\":0}", "\"aNumber\""},
        {"{\"aNumber\":101}", "\"aNumber\""},
        {"{\"aNumber\":-1}", "\"aNumber\""},
        {"{\"text\":[]}", "\"text\""},
        {"{\"list\":\"a\"}", "\"list\""},
        {"{\"list\":[\"a\",1]}", "\"list\""},
        {"{\"map\":[]}", "\"map\""},
        {"{\"map\":{\"a\":{}}}", "\"map\""},
        {"{\"other\":1}", "\"other\""},
        {"{\"a_number\":5}", "\"a_number\""},
        {"{\"refused\":[1]}", "\"refused\""},
        {"{\"refused\":{\"a\":1}}", "\"refused\""},
        {"{\"refused\":true}", "\"refused\""},
        {"{\"refused\":\"x\"}", "\"refused\""},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct read r = {0};
        struct err err = ERR_INIT;
        cr_assert_lt(get(bad[i].text, FIELDS_STRICT, &r, &err), 0, "%s", bad[i].text);
        cr_assert(strstr(err.message, bad[i].name), "%s: %s", bad[i].text, err.message);
    }
    struct read r = {0};
    cr_assert_eq(get("{\"refused\":[]}", FIELDS_STRICT, &r, NULL), 0);
    cr_assert_eq(get("{\"refused\":false}", FIELDS_STRICT, &r, NULL), 0);
    cr_assert_lt(get("[]", FIELDS_STRICT, &r, NULL), 0);
}

Test(fields, proto_takes_strings_for_numbers_and_both_spellings)
{
    struct read r = {0};
    cr_assert_eq(get("{\"a_number\":\"42\",\"other\":{\"x\":[1]}}", FIELDS_PROTO, &r, NULL), 0);
    cr_assert_eq(r.number, 42);
    cr_assert_eq(get("{\"aNumber\":\"43\"}", FIELDS_PROTO, &r, NULL), 0);
    cr_assert_eq(r.number, 43);
    cr_assert_lt(get("{\"aNumber\":\"4x\"}", FIELDS_PROTO, &r, NULL), 0);
    cr_assert_lt(get("{\"aNumber\":\"-4\"}", FIELDS_PROTO, &r, NULL), 0);
    cr_assert_lt(get("{\"flag\":\"true\"}", FIELDS_PROTO, &r, NULL), 0);
}

Test(fields, names_of_variables_are_checked)
{
    struct err err = ERR_INIT;
    cr_assert_eq(fields_check_env(NULL, "envs", NULL), 0);
    cr_assert_eq(fields_check_env(parsed("{\"A_1\":\"x=y\",\"_\":\"\"}"), "envs", NULL), 0);
    cr_assert_lt(fields_check_env(parsed("{\"\":\"x\"}"), "envs", &err), 0);
    cr_assert_lt(fields_check_env(parsed("{\"1A\":\"x\"}"), "envs", &err), 0);
    cr_assert_lt(fields_check_env(parsed("{\"A=B\":\"x\"}"), "envs", &err), 0);
    cr_assert_lt(fields_check_env(parsed("{\"A B\":\"x\"}"), "envs", &err), 0);
    cr_assert(strstr(err.message, "envs"));
}
