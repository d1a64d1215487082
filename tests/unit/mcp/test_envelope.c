/* Which era, and whether head and body agree. */
#include "mcp/envelope.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define CAPABILITIES "\"io.modelcontextprotocol/clientCapabilities\":{}"
#define META(version)                                                                              \
    "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"" version "\"," CAPABILITIES "}"
#define CALL(params)                                                                               \
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":" params "}"
#define GOOD CALL("{\"name\":\"run_code\"," META(MCP_MODERN) "}")

static int read_it(const char *text, struct mcp_head head, struct mcp_envelope *e)
{
    struct rpc_msg m cleanup_rpc_msg = {0};
    struct err err = ERR_INIT;
    int code;
    cr_assert_eq(rpc_parse(text, strlen(text), &m, &code, &err), 0, "%s: %s", text, err.message);
    int r = envelope_read(&m, &head, e, &err);
    if (e->requested) /* outlives the message only as long as the test looks at it here */
        cr_expect_str_eq(e->requested, "2027-01-01");
    return r;
}

static void refused(const char *text, struct mcp_head head, int code)
{
    struct mcp_envelope e;
    cr_expect_lt(read_it(text, head, &e), 0, "taken: %s", text);
    cr_expect_eq(e.code, code, "%s: %d", text, e.code);
    cr_expect_eq(e.status, 400);
}

static void taken(const char *text, struct mcp_head head, enum mcp_era era)
{
    struct mcp_envelope e;
    cr_expect_eq(read_it(text, head, &e), 0, "%s: %d", text, e.code);
    cr_expect_eq(e.era, era, "%s", text);
}

#define HEAD(...) ((struct mcp_head){__VA_ARGS__})

Test(envelope, legacy)
{
    static const char ping[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}";
    taken(ping, HEAD(0), MCP_ERA_LEGACY);
    taken(ping, HEAD("2025-11-25"), MCP_ERA_LEGACY);
    taken(ping, HEAD("2024-11-05"), MCP_ERA_LEGACY);
    refused(ping, HEAD("2025-11-26"), RPC_INVALID_REQUEST);
    refused(ping, HEAD(MCP_MODERN), RPC_INVALID_PARAMS);
    refused(ping, HEAD("2030-01-01"), RPC_INVALID_PARAMS);
}

Test(envelope, the_handshake_is_legacy)
{
    static const char plain[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\"}";
    static const char old[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":"
                              "{" META("2025-06-18") "}}";
    static const char modern[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\","
                                 "\"params\":{" META(MCP_MODERN) "}}";
    taken(plain, HEAD(0), MCP_ERA_LEGACY);
    taken(old, HEAD(0), MCP_ERA_LEGACY);
    refused(plain, HEAD(MCP_MODERN), RPC_HEADER_MISMATCH);
    taken(modern, HEAD(MCP_MODERN, "initialize"), MCP_ERA_MODERN);
}

Test(envelope, modern)
{
    taken(GOOD, HEAD(MCP_MODERN, "tools/call", "run_code"), MCP_ERA_MODERN);
    taken(GOOD, HEAD(MCP_MODERN, "tools/call", "=?base64?cnVuX2NvZGU=?="), MCP_ERA_MODERN);
    refused(GOOD, HEAD(NULL, "tools/call", "run_code"), RPC_HEADER_MISMATCH);
    refused(GOOD, HEAD(MCP_MODERN, NULL, "run_code"), RPC_HEADER_MISMATCH);
    refused(GOOD, HEAD(MCP_MODERN, "tools/call"), RPC_HEADER_MISMATCH);
    refused(GOOD, HEAD("2025-11-25", "tools/call", "run_code"), RPC_HEADER_MISMATCH);
    refused(GOOD, HEAD(MCP_MODERN, "tools/list", "run_code"), RPC_HEADER_MISMATCH);
    refused(GOOD, HEAD(MCP_MODERN, "tools/call", "run"), RPC_HEADER_MISMATCH);
    refused(GOOD, HEAD(MCP_MODERN, "tools/call", "=?base64?cnVu?="), RPC_HEADER_MISMATCH);
    refused(GOOD, HEAD(MCP_MODERN, "tools/call", "=?base64?%?="), RPC_HEADER_MISMATCH);
    refused(GOOD, HEAD(MCP_MODERN, "tools/call", "=?base64?="), RPC_HEADER_MISMATCH);
}

Test(envelope, modern_bodies)
{
    const struct mcp_head h = {MCP_MODERN, "tools/call", "a"};
    refused(CALL("{" META("2027-01-01") "}"), HEAD("2027-01-01", "tools/call"),
            RPC_UNSUPPORTED_VERSION);
    refused(CALL("{\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"" MCP_MODERN "\"}}"), h,
            RPC_INVALID_PARAMS);
    refused(CALL("{\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":1," CAPABILITIES "}}"), h,
            RPC_INVALID_PARAMS);
    refused(CALL("{\"_meta\":{" CAPABILITIES "}}"), h, RPC_INVALID_PARAMS);
    refused(CALL("{}"), h, RPC_INVALID_PARAMS);
    /* A name that is no name is for the method to refuse. */
    taken(CALL("{\"name\":1," META(MCP_MODERN) "}"), HEAD(MCP_MODERN, "tools/call"),
          MCP_ERA_MODERN);
}

Test(envelope, progress)
{
    struct mcp_envelope e;
    read_it(CALL("{\"_meta\":{\"progressToken\":7}}"), HEAD(0), &e);
    cr_expect_not_null(e.progress);
    read_it(CALL("{\"_meta\":{\"progressToken\":\"t\"}}"), HEAD(0), &e);
    cr_expect_not_null(e.progress);
    read_it(CALL("{\"_meta\":{\"progressToken\":1.5}}"), HEAD(0), &e);
    cr_expect_null(e.progress);
    read_it(CALL("{\"_meta\":[]}"), HEAD(0), &e);
    cr_expect_null(e.progress);
}

Test(envelope, negotiation)
{
    cr_expect_str_eq(envelope_negotiate("2024-11-05"), "2024-11-05");
    cr_expect_str_eq(envelope_negotiate("1"), MCP_LEGACY_NEWEST);
    cr_expect_str_eq(envelope_negotiate(MCP_MODERN), MCP_LEGACY_NEWEST);
    cr_expect_str_eq(envelope_negotiate(NULL), MCP_LEGACY_NEWEST);
}

static void name(const char *value, const char *header)
{
    struct buf out cleanup_buf = {0};
    buf_init(&out, 1024);
    envelope_name_write(&out, value);
    cr_expect_str_eq(buf_text(&out), header);
}

Test(envelope, names_as_headers)
{
    name("run_code", "run_code");
    name("brig://a/b", "brig://a/b");
    name("a b", "=?base64?YSBi?=");
    name("\r\nX: y", "=?base64?DQpYOiB5?=");
    name("", "=?base64?"
             "?=");
    name("=?base64?x?=", "=?base64?PT9iYXNlNjQ/eD89?=");
}
