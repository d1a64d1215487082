/* FA-5: what a worker says is taken apart, bounded and checked, however it arrives. And requests,
 * from JSON to the block that crosses and out of it again. */
#include "base/cleanup.h"
#include "files/files.h"
#include "plan/plan.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static char stream[2 << 20];
static size_t stream_len;

static struct {
    char log[4096];
    struct files_entry entry;
    uint64_t bytes;
} got;

__attribute__((format(printf, 1, 2))) static void note(const char *fmt, ...)
{
    size_t used = strlen(got.log);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(got.log + used, sizeof got.log - used, fmt, ap);
    va_end(ap);
}

static void on_head(void *ctx, int error, uint64_t size)
{
    note("head %d %lu;", error, (unsigned long)size);
}

static void on_entry(void *ctx, const struct files_entry *e)
{
    got.entry = *e;
    note("entry %s;", e->path);
}

static void on_event(void *ctx, const struct files_event *e)
{
    note("event %d %d %s;", e->kind, e->is_dir, e->name);
}

static void on_data(void *ctx, const void *bytes, size_t len)
{
    cr_assert_gt(len, 0);
    got.bytes += len;
}

static void on_end(void *ctx, int error)
{
    note("end %d", error);
}

static const struct files_sink sink = {on_head, on_entry, on_event, on_data, on_end, NULL};

/* ---- writing what a worker would ---- */

static void reset(void)
{
    stream_len = 0;
}

static void put(const void *bytes, size_t len)
{
    memcpy(stream + stream_len, bytes, len);
    stream_len += len;
}

static void put_frame(unsigned type, const void *body, size_t len)
{
    struct files_frame f = {.type = (uint8_t)type, .length = (uint32_t)len};
    put(&f, sizeof f);
    put(body, len);
}

static void put_head(unsigned type, int error, uint64_t size)
{
    struct files_head head = {.error = error, .size = size};
    put_frame(type, &head, sizeof head);
}

static void put_entry(struct files_entry_wire w, const char *text, size_t len)
{
    char body[sizeof w + 16384];
    memcpy(body, &w, sizeof w);
    memcpy(body + sizeof w, text, len);
    put_frame(FILES_ENTRY, body, sizeof w + len);
}

static void put_path(const char *path)
{
    put_entry((struct files_entry_wire){.kind = FILES_REGULAR, .path_len = (uint32_t)strlen(path)},
              path, strlen(path));
}

static void put_event(uint32_t kind, uint32_t is_dir, const char *name, size_t len)
{
    char body[8 + 8192];
    memcpy(body, &kind, 4);
    memcpy(body + 4, &is_dir, 4);
    memcpy(body + 8, name, len);
    put_frame(FILES_EVENT, body, 8 + len);
}

/* ---- reading it, in pieces of `step` bytes ---- */

static int feed_all(enum files_op op, size_t step)
{
    struct files_reader *r;
    struct err err = ERR_INIT;
    int done = 0;
    memset(&got, 0, sizeof got);
    cr_assert_eq(files_reader_new(&r, op, &sink, NULL), 0);
    for (size_t at = 0; at < stream_len && done == 0; at += step)
        done = files_reader_feed(r, stream + at, step < stream_len - at ? step : stream_len - at,
                                 &err);
    if (done == 0)
        done = files_reader_finish(r, &err);
    else
        cr_assert_lt(files_reader_finish(r, NULL), 0, "nonsense stays nonsense");
    cr_assert_eq(done < 0, err.code == ERR_PROTOCOL);
    files_reader_free(r);
    return done;
}

static void accepted(enum files_op op, const char *log)
{
    for (size_t step = 1; step <= stream_len; step = step < 20 ? step + 1 : step * 3) {
        cr_assert_eq(feed_all(op, step), 0, "in steps of %zu: %s", step, got.log);
        cr_assert_str_eq(got.log, log);
    }
}

