/* Theory of operation.
 *
 * Most bytes of most responses cannot begin a match: patterns.hot says which two bytes can, and
 * skip_cold runs over the rest. From a byte that can, the automaton is followed until nothing is
 * left of it.
 *
 * One text can be read in more than one way: "%41" is "A" to one reader and three bytes to another,
 * and what stands in front of a value may have been put there to make us read its first bytes as
 * the end of an escape. So nothing is decided: at each byte both readings go on, as threads. A
 * thread is a node of the automaton, and the place in the text where what it has seen begins. A
 * thread that has read an escape waits at the place after it: hence the ring of sets, by place.
 *
 * The text is overwritten only when it is handed out: threads may still have to look at it. */
#include "credentials/redact.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "credentials/escape_parse.h"
#include "credentials/patterns.h"

#include <string.h>

#define RING         8  /* more than ESCAPE_MAX */
#define THREADS      32 /* at one place; readings of one text that all match so far */
#define STARS        32
#define SKIPS        2 /* CR and LF */
#define SKIP_AFTER   4 /* symbols of base64 before a line break is believed to be inside of it */
#define NOWHERE      SIZE_MAX
#define BYTES_PER    8 /* of text for one byte of a value, at most */
#define LAG_CONSTANT 64
#define INSERTS      64

struct redactor {
    unsigned refs; /* its owner's, and one for each stream */
    struct patterns *patterns;
    size_t lag;
    unsigned renewed; /* so many times */
};

struct thread {
    uint32_t node;
    uint32_t skips;
    size_t start;
};
struct set {
    unsigned count;
    struct thread items[THREADS];
};
struct stars { /* to be overwritten */
    size_t from, to;
};

/* Places are counted from the beginning of the stream; text[0] is at `base`. */
struct scan {
    const struct redactor *r;
    char *text;
    size_t base;
    size_t pos; /* the next byte to look at */
    size_t end;
    size_t edge; /* a base64 character here belongs to the match before it */
    unsigned live;
    unsigned stars_count;
    int matches;
    struct set ring[RING];
    struct stars stars[STARS];
};

static void scan_init(struct scan *s, const struct redactor *r)
{
    *s = (struct scan){.r = r, .edge = NOWHERE};
}

static const char *text_at(const struct scan *s, size_t pos)
{
    return s->text + (pos - s->base);
}

/* Up to where nothing can change any more. */
static size_t border_of(const struct scan *s)
{
    size_t border = s->pos;
    if (s->live == 0)
        return border;
    for (unsigned i = 0; i < RING; i++) {
        for (unsigned k = 0; k < s->ring[i].count; k++) {
            const struct thread *t = &s->ring[i].items[k];
            /* The character before base64 may hold bits of the value. */
            size_t from = t->start;
            from -= s->r->patterns->nodes[t->node].cls == SYM_BASE64 && from > s->base;
            if (from < border)
                border = from;
        }
    }
    return border;
}

/* Overwrites what lies before `border` and forgets it. */
static void apply_stars(struct scan *s, size_t border)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < s->stars_count; i++) {
        struct stars *x = &s->stars[i];
        size_t from = x->from < s->base ? s->base : x->from;
        size_t to = x->to < border ? x->to : border;
        if (from < to)
            memset(s->text + (from - s->base), '*', to - from);
        if (x->to > border)
            s->stars[kept++] = *x;
    }
    s->stars_count = kept;
}

/* Ends come in ascending order, so what overlaps is at the end of the list. */
static bool mark(struct scan *s, size_t from, size_t to)
{
    bool merged = false;
    while (s->stars_count > 0 && s->stars[s->stars_count - 1].to >= from) {
        struct stars last = s->stars[--s->stars_count];
        from = last.from < from ? last.from : from;
        to = last.to > to ? last.to : to;
        merged = true;
    }
    if (s->stars_count ==
        STARS) /* so many inside of what may be one: rather too much than too little */
        from = s->stars[--s->stars_count].from;
    s->stars[s->stars_count++] = (struct stars){from, to};
    return merged;
}

