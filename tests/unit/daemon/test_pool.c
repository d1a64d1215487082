#include "world.h"

static struct tmpl *python;

static void begin(void)
{
    struct core_config config = {.max_boxes = 20};
    world_begin_with(&config, "[" BASE "," PYTHON "]");
    python = core_template(w.core, "python");
    pass(1000);
}

static struct pool_info info;
static void on_pool(void *ctx, const struct pool_info *p)
{
    if (strcmp(p->template_name, ctx) == 0)
        info = *p;
}

static const struct pool_info *look(void)
{
    pools_each(w.core, on_pool, "python");
    return &info;
}

Test(pool, waits_with_its_smallest_size, .init = begin, .fini = world_end)
{
    cr_assert_eq(look()->idle, 2);
    cr_assert_eq(info.starting, 0);
    cr_assert_eq(w.launches, 2);
    cr_assert_eq(recorded("box.idle"), 2);
    pass(600000);
    cr_assert_eq(look()->idle, 2);
    cr_assert_eq(w.launches, 2, "those within the smallest size stay");
    cr_assert_eq(python->pool.tick.due_ms, 0, "and nothing wakes the daemon");
    struct got g = {0};
    cr_assert_null(box_find(w.core, &boss, w.wards[0].id), "nobody sees them");
    (void)g;
}

Test(pool, a_claim_is_served_at_once_and_replaced, .init = begin, .fini = world_end)
{
    struct box *b = make_box_of("code-interpreter-v1");
    cr_assert(box_info(b)->from_pool);
    cr_assert_eq(w.launches, 2, "the request goes first");
    cr_assert_eq(w.core->counters[COUNT_CLAIMED], 1);
    pass(100);
    cr_assert_gt(w.launches, 2);
    cr_assert_geq(look()->idle, 2);
    cr_assert_eq(info.hits, 1);
    cr_assert_eq(info.misses, 0);
}

Test(pool, none_is_handed_out_twice, .init = begin, .fini = world_end)
{
    struct got g[10];
    for (int i = 0; i < 10; i++)
        ask_box(&owner, "python", &g[i]);
    pass(1000);
    for (int i = 0; i < 10; i++) {
        cr_assert_not_null(g[i].box);
        for (int j = 0; j < i; j++) {
            cr_assert_neq(g[i].box, g[j].box);
            cr_assert_str_neq(box_info(g[i].box)->token, box_info(g[j].box)->token);
        }
    }
    cr_assert_eq(look()->hits, 2);
    cr_assert_eq(info.misses, 8);
    char id[BOX_ID_LEN + 1];
    memcpy(id, box_info(g[0].box)->id, sizeof id);
    box_end(g[0].box, "asked", NULL, NULL);
    pass(5000);
    for (struct box *b = w.core->first; b; b = b->next)
        cr_assert_str_neq(b->info.id, id, "one that was used is gone");
}

Test(pool, grows_with_demand_and_shrinks_without, .init = begin, .fini = world_end)
{
    for (int second = 0; second < 10; second++) {
        for (int i = 0; i < 8; i++) {
            struct box *b = make_box_of("python");
            box_end(b, "asked", NULL, NULL);
        }
        pass(1000);
    }
    cr_assert_geq(look()->idle, 4);
    cr_assert_leq(info.idle, 6, "never more than the largest size");
    unsigned hits = (unsigned)info.hits;
    cr_assert_gt(hits, 20);
    pass(30000);
    cr_assert_geq(look()->idle, 4, "what is there stays for its time");
    cr_assert_eq(info.target, 2);
    pass(60000);
    cr_assert_eq(look()->idle, 2);
    cr_assert_gt(info.expired, 0);
    cr_assert_eq(python->pool.tick.due_ms, 0);
}

Test(pool, starts_few_at_a_time, .init = begin, .fini = world_end)
{
    w.no_ready = true;
    cr_assert_eq(pool_resize(w.core, "python", 6, 6, NULL), 0);
    pass(1000);
    cr_assert_eq(look()->starting, 2);
    cr_assert_eq(w.launches, 4);
}

Test(pool, failures_wait_longer_and_longer, .init = begin, .fini = world_end)
{
    w.launch_fails = 1000000;
    w.launch_errno = EAGAIN;
    unsigned before = w.launches;
    cr_assert_eq(pool_resize(w.core, "python", 6, 6, NULL), 0);
    pass(60000);
    unsigned tried = w.launches - before;
    cr_assert(tried >= 5 && tried <= 16, "%u", tried);
    cr_assert_eq(look()->failures, tried);
    w.launch_fails = 0;
    pass(120000);
    cr_assert_eq(look()->idle, 6);
}

