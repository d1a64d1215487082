/* Output of the code: read from a pipe, counted, kept and passed on. Input: the other way round.
 *
 * The code never holds a descriptor of the caller: not its terminal (no injected input), not its
 * files (no reading back, no seeking). Writing to the caller never blocks the supervisor, so that a
 * caller who does not read cannot stop a deadline. */
#pragma once

#include "base/buf.h"
#include "base/sha256.h"
#include "os/loop.h"

#include <stdbool.h>
#include <stdint.h>

#define STREAM_CHUNK 65536

/* What passed, for the receipt. */
struct stream_hash {
    struct sha256 sha;
    uint64_t bytes;
};
void stream_hash_init(struct stream_hash *h);
void stream_hash_add(struct stream_hash *h, const void *data, size_t len); /* h may be NULL */

struct stream {
    int from;                 /* our end of the pipe, -1 when finished */
    int to;                   /* the caller's, -1: nowhere */
    struct buf *keep;         /* captured bytes, or NULL */
    struct stream_hash *hash; /* of the bytes let through, or NULL */
    uint64_t limit;           /* bytes let through, UINT64_MAX: all */
    uint64_t total;           /* bytes let through so far */
    bool truncated;
    char *pending; /* read but not yet written */
    size_t pending_len, pending_at;
    size_t write_chunk; /* most bytes that cannot block after poll said writable */
    struct loop *loop;  /* that watches it, or NULL */
    struct loop_io source, sink;
};

void stream_init(struct stream *s);
void stream_open(struct stream *s, int from, int to, struct buf *keep, uint64_t limit);
void stream_done(struct stream *s);
bool stream_wants_read(const struct stream *s);
bool stream_wants_write(const struct stream *s);
void stream_read(struct stream *s);  /* after POLLIN or POLLHUP on from */
void stream_write(struct stream *s); /* after POLLOUT on to */
bool stream_finished(const struct stream *s);
/* From now on the loop reads and writes; to be called again after each round. `hushed`: nothing is
 * to be written for now. 0 or a negative errno. */
int stream_watch(struct stream *s, struct loop *loop, bool hushed);
void stream_unwatch(struct stream *s); /* before the loop goes */

struct feed {
    int from; /* the caller's */
    int to;   /* our end of the code's stdin, -1 when closed */
    char data[16384];
    size_t len, at;
    struct stream_hash *hash; /* of the bytes that the code was given, or NULL */
    bool eof;
    bool tty; /* `to` leads to a terminal: there the end of a file is a character */
    struct loop *loop;
    struct loop_io source, sink;
};

void feed_init(struct feed *f);
bool feed_wants_read(const struct feed *f);
bool feed_wants_write(const struct feed *f);
void feed_read(struct feed *f);
void feed_write(struct feed *f);
void feed_done(struct feed *f);
int feed_watch(struct feed *f, struct loop *loop, bool hushed); /* not to be read from for now */
void feed_unwatch(struct feed *f);