static void refused(enum files_op op)
{
    cr_assert_lt(feed_all(op, 1), 0, "%s", got.log);
    cr_assert_lt(feed_all(op, stream_len), 0, "%s", got.log);
    reset();
}

TestSuite(files_reader, .init = reset);

Test(files_reader, answers_of_each_kind)
{
    put_head(FILES_HEAD, 0, 5);
    put_frame(FILES_DATA, "hel", 3);
    put_frame(FILES_DATA, "lo", 2);
    put_frame(FILES_END, "", 0);
    accepted(FILES_READ, "head 0 5;end 0");
    cr_assert_eq(got.bytes, 5);

    reset();
    put_head(FILES_HEAD, ENOENT, 0);
    for (int op = FILES_READ; op < FILES_OP_COUNT; op++)
        accepted((enum files_op)op, "head 2 0;end 2");

    reset();
    put_head(FILES_HEAD, 0, 9);
    put_frame(FILES_END, "", 0);
    accepted(FILES_WRITE, "head 0 9;end 0");
    accepted(FILES_REMOVE, "head 0 9;end 0");
    accepted(FILES_LIST, "head 0 9;end 0");

    reset();
    put_head(FILES_HEAD, 0, 0);
    put_path("/a");
    put_path("/a/..b/...");
    put_head(FILES_END, EFBIG, 0);
    accepted(FILES_LIST, "head 0 0;entry /a;entry /a/..b/...;end 27");

    reset();
    put_head(FILES_HEAD, 0, 0);
    put_event(FILES_CREATE, 1, "d", 1);
    put_event(FILES_CHMOD, 0, "d/\xff\n", 4);
    put_head(FILES_END, EOVERFLOW, 0);
    accepted(FILES_WATCH, "head 0 0;event 1 1 d;event 5 0 d/\xef\x9f\xbf\n;end 75");
}

Test(files_reader, an_entry_with_all_it_has)
{
    struct files_entry_wire w = {.kind = FILES_SYMLINK,
                                 .mode = 0777,
                                 .uid = 1,
                                 .gid = 2,
                                 .size = UINT64_MAX,
                                 .mtime_sec = -5,
                                 .mtime_nsec = 999999999,
                                 .path_len = 2,
                                 .target_len = 5};
    put_head(FILES_HEAD, 0, 0);
    put_entry(w, "/l../..", 7);
    put_frame(FILES_END, "", 0);
    accepted(FILES_STAT, "head 0 0;entry /l;end 0");
    const struct files_entry *e = &got.entry;
    cr_assert_str_eq(e->target, "../..");
    cr_assert(e->kind == FILES_SYMLINK && e->mode == 0777 && e->uid == 1 && e->gid == 2 &&
              e->size == UINT64_MAX && e->mtime_sec == -5 && e->mtime_nsec == 999999999);
    reset();
    w = (struct files_entry_wire){.kind = FILES_REGULAR, .path_len = 1, .metadata_len = 7};
    put_head(FILES_HEAD, 0, 0);
    put_entry(w, "/a\0b\0c\0\0", 8);
    put_frame(FILES_END, "", 0);
    accepted(FILES_MOVE, "head 0 0;entry /;end 0");
    cr_assert_eq(got.entry.metadata_len, 7);
    cr_assert_arr_eq(got.entry.metadata, "a\0b\0c\0\0", 7);
}

