#include "base/api_key.h"

#include <criterion/criterion.h>

#define HEX40 "0123456789abcdef0123456789abcdef01234567"
#define OLD43 "AZaz09-_AZaz09-_AZaz09-_AZaz09-_AZaz09-_AZa"

Test(api_key, whole_ones)
{
    cr_expect(api_key_ok("e2b_" HEX40));
    cr_expect(api_key_ok("e2b_0123456789abcdef0123456789abcdef"), "an operator's own, 128 bits");
    cr_expect(api_key_ok("e2b_" HEX40 HEX40 "0123456789abcdef"), "the longest");
    cr_expect(api_key_ok("brig_" OLD43), "made by an earlier brig");
}

Test(api_key, what_is_none)
{
    static const char *const none[] = {
        "",
        "e2b_",
        "e2b_0",
        "e2b_0123456789abcdef0123456789abcde", /* can be guessed */
        "e2b_" HEX40 HEX40 "0123456789abcdef0",
        "e2b_0123456789ABCDEF0123456789ABCDEF01234567", /* clients refuse it */
        "e2b_" HEX40 "g",
        "e2b_" HEX40 " ",
        " e2b_" HEX40,
        "E2B_" HEX40,
        "sk_e2b_" HEX40,
        "brig_" OLD43 "A",
        "brig_" HEX40,
        "brig_short",
        OLD43,
    };
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        cr_expect_not(api_key_ok(none[i]), "%s", none[i]);
}

Test(api_key, found_in_texts)
{
    cr_expect_eq(api_key_at("e2b_" HEX40 " used"), 44);
    cr_expect_eq(api_key_at("e2b_0123456789abcdef"), 20, "cut");
    cr_expect_eq(api_key_at("brig_" OLD43 "."), 48);
    cr_expect_eq(api_key_at("e2b_debug"), 0);
    cr_expect_eq(api_key_at("brig_short"), 0);
    cr_expect(api_key_within("Bearer e2b_" HEX40));
    cr_expect(api_key_within("Bearer brig_" OLD43));
    cr_expect_not(api_key_within("Bearer e2b_ brig_ sk-" HEX40));
}
