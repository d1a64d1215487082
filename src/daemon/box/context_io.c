/* What an interpreter says, in its order: output first, then the words that followed it.
 *
 * The driver flushes stdout and stderr before each word. They travel on pipes of their own, so when
 * a word is here, what stands in the pipes at that moment is what came before it; that much is read
 * and delivered, and then the word is. A thread that prints without end cannot hold the word up. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/container.h"
#include "daemon/box/context_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#define STEPS_PER_ROUND 64u
#define STEPS_AT_LEAST  8u
#define ROUND_US        2000u       /* then others have their turn */
#define PIECE           (32u << 10) /* of a frame, understood in one step */

static void on_requests(struct loop_io *io, uint32_t events);
static void on_channel(struct loop_io *io, uint32_t events);
static void on_stream(struct loop_io *io, uint32_t events);
static void on_again(struct loop_timer *t);

void context_io_init(struct context *c)
{
    c->requests = (struct loop_io){.fd = -1, .fn = on_requests};
    c->channel = (struct loop_io){.fd = -1, .fn = on_channel};
    for (unsigned i = 0; i < 2; i++)
        c->out[i] = (struct context_stream){.io = {.fd = -1, .fn = on_stream}, .context = c};
    c->again.fn = on_again;
}

static void close_io(struct context *c, struct loop_io *io)
{
    loop_close(c->box->core->loop, io);
}

static void word_done(struct context *c, struct interp_said *word)
{
    hold_sub(&c->hold, json_memory(word->tree));
    interp_said_done(word);
}

/* Whether or not it was understood: its tree is the word's from now on, or nobody's. */
static void reading_done(struct context *c)
{
    interp_parsing_end(&c->parsing);
    hold_sub(&c->hold, c->parsed);
    c->parsed = 0;
    c->reading = false;
}

void context_io_close(struct context *c)
{
    close_io(c, &c->requests);
    close_io(c, &c->channel);
    close_io(c, &c->out[0].io);
    close_io(c, &c->out[1].io);
    loop_timer_cancel(c->box->core->loop, &c->again);
    c->out[0].owed = c->out[1].owed = 0;
    if (c->reading)
        reading_done(c);
    if (c->has_word)
        word_done(c, &c->word);
    c->has_word = c->blocked = false;
}

int context_io_open(struct context *c, const int fds[INTERP_ENDS], struct err *err)
{
    bool good = true;
    struct loop_share *share = account_share(c->box->account);
    c->requests.share = c->channel.share = c->out[0].io.share = c->out[1].io.share = share;
    c->again.share = share;
    c->requests.fd = fds[INTERP_REQUESTS];
    c->channel.fd = fds[INTERP_ANSWERS];
    c->out[0].io.fd = fds[INTERP_STDOUT];
    c->out[1].io.fd = fds[INTERP_STDERR];
    for (unsigned i = 0; i < INTERP_ENDS; i++)
        good = good && fds[i] >= 0 && fd_nonblocking(fds[i]) == 0;
    if (!good)
        return err_set(err, ERR_PROTOCOL, "the interpreter came without its channel");
    context_watch(c);
    return 0;
}

void context_watch(struct context *c)
{
    struct loop *l = c->box->core->loop;
    bool sending = c->running && c->first && c->sent < c->first->frame.len;
    if (c->requests.fd >= 0)
        loop_watch(l, &c->requests, sending ? EPOLLOUT : 0);
    if (c->channel.fd >= 0)
        loop_watch(l, &c->channel, c->blocked || c->reading ? 0 : EPOLLIN);
    for (unsigned i = 0; i < 2; i++)
        if (c->out[i].io.fd >= 0)
            loop_watch(l, &c->out[i].io, c->blocked ? 0 : EPOLLIN);
}

/* ---- one step of the pump ---- */

static void note_owed(struct context *c)
{
    for (unsigned i = 0; i < 2; i++)
        c->out[i].owed = fd_waiting(c->out[i].io.fd);
}