Test(files_reader, frames_out_of_turn)
{
    put_frame(FILES_END, "", 0);
    refused(FILES_READ);
    put_head(FILES_HEAD, 0, 0);
    put_head(FILES_HEAD, 0, 0);
    refused(FILES_WATCH);
    put_head(FILES_HEAD, 0, 0);
    put_frame(FILES_END, "", 0);
    put_frame(FILES_END, "", 0);
    refused(FILES_REMOVE);
    put_head(FILES_HEAD, EACCES, 0);
    put_frame(FILES_END, "", 0);
    refused(FILES_REMOVE);
    for (int op = FILES_READ; op < FILES_OP_COUNT; op++) {
        if (op != FILES_READ) {
            put_head(FILES_HEAD, 0, 9);
            put_frame(FILES_DATA, "x", 1);
            refused((enum files_op)op);
        }
        if (op != FILES_WATCH) {
            put_head(FILES_HEAD, 0, 0);
            put_event(FILES_CREATE, 0, "x", 1);
            refused((enum files_op)op);
        }
        if (op == FILES_READ || op == FILES_WRITE || op == FILES_REMOVE || op == FILES_WATCH) {
            put_head(FILES_HEAD, 0, 9);
            put_path("/x");
            refused((enum files_op)op);
        }
    }
}

Test(files_reader, less_and_more_than_promised)
{
    put_head(FILES_HEAD, 0, 5);
    put_frame(FILES_DATA, "1234", 4);
    put_frame(FILES_END, "", 0);
    refused(FILES_READ);
    put_head(FILES_HEAD, 0, 3);
    put_frame(FILES_DATA, "1234", 4);
    refused(FILES_READ);
    put_head(FILES_HEAD, 0, 0);
    put_frame(FILES_DATA, "", 0);
    refused(FILES_READ);
    put_head(FILES_HEAD, 0, 0);
    put_frame(FILES_END, "", 0);
    refused(FILES_STAT);
    put_head(FILES_HEAD, 0, 0);
    put_path("/a");
    put_path("/b");
    refused(FILES_STAT);
    put_head(FILES_HEAD, 0, 0);
    put_frame(FILES_END, "", 0);
    refused(FILES_WATCH);
    /* An error in the middle needs no more. */
    put_head(FILES_HEAD, 0, 5);
    put_head(FILES_END, EIO, 0);
    accepted(FILES_READ, "head 0 5;end 5");
}

Test(files_reader, an_answer_that_is_cut_anywhere)
{
    put_head(FILES_HEAD, 0, 4);
    put_frame(FILES_DATA, "data", 4);
    put_frame(FILES_END, "", 0);
    size_t all = stream_len;
    for (stream_len = 0; stream_len < all; stream_len++)
        cr_assert_lt(feed_all(FILES_READ, 7), 0);
    cr_assert_eq(feed_all(FILES_READ, 7), 0);
}

Test(files_reader, lengths_that_lie)
{
    static const struct files_frame frames[] = {{.type = FILES_HEAD, .length = 15},
                                                {.type = FILES_HEAD, .length = 17},
                                                {.type = FILES_HEAD, .length = UINT32_MAX},
                                                {.type = 0, .length = 16},
                                                {.type = 6, .length = 16},
                                                {.type = FILES_HEAD, .zero1 = 1, .length = 16},
                                                {.type = FILES_HEAD, .zero2 = 1, .length = 16}};
    for (size_t i = 0; i < ARRAY_LEN(frames); i++) {
        put(&frames[i], sizeof frames[i]);
        put(stream + 1000, 64);
        refused(FILES_READ);
    }
    static const struct files_frame later[] = {{.type = FILES_ENTRY, .length = 48},
                                               {.type = FILES_ENTRY, .length = 20000},
                                               {.type = FILES_END, .length = 8}};
    for (size_t i = 0; i < ARRAY_LEN(later); i++) {
        put_head(FILES_HEAD, 0, 0);
        put(&later[i], sizeof later[i]);
        refused(FILES_LIST);
    }
    put_head(FILES_HEAD, 0, UINT64_MAX);
    put(&(struct files_frame){.type = FILES_DATA, .length = FILES_FRAME_DATA_MAX + 1}, 8);
    refused(FILES_READ);
    put_head(FILES_HEAD, -1, 0);
    refused(FILES_READ);
    put_head(FILES_HEAD, 4096, 0);
    refused(FILES_READ);
}

