/* One side of an HTTP session: a stream, the bytes that were read from it and not used yet, and
 * those that it has not taken yet.
 *
 * Bytes are read into a block that all sessions share and are copied only where some are left when
 * a session goes to sleep: an idle one owns no buffer. */
#pragma once

#include "base/buf.h"
#include "proxy/held.h"
#include "proxy/stream.h"

#define SIDE_READ_MAX (64u * 1024)

struct side {
    struct stream *stream; /* NULL: none */
    unsigned scratch;      /* which of the shared blocks: 0 the client's, 1 the upstream's */
    bool readable;         /* a read may bring something */
    bool eof;
    char *data; /* not used yet: `len` bytes, in the shared block or in `own` */
    size_t len;
    char *own;
    size_t own_room;
    struct held held; /* for it */
    struct buf out;   /* from out_at on: not taken yet */
    size_t out_at;
    bool wipe; /* a secret may be among them: they are not left behind in freed memory */
    uint64_t written;
};

void side_init(struct side *s, unsigned scratch);
void side_take(struct side *s, struct stream *stream); /* becomes its owner */
struct stream *side_give(struct side *s);              /* hands it on, silent */
void side_close(struct side *s);                       /* the stream and all bytes */

/* Reads at most `max` more bytes behind those that are there. 1: some came; 0: not now, or the end
 * (`eof`); negative: broken. */
int side_read(struct side *s, size_t max);
/* Bytes that somebody else has read from the stream already. */
int side_preload(struct side *s, const void *data, size_t len);
void side_used(struct side *s, size_t len);
/* Before going to sleep: what is left in the shared block moves to a buffer of its own. */
int side_keep(struct side *s);

/* Appends to what is to be written, without writing. */
void side_queue(struct side *s, const void *data, size_t len);
/* 1: all is written; 0: the other side does not take more now; negative: broken. */
int side_flush(struct side *s);
/* Queue and flush, without a copy where possible. */
int side_send(struct side *s, const void *data, size_t len);
void side_drop(struct side *s); /* what was not taken yet */
bool side_pending(const struct side *s);
