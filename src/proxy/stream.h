/* One end of a connection, plain or TLS, non-blocking. The owner says what it waits for and is
 * called back; TLS's own needs (a write that must read first, bytes that are already decrypted) are
 * hidden here. */
#pragma once

#include "os/loop.h"

#include <stddef.h>
#include <sys/types.h>

struct tls; /* tls.c */

#define STREAM_READABLE 1u
#define STREAM_WRITABLE 2u

struct stream {
    struct loop *loop;
    struct loop_io io;
    struct tls *tls; /* NULL: plain */
    unsigned wanted; /* STREAM_* that the owner waits for */
    void (*fn)(void *ctx, unsigned ready);
    void *ctx;
    unsigned *counted;      /* goes down by one when the stream is closed, or NULL */
    struct loop_task again; /* decrypted bytes wait: readable without the kernel saying so */
};

/* Takes the descriptor, which must be non-blocking. NULL when there is no memory (fd is closed). */
struct stream *stream_new(struct loop *loop, int fd);
void stream_close(struct stream *s); /* takes NULL; safe inside its own callback */
void stream_on(struct stream *s, void (*fn)(void *ctx, unsigned ready), void *ctx);
void stream_want(struct stream *s, unsigned wanted);
/* > 0; 0: the other side has finished; -EAGAIN; another -errno (TLS failures are -EPROTO). */
ssize_t stream_read(struct stream *s, void *data, size_t len);
ssize_t stream_write(struct stream *s, const void *data, size_t len);
/* Nothing more will be written: FIN, or close_notify and FIN. */
void stream_finish(struct stream *s);
