#include "daemon/base/random.h"

#include "world.h"

static const char *metrics(void)
{
    static struct buf out;
    buf_done(&out);
    buf_init(&out, 1 << 20);
    core_metrics(w.core, &out);
    cr_assert_not(out.failed);
    return buf_text(&out);
}

static bool has(const char *line)
{
    const char *all = metrics(), *at = strstr(all, line);
    return at && (at == all || at[-1] == '\n');
}

Test(metrics, counts_what_happened, .init = world_begin, .fini = world_end)
{
    struct box *b = make_box();
    struct got g;
    cr_assert(has("brig_boxes{template=\"base\",state=\"running\"} 1\n"));
    cr_assert(has("brig_boxes_created_total 1\n"));
    cr_assert(has("brig_duration_seconds_count{what=\"create\"} 1\n"));
    cr_assert(has("brig_duration_seconds_bucket{what=\"create\",le=\"+Inf\"} 1\n"));
    send_text(ward_of(b)->io.fd, WIRE_EVENT, 0, 0,
              "{\"boundary\":\"network\",\"kind\":\"denied\",\"what\":\"x\",\"count\":3}", NULL, 0);
    settle();
    cr_assert(has("brig_denials_total 3\n"));
    cr_assert(has("brig_boundary_denials_total{boundary=\"network\"} 3\n"));
    cr_assert_eq(recorded("denial"), 1);
    ask_box(&owner, "nothing", &g);
    cr_assert(has("brig_boxes_failed_total 1\n"));
    box_end(b, "asked for", NULL, NULL);
    settle();
    cr_assert(has("brig_boxes{template=\"base\",state=\"running\"} 0\n"));
    cr_assert(has("brig_boxes_ended_by_reason_total{reason=\"asked_for\"} 1\n"));
}

Test(metrics, every_line_is_announced_and_well_formed, .init = world_begin, .fini = world_end)
{
    char text[65536], announced[128] = "";
    make_box();
    snprintf(text, sizeof text, "%s", metrics());
    unsigned lines = 0;
    for (char *line = text, *end; *line; line = end + 1) {
        end = strchr(line, '\n');
        cr_assert_not_null(end);
        *end = '\0';
        if (strncmp(line, "# HELP ", 7) == 0) {
            snprintf(announced, sizeof announced, "%.*s", (int)strcspn(line + 7, " "), line + 7);
        } else if (*line != '#') {
            lines++;
            cr_assert_eq(strncmp(line, announced, strlen(announced)), 0, "%s", line);
            cr_assert_not_null(strchr(line, ' '));
        }
    }
    cr_assert_gt(lines, 20);
}

Test(metrics, what_can_be_named_is_bounded, .init = world_begin, .fini = world_end)
{
    char reason[32];
    for (int i = 0; i < 1000; i++) {
        snprintf(reason, sizeof reason, "reason %d", i);
        metrics_reason(w.core, reason);
        core_observe(w.core, reason, 5);
    }
    cr_assert(has("brig_boxes_ended_by_reason_total{reason=\"other\"} 977\n"));
    unsigned n = 0;
    for (const char *at = metrics(); (at = strstr(at, "brig_duration_seconds_count")); at++)
        n++;
    cr_assert_leq(n, HISTOGRAMS_MAX);
}

/* ---- records ---- */

Test(metrics, a_flood_of_events_is_counted_not_lost, .init = world_begin, .fini = world_end)
{
    struct box *b = make_box();
    for (int i = 0; i < 500; i++)
        send_text(ward_of(b)->io.fd, WIRE_EVENT, 0, 0,
                  "{\"boundary\":\"kernel\",\"kind\":\"denied\",\"what\":\"ptrace\"}", NULL, 0);
    settle();
    cr_assert_eq(recorded("denial"), 50);
    cr_assert_eq(w.core->counters[COUNT_DENIALS], 500);
    pass(1000);
    send_text(ward_of(b)->io.fd, WIRE_EVENT, 0, 0, "{\"boundary\":\"kernel\",\"kind\":\"denied\"}",
              NULL, 0);
    settle();
    cr_assert_eq(recorded("denial.more"), 1);
    cr_assert_not_null(strstr(w.records, "\"count\":450"));
}

Test(metrics, a_recorder_that_does_not_keep_up_is_said, .init = world_begin, .fini = world_end)
{
    loop_watch(w.loop, &w.recorder, 0);
    loop_forget(w.loop, &w.recorder);
    cleanup_buf struct buf big;
    buf_init(&big, 20000);
    buf_str(&big, "{\"x\":\"");
    for (int i = 0; i < 10000; i++)
        buf_chr(&big, 'x');
    buf_str(&big, "\"}");
    for (int i = 0; i < 3000; i++)
        core_record(w.core, "request.refused", NULL, &owner, buf_text(&big));
    uint64_t lost = w.core->records_lost;
    cr_assert_gt(lost, 100);
    cr_assert_lt(w.core->recorder.out_bytes, 17u << 20);
    w.records[0] = '\0';
    loop_watch(w.loop, &w.recorder, EPOLLIN);
    for (int i = 0; i < 200; i++)
        settle();
    core_record(w.core, "request.refused", NULL, &owner, NULL);
    w.records[0] = '\0';
    settle();
    cr_assert_eq(w.core->records_lost, 0);
    cr_assert_eq(recorded("audit.lost"), 1);
    char count[32];
    snprintf(count, sizeof count, "\"count\":%llu", (unsigned long long)lost);
    cr_assert_not_null(strstr(w.records, count));
}

