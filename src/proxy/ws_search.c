/* Searches the messages of a WebSocket for secrets, across frames. */
#include "proxy/ws_search.h"

#include <errno.h>
#include <string.h>

struct sink {
    int (*out)(void *ctx, const char *data, size_t len);
    void *ctx;
    int last;
};

static int pass(struct ws_search *w, const char *data, size_t len, struct sink *to)
{
    const char *safe;
    size_t safe_len;
    if (redact_feed(w->redact, data, len, &safe, &safe_len, NULL) < 0)
        return -EPROTO;
    return to->last = to->out(to->ctx, safe, safe_len);
}

/* At the end of a message pass on what the search held back, instead of waiting for the next
 * one. */
static int pass_rest(struct ws_search *w, struct sink *to)
{
    const char *safe;
    size_t safe_len;
    if (redact_flush(w->redact, &safe, &safe_len) < 0)
        return -EPROTO;
    return to->last = to->out(to->ctx, safe, safe_len);
}

static unsigned head_length(const struct ws_search *w)
{
    unsigned size = w->have < 2 ? 0 : w->head[1] & 0x7f;
    return size == 127 ? 10 : size == 126 ? 4 : 2;
}

static int frame_begins(struct ws_search *w)
{
    w->inside = true;
    w->fin = w->head[0] & 0x80;
    w->control = w->head[0] & 0x08;
    w->left = w->have == 2 ? w->head[1] & 0x7f : 0;
    for (unsigned i = 2; i < w->have; i++)
        w->left = w->left << 8 | (unsigned char)w->head[i];
    return w->control ? 0 : redact_insert(w->redact, w->head, w->have, NULL);
}

static int frame_ends(struct ws_search *w, struct sink *to)
{
    int r = 0;
    if (w->control) {
        redact_text(w->redactor, w->head + 2, w->have - 2);
        r = redact_insert(w->redact, w->head, w->have, NULL);
    }
    w->inside = false;
    w->have = 0;
    if (r < 0)
        return -EPROTO;
    return !w->control && w->fin ? pass_rest(w, to) : pass(w, NULL, 0, to);
}

/* How many bytes it took, or negative. */
static ssize_t step(struct ws_search *w, const char *data, size_t len, struct sink *to)
{
    if (!w->inside) {
        w->head[w->have++] = *data;
        if (w->have < 2 || w->have < head_length(w))
            return 1;
        if (frame_begins(w) < 0)
            return -EPROTO;
        int r = w->left == 0 ? frame_ends(w, to) : 0;
        return r < 0 ? r : 1;
    }
    size_t n = w->left < len ? (size_t)w->left : len;
    int r = 0;
    if (!w->control) {
        r = pass(w, data, n, to);
    } else if (w->have + n > sizeof w->head) {
        r = -EPROTO;
    } else {
        memcpy(w->head + w->have, data, n);
        w->have += (unsigned)n;
    }
    w->left -= n;
    if (r >= 0 && w->left == 0)
        r = frame_ends(w, to);
    return r < 0 ? r : (ssize_t)n;
}

int ws_search_feed(struct ws_search *w, const char *data, size_t len,
                   int (*out)(void *ctx, const char *data, size_t len), void *ctx)
{
    struct sink to = {.out = out, .ctx = ctx, .last = 1};
    while (len > 0) {
        ssize_t n = step(w, data, len, &to);
        if (n < 0)
            return (int)n;
        data += n;
        len -= (size_t)n;
    }
    return to.last;
}
