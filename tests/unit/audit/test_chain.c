/* A chain that was touched is found, and what was done to it is named: edit, deletion, insertion,
 * reordering, truncation. The control of each is the same chain untouched. */
#include "audit/export.h"

#include "base/hex.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 12

struct row {
    uint64_t place;
    char line[400];
    uint8_t hash[32];
};
static struct row rows[COUNT + 4];
static size_t count;

static void write_line(struct row *r, uint64_t seq, const char *kind)
{
    struct buf out;
    struct record record = {
        .seq = seq, .time_us = (int64_t)seq, .boundary = "lifecycle", .kind = kind};
    buf_init(&out, sizeof r->line - 1);
    cr_assert(record_write(&record, &out, NULL) == 0);
    memcpy(r->line, out.data, out.len + 1);
    r->place = seq;
    buf_done(&out);
}

static void rehash(size_t from)
{
    static const uint8_t zero[32];
    for (size_t i = from; i < count; i++)
        chain_next(i ? rows[i - 1].hash : zero, rows[i].line, strlen(rows[i].line), rows[i].hash);
}

static void build(void)
{
    count = COUNT;
    for (size_t i = 0; i < COUNT; i++)
        write_line(&rows[i], i + 1, "box.running");
    rehash(0);
}

/* A signature of our own: what it was made for, in its first bytes. */
static void sign(const char *line, uint8_t ret[CHAIN_SIGNATURE])
{
    memset(ret, 0, CHAIN_SIGNATURE);
    chain_digest(line, strlen(line), ret);
}

static bool check(void *ctx, const char *line, size_t len, const uint8_t signature[CHAIN_SIGNATURE])
{
    uint8_t digest[32];
    chain_digest(line, len, digest);
    return memcmp(digest, signature, 32) == 0;
}

struct check_line {
    char line[CHAIN_CHECKPOINT_MAX];
    uint8_t signature[CHAIN_SIGNATURE];
};

static struct check_line checkpoint_of(uint64_t seq, const uint8_t hash[32])
{
    struct check_line ret;
    struct buf out;
    struct checkpoint c = {.seq = seq, .time = "2026-01-02T03:04:05.678902Z"};
    memcpy(c.hash, hash, 32);
    buf_init(&out, sizeof ret.line - 1);
    checkpoint_write(&c, &out);
    memcpy(ret.line, out.data, out.len + 1);
    sign(ret.line, ret.signature);
    buf_done(&out);
    return ret;
}

static struct check_line head;
static struct check_line middle; /* after record 6 */
static uint64_t after_end;

/* As it was signed when all was well. */
static void sign_all(void)
{
    middle = checkpoint_of(6, rows[5].hash);
    head = checkpoint_of(COUNT, rows[COUNT - 1].hash);
    after_end = 0;
}

static struct verify_result verify(void)
{
    struct verify_result result;
    struct chain_check *c = NULL;
    cr_assert(chain_check_new(&c, 1, NULL, check, NULL, NULL) == 0);
    chain_check_head(c, head.line, strlen(head.line), head.signature);
    for (size_t i = 0; i < count; i++) {
        if (!chain_check_row(c, rows[i].place, rows[i].line, strlen(rows[i].line), rows[i].hash))
            break;
        if (rows[i].place == 6 &&
            !chain_check_signed(c, middle.line, strlen(middle.line), middle.signature))
            break;
    }
    chain_check_end(c, after_end, &result);
    chain_check_free(c);
    return result;
}

static void expect_bad(const char *why, uint64_t seq)
{
    struct verify_result r = verify();
    cr_assert(!r.good, "it was not found");
    cr_assert(strstr(r.why, why), "said: %s; expected: %s", r.why, why);
    cr_assert(r.seq == seq, "at %lu, expected %lu", (unsigned long)r.seq, (unsigned long)seq);
}

static void setup(void)
{
    build();
    sign_all();
    struct verify_result r = verify();
    cr_assert(r.good && r.records == COUNT && r.checkpoints == 1 && r.signed_to == COUNT,
              "control: the untouched chain is good: %s", r.why);
}
TestSuite(chain, .init = setup);

static void edit(size_t i)
{
    char *p = strstr(rows[i].line, "running");
    memcpy(p, "runninh", 7);
}

Test(chain, edit_of_a_line)
{
    edit(4);
    expect_bad("record 5 was changed", 5);
}

Test(chain, edit_of_the_first_line)
{
    edit(0);
    expect_bad("record 1 was changed", 1);
}

Test(chain, edit_of_the_last_line)
{
    edit(COUNT - 1);
    expect_bad("record 12 was changed", 12);
}

Test(chain, edit_of_a_hash)
{
    rows[4].hash[0] ^= 1;
    expect_bad("record 5 was changed", 5);
}

Test(chain, edit_with_a_fresh_hash)
{
    edit(4);
    chain_next(rows[3].hash, rows[4].line, strlen(rows[4].line), rows[4].hash);
    expect_bad("or record 5 together with its hash", 6);
}

Test(chain, edit_with_all_hashes_made_anew)
{
    edit(3);
    rehash(3);
    expect_bad("records 1 to 6 were rewritten", 1);
}

