/* Floods: counted, bounded, and nothing dropped uncounted (AU-3). */
#include "../../lib/unit/part.h"
#include "audit/merge.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct {
    size_t records;
    uint64_t total; /* of all counts */
    char last[512];
} seen;

static void note(void *ctx, const struct record *r)
{
    struct json *j = NULL;
    uint64_t n = 1;
    seen.records++;
    if (r->detail) {
        cr_assert(json_parse(r->detail, strlen(r->detail), NULL, &j, NULL) == 0, "%s", r->detail);
        const struct json *count = json_get(j, "count");
        n = count ? (uint64_t)json_int(count) : 1;
        json_free(j);
    }
    seen.total += n;
    snprintf(seen.last, sizeof seen.last, "%s %s %s", r->kind, r->box ? r->box : "-",
             r->detail ? r->detail : "-");
}

static struct merge *m;
static uint64_t now = 1000000;

static void setup(void)
{
    cr_assert(merge_new(&m, NULL) == 0);
}

static void done(void)
{
    merge_free(m);
}
TestSuite(merge, .init = setup, .fini = done);

static void deny(const char *box, const char *text)
{
    struct json *j = NULL;
    struct record r = {.boundary = "kernel", .kind = "denial", .box = box, .detail = text};
    cr_assert(json_parse(text, strlen(text), NULL, &j, NULL) == 0);
    merge_add(m, &r, j, now, note, NULL);
    json_free(j);
}

/* A denial costs the recorder of all sandboxes what its own box has there, however many others
 * there are. */
Test(merge, who_varies_what_it_tries_costs_little)
{
    char text[64], box[16];
    /* Fifteen boxes, each with all the kinds that it may have: one more would fit. */
    const size_t full = MERGE_MAX - MERGE_PER_BOX;
    for (size_t i = 0; i < full; i++) {
        snprintf(text, sizeof text, "{\"what\":\"/file/%zu\"}", i);
        snprintf(box, sizeof box, "box%zu", i / MERGE_PER_BOX);
        deny(box, text);
    }
    cr_assert_eq(seen.records, full);
    uint64_t before = merge_looks(m);
    const size_t all = part_of(20000);
    for (size_t i = 0; i < all; i++) {
        snprintf(text, sizeof text, "{\"what\":\"/other/%zu\"}", i);
        deny("box0", text);
    }
    uint64_t each = (merge_looks(m) - before) / all;
    cr_assert(each <= 2 * MERGE_PER_BOX, "%lu entries looked at for each", (unsigned long)each);
    cr_assert_eq(seen.records, full, "the rest is counted");
}

static uint64_t without_seed(const char *box, const char *detail)
{
    const char *const parts[] = {"kernel", "denial", box, "", detail};
    uint64_t h = 0xcbf29ce484222325u;
    for (int i = 0; i < 5; i++)
        for (size_t k = 0; k <= strlen(parts[i]); k++)
            h = (h ^ (uint8_t)parts[i][k]) * 0x100000001b3u;
    return (h ^ h >> 32 ^ h >> 47) % 2048;
}

/* The code chooses what it tries. What would all be in one place without the seed is not. */
Test(merge, nobody_chooses_what_collides)
{
    static char texts[MERGE_MAX - 1][64], boxes[MERGE_MAX - 1][16];
    const size_t count = MERGE_MAX - 1;
    for (size_t i = 0, n = 0; i < count; n++) {
        snprintf(boxes[i], sizeof boxes[i], "box%zu", i / MERGE_PER_BOX);
        snprintf(texts[i], sizeof texts[i], "{\"count\":0,\"what\":\"%zu\"}", n);
        i += without_seed(boxes[i], texts[i]) == 7;
    }
    for (size_t i = 0; i < count; i++)
        deny(boxes[i], texts[i]);
    cr_assert_eq(seen.records, count);
    uint64_t before = merge_looks(m);
    for (size_t i = 0; i < count; i++)
        deny(boxes[i], texts[i]);
    uint64_t each = (merge_looks(m) - before) / count;
    cr_assert(each <= 4, "%lu entries looked at to find one", (unsigned long)each);
}

