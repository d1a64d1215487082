/* JSON-RPC as it comes in, and as it goes out. */
#include "mcp/rpc.h"

#include "base/cleanup.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static void refused(const char *text, int code, bool has_id)
{
    struct rpc_msg m cleanup_rpc_msg = {0};
    struct err err = ERR_INIT;
    int got = 0;
    cr_expect_lt(rpc_parse(text, strlen(text), &m, &got, &err), 0, "accepted: %.200s", text);
    cr_expect_eq(got, code, "%.200s: %d", text, got);
    cr_expect_eq(m.id != NULL, has_id, "%.200s", text);
    cr_expect_eq(m.kind, RPC_NONE);
    cr_expect(err.message[0]);
}

static void taken(const char *text, enum rpc_kind kind)
{
    struct rpc_msg m cleanup_rpc_msg = {0};
    struct err err = ERR_INIT;
    int code;
    cr_expect_eq(rpc_parse(text, strlen(text), &m, &code, &err), 0, "%s: %s", text, err.message);
    cr_expect_eq(m.kind, kind, "%s", text);
}

Test(rpc, kinds)
{
    taken("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", RPC_REQUEST);
    taken("{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"ping\",\"params\":{}}", RPC_REQUEST);
    taken("{\"jsonrpc\":\"2.0\",\"method\":\"ping\",\"params\":{}}", RPC_NOTIFICATION);
    taken("{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{}}", RPC_RESPONSE);
    taken("{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-1,\"message\":\"\"}}", RPC_ERROR);
    taken("{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-1,\"message\":\"\"}}", RPC_ERROR);
    taken("{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-1,\"message\":\"\"}}", RPC_ERROR);
}

Test(rpc, refusals)
{
    refused("", RPC_PARSE_ERROR, false);
    refused("{", RPC_PARSE_ERROR, false);
    refused("{\"id\":1,\"id\":1}", RPC_PARSE_ERROR, false);
    refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\\u0000\"}", RPC_PARSE_ERROR, false);
    refused("[]", RPC_INVALID_REQUEST, false);
    refused("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", RPC_INVALID_REQUEST, false);
    refused("1", RPC_INVALID_REQUEST, false);
    refused("{}", RPC_INVALID_REQUEST, false);
    refused("{\"id\":1,\"method\":\"ping\"}", RPC_INVALID_REQUEST, true);
    refused("{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}", RPC_INVALID_REQUEST, true);
    refused("{\"jsonrpc\":\"2.0\",\"id\":1}", RPC_INVALID_REQUEST, true);
    refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\"}", RPC_INVALID_REQUEST, true);
    refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":2}", RPC_INVALID_REQUEST, true);
    refused("{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"a\"}", RPC_INVALID_REQUEST, false);
    refused("{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"a\"}", RPC_INVALID_REQUEST, false);
    refused("{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"a\"}", RPC_INVALID_REQUEST, false);
    refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"result\":{}}", RPC_INVALID_REQUEST,
            true);
    refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{},\"error\":{}}", RPC_INVALID_REQUEST, true);
    refused("{\"jsonrpc\":\"2.0\",\"result\":{}}", RPC_INVALID_REQUEST, false);
    refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":3}", RPC_INVALID_REQUEST, true);
    refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1}}", RPC_INVALID_REQUEST, true);
    refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\",\"params\":[1]}", RPC_INVALID_PARAMS,
            true);
}

Test(rpc, long_ids_and_methods)
{
    char text[1024], name[300];
    memset(name, 'a', sizeof(name));
    snprintf(text, sizeof(text), "{\"jsonrpc\":\"2.0\",\"id\":\"%.*s\",\"method\":\"a\"}", 256,
             name);
    taken(text, RPC_REQUEST);
    snprintf(text, sizeof(text), "{\"jsonrpc\":\"2.0\",\"id\":\"%.*s\",\"method\":\"a\"}", 257,
             name);
    refused(text, RPC_INVALID_REQUEST, false);
    snprintf(text, sizeof(text), "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%.*s\"}", 128, name);
    taken(text, RPC_REQUEST);
    snprintf(text, sizeof(text), "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%.*s\"}", 129, name);
    refused(text, RPC_INVALID_REQUEST, true);
}