Test(pool, one_that_fails_its_claim_is_ended_and_the_next_is_tried, .init = begin,
     .fini = world_end)
{
    struct got g;
    w.claim_fails = 1;
    ask_box(&owner, "python", &g);
    settle();
    pass(1);
    cr_assert_not_null(g.box);
    cr_assert_eq(w.claims, 2);
    cr_assert(box_info(g.box)->from_pool);
    cr_assert_eq(recorded("box.error"), 1);
    /* And when all fail, one is launched. */
    cr_assert_eq(pool_resize(w.core, "python", 0, 0, NULL), 0);
    settle();
    cr_assert_eq(look()->idle, 0);
    cr_assert_eq(pool_resize(w.core, "python", 2, 2, NULL), 0);
    pass(2000);
    cr_assert_eq(look()->idle, 2);
    w.claim_fails = 2;
    w.fail_code = ERR_SYSTEM;
    w.fail_errno = ENOENT; /* which would be final of one that was launched for it */
    ask_box(&owner, "python", &g);
    pass(2000);
    cr_assert_not_null(g.box);
    /* What a rule refuses, it refuses of the next as well. */
    w.claim_fails = 1;
    w.fail_code = ERR_REFUSED;
    ask_box(&owner, "python", &g);
    pass(2000);
    cr_assert_null(g.box);
    cr_assert_eq(g.err.code, ERR_REFUSED);
}

Test(pool, a_warm_one_that_dies_is_replaced, .init = begin, .fini = world_end)
{
    struct ward *d = &w.wards[0];
    d->ended = true;
    ward_close(d);
    ward_gone(d, 9);
    pass(3000);
    cr_assert_eq(look()->idle, 2);
    cr_assert_eq(info.failures, 1);
    make_box_of("python");
    make_box_of("python");
}

Test(pool, dies_while_it_is_claimed, .init = begin, .fini = world_end)
{
    struct got g;
    w.hold[WIRE_CLAIM] = true;
    ask_box(&owner, "python", &g);
    settle();
    for (unsigned i = 0; i < w.ward_count; i++)
        if (w.wards[i].held[WIRE_CLAIM]) {
            w.wards[i].ended = true;
            ward_close(&w.wards[i]);
            ward_gone(&w.wards[i], 9);
        }
    w.hold[WIRE_CLAIM] = false;
    pass(1000);
    cr_assert_eq(g.calls, 1);
    cr_assert_not_null(g.box);
}

Test(pool, makes_room_for_others)
{
    struct core_config config = {.max_boxes = 4};
    struct got g[5];
    world_begin_with(&config, "[" BASE "," PYTHON "]");
    pass(1000);
    cr_assert_eq(w.live, 2);
    for (int i = 0; i < 5; i++)
        ask_box(&owner, "base", &g[i]);
    pass(1000);
    unsigned good = 0, refused = 0;
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(g[i].calls, 1);
        good += g[i].box != NULL;
        refused += g[i].err.code == ERR_LIMIT;
    }
    cr_assert_eq(good, 4);
    cr_assert_eq(refused, 1);
    cr_assert_eq(w.most_live, 4);
    pass(30000);
    cr_assert_eq(w.core->live, 4, "and it is not refilled at the cost of others");
    world_end();
}

/* What is being made for a pool is room as well, for as many as it is. */
Test(pool, what_is_not_ready_yet_makes_room_too)
{
    struct core_config config = {.max_boxes = 3};
    struct got g[2];
    world_begin_with(&config, "[" BASE "," PYTHON "]");
    pass(1000);
    w.no_ready = true;
    cr_assert_eq(pool_resize(w.core, "python", 3, 3, NULL), 0);
    pass(100);
    cr_assert_eq(look()->starting, 1);
    make_box_of("python");
    make_box_of("python");
    w.no_ready = false;
    ask_box(&owner, "base", &g[0]);
    ask_box(&owner, "base", &g[1]);
    settle();
    cr_assert_eq(g[0].calls, 0, "it waits");
    cr_assert_eq(g[1].err.code, ERR_LIMIT, "for this one there will be none");
    ward_ready(&w.wards[w.ward_count - 1]);
    pass(100);
    cr_assert_eq(g[0].calls, 1);
    cr_assert_not_null(g[0].box);
    cr_assert_eq(w.most_live, 3);
    world_end();
}

