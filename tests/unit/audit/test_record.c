/* One record: its form, what a sender may say, what is kept back, and the chain's vectors. */
#include "audit/chain.h"

#include "base/hex.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct json *tree_of(const char *text)
{
    struct json *j = NULL;
    struct err err = ERR_INIT;
    cr_assert(json_parse(text, strlen(text), NULL, &j, &err) == 0, "%s: %s", text, err.message);
    return j;
}

/* ---- the line ---- */

static const struct record full = {.seq = 2,
                                   .time_us = 1767323045678902,
                                   .boundary = "kernel",
                                   .kind = "denial",
                                   .box = "a0b1c2d3e4f5g6h7i8j9",
                                   .key = "k_abcdefghij",
                                   .detail = "{\"count\":3,\"what\":\"mount\"}"};
static const char full_line[] =
    "{\"boundary\":\"kernel\",\"box\":\"a0b1c2d3e4f5g6h7i8j9\",\"detail\":{\"count\":3,\"what\":"
    "\"mount\"},\"key\":\"k_abcdefghij\",\"kind\":\"denial\",\"seq\":2,\"time\":"
    "\"2026-01-02T03:04:05.678902Z\"}";

Test(record, line_has_sorted_keys_and_no_blanks)
{
    struct buf out;
    buf_init(&out, RECORD_MAX);
    cr_assert(record_write(&full, &out, NULL) == 0);
    cr_assert_str_eq(buf_text(&out), full_line);
    buf_done(&out);
}

Test(record, line_reads_back)
{
    struct record r;
    struct json *tree = NULL;
    cr_assert(record_parse(full_line, strlen(full_line), &tree, &r, NULL) == 0);
    cr_assert(r.seq == 2);
    cr_assert_str_eq(r.kind, "denial");
    cr_assert_str_eq(r.box, full.box);
    cr_assert_str_eq(r.key, full.key);
    json_free(tree);
}

Test(record, time_is_utc_with_microseconds_and_sorts_as_text)
{
    char a[RECORD_TIME_SIZE], b[RECORD_TIME_SIZE];
    record_time(0, a);
    cr_assert_str_eq(a, "1970-01-01T00:00:00.000000Z");
    record_time(-1, a);
    cr_assert_str_eq(a, "1969-12-31T23:59:59.999999Z");
    record_time(1767323045678902, a);
    record_time(1767323045678903, b);
    cr_assert(strcmp(a, b) < 0);
}

static void refuse_write(struct record r)
{
    struct buf out;
    struct err err = ERR_INIT;
    buf_init(&out, RECORD_MAX);
    cr_assert(record_write(&r, &out, &err) < 0, "%s", buf_text(&out));
    buf_done(&out);
}

Test(record, malformed_parts_are_not_written)
{
    struct record r = full;
    r.kind = "Denial";
    refuse_write(r);
    r = full;
    r.kind = "a\",\"seq\":1,\"x\":\"";
    refuse_write(r);
    r = full;
    r.boundary = NULL;
    refuse_write(r);
    r = full;
    r.box = "../etc";
    refuse_write(r);
    r = full;
    r.key = "";
    refuse_write(r);
    r = full;
    r.detail = "{\"a\":1},\"seq\":9";
    refuse_write(r);
    r = full;
    r.detail = "[]";
    refuse_write(r);
}

Test(record, a_record_that_is_too_long_is_not_written)
{
    static char detail[RECORD_MAX + 100];
    struct record r = full;
    memset(detail, 'x', sizeof detail);
    memcpy(detail, "{\"a\":\"", 6);
    memcpy(detail + sizeof detail - 3, "\"}", 3);
    r.detail = detail;
    refuse_write(r);
}

static void refuse_parse(const char *line)
{
    struct record r;
    struct json *tree = NULL;
    cr_assert(record_parse(line, strlen(line), &tree, &r, NULL) < 0, "%s", line);
    cr_assert(!tree);
}

Test(record, lines_of_another_form_are_not_records)
{
    refuse_parse("[]");
    refuse_parse("{\"boundary\":\"a\",\"kind\":\"b\",\"time\":\"2026-01-02T03:04:05.678902Z\"}");
    refuse_parse(
        "{\"boundary\":\"a\",\"kind\":\"b\",\"seq\":0,\"time\":\"2026-01-02T03:04:05.678902Z\"}");
    refuse_parse("{\"boundary\":\"a\",\"kind\":\"b\",\"seq\":1,\"time\":\"2026-01-02\"}");
    refuse_parse("{\"boundary\":\"a\",\"kind\":\"b\",\"more\":1,\"seq\":1,\"time\":"
                 "\"2026-01-02T03:04:05.678902Z\"}");
    refuse_parse("{\"boundary\":\"a\",\"kind\":\"b\",\"seq\":1,\"seq\":1,\"time\":"
                 "\"2026-01-02T03:04:05.678902Z\"}");
}