Test(rpc, depth)
{
    struct buf text cleanup_buf = {0};
    for (int depth = 60; depth <= 70; depth += 10) {
        buf_init(&text, 4096);
        buf_str(&text, "{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"params\":{\"a\":");
        for (int i = 0; i < depth; i++)
            buf_chr(&text, '[');
        for (int i = 0; i < depth; i++)
            buf_chr(&text, ']');
        buf_str(&text, "}}");
        if (depth == 60)
            taken(buf_text(&text), RPC_NOTIFICATION);
        else
            refused(buf_text(&text), RPC_PARSE_ERROR, false);
        buf_done(&text);
    }
}

static struct json *parsed(const char *text)
{
    struct json *j = NULL;
    cr_assert_eq(json_parse(text, strlen(text), NULL, &j, NULL), 0);
    return j;
}

Test(rpc, ids)
{
    struct json *ids = parsed("[1,\"1\",1,\"1\",2,null]");
    cr_expect(rpc_id_equal(json_at(ids, 0), json_at(ids, 2)));
    cr_expect(rpc_id_equal(json_at(ids, 1), json_at(ids, 3)));
    cr_expect_not(rpc_id_equal(json_at(ids, 0), json_at(ids, 1)));
    cr_expect_not(rpc_id_equal(json_at(ids, 0), json_at(ids, 4)));
    cr_expect_not(rpc_id_equal(json_at(ids, 5), json_at(ids, 5)));
    cr_expect_not(rpc_id_equal(NULL, NULL));
    json_free(ids);
}

/* ---- lines ---- */

static void expect_line(struct rpc_lines *l, const char *want)
{
    const char *line = NULL;
    size_t len = 0;
    cr_assert_eq(rpc_lines_next(l, &line, &len), 1, "no line, wanted %s", want);
    cr_expect_eq(len, strlen(want));
    cr_expect_eq(memcmp(line, want, len), 0, "%.*s", (int)len, line);
}

static void add(struct rpc_lines *l, const char *text)
{
    cr_assert_eq(rpc_lines_add(l, text, strlen(text), NULL), 0);
}

Test(rpc, lines)
{
    struct rpc_lines l;
    const char *line;
    size_t len;
    rpc_lines_init(&l, 8);
    cr_expect_eq(rpc_lines_next(&l, &line, &len), 0);
    add(&l, "one\ntwo\r\n\n\r\nth");
    expect_line(&l, "one");
    expect_line(&l, "two");
    cr_expect_eq(rpc_lines_next(&l, &line, &len), 0);
    add(&l, "ree");
    cr_expect_eq(rpc_lines_next(&l, &line, &len), 0);
    add(&l, "\n12345678\n123456789\nnext\n");
    expect_line(&l, "three");
    expect_line(&l, "12345678");
    cr_expect_eq(rpc_lines_next(&l, &line, &len), -E2BIG);
    expect_line(&l, "next");
    cr_expect_eq(rpc_lines_next(&l, &line, &len), 0);
    rpc_lines_done(&l);
}

/* However long it is: it is dropped as it comes, and said once. */
Test(rpc, endless_line)
{
    struct rpc_lines l;
    const char *line;
    size_t len;
    int dropped = 0;
    rpc_lines_init(&l, 100);
    for (int i = 0; i < 1000; i++) {
        add(&l, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
        for (int r; (r = rpc_lines_next(&l, &line, &len)) != 0;) {
            cr_expect_eq(r, -E2BIG);
            dropped++;
        }
        cr_assert_lt(l.in.len, 200u);
    }
    cr_expect_eq(dropped, 1);
    add(&l, "tail\ngood\n");
    expect_line(&l, "good");
    rpc_lines_done(&l);
}

/* ---- writing ---- */

Test(rpc, written)
{
    struct buf out cleanup_buf = {0};
    struct json_writer w;
    struct json *ids = parsed("[7,\"x\\n\"]");
    buf_init(&out, 4096);
    jw_init(&w, &out, false);
    rpc_result_begin(&w, json_at(ids, 0));
    jw_object_begin(&w);
    jw_object_end(&w);
    rpc_end(&w);
    cr_expect_str_eq(buf_text(&out), "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}");
    buf_reset(&out);
    rpc_write_error(&out, json_at(ids, 1), RPC_INVALID_PARAMS, "no\n", NULL);
    cr_expect_str_eq(buf_text(&out),
                     "{\"jsonrpc\":\"2.0\",\"id\":\"x\\n\",\"error\":{\"code\":-32602,"
                     "\"message\":\"no\\n\"}}");
    buf_reset(&out);
    rpc_write_error(&out, NULL, RPC_PARSE_ERROR, "no", ids);
    cr_expect_str_eq(buf_text(&out), "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,"
                                     "\"message\":\"no\",\"data\":[7,\"x\\n\"]}}");
    json_free(ids);
}