Test(chain, edit_after_the_last_checkpoint_with_all_hashes_made_anew)
{
    edit(8);
    rehash(8);
    expect_bad("records 7 to 12 were rewritten", 7);
}

Test(chain, a_checkpoint_of_somebody_else)
{
    edit(3);
    rehash(3);
    middle = checkpoint_of(6, rows[5].hash);
    middle.signature[3] ^= 1;
    expect_bad("the checkpoint of record 6 is not signed by this key", 6);
}

Test(chain, a_head_of_somebody_else)
{
    head.signature[0] ^= 1;
    expect_bad("the file of the newest checkpoint is not signed by this key", 12);
}

static void drop(size_t i, size_t n)
{
    memmove(&rows[i], &rows[i + n], (count - i - n) * sizeof rows[0]);
    count -= n;
}

Test(chain, deletion)
{
    drop(4, 1);
    expect_bad("record 5 is missing", 5);
}

Test(chain, deletion_of_several)
{
    drop(4, 5);
    expect_bad("records 5 to 9 are missing", 5);
}

Test(chain, deletion_of_the_first)
{
    drop(0, 1);
    expect_bad("record 1 is missing", 1);
}

Test(chain, deletion_with_the_rest_moved_up)
{
    drop(4, 2);
    for (size_t i = 0; i < count; i++)
        rows[i].place = i + 1;
    expect_bad("records 5 to 6 are missing", 5);
}

static void insert_at(size_t i, uint64_t number)
{
    memmove(&rows[i + 1], &rows[i], (count - i) * sizeof rows[0]);
    count++;
    write_line(&rows[i], number, "box.forged");
    for (size_t k = 0; k < count; k++)
        rows[k].place = k + 1;
    chain_next(rows[i - 1].hash, rows[i].line, strlen(rows[i].line), rows[i].hash);
}

Test(chain, insertion_with_a_good_hash)
{
    insert_at(4, 5);
    expect_bad("a record was inserted", 6);
}

Test(chain, insertion_with_any_hash)
{
    insert_at(4, 5);
    memset(rows[4].hash, 7, 32);
    expect_bad("a record was inserted before record 5", 5);
}

Test(chain, insertion_under_another_number)
{
    insert_at(4, 2);
    expect_bad("a record was inserted", 5);
}

static void swap(size_t a, size_t b, bool hashes)
{
    struct row keep = rows[a];
    memcpy(rows[a].line, rows[b].line, sizeof keep.line);
    memcpy(rows[b].line, keep.line, sizeof keep.line);
    if (!hashes)
        return;
    memcpy(rows[a].hash, rows[b].hash, 32);
    memcpy(rows[b].hash, keep.hash, 32);
}

Test(chain, neighbours_change_places)
{
    swap(4, 5, true);
    expect_bad("the order was changed: record 6 stands in the place of record 5", 5);
}

Test(chain, others_change_places)
{
    swap(3, 8, false);
    expect_bad("the order was changed: record 9 stands in the place of record 4", 4);
}

Test(chain, a_place_is_filed_under_another_number)
{
    rows[7].place = 99;
    expect_bad("record 8 was moved: it is filed as 99", 8);
}

Test(chain, truncation)
{
    count = 9;
    expect_bad("the end is cut off: records 10 to 12 are missing", 10);
}

Test(chain, truncation_to_nothing)
{
    count = 0;
    expect_bad("the end is cut off: records 1 to 12 are missing", 1);
}

Test(chain, truncation_with_an_older_head_and_a_checkpoint_left)
{
    count = 5;
    head = checkpoint_of(5, rows[4].hash);
    after_end = 6;
    expect_bad("the end is cut off: records 6 to 6 are missing", 6);
}

Test(chain, a_line_that_is_no_record)
{
    snprintf(rows[2].line, sizeof rows[2].line, "nonsense");
    expect_bad("record 3 was changed: it cannot be read", 3);
}

Test(chain, records_behind_a_daemon_that_stopped)
{
    write_line(&rows[11], 12, "daemon.stopped");
    rehash(11);
    head = checkpoint_of(12, rows[11].hash);
    cr_assert(verify().good, "control");
    write_line(&rows[12], 13, "box.forged");
    count = 13;
    rehash(12);
    expect_bad("records 13 to 13 were inserted after the daemon had stopped", 13);
}

Test(chain, records_behind_the_head_of_a_living_daemon_are_told)
{
    write_line(&rows[12], 13, "box.running");
    count = 13;
    rehash(12);
    struct verify_result r = verify();
    cr_assert(r.good && r.last == 13 && r.signed_to == 12);
}

Test(chain, a_checkpoint_that_was_removed)
{
    struct chain_check *c = NULL;
    struct verify_result result;
    static const uint8_t zero[32];
    struct row r;
    cr_assert(chain_check_new(&c, 1, NULL, check, NULL, NULL) == 0);
    memcpy(r.hash, zero, 32);
    for (uint64_t i = 1; i <= RECORD_CHECK_EVERY + 3; i++) {
        write_line(&r, i, "a.b");
        chain_next(r.hash, r.line, strlen(r.line), r.hash);
        (void)chain_check_row(c, i, r.line, strlen(r.line), r.hash);
    }
    chain_check_end(c, 0, &result);
    chain_check_free(c);
    cr_assert(!result.good && strstr(result.why, "the checkpoint of record 1000 is missing"), "%s",
              result.why);
}

