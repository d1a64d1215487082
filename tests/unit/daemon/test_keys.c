#include "daemon/base/keys.h"

#include "base/api_key.h"
#include "base/sha256.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct keys *keys;

static void setup(void)
{
    cr_assert_eq(keys_new(&keys, NULL), 0);
}
static void teardown(void)
{
    keys_free(keys);
}

static int restore(const char *id, const char *secret, const char *more)
{
    char json[512], hex[SHA256_HEX_SIZE];
    struct err err = ERR_INIT;
    sha256_hex(secret, strlen(secret), hex);
    snprintf(json, sizeof json, "{\"name\":\"n\",\"hash\":\"%s\"%s}", hex, more);
    return keys_restore(keys, id, json, strlen(json), &err);
}

static const char *check(const char *text)
{
    const struct key *k = keys_check(keys, text, strlen(text));
    return k ? k->id : "none";
}

TestSuite(keys, .init = setup, .fini = teardown);

Test(keys, the_right_one_is_found)
{
    cr_assert_str_eq(check("one"), "none");
    cr_assert_eq(restore("k_1", "one", ",\"operator\":true,\"max_boxes\":7"), 0);
    for (int i = 2; i < 40; i++) {
        char id[16], secret[16];
        snprintf(id, sizeof id, "k_%d", i);
        snprintf(secret, sizeof secret, "secret%d", i);
        cr_assert_eq(restore(id, secret, ""), 0);
    }
    cr_assert_str_eq(check("one"), "k_1");
    cr_assert_str_eq(check("secret2"), "k_2");
    cr_assert_str_eq(check("secret39"), "k_39");
    cr_assert_str_eq(check("secret40"), "none");
    cr_assert_str_eq(check(""), "none");
    cr_assert(keys_find(keys, "k_1")->operator_key);
    cr_assert(!keys_find(keys, "k_2")->operator_key);
    cr_assert_eq(keys_find(keys, "k_1")->max_boxes, 7);
    cr_assert_null(keys_find(keys, "k_0"));
}

Test(keys, a_revoked_one_is_none)
{
    cr_assert_eq(restore("k_1", "one", ""), 0);
    const struct key *before = keys_find(keys, "k_1");
    cr_assert_str_eq(check("one"), "k_1");
    cr_assert_eq(restore("k_1", "one", ",\"revoked_ms\":5"), 0);
    cr_assert_str_eq(check("one"), "none");
    cr_assert_eq(keys_find(keys, "k_1"), before, "who holds it still does");
}

/* Those of years, of which few are good. */
Test(keys, revoked_ones_leave_room_for_others)
{
    char id[16], secret[16];
    for (int i = 0; i < API_KEYS_MAX + 10; i++) {
        snprintf(id, sizeof id, "k_%d", i);
        snprintf(secret, sizeof secret, "secret%d", i);
        cr_assert_eq(restore(id, secret, ",\"revoked_ms\":5"), 0, "%d", i);
    }
    cr_assert_eq(restore("k_new", "new", ""), 0);
    cr_assert_str_eq(check("new"), "k_new");
    cr_assert_str_eq(check("secret7"), "none");
    cr_assert_not_null(keys_find(keys, "k_7"), "known for ever");
}

Test(keys, so_many_are_good_at_the_same_time)
{
    char id[16], secret[16];
    for (int i = 0; i < API_KEYS_MAX; i++) {
        snprintf(id, sizeof id, "k_%d", i);
        snprintf(secret, sizeof secret, "secret%d", i);
        cr_assert_eq(restore(id, secret, ""), 0, "%d", i);
    }
    cr_assert_lt(restore("k_new", "new", ""), 0);
    cr_assert_eq(restore("k_7", "secret7", ",\"revoked_ms\":5"), 0, "one can still be revoked");
    cr_assert_eq(restore("k_new", "new", ""), 0);
}

Test(keys, a_prefix_is_none)
{
    cr_assert_eq(restore("k_1", "one", ""), 0);
    cr_assert_str_eq(check("on"), "none");
    cr_assert_str_eq(check("one "), "none");
    cr_assert_null(keys_check(keys, "one\0", 4));
    cr_assert_not_null(keys_check(keys, "one\0", 3));
}

/* RV-8 */
Test(keys, projects_are_bound_to_them)
{
    cr_assert_eq(restore("k_1", "one", ",\"operator\":true"), 0);
    cr_assert_eq(restore("k_2", "two", ",\"projects\":[\"/srv/a\",\"/srv/b\"]"), 0);
    cr_assert_eq(restore("k_3", "three", ",\"projects\":null"), 0);
    cr_assert(key_has_project(keys_find(keys, "k_1"), "/srv/c"));
    cr_assert(key_has_project(keys_find(keys, "k_2"), "/srv/a"));
    cr_assert(key_has_project(keys_find(keys, "k_2"), "/srv/b"));
    cr_assert_not(key_has_project(keys_find(keys, "k_2"), "/srv"));
    cr_assert_not(key_has_project(keys_find(keys, "k_2"), "/srv/a/"));
    cr_assert_not(key_has_project(keys_find(keys, "k_3"), "/srv/a"));
    cr_assert_not(key_has_project(NULL, "/srv/a"));
    /* The new words count. */
    cr_assert_eq(restore("k_2", "two", ",\"projects\":[\"/srv/c\"]"), 0);
    cr_assert_not(key_has_project(keys_find(keys, "k_2"), "/srv/a"));
    cr_assert(key_has_project(keys_find(keys, "k_2"), "/srv/c"));
    static const char *const bad[] = {
        ",\"projects\":\"/srv\"", ",\"projects\":[1]", ",\"projects\":[\"/a\",\"relative\"]",
        ",\"projects\":[\"/1\",\"/2\",\"/3\",\"/4\",\"/5\",\"/6\",\"/7\",\"/8\",\"/9\",\"/10\","
        "\"/11\",\"/12\",\"/13\",\"/14\",\"/15\",\"/16\",\"/17\"]"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_assert_lt(restore("k_2", "two", bad[i]), 0, "%s", bad[i]);
    cr_assert(key_has_project(keys_find(keys, "k_2"), "/srv/c"), "what is wrong changes nothing");
}

Test(keys, nonsense_is_refused)
{
    static const char *const bad[] = {
        "",
        "[]",
        "{}",
        "{\"hash\":\"00\"}",
        "{\"hash\":\"zz000000000000000000000000000000000000000000000000000000000000\"}",
        "{\"hash\":\"0000000000000000000000000000000000000000000000000000000000000000\","
        "\"operator\":1}",
        "{\"hash\":\"0000000000000000000000000000000000000000000000000000000000000000\","
        "\"revoked_ms\":-1}",
        "{\"hash\":\"0000000000000000000000000000000000000000000000000000000000000000\","
        "\"revoked_ms\":\"no\"}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err err = ERR_INIT;
        cr_assert_lt(keys_restore(keys, "k_1", bad[i], strlen(bad[i]), &err), 0, "%s", bad[i]);
    }
    cr_assert_lt(restore("k_0123456789abcdef", "x", ""), 0, "an id that is too long");
    cr_assert_eq(restore("k_0123456789", "x", ""), 0);
}
