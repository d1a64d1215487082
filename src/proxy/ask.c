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

static struct asked asked[ORIGINS_MAX];
static size_t asked_count;
static struct asking *waiting;
static unsigned waiting_count;

static struct asked *find(const struct target *t)
{
    for (size_t i = 0; i < asked_count; i++)
        if (asked[i].port == t->port && host_equal(&asked[i].host, &t->host))
            return &asked[i];
    return NULL;
}

bool ask_was_denied(const struct target *t)
{
    const struct asked *a = find(t);
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
    struct asked *a = find(t);
    if (a)
        return a->pending ? a : NULL;
    if (asked_count == ORIGINS_MAX || channel_send(px->control_fd, CH_ASK, (uint32_t)asked_count,
                                                   t->port, t->host.text, -1, NULL) < 0)
        return NULL;
    a = &asked[asked_count++];
    *a = (struct asked){.host = t->host, .port = t->port, .pending = true};
    return a;
}

struct asking *ask_start(struct proxy *px, const struct target *t, enum deny_reason reason,
                         ask_done *done, void *ctx)
{
    if (!may_ask(px, t, reason) || waiting_count >= WAITING_MAX)
        return NULL;
    struct asking *w = calloc(1, sizeof *w);
    struct asked *a = w ? put(px, t) : NULL;
    if (!a) {
        free(w);
        return NULL;
    }
    *w = (struct asking){.next = waiting,
                         .link = &waiting,
                         .px = px,
                         .origin = (size_t)(a - asked),
                         .done = done,
                         .ctx = ctx};
    if (waiting)
        waiting->link = &w->next;
    waiting = w;
    waiting_count++;
    return w;
}

static void unlink_it(struct asking *w)
{
    if (w->next)
        w->next->link = w->link;
    *w->link = w->next;
    waiting_count--;
}

void ask_cancel(struct asking *w)
{
    if (!w)
        return;
    unlink_it(w);
    free(w);
}

int ask_answer(uint32_t number, bool allowed, struct err *err)
{
    if (number >= asked_count || !asked[number].pending)
        return err_set(err, ERR_PROTOCOL, "an answer to a question that was not asked");
    asked[number].pending = false;
    asked[number].denied = !allowed;
    /* The callback may start or end other questions: begin again after each. */
    for (struct asking *w = waiting; w;) {
        if (w->origin != number) {
            w = w->next;
            continue;
        }
        ask_done *done = w->done;
        void *ctx = w->ctx;
        ask_cancel(w);
        done(ctx);
        w = waiting;
    }
    return 0;
}
