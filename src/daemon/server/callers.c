/* Counts the connections of each caller (DM-2), and chooses which of them are closed when there is
 * no room for a new one (DM-4). */
#include "daemon/server/connection.h"

#include "base/container.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#define LOOK_AT 64 /* of those that could give way: more do not come in one round */

void connection_waits(struct connection *c, enum waiting waiting)
{
    if (c->waiting == waiting || !c->caller)
        return;
    if (c->waiting != WAITS_NOT) {
        ring_remove(&c->by_age);
        ring_remove(&c->by_caller);
    }
    c->waiting = waiting;
    if (waiting != WAITS_NOT) {
        ring_add(&c->server->waiting[waiting], &c->by_age);
        ring_add(&c->caller->waiting[waiting], &c->by_caller);
    }
}

/* True if a request has arrived that was not read yet. */
static bool has_unread(const struct connection *c)
{
    int n = 0;
    return ioctl(c->io.fd, FIONREAD, &n) == 0 && n > 0;
}

bool callers_evict(struct server *s, struct caller *of, enum waiting waiting)
{
    struct ring *head = of ? &of->waiting[waiting] : &s->waiting[waiting], *l = head->next;
    for (unsigned i = 0; l != head && i < LOOK_AT; i++, l = l->next) {
        struct connection *c = of ? container_of(l, struct connection, by_caller)
                                  : container_of(l, struct connection, by_age);
        if (waiting == WAITS_REQUEST && has_unread(c))
            continue;
        s->stats.evicted++;
        connection_lost(c);
        return true;
    }
    return false;
}

/* ---- callers ---- */

static struct caller **slot_of(struct server *s, const struct caller *who)
{
    uint64_t h = (who->group.id[0] ^ who->group.id[1] * 0x9e3779b97f4a7c15u) + who->local;
    h ^= h >> 32;
    h *= 0x9e3779b97f4a7c15u;
    return &s->callers[h >> 56];
}

static bool is_same(const struct caller *a, const struct caller *b)
{
    return a->local == b->local && peer_group_equal(&a->group, &b->group);
}

static struct caller *caller_find(struct server *s, const struct caller *who)
{
    struct caller **slot = slot_of(s, who), *p = *slot;
    while (p && !is_same(p, who))
        p = p->next;
    if (p)
        return p;
    p = malloc(sizeof *p);
    if (!p)
        return NULL;
    *p = *who;
    account_init(&p->account, s->accounts, ACCOUNT_OF_ADDRESS);
    for (int i = 0; i < WAITINGS; i++)
        ring_init(&p->waiting[i]);
    p->next = *slot;
    *slot = p;
    return p;
}

static void caller_forget(struct server *s, struct caller *p)
{
    struct caller **at = slot_of(s, p);
    if (p->account.used[ACCOUNT_CONNECTIONS])
        return;
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    free(p);
}

struct caller *caller_take(struct server *s, const struct caller *who)
{
    struct caller *p = caller_find(s, who);
    if (!p)
        return NULL;
    /* An evicted connection frees its place at once. `p` stays valid, since it has other
     * connections. */
    while (!account_room(&p->account, ACCOUNT_CONNECTIONS) &&
           (callers_evict(s, p, WAITS_REQUEST) || callers_evict(s, p, WAITS_HEAD)))
        ;
    if (account_charge(&p->account, ACCOUNT_CONNECTIONS, 1, NULL) == 0)
        return p;
    caller_forget(s, p);
    return NULL;
}

void caller_drop(struct server *s, struct caller *p)
{
    if (!p)
        return;
    account_return(&p->account, ACCOUNT_CONNECTIONS, 1);
    caller_forget(s, p);
}

void callers_free(struct server *s)
{
    for (size_t i = 0; i < CALLER_SLOTS; i++)
        for (struct caller *p = s->callers[i], *next; p; p = next) {
            next = p->next;
            free(p);
        }
}

void seat_take(struct seat *seat, struct seat *from, void (*cut)(struct seat *seat))
{
    *seat = *from;
    *from = (struct seat){0};
    if (!seat->server)
        return;
    seat->cut = cut;
    seat->next = seat->server->seats;
    if (seat->next)
        seat->next->at = &seat->next;
    seat->at = &seat->server->seats;
    seat->server->seats = seat;
}

void seat_leave(struct seat *seat)
{
    struct server *s = seat->server;
    if (!s)
        return;
    if (seat->at) {
        *seat->at = seat->next;
        if (seat->next)
            seat->next->at = seat->at;
    }
    s->connections--;
    caller_drop(s, seat->caller);
    *seat = (struct seat){0};
    server_connection_ended(s);
}