/* True: something was read. */
static bool read_stream(struct context *c, unsigned i)
{
    struct context_stream *s = &c->out[i];
    char *room = c->box->core->io_room;
    if (s->io.fd < 0)
        return false;
    ssize_t n = read(s->io.fd, room, IO_SIZE);
    if (n < 0 && errno == EINTR)
        return true;
    if (n <= 0) {
        s->owed = 0;
        if (n == 0 || errno != EAGAIN)
            close_io(c, &s->io);
        return false;
    }
    s->owed = (uint64_t)n < s->owed ? s->owed - (uint64_t)n : 0;
    execution_output(c, (int)i + 1, room, (size_t)n);
    return true;
}

/* A word that its key has no room for is left out, and the client is told, as the driver does it
 * with what is too large for a frame. */
static void say_left_out(struct context *c, size_t len)
{
    struct err why = ERR_INIT;
    char text[sizeof why.message + sizeof why.hint + 64];
    if (hold_refusal(&c->hold, &why) == 0)
        hold_add(&c->hold, account_room(c->hold.account, ACCOUNT_BYTES) + 1, &why);
    int n = snprintf(text, sizeof text, "[%zu bytes of a result were left out: %s; %s]\n", len,
                     why.message, why.hint);
    execution_output(c, 2, text, (size_t)n);
}

/* 1: a frame is here, or one was left out; 0: none, negative: lost. */
static int next_frame(struct context *c, struct err *err)
{
    const char *text;
    uint64_t room = account_room(c->hold.account, ACCOUNT_BYTES);
    int r = interp_reader_next(&c->reader, &text, &c->frame, err);
    size_t dropped = interp_reader_dropped(&c->reader);
    if (dropped)
        say_left_out(c, dropped);
    if (r <= 0)
        return r;
    /* The text is the reader's own, and nothing is read while there is a word. */
    r = interp_parsing_begin(&c->parsing, (char *)(uintptr_t)text, c->frame,
                             room < SIZE_MAX ? (size_t)room + 1 : 0, err);
    c->reading = r >= 0;
    return r < 0 ? r : 1;
}

/* What the tree takes is on the account as it grows: others of the same key may be read in turn. */
static bool hold_tree(struct context *c)
{
    size_t now = interp_parsing_memory(&c->parsing);
    if (now > c->parsed && hold_add(&c->hold, now - c->parsed, NULL) < 0)
        return false;
    c->parsed = now > c->parsed ? now : c->parsed;
    return true;
}

/* Some of the frame that is here: it may be long, and others are served meanwhile. 1: go on. */
static int next_word(struct context *c, struct err *err)
{
    int r = interp_parsing_next(&c->parsing, PIECE, &c->word, err);
    bool fits = r == 0 && hold_tree(c);
    if (fits)
        return 1;
    reading_done(c);
    if (r < 0 && err->code != ERR_LIMIT)
        return r;
    if (r > 0)
        fits = hold_add(&c->hold, json_memory(c->word.tree), NULL) >= 0;
    if (!fits) {
        *err = (struct err)ERR_INIT;
        interp_said_done(&c->word);
        say_left_out(c, c->frame);
        return 1;
    }
    c->has_word = true;
    if (c->word.word != INTERP_COUNTED) /* which comes before all output */
        note_owed(c);
    return 1;
}

void context_lose_touch(struct context *c)
{
    close_io(c, &c->requests);
    if (c->exited)
        return;
    c->exited = true;
    loop_timer_set(c->box->core->loop, &c->timer, FAREWELL_MS);
    note_owed(c);
}

