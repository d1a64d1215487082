#include "http/name.h"

#include <criterion/criterion.h>
#include <string.h>

static struct folded fold(const char *name, bool query)
{
    struct folded f;
    name_fold(name, strlen(name), query, &f);
    return f;
}

Test(name, every_way_to_write_it_is_one)
{
    static const char *const headers[] = {"X-Api-Key", "x-api-key",   "X_API_KEY",  "x.api.key",
                                          "X!Api~Key", "X--Api__Key", "-X-Api-Key-"};
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        struct folded f = fold(headers[i], false);
        cr_assert_str_eq(f.text, "x-api-key", "%s", headers[i]);
        cr_assert_str_eq(f.tight, "xapikey", "%s", headers[i]);
        cr_assert(name_same(&f, "X-API_Key"));
    }
}

Test(name, members_of_a_query_are_decoded)
{
    static const char *const members[] = {"access_token",     "access%5Ftoken", "ACCESS+TOKEN",
                                          "++access.token",   "access_token[]", "%61ccess_token%00",
                                          "access%C3%A9token"};
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        cr_assert_str_eq(fold(members[i], true).text, "access-token", "%s", members[i]);
    cr_assert_str_eq(fold("a%5", true).text, "a-5", "no escape");
    cr_assert_str_eq(fold("a%5F", false).text, "a-5f", "a header is not decoded");
}

Test(name, how_it_begins)
{
    cr_assert(fold("_method", true).marked);
    cr_assert(fold("+_method", true).marked);
    cr_assert(fold(".method", true).marked);
    cr_assert(!fold("method", true).marked);
    cr_assert(!fold("++method_x", true).marked);
}

Test(name, words_and_parts)
{
    struct folded f = fold("X-Api-Key", false);
    cr_assert(name_has_word(&f, "key") && name_has_word(&f, "x") && name_has_word(&f, "api"));
    cr_assert(!name_has_word(&f, "ke") && !name_has_word(&f, "ey"));
    cr_assert(name_has_part(&f, "apikey"));
    f = fold("X-Keyboard-key", false);
    cr_assert(name_has_word(&f, "key"), "the second one");
    f = fold("keyboard", false);
    cr_assert(!name_has_word(&f, "key"));
}

Test(name, long_ones_are_cut)
{
    char name[4096];
    memset(name, 'a', sizeof name);
    memcpy(name, "x_", 2);
    struct folded f;
    name_fold(name, sizeof name, true, &f);
    cr_assert_lt(strlen(f.text), NAME_MAX_FOLDED);
    memset(name, '_', sizeof name);
    memcpy(name + sizeof name - 3, "key", 3);
    name_fold(name, sizeof name, true, &f);
    cr_assert_str_eq(f.text, "key", "what is folded away takes no room");
}

Test(name, members_one_by_one)
{
    const char *at = "?a=1&&b;c=x=y&=z&";
    static const struct {
        const char *text;
        size_t name;
    } expected[] = {{"a=1", 1}, {"b", 1}, {"c=x=y", 1}, {"=z", 0}};
    struct query_member m;
    size_t i = 0;
    for (; query_member_next(&at, &m); i++) {
        cr_assert_lt(i, 4);
        cr_assert_eq(m.len, strlen(expected[i].text));
        cr_assert_arr_eq(m.text, expected[i].text, m.len);
        cr_assert_eq(m.name_len, expected[i].name);
    }
    cr_assert_eq(i, 4);
}
