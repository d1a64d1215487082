/* Lines of both sides and answers of people, in any order: whatever comes out is whole, no call
 * that the rules deny reaches the server, nor one that must be asked about without a yes, and the
 * client is asked for nothing that the rules do not name. A line begins with who says it: 'c', 's',
 * or 'y', 'n' for the oldest question. */
#include "mcp/wrap.h"
#include "policy/policy.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const char rules[] =
    "tools: {allow: [read, \"get:path=/d/**\"], ask: [write], deny: [\"read:x=bad\"], callbacks: "
    "[roots]}\n";

static void require(int condition)
{
    if (!condition)
        abort();
}

struct lab {
    struct wrap wrap;
    uint32_t open[64];
    size_t count;
    unsigned yes; /* answers that may show as a call */
};

static int ask(void *ctx, uint32_t ticket, const char *text, const char *reason, struct err *err)
{
    struct lab *l = ctx;
    require(*text && *reason && l->count < 64);
    l->open[l->count++] = ticket;
    return 0;
}

static void withdraw(void *ctx, uint32_t ticket)
{
    struct lab *l = ctx;
    for (size_t i = 0; i < l->count; i++) {
        if (l->open[i] == ticket) {
            memmove(l->open + i, l->open + i + 1, (--l->count - i) * sizeof *l->open);
            return;
        }
    }
    abort();
}

static void note(void *ctx, const char *text)
{
    require(*text != '\0');
}

static void check_call(struct lab *l, const struct rpc_msg *m)
{
    const struct json *name = json_get(m->params, "name");
    struct tool_decision d =
        tools_decide(l->wrap.tools, json_string(name), json_get(m->params, "arguments"));
    require(d.verdict != TOOL_DENY);
    require(d.verdict == TOOL_ALLOW || l->yes-- > 0);
}

static void check_lines(struct lab *l, struct buf *out, bool to_server)
{
    const char *at = buf_text(out);
    require(!out->failed);
    while (*at) {
        struct rpc_msg m;
        struct err err = ERR_INIT;
        int code;
        const char *end = strchr(at, '\n');
        require(end != NULL);
        require(rpc_parse(at, (size_t)(end - at), &m, &code, &err) == 0);
        if (to_server && m.method && strcmp(m.method, "tools/call") == 0)
            check_call(l, &m);
        if (!to_server && m.kind == RPC_REQUEST)
            require(strcmp(m.method, "ping") == 0 || strcmp(m.method, "roots/list") == 0);
        rpc_msg_done(&m);
        at = end + 1;
    }
    buf_reset(out);
}

static void answer(struct lab *l, bool yes)
{
    if (l->count == 0)
        return;
    uint32_t ticket = l->open[0];
    memmove(l->open, l->open + 1, --l->count * sizeof *l->open);
    l->yes += yes;
    wrap_answer(&l->wrap, ticket, yes ? WRAP_ANSWER_ALLOW : WRAP_ANSWER_DENY);
}

static void line(struct lab *l, const char *text, size_t len)
{
    if (len == 0)
        return;
    if (text[0] == 'c')
        wrap_client_line(&l->wrap, text + 1, len - 1);
    else if (text[0] == 's')
        wrap_server_line(&l->wrap, text + 1, len - 1);
    else if (text[0] == 'y' || text[0] == 'n')
        answer(l, text[0] == 'y');
    check_lines(l, &l->wrap.to_client, false);
    check_lines(l, &l->wrap.to_server, true);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct policy p;
    struct err err = ERR_INIT;
    static struct lab l;
    l = (struct lab){0};
    struct wrap_hooks hooks = {.ctx = &l, .ask = ask, .withdraw = withdraw, .note = note};
    require(policy_init(&p, LEVEL_HIGH) == 0);
    require(policy_load(&p, "p", rules, sizeof rules - 1, &err) == 0);
    wrap_init(&l.wrap, &p.tools, &hooks);
    for (size_t i = 0; i < size;) {
        const uint8_t *end = memchr(data + i, '\n', size - i);
        size_t len = end ? (size_t)(end - data) - i : size - i;
        line(&l, (const char *)data + i, len);
        i += len + 1;
    }
    wrap_done(&l.wrap);
    policy_done(&p);
    return 0;
}
