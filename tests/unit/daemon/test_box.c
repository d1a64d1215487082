#include "world.h"

#include "daemon/box/review.h"

#include <sys/mman.h>

/* ---- the way through the states ---- */

Test(box, goes_through_its_states_and_each_is_a_record, .init = world_begin, .fini = world_end)
{
    struct box *b = make_box();
    cr_assert_eq(box_info(b)->state, BOX_RUNNING);
    cr_assert_eq(strlen(box_info(b)->token), BOX_TOKEN_LEN);
    cr_assert_eq(strspn(box_info(b)->id, "abcdefghijklmnopqrstuvwxyz0123456789"), BOX_ID_LEN);
    cr_assert_eq(recorded("box.provisioning"), 1);
    cr_assert_eq(recorded("box.running"), 1);
    cr_assert_eq(w.puts, 1);
    struct got g = {0};
    box_pause(b, on_done, &g);
    settle();
    cr_assert_eq(g.calls, 1);
    cr_assert_eq(box_info(b)->state, BOX_PAUSED);
    box_resume(b, 0, on_done, &g);
    settle();
    cr_assert_eq(box_info(b)->state, BOX_RUNNING);
    box_end(b, "asked", on_done, &g);
    cr_assert_eq(box_info(b)->state, BOX_ENDING);
    settle();
    cr_assert_eq(g.calls, 3);
    cr_assert_eq(g.err.code, ERR_NONE);
    cr_assert_eq(recorded("box.paused"), 1);
    cr_assert_eq(recorded("box.running"), 2);
    cr_assert_eq(recorded("box.ending"), 1);
    cr_assert_eq(recorded("box.gone"), 1);
    cr_assert_eq(w.put_nulls, 1);
    cr_assert_eq(w.live, 0);
    cr_assert_not_null(strstr(w.records, "\"memory_peak\":4096"));
}

Test(box, there_is_no_way_back, .init = world_begin, .fini = world_end)
{
    static const unsigned good[BOX_STATE_COUNT] = {
        [BOX_DORMANT] = 1u << BOX_PROVISIONING,
        [BOX_PROVISIONING] =
            1u << BOX_IDLE | 1u << BOX_RUNNING | 1u << BOX_ENDING | 1u << BOX_ERROR,
        [BOX_IDLE] = 1u << BOX_RUNNING | 1u << BOX_ENDING | 1u << BOX_ERROR,
        [BOX_RUNNING] = 1u << BOX_PAUSED | 1u << BOX_ENDING | 1u << BOX_ERROR,
        [BOX_PAUSED] = 1u << BOX_RUNNING | 1u << BOX_ENDING | 1u << BOX_ERROR,
        [BOX_ERROR] = 1u << BOX_ENDING,
        [BOX_ENDING] = 1u << BOX_GONE,
    };
    unsigned bugs = 0;
    for (int from = 0; from < BOX_STATE_COUNT; from++)
        for (int to = 0; to < BOX_STATE_COUNT; to++) {
            struct tmpl *t = core_template(w.core, "base");
            struct box *b = box_new(w.core, t, NULL);
            t->boxes[BOX_DORMANT]--;
            t->boxes[from]++;
            b->info.state = (enum box_state)from;
            bool fine = box_enter(b, (enum box_state)to, NULL) == 0;
            cr_assert_eq(fine, (good[from] >> to) & 1, "%s to %s", box_state_name(from),
                         box_state_name(to));
            bugs += !fine;
            if (!fine)
                cr_assert(b->info.state >= BOX_ENDING, "a bug ends the box");
            if (b->info.state == BOX_GONE)
                box_unlist(b);
            else
                box_on_gone(b, 0);
            settle();
        }
    cr_assert_eq(recorded("box.bug"), bugs);
    cr_assert_eq(w.core->live, 0);
}

/* ---- who sees it ---- */

struct seen {
    unsigned count;
};
static void count_box(void *ctx, struct box *b)
{
    (void)b;
    ((struct seen *)ctx)->count++;
}

