/* A process' output to those who are attached, and their input to it.
 *
 * IO-1  A client that cannot take more stops the reading of all; the process waits. Nobody
 * attached: everything is read and dropped, so that a process never hangs because its client left.
 * IO-2  What the process wrote before it ended is delivered before its end is; what its children
 *       write while they hold its pipes is awaited for a moment, then read and dropped, so that
 *       they do not die of a broken pipe.
 * IO-3  Input is taken whole or refused.
 * IO-4  What is read goes to each client in turn: the more of them there are, the less is read at
 * once, so that the front is back for others as soon as with one. */
#include "base/cleanup.h"
#include "base/container.h"
#include "daemon/base/turn.h"
#include "daemon/box/process_internal.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#define READS_PER_ROUND 4u
#define LISTENERS_FEW   8u   /* to so many each piece goes as it comes */
#define PIECE_LEAST     512u /* of output, to however many */

/* ---- output ---- */

static void deliver(struct process *p, int stream, const char *data, size_t len)
{
    process_log_add(p, data, len);
    p->came = true;
    if (p->ended)
        return;
    for (struct process_client *cl = p->clients; cl; cl = cl->next) {
        if (cl->detached || cl->ended || cl->sink.output(cl->sink.ctx, stream, data, len))
            continue;
        if (!cl->detached && !cl->blocked) {
            cl->blocked = true;
            p->blocked++;
        }
    }
}

static void process_stream_close(struct process_stream *s)
{
    if (s->io.fd < 0)
        return;
    loop_close(s->process->box->core->loop, &s->io);
    s->owed = 0;
    process_fds_closed(s->process, 1);
}

void process_fds_closed(struct process *p, unsigned count)
{
    count = count < p->descriptors ? count : p->descriptors;
    p->descriptors -= count;
    account_return(p->box->account, ACCOUNT_DESCRIPTORS, count);
}

static void watch(struct process_stream *s)
{
    struct process *p = s->process;
    if (s->io.fd >= 0)
        loop_watch(p->box->core->loop, &s->io, p->blocked && !p->ended ? 0 : EPOLLIN);
}

/* IO-4 */
static size_t piece_of(const struct process *p)
{
    size_t listeners = 0;
    for (const struct process_client *cl = p->clients; cl; cl = cl->next)
        listeners += !cl->detached && !cl->ended;
    if (listeners <= LISTENERS_FEW)
        return IO_SIZE;
    size_t piece = IO_SIZE * LISTENERS_FEW / listeners;
    return piece > PIECE_LEAST ? piece : PIECE_LEAST;
}

static void on_output(struct loop_io *io, uint32_t events)
{
    (void)events;
    struct process_stream *s = container_of(io, struct process_stream, io);
    struct process *p = s->process;
    struct core *c = p->box->core;
    size_t most = piece_of(p);
    unsigned reads = most == IO_SIZE ? READS_PER_ROUND : 1;
    for (unsigned i = 0; i < reads && s->io.fd >= 0 && (!p->blocked || p->ended); i++) {
        ssize_t n = read(s->io.fd, c->io_room, most);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            s->owed = p->pumped ? s->owed : 0;
            break;
        }
        if (n <= 0) {
            process_stream_close(s);
            break;
        }
        s->owed = (uint64_t)n < s->owed ? s->owed - (uint64_t)n : 0;
        deliver(p, s->number, c->io_room, (size_t)n);
        if ((size_t)n < most / 2 && s->owed == 0)
            break; /* most likely all there was */
    }
    watch(s);
    process_finish(p);
}

void process_resume(struct process_client *cl)
{
    struct process *p = cl->process;
    if (!p || !cl->blocked || cl->detached)
        return;
    cl->blocked = false;
    if (--p->blocked > 0)
        return;
    watch(&p->out[0]);
    watch(&p->out[1]);
    process_finish(p);
}

/* What a pump has of it cannot be asked for. */
void process_io_exited(struct process *p)
{
    uint64_t pump = p->pumped ? PUMP_HOLDS : 0;
    for (unsigned i = 0; i < 2; i++)
        p->out[i].owed = p->out[i].io.fd >= 0 ? fd_waiting(p->out[i].io.fd) + pump : 0;
}

/* A pump carries what it has at once: when nothing came for a while, there is nothing. One that is
 * held up is not waited for, nor is a child that goes on writing. */
