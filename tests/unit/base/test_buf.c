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

struct purse {
    struct buf_meter meter;
    size_t used, most;
};

static bool spend(struct buf_meter *m, size_t from, size_t to)
{
    struct purse *p = (struct purse *)m;
    if (to > from && p->used + (to - from) > p->most)
        return false;
    p->used += to - from;
    return true;
}

Test(buf, a_meter_sees_all_of_its_memory)
{
    struct purse p = {.meter.fn = spend, .most = 4096};
    struct buf b;
    buf_init_metered(&b, 1u << 20, &p.meter);
    for (int i = 0; i < 3000; i++)
        buf_chr(&b, 'x');
    cr_assert_not(b.failed);
    cr_assert_eq(p.used, b.size);
    buf_release(&b);
    cr_assert_eq(p.used, 0);
    cr_assert_eq(b.cap, 1u << 20, "it can be used again");
    for (int i = 0; i < 5000; i++)
        buf_chr(&b, 'y');
    cr_assert(b.failed);
    cr_assert_geq(b.len, 4000, "as much as there is room for");
    cr_assert_leq(p.used, 4096);
    buf_done(&b);
    cr_assert_eq(p.used, 0);
}

Test(buf, a_large_one_grows_by_a_part)
{
    struct buf b;
    static char block[1u << 20];
    buf_init(&b, 64u << 20);
    for (int i = 0; i < 9; i++)
        buf_add(&b, block, sizeof block);
    cr_assert_leq(b.size, b.len + b.len / 4 + (1u << 20));
    buf_done(&b);
}

Test(buf, what_was_read_is_dropped)
{
    struct buf b cleanup_buf = {0};
    buf_init(&b, 8);
    buf_drop(&b, 0);
    cr_assert_str_empty(buf_text(&b));
    buf_str(&b, "abcdefgh");
    buf_drop(&b, 3);
    cr_assert_str_eq(buf_text(&b), "defgh");
    buf_str(&b, "xyz");
    cr_assert(!b.failed, "there is room again");
    buf_drop(&b, 8);
    cr_assert(b.len == 0 && !b.failed);
    cr_assert_str_empty(buf_text(&b));
}