/* ---- threads ---- */

static size_t over_breaks(const struct scan *s, size_t at)
{
    for (uint8_t byte; at < s->end;) {
        const char *text = text_at(s, at);
        int len = escape_read(text, s->end - at, &byte);
        if (symbol_of(SYM_BASE64, (uint8_t)*text, false) == SYM_SKIP)
            at++;
        else if (len > 0 && symbol_of(SYM_BASE64, byte, true) == SYM_SKIP)
            at += (size_t)len;
        else
            break;
    }
    return at;
}

/* How long the escape is that spells this symbol here; 0 or less: there is none. */
static int escape_of(const struct scan *s, size_t at, enum symbol_class cls, uint8_t symbol)
{
    uint8_t byte;
    int len = escape_read(text_at(s, at), s->end - at, &byte);
    if (len > 0 && symbol_of(cls, byte, true) == symbol)
        return len;
    len = escape_read_twice(text_at(s, at), s->end - at, &byte);
    return len > 0 && symbol_of(cls, byte, true) == symbol ? len : 0;
}

/* Where a thread that stands at `node` begins once its first `count` symbols are given up. */
static size_t start_after(const struct scan *s, uint32_t node, size_t start, size_t count)
{
    const struct node *n = &s->r->patterns->nodes[node];
    const uint8_t *path = s->r->patterns->symbols + n->path;
    for (size_t i = 0; i < count; i++) {
        if (start < s->base || start >= s->end)
            break;
        if (symbol_of(n->cls, (uint8_t)*text_at(s, start), false) == path[i]) {
            start++;
        } else {
            int len = escape_of(s, start, n->cls, path[i]);
            if (len <= 0)
                break;
            start += (size_t)len;
        }
        if (n->cls == SYM_BASE64)
            start = over_breaks(s, start);
    }
    return start;
}

static void fall(const struct scan *s, struct thread *t, uint32_t to)
{
    const struct node *nodes = s->r->patterns->nodes;
    t->start = start_after(s, t->node, t->start, nodes[t->node].depth - nodes[to].depth);
    t->node = to;
}

static void put(struct scan *s, struct set *set, struct thread t)
{
    const struct node *nodes = s->r->patterns->nodes;
    unsigned shallow = 0;
    for (unsigned i = 0; i < set->count; i++) {
        if (set->items[i].node == t.node) {
            if (t.start < set->items[i].start)
                set->items[i].start = t.start;
            return;
        }
        if (nodes[set->items[i].node].depth < nodes[set->items[shallow].node].depth)
            shallow = i;
    }
    if (set->count < THREADS) {
        set->items[set->count++] = t;
        s->live++;
    } else if (nodes[t.node].depth > nodes[set->items[shallow].node].depth) {
        set->items[shallow] = t;
    }
}

/* A value that holds '%', '\\' or '&' can be read in two ways itself, and start_after then errs
 * towards the beginning: so many symbols cannot have taken more text than this. Base64 with a line
 * break after every few characters is nobody's encoding. */
static bool bound_start(const struct scan *s, struct thread *t, size_t pos)
{
    const struct node *n = &s->r->patterns->nodes[t->node];
    if (n->cls == SYM_BYTES && pos - t->start > ESCAPE_MAX * (size_t)n->depth)
        t->start = pos - ESCAPE_MAX * (size_t)n->depth;
    return pos - t->start <= s->r->lag;
}