bool process_io_owes(struct process *p)
{
    bool more = p->out[0].owed > 0 || p->out[1].owed > 0;
    if (!p->pumped)
        return false;
    if (more && (p->blocked || (p->came && p->graces++ < GRACES_MAX))) {
        p->came = false;
        return true;
    }
    p->out[0].owed = p->out[1].owed = 0;
    return false;
}

/* ---- input ---- */

static void tell_waits(struct process *p, bool all)
{
    struct input_wait **at = &p->waits, *w;
    while ((w = *at)) {
        if (!all && w->until > p->taken) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        w->fn(w->ctx);
        free(w);
        at = &p->waits; /* fn may have changed the list */
    }
}

static size_t queue_len(const struct process *p)
{
    return p->queue.len - p->queue_at;
}

static void queue_drop(struct process *p)
{
    buf_release(&p->queue);
    p->queue_at = 0;
}

static void close_input(struct process *p)
{
    if (p->in.fd >= 0) {
        loop_close(p->box->core->loop, &p->in);
        process_fds_closed(p, 1);
    }
    queue_drop(p);
}

void process_input_done(struct process *p)
{
    close_input(p);
    tell_waits(p, true);
}

/* 0, or -EPIPE. */
static int write_queue(struct process *p)
{
    ssize_t n = turn_write(p->in.fd, p->queue.data + p->queue_at, queue_len(p));
    if (n < 0)
        return (int)n;
    p->queue_at += (size_t)n;
    p->taken += (uint64_t)n;
    if (queue_len(p) == 0)
        queue_drop(p);
    return 0;
}

static void watch_input(struct process *p)
{
    loop_watch(p->box->core->loop, &p->in, queue_len(p) ? EPOLLOUT : 0);
}

static void on_input(struct loop_io *io, uint32_t events)
{
    struct process *p = container_of(io, struct process, in);
    int r = events & EPOLLERR ? -EPIPE : write_queue(p);
    if (r < 0 || (queue_len(p) == 0 && p->close_when_empty)) {
        process_input_done(p);
        return;
    }
    watch_input(p);
    tell_waits(p, false);
}

/* Takes bytes [from, to) out of the queue, counted from its first that is still there. */
static void queue_cut(struct process *p, size_t from, size_t to)
{
    char *first = p->queue.data + p->queue_at;
    memmove(first + from, first + to, queue_len(p) - to);
    p->queue.len -= to - from;
}

/* Drops what was written already, then appends. */
static bool queue_add(struct process *p, const char *data, size_t len)
{
    buf_drop(&p->queue, p->queue_at);
    p->queue_at = 0;
    buf_add(&p->queue, data, len);
    if (p->queue.failed) {
        hold_refusal(&p->hold, NULL);
        p->queue.failed = false;
        if (!p->queue.len)
            queue_drop(p);
        return false;
    }
    p->queued += len;
    return true;
}

/* All of it or nothing: half an input that was refused could not be sent again. What is this short
 * a pipe takes whole, or not at all. */
static bool can_take(struct process *p, size_t len)
{
    return queue_len(p) == 0 ? len <= PIPE_BUF || len < account_room(p->hold.account, ACCOUNT_BYTES)
                             : queue_len(p) + len <= INPUT_MAX;
}

int process_input(struct process *p, const void *data, size_t len, void (*fn)(void *ctx), void *ctx)
{
    const char *bytes = data;
    if (p->in.fd < 0 || p->close_when_empty)
        return -EPIPE;
    if (!can_take(p, len)) {
        p->hold.wanted = queue_len(p) == 0 ? len : 0;
        hold_refusal(&p->hold, NULL);
        return -ENOBUFS;
    }
    if (queue_len(p) == 0) {
        ssize_t n = turn_write(p->in.fd, bytes, len);
        if (n < 0) {
            process_input_done(p);
            return -EPIPE;
        }
        bytes += n;
        len -= (size_t)n;
        p->queued += (uint64_t)n;
        p->taken += (uint64_t)n;
    }
    if (len == 0)
        return 0;
    uint64_t from = p->queued;
    struct input_wait *w = malloc(sizeof *w);
    if (!w || !queue_add(p, bytes, len)) {
        free(w);
        return -ENOBUFS;
    }
    *w = (struct input_wait){p->waits, from, p->queued, fn, ctx};
    p->waits = w;
    watch_input(p);
    return -EAGAIN;
}

