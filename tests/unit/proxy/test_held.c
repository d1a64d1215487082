/* What clients leave unfinished is bounded for all of them together. */
#include "proxy/side.h"

#include <criterion/criterion.h>
#include <errno.h>

#define PIECE (1u << 20)
#define SIDES (HELD_ALL / PIECE)

static char piece[PIECE];

Test(held, heads_of_many_clients)
{
    static struct side sides[SIDES + 1];
    for (size_t i = 0; i <= SIDES; i++) {
        side_init(&sides[i], 0);
        cr_assert_eq(side_preload(&sides[i], piece, PIECE), i < SIDES ? 0 : -ENOMEM);
    }
    side_used(&sides[0], 1);
    cr_assert_eq(side_preload(&sides[SIDES], piece, 1), -ENOMEM, "it is held until all is used");
    side_close(&sides[0]);
    cr_assert_eq(side_preload(&sides[SIDES], piece, PIECE), 0, "and given back");
    for (size_t i = 0; i <= SIDES; i++)
        side_close(&sides[i]);
}

Test(held, one_that_grows_and_shrinks)
{
    struct held a = {0}, b = {0};
    cr_assert(held_set(&a, HELD_ALL - 10));
    cr_assert_not(held_set(&b, 11));
    cr_assert(held_set(&b, 10));
    cr_assert_not(held_set(&a, HELD_ALL));
    cr_assert(held_set(&a, 0));
    cr_assert(held_set(&b, HELD_ALL));
    cr_assert_not(held_set(&a, SIZE_MAX));
    cr_assert(held_set(&b, 0));
}
