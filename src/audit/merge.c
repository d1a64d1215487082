/* Merges equal denials of one second into one record with a count, so that a flood in one sandbox
 * cannot fill the log. */
#include "audit/merge.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* More entries than there are kinds: the rest is for the counters of kinds that have no entry of
 * their own. */
#define ROOM    (2 * MERGE_MAX)
#define BUCKETS (2 * ROOM)

/* Each entry is found in two ways: by all that it says, and by its box. */
enum way { BY_IDENTITY, BY_BOX, WAYS };

struct entry {
    uint64_t hash[WAYS];
    uint16_t next[WAYS]; /* of the same bucket: its place and 1; 0: it is the last */
    uint64_t since_us;   /* start of its second */
    uint64_t held;       /* not yet written */
    int64_t time_us;     /* wall clock of the last one */
    size_t len;
    char *identity;  /* boundary, kind, box, key, detail: each with its NUL; owned */
    const char *box; /* inside it; may be empty */
    bool further;    /* stands for kinds that have no entry */
};

struct merge {
    uint64_t seed;
    struct entry entries[ROOM];
    size_t count;
    size_t kinds; /* of these, entries of one kind; the others collect what had no room */
    uint16_t buckets[WAYS][BUCKETS]; /* the first of each */
    uint64_t looks;                  /* how many entries were looked at to find others */
    uint64_t due_us;                 /* when the first of what is held is due; 0: nothing is */
    uint64_t swept_us;               /* when what is over was last looked for */
    struct buf room;
    struct buf detail;
};

int merge_new(struct merge **ret, struct err *err)
{
    struct merge *m = calloc(1, sizeof *m);
    if (!m)
        return err_memory(err);
    /* What was tried is the code's choice; where it collides is not. */
    if (getrandom(&m->seed, sizeof m->seed, 0) != sizeof m->seed) {
        free(m);
        return err_sys(err, "ask for random numbers");
    }
    buf_init(&m->room, 2 * RECORD_MAX);
    buf_init(&m->detail, 2 * RECORD_MAX);
    *ret = m;
    return 0;
}

void merge_free(struct merge *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->count; i++)
        free(m->entries[i].identity);
    buf_done(&m->room);
    buf_done(&m->detail);
    free(m);
}

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), n = strlen(end);
    return len >= n && strcmp(text + len - n, end) == 0;
}

bool merge_wants(const char *kind)
{
    return text_begins(kind, "denial") || ends_with(kind, ".refused") || ends_with(kind, ".denied");
}

/* ---- identity ---- */

/* From a seed that nobody knows, and with every bit of what there is by then in each that follows:
 * otherwise texts that collide for one seed do for others. */