/* A thread has come to a node and stands at `pos`. */
static void arrive(struct scan *s, struct thread t, size_t pos)
{
    const struct node *nodes = s->r->patterns->nodes;
    uint32_t out = nodes[t.node].out;
    if (out) {
        struct thread found = t;
        fall(s, &found, out);
        size_t from = found.start;
        from -= nodes[out].edge_before && from > s->base &&
                symbol_is_base64((uint8_t)*text_at(s, from - 1));
        s->matches += !mark(s, from, pos);
        if (nodes[out].edge_after)
            s->edge = pos;
    }
    while (t.node >= SYM_CLASSES && !nodes[t.node].child)
        fall(s, &t, nodes[t.node].fail);
    if (t.node >= SYM_CLASSES && bound_start(s, &t, pos))
        put(s, &s->ring[pos % RING], t);
}

/* One thread reads one byte, spelled with `len` bytes of text. */
static void advance_thread(struct scan *s, struct thread t, uint8_t symbol, size_t len)
{
    const struct patterns *p = s->r->patterns;
    if (symbol == SYM_SKIP) {
        if (p->nodes[t.node].depth < SKIP_AFTER || ++t.skips > SKIPS)
            return;
        put(s, &s->ring[(s->pos + len) % RING], t);
        return;
    }
    uint32_t next = patterns_step(p, t.node, symbol);
    if (next < SYM_CLASSES)
        return;
    size_t lost = p->nodes[t.node].depth + 1 - p->nodes[next].depth;
    size_t start = p->nodes[next].depth == 1 ? s->pos
                   : lost == 0               ? t.start
                                             : start_after(s, t.node, t.start, lost);
    arrive(s, (struct thread){.node = next, .start = start}, s->pos + len);
}

/* Every thread at this place reads one byte, and new ones begin with it. */
static void advance(struct scan *s, const struct set *here, uint8_t byte, size_t len)
{
    const struct patterns *p = s->r->patterns;
    uint8_t symbols[SYM_CLASSES];
    bool covered[SYM_CLASSES] = {false};
    for (unsigned cls = 0; cls < SYM_CLASSES; cls++)
        symbols[cls] = symbol_of(cls, byte, len > 1);
    for (unsigned i = 0; i < here->count; i++) {
        unsigned cls = p->nodes[here->items[i].node].cls;
        covered[cls] = true; /* a thread's failures are where a new one would be */
        if (symbols[cls] != SYM_NONE)
            advance_thread(s, here->items[i], symbols[cls], len);
    }
    for (unsigned cls = 0; cls < SYM_CLASSES; cls++) {
        uint32_t first = symbols[cls] < SYM_SKIP ? p->first[cls][symbols[cls]] : 0;
        if (first && !covered[cls])
            arrive(s, (struct thread){.node = first, .start = s->pos}, s->pos + len);
    }
}

/* ---- the text ---- */

static bool could_begin(const struct patterns *p, const char *text, size_t left)
{
    uint8_t hot = left < 2 ? HOT_ESCAPE : p->hot[patterns_pair(text)];
    return hot == HOT_ESCAPE ||
           (hot == HOT_PLAIN && (left < 4 || p->warm[patterns_pair(text + 2)]));
}

static size_t skip_cold(const struct scan *s)
{
    const struct patterns *p = s->r->patterns;
    const char *text = text_at(s, s->pos);
    size_t left = s->end - s->pos, i = 0;
    for (; i + 9 <= left; i += 8) {
        unsigned any = 0;
        for (unsigned k = 0; k < 8; k++)
            any |= p->hot[patterns_pair(text + i + k)];
        for (unsigned k = 0; any && k < 8; k++)
            if (could_begin(p, text + i + k, left - i - k))
                return s->pos + i + k;
    }
    while (i < left && !could_begin(p, text + i, left - i))
        i++;
    return s->pos + i;
}

static void check_edge(struct scan *s)
{
    if (s->edge == s->pos) {
        if (symbol_is_base64((uint8_t)*text_at(s, s->pos)))
            mark(s, s->pos, s->pos + 1);
        s->edge = NOWHERE;
    }
}