static void refused_entry(struct files_entry_wire w, const char *text, size_t len)
{
    reset();
    put_head(FILES_HEAD, 0, 0);
    put_entry(w, text, len);
    put_frame(FILES_END, "", 0);
    refused(FILES_STAT);
}

Test(files_reader, entries_that_would_lead_somewhere_else)
{
    static const char *const paths[] = {"a",
                                        "",
                                        "//a",
                                        "/a//b",
                                        "/a/",
                                        "/.",
                                        "/..",
                                        "/a/..",
                                        "/../a",
                                        "/a/./b",
                                        "/a/../../etc/passwd"};
    struct files_entry_wire good = {.kind = FILES_REGULAR, .path_len = 2};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        struct files_entry_wire w = good;
        w.path_len = (uint32_t)strlen(paths[i]);
        refused_entry(w, paths[i], w.path_len);
    }
    refused_entry((struct files_entry_wire){.kind = FILES_REGULAR, .path_len = 4}, "/a\0b", 4);
    refused_entry((struct files_entry_wire){.kind = 0, .path_len = 2}, "/a", 2);
    refused_entry((struct files_entry_wire){.kind = 5, .path_len = 2}, "/a", 2);
    refused_entry((struct files_entry_wire){.kind = 1, .mode = 010000, .path_len = 2}, "/a", 2);
    refused_entry((struct files_entry_wire){.kind = 1, .mtime_nsec = 1000000000, .path_len = 2},
                  "/a", 2);
    refused_entry((struct files_entry_wire){.kind = 1, .path_len = 2, .target_len = 1}, "/ab", 3);
    refused_entry((struct files_entry_wire){.kind = 3, .path_len = 2, .target_len = 2}, "/ab\0", 4);
    refused_entry((struct files_entry_wire){.kind = 1, .path_len = 3}, "/a", 2);
    struct files_entry_wire link = {
        .kind = FILES_SYMLINK, .path_len = 2, .target_len = 2, .target_kind = FILES_REGULAR};
    link.target_kind = FILES_SYMLINK;
    refused_entry(link, "/a/b", 4);
    link.target_kind = 5;
    refused_entry(link, "/a/b", 4);
    link.target_kind = FILES_REGULAR;
    refused_entry(link, "/abc", 4); /* where it leads is absolute */
    link.target_mode = 010000;
    refused_entry(link, "/a/b", 4);
    link.target_mode = 0644;
    link.target_kind = 0;
    refused_entry(link, "/a/b", 4);
    refused_entry((struct files_entry_wire){.kind = 1, .path_len = 2, .target_kind = 1}, "/a", 2);
    refused_entry((struct files_entry_wire){.kind = 1, .path_len = 1}, "/a", 2);
    refused_entry((struct files_entry_wire){.kind = 1, .path_len = UINT32_MAX, .target_len = 3},
                  "/a", 2);
    /* The control. */
    reset();
    put_head(FILES_HEAD, 0, 0);
    put_entry(good, "/a", 2);
    put_frame(FILES_END, "", 0);
    accepted(FILES_STAT, "head 0 0;entry /a;end 0");
}

Test(files_reader, attributes_that_are_none)
{
    static const struct {
        const char *text;
        uint32_t len;
    } cases[] = {{"a", 1}, {"a\0", 2}, {"a\0b", 3}, {"\0b\0", 3}, {"a\0b\0c", 5}, {"\0", 1}};
    char text[64];
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        memcpy(text, "/a", 2);
        memcpy(text + 2, cases[i].text, cases[i].len);
        refused_entry(
            (struct files_entry_wire){.kind = 1, .path_len = 2, .metadata_len = cases[i].len}, text,
            2 + cases[i].len);
    }
    memcpy(text, "/a", 2);
    for (size_t i = 0; i < FILES_METADATA_MAX + 1; i++)
        memcpy(text + 2 + 3 * i, "n\0", 3);
    struct files_entry_wire w = {.kind = 1, .path_len = 2, .metadata_len = 17 * 3};
    refused_entry(w, text, 2 + 17 * 3);
    w = (struct files_entry_wire){.kind = 2, .path_len = 2, .metadata_len = 3};
    refused_entry(w, text, 5);
}

