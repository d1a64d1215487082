/* An activity ends once and is freed once, whatever comes first and whatever comes with it. */
#include "daemon/api/activity.h"

#include "client.h"

#define CHARGED_BYTES 1000

struct thing {
    struct activity activity;
};

/* What became of the one that is being tried. */
static struct {
    struct thing *thing; /* NULL: freed */
    unsigned made, stopped, freed, written;
    bool inside; /* a call of ours is on the stack: nothing may be freed */
} seen;
static struct box *box;

static void on_stop(struct activity *a)
{
    cr_expect_null(a->call, "AY-4: the call is no longer its own");
    cr_expect_null(a->box);
    cr_expect(a->ended);
    seen.stopped++;
}

static void on_freed(struct activity *a)
{
    cr_expect_eq(a, &seen.thing->activity);
    cr_expect_not(seen.inside, "AY-2: freed by somebody else's call");
    cr_expect_eq(a->pending, 0, "AY-2: freed though a callback is to come");
    cr_expect_eq(seen.stopped, 1, "AY-1");
    cr_expect_gt(a->hold.bytes, CHARGED_BYTES, "AY-3: given back too early");
    seen.freed++;
    seen.thing = NULL;
}

static void on_writable(struct activity *a)
{
    cr_expect_not(a->ended);
    seen.written++;
}

static void on_box_gone(struct activity *a)
{
    struct call *call = activity_end(a);
    cr_expect_null(activity_end(a), "there is one end");
    if (call)
        call_fail(call, 502, "the sandbox has ended");
}

static const struct activity_ops ops = {on_stop, on_freed, on_writable, on_box_gone};
static const struct activity_ops bare = {0};

static struct account *account(void)
{
    return account_of(core_accounts(w.core), &owner);
}

static void starts(struct call *call)
{
    struct err err = ERR_INIT;
    struct thing *t = activity_new(sizeof *t, &ops, call->core, account(), &err);
    cr_assert_not_null(t);
    cr_assert_eq(hold_add(&t->activity.hold, CHARGED_BYTES, &err), 0);
    cr_assert_eq(activity_charge(&t->activity, ACCOUNT_WATCHERS, &err), 0);
    activity_serve(&t->activity, call);
    activity_enter(&t->activity, box);
    call_watch(call);
    activity_wait(&t->activity); /* for one callback */
    seen.thing = t;
    seen.made++;
}

static void start(void)
{
    memset(&seen, 0, sizeof seen);
    box = make_box();
    handler = starts;
    client_connect();
    request("");
    cr_assert_eq(seen.made, 1);
    cr_expect_eq(account()->used[ACCOUNT_WATCHERS], 1);
    cr_expect_gt(held(), CHARGED_BYTES);
}

static void expect_nothing_left(const char *how)
{
    cr_expect_eq(seen.stopped, 1, "%s: stopped %u times", how, seen.stopped);
    cr_expect_eq(seen.freed, 1, "%s: freed %u times", how, seen.freed);
    cr_expect_eq(account()->used[ACCOUNT_WATCHERS], 0, "%s: AY-3", how);
    cr_expect_eq(held(), 0, "%s: AY-3: %llu bytes", how, (unsigned long long)held());
}

/* ---- every order of all that can happen to one, at once and one after the other ---- */

static void client_goes(void)
{
    client_leave();
}

static void box_goes(void)
{
    box_end(box, "asked", NULL, NULL);
}

static void callback_comes(void)
{
    bool wanted = !seen.thing->activity.ended;
    cr_expect_eq(activity_back(&seen.thing->activity), wanted);
}

static void ends_itself(void)
{
    struct call *call = seen.thing ? activity_end(&seen.thing->activity) : NULL;
    if (call)
        call_empty(call, 204);
}

static void is_answered_before(void)
{
    struct call *call = seen.thing ? activity_detach(&seen.thing->activity) : NULL;
    if (call)
        call_empty(call, 204);
}

static void (*const steps[])(void) = {client_goes, box_goes, callback_comes, ends_itself,
                                      is_answered_before};
static const char letters[] = "cbwed";
#define STEPS ARRAY_LEN(steps)