/* Looks at all of the text, or up to an escape that is not there in full. */
static void scan_run(struct scan *s, bool final)
{
    while (s->pos < s->end) {
        if (s->stars_count > STARS / 2)
            apply_stars(s, border_of(s));
        check_edge(s);
        if (s->live == 0)
            s->pos = skip_cold(s);
        if (s->pos == s->end)
            break;
        const char *text = text_at(s, s->pos);
        uint8_t byte, inner = 0;
        bool escape = escape_starts((uint8_t)*text);
        int len = escape ? escape_read(text, s->end - s->pos, &byte) : 0;
        int twice = escape ? escape_read_twice(text, s->end - s->pos, &inner) : 0;
        if ((len < 0 || twice < 0) && !final)
            break;
        struct set *slot = &s->ring[s->pos % RING];
        struct set here = {.count = slot->count};
        memcpy(here.items, slot->items, slot->count * sizeof here.items[0]);
        s->live -= slot->count;
        slot->count = 0;
        advance(s, &here, (uint8_t)*text, 1);
        if (len > 0)
            advance(s, &here, byte, (size_t)len);
        if (twice > 0)
            advance(s, &here, inner, (size_t)twice);
        s->pos++;
    }
}

/* ---- from outside ---- */

int redactor_renew(struct redactor *r, struct secret *const *values, size_t count, struct err *err)
{
    struct patterns *fresh;
    if (patterns_new(values, count, &fresh, err) < 0)
        return err_number(err);
    if (r->patterns)
        patterns_free(r->patterns);
    r->patterns = fresh;
    r->lag = fresh->longest > 0 ? fresh->longest * BYTES_PER + LAG_CONSTANT : 0;
    r->renewed++;
    return 0;
}

int redactor_new(struct secret *const *values, size_t count, struct redactor **ret, struct err *err)
{
    struct redactor *r = calloc(1, sizeof *r);
    if (!r)
        return err_memory(err);
    if (redactor_renew(r, values, count, err) < 0) {
        free(r);
        return err_number(err);
    }
    r->refs = 1;
    *ret = r;
    return 0;
}

void redactor_free(struct redactor *r)
{
    if (!r || --r->refs > 0)
        return;
    patterns_free(r->patterns);
    free(r);
}

size_t redactor_lag(const struct redactor *r)
{
    return r->lag;
}

/* Stands before the byte at `at`. */
struct insert {
    size_t at;
    size_t len;
    char bytes[REDACT_INSERT_MAX];
};

struct redact_stream {
    struct redactor *r;
    unsigned renewed; /* r->renewed when it was scanned last */
    struct scan scan;
    char *data;
    size_t size;
    size_t len;             /* bytes in `data` */
    size_t out;             /* of these were handed out by the last call */
    struct insert *inserts; /* INSERTS of them, once there was one */
    size_t insert_count;
    struct buf merged; /* what was handed out, where something was inserted */
};

int redact_open(struct redactor *r, struct redact_stream **ret, struct err *err)
{
    struct redact_stream *s = calloc(1, sizeof *s);
    if (!s)
        return err_memory(err);
    scan_init(&s->scan, r);
    s->r = r;
    s->renewed = r->renewed;
    r->refs++;
    *ret = s;
    return 0;
}

void redact_close(struct redact_stream *s)
{
    if (!s)
        return;
    secret_wipe(s->data, s->size);
    free(s->data);
    free(s->inserts);
    buf_done(&s->merged);
    redactor_free(s->r);
    free(s);
}

/* Forgets what was handed out; makes room for more. */
static int make_room(struct redact_stream *s, size_t more, struct err *err)
{
    size_t held = s->len - s->out;
    if (s->out > 0)
        memmove(s->data, s->data + s->out, held);
    s->scan.base += s->out;
    s->len = held;
    s->out = 0;
    if (held + more <= s->size)
        return 0;
    char *bigger = malloc(held + more);
    if (!bigger)
        return err_memory(err);
    if (held > 0)
        memcpy(bigger, s->data, held);
    secret_wipe(s->data, s->size);
    free(s->data);
    s->data = bigger;
    s->size = held + more;
    return 0;
}