Test(box, is_hidden_from_those_it_does_not_belong_to, .init = world_begin, .fini = world_end)
{
    struct box *b = make_box();
    char id[BOX_ID_LEN + 1];
    memcpy(id, box_info(b)->id, sizeof id);
    struct seen s = {0};
    cr_assert_eq(box_find(w.core, &owner, id), b);
    cr_assert_eq(box_find(w.core, &boss, id), b);
    cr_assert_null(box_find(w.core, &other, id));
    cr_assert_null(box_find(w.core, NULL, id));
    box_each(w.core, &other, count_box, &s);
    cr_assert_eq(s.count, 0);
    box_each(w.core, &owner, count_box, &s);
    cr_assert_eq(s.count, 1);
    box_end(b, "asked", NULL, NULL);
    cr_assert_null(box_find(w.core, &owner, id), "one that ends is not found");
    settle();
    cr_assert_null(box_find_any(w.core, id));
}

Test(box, ids_that_are_none_are_not_looked_up, .init = world_begin, .fini = world_end)
{
    struct box *b = make_box();
    static const char *const bad[] = {"",
                                      "a",
                                      "../../../../etc/pass",
                                      "aaaaaaaaaaaaaaaaaaaaa",
                                      "AAAAAAAAAAAAAAAAAAAA",
                                      "aaaaaaaaaaaaaaaaaaa\xc3",
                                      "-aaaaaaaaaaaaaaaaaaa"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        cr_assert_null(box_find(w.core, &boss, bad[i]));
    cr_assert_null(box_find(w.core, &boss, NULL));
    cr_assert_eq(box_find(w.core, &boss, box_info(b)->id), b);
}

/* ---- the claim ---- */

Test(box, what_was_asked_for_reaches_the_warden, .init = world_begin, .fini = world_end)
{
    struct json *env = NULL, *network = NULL, *metadata = NULL;
    cr_assert_eq(json_parse("{\"A\":\"1\"}", 9, NULL, &env, NULL), 0);
    cr_assert_eq(json_parse("{\"allow\":[\"x.org\"],\"block\":[]}", 30, NULL, &network, NULL), 0);
    cr_assert_eq(json_parse("{\"who\":\"me\"}", 12, NULL, &metadata, NULL), 0);
    struct box_request r = {.template_name = "b",
                            .owner = &owner,
                            .timeout_ms = 1000,
                            .env = env,
                            .network = network,
                            .metadata = metadata};
    struct got g = {0};
    box_create(w.core, &r, on_box, &g);
    json_free(env);
    json_free(network);
    json_free(metadata);
    settle();
    cr_assert_not_null(g.box);
    char claim[512];
    snprintf(claim, sizeof claim,
             "{\"env\":{\"E2B_SANDBOX\":\"true\",\"E2B_SANDBOX_ID\":\"%s\",\"E2B_TEMPLATE_ID\":"
             "\"base\",\"A\":\"1\"},\"network\":{\"allow\":[\"x.org\"],\"block\":[]}}",
             box_info(g.box)->id);
    cr_assert_str_eq(ward_of(g.box)->claim_text, claim);
    cr_assert_str_eq(box_info(g.box)->metadata, "{\"who\":\"me\"}");
    cr_assert_str_eq(box_info(g.box)->template_name, "base");
    cr_assert_eq(box_info(g.box)->memory, 536870912);
    cr_assert_null(strstr(w.records, "\"A\""), "no environment in the records");
}

Test(box, an_unknown_template_is_refused, .init = world_begin, .fini = world_end)
{
    struct got g;
    ask_box(&owner, "nothing", &g);
    cr_assert_eq(g.calls, 1);
    cr_assert_eq(g.err.code, ERR_NOT_FOUND);
    ask_box(&owner, "base", &g);
    settle();
    cr_assert_not_null(g.box);
}

/* ---- failures ---- */

Test(box, what_may_go_away_is_tried_again_later_and_later, .init = world_begin, .fini = world_end)
{
    struct got g;
    w.launch_fails = 3;
    w.launch_errno = EAGAIN;
    ask_box(&owner, "base", &g);
    settle();
    cr_assert_eq(w.launches, 1, "not at once");
    pass(2000);
    cr_assert_eq(w.launches, 4);
    cr_assert_eq(g.calls, 1);
    cr_assert_not_null(g.box);
    cr_assert_eq(w.core->live, 1);
}

Test(box, trying_again_has_an_end, .init = world_begin, .fini = world_end)
{
    struct got g;
    w.launch_fails = 100;
    w.launch_errno = ENOMEM;
    ask_box(&owner, "base", &g);
    pass(60000);
    cr_assert_eq(g.calls, 1);
    cr_assert_null(g.box);
    cr_assert_eq(g.err.sys_errno, ENOMEM);
    cr_assert_eq(w.launches, 5);
    cr_assert_eq(w.core->live, 0);
    cr_assert_null(w.core->quotas);
    cr_assert_eq(recorded("box.refused"), 1);
}

Test(box, what_a_rule_refuses_is_not_tried_again, .init = world_begin, .fini = world_end)
{
    struct got g;
    w.claim_fails = 1;
    w.fail_code = ERR_POLICY;
    ask_box(&owner, "base", &g);
    pass(5000);
    cr_assert_eq(g.calls, 1);
    cr_assert_eq(g.err.code, ERR_POLICY);
    cr_assert_eq(w.launches, 1);
    cr_assert_eq(w.core->live, 0, "a box that was offered is ended");
}

Test(box, a_claim_that_is_not_attested_ends_the_box, .init = world_begin, .fini = world_end)
{
    struct got g;
    w.claim_fails = 1;
    ask_box(&owner, "base", &g);
    pass(2000);
    cr_assert_not_null(g.box);
    cr_assert_eq(w.launches, 2);
    cr_assert_eq(w.live, 1, "the first one is gone");
    cr_assert_str_eq(w.wards[1].id, box_info(g.box)->id, "and is never handed out");
    cr_assert_eq(recorded("box.error"), 1);
}

/* ---- every phase has an end ---- */

static void hang(enum wire_type type, bool no_ready)
{
    struct got g;
    world_begin();
    w.hold[type] = true;
    w.no_ready = no_ready;
    ask_box(&owner, "base", &g);
    pass(600000);
    cr_assert_eq(g.calls, 1, "%s", wire_type_name(type));
    cr_assert_null(g.box);
    cr_assert_eq(g.err.sys_errno, ETIMEDOUT, "%s", g.err.message);
    if (type != WIRE_LAUNCH)
        cr_assert_eq(w.live, 0);
    world_end();
}

Test(box, a_launcher_that_hangs_is_not_waited_for)
{
    hang(WIRE_LAUNCH, false);
}

Test(box, a_sandbox_that_does_not_get_ready_is_not_waited_for)
{
    hang(WIRE_NONE, true);
}

Test(box, a_claim_that_hangs_is_not_waited_for)
{
    hang(WIRE_CLAIM, false);
}

Test(box, a_warden_that_does_not_end_is_left, .init = world_begin, .fini = world_end)
{
    struct box *b = make_box();
    struct ward *d = ward_of(b);
    struct got g = {0};
    w.hold[WIRE_END] = true;
    box_end(b, "asked", on_done, &g);
    pass(9000);
    cr_assert_eq(g.calls, 0);
    cr_assert_neq(d->io.fd, -1);
    pass(2000);
    cr_assert_eq(d->io.fd, -1, "its socket was closed, which it saw");
    cr_assert_eq(g.calls, 1);
    cr_assert_eq(w.core->live, 0);
}

Test(box, one_that_never_ends_counts_and_is_said, .init = world_begin, .fini = world_end)
{
    struct box *b = make_box();
    struct got g = {0};
    w.no_gone = true;
    box_end(b, "asked", on_done, &g);
    pass(29000);
    cr_assert_eq(w.kills, 0, "its socket was closed, which it may still see");
    pass(2000);
    cr_assert_eq(w.kills, 1);
    cr_assert_eq(g.calls, 0);
    pass(60000);
    cr_assert_eq(w.kills, 1);
    cr_assert_eq(recorded("box.killed"), 1);
    cr_assert_eq(g.calls, 1);
    cr_assert_eq(g.err.sys_errno, ETIMEDOUT);
    cr_assert_eq(recorded("box.stuck"), 1);
    cr_assert_eq(w.core->live, 1, "what may exist is counted");
    w.no_gone = false;
    ward_gone(&w.wards[0], 0);
    settle();
    cr_assert_eq(w.core->live, 0);
}

/* ---- races ---- */

Test(box, ends_twice_and_both_are_told, .init = world_begin, .fini = world_end)
{
    struct box *b = make_box();
    struct got one = {0}, two = {0};
    box_end(b, "asked", on_done, &one);
    box_end(b, "again", on_done, &two);
    settle();
    cr_assert_eq(one.calls, 1);
    cr_assert_eq(two.calls, 1);
    cr_assert_eq(w.ends, 1);
    cr_assert_eq(recorded("box.ending"), 1);
}

Test(box, the_launchers_word_may_overtake_the_wardens, .init = world_begin, .fini = world_end)
{
    struct box *b = make_box();
    struct ward *d = ward_of(b);
    struct got g = {0};
    w.hold[WIRE_END] = true;
    box_end(b, "asked", on_done, &g);
    settle();
    /* Both are there when the core looks; the launcher's socket comes first. */
    ward_gone(d, 0);
    ward_end((w.no_gone = true, d));
    struct peer *launcher = &w.core->launcher;
    peer_drain(launcher);
    cr_assert_eq(g.calls, 1);
    settle();
    cr_assert_not_null(strstr(w.records, "\"memory_peak\":4096"), "its last words were heard");
}

Test(box, last_words_are_heard_though_ours_were_not, .init = world_begin, .fini = world_end)
{
    struct box *b = make_box();
    struct ward *d = ward_of(b);
    struct got g = {0};
    loop_watch(w.loop, &d->io, 0);
    loop_forget(w.loop, &d->io);
    box_sample(b, on_done, &g); /* it is not read any more: the kernel reports a reset */
    settle();
    ward_end(d);
    settle();
    cr_assert_eq(w.core->live, 0);
    cr_assert_eq(g.calls, 1);
    cr_assert_not_null(strstr(w.records, "\"memory_peak\":4096"));
    cr_assert_eq(recorded("box.error"), 0);
}

Test(box, a_warden_that_dies_ends_its_box, .init = world_begin, .fini = world_end)
{
    struct box *b = make_box();
    struct ward *d = ward_of(b);
    d->ended = true;
    ward_close(d);
    settle();
    cr_assert_eq(recorded("box.error"), 1);
    cr_assert_eq(b->info.state, BOX_ENDING);
    ward_gone(d, 9);
    settle();
    cr_assert_eq(w.core->live, 0);
    cr_assert_eq(recorded("box.gone"), 1);
}

/* At each step of a creation: 0 launched, 1 ready, 2 claim asked. */
static void die_at(int step)
{
    struct got g;
    world_begin();
    w.no_ready = step == 0;
    w.hold[WIRE_CLAIM] = step >= 1;
    ask_box(&owner, "base", &g);
    settle();
    struct ward *d = &w.wards[0];
    d->ended = true;
    ward_close(d);
    if (step == 2)
        ward_gone(d, 9);
    w.no_ready = false;
    w.hold[WIRE_CLAIM] = false;
    pass(3000);
    if (step != 2)
        ward_gone(d, 9);
    settle();
    cr_assert_eq(g.calls, 1);
    cr_assert_not_null(g.box, "%s", g.err.message);
    cr_assert_eq(w.core->live, 1);
    cr_assert_str_neq(box_info(g.box)->id, d->id);
    world_end();
}

Test(box, a_warden_that_dies_while_starting_is_replaced)
{
    for (int step = 0; step < 3; step++)
        die_at(step);
}

Test(box, an_answer_after_its_time_out_reaches_nobody, .init = world_begin, .fini = world_end)
{
    struct box *b = make_box();
    struct ward *d = ward_of(b);
    struct got g = {0};
    w.hold[WIRE_STATS] = true;
    box_sample(b, on_done, &g);
    settle();
    uint32_t request = d->held[WIRE_STATS];
    cr_assert_neq(request, 0);
    pass(12000);
    cr_assert_eq(g.calls, 1);
    cr_assert_eq(g.err.sys_errno, ETIMEDOUT);
    ward_answer(d, WIRE_STATS, request, "");
    settle();
    cr_assert_eq(g.calls, 1);
    cr_assert_eq(b->info.state, BOX_RUNNING);
}

Test(box, nonsense_from_a_warden_ends_its_box_alone, .init = world_begin, .fini = world_end)
{
    struct box *one = make_box(), *two = make_box();
    send_text(ward_of(one)->io.fd, WIRE_EXITED, 0, 0, "[1,2", NULL, 0);
    settle();
    cr_assert_eq(w.core->live, 1);
    cr_assert_eq(two->info.state, BOX_RUNNING);
}

Test(box, a_limit_that_ended_it_is_named, .init = world_begin, .fini = world_end)
{
    struct box *b = make_box();
    struct ward *d = ward_of(b);
    static const char last[] = "{\"reason\":\"limit: memory\",\"usage\":{}}";
    send_fail(d->io.fd, 0, ERR_LIMIT, 0);
    send_text(d->io.fd, WIRE_ENDED, 0, 0, last, NULL, 0);
    d->ended = true;
    ward_close(d);
    ward_gone(d, 0);
    settle();
    cr_assert_eq(w.core->live, 0);
    cr_assert_eq(w.core->counters[COUNT_LIMITS], 1);
    cr_assert_not_null(strstr(w.records, "\"reason\":\"limit: memory\""));
}

/* ---- admission ---- */

Test(box, never_more_than_the_limit_and_the_count_is_exact)
{
    struct core_config config = {.max_boxes = 7};
    struct got g[70];
    world_begin_with(&config, "[" BASE "]");
    for (int i = 0; i < 70; i++)
        ask_box(&owner, "base", &g[i]);
    settle();
    unsigned good = 0, refused = 0;
    for (int i = 0; i < 70; i++) {
        cr_assert_eq(g[i].calls, 1);
        good += g[i].box != NULL;
        refused += g[i].err.code == ERR_LIMIT;
    }
    cr_assert_eq(good, 7);
    cr_assert_eq(refused, 63);
    cr_assert_eq(w.most_live, 7);
    pass(1250);
    cr_assert_eq(recorded("box.refused"), 2, "one, and the number of the others");
    cr_assert_not_null(strstr(w.records, "\"count\":62"));
    for (int i = 0; i < 70; i++)
        if (g[i].box)
            box_end(g[i].box, "asked", NULL, NULL);
    settle();
    cr_assert_eq(w.core->live, 0);
    cr_assert_null(w.core->quotas);
    for (int i = 0; i < 7; i++)
        cr_assert_not_null(make_box());
    cr_assert_eq(w.most_live, 7);
    world_end();
}

Test(box, a_key_has_a_limit_of_its_own, .init = world_begin, .fini = world_end)
{
    static struct key small = {.id = "k_small", .max_boxes = 2};
    struct got g[4];
    for (int i = 0; i < 4; i++)
        ask_box(&small, "base", &g[i]);
    settle();
    cr_assert(g[0].box && g[1].box);
    cr_assert(g[2].err.code == ERR_LIMIT && g[3].err.code == ERR_LIMIT);
    make_box(); /* others are not touched by it */
    box_end(g[0].box, "asked", NULL, NULL);
    settle();
    ask_box(&small, "base", &g[2]);
    settle();
    cr_assert_not_null(g[2].box);
}

/* ---- time ---- */

Test(box, lives_as_long_as_it_was_given, .init = world_begin, .fini = world_end)
{
    struct box *b = make_box();
    int64_t end = box_info(b)->end_ms;
    pass(59000);
    cr_assert_eq(w.core->live, 1);
    box_set_timeout(b, 10000, false);
    cr_assert_lt(box_info(b)->end_ms, end + 60000);
    box_set_timeout(b, 1000, true);
    pass(9000);
    cr_assert_eq(w.core->live, 1, "only ever extended");
    pass(1500);
    cr_assert_eq(w.core->live, 0);
    cr_assert_not_null(strstr(w.records, "\"reason\":\"timeout\""));
}

Test(box, the_clock_stands_while_it_is_paused, .init = world_begin, .fini = world_end)
{
    struct box *b = make_box();
    struct got g = {0};
    pass(50000);
    box_pause(b, on_done, &g);
    pass(600000);
    cr_assert_eq(b->info.state, BOX_PAUSED);
    box_resume(b, 0, on_done, &g);
    pass(9000);
    cr_assert_eq(b->info.state, BOX_RUNNING);
    pass(1500);
    cr_assert_eq(w.core->live, 0);
}

Test(box, pauses_at_the_end_if_that_was_asked_for, .init = world_begin, .fini = world_end)
{
    struct got g = {0};
    struct box_request r = {
        .template_name = "base", .owner = &owner, .timeout_ms = 5000, .auto_pause = true};
    box_create(w.core, &r, on_box, &g);
    pass(6000);
    cr_assert_eq(g.box->info.state, BOX_PAUSED);
    struct got again = {0};
    box_resume(g.box, 3000, on_done, &again);
    pass(1000);
    cr_assert_eq(g.box->info.state, BOX_RUNNING);
}

Test(box, a_pause_that_fails_ends_it, .init = world_begin, .fini = world_end)
{
    struct box *b = make_box();
    struct got g = {0}, second = {0};
    w.hold[WIRE_FREEZE] = true;
    box_pause(b, on_done, &g);
    box_pause(b, on_done, &second);
    cr_assert_eq(second.calls, 1);
    cr_assert_eq(second.err.code, ERR_REFUSED);
    pass(31000);
    cr_assert_eq(g.calls, 1);
    cr_assert_neq(g.err.code, ERR_NONE);
    cr_assert_eq(w.core->live, 0);
}

Test(box, ends_when_nobody_used_it)
{
    struct core_config config = {.max_boxes = 4, .idle_timeout_ms = 10000};
    world_begin_with(&config, "[" BASE "]");
    struct box *b = make_box();
    pass(8000);
    box_touch(b);
    pass(8000);
    cr_assert_eq(w.core->live, 1);
    pass(3000);
    cr_assert_eq(w.core->live, 0);
    cr_assert_not_null(strstr(w.records, "\"reason\":\"idle\""));
    world_end();
}

Test(box, a_time_that_is_too_long_is_refused, .init = world_begin, .fini = world_end)
{
    struct got g = {0};
    struct box_request r = {.template_name = "base", .owner = &owner, .timeout_ms = INT64_MAX};
    box_create(w.core, &r, on_box, &g);
    cr_assert_eq(g.err.code, ERR_USAGE);
    struct box *b = make_box();
    box_set_timeout(b, INT64_MAX, false);
    cr_assert_leq(b->end_at_ms, w.now + 24u * 3600 * 1000);
    box_set_timeout(b, -5, false);
    settle();
    cr_assert_eq(w.core->live, 0);
}

/* ---- stats, network, ports ---- */

Test(box, is_sampled_only_while_somebody_looks, .init = world_begin, .fini = world_end)
{
    struct box *b = make_box();
    struct box_stats s[200];
    box_set_timeout(b, 3600000, false);
    pass(10000);
    cr_assert_null(b->stats);
    cr_assert_eq(box_stats(b, 0, 0, s, 200), 0);
    settle();
    cr_assert_eq(box_stats(b, 0, 0, s, 200), 1);
    cr_assert_eq(s[0].memory, 1048576);
    cr_assert_eq(s[0].memory_limit, 536870912);
    pass(30000);
    size_t n = box_stats(b, 0, 0, s, 200);
    cr_assert(n >= 6 && n <= 8);
    pass(300000); /* nobody looks */
    n = box_stats(b, 0, 0, s, 200);
    cr_assert_leq(n, 22);
    cr_assert_eq(box_stats(b, 0, 0, s, 3), 3);
}

Test(box, network_rules_are_changed_while_it_lives, .init = world_begin, .fini = world_end)
{
    struct box *b = make_box();
    struct json *rules = NULL;
    struct got g = {0};
    cr_assert_eq(json_parse("{\"allow\":[],\"block\":[]}", 23, NULL, &rules, NULL), 0);
    cr_assert_null(box_info(b)->network);
    box_set_network(b, rules, on_done, &g);
    settle();
    json_free(rules);
    cr_assert_eq(g.calls, 1);
    cr_assert_str_eq(box_info(b)->network, "{\"allow\":[],\"block\":[]}");
    cr_assert_eq(recorded("network.changed"), 1);
}

static int port_fd;
static void on_port(void *ctx, int fd, const struct err *err)
{
    on_done(ctx, err);
    port_fd = fd;
}

Test(box, a_port_inside_is_reached, .init = world_begin, .fini = world_end)
{
    struct box *b = make_box();
    struct got g = {0};
    port_connect(b, 8080, on_port, &g);
    settle();
    cr_assert_eq(g.calls, 1);
    cr_assert_str_eq(w.last_text, "{\"port\":8080}");
    cr_assert_eq(write(w.channel, "x", 1), 1);
    char c;
    cr_assert_eq(read(port_fd, &c, 1), 1);
    cr_assert_eq(read(port_fd, &c, 1), -1);
    cr_assert_eq(errno, EAGAIN, "it does not block");
    close(port_fd);
    w.hold[WIRE_CONNECT] = true;
    port_connect(b, 1, on_port, &g);
    pass(31000);
    cr_assert_eq(g.calls, 2);
    cr_assert_eq(port_fd, -1);
    cr_assert_eq(b->info.state, BOX_RUNNING, "a port that hangs costs the box nothing");
}

/* ---- the end of the daemon ---- */

static void on_drained(void *ctx)
{
    ++*(int *)ctx;
}

Test(box, a_drain_ends_all_and_the_last_record_says_so, .init = world_begin, .fini = world_end)
{
    int drained = 0;
    struct got g;
    for (int i = 0; i < 5; i++)
        make_box();
    w.no_ready = true;
    struct got waiting;
    ask_box(&owner, "base", &waiting);
    settle();
    core_drain(w.core, on_drained, &drained);
    cr_assert_eq(waiting.calls, 1);
    cr_assert_eq(waiting.err.code, ERR_REFUSED);
    ask_box(&owner, "base", &g);
    cr_assert_eq(g.err.code, ERR_REFUSED);
    settle();
    cr_assert_eq(drained, 1);
    cr_assert_eq(w.stops, 1);
    cr_assert_eq(w.live, 0);
    const char *last = strstr(w.records, "daemon.stopped");
    cr_assert_not_null(last);
    core_record(w.core, "request.refused", NULL, NULL, NULL);
    settle();
    cr_assert_null(strchr(strchr(last, '\n') + 1, '{'), "nothing follows it");
}

static void on_lost(void *ctx, const struct err *err)
{
    on_done(ctx, err);
}

Test(box, the_loss_of_launcher_or_recorder_is_the_end, .init = world_begin, .fini = world_end)
{
    struct got g = {0}, waiting;
    w.no_ready = true;
    ask_box(&owner, "base", &waiting);
    settle();
    core_on_lost(w.core, on_lost, &g);
    loop_forget(w.loop, &w.launcher);
    shutdown(w.launcher.fd, SHUT_RDWR);
    settle();
    cr_assert_eq(g.calls, 1);
    cr_assert(w.core->lost);
    cr_assert_eq(waiting.calls, 1);
}

Test(box, what_an_earlier_life_left_is_cleaned)
{
    struct core_config config = {.max_boxes = 20};
    world_rows[0] = "{\"table\":\"boxes\",\"key\":\"abcdefghij0123456789\",\"value\":{}}";
    world_rows[1] =
        "{\"table\":\"settings\",\"key\":\"pool.base\",\"value\":{\"min\":1,\"max\":2}}";
    world_rows[2] = "{\"table\":\"boxes\",\"key\":\"../../etc/passwd\",\"value\":{}}";
    world_begin_with(&config, "[" BASE "]");
    cr_assert_str_eq(w.cleaned, "{\"ids\":[\"abcdefghij0123456789\"]}");
    cr_assert_eq(recorded("box.leftover"), 1);
    cr_assert_eq(w.put_nulls, 1);
    cr_assert_eq(recorded("daemon.started"), 1);
    pass(100);
    cr_assert_eq(core_template(w.core, "base")->pool.idle, 1, "sizes are restored as well");
    world_end();
}

/* ---- reviews ---- */

struct shown {
    unsigned calls;
    size_t len;
    uint64_t held; /* on the account meanwhile */
    struct err err;
};

static uint64_t bytes_of(const struct key *key)
{
    return account_of(core_accounts(w.core), key)->used[ACCOUNT_BYTES];
}

static void on_shown(void *ctx, const char *text, size_t len, const struct err *err)
{
    struct shown *s = ctx;
    s->calls++;
    s->len = text ? len : 0;
    s->held = bytes_of(&owner);
    if (err)
        s->err = *err;
}

/* The warden answers the last question that waits, with a text of this length. */
static void answer_review(size_t size)
{
    struct ward *d = &w.wards[0];
    cleanup_fd int fd = memfd_create("changes", MFD_CLOEXEC);
    cr_assert(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
    send_text(d->io.fd, WIRE_DONE, d->held[WIRE_REVIEW], 0, "{}", &fd, 1);
    settle();
}

Test(box, changes_that_are_shown_are_on_the_account_of_their_key, .init = world_begin,
     .fini = world_end)
{
    struct shown s = {0};
    struct box *b = make_box();
    b->info.project = "/srv/app";
    w.hold[WIRE_REVIEW] = true;
    uint64_t before = bytes_of(&owner);
    review_diff(b, REVIEW_TEXT, on_shown, &s);
    settle();
    answer_review(1u << 20);
    cr_assert_eq(s.calls, 1);
    cr_assert_eq(s.len, 1u << 20, "%s", s.err.message);
    cr_assert_geq(s.held, before + (1u << 20));
    cr_assert_eq(bytes_of(&owner), before, "all of it comes back");
    /* More than a key may have: it is refused before it is read. */
    review_diff(b, REVIEW_TEXT, on_shown, &s);
    settle();
    answer_review(15u << 20);
    cr_assert_eq(s.calls, 2);
    cr_assert_eq(s.err.code, ERR_LIMIT);
    cr_assert(s.len == 0 && s.held == before);
    cr_assert(strstr(s.err.message, "k_owner") && strstr(s.err.hint, "stat"), "%s; %s",
              s.err.message, s.err.hint);
    cr_assert_eq(bytes_of(&owner), before);
}

Test(box, a_key_has_few_reviews_under_way, .init = world_begin, .fini = world_end)
{
    struct shown s = {0};
    struct box *b = make_box();
    b->info.project = "/srv/app";
    w.hold[WIRE_REVIEW] = true;
    uint64_t before = bytes_of(&owner);
    for (int i = 0; i < 20; i++)
        review_diff(b, REVIEW_TEXT, on_shown, &s);
    cr_assert(s.calls >= 10 && s.calls < 20, "%u were refused", s.calls);
    cr_assert_eq(s.err.code, ERR_LIMIT);
    pass(130000);
    cr_assert_eq(s.calls, 20, "nobody answered");
    cr_assert_eq(bytes_of(&owner), before);
}
