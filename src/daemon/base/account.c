/* Accounts of what each key makes the daemon hold: charging, returning, and the limits that keep
 * one key from crowding out the others. */
#include "daemon/base/account.h"

#include <stdio.h>
#include <stdlib.h>

#define MIB (1ull << 20)

const struct account_limits
    account_limits_default =
        {.of = {[ACCOUNT_OF_KEY] =
                    {
                        /* All of it and what the daemon needs for itself is less than 64 MB. */
                        [ACCOUNT_BYTES] = {.each = 24 * MIB, .all = 44 * MIB, .reserve = 4 * MIB},
                        [ACCOUNT_CONNECTIONS] = {.each = 1024, .all = 1792, .reserve = 128},
                        [ACCOUNT_STREAMS] = {.each = 1024, .all = 1792, .reserve = 128},
                        [ACCOUNT_TUNNELS] = {.each = 256, .all = 1024, .reserve = 64},
                        [ACCOUNT_WATCHERS] = {.each = 256, .all = 1024, .reserve = 64},
                        [ACCOUNT_QUESTIONS] = {.each = 64, .all = 256, .reserve = 32},
                        [ACCOUNT_READERS] = {.each = 8, .all = 64, .reserve = 16},
                        [ACCOUNT_DESCRIPTORS] = {.each = 4096, .all = 16384, .reserve = 256},
                    },
                [ACCOUNT_OF_ADDRESS] = {
                    [ACCOUNT_BYTES] = {.each = 4 * MIB, .all = 6 * MIB},
                    [ACCOUNT_CONNECTIONS] = {.each = 512, .all = 2048},
                }}};

static const struct {
    const char *name, *what;
} kinds[ACCOUNT_KINDS] = {
    [ACCOUNT_BYTES] = {"bytes", "bytes of the daemon's memory"},
    [ACCOUNT_CONNECTIONS] = {"connections", "connections with a request"},
    [ACCOUNT_STREAMS] = {"streams", "open answers"},
    [ACCOUNT_TUNNELS] = {"tunnels", "tunnels"},
    [ACCOUNT_WATCHERS] = {"watchers", "watchers"},
    [ACCOUNT_QUESTIONS] = {"questions", "questions to a person"},
    [ACCOUNT_READERS] = {"readers", "readers of events"},
    [ACCOUNT_DESCRIPTORS] = {"descriptors", "descriptors of what runs"},
};

const char *account_kind_name(enum account_kind kind)
{
    return kinds[kind].name;
}

struct accounts {
    struct account_limits limits;
    uint64_t used[ACCOUNT_CLASSES][ACCOUNT_KINDS];
    struct account *keys;
    account_refused_fn *refused;
    void *ctx;
};

struct accounts *accounts_new(const struct account_limits *limits)
{
    struct accounts *all = calloc(1, sizeof *all);
    if (all)
        all->limits = limits ? *limits : account_limits_default;
    return all;
}

void accounts_free(struct accounts *all)
{
    if (!all)
        return;
    for (struct account *a = all->keys, *next; a; a = next) {
        next = a->next;
        free(a);
    }
    free(all);
}

void accounts_on_refused(struct accounts *all, account_refused_fn *fn, void *ctx)
{
    all->refused = fn;
    all->ctx = ctx;
}

void account_init(struct account *a, struct accounts *all, enum account_class class)
{
    *a = (struct account){.all = all, .class = class};
}

/* There are few keys, and those that are used come first. */
struct account *account_of(struct accounts *all, const struct key *key)
{
    struct account **at = &all->keys, *a;
    if (!key)
        return NULL;
    while (*at && (*at)->key != key)
        at = &(*at)->next;
    a = *at;
    if (a) {
        *at = a->next;
    } else {
        a = malloc(sizeof *a);
        if (!a)
            return NULL;
        account_init(a, all, ACCOUNT_OF_KEY);
        a->key = key;
    }
    a->next = all->keys;
    all->keys = a;
    return a;
}

void accounts_each(const struct accounts *all, void (*fn)(void *ctx, const struct account *a),
                   void *ctx)
{
    for (const struct account *a = all->keys; a; a = a->next)
        fn(ctx, a);
}

uint64_t accounts_used(const struct accounts *all, enum account_class class, enum account_kind kind)
{
    return all->used[class][kind];
}

const struct account_limit *accounts_limit(const struct accounts *all, enum account_class class,
                                           enum account_kind kind)
{
    return &all->limits.of[class][kind];
}

/* ---- how much there may be ---- */

