/* What a driver says and what it is told, as bytes. The driver is hostile. */
#include "wire/interp.h"

#include "base/cleanup.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static void done_said(struct interp_said *s)
{
    interp_said_done(s);
}
#define cleanup_said __attribute__((cleanup(done_said)))

static void done_reader(struct interp_reader *r)
{
    interp_reader_done(r);
}
#define cleanup_reader __attribute__((cleanup(done_reader)))

static struct interp_said said(const char *text)
{
    struct interp_said s;
    struct err err = ERR_INIT;
    cr_assert_eq(interp_parse(text, strlen(text), &s, &err), 0, "%s: %s", text, err.message);
    return s;
}

static void refused(const char *text)
{
    struct interp_said s;
    struct err err = ERR_INIT;
    cr_assert_lt(interp_parse(text, strlen(text), &s, &err), 0, "accepted: %.200s", text);
    cr_assert_eq(err.code, ERR_PROTOCOL, "%.200s: %s", text, err.message);
    cr_assert_null(s.tree);
}

Test(interp, languages)
{
    static const struct {
        const char *name;
        enum interp_language language;
    } cases[] = {
        {"python", INTERP_PYTHON},
        {"python3", INTERP_PYTHON},
        {"py", INTERP_PYTHON},
        {"javascript", INTERP_JAVASCRIPT},
        {"js", INTERP_JAVASCRIPT},
        {"node", INTERP_JAVASCRIPT},
        {"bash", INTERP_BASH},
        {"sh", INTERP_BASH},
        {"typescript", INTERP_TYPESCRIPT},
        {"ts", INTERP_TYPESCRIPT},
        {"r", INTERP_R},
        {"R", INTERP_R},
        {"java", INTERP_JAVA},
        {"Python", INTERP_PYTHON},
        {"", INTERP_NONE},
        {"cobol", INTERP_NONE},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        cr_expect_eq(interp_language_parse(cases[i].name), cases[i].language, "%s", cases[i].name);
    for (enum interp_language l = INTERP_PYTHON; l < INTERP_COUNT; l++) {
        cr_expect_eq(interp_language_parse(interp_language_name(l)), l);
        cr_expect_gt(strlen(interp_language_package(l)), 0);
        cr_expect_not_null(strstr(INTERP_LANGUAGES, interp_language_name(l)));
    }
    cr_expect_str_eq(interp_language_name(INTERP_NONE), "none");
}

Test(interp, words)
{
    cleanup_said struct interp_said ready =
        said("{\"type\":\"ready\",\"language\":\"bash\",\"version\":\"5.2\",\"pid\":3}");
    cleanup_said struct interp_said count = said("{\"type\":\"count\",\"id\":7,\"value\":12}");
    cleanup_said struct interp_said error =
        said("{\"type\":\"error\",\"id\":7,\"name\":\"E\",\"value\":\"v\",\"traceback\":\"t\"}");
    cleanup_said struct interp_said end = said("{\"type\":\"end\",\"id\":9223372036854775807}");
    cr_expect_eq(ready.word, INTERP_READY);
    cr_expect_eq(count.word, INTERP_COUNTED);
    cr_expect_eq(count.id, 7u);
    cr_expect_eq(count.count, 12);
    cr_expect_eq(error.word, INTERP_ERROR);
    cr_expect_str_eq(error.name, "E");
    cr_expect_str_eq(error.value, "v");
    cr_expect_str_eq(error.traceback, "t");
    cr_expect_eq(end.word, INTERP_END);
    cr_expect_eq(end.id, (uint64_t)INT64_MAX);
}

Test(interp, result_members)
{
    cleanup_said struct interp_said s =
        said("{\"type\":\"result\",\"id\":1,\"main\":true,\"data\":{\"text\":\"t\",\"html\":\"h\","
             "\"zzz\":{\"a\":[\"long\"]},\"png\":\"AAAA\",\"jpeg\":\"AA==\",\"pdf\":\"AAA=\","
             "\"aaa\":1,\"json\":[1],\"data\":{},\"chart\":{\"type\":\"bar\"},\"text/x\":null}}");
    cr_expect_eq(s.word, INTERP_RESULT);
    cr_expect(s.main);
    cr_expect_eq(json_count(s.data), 8u, "what has no name here is dropped");
    cr_expect_str_eq(json_text(s.data, "text"), "t");
    cr_expect_str_eq(json_text(s.data, "pdf"), "AAA=");
    cr_expect_str_eq(json_string(json_get(json_get(s.data, "chart"), "type")), "bar");
    cr_expect_null(json_get(s.data, "zzz"));
    cr_expect_null(json_get(s.data, "aaa"));
    cr_expect_null(json_get(s.data, "text/x"));
    cleanup_said struct interp_said none =
        said("{\"type\":\"result\",\"id\":1,\"main\":false,\"data\":{\"only\":\"unknown\"}}");
    cr_expect_not(none.main);
    cr_expect_eq(json_count(none.data), 0u);
    cr_expect_null(json_get(none.data, "only"));
}

Test(interp, in_pieces_it_is_the_same)
{
    static const char *const texts[] = {
        "{\"type\":\"count\",\"id\":7,\"value\":12}",
        "{\"type\":\"result\",\"id\":1,\"main\":true,\"data\":{\"png\":\"AAAABBBBCCCC\",\"pdf\":"
        "\"AA==\"}}",
        "{\"type\":\"result\",\"id\":1,\"main\":true,\"data\":{\"png\":\"AAAABBBB<CCC\"}}",
        "{\"type\":\"result\",\"id\":1,\"main\":true,\"data\":{\"pdf\":\"AAAA\",\"png\":\"AAAA=\"}"
        "}",
        "{\"type\":\"end\",\"id\":1",
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        for (size_t most = 1; most < 40; most += 2) {
            struct interp_said whole, s;
            struct interp_parsing p;
            struct err err = ERR_INIT, expected = ERR_INIT;
            char *place = strdup(texts[i]);
            int want = interp_parse(texts[i], strlen(texts[i]), &whole, &expected);
            int got = interp_parsing_begin(&p, place, strlen(place), 0, &err);
            unsigned calls = 0;
            while (got == 0 && calls++ < 1000)
                got = interp_parsing_next(&p, most, &s, &err);
            cr_expect_eq(got > 0, want == 0, "%s: %s", texts[i], err.message);
            cr_expect_str_eq(err.message, expected.message);
            cr_expect_eq(s.word, whole.word);
            cr_expect_eq(s.id, whole.id);
            interp_said_done(&s);
            interp_said_done(&whole);
            free(place);
        }
}

Test(interp, what_is_given_up_is_freed)
{
    char text[] = "{\"type\":\"result\",\"id\":1,\"main\":true,\"data\":{\"png\":\"AAAABBBB\"}}";
    for (unsigned calls = 0; calls < 40; calls++) {
        struct interp_parsing p;
        struct interp_said s = {0};
        char *place = strdup(text);
        int r = interp_parsing_begin(&p, place, sizeof text - 1, 0, NULL);
        for (unsigned i = 0; i < calls && r == 0; i++)
            r = interp_parsing_next(&p, 8, &s, NULL);
        cr_expect_geq(r, 0);
        interp_parsing_end(&p);
        interp_parsing_end(&p);
        cr_expect_eq(interp_parsing_memory(&p), 0u);
        interp_said_done(&s);
        free(place);
    }
}

static void refused_data(const char *data)
{
    char text[512];
    snprintf(text, sizeof text, "{\"type\":\"result\",\"id\":1,\"main\":true,\"data\":%s}", data);
    refused(text);
}

Test(interp, a_result_has_so_many_members)
{
    for (unsigned count = 1024; count <= 1025; count++) {
        struct interp_said s;
        struct buf text;
        buf_init(&text, 1u << 20);
        buf_str(&text, "{\"type\":\"result\",\"id\":1,\"main\":true,\"data\":{\"text\":\"\"");
        for (unsigned i = 1; i < count; i++)
            buf_fmt(&text, ",\"x%u\":1", i);
        buf_str(&text, "}}");
        cr_expect_eq(interp_parse(text.data, text.len, &s, NULL) == 0, count == 1024);
        interp_said_done(&s);
        buf_done(&text);
    }
}

Test(interp, result_of_wrong_kind)
{
    static const char *const cases[] = {
        "null",
        "[]",
        "\"text\"",
        "{\"text\":1}",
        "{\"text\":null}",
        "{\"html\":{}}",
        "{\"json\":null}",
        "{\"data\":[]}",
        "{\"chart\":\"x\"}",
        "{\"png\":\"A\"}",
        "{\"png\":\"AAA\"}",
        "{\"png\":\"A===\"}",
        "{\"png\":\"AA=A\"}",
        "{\"png\":\"AA\\nA\"}",
        "{\"png\":\"AA-_\"}",
        "{\"jpeg\":\"<svg\"}",
        "{\"pdf\":\"AAAA=\"}",
        "{\"text\":\"a\\u0000b\"}",
        "{\"text\":\"\\ud800\"}",
        "{\"text\":\"\xff\"}",
        "{\"text\":\"a\",\"text\":\"b\"}",
        "{\"json\":NaN}",
        "{\"json\":99999999999999999999}",
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        refused_data(cases[i]);
}

Test(interp, nonsense)
{
    static const char *const cases[] = {
        "",
        "null",
        "[]",
        "{}",
        "hello",
        "{\"type\":\"end\"}",
        "{\"type\":\"end\",\"id\":\"1\"}",
        "{\"type\":\"end\",\"id\":-1}",
        "{\"type\":\"end\",\"id\":1.5}",
        "{\"type\":\"end\",\"id\":18446744073709551615}",
        "{\"type\":\"end\",\"id\":1}{\"type\":\"end\",\"id\":1}",
        "{\"type\":\"end\",\"id\":1,\"more\":1}",
        "{\"type\":\"END\",\"id\":1}",
        "{\"type\":[\"end\"],\"id\":1}",
        "{\"type\":\"execute\",\"id\":1}",
        "{\"type\":\"count\",\"id\":1}",
        "{\"type\":\"count\",\"id\":1,\"value\":-1}",
        "{\"type\":\"count\",\"id\":1,\"value\":\"1\"}",
        "{\"type\":\"ready\"}",
        "{\"type\":\"ready\",\"language\":\"cobol\",\"version\":\"1\",\"pid\":1}",
        "{\"type\":\"ready\",\"language\":\"python\",\"version\":1,\"pid\":1}",
        "{\"type\":\"ready\",\"language\":\"python\",\"version\":\"1\",\"pid\":\"x\"}",
        "{\"type\":\"error\",\"id\":1,\"name\":\"E\",\"value\":\"v\"}",
        "{\"type\":\"error\",\"id\":1,\"name\":\"E\",\"value\":1,\"traceback\":\"\"}",
        "{\"type\":\"result\",\"id\":1,\"data\":{}}",
        "{\"type\":\"result\",\"id\":1,\"main\":1,\"data\":{}}",
        "{\"type\":\"result\",\"id\":1,\"main\":true,\"data\":{},\"x\":1}",
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        refused(cases[i]);
}

/* `open` and `close` around each other `levels` times, as a result's json. */
static int parse_nested(unsigned levels, struct interp_said *s)
{
    cleanup_buf struct buf text;
    buf_init(&text, 1 << 20);
    buf_str(&text, "{\"type\":\"result\",\"id\":1,\"main\":true,\"data\":{\"json\":");
    for (unsigned i = 0; i < levels; i++)
        buf_chr(&text, '[');
    for (unsigned i = 0; i < levels; i++)
        buf_chr(&text, ']');
    buf_str(&text, "}}");
    return interp_parse(text.data, text.len, s, NULL);
}

Test(interp, depth_and_number_of_values)
{
    cleanup_said struct interp_said s;
    cr_expect_eq(parse_nested(60, &s), 0);
    interp_said_done(&s);
    cr_expect_lt(parse_nested(70, &s), 0);
    cr_expect_lt(parse_nested(100000, &s), 0);

    cleanup_buf struct buf text;
    buf_init(&text, INTERP_FRAME_MAX);
    buf_str(&text, "{\"type\":\"result\",\"id\":1,\"main\":true,\"data\":{\"json\":[0");
    while (text.len < INTERP_FRAME_MAX - 16)
        buf_str(&text, ",0");
    buf_str(&text, "]}}");
    cr_expect_lt(interp_parse(text.data, text.len, &s, NULL), 0);
}

static int parse_error_of(size_t name, size_t value, size_t traceback)
{
    cleanup_buf struct buf text;
    cleanup_said struct interp_said s;
    const size_t lengths[] = {name, value, traceback};
    const char *const keys[] = {"name", "value", "traceback"};
    buf_init(&text, 4 << 20);
    buf_str(&text, "{\"type\":\"error\",\"id\":1");
    for (unsigned k = 0; k < 3; k++) {
        buf_fmt(&text, ",\"%s\":\"", keys[k]);
        for (size_t i = 0; i < lengths[k]; i++)
            buf_chr(&text, 'x');
        buf_chr(&text, '"');
    }
    buf_chr(&text, '}');
    return interp_parse(text.data, text.len, &s, NULL);
}

Test(interp, sizes_of_an_error)
{
    cr_expect_eq(parse_error_of(INTERP_NAME_MAX, INTERP_VALUE_MAX, INTERP_TRACEBACK_MAX), 0);
    cr_expect_lt(parse_error_of(INTERP_NAME_MAX + 1, 0, 0), 0);
    cr_expect_lt(parse_error_of(0, INTERP_VALUE_MAX + 1, 0), 0);
    cr_expect_lt(parse_error_of(0, 0, INTERP_TRACEBACK_MAX + 1), 0);
}

static void feed(struct interp_reader *r, const void *data, size_t len)
{
    while (len > 0) {
        void *room;
        size_t room_len;
        cr_assert_eq(interp_reader_room(r, &room, &room_len, NULL), 0);
        cr_assert_geq(room_len, 4096u);
        size_t n = len < room_len ? len : room_len;
        memcpy(room, data, n);
        interp_reader_add(r, n);
        data = (const char *)data + n;
        len -= n;
    }
}

Test(interp, frames_byte_by_byte)
{
    static const char stream[] = "\3\0\0\0abc\1\0\0\0d\2\0\0\0ef";
    static const char *const expected[] = {"abc", "d", "ef"};
    cleanup_reader struct interp_reader r;
    size_t found = 0, len;
    const char *text;
    interp_reader_init(&r);
    for (size_t i = 0; i < sizeof stream - 1; i++) {
        feed(&r, stream + i, 1);
        while (interp_reader_next(&r, &text, &len, NULL) == 1) {
            cr_assert_lt(found, ARRAY_LEN(expected));
            cr_expect_eq(len, strlen(expected[found]));
            cr_expect_eq(memcmp(text, expected[found], len), 0);
            found++;
        }
    }
    cr_expect_eq(found, ARRAY_LEN(expected));
}

Test(interp, frames_at_once_and_a_large_one)
{
    cleanup_reader struct interp_reader r;
    cleanup_buf struct buf stream;
    const char *text;
    size_t len;
    interp_reader_init(&r);
    buf_init(&stream, 32 << 20);
    buf_add(&stream, "\1\0\0\0a\1\0\0\0b", 10);
    buf_add(&stream, "\0\0\0\1", 4); /* 16 MiB: the most */
    buf_room(&stream, INTERP_FRAME_MAX);
    for (size_t i = 0; i < INTERP_FRAME_MAX / 16; i++)
        buf_add(&stream, "0123456789abcdef", 16);
    feed(&r, stream.data, 10);
    cr_assert_eq(interp_reader_next(&r, &text, &len, NULL), 1);
    cr_expect(len == 1 && *text == 'a');
    cr_assert_eq(interp_reader_next(&r, &text, &len, NULL), 1);
    cr_expect(len == 1 && *text == 'b');
    cr_expect_eq(interp_reader_next(&r, &text, &len, NULL), 0);
    feed(&r, stream.data + 10, stream.len - 10);
    cr_assert_eq(interp_reader_next(&r, &text, &len, NULL), 1);
    cr_expect_eq(len, (size_t)INTERP_FRAME_MAX);
    cr_expect_eq(memcmp(text, stream.data + 14, len), 0);
    /* The room of a large frame is given back. */
    feed(&r, "\1\0", 2);
    cr_expect_lt(r.size, (size_t)1 << 20);
}

Test(interp, a_promise_of_much_takes_no_memory)
{
    cleanup_reader struct interp_reader r;
    void *room;
    size_t len;
    interp_reader_init(&r);
    feed(&r, "\0\0\0\1{", 5);
    cr_assert_eq(interp_reader_room(&r, &room, &len, NULL), 0);
    cr_expect_leq(r.size, 16384u);
}

static void refused_frame(const char *header)
{
    cleanup_reader struct interp_reader r;
    struct err err = ERR_INIT;
    const char *text;
    void *room;
    size_t len;
    interp_reader_init(&r);
    feed(&r, header, 4);
    cr_expect_lt(interp_reader_next(&r, &text, &len, &err), 0);
    cr_expect_eq(err.code, ERR_PROTOCOL);
    cr_expect_lt(interp_reader_room(&r, &room, &len, NULL), 0);
}

Test(interp, frames_of_impossible_length)
{
    refused_frame("\xff\xff\xff\xff");
    refused_frame("\1\0\0\1");
    refused_frame("\0\0\0\0");
}

Test(interp, frames_that_nobody_takes)
{
    cleanup_reader struct interp_reader r;
    void *room;
    size_t len, total = 0;
    int rc = 0;
    interp_reader_init(&r);
    while (total < 64u << 20 && (rc = interp_reader_room(&r, &room, &len, NULL)) == 0) {
        memset(room, 0, len);
        memcpy(room, "\1\0\0\0", len < 4 ? len : 4);
        interp_reader_add(&r, len);
        total += len;
    }
    cr_expect_lt(rc, 0);
    cr_expect_leq(total, (size_t)INTERP_FRAME_MAX + 8192);
}

static struct json *request_of(const struct buf *out, size_t at)
{
    struct json *tree = NULL;
    struct err err = ERR_INIT;
    const unsigned char *p = (const unsigned char *)out->data + at;
    size_t len = (size_t)p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 | (size_t)p[3] << 24;
    cr_assert_eq(out->len - at, len + 4);
    cr_assert_eq(json_parse(out->data + at + 4, len, NULL, &tree, &err), 0, "%s", err.message);
    return tree;
}

Test(interp, requests)
{
    cleanup_buf struct buf out;
    struct json *env = NULL;
    static const char env_text[] = "{\"A\":\"1\",\"B\":\"\\\"x\\\"\",\"N\":5}";
    static const char code[] = "print('\xc3\xa9')\n\x01\\\"";
    cr_assert_eq(json_parse(env_text, sizeof env_text - 1, NULL, &env, NULL), 0);
    buf_init(&out, 1 << 20);
    buf_str(&out, "earlier");
    interp_write_execute(&out, 42, code, sizeof code - 1, env);
    struct json *tree = request_of(&out, 7);
    cr_expect_str_eq(json_text(tree, "op"), "execute");
    cr_expect_eq(json_int(json_get(tree, "id")), 42);
    cr_expect_str_eq(json_text(tree, "code"), code);
    cr_expect_eq(json_count(json_get(tree, "env")), 2u);
    cr_expect_str_eq(json_string(json_get(json_get(tree, "env"), "B")), "\"x\"");
    json_free(tree);
    json_free(env);
    buf_reset(&out);
    interp_write_execute(&out, 1, "x", 1, NULL);
    cr_expect_eq(out.len, 4 + strlen("{\"op\":\"execute\",\"id\":1,\"code\":\"x\",\"env\":{}}"));
    cr_expect_str_eq(out.data + 4, "{\"op\":\"execute\",\"id\":1,\"code\":\"x\",\"env\":{}}");
}

Test(interp, request_that_is_too_long)
{
    cleanup_buf struct buf out;
    cleanup_free char *code = calloc(1, INTERP_CODE_MAX + 1);
    memset(code, 'x', INTERP_CODE_MAX + 1);
    buf_init(&out, 64u << 20);
    interp_write_execute(&out, 1, code, INTERP_CODE_MAX, NULL);
    cr_expect_not(out.failed);
    buf_reset(&out);
    interp_write_execute(&out, 1, code, INTERP_CODE_MAX + 1, NULL);
    cr_expect(out.failed);
}
