/* The Connect protocol with JSON, as envd's clients speak it: unary calls are plain JSON; a stream
 * is a sequence of frames {u8 flags, u32 length, big-endian} and that many bytes of JSON, of which
 * the last has flag 2 and says how it ended. */
#pragma once

#include "base/buf.h"
#include "daemon/call.h"

#define CONNECT_UNARY  "application/json"
#define CONNECT_STREAM "application/connect+json"

/* connect_parse.c: the one message in the body of a request for a stream. */
int connect_unwrap(const char *data, size_t len, const char **ret, size_t *ret_len,
                   struct err *err);

/* A stream's request: unwraps and parses the body. */
void connect_json(struct call *call, void (*fn)(struct call *call, const struct json *body));
/* Frames of an answer: begin, write JSON with the writer, end sends it. */
struct connect_frame {
    struct buf text;
    struct json_writer w;
};
void connect_frame_begin(struct connect_frame *f, size_t cap);
bool connect_frame_send(struct connect_frame *f, struct call *call); /* as exchange_write */
void connect_start(struct call *call);                               /* the head of the answer */
/* The last frame and the end of the exchange; code NULL: all is well. */
void connect_finish(struct call *call, const char *code, const char *message);
/* The same for an error that was set, before or after connect_start. */
void connect_finish_err(struct call *call, const struct err *err);

/* Headers that clients send with streams. 0: not there. */
bool connect_timeout(struct call *call, uint64_t *ret_ms); /* Connect-Timeout-Ms; false: 400 */
uint64_t connect_keepalive_ms(struct call *call);          /* Keepalive-Ping-Interval */
