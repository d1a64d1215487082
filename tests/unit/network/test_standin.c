/* Stand-in addresses lead back to their names, and nothing else does. */
#include "network/standin.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static struct host name_of(const char *text)
{
    struct host h;
    struct err err = ERR_INIT;
    cr_assert_eq(host_parse(text, strlen(text), false, &h, &err), 0, "%s", err.message);
    return h;
}

static struct sockaddr_storage address(const char *text)
{
    struct sockaddr_storage ss = {0};
    struct sockaddr_in *in = (struct sockaddr_in *)&ss;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&ss;
    if (inet_pton(AF_INET, text, &in->sin_addr) == 1)
        ss.ss_family = AF_INET;
    else if (inet_pton(AF_INET6, text, &in6->sin6_addr) == 1)
        ss.ss_family = AF_INET6;
    cr_assert(ss.ss_family, "%s", text);
    return ss;
}

static const char *lookup(const struct standins *s, const char *text)
{
    struct sockaddr_storage ss = address(text);
    const struct host *h = standin_name(s, (struct sockaddr *)&ss);
    return h ? h->text : NULL;
}

Test(standin, there_and_back)
{
    struct standins s = {0};
    struct host a = name_of("a.test"), b = name_of("b.test");
    cr_assert_eq(standin_of(&s, &a), 0);
    cr_assert_eq(standin_of(&s, &b), 1);
    cr_assert_eq(standin_of(&s, &a), 0, "the same name has the same stand-in");
    cr_assert_eq(s.count, 2);
    cr_assert_str_eq(lookup(&s, "198.18.1.0"), "a.test");
    cr_assert_str_eq(lookup(&s, "198.18.1.1"), "b.test");
    cr_assert_str_eq(lookup(&s, "::ffff:198.18.1.1"), "b.test");
    cr_assert_str_eq(lookup(&s, "fd62:7269:6700::1"), "a.test");
    cr_assert_str_eq(lookup(&s, "fd62:7269:6700::2"), "b.test");
    standins_done(&s);
}

Test(standin, others_lead_nowhere)
{
    struct standins s = {0};
    struct host a = name_of("a.test");
    standin_of(&s, &a);
    static const char *const others[] = {"198.18.1.1",
                                         "198.18.0.0",
                                         "198.18.0.255",
                                         "198.19.1.0",
                                         "199.18.1.0",
                                         "127.0.0.1",
                                         "::",
                                         "::198.18.1.0",
                                         "fd62:7269:6700::",
                                         "fd62:7269:6700::2",
                                         "fd62:7269:6700::1:1",
                                         "fd62:7269:6701::1",
                                         "64:ff9b::198.18.1.0"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        cr_expect_null(lookup(&s, others[i]), "%s", others[i]);
    struct sockaddr unix_address = {.sa_family = AF_UNIX};
    cr_assert_null(standin_name(&s, &unix_address));
    standins_done(&s);
}

Test(standin, the_table_is_bounded)
{
    struct standins s = {0};
    char text[32];
    for (int i = 0; i < STANDIN_MAX; i++) {
        snprintf(text, sizeof text, "n%d.test", i);
        struct host h = name_of(text);
        cr_assert_eq(standin_of(&s, &h), i);
    }
    struct host more = name_of("more.test"), known = name_of("n777.test");
    cr_assert_lt(standin_of(&s, &more), 0);
    cr_assert_eq(standin_of(&s, &known), 777, "those that are known still answer");
    for (int i = 0; i < STANDIN_MAX; i++) {
        uint8_t v4[4], v6[16];
        char back[INET6_ADDRSTRLEN];
        snprintf(text, sizeof text, "n%d.test", i);
        standin_v4(i, v4);
        standin_v6(i, v6);
        inet_ntop(AF_INET, v4, back, sizeof back);
        cr_assert_str_eq(lookup(&s, back), text);
        inet_ntop(AF_INET6, v6, back, sizeof back);
        cr_assert_str_eq(lookup(&s, back), text);
    }
    standins_done(&s);
}

Test(standin, an_address_needs_none)
{
    struct standins s = {0};
    struct host literal = name_of("10.0.0.1");
    cr_assert_lt(standin_of(&s, &literal), 0);
    standins_done(&s);
}