/* ---- the same as an export ---- */

static struct buf text;

static void write_export(uint64_t withheld)
{
    buf_init(&text, 1 << 20);
    buf_str(&text, "{\"brig_audit\":1,\"first\":1,\"previous\":\"");
    for (int i = 0; i < 64; i++)
        buf_chr(&text, '0');
    buf_str(&text, "\"}\n");
    for (size_t i = 0; i < count; i++) {
        uint8_t digest[32];
        chain_digest(rows[i].line, strlen(rows[i].line), digest);
        if (i + 1 == withheld) {
            buf_str(&text, "{\"digest\":\"");
            hex_write(&text, digest, 32);
            buf_str(&text, "\"}\n");
        } else {
            export_write_record(&text, rows[i].line, strlen(rows[i].line), rows[i].hash);
        }
        if (i == 5)
            export_write_checkpoint(&text, middle.line, strlen(middle.line), middle.signature);
    }
    export_write_checkpoint(&text, head.line, strlen(head.line), head.signature);
    buf_str(&text, "{\"end\":{\"checkpoints\":2,\"hash\":\"");
    hex_write(&text, rows[count - 1].hash, 32);
    buf_fmt(&text, "\",\"last\":%zu,\"records\":%zu}}\n", count, count);
}

static struct verify_result verify_export(void)
{
    struct export_check *c = NULL;
    struct verify_result result;
    cr_assert(export_check_new(&c, check, NULL, NULL) == 0);
    for (char *p = text.data, *end; *p; p = end + 1) {
        end = strchr(p, '\n');
        export_check_line(c, p, (size_t)(end - p));
    }
    export_check_end(c, &result);
    return result;
}

static void expect_bad_export(const char *why)
{
    struct verify_result r = verify_export();
    cr_assert(!r.good && strstr(r.why, why), "said: %s; expected: %s", r.why, why);
    buf_done(&text);
}

/* The n-th line, counted from 0, is taken out. */
static char *line_at(size_t n)
{
    char *p = text.data;
    for (; n > 0; n--)
        p = strchr(p, '\n') + 1;
    return p;
}

static void cut_line(size_t n)
{
    char *p = line_at(n), *end = strchr(p, '\n') + 1;
    memmove(p, end, strlen(end) + 1);
}

Test(chain, export_is_good)
{
    write_export(0);
    struct verify_result r = verify_export();
    cr_assert(r.good && r.records == COUNT && r.signed_to == COUNT && !r.withheld, "%s", r.why);
    buf_done(&text);
}

Test(chain, export_with_records_left_out_is_good)
{
    for (uint64_t i = 1; i <= COUNT; i++) {
        write_export(i);
        struct verify_result r = verify_export();
        cr_assert(r.good && r.records == COUNT && r.withheld == 1, "%lu: %s", (unsigned long)i,
                  r.why);
        buf_done(&text);
    }
}

Test(chain, export_with_a_forged_digest)
{
    write_export(5);
    char *digest = strstr(text.data, "{\"digest\":\"") + 11;
    *digest = *digest == '0' ? '1' : '0';
    expect_bad_export("was changed");
}

Test(chain, export_with_an_edit)
{
    write_export(0);
    memcpy(strstr(line_at(5), "running"), "runninh", 7);
    expect_bad_export("record 5 was changed");
}

Test(chain, export_with_a_deletion)
{
    write_export(0);
    cut_line(5);
    expect_bad_export("record 5 is missing");
}

Test(chain, export_without_its_end)
{
    write_export(0);
    *line_at(14) = '\0';
    expect_bad_export("the end is cut off");
}

Test(chain, export_cut_off_with_a_last_line_of_ones_own)
{
    write_export(0);
    char last[400];
    snprintf(last, sizeof last, "%s", line_at(15));
    *line_at(10) = '\0';
    text.len = strlen(text.data);
    buf_str(&text, last);
    expect_bad_export("the end is cut off or changed");
}

Test(chain, export_with_lines_behind_its_end)
{
    write_export(0);
    export_write_record(&text, rows[0].line, strlen(rows[0].line), rows[0].hash);
    expect_bad_export("stands after the last");
}

Test(chain, export_without_checkpoints)
{
    write_export(0);
    cut_line(14);
    cut_line(7);
    char *n = strstr(text.data, "\"checkpoints\":2");
    n[14] = '0';
    expect_bad_export("nothing in it is signed");
}

Test(chain, what_is_no_export)
{
    buf_init(&text, 100);
    buf_str(&text, "hello\n");
    expect_bad_export("this is no export");
    buf_init(&text, 100);
    buf_str(&text, "");
    buf_chr(&text, '\0');
    expect_bad_export("the file is empty");
}