static uint64_t hash_of(const struct merge *m, const char *data, size_t len)
{
    uint64_t h = m->seed;
    for (size_t i = 0; i < len; i++) {
        h = (h ^ (uint8_t)data[i]) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    return h;
}

static void add_part(struct buf *out, const char *part)
{
    buf_str(out, part ? part : "");
    buf_chr(out, '\0');
}

static void identify(struct buf *out, const struct record *r, const char *detail)
{
    buf_reset(out);
    add_part(out, r->boundary);
    add_part(out, r->kind);
    add_part(out, r->box);
    add_part(out, r->key);
    add_part(out, detail);
}

static const char *next_part(const char **p)
{
    const char *part = *p;
    *p += strlen(part) + 1;
    return part[0] ? part : NULL;
}

static struct record record_of(const struct entry *e)
{
    const char *p = e->identity;
    struct record r = {.time_us = e->time_us};
    r.boundary = next_part(&p);
    r.kind = next_part(&p);
    r.box = next_part(&p);
    r.key = next_part(&p);
    r.detail = next_part(&p);
    return r;
}

/* ---- where an entry is ---- */

static uint16_t *bucket(struct merge *m, enum way way, uint64_t hash)
{
    return &m->buckets[way][hash % BUCKETS];
}

static void chain_in(struct merge *m, size_t i)
{
    struct entry *e = &m->entries[i];
    for (enum way way = 0; way < WAYS; way++) {
        uint16_t *first = bucket(m, way, e->hash[way]);
        e->next[way] = *first;
        *first = (uint16_t)(i + 1);
    }
}

static void chain_out(struct merge *m, size_t i)
{
    struct entry *e = &m->entries[i];
    for (enum way way = 0; way < WAYS; way++) {
        uint16_t *at = bucket(m, way, e->hash[way]);
        while (*at != i + 1)
            at = &m->entries[*at - 1].next[way];
        *at = e->next[way];
    }
}

static struct entry *find(struct merge *m, const struct buf *identity)
{
    uint64_t hash = hash_of(m, identity->data, identity->len);
    for (uint16_t at = *bucket(m, BY_IDENTITY, hash); at;) {
        struct entry *e = &m->entries[at - 1];
        m->looks++;
        if (e->hash[BY_IDENTITY] == hash && e->len == identity->len &&
            memcmp(e->identity, identity->data, e->len) == 0)
            return e;
        at = e->next[BY_IDENTITY];
    }
    return NULL;
}

static struct entry *insert(struct merge *m, const struct buf *identity, bool stands_for_further,
                            uint64_t now_us)
{
    char *copy = m->count < ROOM ? malloc(identity->len) : NULL;
    if (!copy)
        return NULL;
    memcpy(copy, identity->data, identity->len);
    const char *p = copy;
    next_part(&p);
    next_part(&p);
    struct entry *e = &m->entries[m->count];
    *e = (struct entry){.hash = {hash_of(m, copy, identity->len), hash_of(m, p, strlen(p))},
                        .since_us = now_us,
                        .len = identity->len,
                        .identity = copy,
                        .box = p,
                        .further = stands_for_further};
    m->kinds += !stands_for_further;
    chain_in(m, m->count++);
    return e;
}

/* The last one takes its place. */
static void take_out(struct merge *m, size_t i)
{
    size_t last = m->count - 1;
    chain_out(m, i);
    m->kinds -= !m->entries[i].further;
    free(m->entries[i].identity);
    if (i != last) {
        chain_out(m, last);
        m->entries[i] = m->entries[last];
        chain_in(m, i);
    }
    m->count = last;
}

/* Has this box had its share of the second? */
static bool is_full(struct merge *m, const char *box)
{
    const char *name = box ? box : "";
    uint64_t hash = hash_of(m, name, strlen(name));
    size_t mine = 0;
    if (m->kinds >= MERGE_MAX)
        return true;
    for (uint16_t at = *bucket(m, BY_BOX, hash); at && mine < MERGE_PER_BOX;) {
        const struct entry *e = &m->entries[at - 1];
        m->looks++;
        mine += !e->further && e->hash[BY_BOX] == hash && strcmp(e->box, name) == 0;
        at = e->next[BY_BOX];
    }
    return mine >= MERGE_PER_BOX;
}

/* ---- in ---- */

static const char further_detail[] = "{\"count\":0,\"what\":\"further kinds\"}";

/* Where it is counted when it can have no entry of its own: per box, then for all together. */
static struct entry *further(struct merge *m, const struct record *r, uint64_t now_us)
{
    struct record common = {.boundary = r->boundary, .kind = r->kind, .box = r->box};
    struct record last = {.boundary = "audit", .kind = "denial"};
    for (int i = 0; i < 2; i++) {
        identify(&m->room, i == 0 ? &common : &last, further_detail);
        struct entry *e = find(m, &m->room);
        /* The last entry is kept for the counter of all sandboxes together. */
        if (!e && m->count + (i == 0) < ROOM)
            e = insert(m, &m->room, true, now_us);
        if (e)
            return e;
    }
    return NULL;
}

static uint64_t count_of(const struct json *detail)
{
    const struct json *j = detail ? json_get(detail, "count") : NULL;
    int64_t n = j && json_type(j) == JSON_INT ? json_int(j) : 1;
    return n > 0 ? (uint64_t)n : 1;
}

static void note_due(struct merge *m, const struct entry *e)
{
    uint64_t at = e->since_us + MERGE_WINDOW_US;
    if (e->held && (!m->due_us || at < m->due_us))
        m->due_us = at;
}

void merge_add(struct merge *m, const struct record *r, const struct json *detail, uint64_t now_us,
               merge_fn *fn, void *ctx)
{
    static const uint64_t zero = 0;
    if (now_us - m->swept_us >= MERGE_WINDOW_US / 8)
        merge_flush(m, now_us, false, fn, ctx);
    buf_reset(&m->detail);
    if (detail && record_detail_write(detail, &zero, &m->detail, NULL) < 0) {
        fn(ctx, r);
        return;
    }
    identify(&m->room, r, detail ? buf_text(&m->detail) : NULL);
    struct entry *e = m->room.failed ? NULL : find(m, &m->room);
    bool first = !e;
    if (!e && !m->room.failed && !is_full(m, r->box))
        e = insert(m, &m->room, false, now_us);
    if (e && first) {
        fn(ctx, r);
        return;
    }
    e = e ? e : further(m, r, now_us);
    if (!e) { /* out of memory: better too much than too little */
        fn(ctx, r);
        return;
    }
    uint64_t n = count_of(detail);
    e->held = e->held > UINT64_MAX - n ? UINT64_MAX : e->held + n;
    e->time_us = r->time_us;
    note_due(m, e);
}

/* ---- out ---- */

static void emit(struct merge *m, struct entry *e, merge_fn *fn, void *ctx)
{
    struct record r = record_of(e);
    struct json *tree = NULL;
    const char *text = r.detail ? r.detail : "{}";
    uint64_t count = e->held > INT64_MAX ? INT64_MAX : e->held;
    buf_reset(&m->detail);
    if (json_parse(text, strlen(text), &json_default_limits, &tree, NULL) >= 0 &&
        record_detail_write(tree, &count, &m->detail, NULL) >= 0)
        r.detail = buf_text(&m->detail);
    json_free(tree);
    fn(ctx, &r);
    e->held = 0;
}

void merge_flush(struct merge *m, uint64_t now_us, bool all, merge_fn *fn, void *ctx)
{
    m->swept_us = now_us;
    m->due_us = 0;
    for (size_t i = 0; i < m->count;) {
        struct entry *e = &m->entries[i];
        bool over = now_us - e->since_us >= MERGE_WINDOW_US;
        if (over && !e->held) {
            take_out(m, i);
            continue;
        }
        if ((over || all) && e->held) {
            emit(m, e, fn, ctx);
            /* More of its kind may come: its next second begins. */
            if (over)
                e->since_us = now_us;
        }
        note_due(m, e);
        i++;
    }
}

uint64_t merge_due_us(const struct merge *m)
{
    return m->due_us;
}

uint64_t merge_looks(const struct merge *m)
{
    return m->looks;
}
