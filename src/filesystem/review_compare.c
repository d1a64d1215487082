/* From candidates to changes: contents are compared, renames found, marks made, and all of it
 * summed up in one digest. */
#include "base/cleanup.h"
#include "filesystem/review.h"
#include "os/sys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK       65536
#define HASHED_MAX  (64u << 20) /* larger files are told apart by their stamps alone */
#define RENAMES_MAX 2000        /* on each side */
static const char unreadable[] = "it cannot be read";
static const char escaping[] = "it is a link that leads out of the project";

static bool same_bytes(int a, int b)
{
    static char x[BLOCK], y[BLOCK];
    for (;;) {
        ssize_t n = read(a, x, sizeof x);
        ssize_t got = 0;
        while (n > 0 && got < n) {
            ssize_t m = read(b, y + got, (size_t)(n - got));
            if (m <= 0)
                return false;
            got += m;
        }
        if (n <= 0)
            return n == 0 && read(b, y, 1) == 0;
        if (memcmp(x, y, (size_t)n) != 0)
            return false;
    }
}

static bool same_file(struct review *r, struct review_change *c)
{
    if (c->old.size != c->new.size || c->refused)
        return false;
    cleanup_fd int new = review_open_file(r->layer, c->path, &c->new, NULL);
    cleanup_fd int old = review_open_file(r->project, c->path, &c->old, NULL);
    if (new < 0 && errno == EACCES)
        c->refused = unreadable;
    return new >= 0 && old >= 0 && same_bytes(new, old);
}

static bool same_link(const struct review *r, const struct review_change *c)
{
    char a[REVIEW_PATH_MAX + 1], b[REVIEW_PATH_MAX + 1];
    return review_read_link(r->layer, c->path, a) >= 0 &&
           review_read_link(r->project, c->path, b) >= 0 && strcmp(a, b) == 0;
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

int review_compare(struct review *r, struct err *err)
{
    (void)err;
    size_t kept = 0;
    for (size_t i = 0; i < r->count; i++) {
        if (is_change(r, &r->changes[i]))
            r->changes[kept++] = r->changes[i];
        else
            free(r->changes[i].path);
    }
    r->count = kept;
    return 0;
}

/* ---- marks ---- */

static void mark(struct review *r, struct review_change *c)
{
    char target[REVIEW_PATH_MAX + 1];
    bool folder = S_ISDIR(c->new.mode | c->old.mode) && (!c->new.mode || !c->old.mode);
    c->trust = folder ? NULL : review_trust(c->path);
    if (!S_ISLNK(c->new.mode) || c->refused)
        return;
    if (review_read_link(r->layer, c->path, target) < 0)
        c->refused = unreadable;
    else if (!c->trust && review_link_escapes(c->path, target))
        c->trust = escaping;
}

/* ---- hashes ---- */

static int hash_file(int root, const char *path, const struct review_stamp *stamp,
                     uint8_t out[SHA256_SIZE])
{
    static char block[BLOCK];
    struct sha256 h;
    cleanup_fd int fd = review_open_file(root, path, stamp, NULL);
    if (fd < 0)
        return -1;
    sha256_init(&h);
    for (ssize_t n; (n = read(fd, block, sizeof block)) > 0;)
        sha256_add(&h, block, (size_t)n);
    sha256_finish(&h, out);
    return 0;
}

static void hash_new(struct review *r, struct review_change *c)
{
    struct sha256 h;
    char target[REVIEW_PATH_MAX + 1] = "";
    if (S_ISREG(c->new.mode) && c->new.size <= HASHED_MAX &&
        hash_file(r->layer, c->path, &c->new, c->digest) == 0)
        return;
    if (S_ISLNK(c->new.mode))
        review_read_link(r->layer, c->path, target);
    sha256_init(&h);
    sha256_add(&h, target, strlen(target));
    if (!S_ISLNK(c->new.mode) && !S_ISDIR(c->new.mode))
        sha256_add(&h, &c->new, sizeof c->new);
    sha256_finish(&h, c->digest);
}

static void add_number(struct sha256 *h, uint64_t n)
{
    sha256_add(h, &n, sizeof n);
}

/* Over what is shown: whoever gives it back says that this, and nothing else, was looked at. */
void review_digest(struct review *r)
{
    struct sha256 h;
    uint8_t sum[SHA256_SIZE];
    sha256_init(&h);
    for (size_t i = 0; i < r->count; i++) {
        struct review_change *c = &r->changes[i];
        hash_new(r, c);
        sha256_add(&h, c->path, strlen(c->path) + 1);
        add_number(&h, c->kind);
        add_number(&h, c->old.mode);
        add_number(&h, c->old.mode && S_ISREG(c->old.mode) ? c->old.size : 0);
        add_number(&h, c->new.mode);
        sha256_add(&h, c->digest, sizeof c->digest);
    }
    sha256_finish(&h, sum);
    for (size_t i = 0; i < sizeof sum; i++) {
        r->digest[2 * i] = "0123456789abcdef"[sum[i] >> 4];
        r->digest[2 * i + 1] = "0123456789abcdef"[sum[i] & 15];
    }
    r->digest[2 * SHA256_SIZE] = '\0';
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
        if (c->kind == kind && !c->refused && S_ISREG(s->mode) && s->size && s->size <= HASHED_MAX)
            out[count++] = (struct half){.at = i, .size = s->size};
    }
    qsort(out, count, sizeof *out, by_size);
    return count;
}

static bool hashed(struct review *r, struct half *h, bool added)
{
    const struct review_change *c = &r->changes[h->at];
    if (!h->hashed &&
        hash_file(added ? r->layer : r->project, c->path, added ? &c->new : &c->old, h->digest) < 0)
        return false;
    return h->hashed = true;
}

static void pair(struct review *r, struct half *gone, struct half *added)
{
    if (hashed(r, gone, false) && hashed(r, added, true) &&
        memcmp(gone->digest, added->digest, SHA256_SIZE) == 0) {
        r->changes[gone->at].twin = added->at;
        r->changes[added->at].twin = gone->at;
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
    find_renames(r);
    for (size_t i = 0; i < r->count; i++)
        if (r->changes[i].lost && r->changes[i].twin == SIZE_MAX)
            r->changes[i].conflict = review_gone;
    return 0;
}
