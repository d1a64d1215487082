/* The frames of the Connect protocol's streams: one flag byte, four bytes of length (big-endian),
 * then so much JSON. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CONNECT_HEAD       5
#define CONNECT_COMPRESSED 0x01u /* never used here, and refused */
#define CONNECT_END        0x02u /* the last frame of an answer: {} or {"error":{…}} */
#define CONNECT_FRAME_MAX  (16u << 20)

struct connect_frame {
    uint8_t flags;
    const char *data; /* into what was read */
    size_t len;
};
/* The frame at the start of `data`: its length with the head; 0: more is needed; negative:
 * compressed, unknown flags, or longer than `max`. */
ssize_t connect_frame_parse(const char *data, size_t len, size_t max, struct connect_frame *ret,
                            struct err *err);
/* A whole body that must be exactly one message, as the requests of streams are. */
int connect_body_parse(const char *data, size_t len, size_t max, struct connect_frame *ret,
                       struct err *err);
void connect_frame_write(struct buf *out, uint8_t flags, const char *data, size_t len);

/* Cuts a stream into frames. */
struct connect_reader {
    struct buf in;
    size_t at;
};
void connect_reader_init(struct connect_reader *r);
void connect_reader_done(struct connect_reader *r);
void connect_reader_feed(struct connect_reader *r, const char *data, size_t len);
/* 1: a frame, valid until the next feed; 0: not yet; negative: nonsense. */
int connect_reader_next(struct connect_reader *r, struct connect_frame *ret, struct err *err);
/* Something is left that is no whole frame: the stream was cut off. */
bool connect_reader_pending(const struct connect_reader *r);