Test(files_reader, events_that_are_none)
{
    static const struct {
        uint32_t kind, is_dir;
        const char *name;
        size_t len;
    } cases[] = {{0, 0, "a", 1},      {6, 0, "a", 1},    {1, 2, "a", 1},
                 {1, 0, "", 0},       {1, 0, "/a", 2},   {1, 0, "..", 2},
                 {1, 0, "a/../b", 6}, {1, 0, "a\0b", 3}, {1, 0, stream, 5000}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        put_head(FILES_HEAD, 0, 0);
        put_event(cases[i].kind, cases[i].is_dir, cases[i].name, cases[i].len);
        put_head(FILES_END, EOVERFLOW, 0);
        refused(FILES_WATCH);
    }
}

Test(files_reader, too_many_entries)
{
    struct files_reader *r;
    int done = 0;
    cr_assert_eq(files_reader_new(&r, FILES_LIST, &sink, NULL), 0);
    put_head(FILES_HEAD, 0, 0);
    cr_assert_eq(files_reader_feed(r, stream, stream_len, NULL), 0);
    reset();
    put_path("/a");
    unsigned count = 0;
    while (done == 0 && count < 2 * FILES_ENTRIES_MAX) {
        done = files_reader_feed(r, stream, stream_len, NULL);
        count += done == 0;
    }
    cr_assert_eq(count, FILES_ENTRIES_MAX);
    files_reader_free(r);
}

/* ---- requests ---- */

static int request(const char *text, struct files_request *ret, struct json **json)
{
    struct err err = ERR_INIT;
    cr_assert_eq(json_parse(text, strlen(text), &json_default_limits, json, &err), 0, "%s",
                 err.message);
    int done = files_request_read(*json, ret, &err);
    cr_assert_eq(done < 0, err.code == ERR_USAGE, "%s", err.message);
    return done;
}

static void same(const char *a, const char *b)
{
    cr_assert_eq(!a, !b);
    if (a)
        cr_assert_str_eq(a, b);
}

/* Reads it, sends it across, and compares what arrives. */
static struct files_request crosses(const char *text)
{
    static struct plan plan;
    static struct json *json;
    struct files_request r, again;
    json_free(json);
    plan_done(&plan);
    cr_assert_eq(request(text, &r, &json), 0);
    plan_init(&plan);
    files_request_plan(&r, &plan);
    cr_assert_eq(plan_finish(&plan, NULL), 0);
    struct err err = ERR_INIT;
    cr_assert_eq(files_request_decode(plan.bytes.data, plan.bytes.len, &again, &err), 0, "%s",
                 err.message);
    cr_assert(again.op == r.op && again.limit == r.limit && again.depth == r.depth &&
              again.recursive == r.recursive && again.metadata_count == r.metadata_count);
    same(again.path, r.path);
    same(again.to, r.to);
    same(again.home, r.home);
    for (unsigned i = 0; i < r.metadata_count; i++) {
        same(again.metadata[i].name, r.metadata[i].name);
        same(again.metadata[i].value, r.metadata[i].value);
    }
    return r;
}

Test(files_request, an_escaped_name_crosses_as_its_bytes)
{
    struct json *json = NULL;
    struct files_request r, again;
    struct plan plan;
    struct err err = ERR_INIT;
    const char *text = "{\"op\":\"move\",\"path\":\"/d/\\uf7ff\\u00e9\",\"to\":\"\\uf7c3\"}";
    cr_assert_eq(json_parse(text, strlen(text), NULL, &json, &err), 0);
    cr_assert_eq(files_request_read(json, &r, &err), 0, "%s", err.message);
    plan_init(&plan);
    files_request_plan(&r, &plan);
    cr_assert_eq(plan_finish(&plan, &err), 0);
    cr_assert_eq(files_request_decode(plan.bytes.data, plan.bytes.len, &again, &err), 0);
    cr_assert_str_eq(again.path, "/d/\xff\xc3\xa9");
    cr_assert_str_eq(again.to, "\xc3");
    plan_done(&plan);
    json_free(json);
}

