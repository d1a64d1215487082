/* network.ask, on the side of the proxy: connections to hosts outside of the rules wait here until
 * the supervisor says what a person said.
 *
 * N-13  Nothing is dialled while it waits, and after a yes the connection is decided anew, by rules
 *       that now name it; a no, or no answer, is the denial that it would have been.
 *       Only names are asked about, each origin once in a run, a bounded number of them. */
#include "proxy/ask.h"

#include <stdlib.h>
#include <string.h>

#define ORIGINS_MAX 32  /* in one run */
#define WAITING_MAX 128 /* connections, over all origins */

struct asking {
    struct asking *next, **link;
    struct proxy *px;
    size_t origin;
    ask_done *done;
    void *ctx;
};

struct asked {
    struct host host;
    uint16_t port;
    bool pending, denied;
};

struct asks {
    struct asked asked[ORIGINS_MAX];
    size_t asked_count;
    struct asking *waiting;
    unsigned waiting_count;
};

static struct asked *find(struct asks *k, const struct target *t)
{
    for (size_t i = 0; k && i < k->asked_count; i++)
        if (k->asked[i].port == t->port && host_equal(&k->asked[i].host, &t->host))
            return &k->asked[i];
    return NULL;
}

bool ask_was_denied(const struct proxy *px, const struct target *t)
{
    const struct asked *a = find(px->asks, t);
    return a && a->denied;
}

static bool may_ask(const struct proxy *px, const struct target *t, enum deny_reason reason)
{
    return (reason == DENY_NO_RULE || reason == DENY_PORT || reason == DENY_SCHEME) &&
           egress_asks(&px->rules->egress, &t->host);
}

/* The question itself, once for each origin. */
static struct asked *put(struct proxy *px, const struct target *t)
{
    struct asks *k = px->asks;
    struct asked *a = find(k, t);
    if (a)
        return a->pending ? a : NULL;
    if (k->asked_count == ORIGINS_MAX ||
        channel_send(px->control_fd, CH_ASK, (uint32_t)k->asked_count, t->port, t->host.text, -1,
                     NULL) < 0)
        return NULL;
    a = &k->asked[k->asked_count++];
    *a = (struct asked){.host = t->host, .port = t->port, .pending = true};
    return a;
}

struct asking *ask_start(struct proxy *px, const struct target *t, enum deny_reason reason,
                         ask_done *done, void *ctx)
{
    if (!may_ask(px, t, reason))
        return NULL;
    struct asks *k = px->asks = px->asks ? px->asks : calloc(1, sizeof *k);
    if (!k || k->waiting_count >= WAITING_MAX)
        return NULL;
    struct asking *w = calloc(1, sizeof *w);
    struct asked *a = w ? put(px, t) : NULL;
    if (!a) {
        free(w);
        return NULL;
    }
    *w = (struct asking){.next = k->waiting,
                         .link = &k->waiting,
                         .px = px,
                         .origin = (size_t)(a - k->asked),
                         .done = done,
                         .ctx = ctx};
    if (k->waiting)
        k->waiting->link = &w->next;
    k->waiting = w;
    k->waiting_count++;
    return w;
}

static void unlink_it(struct asking *w)
{
    if (w->next)
        w->next->link = w->link;
    *w->link = w->next;
    w->px->asks->waiting_count--;
}

void ask_cancel(struct asking *w)
{
    if (!w)
        return;
    unlink_it(w);
    free(w);
}

int ask_answer(struct proxy *px, uint32_t number, bool allowed, struct err *err)
{
    struct asks *k = px->asks;
    if (!k || number >= k->asked_count || !k->asked[number].pending)
        return err_set(err, ERR_PROTOCOL, "an answer to a question that was not asked");
    k->asked[number].pending = false;
    k->asked[number].denied = !allowed;
    /* The callback may start or end other questions: begin again after each. */
    for (struct asking *w = k->waiting; w;) {
        if (w->origin != number) {
            w = w->next;
            continue;
        }
        ask_done *done = w->done;
        void *ctx = w->ctx;
        ask_cancel(w);
        done(ctx);
        w = k->waiting;
    }
    return 0;
}