Test(pool, refilling_waits_while_somebody_waits, .init = begin, .fini = world_end)
{
    cr_assert_eq(pool_resize(w.core, "python", 6, 6, NULL), 0);
    pass(2000);
    cr_assert_eq(look()->idle, 6);
    unsigned before = w.launches;
    for (int i = 0; i < 3; i++) {
        make_box_of("python");
        pass(6); /* another one comes before the daemon had a moment for itself */
    }
    cr_assert_eq(w.launches, before);
    pass(100);
    cr_assert_eq(look()->idle, 6);
    for (int i = 0; i < 5; i++)
        make_box_of("python");
    pass(6);
    cr_assert_gt(w.launches, before + 3, "unless hardly any are left");
}

Test(pool, a_template_that_changed_is_not_served_from_old_stock, .init = begin, .fini = world_end)
{
    char old[2][BOX_ID_LEN + 1];
    memcpy(old[0], w.wards[0].id, sizeof old[0]);
    memcpy(old[1], w.wards[1].id, sizeof old[1]);
    send_text(w.launcher.fd, WIRE_TEMPLATES, 0, 0,
              "{\"templates\":[{\"name\":\"python\",\"memory\":1,\"pool\":{\"min\":1,\"max\":6}}]}",
              NULL, 0);
    pass(1000);
    cr_assert_null(core_template(w.core, "base"));
    cr_assert_not_null(core_template(w.core, "python"));
    struct box *b = make_box_of("python");
    cr_assert(box_info(b)->from_pool);
    cr_assert_str_neq(box_info(b)->id, old[0]);
    cr_assert_str_neq(box_info(b)->id, old[1]);
    cr_assert_eq(box_info(b)->memory, 1);
    struct got g;
    ask_box(&owner, "base", &g);
    cr_assert_eq(g.err.code, ERR_NOT_FOUND);
}

Test(pool, its_size_is_kept, .init = begin, .fini = world_end)
{
    struct err err = ERR_INIT;
    unsigned puts = w.puts;
    cr_assert_eq(pool_resize(w.core, "python", 3, 4, &err), 0);
    pass(500);
    cr_assert_gt(w.puts, puts);
    cr_assert_eq(look()->idle, 3);
    cr_assert_lt(pool_resize(w.core, "python", 5, 4, &err), 0);
    cr_assert_lt(pool_resize(w.core, "nothing", 1, 1, &err), 0);
    cr_assert_lt(pool_resize(w.core, "python", 1, 1000000, &err), 0);
    cr_assert_eq(recorded("pool.resized"), 1);
}

/* ---- how many ---- */

Test(pool, the_size_follows_the_rate)
{
    struct demand d = {0};
    cr_assert_eq(demand_target(&d, 0, 10), 0);
    cr_assert_eq(demand_target(&d, 3, 10), 3);
    d.this_second = 1;
    cr_assert_eq(demand_target(&d, 0, 10), 1, "the first claim is a sign");
    d.this_second = 40;
    cr_assert_eq(demand_target(&d, 0, 10), 10);
    demand_tick(&d);
    unsigned last = demand_target(&d, 0, 100);
    cr_assert_gt(last, 1);
    for (int i = 0; i < 60; i++) {
        demand_tick(&d);
        unsigned now = demand_target(&d, 0, 100);
        cr_assert_leq(now, last);
        last = now;
    }
    cr_assert_eq(last, 0);
}

static void begin_without_pool(void)
{
    struct core_config config = {.max_boxes = 20};
    world_begin_with(&config, "[" BASE "]");
    pass(1000);
}

Test(pool, what_clones_are_made_from_stays_for_a_while, .init = begin_without_pool,
     .fini = world_end)
{
    pass(600000);
    cr_assert_eq(w.retires, 0, "there is nothing");
    for (int i = 0; i < 3; i++) {
        box_end(make_box_of("base"), "ended", NULL, NULL);
        pass(50000);
    }
    cr_assert_eq(w.retires, 0, "it was wanted each time");
    pass(20000);
    cr_assert_eq(w.retires, 1);
    pass(600000);
    cr_assert_eq(w.retires, 1, "it is said once");
    make_box_of("base");
    pass(70000);
    cr_assert_eq(w.retires, 2);
}
