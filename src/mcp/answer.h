/* What comes back over HTTP for one MCP message: a JSON object, or a stream of events with one in
 * each. Fed as it arrives; hands out whole messages. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "http/chunk.h"
#include "http/message.h"

#define MCP_ANSWER_MAX (80u << 20) /* of one message */

/* One message, NUL-terminated. */
typedef void mcp_answer_fn(void *ctx, const char *text, size_t len);
struct mcp_answer {
    struct buf in; /* the head, as long as it is not whole */
    bool headed, events, done;
    int status;
    char session[64]; /* Mcp-Session-Id, or empty */
    enum http_body body;
    uint64_t left;
    struct chunk_reader chunks;
    struct buf line, message; /* of an event; or the JSON */
    mcp_answer_fn *fn;
    void *ctx;
};
void answer_init(struct mcp_answer *a, mcp_answer_fn *fn, void *ctx);
void answer_done(struct mcp_answer *a);
int answer_feed(struct mcp_answer *a, const char *data, size_t len, struct err *err);
/* The connection ended: negative if the answer had not. */
int answer_close(struct mcp_answer *a, struct err *err);
