/* Which of MCP's two eras a message belongs to, and whether its head and its body agree.
 *
 * Legacy (up to 2025-11-25): `initialize` first, then requests that may bear a session.
 * Modern (2026-07-28): every request says in params._meta which revision it speaks; over HTTP the
 * headers MCP-Protocol-Version, Mcp-Method and Mcp-Name repeat what the body says, and a difference
 * is refused: whoever routes or filters by headers must see what is executed. */
#pragma once

#include "mcp/rpc.h"

#define MCP_MODERN        "2026-07-28"
#define MCP_LEGACY_NEWEST "2025-11-25"

/* The headers; NULL where there is none. */
struct mcp_head {
    const char *version, *method, *name;
};
enum mcp_era { MCP_ERA_LEGACY, MCP_ERA_MODERN };
struct mcp_envelope {
    enum mcp_era era;
    const struct json *progress; /* _meta.progressToken: a string or a whole number, or NULL */
    /* Of a refusal: */
    int status;            /* HTTP */
    int code;              /* enum rpc_code */
    const char *requested; /* RPC_UNSUPPORTED_VERSION: what was asked for */
};

/* For requests and notifications. */
int envelope_read(const struct rpc_msg *m, const struct mcp_head *head, struct mcp_envelope *ret,
                  struct err *err);
/* The legacy revision to answer `initialize` with: the one asked for, else the newest. */
const char *envelope_negotiate(const char *asked);
bool envelope_legacy_known(const char *version);
/* The value of Mcp-Name for a message, or NULL: params.name or params.uri. */
const char *envelope_name(const struct rpc_msg *m);
/* As a header: as it is, or =?base64?…?= where it is not plain. */
void envelope_name_write(struct buf *out, const char *name);
