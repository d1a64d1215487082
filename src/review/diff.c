/* Myers' O(ND) comparison in linear space: the middle of a shortest path is searched from both
 * ends, then both halves are compared the same way. A search that takes too many steps is cut off
 * where it has come farthest. */
#include "review/diff.h"

#include "base/cleanup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_MAX   512 /* differences that one search may cross */
#define BINARY_LOOK 8000

void diff_done(struct diff *d)
{
    struct diff_side *sides[] = {&d->a, &d->b};
    for (size_t i = 0; i < ARRAY_LEN(sides); i++) {
        free(sides[i]->lines);
        free(sides[i]->class);
        free(sides[i]->changed);
    }
    *d = (struct diff){0};
}

/* ---- lines ---- */

static size_t count_lines(const char *text, size_t len)
{
    size_t count = 0;
    for (const char *at = text, *end = text + len; at < end; count++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        at = stop ? stop + 1 : end;
    }
    return count;
}

static int split(struct diff_side *s, const char *text, size_t len, struct err *err)
{
    s->count = len ? count_lines(text, len) : 0;
    s->lines = calloc(s->count + 1, sizeof *s->lines);
    s->class = calloc(s->count + 1, sizeof *s->class);
    s->changed = calloc(s->count + 1, 1);
    if (!s->lines || !s->class || !s->changed)
        return err_memory(err);
    const char *at = text, *end = text + len;
    for (size_t i = 0; i < s->count; i++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        s->lines[i] = (struct diff_line){at, (size_t)((stop ? stop : end) - at), !stop};
        at = stop ? stop + 1 : end;
    }
    return 0;
}

struct slot {
    const struct diff_line *line; /* NULL: free */
    uint64_t hash;
    uint32_t class;
};

struct classes {
    struct slot *slots;
    size_t mask;
    uint32_t count;
    uint64_t key; /* so that lines that all fall together cannot be prepared */
};

static uint64_t hash_line(const struct diff_line *l, uint64_t key)
{
    uint64_t h = key ^ 0xcbf29ce484222325ull;
    for (size_t i = 0; i < l->len; i++)
        h = (h ^ (unsigned char)l->text[i]) * 0x100000001b3ull, h ^= h >> 29;
    h ^= l->unended;
    return h * 0x9e3779b97f4a7c15ull;
}

static bool same_line(const struct diff_line *a, const struct diff_line *b)
{
    return a->len == b->len && a->unended == b->unended && memcmp(a->text, b->text, a->len) == 0;
}

static void classify(struct classes *t, struct diff_side *s)
{
    for (size_t i = 0; i < s->count; i++) {
        uint64_t hash = hash_line(&s->lines[i], t->key);
        size_t at = (size_t)(hash >> 20) & t->mask;
        while (t->slots[at].line &&
               (t->slots[at].hash != hash || !same_line(t->slots[at].line, &s->lines[i])))
            at = (at + 1) & t->mask;
        if (!t->slots[at].line)
            t->slots[at] = (struct slot){&s->lines[i], hash, t->count++};
        s->class[i] = t->slots[at].class;
    }
}

static int classify_both(struct diff *d, struct err *err)
{
    size_t room = 64;
    while (room < 2 * (d->a.count + d->b.count))
        room *= 2;
    cleanup_free struct slot *slots = calloc(room, sizeof *slots);
    if (!slots)
        return err_memory(err);
    struct classes t = {.slots = slots, .mask = room - 1, .key = (uint64_t)(uintptr_t)slots};
    classify(&t, &d->a);
    classify(&t, &d->b);
    return 0;
}

/* ---- the search ---- */

struct search {
    const uint32_t *a, *b;
    uint8_t *a_changed, *b_changed;
    long *forward, *backward; /* by diagonal, from -(STEPS_MAX+1) on, shifted */
};

struct box {
    long a0, a1, b0, b1;
};

struct split_point {
    long x, y;
};

#define DIAGONALS (2 * STEPS_MAX + 5)

static void trim(const struct search *s, struct box *x)
{
    while (x->a0 < x->a1 && x->b0 < x->b1 && s->a[x->a0] == s->b[x->b0])
        x->a0++, x->b0++;
    while (x->a0 < x->a1 && x->b0 < x->b1 && s->a[x->a1 - 1] == s->b[x->b1 - 1])
        x->a1--, x->b1--;
}