/* Where there are other values since, what is held back is looked at again, by these. What was
 * found by the others stays found. Nothing that was handed out is missed: no value is sent before
 * there is a redactor that knows it. */
static void follow(struct redact_stream *s)
{
    struct scan *scan = &s->scan;
    if (s->renewed == s->r->renewed)
        return;
    s->renewed = s->r->renewed;
    for (unsigned i = 0; i < RING; i++)
        scan->ring[i].count = 0;
    scan->live = 0;
    scan->pos = scan->base;
}

int redact_insert(struct redact_stream *s, const char *data, size_t len, struct err *err)
{
    if (!s->inserts && !(s->inserts = calloc(INSERTS, sizeof *s->inserts)))
        return err_memory(err);
    if (s->insert_count == INSERTS || len > REDACT_INSERT_MAX)
        return err_set(err, ERR_LIMIT, "too many pieces of what may be one secret");
    struct insert *x = &s->inserts[s->insert_count++];
    x->at = s->scan.base + s->len;
    x->len = len;
    memcpy(x->bytes, data, len);
    return 0;
}

/* s->data up to `border`, with what was inserted there. */
static int merge(struct redact_stream *s, size_t border, struct err *err)
{
    size_t at = s->scan.base, used = 0;
    buf_done(&s->merged);
    buf_init(&s->merged, border - at + INSERTS * REDACT_INSERT_MAX);
    for (; used < s->insert_count && s->inserts[used].at <= border; used++) {
        const struct insert *x = &s->inserts[used];
        if (x->at > at)
            buf_add(&s->merged, s->data + (at - s->scan.base), x->at - at);
        buf_add(&s->merged, x->bytes, x->len);
        at = x->at;
    }
    if (border > at)
        buf_add(&s->merged, s->data + (at - s->scan.base), border - at);
    s->insert_count -= used;
    memmove(s->inserts, s->inserts + used, s->insert_count * sizeof *s->inserts);
    return s->merged.failed ? err_memory(err) : 0;
}

static int hand_out(struct redact_stream *s, size_t border, const char **ret, size_t *ret_len,
                    struct err *err)
{
    apply_stars(&s->scan, border);
    s->out = border - s->scan.base;
    *ret = s->data;
    *ret_len = s->out;
    if (s->insert_count > 0 && s->inserts[0].at <= border) {
        if (merge(s, border, err) < 0)
            return err_number(err);
        *ret = s->merged.data;
        *ret_len = s->merged.len;
    }
    return s->scan.matches;
}

int redact_feed(struct redact_stream *s, const char *data, size_t len, const char **ret,
                size_t *ret_len, struct err *err)
{
    *ret = NULL;
    *ret_len = 0;
    if (make_room(s, len, err) < 0)
        return err_number(err);
    if (len > 0)
        memcpy(s->data + s->len, data, len);
    s->len += len;
    s->scan.text = s->data;
    s->scan.end = s->scan.base + s->len;
    follow(s);
    if (s->scan.r->lag == 0)
        s->scan.pos = s->scan.end;
    scan_run(&s->scan, false);
    return hand_out(s, border_of(&s->scan), ret, ret_len, err);
}

int redact_flush(struct redact_stream *s, const char **ret, size_t *ret_len)
{
    make_room(s, 0, NULL);
    s->scan.text = s->data;
    follow(s);
    scan_run(&s->scan, true);
    for (unsigned i = 0; i < RING; i++)
        s->scan.ring[i].count = 0;
    s->scan.live = 0;
    s->scan.edge = NOWHERE;
    return hand_out(s, s->scan.end, ret, ret_len, NULL);
}

int redact_text(struct redactor *r, char *text, size_t len)
{
    if (r->lag == 0)
        return 0;
    struct scan s;
    scan_init(&s, r);
    s.text = text;
    s.end = len;
    scan_run(&s, true);
    apply_stars(&s, len);
    return s.matches;
}
