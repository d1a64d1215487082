/* Any bytes as a stream of JSON-RPC lines, in pieces of any size: the same lines come out however
 * the stream was cut, and a message that is accepted is what rpc.h says it is. */
#include "mcp/rpc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_HERE 4096

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check_call(const struct rpc_msg *m)
{
    require(m->method && *m->method && strlen(m->method) <= RPC_METHOD_MAX);
    require(!m->params || json_type(m->params) == JSON_OBJECT);
    require(!m->result && !m->error && (m->kind == RPC_REQUEST) == (m->id != NULL));
}

static void check_answer(const struct rpc_msg *m)
{
    require(!m->method && !m->params && !m->result != !m->error);
    require(m->kind == RPC_ERROR || m->id);
}

/* Written anew it is the same message. */
static void check_again(const struct rpc_msg *m)
{
    struct buf text;
    struct json_writer w;
    struct rpc_msg again;
    int code;
    buf_init(&text, 1u << 20);
    jw_init(&w, &text, false);
    jw_json(&w, m->tree);
    require(!text.failed && !memchr(text.data, '\n', text.len));
    require(rpc_parse(text.data, text.len, &again, &code, NULL) == 0);
    require(again.kind == m->kind && (!m->id || rpc_id_equal(m->id, again.id)));
    rpc_msg_done(&again);
    buf_done(&text);
}

static void check(const char *text, size_t len)
{
    struct rpc_msg m;
    struct err err = ERR_INIT;
    int code;
    require(len > 0 && len <= LINE_MAX_HERE && !memchr(text, '\n', len));
    if (rpc_parse(text, len, &m, &code, &err) < 0) {
        require(err.code != ERR_NONE && m.kind == RPC_NONE && code < 0);
    } else {
        if (m.kind == RPC_REQUEST || m.kind == RPC_NOTIFICATION)
            check_call(&m);
        else
            check_answer(&m);
        check_again(&m);
    }
    rpc_msg_done(&m);
}

/* A sum over the lines, to compare two ways of cutting. */
static uint64_t feed(const uint8_t *data, size_t size, size_t piece, bool look)
{
    struct rpc_lines lines;
    uint64_t sum = 1469598103934665603u;
    const char *line;
    size_t len;
    rpc_lines_init(&lines, LINE_MAX_HERE);
    for (size_t at = 0, n; at < size; at += n) {
        n = size - at < piece ? size - at : piece;
        require(rpc_lines_add(&lines, data + at, n, NULL) == 0);
        for (int r; (r = rpc_lines_next(&lines, &line, &len)) != 0;) {
            require(r == 1 || r == -E2BIG);
            sum = (sum ^ (uint64_t)(r == 1 ? len : 0)) * 1099511628211u;
            if (r == 1 && look)
                check(line, len);
        }
        require(lines.in.len <= LINE_MAX_HERE + piece + 1);
    }
    rpc_lines_done(&lines);
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first byte says how large the pieces are. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    uint64_t whole = feed(data + 1, size - 1, size, true);
    require(feed(data + 1, size - 1, (size_t)data[0] + 1, false) == whole);
    return 0;
}
