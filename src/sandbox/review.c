/* Lists, shows, applies and discards reviews for the command line. */
#include "sandbox/review.h"

#include "base/cleanup.h"
#include "base/id.h"
#include "os/fd.h"
#include "os/runstate.h"
#include "review/review.h"

#include <errno.h>
#include <string.h>

#define cleanup_review __attribute__((cleanup(review_done)))

static int open_one(struct review *r, int reviews, const char *id, struct err *err)
{
    if (!run_id_valid(id)) {
        err_set(err, ERR_USAGE, "'%.60s' is not the id of a review", id);
        return err_hint(err, "`brig diff` lists them");
    }
    return review_open(r, reviews, id, err);
}

struct listing {
    void (*fn)(void *ctx, const struct reviews_line *line);
    void *ctx;
};

static void list_one(void *ctx, const struct review_meta *m, bool running)
{
    const struct listing *l = ctx;
    struct reviews_line line = {m->id, m->source, m->command, m->started_ns, running};
    l->fn(l->ctx, &line);
}

int reviews_list(void (*fn)(void *ctx, const struct reviews_line *line), void *ctx, struct err *err)
{
    struct listing l = {fn, ctx};
    cleanup_fd int reviews = runstate_open("reviews", false);
    if (reviews < 0)
        return path_is_absent(errno) ? 0 : err_sys(err, "open the folder of reviews");
    return review_list(reviews, list_one, &l, err);
}

int reviews_diff(const char *id, const struct reviews_style *style,
                 int (*out)(void *ctx, const char *text, size_t len), void *ctx, struct err *err)
{
    cleanup_fd int reviews = runstate_open("reviews", false);
    cleanup_review struct review r;
    struct review_style s = {
        .colour = style->colour, .escape = style->terminal, .stat = style->stat};
    review_init(&r);
    if (open_one(&r, reviews, id, err) < 0 || review_find(&r, err) < 0)
        return err_number(err);
    return review_text(&r, &s, out, ctx, err);
}

int reviews_json(const char *id, bool stat, struct buf *out, struct err *err)
{
    cleanup_fd int reviews = runstate_open("reviews", false);
    cleanup_review struct review r;
    review_init(&r);
    if (open_one(&r, reviews, id, err) < 0 || review_find(&r, err) < 0)
        return err_number(err);
    return review_json(&r, stat, out, err);
}

int reviews_apply(const char *id, const struct reviews_choice *c, bool json, struct buf *out,
                  struct err *err)
{
    cleanup_fd int reviews = runstate_open("reviews", false);
    cleanup_review struct review r;
    struct review_choice choice = {.files = c->files,
                                   .file_count = c->file_count,
                                   .trust = c->trust,
                                   .trust_count = c->trust_count,
                                   .digest = c->digest,
                                   .dry_run = c->dry_run};
    review_init(&r);
    if (open_one(&r, reviews, id, err) < 0 || review_find(&r, err) < 0 ||
        review_apply(&r, &choice, err) < 0)
        return err_number(err);
    bool left = review_told(&r, json, c->dry_run, out);
    if (!left && !c->dry_run && review_remove(reviews, id, err) < 0)
        return err_wrap(err, "the changes were applied, but their review is still there");
    return 0;
}

int reviews_discard(const char *id, struct err *err)
{
    cleanup_fd int reviews = runstate_open("reviews", false);
    if (!run_id_valid(id))
        return err_set(err, ERR_USAGE, "'%.60s' is not the id of a review", id);
    return review_discard(reviews, id, false, err);
}