Test(files_request, what_is_asked_arrives)
{
    struct files_request r = crosses("{\"op\":\"read\",\"path\":\"a\"}");
    cr_assert(r.op == FILES_READ && r.limit == FILES_BYTES_MAX && r.depth == 1 && !r.recursive);
    cr_assert_str_eq(r.home, FILES_HOME);
    r = crosses("{\"op\":\"list\",\"path\":\"/\",\"depth\":1000,\"limit\":99999999}");
    cr_assert(r.depth == FILES_DEPTH_MAX && r.limit == FILES_ENTRIES_MAX);
    r = crosses("{\"op\":\"move\",\"path\":\"/a\",\"to\":\"/b\"}");
    cr_assert_str_eq(r.to, "/b");
    r = crosses("{\"op\":\"watch\",\"path\":\"/a\",\"recursive\":true}");
    cr_assert(r.recursive);
    r = crosses(
        "{\"op\":\"write\",\"path\":\"/a\",\"limit\":0,\"metadata\":{\"a-b.c\":\"\",\"B\":\"x\"}}");
    cr_assert(r.limit == 0 && r.metadata_count == 2);
    for (enum files_op op = FILES_READ; op < FILES_OP_COUNT; op++)
        cr_assert_eq(files_op_parse(files_op_name(op)), op);
    cr_assert_eq(files_op_parse("none"), FILES_NONE);
    cr_assert_eq(files_op_parse(NULL), FILES_NONE);
    cr_assert_str_eq(files_op_name(FILES_OP_COUNT), "?");
}

Test(files_request, what_makes_no_sense_is_refused)
{
    static const char *const cases[] = {
        "[]",
        "{}",
        "{\"op\":\"read\"}",
        "{\"path\":\"/a\"}",
        "{\"op\":\"chmod\",\"path\":\"/a\"}",
        "{\"op\":1,\"path\":\"/a\"}",
        "{\"op\":\"read\",\"path\":\"\"}",
        "{\"op\":\"read\",\"path\":[\"a\"]}",
        "{\"op\":\"read\",\"path\":\"/a\",\"to\":\"/b\"}",
        "{\"op\":\"move\",\"path\":\"/a\"}",
        "{\"op\":\"read\",\"path\":\"/a\",\"limit\":-1}",
        "{\"op\":\"read\",\"path\":\"/a\",\"limit\":1.5}",
        "{\"op\":\"read\",\"path\":\"/a\",\"limit\":\"1\"}",
        "{\"op\":\"list\",\"path\":\"/a\",\"depth\":-1}",
        "{\"op\":\"watch\",\"path\":\"/a\",\"recursive\":1}",
        "{\"op\":\"read\",\"path\":\"/a\",\"uid\":0}",
        "{\"op\":\"read\",\"path\":\"/a\",\"metadata\":{\"a\":\"b\"}}",
        "{\"op\":\"write\",\"path\":\"/a\",\"metadata\":[]}",
        "{\"op\":\"write\",\"path\":\"/a\",\"metadata\":{\"\":\"b\"}}",
        "{\"op\":\"write\",\"path\":\"/a\",\"metadata\":{\"a b\":\"b\"}}",
        "{\"op\":\"write\",\"path\":\"/a\",\"metadata\":{\"a/b\":\"b\"}}",
        "{\"op\":\"write\",\"path\":\"/a\",\"metadata\":{\"a\":1}}",
    };
    struct files_request r;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct json *json = NULL;
        cr_assert_lt(request(cases[i], &r, &json), 0, "%s", cases[i]);
        json_free(json);
    }
}

