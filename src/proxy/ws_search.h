/* WebSocket frames of a server, searched for secrets. A message may come in many frames, with
 * others between them: what is searched is the message, and the heads of its frames go along in
 * their places. */
#pragma once

#include "credentials/redact.h"

#include <sys/types.h>

struct ws_search {
    struct redactor *redactor;
    struct redact_stream *redact; /* of the messages; the owner's */
    bool inside;                  /* of the payload of a frame */
    bool fin, control;
    char head[REDACT_INSERT_MAX]; /* of a frame; of a control frame everything */
    unsigned have;
    uint64_t left; /* payload bytes to come */
};

/* Takes bytes that ws_check has let pass. `out` gets what is safe; its result, if negative, ends
 * the call. Returns the last one of `out`, or -EPROTO. */
int ws_search_feed(struct ws_search *w, const char *data, size_t len,
                   int (*out)(void *ctx, const char *data, size_t len), void *ctx);