/* Entries go and come while others stay: each is found again, and none twice. */
Test(merge, what_is_over_leaves_and_the_others_are_found)
{
    char text[64], box[16];
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < 300; i++) {
            snprintf(text, sizeof text, "{\"what\":\"/file/%d\"}", i * (1 + round % 7));
            snprintf(box, sizeof box, "box%d", (i + round) % 30);
            deny(box, text);
            deny(box, text);
        }
        now += MERGE_WINDOW_US / 3;
        merge_flush(m, now, false, note, NULL);
        cr_assert(!merge_due_us(m) || merge_due_us(m) > now, "what was due is out");
    }
    merge_flush(m, now, true, note, NULL);
    cr_assert_eq(merge_due_us(m), 0);
    cr_assert_eq(seen.total, 50 * 600);
    for (int i = 0; i < 3; i++) {
        now += MERGE_WINDOW_US;
        merge_flush(m, now, false, note, NULL);
    }
    uint64_t before = merge_looks(m);
    deny("box1", "{\"what\":\"mount\"}");
    cr_assert_eq(merge_looks(m), before, "nothing is left");
}

Test(merge, which_kinds)
{
    cr_assert(merge_wants("denial") && merge_wants("request.refused") && merge_wants("x.denied"));
    cr_assert(!merge_wants("box.running") && !merge_wants("key.added"));
}

Test(merge, the_first_is_written_at_once_and_the_rest_when_the_second_is_over)
{
    for (int i = 0; i < 1000; i++)
        deny("a", "{\"what\":\"mount\"}");
    cr_assert(seen.records == 1 && seen.total == 1);
    cr_assert(merge_due_us(m) == now + MERGE_WINDOW_US);
    merge_flush(m, now + 10, false, note, NULL);
    cr_assert(seen.records == 1, "not before its time");
    now += MERGE_WINDOW_US;
    merge_flush(m, now, false, note, NULL);
    cr_assert(seen.records == 2 && seen.total == 1000);
    cr_assert_str_eq(seen.last, "denial a {\"count\":999,\"what\":\"mount\"}");
    cr_assert(merge_due_us(m) == 0);
}

Test(merge, counts_that_come_along_are_added)
{
    deny("a", "{\"count\":5,\"what\":\"mount\"}");
    deny("a", "{\"count\":7,\"what\":\"mount\"}");
    deny("a", "{\"what\":\"mount\",\"count\":1}");
    merge_flush(m, now, true, note, NULL);
    cr_assert(seen.records == 2 && seen.total == 13);
}

Test(merge, other_boxes_and_other_things_are_other_records)
{
    deny("a", "{\"what\":\"mount\"}");
    deny("b", "{\"what\":\"mount\"}");
    deny("a", "{\"what\":\"ptrace\"}");
    deny(NULL, "{\"what\":\"mount\"}");
    cr_assert(seen.records == 4);
}

Test(merge, after_a_quiet_second_it_is_written_at_once_again)
{
    deny("a", "{\"what\":\"mount\"}");
    now += MERGE_WINDOW_US + 1;
    deny("a", "{\"what\":\"mount\"}");
    cr_assert(seen.records == 2 && seen.total == 2);
}

Test(merge, who_varies_what_it_tries_is_bounded_and_counted)
{
    char text[64];
    for (int i = 0; i < 20000; i++) {
        snprintf(text, sizeof text, "{\"what\":\"/file/%d\"}", i);
        deny("a", text);
    }
    cr_assert(seen.records == MERGE_PER_BOX);
    deny("b", "{\"what\":\"mount\"}");
    cr_assert(seen.records == MERGE_PER_BOX + 1, "a neighbour is not silenced");
    merge_flush(m, now, true, note, NULL);
    cr_assert(seen.records == MERGE_PER_BOX + 2 && seen.total == 20001);
}

Test(merge, many_boxes_that_vary_are_bounded_and_counted)
{
    char text[64], box[16];
    const size_t all = part_of(40000);
    for (size_t i = 0; i < all; i++) {
        snprintf(text, sizeof text, "{\"what\":\"/file/%zu\"}", i);
        snprintf(box, sizeof box, "box%zu", i % 2000);
        deny(box, text);
    }
    merge_flush(m, now, true, note, NULL);
    cr_assert(seen.records <= 2 * MERGE_MAX && seen.total == all, "%zu records of %lu",
              seen.records, (unsigned long)seen.total);
}
