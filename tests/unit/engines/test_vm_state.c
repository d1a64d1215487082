/* What is kept of a machine that was parked. */
#include "engines/vm/state.h"

#include <criterion/criterion.h>
#include <string.h>

#define ONE STATE_TAG('o', 'n', 'e', '!')
#define TWO STATE_TAG('t', 'w', 'o', '!')

static uint8_t room[256];

static struct state_reader written(void)
{
    struct state_writer w = {.data = room, .room = sizeof room};
    const uint16_t items[] = {1, 2, 3};
    const uint64_t value = 42;
    state_put(&w, ONE, &value, sizeof value);
    state_put(&w, TWO, items, sizeof items);
    state_put(&w, ONE, "text", 4);
    state_put(&w, TWO, NULL, 0);
    cr_assert(!w.failed);
    return (struct state_reader){.data = room, .len = w.len};
}

Test(vm_state, blocks_come_back_in_order)
{
    struct state_reader r = written();
    uint64_t value;
    uint16_t items[4];
    size_t count;
    char text[5];
    cr_assert(state_get(&r, ONE, &value, sizeof value));
    cr_expect_eq(value, 42u);
    cr_assert(state_get_counted(&r, TWO, items, sizeof *items, 4, &count));
    cr_expect_eq(count, 3u);
    cr_expect_eq(items[2], 3);
    cr_assert(state_get_text(&r, ONE, text, sizeof text));
    cr_expect_str_eq(text, "text");
    cr_expect_not(state_ended(&r));
    cr_assert(state_get(&r, TWO, NULL, 0));
    cr_expect(state_ended(&r));
}

Test(vm_state, another_tag_or_length_fails_for_good)
{
    uint64_t value = 7;
    uint16_t items[2];
    size_t count;
    char text[4];
    struct state_reader r = written();
    cr_expect_not(state_get(&r, TWO, &value, sizeof value), "another tag");
    cr_expect_not(state_get(&r, ONE, &value, sizeof value), "it stays failed");
    cr_expect_eq(value, 7u);
    r = written();
    cr_expect_not(state_get(&r, ONE, &value, 4), "a shorter one");
    cr_expect_eq(value, 7u);
    r = written();
    cr_assert(state_get(&r, ONE, &value, sizeof value));
    cr_expect_not(state_get_counted(&r, TWO, items, sizeof *items, 2, &count), "more than room");
    cr_expect_eq(count, 0u);
    r = written();
    cr_assert(state_get(&r, ONE, &value, sizeof value));
    cr_expect_not(state_get_counted(&r, TWO, &value, 4, 2, &count), "a part of an item");
    r = written();
    cr_expect_not(state_get_text(&r, ONE, text, sizeof text), "a text that is too long");
    r = written();
    room[8] = 0;
    char eight[9];
    cr_expect_not(state_get_text(&r, ONE, eight, sizeof eight), "a text that ends in the middle");
}

/* Of each length but the whole one something is missing. */
Test(vm_state, one_that_is_cut_off_fails)
{
    for (size_t len = 0; len < 16; len++) {
        struct state_reader r = written();
        uint64_t value;
        r.len = len;
        cr_expect_not(state_get(&r, ONE, &value, sizeof value), "%zu", len);
        cr_expect_not(state_ended(&r));
    }
    struct state_reader r = written();
    uint64_t value;
    r.len = 16;
    cr_expect(state_get(&r, ONE, &value, sizeof value), "control: it is whole");
    cr_expect(state_ended(&r));
}

Test(vm_state, without_room_the_writer_fails_for_good)
{
    uint8_t little[32] = {0};
    struct state_writer w = {.data = little, .room = 24};
    state_put(&w, ONE, "0123456789abcdef", 16);
    cr_expect_not(w.failed);
    state_put(&w, TWO, NULL, 0);
    cr_expect(w.failed);
    cr_expect_eq(w.len, 24u);
    for (size_t i = 24; i < sizeof little; i++)
        cr_expect_eq(little[i], 0);
    w = (struct state_writer){.data = little, .room = 24};
    state_put(&w, ONE, "0123456789abcdefg", 17);
    state_put(&w, ONE, "0", 1);
    cr_expect(w.failed && w.len == 0);
}