/* How far one search has come on diagonal k (x - y) after one difference more; -1: there is no way
 * to it. */
static long reach(const long *far, long n, long m, long d, long k)
{
    if (d == 0)
        return 0;
    long right = k > -d && far[k - 1] >= 0 && far[k - 1] < n ? far[k - 1] + 1 : -1;
    long down = k < d && far[k + 1] >= 0 && far[k + 1] - k <= m ? far[k + 1] : -1;
    return right > down ? right : down;
}

/* One step of the search from the start. True: it has met the other one. */
static bool step_forward(const struct search *s, const struct box *x, long d, bool odd,
                         struct split_point *ret)
{
    long n = x->a1 - x->a0, m = x->b1 - x->b0, delta = n - m;
    long *f = s->forward + STEPS_MAX + 2, *r = s->backward + STEPS_MAX + 2;
    for (long k = -d; k <= d; k += 2) {
        long at = k < -m || k > n ? -1 : reach(f, n, m, d, k);
        while (at >= 0 && at < n && at - k < m && s->a[x->a0 + at] == s->b[x->b0 + at - k])
            at++;
        f[k] = at;
        long other = delta - k;
        if (odd && at >= 0 && other > -d && other < d && r[other] >= 0 && at + r[other] >= n) {
            *ret = (struct split_point){x->a0 + at, x->b0 + at - k};
            return true;
        }
    }
    return false;
}

/* The same from the end, in distances from there: diagonal k is delta - k of the other. */
static bool step_backward(const struct search *s, const struct box *x, long d, bool odd,
                          struct split_point *ret)
{
    long n = x->a1 - x->a0, m = x->b1 - x->b0, delta = n - m;
    long *f = s->forward + STEPS_MAX + 2, *r = s->backward + STEPS_MAX + 2;
    for (long k = -d; k <= d; k += 2) {
        long at = k < -m || k > n ? -1 : reach(r, n, m, d, k);
        while (at >= 0 && at < n && at - k < m && s->a[x->a1 - 1 - at] == s->b[x->b1 - 1 - at + k])
            at++;
        r[k] = at;
        long other = delta - k;
        if (!odd && at >= 0 && other >= -d && other <= d && f[other] >= 0 && at + f[other] >= n) {
            *ret = (struct split_point){x->a1 - at, x->b1 - at + k};
            return true;
        }
    }
    return false;
}

/* Where the search from the start has come farthest. */
static struct split_point farthest(const struct search *s, const struct box *x, long d)
{
    const long *f = s->forward + STEPS_MAX + 2;
    long n = x->a1 - x->a0, m = x->b1 - x->b0, best = -1;
    struct split_point ret = {x->a0, x->b0};
    for (long k = -d; k <= d; k += 2)
        if (k >= -m && k <= n && f[k] >= 0 && 2 * f[k] - k > best && f[k] - k <= m) {
            best = 2 * f[k] - k;
            ret = (struct split_point){x->a0 + f[k], x->b0 + f[k] - k};
        }
    return ret;
}

static struct split_point middle(const struct search *s, const struct box *x)
{
    struct split_point ret;
    bool odd = ((x->a1 - x->a0) - (x->b1 - x->b0)) & 1;
    for (int i = 0; i < DIAGONALS; i++)
        s->forward[i] = s->backward[i] = -1;
    for (long d = 0; d < STEPS_MAX; d++)
        if (step_forward(s, x, d, odd, &ret) || step_backward(s, x, d, odd, &ret))
            return ret;
    return farthest(s, x, STEPS_MAX - 1);
}

static void mark(uint8_t *changed, long from, long to)
{
    memset(changed + from, 1, (size_t)(to - from));
}

/* The second half is done in the loop: the depth is bounded by the first halves, each of which is
 * at most as large as what is left. */
