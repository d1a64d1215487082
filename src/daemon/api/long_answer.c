/* Long answers, a piece at a time: see long_answer.h. */
#include "daemon/api/long_answer.h"

#include "base/base64.h"
#include "base/clock.h"
#include "base/container.h"
#include "base/json_build.h"

#define SHORT_MAX (64u << 10) /* written in one go: each byte may become six */
#define INLINE    1024u       /* a text that is not worth a place of its own */
#define PIECE     (15u << 10) /* a multiple of three, for base64 */
#define TURN_US   1000u       /* then others have theirs */

/* ---- what it is made of ---- */

static void on_turn(struct loop_timer *t);

void long_begin(struct long_answer *a, struct activity *of, size_t cap, struct json_writer *w)
{
    *a = (struct long_answer){.of = of,
                              .turn = {.fn = on_turn, .share = account_share(of->hold.account)}};
    activity_buf(of, &a->frame, cap);
    jw_init(w, &a->frame, false);
}

static void put(struct long_answer *a, struct json_writer *w, const char *data, size_t len,
                enum long_form form)
{
    if (a->count == LONG_TEXTS_MAX)
        a->frame.failed = true;
    else if (len)
        a->texts[a->count++] = (struct long_text){a->frame.len, data, len, form};
    w->after_key = false;
    w->need_comma = true;
}

void long_string(struct long_answer *a, struct json_writer *w, const char *data, size_t len,
                 enum long_form form)
{
    if (form == LONG_NOW || (form == LONG_TEXT && len <= INLINE)) {
        jw_bytes(w, data, len);
        return;
    }
    buf_chr(&a->frame, '"');
    put(a, w, data, len, form);
    buf_chr(&a->frame, '"');
}

void long_json(struct long_answer *a, struct json_writer *w, const struct buf *json)
{
    put(a, w, json->data, json->len, LONG_JSON);
}

/* ---- how it is written ---- */

static bool is_complete(const struct long_answer *a)
{
    return a->next == a->count && a->framed == a->frame.len;
}

static void write_text(struct long_answer *a, struct buf *out)
{
    const struct long_text *t = &a->texts[a->next];
    const char *from = t->data + a->written;
    size_t left = t->len - a->written, n = left < PIECE ? left : PIECE;
    if (t->form == LONG_TEXT)
        n = json_write_some(out, from, left, n);
    else if (t->form == LONG_BASE64)
        base64_encode(from, n, out);
    else
        buf_add(out, from, n);
    a->written += n;
    if (a->written < t->len)
        return;
    a->written = 0;
    a->next++;
}

static void write_piece(struct long_answer *a, struct buf *out)
{
    size_t before = out->len;
    while (out->len - before < PIECE && !is_complete(a) && !out->failed) {
        size_t end = a->next < a->count ? a->texts[a->next].at : a->frame.len;
        size_t n = end - a->framed < PIECE ? end - a->framed : PIECE;
        if (n)
            buf_add(out, a->frame.data + a->framed, n);
        else
            write_text(a, out);
        a->framed += n;
    }
}

bool long_is_short(const struct long_answer *a)
{
    size_t len = a->frame.len;
    for (unsigned i = 0; i < a->count; i++)
        len += a->texts[i].len;
    return len <= SHORT_MAX;
}

void long_write(struct long_answer *a, struct buf *out)
{
    while (!is_complete(a) && !out->failed)
        write_piece(a, out);
}

/* ---- how it is sent ---- */

/* Without a call the activity has ended, or is about to. */
static void send_some(struct long_answer *a)
{
    uint64_t began = clock_us();
    bool more = true;
    while (more && a->of->call && !is_complete(a) && clock_us() - began < TURN_US) {
        struct buf piece cleanup_buf = {0};
        buf_init(&piece, SIZE_MAX / 2);
        write_piece(a, &piece);
        if (piece.failed) { /* half an answer is none, and cannot be taken back */
            call_abort(activity_end(a->of));
            return;
        }
        more = exchange_write(a->of->call->x, piece.data, piece.len);
    }
    if (!a->of->call)
        return;
    if (is_complete(a))
        a->sent(a);
    else if (more)
        loop_timer_set(a->of->loop, &a->turn, 1);
}

static void on_turn(struct loop_timer *t)
{
    send_some(container_of(t, struct long_answer, turn));
}

void long_send(struct long_answer *a, void (*sent)(struct long_answer *a))
{
    a->sent = sent;
    send_some(a);
}

void long_resume(struct long_answer *a)
{
    if (a->sent && !a->turn.due_ms)
        send_some(a);
}

void long_stop(struct long_answer *a)
{
    if (a->of)
        loop_timer_cancel(a->of->loop, &a->turn);
}

void long_done(struct long_answer *a)
{
    buf_done(&a->frame);
}

static void on_sent(struct long_answer *a)
{
    call_end(activity_end(a->of));
}

void long_reply(struct long_answer *a)
{
    struct activity *of = a->of;
    struct buf out cleanup_buf = {0};
    if (!a->frame.failed && !long_is_short(a)) {
        exchange_begin(of->call->x, 200, "application/json", -1);
        long_send(a, on_sent);
        return;
    }
    struct call *call = of->call;
    call_buf(call, &out, 8 * SHORT_MAX);
    long_write(a, &out);
    out.failed |= a->frame.failed;
    activity_end(of);
    call_reply(call, 200, &out);
}
