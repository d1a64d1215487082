/* Subordinate ids: whose lines are read, which ids are taken, and that no two sandboxes get the
 * same one while there are others. */
#include "kernel/subids.h"

#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

static struct subid_ranges parse(const char *text)
{
    struct subid_ranges r;
    subid_parse(text, strlen(text), "anna", 1000, &r);
    return r;
}

Test(subids, whose_lines)
{
    struct subid_ranges r = parse("bert:100000:65536\nanna:165536:65536\n1000:300000:10\n");
    cr_assert_eq(r.count, 2u);
    cr_assert_eq(r.at[0].first, 165536u);
    cr_assert_eq(r.at[0].count, 65536u);
    cr_assert_eq(r.at[1].first, 300000u);
    cr_assert_eq(subid_total(&r), 65546u);
    cr_assert_eq(subid_at(&r, 0), 165536u);
    cr_assert_eq(subid_at(&r, 65535), 231071u);
    cr_assert_eq(subid_at(&r, 65536), 300000u);
    cr_assert_eq(subid_at(&r, 65545), 300009u);
    cr_assert_eq(r.next, 300010u);
}

Test(subids, lines_that_say_nothing)
{
    static const char *const bad[] = {"",
                                      "\n",
                                      "anna",
                                      "anna:",
                                      "anna:200000",
                                      "anna::5",
                                      "anna:200000:",
                                      "anna:200000:0",
                                      "anna:x:5",
                                      "anna:200000:5:6",
                                      "anna:-1:5",
                                      "anna: 1:5",
                                      "ann:200000:5",
                                      "annaa:200000:5",
                                      ":200000:5",
                                      "1:200000:5",
                                      "anna:0:1000",
                                      "anna:4294967295:1",
                                      "anna:4294967290:6",
                                      "anna:99999999999:1",
                                      "#anna:200000:5"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_assert_eq(parse(bad[i]).count, 0u, "%s", bad[i]);
    cr_assert_eq(parse("anna:200000:5").count, 1u, "control, and no newline at the end");
    cr_assert_eq(parse("anna:4294967289:6").count, 1u, "control: the last that there are");
    struct subid_ranges r;
    subid_parse("anna:200000:5\n", 14, NULL, 7, &r);
    cr_assert_eq(r.count, 0u, "nobody's name is nobody's line");
}

/* SI-2: no account of the system's, even where a line says so. */
Test(subids, ids_of_the_system_are_left_out)
{
    struct subid_ranges r = parse("anna:0:2000\n");
    cr_assert_eq(r.count, 1u);
    cr_assert_eq(r.at[0].first, 1000u);
    cr_assert_eq(r.at[0].count, 1000u);
}

Test(subids, names)
{
    char name[8] = "";
    static const char text[] =
        "root:x:0:0::/:/bin/sh\nbroken\nanna:x:1000:1000:A:/h:/bin/sh\nlongname:x:7:";
    cr_assert(passwd_name(text, sizeof text - 1, 1000, name, sizeof name));
    cr_assert_str_eq(name, "anna");
    cr_assert(passwd_name(text, sizeof text - 1, 0, name, sizeof name));
    cr_assert_str_eq(name, "root");
    cr_assert_not(passwd_name(text, sizeof text - 1, 7, name, sizeof name), "longer than the room");
    cr_assert_not(passwd_name(text, sizeof text - 1, 8, name, sizeof name));
}

static struct subids ranges(uint32_t first, uint32_t uids, uint32_t gids)
{
    return (struct subids){.uids = {.at = {{first, uids}}, .count = 1},
                           .gids = {.at = {{first, gids}}, .count = 1}};
}

/* SI-3 */
Test(subids, no_two_have_one)
{
    struct err err = ERR_INIT;
    uint32_t first = 900000000u + (uint32_t)getpid();
    struct subids s = ranges(first, 3, 2);
    struct subid_lease l[4];
    for (int i = 0; i < 4; i++)
        cr_assert_eq(subids_lease(&s, &l[i], &err), 0, "%s", err.message);
    for (int i = 0; i < 3; i++) {
        cr_assert_geq(l[i].fd, 0);
        cr_assert(l[i].uid >= first && l[i].uid < first + 3);
        cr_assert(l[i].gid >= first && l[i].gid < first + 2);
        for (int j = 0; j < i; j++)
            cr_assert_neq(l[i].uid, l[j].uid);
    }
    cr_assert_eq(l[3].fd, -1, "the fourth shares");
    cr_assert(l[3].uid >= first && l[3].uid < first + 3);
    close(l[1].fd);
    struct subid_lease again;
    cr_assert_eq(subids_lease(&s, &again, &err), 0);
    cr_assert_eq(again.uid, l[1].uid, "who has gone has left it");
}

/* Of a large range the lower half is left alone. */
Test(subids, what_engines_use_is_left_to_them)
{
    struct err err = ERR_INIT;
    struct subids s = ranges(1000000000u, 65536, 65536);
    for (int i = 0; i < 50; i++) {
        struct subid_lease l;
        cr_assert_eq(subids_lease(&s, &l, &err), 0);
        cr_assert(l.uid >= 1000000000u + 32768 && l.uid < 1000000000u + 65536);
        cr_assert_eq(l.uid, l.gid);
    }
}

/* SI-2: neither the caller nor anybody who has an account. */
Test(subids, accounts_are_not_taken)
{
    struct err err = ERR_INIT;
    struct subid_lease l;
    struct subids s = ranges(65534, 1, 1); /* nobody */
    cr_assert_lt(subids_lease(&s, &l, &err), 0);
    cr_assert(strstr(err.message, "an account's"), "%s", err.message);
    if (geteuid() == 0)
        cr_assert_eq(setresuid(1234567, 1234567, 1234567), 0);
    s = ranges(getuid(), 1, 1);
    cr_assert_lt(subids_lease(&s, &l, &err), 0);
    s = ranges(getuid() + 1, 1, 1);
    cr_assert_eq(subids_lease(&s, &l, &err), 0, "control: %s", err.message);
}
