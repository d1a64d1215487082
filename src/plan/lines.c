/* The streams behind the frames: buffers, credit, and the pipes at their ends. The same on both
 * sides; no heap, no locks. */
#include "plan/lines.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Room that data may not use, so that a frame of control can always be sent soon. */
#define WORDS_ROOM 2048u

void lines_init(struct lines *l, int fd, int (*hear)(void *ctx, const struct lines_frame *frame),
                void *ctx)
{
    l->fd = fd;
    l->hear = hear;
    l->ctx = ctx;
    l->in_len = l->out_at = l->out_len = 0;
    for (unsigned i = 0; i < LINES_CHANNELS; i++) {
        memset(&l->channels[i], 0, offsetof(struct lines_channel, data));
        l->channels[i].fd = -1;
    }
}

void lines_open(struct lines *l, unsigned channel, enum lines_way way, int fd)
{
    struct lines_channel *c = &l->channels[channel];
    c->way = way;
    c->fd = fd;
    c->credit = LINES_WINDOW;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void lines_close(struct lines *l)
{
    close_fd(&l->fd);
    for (unsigned i = 0; i < LINES_CHANNELS; i++)
        close_fd(&l->channels[i].fd);
}

static bool again(ssize_t n)
{
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

static size_t room(const struct lines *l)
{
    return sizeof l->out - l->out_len;
}

static bool put(struct lines *l, enum lines_type type, unsigned channel, const void *data,
                size_t len)
{
    if (l->fd < 0 || room(l) < LINES_HEAD + len)
        return false;
    l->out_len += lines_write(l->out + l->out_len, type, channel, data, len);
    return true;
}

bool lines_say(struct lines *l, enum lines_type type, const void *data, size_t len)
{
    return put(l, type, 0, data, len);
}

/* Nothing more comes, and what came goes on. */
static void end_stream(struct lines *l)
{
    close_fd(&l->fd);
    l->out_at = l->out_len = 0;
    for (unsigned i = 0; i < LINES_CHANNELS; i++)
        l->channels[i].over |= l->channels[i].way == LINES_IN;
}

/* ---- to the stream ---- */

static void send_out(struct lines *l)
{
    if (l->fd < 0 || l->out_at == l->out_len)
        return;
    ssize_t n = write(l->fd, l->out + l->out_at, l->out_len - l->out_at);
    if (n < 0 && !again(n)) {
        end_stream(l);
        return;
    }
    l->out_at += n > 0 ? (size_t)n : 0;
    l->out_len -= l->out_at;
    memmove(l->out, l->out + l->out_at, l->out_len);
    l->out_at = 0;
}

static bool may_read(const struct lines *l, const struct lines_channel *c)
{
    return c->way == LINES_OUT && c->fd >= 0 && c->credit > 0 && l->fd >= 0 &&
           room(l) > LINES_HEAD + WORDS_ROOM;
}

/* True: there may be more. */
static bool take_from(struct lines *l, unsigned i)
{
    struct lines_channel *c = &l->channels[i];
    uint8_t piece[LINES_PIECE];
    if (!may_read(l, c))
        return false;
    size_t most = room(l) - LINES_HEAD - WORDS_ROOM;
    most = most < sizeof piece ? most : sizeof piece;
    most = most < c->credit ? most : c->credit;
    ssize_t n = read(c->fd, piece, most);
    c->due = n > 0 && (uint64_t)n < c->due ? c->due - (uint64_t)n : 0;
    if (again(n))
        return false;
    if (n <= 0) { /* of a terminal whose other side has gone it is an error */
        close_fd(&c->fd);
        c->gone = true;
        return false;
    }
    put(l, LINES_DATA, i, piece, (size_t)n);
    c->credit -= (uint32_t)n;
    return true;
}

/* What is due and had no room so far. */
static void say_due(struct lines *l, unsigned i)
{
    struct lines_channel *c = &l->channels[i];
    uint32_t more = c->owed;
    if (c->gone && put(l, c->way == LINES_IN ? LINES_GONE : LINES_END, i, NULL, 0)) {
        c->gone = false;
        c->over |= c->way == LINES_OUT;
    }
    if (more >= LINES_WINDOW / 2 && !c->over && put(l, LINES_CREDIT, i, &more, sizeof more)) {
        c->credit += more;
        c->owed = 0;
    }
}

/* ---- from the stream ---- */

static void write_on(struct lines_channel *c)
{
    if (c->len > 0 && c->fd >= 0) {
        ssize_t n = write(c->fd, c->data + c->at, c->len);
        if (n < 0 && !again(n)) {
            close_fd(&c->fd);
            c->gone = !c->over;
        }
        c->at += n > 0 ? (size_t)n : 0;
        c->len -= n > 0 ? (size_t)n : 0;
        c->owed += n > 0 ? (uint32_t)n : 0;
    }
    if (c->fd < 0) { /* nobody takes it */
        c->owed += (uint32_t)c->len;
        c->len = 0;
    }
    if (c->over && c->len == 0 && c->fd >= 0) {
        shutdown(c->fd, SHUT_WR); /* of a connection it is one direction alone */
        close_fd(&c->fd);
    }
}

/* VM-23 */
static int take_data(struct lines_channel *c, const struct lines_frame *f)
{
    if (c->way != LINES_IN || c->over || f->len > c->credit)
        return -EPROTO;
    c->credit -= (uint32_t)f->len;
    memmove(c->data, c->data + c->at, c->len);
    c->at = 0;
    memcpy(c->data + c->len, f->data, f->len);
    c->len += f->len;
    write_on(c);
    return 0;
}

static int take_credit(struct lines_channel *c, const struct lines_frame *f)
{
    uint32_t more;
    memcpy(&more, f->data, sizeof more);
    if (c->way != LINES_OUT || more > LINES_WINDOW - c->credit)
        return -EPROTO;
    c->credit += more;
    return 0;
}

static int take(struct lines *l, const struct lines_frame *f)
{
    struct lines_channel *c = &l->channels[f->channel];
    switch (f->type) {
    case LINES_DATA:
        return take_data(c, f);
    case LINES_CREDIT:
        return take_credit(c, f);
    case LINES_END:
        if (c->way != LINES_IN || c->over)
            return -EPROTO;
        c->over = true;
        c->gone = false;
        write_on(c);
        return 0;
    case LINES_GONE:
        if (c->way != LINES_OUT)
            return -EPROTO;
        close_fd(&c->fd);
        c->over = true;
        c->gone = false;
        return 0;
    default:
        return l->hear(l->ctx, f);
    }
}

static int take_frames(struct lines *l)
{
    struct lines_frame f;
    size_t at = 0;
    int n;
    while ((n = lines_parse(l->in + at, l->in_len - at, &f)) > 0) {
        int r = take(l, &f);
        if (r < 0)
            return r;
        at += (size_t)n;
    }
    l->in_len -= at;
    memmove(l->in, l->in + at, l->in_len);
    return n;
}

static int receive(struct lines *l)
{
    if (l->fd < 0)
        return 0;
    ssize_t n = read(l->fd, l->in + l->in_len, sizeof l->in - l->in_len);
    if (again(n))
        return 0;
    if (n <= 0) {
        end_stream(l);
        return 0;
    }
    l->in_len += (size_t)n;
    int r = take_frames(l);
    if (r < 0)
        lines_close(l);
    return r < 0 ? r : 0;
}

/* ---- both ---- */

void lines_watch(const struct lines *l, struct pollfd fds[LINES_FDS])
{
    short wants = (short)(POLLIN | (l->out_len > 0 ? POLLOUT : 0));
    fds[0] = (struct pollfd){.fd = l->fd, .events = wants};
    for (unsigned i = 0; i < LINES_CHANNELS; i++) {
        const struct lines_channel *c = &l->channels[i];
        short events = (short)(may_read(l, c)                 ? POLLIN
                               : c->way == LINES_IN && c->len ? POLLOUT
                                                              : 0);
        fds[1 + i] = (struct pollfd){.fd = events ? c->fd : -1, .events = events};
    }
}

int lines_step(struct lines *l, const struct pollfd fds[LINES_FDS])
{
    if (fds[0].revents & (POLLIN | POLLERR | POLLHUP)) {
        int r = receive(l);
        if (r < 0)
            return r;
    }
    for (unsigned i = 0; i < LINES_CHANNELS; i++) {
        struct lines_channel *c = &l->channels[i];
        if (c->way == LINES_IN)
            write_on(c);
        else if (fds[1 + i].revents)
            take_from(l, i);
        say_due(l, i);
    }
    send_out(l);
    return 0;
}

void lines_note_due(struct lines *l)
{
    for (unsigned i = 0; i < LINES_CHANNELS; i++) {
        struct lines_channel *c = &l->channels[i];
        int waiting = 0;
        if (c->way == LINES_OUT && c->fd >= 0 && ioctl(c->fd, FIONREAD, &waiting) == 0)
            c->due = waiting > 0 ? (uint64_t)waiting : 0;
    }
}

bool lines_sent_due(const struct lines *l)
{
    for (unsigned i = 0; i < LINES_CHANNELS; i++)
        if (l->channels[i].fd >= 0 && l->channels[i].due > 0)
            return false;
    return true;
}

bool lines_written(const struct lines *l)
{
    for (unsigned i = 0; i < LINES_CHANNELS; i++)
        if (l->channels[i].len > 0)
            return false;
    return true;
}

void lines_drain(struct lines *l)
{
    for (unsigned i = 0; i < LINES_CHANNELS; i++) {
        while (take_from(l, i))
            send_out(l);
        say_due(l, i);
    }
    send_out(l);
}

bool lines_over(const struct lines *l, enum lines_way way)
{
    for (unsigned i = 0; i < LINES_CHANNELS; i++) {
        const struct lines_channel *c = &l->channels[i];
        if (c->way == way && (way == LINES_OUT ? !c->over : c->fd >= 0))
            return false;
    }
    return l->out_len == 0;
}
