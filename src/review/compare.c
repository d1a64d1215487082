/* From candidates to changes: contents are held and compared, renames found, marks made, and all of
 * it summed up in one digest. */
#include "base/cleanup.h"
#include "base/hex.h"
#include "os/sys.h"
#include "review/review.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MOVED_MAX   (64u << 20) /* larger files are not looked for under another name */
#define RENAMES_MAX 2000        /* on each side */
static const char escaping[] = "it is a link that leads out of the project";

static int hash_old(const struct review *r, const struct review_change *c,
                    uint8_t out[static SHA256_SIZE])
{
    cleanup_fd int fd = review_open_file(r->project, c->path, &c->old, NULL);
    return fd < 0 ? -1 : review_hash_file(fd, out);
}

static bool same_file(const struct review *r, const struct review_change *c)
{
    uint8_t old[SHA256_SIZE];
    return c->old.size == c->new.size &&hash_old(r, c, old) >= 0 &&
           memcmp(old, c->digest, sizeof old) == 0;
}

static bool same_link(const struct review *r, const struct review_change *c)
{
    char target[REVIEW_PATH_MAX + 1];
    uint8_t old[SHA256_SIZE];
    int n = review_read_link(r->project, c->path, target);
    if (n < 0)
        return false;
    review_hash(target, (size_t)n, old);
    return memcmp(old, c->digest, sizeof old) == 0;
}

/* False: it is no change after all. */
static bool is_change(struct review *r, struct review_change *c)
{
    if (c->kind != REVIEW_MODIFIED || c->refused || ((c->old.mode ^ c->new.mode) & S_IFMT))
        return true;
    if (S_ISREG(c->new.mode))
        c->content = !same_file(r, c);
    else if (S_ISLNK(c->new.mode))
        c->content = !same_link(r, c);
    else
        c->content = false;
    return c->content || (!S_ISLNK(c->new.mode) && ((c->old.mode ^ c->new.mode) & 0777));
}

static int review_compare(struct review *r, struct err *err)
{
    size_t kept = 0;
    int result = 0;
    for (size_t i = 0; i < r->count; i++) {
        struct review_change *c = &r->changes[i];
        if (result >= 0)
            result = review_hold(r, c, err);
        if (result < 0 || is_change(r, c)) {
            r->changes[kept++] = *c;
            continue;
        }
        review_let_go(r, c);
        free(c->path);
    }
    r->count = kept;
    return result;
}

/* ---- marks ---- */

static void mark(const struct review *r, struct review_change *c)
{
    char target[REVIEW_PATH_MAX + 1];
    bool folder = S_ISDIR(c->new.mode | c->old.mode) && (!c->new.mode || !c->old.mode);
    c->trust = folder ? NULL : review_trust(c->path);
    if (!S_ISLNK(c->new.mode) || c->refused)
        return;
    int n = review_held(r, c, target, sizeof target - 1);
    target[n > 0 ? n : 0] = '\0';
    if (!c->trust && (n < 0 || review_link_escapes(c->path, target)))
        c->trust = escaping;
}

/* ---- the digest ---- */

static void add_number(struct sha256 *h, uint64_t n)
{
    sha256_add(h, &n, sizeof n);
}

/* Over what is shown: whoever gives it back says that this, and nothing else, was looked at. */
static void sum_up(struct review *r)
{
    struct sha256 h;
    uint8_t sum[SHA256_SIZE];
    sha256_init(&h);
    for (size_t i = 0; i < r->count; i++) {
        const struct review_change *c = &r->changes[i];
        sha256_add(&h, c->path, strlen(c->path) + 1);
        add_number(&h, c->kind);
        add_number(&h, c->old.mode);
        add_number(&h, c->old.mode && S_ISREG(c->old.mode) ? c->old.size : 0);
        add_number(&h, c->new.mode);
        sha256_add(&h, c->digest, sizeof c->digest);
    }
    sha256_finish(&h, sum);
    hex_encode(sum, sizeof sum, r->digest);
}

/* ---- renames ---- */

struct half {
    size_t at;
    uint64_t size;
    bool hashed;
    uint8_t digest[SHA256_SIZE];
};

static int by_size(const void *a, const void *b)
{
    const struct half *x = a, *y = b;
    if (x->size != y->size)
        return x->size < y->size ? -1 : 1;
    return x->at < y->at ? -1 : 1;
}

static size_t collect(const struct review *r, enum review_kind kind, struct half *out)
{
    size_t count = 0;
    for (size_t i = 0; i < r->count && count < RENAMES_MAX; i++) {
        const struct review_change *c = &r->changes[i];
        const struct review_stamp *s = kind == REVIEW_ADDED ? &c->new : &c->old;
        if (c->kind == kind && !c->refused && S_ISREG(s->mode) && s->size && s->size <= MOVED_MAX)
            out[count++] = (struct half){.at = i, .size = s->size};
    }
    qsort(out, count, sizeof *out, by_size);
    return count;
}

static void pair(struct review *r, struct half *gone, const struct half *added)
{
    struct review_change *from = &r->changes[gone->at], *to = &r->changes[added->at];
    if (!gone->hashed && hash_old(r, from, gone->digest) < 0)
        return;
    gone->hashed = true;
    if (memcmp(gone->digest, to->digest, SHA256_SIZE) == 0) {
        from->twin = added->at;
        to->twin = gone->at;
    }
}

/* A file that went and one of the same content that came are one that moved. */
static void find_renames(struct review *r)
{
    cleanup_free struct half *gone = calloc(RENAMES_MAX, sizeof *gone);
    cleanup_free struct half *added = calloc(RENAMES_MAX, sizeof *added);
    if (!gone || !added)
        return;
    size_t gone_count = collect(r, REVIEW_DELETED, gone);
    size_t added_count = collect(r, REVIEW_ADDED, added);
    for (size_t i = 0, first = 0; i < gone_count; i++) {
        while (first < added_count && added[first].size < gone[i].size)
            first++;
        size_t tries = 0;
        for (size_t j = first; j < added_count && added[j].size == gone[i].size && tries < 64; j++)
            if (r->changes[gone[i].at].twin == SIZE_MAX &&
                r->changes[added[j].at].twin == SIZE_MAX) {
                pair(r, &gone[i], &added[j]);
                tries++;
            }
    }
}

int review_find(struct review *r, struct err *err)
{
    int result = review_walk(r, err);
    if (result >= 0)
        result = review_compare(r, err);
    if (result < 0)
        return result;
    for (size_t i = 0; i < r->count; i++)
        mark(r, &r->changes[i]);
    result = review_mark_repositories(r, err);
    if (result >= 0)
        result = review_mark_linked(r, err);
    find_renames(r);
    for (size_t i = 0; i < r->count; i++)
        if (r->changes[i].lost && r->changes[i].twin == SIZE_MAX)
            r->changes[i].conflict = review_gone;
    sum_up(r);
    return result;
}