/* ---- what a sender may say ---- */

static int read_text(const char *text, struct record *ret, struct buf *room, struct json **tree)
{
    struct err err = ERR_INIT;
    *tree = tree_of(text);
    return record_read(*tree, ret, room, &err);
}

static void expect_detail(const char *text, const char *detail)
{
    struct record r;
    struct json *tree;
    struct buf room;
    buf_init(&room, RECORD_MAX);
    cr_assert(read_text(text, &r, &room, &tree) == 0, "%s", text);
    cr_assert_str_eq(r.detail, detail);
    json_free(tree);
    buf_done(&room);
}

static void refuse_read(const char *text)
{
    struct record r;
    struct json *tree;
    struct buf room;
    buf_init(&room, RECORD_MAX);
    cr_assert(read_text(text, &r, &room, &tree) < 0, "%s", text);
    json_free(tree);
    buf_done(&room);
}

Test(record, detail_is_written_with_sorted_keys)
{
    expect_detail("{\"boundary\":\"api\",\"kind\":\"a.b\",\"box\":null,\"detail\":{\"b\":[1, "
                  "2.5,null,true],\"a\":{\"z\":1,\"y\":\"é\"}}}",
                  "{\"a\":{\"y\":\"é\",\"z\":1},\"b\":[1,2.5,null,true]}");
}

Test(record, a_sender_cannot_set_number_or_time)
{
    refuse_read("{\"boundary\":\"api\",\"kind\":\"a\",\"seq\":7}");
    refuse_read("{\"boundary\":\"api\",\"kind\":\"a\",\"time\":\"2026-01-02T03:04:05.678902Z\"}");
    refuse_read("{\"boundary\":\"api\",\"kind\":\"a\",\"hash\":\"\"}");
}

Test(record, a_sender_must_say_what_and_where)
{
    refuse_read("{\"kind\":\"a\"}");
    refuse_read("{\"boundary\":\"api\"}");
    refuse_read("{\"boundary\":\"api\",\"kind\":7}");
    refuse_read("{\"boundary\":\"api\",\"kind\":\"a\",\"detail\":[]}");
    refuse_read("{\"boundary\":\"api\",\"kind\":\"a\",\"box\":\"a/b\"}");
    refuse_read("[]");
}

/* ---- AU-2 ---- */

#define DETAIL(text) "{\"boundary\":\"api\",\"kind\":\"a\",\"detail\":" text "}"
#define KEPT         "\"[kept back]\""

Test(record, what_stands_under_a_private_name_is_kept_back)
{
    expect_detail(DETAIL("{\"env\":{\"A\":\"marked\"},\"n\":1}"), "{\"env\":" KEPT ",\"n\":1}");
    expect_detail(DETAIL("{\"Headers\":[\"marked\"]}"), "{\"Headers\":" KEPT "}");
    expect_detail(DETAIL("{\"x-api-key\":\"marked\"}"), "{\"x-api-key\":" KEPT "}");
    expect_detail(DETAIL("{\"a\":{\"password\":\"marked\"}}"), "{\"a\":{\"password\":" KEPT "}}");
    expect_detail(DETAIL("{\"a\":[{\"stdin\":\"marked\"}]}"), "{\"a\":[{\"stdin\":" KEPT "}]}");
}

Test(record, control_numbers_and_other_names_stay)
{
    expect_detail(DETAIL("{\"code\":137,\"body\":20,\"environment_count\":\"x\"}"),
                  "{\"body\":20,\"code\":137,\"environment_count\":\"x\"}");
    expect_detail(DETAIL("{\"path\":\"/a/really?\",\"what\":\"brig_short\"}"),
                  "{\"path\":\"/a/really?\",\"what\":\"brig_short\"}");
}

Test(record, keys_queries_and_passwords_in_texts_are_kept_back)
{
    expect_detail(
        DETAIL("{\"what\":\"key brig_0123456789012345678901234567890123456789012 used\"}"),
        "{\"what\":\"key [kept back] used\"}");
    expect_detail(DETAIL("{\"what\":\"key e2b_0123456789abcdef0123456789abcdef01234567 used\"}"),
                  "{\"what\":\"key [kept back] used\"}");
    expect_detail(DETAIL("{\"what\":\"GET https://h/p?token=marked x\"}"),
                  "{\"what\":\"GET https://h/p?[kept back] x\"}");
    expect_detail(DETAIL("{\"what\":\"http://user:marked@host/\"}"),
                  "{\"what\":\"http://[kept back]@host/\"}");
}