/* `pauses`: after which steps the loop has its turn. */
static void try(const unsigned order[STEPS], unsigned pauses)
{
    char how[2 * STEPS + 1] = "";
    start();
    for (unsigned i = 0; i < STEPS; i++) {
        how[strlen(how)] = letters[order[i]];
        seen.inside = true;
        steps[order[i]]();
        seen.inside = false;
        if (!(pauses & (1u << i)))
            continue;
        how[strlen(how)] = '.';
        settle();
    }
    settle();
    expect_nothing_left(how);
    client_leave();
    settle();
    w.ward_count = 0; /* they are all gone */
}

static unsigned try_orders(unsigned order[STEPS], unsigned fixed)
{
    unsigned tried = 0;
    if (fixed == STEPS) {
        for (unsigned pauses = 0; pauses < 1u << (STEPS - 1); pauses += 3)
            try(order, pauses), tried++;
        return tried;
    }
    for (unsigned i = fixed; i < STEPS; i++) {
        unsigned first = order[i];
        order[i] = order[fixed];
        order[fixed] = first;
        tried += try_orders(order, fixed + 1);
        order[fixed] = order[i];
        order[i] = first;
    }
    return tried;
}

Test(activity, whatever_comes_first_it_ends_and_is_freed_once, .init = begin, .fini = end,
     .timeout = 100)
{
    unsigned order[STEPS] = {0, 1, 2, 3, 4};
    cr_expect_eq(try_orders(order, 0), 120 * 6);
}

/* ---- by itself ---- */

Test(activity, one_that_waits_is_kept_until_its_callback, .init = begin, .fini = end)
{
    start();
    client_leave();
    settle();
    cr_expect_eq(seen.stopped, 1, "AY-1: at once");
    cr_expect_eq(seen.freed, 0, "AY-2: not before its callback");
    cr_expect_eq(account()->used[ACCOUNT_WATCHERS], 1, "AY-3: nor is anything given back");
    cr_expect_not(activity_back(&seen.thing->activity));
    cr_expect_not_null(seen.thing, "AY-2: nor from within it");
    settle();
    expect_nothing_left("callback");
    cr_expect_null(box_dependents(box), "nor does its sandbox know it any more");
}

Test(activity, its_client_is_told_once_and_by_who_ends_it, .init = begin, .fini = end)
{
    start();
    box_end(box, "asked", NULL, NULL);
    settle();
    const char *text = answer();
    cr_expect_not_null(strstr(text, "502"), "%s", text);
    activity_back(&seen.thing->activity);
    settle();
    expect_nothing_left("sandbox");
}

Test(activity, one_without_a_client_goes_on, .init = begin, .fini = end)
{
    start();
    call_empty(activity_detach(&seen.thing->activity), 204);
    settle();
    cr_expect_not_null(strstr(answer(), "204"));
    client_leave();
    settle();
    cr_expect_eq(seen.stopped, 0);
    cr_expect(activity_back(&seen.thing->activity), "what it waits for is still wanted");
    cr_expect_eq(activity_next(box, NULL, &ops), &seen.thing->activity);
    cr_expect_null(activity_next(box, &seen.thing->activity, &ops));
    cr_expect_null(activity_next(box, NULL, &bare), "of another kind there is none");
    cr_expect_eq(activity_box(&seen.thing->activity), box);
    box_end(box, "asked", NULL, NULL);
    settle();
    expect_nothing_left("sandbox");
}

Test(activity, one_that_its_account_has_no_room_for_is_not_made, .init = begin, .fini = end)
{
    struct err err = ERR_INIT;
    uint64_t room = account_room(account(), ACCOUNT_BYTES);
    cr_assert_eq(account_charge(account(), ACCOUNT_BYTES, room, NULL), 0);
    cr_expect_null(activity_new(sizeof(struct thing), &ops, w.core, account(), &err));
    cr_expect_eq(err.code, ERR_LIMIT);
    account_return(account(), ACCOUNT_BYTES, room);
    cr_expect_eq(held(), 0);
}

Test(activity, what_has_nothing_of_its_own_needs_no_functions, .init = begin, .fini = end)
{
    struct err err = ERR_INIT;
    box = make_box();
    struct activity *a = activity_new(sizeof *a, &bare, w.core, account(), &err);
    cr_assert_not_null(a);
    activity_enter(a, box);
    box_end(box, "asked", NULL, NULL);
    settle();
    cr_expect_eq(held(), 0);
}
