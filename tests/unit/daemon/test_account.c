#include "daemon/base/account.h"

#include <criterion/criterion.h>
#include <string.h>

static const struct key one = {.id = "k_one"}, two = {.id = "k_two"}, three = {.id = "k_three"};
static const struct key boss = {.id = "k_boss", .operator_key = true};

static struct accounts *open_with(uint64_t each, uint64_t all, uint64_t reserve)
{
    struct account_limits limits = {0};
    for (int i = 0; i < ACCOUNT_KINDS; i++)
        limits.of[ACCOUNT_OF_KEY][i] = (struct account_limit){each, all, reserve};
    limits.of[ACCOUNT_OF_ADDRESS][ACCOUNT_BYTES] = (struct account_limit){100, 150, 0};
    return accounts_new(&limits);
}

/* As much as one can get, piece by piece. */
static uint64_t take_all(struct account *a, enum account_kind kind, uint64_t piece)
{
    uint64_t got = 0;
    while (account_charge(a, kind, piece, NULL) == 0)
        got += piece;
    return got;
}

Test(account, what_is_returned_can_be_had_again)
{
    struct accounts *all = open_with(100, 1000, 0);
    struct account *a = account_of(all, &one);
    cr_assert_eq(account_charge(a, ACCOUNT_TUNNELS, 100, NULL), 0);
    cr_assert_lt(account_charge(a, ACCOUNT_TUNNELS, 1, NULL), 0);
    cr_expect_eq(a->used[ACCOUNT_TUNNELS], 100, "what is refused is not charged");
    account_return(a, ACCOUNT_TUNNELS, 60);
    cr_expect_eq(account_room(a, ACCOUNT_TUNNELS), 60);
    cr_expect_eq(account_charge(a, ACCOUNT_TUNNELS, 60, NULL), 0);
    cr_expect_eq(a->peak[ACCOUNT_TUNNELS], 100);
    cr_expect_eq(accounts_used(all, ACCOUNT_OF_KEY, ACCOUNT_TUNNELS), 100);
    cr_expect_eq(accounts_used(all, ACCOUNT_OF_KEY, ACCOUNT_BYTES), 0, "each kind by itself");
    cr_expect_eq(account_of(all, &one), a, "one account per key");
    accounts_free(all);
}

/* AC-1 */
Test(account, who_takes_all_it_can_leaves_as_much_to_the_others)
{
    struct accounts *all = open_with(1000000, 1200, 0);
    uint64_t first = take_all(account_of(all, &one), ACCOUNT_BYTES, 1);
    cr_expect_eq(first, 600, "one has half: %llu", (unsigned long long)first);
    uint64_t second = take_all(account_of(all, &two), ACCOUNT_BYTES, 1);
    cr_expect_eq(second, 300, "the next one half of the rest: %llu", (unsigned long long)second);
    /* The first one gives back what it has too much of, and gets no more than its share again. */
    account_return(account_of(all, &one), ACCOUNT_BYTES, 600);
    take_all(account_of(all, &two), ACCOUNT_BYTES, 1);
    take_all(account_of(all, &one), ACCOUNT_BYTES, 1);
    cr_expect_gt(account_room(account_of(all, &three), ACCOUNT_BYTES), 0, "there is always room");
    accounts_free(all);
}

/* AC-2 */
Test(account, the_reserve_is_the_operators)
{
    struct accounts *all = open_with(1000, 1000, 200);
    for (int i = 0; i < 20; i++) {
        take_all(account_of(all, &one), ACCOUNT_READERS, 1);
        take_all(account_of(all, &two), ACCOUNT_READERS, 1);
        take_all(account_of(all, &three), ACCOUNT_READERS, 1);
    }
    cr_expect_leq(accounts_used(all, ACCOUNT_OF_KEY, ACCOUNT_READERS), 800);
    cr_expect_eq(account_charge(account_of(all, &boss), ACCOUNT_READERS, 200, NULL), 0);
    uint64_t rest = take_all(account_of(all, &boss), ACCOUNT_READERS, 1);
    cr_expect_eq(accounts_used(all, ACCOUNT_OF_KEY, ACCOUNT_READERS), 1000,
                 "up to all there is, not further (%llu more)", (unsigned long long)rest);
    accounts_free(all);
}

static unsigned told;
static void on_refused(void *ctx, struct account *a, enum account_kind kind)
{
    told++;
    cr_expect_str_eq(a->key->id, ctx);
    cr_expect_eq(kind, ACCOUNT_WATCHERS);
}

/* AC-3 */
Test(account, a_refusal_names_the_account_and_the_limit)
{
    struct accounts *all = open_with(7, 1000, 0);
    struct err err = ERR_INIT;
    accounts_on_refused(all, on_refused, "k_one");
    cr_assert_eq(account_charge(account_of(all, &one), ACCOUNT_WATCHERS, 5, &err), 0);
    cr_assert_lt(account_charge(account_of(all, &one), ACCOUNT_WATCHERS, 3, &err), 0);
    cr_expect_eq(err.code, ERR_LIMIT);
    cr_expect(strstr(err.message, "key k_one has 5 watchers; 3 more"), "%s", err.message);
    cr_expect(strstr(err.message, "limit of now 7"), "%s", err.message);
    cr_expect(err.hint[0], "and what can be done about it");
    cr_expect_eq(told, 1);
    cr_expect_eq(account_of(all, &one)->refused[ACCOUNT_WATCHERS], 1);
    accounts_free(all);
}

