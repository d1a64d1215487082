#include "base/buf.h"

#include <criterion/criterion.h>

Test(buf, keeps_to_its_cap)
{
    struct buf b;
    buf_init(&b, 5);
    buf_str(&b, "hello");
    cr_assert_not(b.failed);
    buf_chr(&b, '!');
    cr_assert(b.failed);
    cr_assert_str_eq(buf_text(&b), "hello");
    buf_done(&b);
}

Test(buf, an_empty_buffer_is_an_empty_string)
{
    struct buf b;
    buf_init(&b, 10);
    cr_assert_str_eq(buf_text(&b), "");
    buf_add(&b, NULL, 0);
    cr_assert_str_eq(buf_text(&b), "");
    buf_done(&b);
}

Test(buf, formats)
{
    struct buf b;
    buf_init(&b, 100);
    buf_fmt(&b, "%d-%s", 42, "x");
    cr_assert_str_eq(buf_text(&b), "42-x");
    buf_done(&b);
}