Test(record, long_texts_are_cut_between_characters)
{
    static char text[9000], long_text[8000];
    struct record r;
    struct json *tree;
    struct buf room;
    for (size_t i = 0; i + 2 < sizeof long_text; i += 2)
        memcpy(long_text + i, "é", 3);
    snprintf(text, sizeof text, DETAIL("{\"what\":\"%s\"}"), long_text);
    buf_init(&room, RECORD_MAX);
    cr_assert(read_text(text, &r, &room, &tree) == 0);
    cr_assert(strlen(r.detail) < 2200 && strstr(r.detail, "é…\"}"));
    json_free(tree);
    buf_done(&room);
}

Test(record, details_that_are_too_deep_or_wide_are_refused)
{
    struct buf text;
    buf_init(&text, 8192);
    buf_str(&text, "{\"boundary\":\"api\",\"kind\":\"a\",\"detail\":{\"a\":");
    for (int i = 0; i < 12; i++)
        buf_chr(&text, '[');
    for (int i = 0; i < 12; i++)
        buf_chr(&text, ']');
    buf_str(&text, "}}");
    refuse_read(buf_text(&text));
    buf_reset(&text);
    buf_str(&text, "{\"boundary\":\"api\",\"kind\":\"a\",\"detail\":{\"a\":1");
    for (int i = 0; i < 80; i++)
        buf_fmt(&text, ",\"n%d\":1", i);
    buf_str(&text, "}}");
    refuse_read(buf_text(&text));
    buf_done(&text);
}

Test(record, count_is_set_where_it_belongs)
{
    struct buf out;
    struct json *tree = tree_of("{\"b\":1,\"count\":7,\"z\":{\"count\":2}}");
    uint64_t count = 42;
    buf_init(&out, 1024);
    cr_assert(record_detail_write(tree, &count, &out, NULL) == 0);
    cr_assert_str_eq(buf_text(&out), "{\"b\":1,\"count\":42,\"z\":{\"count\":2}}");
    json_free(tree);
    tree = tree_of("{}");
    buf_reset(&out);
    cr_assert(record_detail_write(tree, &count, &out, NULL) == 0);
    cr_assert_str_eq(buf_text(&out), "{\"count\":42}");
    json_free(tree);
    buf_done(&out);
}

/* ---- the chain ---- */

/* Made by another program from the words of docs/audit.md. */
Test(chain, vectors)
{
    static const struct {
        const char *line, *hash;
    } vectors[] = {
        {"{\"boundary\":\"lifecycle\",\"kind\":\"audit.opened\",\"seq\":1,\"time\":"
         "\"2026-01-02T03:04:05.678901Z\"}",
         "0cf5b39d864cdf3d18d88004be163090296404bb9be02043f254194262a7c120"},
        {full_line, "babc0d21b22ca5eb28906cbf0251303a8cf0c778e3387a7ec9cc25bd1e8f27bc"},
        {"{\"boundary\":\"filesystem\",\"box\":\"x\",\"detail\":{\"path\":\"/tmp/ä\\u0007\\\"\","
         "\"rule\":\"r\"},\"kind\":\"denial\",\"seq\":3,\"time\":\"1970-01-01T00:00:00.000000Z\"}",
         "264f0590fc3469712d5829f015e4973b6433921801e44dbd24d0bba41f8e176f"},
    };
    uint8_t hash[32] = {0};
    for (size_t i = 0; i < 3; i++) {
        struct buf hex;
        buf_init(&hex, 100);
        chain_next(hash, vectors[i].line, strlen(vectors[i].line), hash);
        hex_write(&hex, hash, 32);
        cr_assert_str_eq(buf_text(&hex), vectors[i].hash);
        buf_done(&hex);
    }
}

Test(chain, checkpoint_reads_back_and_nothing_else_does)
{
    struct checkpoint c = {.seq = 17, .time = "2026-01-02T03:04:05.678902Z"}, back;
    struct buf out;
    memset(c.hash, 0xa5, 32);
    buf_init(&out, CHAIN_CHECKPOINT_MAX);
    checkpoint_write(&c, &out);
    cr_assert(checkpoint_parse(buf_text(&out), out.len, &back, NULL) == 0);
    cr_assert(back.seq == 17 && memcmp(back.hash, c.hash, 32) == 0);
    cr_assert_str_eq(back.time, c.time);
    cr_assert(checkpoint_parse("{\"seq\":1}", 9, &back, NULL) < 0);
    cr_assert(checkpoint_parse("[]", 2, &back, NULL) < 0);
    buf_done(&out);
}