Test(account, nobodys_is_not_counted)
{
    struct hold h;
    hold_init(&h, NULL);
    cr_expect_eq(account_charge(NULL, ACCOUNT_BYTES, UINT64_MAX, NULL), 0);
    cr_expect_eq(hold_add(&h, 1000, NULL), 0);
    cr_expect_eq(account_room(NULL, ACCOUNT_BYTES), UINT64_MAX);
    hold_done(&h);
    account_return(NULL, ACCOUNT_BYTES, 5);
}

Test(account, buffers_are_charged_as_they_grow)
{
    struct accounts *all = open_with(100000, 1000000, 0);
    struct account *a = account_of(all, &one);
    struct hold h;
    struct buf b, c;
    hold_init(&h, a);
    buf_init_metered(&b, 1u << 20, &h.meter);
    buf_init_metered(&c, 1u << 20, &h.meter);
    cr_expect_eq(a->used[ACCOUNT_BYTES], 0, "an empty one costs nothing");
    buf_str(&b, "hello");
    cr_expect_eq(a->used[ACCOUNT_BYTES], b.size);
    buf_room(&c, 5000);
    cr_expect_eq(a->used[ACCOUNT_BYTES], b.size + c.size);
    cr_expect_eq(c.size, 5001, "no more than was said");
    /* Twice as much as it has would not fit; what it needs does. */
    buf_room(&b, 60000);
    cr_assert_not(b.failed);
    for (int i = 0; i < 34000; i++)
        buf_chr(&c, 'x');
    cr_assert_not(c.failed);
    for (int i = 0; i < 10000; i++)
        buf_chr(&c, 'x');
    cr_expect(c.failed, "there is no room for more");
    cr_expect_leq(a->used[ACCOUNT_BYTES], 100000);
    struct err err = ERR_INIT;
    cr_expect_lt(hold_refusal(&h, &err), 0);
    cr_expect_eq(hold_refusal(&h, &err), 0, "once");
    buf_release(&c);
    cr_expect_eq(a->used[ACCOUNT_BYTES], b.size);
    buf_str(&c, "again");
    cr_expect_not(c.failed);
    buf_done(&b);
    buf_done(&c);
    cr_expect_eq(a->used[ACCOUNT_BYTES], 0);
    hold_done(&h);
    accounts_free(all);
}

Test(account, holds_move_and_share)
{
    struct accounts *all = open_with(1000, 10000, 0);
    struct account address, *key = account_of(all, &one);
    struct hold h, other;
    struct buf b;
    account_init(&address, all, ACCOUNT_OF_ADDRESS);
    hold_init(&h, &address);
    cr_assert_eq(hold_add(&h, 90, NULL), 0);
    cr_expect_lt(hold_add(&h, 20, NULL), 0, "an address has its own limits");
    cr_assert_eq(hold_move(&h, key, NULL), 0);
    cr_expect_eq(address.used[ACCOUNT_BYTES], 0);
    cr_expect_eq(key->used[ACCOUNT_BYTES], 90);
    hold_init(&other, key);
    buf_init_metered(&b, 1000, &h.meter);
    buf_str(&b, "x");
    hold_adopt(&other, &b);
    cr_expect_eq(other.bytes, b.size);
    cr_expect_eq(h.bytes, 90);
    hold_done(&h);
    cr_expect_eq(key->used[ACCOUNT_BYTES], b.size, "the buffer is still charged");
    buf_done(&b);
    cr_expect_eq(key->used[ACCOUNT_BYTES], 0);
    hold_done(&other);
    /* What does not fit stays where it is. */
    hold_init(&h, key);
    cr_assert_eq(hold_add(&h, 500, NULL), 0);
    cr_expect_lt(hold_move(&h, &address, NULL), 0);
    cr_expect_eq(h.account, key);
    hold_done(&h);
    accounts_free(all);
}

Test(account, what_can_be_done_without_leaves_room)
{
    struct accounts *all = open_with(1000, 10000, 0);
    struct hold h;
    hold_init(&h, account_of(all, &one));
    cr_expect(hold_add_spare(&h, 400));
    cr_expect_not(hold_add_spare(&h, 400), "it would take more than half of what is left");
    cr_expect_eq(hold_add(&h, 600, NULL), 0, "which is there for what is needed");
    hold_done(&h);
    accounts_free(all);
}

/* Together with what the front needs for itself, less than 64 MB. */
Test(account, the_limits_of_memory_fit)
{
    uint64_t all = 0;
    for (int i = 0; i < ACCOUNT_CLASSES; i++)
        all += account_limits_default.of[i][ACCOUNT_BYTES].all;
    cr_expect_leq(all, 52ull << 20);
    const struct account_limit *keys = account_limits_default.of[ACCOUNT_OF_KEY];
    for (int i = 0; i < ACCOUNT_KINDS; i++)
        cr_expect(keys[i].each && keys[i].reserve && keys[i].reserve < keys[i].all, "%s",
                  account_kind_name((enum account_kind)i));
}
