/* Who has how many connections, and which key how many open answers (DM-2). */
#include "daemon/connection.h"

#include <stdlib.h>
#include <string.h>

static struct caller **slot_of(struct server *s, const struct caller *who)
{
    uint64_t h = (who->id[0] ^ who->id[1] * 0x9e3779b97f4a7c15u) + who->local;
    h ^= h >> 32;
    h *= 0x9e3779b97f4a7c15u;
    return &s->callers[h >> 56];
}

static bool is_same(const struct caller *a, const struct caller *b)
{
    return a->local == b->local && a->id[0] == b->id[0] && a->id[1] == b->id[1];
}

struct caller *caller_take(struct server *s, const struct caller *who)
{
    struct caller **slot = slot_of(s, who), *p = *slot;
    while (p && !is_same(p, who))
        p = p->next;
    if (p && p->count >= s->limits.connections_per_peer)
        return NULL;
    if (!p) {
        p = malloc(sizeof *p);
        if (!p)
            return NULL;
        *p = *who;
        p->count = 0;
        p->next = *slot;
        *slot = p;
    }
    p->count++;
    return p;
}

void caller_drop(struct server *s, struct caller *p)
{
    if (!p || --p->count)
        return;
    struct caller **at = slot_of(s, p);
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    free(p);
}

void callers_free(struct server *s)
{
    for (size_t i = 0; i < CALLER_SLOTS; i++)
        for (struct caller *p = s->callers[i], *next; p; p = next) {
            next = p->next;
            free(p);
        }
    for (struct streams *k = s->streams, *next; k; k = next) {
        next = k->next;
        free(k);
    }
}

/* There are few keys, and an entry stays as long as the server does. */
unsigned *stream_take(struct server *s, const struct key *key)
{
    struct streams *k = s->streams;
    while (k && k->key != key)
        k = k->next;
    if (!k) {
        k = calloc(1, sizeof *k);
        if (!k)
            return NULL;
        k->key = key;
        k->next = s->streams;
        s->streams = k;
    }
    if (k->count >= s->limits.streams_per_key)
        return NULL;
    k->count++;
    return &k->count;
}