static uint64_t less(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t minus(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static bool is_operator(const struct account *a)
{
    return a->key && a->key->operator_key;
}

/* How much of this kind is free; the reserve counts for operators alone (AC-2). */
static uint64_t free_for(const struct account *a, enum account_kind kind)
{
    const struct account_limit *l = accounts_limit(a->all, a->class, kind);
    uint64_t all = is_operator(a) ? l->all : minus(l->all, l->reserve);
    return minus(all, a->all->used[a->class][kind]);
}

uint64_t account_room(const struct account *a, enum account_kind kind)
{
    if (!a)
        return UINT64_MAX;
    uint64_t left = free_for(a, kind), used = a->used[kind];
    if (is_operator(a))
        return left; /* AC-2 */
    left = less(left, minus(accounts_limit(a->all, a->class, kind)->each, used));
    if (a->class == ACCOUNT_OF_ADDRESS)
        return left; /* connections without a key are the first to be closed when room is needed */
    /* AC-1: used + n must not be more than what is free without it. */
    return less(left, minus(free_for(a, kind), used) / 2);
}

uint64_t account_most(const struct account *a, enum account_kind kind)
{
    return a->used[kind] + account_room(a, kind);
}

static int refuse(struct account *a, enum account_kind kind, uint64_t n, struct err *err)
{
    a->refused[kind]++;
    if (a->all->refused)
        a->all->refused(a->all->ctx, a, kind);
    err_set(err, ERR_LIMIT, "%s%s has %llu %s; %llu more would be over its limit of now %llu",
            a->key ? "key " : "", a->key ? a->key->id : "this address",
            (unsigned long long)a->used[kind], kinds[kind].what, (unsigned long long)n,
            (unsigned long long)(a->used[kind] + account_room(a, kind)));
    return err_hint(err, "read or close what is open, or try again when less is going on");
}

int account_charge(struct account *a, enum account_kind kind, uint64_t n, struct err *err)
{
    if (!a || !n)
        return 0;
    if (n > account_room(a, kind))
        return refuse(a, kind, n, err);
    a->used[kind] += n;
    a->all->used[a->class][kind] += n;
    if (a->used[kind] > a->peak[kind])
        a->peak[kind] = a->used[kind];
    return 0;
}

void account_return(struct account *a, enum account_kind kind, uint64_t n)
{
    if (!a)
        return;
    a->used[kind] -= n;
    a->all->used[a->class][kind] -= n;
}

struct loop_share *account_share(struct account *a)
{
    return a ? &a->share : NULL;
}

/* ---- memory ---- */

/* Refuses without a record: a buffer asks for more than it needs first, and then for less. */
static bool on_meter(struct buf_meter *m, size_t from, size_t to)
{
    struct hold *h = (struct hold *)m; /* its first member */
    if (to < from) {
        hold_sub(h, from - to);
        return true;
    }
    h->wanted = to - from > account_room(h->account, ACCOUNT_BYTES) ? to - from : 0;
    return !h->wanted && hold_add(h, to - from, NULL) == 0;
}

void hold_init(struct hold *h, struct account *a)
{
    *h = (struct hold){.meter.fn = on_meter, .account = a};
}

int hold_add(struct hold *h, uint64_t bytes, struct err *err)
{
    int r = account_charge(h->account, ACCOUNT_BYTES, bytes, err);
    if (r == 0)
        h->bytes += bytes;
    return r;
}

bool hold_add_spare(struct hold *h, uint64_t bytes)
{
    return bytes <= account_room(h->account, ACCOUNT_BYTES) / 2 && hold_add(h, bytes, NULL) == 0;
}

void hold_sub(struct hold *h, uint64_t bytes)
{
    bytes = less(bytes, h->bytes);
    account_return(h->account, ACCOUNT_BYTES, bytes);
    h->bytes -= bytes;
}

int hold_move(struct hold *h, struct account *to, struct err *err)
{
    if (h->account == to)
        return 0;
    int r = account_charge(to, ACCOUNT_BYTES, h->bytes, err);
    if (r < 0)
        return r;
    account_return(h->account, ACCOUNT_BYTES, h->bytes);
    h->account = to;
    return 0;
}

bool hold_fill(struct hold *h, struct buf *b, const void *data, size_t len)
{
    size_t room = b->cap - b->len;
    buf_add(b, data, len < room ? len : room);
    if (!b->failed)
        return len <= room;
    hold_refusal(h, NULL); /* what is there stays */
    b->failed = false;
    return false;
}

void hold_done(struct hold *h)
{
    account_return(h->account, ACCOUNT_BYTES, h->bytes);
    h->bytes = 0;
    h->account = NULL;
}

int hold_refusal(struct hold *h, struct err *err)
{
    uint64_t wanted = h->wanted;
    h->wanted = 0;
    return wanted && h->account ? refuse(h->account, ACCOUNT_BYTES, wanted, err) : 0;
}

void hold_give(struct hold *from, struct hold *to, uint64_t bytes)
{
    bytes = less(bytes, from->bytes);
    from->bytes -= bytes;
    to->bytes += bytes;
}

void hold_adopt(struct hold *h, struct buf *b)
{
    struct hold *from = (struct hold *)b->meter;
    if (!from || from == h)
        return;
    hold_give(from, h, b->size);
    b->meter = &h->meter;
}
