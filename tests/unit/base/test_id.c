#include "base/id.h"

#include <criterion/criterion.h>

Test(id, a_box_has_twenty_letters_and_digits)
{
    cr_assert(box_id_valid("abcdefghij0123456789"));
    static const char *const none[] = {
        "",
        "abcdefghij012345678",
        "abcdefghij01234567890",
        "Abcdefghij0123456789",
        "abcdefghij012345678/",
        "../../../../../etc/x",
    };
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        cr_expect_not(box_id_valid(none[i]), "%s", none[i]);
    cr_assert_not(box_id_valid(NULL));
}

Test(id, a_run_is_brig_and_letters_and_digits)
{
    cr_assert(run_id_valid("brig-0123456789ab"));
    cr_assert(run_id_valid("brig-abcdefghij0123456789"));
    cr_assert(run_id_valid("brig-abcdefghij012345678901"));
    static const char *const none[] = {
        "",        "brig-",   "brig",
        "box-01",  "brig-A",  "brig-a/b",
        "brig-..", "brig-a ", "brig-abcdefghij0123456789012",
    };
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        cr_expect_not(run_id_valid(none[i]), "%s", none[i]);
    cr_assert_not(run_id_valid(NULL));
}
