/* Any bytes as a message with its headers: a version line, a method line, a name line, then the
 * body. What is taken as modern has headers that agree with the body; what is refused says why. */
#include "mcp/envelope.h"

#include <stdlib.h>
#include <string.h>

static void require(int condition)
{
    if (!condition)
        abort();
}

/* The next line, or NULL where it is empty: no such header. */
static char *next_line(char **at, char *end)
{
    char *start = *at, *feed = memchr(start, '\n', (size_t)(end - start));
    *at = feed ? feed + 1 : end;
    if (feed)
        *feed = '\0';
    return *start && feed ? start : NULL;
}

static void check_taken(const struct rpc_msg *m, const struct mcp_head *h,
                        const struct mcp_envelope *e)
{
    struct buf name;
    require(e->era == MCP_ERA_LEGACY || e->era == MCP_ERA_MODERN);
    if (e->era == MCP_ERA_LEGACY) {
        require(!h->version || envelope_legacy_known(h->version));
        return;
    }
    require(!h->method || !strcmp(h->method, m->method));
    if (m->kind != RPC_REQUEST)
        return;
    require(h->version && !strcmp(h->version, MCP_MODERN) && h->method);
    if (!envelope_name(m))
        return;
    /* What we would send ourselves is accepted. */
    buf_init(&name, 1u << 20);
    envelope_name_write(&name, envelope_name(m));
    struct mcp_head own = {h->version, h->method, buf_text(&name)};
    struct mcp_envelope again;
    require(envelope_read(m, &own, &again, NULL) == 0);
    buf_done(&name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *at = text, *end = text + size;
    struct rpc_msg m = {0};
    struct mcp_envelope e;
    struct err err = ERR_INIT;
    int code;
    if (!text)
        return 0;
    memcpy(text, data, size);
    *end = '\0';
    struct mcp_head head;
    head.version = next_line(&at, end);
    head.method = next_line(&at, end);
    head.name = next_line(&at, end);
    if (rpc_parse(at, (size_t)(end - at), &m, &code, NULL) == 0 &&
        (m.kind == RPC_REQUEST || m.kind == RPC_NOTIFICATION)) {
        if (envelope_read(&m, &head, &e, &err) < 0)
            require(e.status == 400 && e.code < 0 && err.message[0]);
        else
            check_taken(&m, &head, &e);
    }
    rpc_msg_done(&m);
    free(text);
    return 0;
}