/* The client that sent this input is gone: drop what was not written yet. */
static void input_take_back(struct process *p, const struct input_wait *gone)
{
    uint64_t from = gone->from > p->taken ? gone->from : p->taken;
    if (gone->until <= from || p->in.fd < 0)
        return;
    uint64_t len = gone->until - from;
    queue_cut(p, (size_t)(from - p->taken), (size_t)(gone->until - p->taken));
    p->queued -= len;
    for (struct input_wait *w = p->waits; w; w = w->next)
        if (w->from >= gone->until) {
            w->from -= len;
            w->until -= len;
        }
    if (!queue_len(p))
        queue_drop(p);
}

void process_input_forget(struct process *p, void *ctx)
{
    for (struct input_wait **at = &p->waits; *at;) {
        struct input_wait *w = *at;
        if (w->ctx != ctx) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        input_take_back(p, w);
        free(w);
    }
    if (p->in.fd >= 0 && !queue_len(p) && p->close_when_empty)
        process_input_done(p);
    else if (p->in.fd >= 0)
        watch_input(p);
}

void process_close_input(struct process *p)
{
    static const char end_of_file = 4; /* what a terminal takes for the end */
    if (p->in.fd < 0)
        return;
    if (p->tty) {
        if (write(p->in.fd, &end_of_file, 1) < 0)
            return; /* full, or gone: nothing is lost */
    } else if (queue_len(p) > 0) {
        p->close_when_empty = true;
    } else {
        process_input_done(p);
    }
}

void process_resize(struct process *p, uint16_t cols, uint16_t rows)
{
    struct winsize size = {.ws_col = cols, .ws_row = rows};
    if (p->sizes >= 0 && write(p->sizes, &size, sizeof size) < 0)
        return; /* full: those before it have not been looked at either */
}

/* ---- its descriptors ---- */

void process_io_init(struct process *p)
{
    for (unsigned i = 0; i < 2; i++)
        p->out[i] = (struct process_stream){
            .io = {.fd = -1, .fn = on_output}, .process = p, .number = (int)i + 1};
    p->in = (struct loop_io){.fd = -1, .fn = on_input};
    p->sizes = -1;
    buf_init_metered(&p->queue, SIZE_MAX / 2, &p->hold.meter);
}

/* Of a terminal, from a pump or from behind a Sentry: what comes out of it, what goes in, and its
 * size. */
static int open_terminal(struct process *p, struct wire_msg *m)
{
    if (m->fd_count < 3)
        return -EPROTO;
    p->out[0].number = 0;
    p->out[0].io.fd = wire_steal_fd(m, 0);
    p->in.fd = wire_steal_fd(m, 1);
    p->sizes = wire_steal_fd(m, 2);
    int r = fd_nonblocking(p->out[0].io.fd);
    r = r < 0 ? r : fd_nonblocking(p->in.fd);
    return r < 0 ? r : fd_nonblocking(p->sizes);
}

static int open_pipes(struct process *p, struct wire_msg *m, bool has_stdin)
{
    unsigned at = 0;
    if (m->fd_count < (has_stdin ? 3u : 2u))
        return -EPROTO;
    int r = 0;
    /* stdin, stdout, stderr; without a stdin the last two */
    if (has_stdin || m->fd_count > 2) {
        p->in.fd = wire_steal_fd(m, at++);
        r = fd_nonblocking(p->in.fd);
    }
    for (unsigned i = 0; i < 2 && r >= 0; i++) {
        p->out[i].io.fd = wire_steal_fd(m, at++);
        r = fd_nonblocking(p->out[i].io.fd);
    }
    if (!has_stdin && p->in.fd >= 0)
        close_input(p);
    else if (p->in.fd < 0)
        process_fds_closed(p, 1);
    return r;
}

int process_io_open(struct process *p, struct wire_msg *m, bool has_stdin, struct err *err)
{
    p->in.share = p->out[0].io.share = p->out[1].io.share = account_share(p->box->account);
    int r = p->tty ? open_terminal(p, m) : open_pipes(p, m, has_stdin);
    if (r < 0)
        return err_set(err, ERR_PROTOCOL, "the process came without its pipes");
    return 0;
}

void process_io_start(struct process *p)
{
    watch(&p->out[0]);
    watch(&p->out[1]);
}

void process_io_close(struct process *p)
{
    process_stream_close(&p->out[0]);
    process_stream_close(&p->out[1]);
    process_input_done(p);
    if (p->sizes >= 0)
        close(fd_steal(&p->sizes));
}
