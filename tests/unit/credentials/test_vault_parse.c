#include "credentials/vault_parse.h"

#include <criterion/criterion.h>
#include <string.h>

static struct json *reply(const char *text)
{
    struct json *j = NULL;
    struct err err = ERR_INIT;
    cr_assert_eq(vault_parse(text, strlen(text), &j, &err), 0, "%s", err.message);
    return j;
}

static void expect_field(const char *text, const char *field, const char *expected)
{
    struct json *j = reply(text);
    struct err err = ERR_INIT;
    char number[VAULT_NUMBER_SIZE];
    const char *value = NULL;
    int r = vault_parse_field(j, field, number, &value, &err);
    if (expected) {
        cr_assert_eq(r, 0, "%s", err.message);
        cr_assert_str_eq(value, expected);
    } else {
        cr_assert_lt(r, 0, "%s", text);
        cr_assert_neq(err.message[0], '\0');
    }
    vault_json_wipe(j);
}

Test(vault_parse, fields)
{
    expect_field("{\"data\":{\"data\":{\"a\":\"x\"},\"metadata\":{}}}", "a", "x");
    expect_field("{\"data\":{\"a\":\"x\"}}", "a", "x");
    expect_field("{\"data\":{\"a\":42}}", "a", "42");
    /* A field that is called data, of a secret that is not of KV v2. */
    expect_field("{\"data\":{\"data\":\"x\"}}", "data", "x");
    expect_field("{\"data\":{\"data\":null,\"metadata\":{}}}", "a", NULL);
    expect_field("{\"data\":{\"data\":{\"a\":\"x\"},\"metadata\":{}}}", "metadata", NULL);
    expect_field("{\"data\":{\"a\":{}}}", "a", NULL);
    expect_field("{\"data\":{\"a\":true}}", "a", NULL);
    expect_field("{\"data\":{}}", "a", NULL);
    expect_field("{\"data\":null}", "a", NULL);
    expect_field("{}", "a", NULL);
}

Test(vault_parse, terms)
{
    struct vault_terms t;
    struct json *j = reply("{\"lease_id\":\"p/1\",\"lease_duration\":60,\"renewable\":true}");
    cr_assert_eq(vault_parse_terms(j, &t, NULL), 0);
    cr_assert_str_eq(t.id, "p/1");
    cr_assert_eq(t.seconds, 60);
    cr_assert(t.renewable);
    vault_json_wipe(j);
    /* KV v1: a duration, and no lease behind it. */
    j = reply("{\"lease_id\":\"\",\"lease_duration\":2764800,\"renewable\":false}");
    cr_assert_eq(vault_parse_terms(j, &t, NULL), 0);
    cr_assert_null(t.id);
    cr_assert_eq(t.seconds, 0);
    vault_json_wipe(j);
    j = reply("{\"lease_id\":\"p/1\",\"lease_duration\":-1}");
    cr_assert_lt(vault_parse_terms(j, &t, NULL), 0);
    vault_json_wipe(j);
    j = reply("{\"lease_id\":\"p/1\",\"lease_duration\":9223372036854775807}");
    cr_assert_lt(vault_parse_terms(j, &t, NULL), 0);
    vault_json_wipe(j);
}

Test(vault_parse, logins)
{
    struct vault_terms t;
    const char *token;
    struct json *j =
        reply("{\"auth\":{\"client_token\":\"hvs.x\",\"lease_duration\":60,\"renewable\":true}}");
    cr_assert_eq(vault_parse_auth(j, &token, &t, NULL), 0);
    cr_assert_str_eq(token, "hvs.x");
    cr_assert_eq(t.seconds, 60);
    vault_json_wipe(j);
    j = reply("{\"auth\":null}");
    cr_assert_lt(vault_parse_auth(j, &token, &t, NULL), 0);
    vault_json_wipe(j);
}

Test(vault_parse, C06_what_is_not_JSON_is_not_repeated)
{
    static const char text[] = "{\"data\":{\"a\":\"tok3n\" oops";
    struct json *j = NULL;
    struct err err = ERR_INIT;
    cr_assert_lt(vault_parse(text, sizeof text - 1, &j, &err), 0);
    cr_assert_null(strstr(err.message, "tok3n"));
    cr_assert_null(strstr(err.message, "oops"));
}
