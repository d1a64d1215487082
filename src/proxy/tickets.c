/* Keeps TLS sessions of upstream servers for a few minutes, so that the next connection can resume
 * them. */
#include "proxy/tickets.h"

#include <stdio.h>
#include <string.h>

#define TRUSTED_MS (10 * 60 * 1000)

static struct ticket *find(struct tickets *s, const char *host)
{
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->items[i].host, host) == 0)
            return &s->items[i];
    return NULL;
}

SSL_SESSION *tickets_find(struct tickets *s, const char *host, uint64_t now_ms)
{
    struct ticket *e = find(s, host);
    if (!e || now_ms - e->verified_ms > TRUSTED_MS || !SSL_SESSION_is_resumable(e->session))
        return NULL;
    e->used = ++s->clock;
    return e->session;
}

/* A free entry; if there is none, the one that was not used for the longest time. */
static struct ticket *take_place(struct tickets *s)
{
    if (s->count < TICKETS_MAX)
        return &s->items[s->count++];
    struct ticket *oldest = &s->items[0];
    for (size_t i = 1; i < s->count; i++)
        if (s->items[i].used < oldest->used)
            oldest = &s->items[i];
    SSL_SESSION_free(oldest->session);
    *oldest = (struct ticket){0};
    return oldest;
}

void tickets_keep(struct tickets *s, const char *host, SSL_SESSION *session, bool resumed,
                  uint64_t now_ms)
{
    struct ticket *e = find(s, host);
    if (!e && resumed)
        return; /* it resumed a session whose verification is too old to be kept any longer */
    if (!e)
        e = take_place(s);
    if (!resumed)
        e->verified_ms = now_ms;
    SSL_SESSION_up_ref(session);
    SSL_SESSION_free(e->session);
    e->session = session;
    e->used = ++s->clock;
    snprintf(e->host, sizeof e->host, "%s", host);
}

void tickets_done(struct tickets *s)
{
    for (size_t i = 0; i < s->count; i++)
        SSL_SESSION_free(s->items[i].session);
    *s = (struct tickets){0};
}
