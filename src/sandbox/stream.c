/* Copies the code's output to the caller and the caller's input to the code, with limits, through
 * pipes of its own. */
#include "sandbox/stream.h"

#include "base/container.h"
#include "os/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

void stream_hash_init(struct stream_hash *h)
{
    sha256_init(&h->sha);
    h->bytes = 0;
}

void stream_hash_add(struct stream_hash *h, const void *data, size_t len)
{
    if (!h)
        return;
    sha256_add(&h->sha, data, len);
    h->bytes += len;
}

/* ---- on a loop ---- */

/* What is closed, or no longer used, is forgotten first: others may hold the same file, and then
 * the kernel would go on to report it. */
static void let_go(struct loop *loop, struct loop_io *io)
{
    if (loop)
        loop_forget(loop, io);
}

static void on_source(struct loop_io *io, uint32_t events)
{
    (void)events;
    stream_read(container_of(io, struct stream, source));
}

static void on_sink(struct loop_io *io, uint32_t events)
{
    (void)events;
    stream_write(container_of(io, struct stream, sink));
}

int stream_watch(struct stream *s, struct loop *loop, bool hushed)
{
    if (!s->loop) {
        s->source = (struct loop_io){.fd = s->from, .fn = on_source};
        s->sink = (struct loop_io){.fd = s->to, .fn = on_sink};
        s->loop = loop;
    }
    int result = loop_watch(loop, &s->source, stream_wants_read(s) ? EPOLLIN : 0);
    if (result >= 0)
        result = loop_watch(loop, &s->sink, stream_wants_write(s) && !hushed ? EPOLLOUT : 0);
    return result;
}

void stream_unwatch(struct stream *s)
{
    let_go(s->loop, &s->source);
    let_go(s->loop, &s->sink);
    s->loop = NULL;
}

static void on_feed_source(struct loop_io *io, uint32_t events)
{
    (void)events;
    feed_read(container_of(io, struct feed, source));
}

static void on_feed_sink(struct loop_io *io, uint32_t events)
{
    (void)events;
    feed_write(container_of(io, struct feed, sink));
}

int feed_watch(struct feed *f, struct loop *loop, bool hushed)
{
    if (!f->loop) {
        f->source = (struct loop_io){.fd = f->from, .fn = on_feed_source};
        f->sink = (struct loop_io){.fd = f->to, .fn = on_feed_sink};
        f->loop = loop;
    }
    int result = loop_watch(loop, &f->source, feed_wants_read(f) && !hushed ? EPOLLIN : 0);
    if (result >= 0)
        result = loop_watch(loop, &f->sink, feed_wants_write(f) ? EPOLLOUT : 0);
    return result;
}

void feed_unwatch(struct feed *f)
{
    let_go(f->loop, &f->source);
    let_go(f->loop, &f->sink);
    f->loop = NULL;
}

/* ---- from the code ---- */

void stream_init(struct stream *s)
{
    *s = (struct stream){.from = -1, .to = -1};
}

/* poll promises room for PIPE_BUF bytes in a pipe and for a few in a terminal; a regular file never
 * blocks. */
static size_t safe_chunk(int fd)
{
    struct stat sb;
    if (fd < 0 || fstat(fd, &sb) < 0 || S_ISREG(sb.st_mode))
        return STREAM_CHUNK;
    return S_ISCHR(sb.st_mode) && isatty(fd) ? 256 : PIPE_BUF;
}

void stream_open(struct stream *s, int from, int to, struct buf *keep, uint64_t limit)
{
    stream_init(s);
    s->from = from;
    s->to = to;
    s->keep = keep;
    s->limit = limit;
    s->write_chunk = safe_chunk(to);
    fcntl(from, F_SETFL, O_NONBLOCK);
}

void stream_done(struct stream *s)
{
    stream_unwatch(s);
    if (s->from >= 0)
        close(s->from);
    free(s->pending);
    stream_init(s);
}

bool stream_wants_read(const struct stream *s)
{
    return s->from >= 0 && s->pending_at == s->pending_len;
}

bool stream_wants_write(const struct stream *s)
{
    return s->to >= 0 && s->pending_at < s->pending_len;
}

bool stream_finished(const struct stream *s)
{
    return s->from < 0 && s->pending_at == s->pending_len;
}

/* Output over the limit is read and dropped: the code goes on and no memory is used. */
static size_t let_through(struct stream *s, size_t len)
{
    uint64_t room = s->limit - s->total;
    if (len > room) {
        s->truncated = true;
        len = (size_t)room;
    }
    s->total += len;
    return len;
}

void stream_read(struct stream *s)
{
    char first[4096];
    char *into = s->pending ? s->pending : first;
    ssize_t n = read(s->from, into, s->pending ? STREAM_CHUNK : sizeof first);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) { /* end, or EIO from a terminal whose other side is closed */
        let_go(s->loop, &s->source);
        close(s->from);
        s->from = -1;
        return;
    }
    /* Many programs print nothing: allocate only at the first byte. */
    if (!s->pending && (s->pending = malloc(STREAM_CHUNK)))
        into = memcpy(s->pending, first, (size_t)n);
    size_t len = let_through(s, (size_t)n);
    stream_hash_add(s->hash, into, len);
    if (s->keep) {
        buf_add(s->keep, into, len);
        if (s->keep->failed)
            s->truncated = true;
    }
    s->pending_at = 0;
    s->pending_len = s->to >= 0 && s->pending ? len : 0;
}

void stream_write(struct stream *s)
{
    size_t len = s->pending_len - s->pending_at;
    if (len > s->write_chunk)
        len = s->write_chunk;
    ssize_t n = fd_write_now(s->to, s->pending + s->pending_at, len);
    if (n == -EAGAIN || n == -EINTR)
        return;
    if (n < 0) { /* the caller is gone: drop the rest, let the code run on */
        let_go(s->loop, &s->sink);
        s->to = -1;
        s->pending_at = s->pending_len = 0;
        return;
    }
    s->pending_at += (size_t)n;
}

/* ---- to the code ---- */

void feed_init(struct feed *f)
{
    f->from = f->to = -1;
    f->len = f->at = 0;
    f->eof = f->tty = false;
    f->hash = NULL;
    f->loop = NULL;
}

bool feed_wants_read(const struct feed *f)
{
    return f->to >= 0 && f->from >= 0 && !f->eof && f->at == f->len;
}

bool feed_wants_write(const struct feed *f)
{
    return f->to >= 0 && f->at < f->len;
}

static void close_when_drained(struct feed *f)
{
    if (f->eof && f->at == f->len && f->to >= 0 && !f->tty) {
        let_go(f->loop, &f->sink);
        close(f->to);
        f->to = -1;
    }
}

void feed_read(struct feed *f)
{
    ssize_t n = fd_read_now(f->from, f->data, sizeof f->data);
    if (n == -EAGAIN || n == -EINTR)
        return;
    f->at = 0;
    f->len = n > 0 ? (size_t)n : 0;
    if (n <= 0)
        f->eof = true;
    close_when_drained(f);
}

void feed_write(struct feed *f)
{
    ssize_t n = write(f->to, f->data + f->at, f->len - f->at);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < 0) { /* the code closed its stdin */
        f->eof = true;
        f->at = f->len;
    } else {
        stream_hash_add(f->hash, f->data + f->at, (size_t)n);
        f->at += (size_t)n;
    }
    close_when_drained(f);
}

void feed_done(struct feed *f)
{
    feed_unwatch(f);
    if (f->to >= 0)
        close(f->to);
    feed_init(f);
}
