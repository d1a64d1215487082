/* Answers over HTTP, whole and in pieces. */
#include "mcp/answer.h"

#include <criterion/criterion.h>
#include <string.h>

static void collect(void *ctx, const char *text, size_t len)
{
    buf_add(ctx, text, len);
    buf_chr(ctx, '|');
}

static int feed(const char *text, size_t piece, struct mcp_answer *a, struct buf *told)
{
    size_t len = strlen(text);
    int r = 0;
    buf_init(told, 65536);
    answer_init(a, collect, told);
    for (size_t at = 0; at < len && r >= 0; at += piece)
        r = answer_feed(a, text + at, len - at < piece ? len - at : piece, NULL);
    return r < 0 ? r : answer_close(a, NULL);
}

static void expect(const char *text, int status, const char *messages)
{
    for (size_t piece = 1; piece < 200; piece += 33) {
        struct buf told;
        struct mcp_answer a;
        cr_expect_eq(feed(text, piece, &a, &told), 0, "%s", text);
        cr_expect_eq(a.status, status);
        cr_expect_str_eq(buf_text(&told), messages);
        answer_done(&a);
        buf_done(&told);
    }
}

static void broken(const char *text)
{
    struct buf told;
    struct mcp_answer a;
    cr_expect_lt(feed(text, 4096, &a, &told), 0, "%s", text);
    answer_done(&a);
    buf_done(&told);
}

#define EVENTS "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"

Test(answer, whole)
{
    expect(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n{\"a\":1}",
        200, "{\"a\":1}|");
    expect("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", 202, "");
    expect("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", 204, "");
    expect("HTTP/1.1 400 Bad\r\nTransfer-Encoding: "
           "chunked\r\n\r\n3\r\n{\"a\r\n4\r\n\":1}\r\n0\r\n\r\n",
           400, "{\"a\":1}|");
}

Test(answer, events)
{
    expect(EVENTS "Transfer-Encoding: chunked\r\n\r\n15\r\nevent: message\ndata: \r\n3\r\nx\n\n\r\n"
                  "0\r\n\r\n",
           200, "x|");
    expect(EVENTS "\r\n: c\n\ndata: a\r\n\r\nid: 1\ndata:b\ndata: c\n\ndata: cut off", 200,
           "a|b c|");
}

Test(answer, sessions)
{
    struct buf told;
    struct mcp_answer a;
    feed("HTTP/1.1 200 OK\r\nMcp-Session-Id: abc\r\nContent-Length: 0\r\n\r\n", 999, &a, &told);
    cr_expect_str_eq(a.session, "abc");
    answer_done(&a);
    buf_done(&told);
}

Test(answer, broken)
{
    broken("");
    broken("HTTP/1.1 200 OK\r\n");
    broken("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc");
    broken(EVENTS "Transfer-Encoding: chunked\r\n\r\n5\r\ndata:\r\n");
    broken(EVENTS "Transfer-Encoding: chunked\r\n\r\nzz\r\n");
    broken("SSH-2.0-x\r\n\r\n");
}