static unsigned answers;
static void on_query(void *ctx, const char *json, size_t len, const struct err *err)
{
    (void)ctx;
    cr_assert_null(err);
    cr_assert_eq(strlen(json), len);
    answers++;
}

Test(metrics, the_recorder_is_asked, .init = world_begin, .fini = world_end)
{
    core_query(w.core, "{\"what\":\"summary\"}", on_query, NULL);
    settle();
    cr_assert_eq(answers, 1);
}

/* ---- what is unusual ---- */

static unsigned anomalies(void)
{
    cleanup_buf struct buf out;
    struct json_writer jw;
    struct json *tree = NULL;
    buf_init(&out, 65536);
    jw_init(&jw, &out, false);
    core_anomalies(w.core, &jw);
    cr_assert_eq(json_parse(buf_text(&out), out.len, NULL, &tree, NULL), 0);
    unsigned n = (unsigned)json_count(tree);
    json_free(tree);
    return n;
}

Test(anomalies, what_is_far_from_the_mean_is_seen, .init = world_begin, .fini = world_end)
{
    struct tmpl *t = core_template(w.core, "base");
    usual_see(t, (struct usual_of){0}, USUAL_MEMORY, 1e9);
    usual_see(t, (struct usual_of){0}, USUAL_MEMORY, 1);
    cr_assert_eq(anomalies(), 0, "two are no rule");
    for (int i = 0; i < 100; i++)
        usual_see(t, (struct usual_of){0}, USUAL_CPU, 1000 + (i % 10) * 20);
    cr_assert_eq(anomalies(), 0);
    usual_see(t, (struct usual_of){0}, USUAL_CPU, 1300);
    cr_assert_eq(anomalies(), 0);
    usual_see(t, (struct usual_of){0}, USUAL_CPU, 9000);
    cr_assert_eq(anomalies(), 1);
    cr_assert_eq(recorded("anomaly.seen"), 0);
    settle();
    cr_assert_eq(recorded("anomaly.seen"), 1);
}

Test(anomalies, a_run_of_failures_is_seen, .init = world_begin, .fini = world_end)
{
    struct tmpl *t = core_template(w.core, "base");
    for (int i = 0; i < 200; i++)
        usual_exit(t, (struct usual_of){0}, i % 10 == 0);
    cr_assert_eq(anomalies(), 0, "that is how it usually is");
    for (int i = 0; i < 20; i++)
        usual_exit(t, (struct usual_of){0}, true);
    cr_assert_eq(anomalies(), 1, "once, not for each of them");
}

Test(anomalies, the_list_is_bounded, .init = world_begin, .fini = world_end)
{
    struct tmpl *t = core_template(w.core, "base");
    for (int i = 0; i < 30; i++)
        usual_see(t, (struct usual_of){0}, USUAL_DENIALS, 0);
    double v = 10;
    for (int i = 0; i < 300; i++, v *= 2)
        usual_see(t, (struct usual_of){0}, USUAL_DENIALS, v);
    cr_assert_eq(anomalies(), ANOMALIES_MAX);
}

Test(anomalies, the_root_is_a_root)
{
    double v[] = {0, 1e-6, 0.25, 1, 2, 144, 1e12, 1e30};
    for (size_t i = 0; i < ARRAY_LEN(v); i++) {
        double r = root_of(v[i]);
        cr_assert(r * r >= v[i] * 0.999999 && r * r <= v[i] * 1.000001, "%g: %g", v[i], r);
    }
}

/* ---- ids, faults ---- */

Test(ids, are_random_and_of_the_right_letters)
{
    char id[BOX_ID_LEN + 1], again[BOX_ID_LEN + 1], token[44], uuid[37];
    unsigned seen[256] = {0};
    for (int i = 0; i < 2000; i++) {
        random_id(id, BOX_ID_LEN);
        for (int j = 0; j < BOX_ID_LEN; j++)
            seen[(uint8_t)id[j]]++;
    }
    for (int c = 0; c < 256; c++) {
        bool fine = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        cr_assert_eq(seen[c] > 0, fine);
        if (fine) /* 40000 / 36 = 1111 */
            cr_assert(seen[c] > 900 && seen[c] < 1350, "%c %u", c, seen[c]);
    }
    random_id(again, BOX_ID_LEN);
    cr_assert_str_neq(id, again);
    random_token(token);
    cr_assert_eq(strlen(token), 43);
    cr_assert_eq(strspn(token, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
                 43);
    random_uuid(uuid);
    cr_assert_eq(strlen(uuid), 36);
    cr_assert_eq(uuid[14], '4');
}

/* Only what says that it was denied counts as such; how often counts where it is kept, too. */
Test(metrics, a_denial_is_told_by_its_whole_kind, .init = world_begin, .fini = world_end)
{
    struct box *b = make_box();
    send_text(ward_of(b)->io.fd, WIRE_EVENT, 0, 0,
              "{\"boundary\":\"kernel\",\"kind\":\"density\",\"what\":\"x\"}", NULL, 0);
    settle();
    cr_assert_eq(w.core->counters[COUNT_DENIALS], 0);
    cr_assert_null(box_denials(b));
    for (int i = 0; i < 2; i++)
        send_text(ward_of(b)->io.fd, WIRE_EVENT, 0, 0,
                  "{\"boundary\":\"kernel\",\"kind\":\"denied\",\"what\":\"x\",\"count\":3}", NULL,
                  0);
    settle();
    cr_assert_eq(w.core->counters[COUNT_DENIALS], 6);
    cr_assert_eq(box_denials(b)->count, 1);
    cr_assert_eq(box_denials(b)->items[0].count, 6);
}