Test(files_request, sizes_have_ends)
{
    static char text[16384];
    struct files_request r;
    struct json *json;
    snprintf(text, sizeof text, "{\"op\":\"read\",\"path\":\"%0*d\"}", FILES_PATH_MAX, 0);
    cr_assert_eq(request(text, &r, &json), 0);
    json_free(json);
    snprintf(text, sizeof text, "{\"op\":\"read\",\"path\":\"%0*d\"}", FILES_PATH_MAX + 1, 0);
    cr_assert_lt(request(text, &r, &json), 0);
    json_free(json);
    snprintf(text, sizeof text, "{\"op\":\"write\",\"path\":\"a\",\"metadata\":{\"%0*d\":\"\"}}",
             201, 0);
    cr_assert_lt(request(text, &r, &json), 0);
    json_free(json);
    snprintf(text, sizeof text,
             "{\"op\":\"write\",\"path\":\"a\",\"metadata\":{\"a\":\"%0*d\",\"b\":\"%0*d\","
             "\"c\":\"%0*d\"}}",
             2000, 0, 2000, 0, 200, 0);
    cr_assert_lt(request(text, &r, &json), 0, "together they are too much");
    json_free(json);
}

/* ---- blocks that no host of ours would send ---- */

static int decode(const struct op *ops, size_t count)
{
    struct plan plan;
    struct files_request r;
    plan_init(&plan);
    for (size_t i = 0; i < count; i++)
        plan_add(&plan, &ops[i]);
    cr_assert_eq(plan_finish(&plan, NULL), 0);
    int done = files_request_decode(plan.bytes.data, plan.bytes.len, &r, NULL);
    plan_done(&plan);
    return done;
}

Test(files_request, blocks_that_are_wrong)
{
    static char longer[FILES_PATH_MAX + 2];
    const struct op good = {
        .kind = OP_FILE_WORK, .a = "/a", .num = {FILES_WRITE, 1, 1}, .data = "/h", .data_len = 3};
    const struct op meta = {.kind = OP_FILE_META, .a = "n", .b = "v"};
    memset(longer, 'a', sizeof longer - 1);
    cr_assert_eq(decode(&good, 1), 0);
    cr_assert_lt(decode(NULL, 0), 0);
    struct op bad[12];
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        bad[i] = good;
    bad[0].num[0] = FILES_NONE;
    bad[1].num[0] = FILES_OP_COUNT;
    bad[2].a = NULL;
    bad[3].a = longer;
    bad[4].b = "/b";
    bad[5].num[0] = FILES_MOVE;
    bad[6].data_len = 0;
    bad[7].data = "h\0";
    bad[8].data = "/hh";
    bad[9].num[2] = FILES_DEPTH_MAX + 1;
    bad[10].num[3] = 2;
    bad[11].kind = OP_FILE;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        cr_assert_lt(decode(&bad[i], 1), 0, "%zu", i);
    struct op ops[FILES_METADATA_MAX + 2] = {good};
    for (size_t i = 1; i < ARRAY_LEN(ops); i++)
        ops[i] = meta;
    cr_assert_eq(decode(ops, ARRAY_LEN(ops) - 1), 0);
    cr_assert_lt(decode(ops, ARRAY_LEN(ops)), 0, "one attribute too many");
    ops[1].b = NULL;
    cr_assert_lt(decode(ops, 2), 0);
    ops[1] = meta;
    ops[1].a = "";
    cr_assert_lt(decode(ops, 2), 0);
    ops[1] = good;
    cr_assert_lt(decode(ops, 2), 0, "two requests");
    ops[0] = meta;
    cr_assert_lt(decode(ops, 2), 0, "an attribute of nothing");
    ops[0] = good;
    ops[0].num[0] = FILES_READ;
    ops[1] = meta;
    cr_assert_lt(decode(ops, 2), 0);
}