static void compare(const struct search *s, struct box x, unsigned depth)
{
    for (;;) {
        trim(s, &x);
        bool done = x.a0 == x.a1 || x.b0 == x.b1 || depth > 200;
        struct split_point p = done ? (struct split_point){x.a0, x.b0} : middle(s, &x);
        bool stuck = (p.x == x.a0 && p.y == x.b0) || (p.x == x.a1 && p.y == x.b1);
        if (done || stuck) {
            mark(s->a_changed, x.a0, x.a1);
            mark(s->b_changed, x.b0, x.b1);
            return;
        }
        compare(s, (struct box){x.a0, p.x, x.b0, p.y}, depth + 1);
        x.a0 = p.x;
        x.b0 = p.y;
    }
}

int diff_make(struct diff *ret, const char *a, size_t a_len, const char *b, size_t b_len,
              struct err *err)
{
    *ret = (struct diff){0};
    long *room = calloc(2 * DIAGONALS, sizeof *room);
    int r = room ? 0 : err_memory(err);
    if (r >= 0)
        r = split(&ret->a, a, a_len, err);
    if (r >= 0)
        r = split(&ret->b, b, b_len, err);
    if (r >= 0)
        r = classify_both(ret, err);
    if (r >= 0) {
        struct search s = {ret->a.class,   ret->b.class, ret->a.changed,
                           ret->b.changed, room,         room + DIAGONALS};
        compare(&s, (struct box){0, (long)ret->a.count, 0, (long)ret->b.count}, 0);
    }
    free(room);
    if (r < 0)
        diff_done(ret);
    return r;
}

/* ---- hunks ---- */

struct run {
    size_t a, b, a_end, b_end;
};

static bool next_change(const struct diff *d, size_t *a, size_t *b)
{
    while (*a < d->a.count && *b < d->b.count && !d->a.changed[*a] && !d->b.changed[*b])
        (*a)++, (*b)++;
    return *a < d->a.count || *b < d->b.count;
}

static void skip_change(const struct diff *d, size_t *a, size_t *b)
{
    while (*a < d->a.count && d->a.changed[*a])
        (*a)++;
    while (*b < d->b.count && d->b.changed[*b])
        (*b)++;
}

/* From the first change at or after r: all changes whose contexts touch. */
static bool next_hunk(const struct diff *d, size_t context, struct run *r)
{
    size_t a = r->a_end, b = r->b_end;
    if (!next_change(d, &a, &b))
        return false;
    size_t before = a - r->a_end < context ? a - r->a_end : context;
    struct run h = {a - before, b - before, 0, 0};
    for (;;) {
        skip_change(d, &a, &b);
        h.a_end = a;
        h.b_end = b;
        if (!next_change(d, &a, &b) || a - h.a_end > 2 * context)
            break;
    }
    size_t after = d->a.count - h.a_end < context ? d->a.count - h.a_end : context;
    h.a_end += after;
    h.b_end += after;
    *r = h;
    return true;
}

static void heading(const struct run *h, diff_line_fn *fn, void *ctx)
{
    char text[128];
    size_t a = h->a_end - h->a, b = h->b_end - h->b;
    int len = snprintf(text, sizeof text, "@@ -%zu,%zu +%zu,%zu @@", h->a + (a > 0), a,
                       h->b + (b > 0), b);
    fn(ctx, '@', text, (size_t)len, false);
}

static void emit(diff_line_fn *fn, void *ctx, char kind, const struct diff_line *l)
{
    fn(ctx, kind, l->text, l->len, l->unended);
}

void diff_walk(const struct diff *d, size_t context, diff_line_fn *fn, void *ctx)
{
    struct run h = {0};
    while (next_hunk(d, context, &h)) {
        size_t a = h.a, b = h.b;
        heading(&h, fn, ctx);
        while (a < h.a_end || b < h.b_end) {
            while (a < h.a_end && d->a.changed[a])
                emit(fn, ctx, '-', &d->a.lines[a++]);
            while (b < h.b_end && d->b.changed[b])
                emit(fn, ctx, '+', &d->b.lines[b++]);
            while (a < h.a_end && b < h.b_end && !d->a.changed[a] && !d->b.changed[b]) {
                emit(fn, ctx, ' ', &d->a.lines[a++]);
                b++;
            }
        }
    }
}

bool diff_is_binary(const char *text, size_t len)
{
    return len && memchr(text, '\0', len < BINARY_LOOK ? len : BINARY_LOOK) != NULL;
}
