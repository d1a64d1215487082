/* What the code asked for: each path once, bounded whatever it does. */
#include "audit/asked.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct asked_set set;

static void set_up(void)
{
    asked_init(&set);
}

static void tear_down(void)
{
    asked_done(&set);
}

TestSuite(asked, .init = set_up, .fini = tear_down);

Test(asked, the_same_path_is_counted_and_its_uses_add_up)
{
    struct asked *a = asked_add(&set, "/srv/a", ASKED_LOOK);
    cr_assert(a);
    a->state = ASKED_MISSING;
    cr_assert(asked_add(&set, "/srv/b", ASKED_READ));
    a = asked_add(&set, "/srv/a", ASKED_WRITE);
    cr_assert_eq(set.count, 2);
    cr_assert_str_eq(a->path, "/srv/a");
    cr_assert_eq(a->count, 2);
    cr_assert_eq(a->uses, ASKED_LOOK | ASKED_WRITE);
    cr_assert_eq(a->state, ASKED_MISSING);
    cr_assert_eq(set.items[1].uses, ASKED_READ);
}

Test(asked, there_is_an_end_to_how_many)
{
    char path[32];
    for (int i = 0; i < ASKED_MAX + 100; i++) {
        snprintf(path, sizeof path, "/srv/%d", i);
        cr_assert_eq(asked_add(&set, path, ASKED_LOOK) != NULL, i < ASKED_MAX);
    }
    cr_assert_eq(set.count, ASKED_MAX);
    cr_assert_eq(set.dropped, 100);
    cr_assert(asked_add(&set, "/srv/7", ASKED_READ), "what is known is still counted");
    cr_assert_eq(set.items[7].count, 2);
}

Test(asked, there_is_an_end_to_how_much)
{
    static char path[4096];
    memset(path, 'x', sizeof path - 1);
    path[0] = '/';
    size_t kept = 0;
    for (int i = 0; i < 1000; i++) {
        snprintf(path + 1, 8, "%06d", i);
        path[7] = 'x';
        kept += asked_add(&set, path, ASKED_LOOK) != NULL;
    }
    cr_assert_leq(set.bytes, ASKED_BYTES_MAX);
    cr_assert_eq(kept, ASKED_BYTES_MAX / 4096);
    cr_assert_eq(set.dropped, 1000 - kept);
}

Test(asked, an_empty_set_can_be_freed_twice)
{
    asked_done(&set);
    asked_done(&set);
    cr_assert_eq(set.count, 0);
}