/* 1: bytes came, 0: none for now or ever. */
static int read_channel(struct context *c, struct err *err)
{
    void *room;
    size_t len;
    if (c->channel.fd < 0)
        return 0;
    int r = interp_reader_room(&c->reader, &room, &len, err);
    if (r < 0)
        return r;
    ssize_t n = read(c->channel.fd, room, len);
    if (n > 0) {
        interp_reader_add(&c->reader, (size_t)n);
        return 1;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    close_io(c, &c->channel);
    context_lose_touch(c);
    return 0;
}

static void say_word(struct context *c)
{
    /* The callee may end the context: copy the message first. */
    struct interp_said word = c->word;
    unsigned spawn = c->spawn;
    bool done = true;
    c->has_word = false;
    if (word.word == INTERP_READY)
        context_tell_ready(c);
    else
        done = execution_hear(c, &word);
    if (done || c->state == CONTEXT_LOST || c->spawn != spawn) {
        word_done(c, &word);
        return;
    }
    c->word = word;
    c->has_word = true;
}

/* 1: go on, 0: nothing left to do for now, negative: lost. */
static int step(struct context *c, struct err *err)
{
    for (unsigned i = 0; i < 2; i++)
        if (c->out[i].owed > 0)
            return read_stream(c, i), 1;
    if (c->has_word) {
        say_word(c);
        return 1;
    }
    if (c->reading)
        return next_word(c, err);
    int r = next_frame(c, err);
    return r != 0 ? r : read_channel(c, err);
}

static void farewell(struct context *c)
{
    struct err err = ERR_INIT;
    int s = c->status;
    const char *name = interp_language_name(c->info.language);
    if (!c->exit_known || c->blocked || c->reading || c->has_word)
        return;
    /* A pump ends the channel when it has carried all that was written before. */
    if (c->box->pumped && c->channel.fd >= 0 && !c->exit_late)
        return;
    if (!c->exit_noted) {
        c->exit_noted = true;
        note_owed(c);
        context_pump_soon(c);
        return;
    }
    if (c->oom) {
        char who[64];
        snprintf(who, sizeof who, "the %s interpreter", name);
        box_explain_oom(c->box, who, &err);
        context_renew(c, &err);
        return;
    }
    if (context_relieve(c))
        return;
    if (WIFSIGNALED(s))
        err_set(&err, ERR_INTERRUPTED, "the %s interpreter was killed by signal %d", name,
                WTERMSIG(s));
    else
        err_set(&err, ERR_INTERRUPTED, "the %s interpreter ended (status %d)", name,
                WEXITSTATUS(s));
    context_lose(c, &err);
}

void context_pump(struct context *c)
{
    struct err err = ERR_INIT;
    int r = 1;
    if (c->pumping || c->state == CONTEXT_LOST)
        return;
    uint64_t began = clock_us();
    c->pumping = true;
    for (unsigned i = 0; i < STEPS_PER_ROUND && r > 0 && !c->blocked && c->state != CONTEXT_LOST &&
                         (i < STEPS_AT_LEAST || clock_us() - began < ROUND_US);
         i++)
        r = step(c, &err);
    c->pumping = false;
    if (c->state == CONTEXT_LOST)
        return;
    if (r < 0) {
        err_wrap(&err, "the interpreter of context %s spoke nonsense", c->info.id);
        context_lose(c, &err);
        return;
    }
    context_watch(c);
    if (r > 0 && !c->blocked)
        context_pump_soon(c);
    else if (r == 0 && c->exited)
        farewell(c);
}

/* ---- events ---- */

void context_pump_soon(struct context *c)
{
    loop_timer_set(c->box->core->loop, &c->again, 1);
}

static void on_again(struct loop_timer *t)
{
    context_pump(container_of(t, struct context, again));
}

static void on_channel(struct loop_io *io, uint32_t events)
{
    (void)events;
    context_pump(container_of(io, struct context, channel));
}

static void on_requests(struct loop_io *io, uint32_t events)
{
    (void)events;
    execution_send(container_of(io, struct context, requests));
}

static void on_stream(struct loop_io *io, uint32_t events)
{
    (void)events;
    struct context_stream *s = container_of(io, struct context_stream, io);
    struct context *c = s->context;
    if (c->running && !c->counted)
        context_pump(c); /* its first word comes first */
    if (!c->blocked && c->state != CONTEXT_LOST)
        read_stream(c, (unsigned)(s - c->out));
    context_watch(c);
}
