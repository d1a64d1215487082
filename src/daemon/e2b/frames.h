/* Streams of envd as handlers see them: Connect's frames (http/connect.h) around JSON. */
#pragma once

#include "base/buf.h"
#include "daemon/api/call.h"
#include "http/connect.h"

#define CONNECT_UNARY  "application/json"
#define CONNECT_STREAM "application/connect+json"

/* A stream's request: unwraps and parses the body. */
void frames_json(struct call *call, void (*fn)(struct call *call, const struct json *body));
/* Frames of an answer: begin, write JSON with the writer, send. */
struct frame {
    struct buf text;
    struct json_writer w;
};
void frame_begin(struct frame *f, size_t cap);
bool frame_send(struct frame *f, struct call *call); /* as exchange_write */
void frames_start(struct call *call);                /* the head of the answer */
/* The last frame and the end of the exchange; code NULL: all is well. */
/* The sandbox has ended: the stream is cut, as it would be if the server ran in there. Clients ask
 * for /health then, hear 502, and report a sandbox that is gone. */
void frames_cut(struct call *call);
void frames_finish(struct call *call, const char *code, const char *message);

/* Headers that clients send with streams. 0: not there. */
bool frames_timeout(struct call *call, uint64_t *ret_ms); /* Connect-Timeout-Ms; false: refused */
uint64_t frames_keepalive_ms(struct call *call);          /* Keepalive-Ping-Interval */
