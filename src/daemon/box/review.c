/* Reviews: the question goes to the warden, the answer is a descriptor of a finished text. How long
 * that is, is the code's choice: it is on the account of the sandbox's key (AC-1), and so is what
 * the warden needs while it looks. */
#include "daemon/box/review.h"

#include "base/cleanup.h"
#include "daemon/box/box_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define REVIEW_MS   120000u
#define REVIEW_MAX  (16u << 20) /* a warden makes no longer ones */
#define REVIEW_LOOK (4u << 20)  /* for one that is looked at: a key has no dozens of them */

struct reviewing {
    review_fn *fn;
    void *ctx;
    struct hold hold;
};

/* Is there anything to review? */
static bool review_offered(const struct box *b)
{
    return b->info.project != NULL;
}

/* It is there twice for a moment: here, and on its way to the client. */
static int make_room(struct reviewing *r, int fd, struct buf *out, struct err *err)
{
    uint64_t size = fd_waiting(fd); /* of a file: what comes from here to its end */
    if (size >= REVIEW_MAX || hold_add(&r->hold, 2 * size, err) < 0) {
        if (err->code == ERR_NONE)
            err_set(err, ERR_LIMIT, "the changes are too long");
        return err_hint(err, "format=stat names the files, without what is in them");
    }
    hold_sub(&r->hold, 2 * size);
    buf_room(out, size + 1);
    return 0;
}

/* A memory file of the warden's: reading it never waits. */
static int read_text(struct reviewing *r, int fd, struct buf *out, struct err *err)
{
    char block[16384];
    if (make_room(r, fd, out, err) < 0)
        return err_number(err);
    for (ssize_t n; (n = read(fd, block, sizeof block)) != 0;) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(err, "read the changes");
        buf_add(out, block, (size_t)n);
        if (out->failed)
            return hold_refusal(&r->hold, err) < 0
                       ? err_number(err)
                       : err_set(err, ERR_LIMIT, "the changes are too long");
    }
    return 0;
}

static void on_answer(void *ctx, struct wire_msg *m, const struct err *err)
{
    struct reviewing *r = ctx;
    struct err mine = ERR_INIT;
    struct buf text = {0};
    cleanup_fd int fd = m && m->fd_count ? wire_steal_fd(m, 0) : -1;
    hold_sub(&r->hold, REVIEW_LOOK);
    buf_init_metered(&text, REVIEW_MAX, &r->hold.meter);
    if (!err && fd < 0)
        buf_add(&text, m->text, m->text_len);
    else if (!err && read_text(r, fd, &text, &mine) < 0)
        err = &mine;
    r->fn(r->ctx, err ? NULL : buf_text(&text), err ? 0 : text.len, err);
    buf_done(&text);
    hold_done(&r->hold);
    free(r);
}

static void ask(struct box *b, const char *text, size_t len, review_fn *fn, void *ctx)
{
    struct err err = ERR_INIT;
    struct reviewing *r = NULL;
    bool paused = b->info.state == BOX_PAUSED;
    if (!review_offered(b))
        err_set(&err, ERR_REFUSED, "this sandbox has no project to review");
    else if (paused || box_usable(b, &err))
        r = malloc(sizeof *r);
    if (r) {
        *r = (struct reviewing){.fn = fn, .ctx = ctx};
        hold_init(&r->hold, b->account);
    }
    if (!r || hold_add(&r->hold, REVIEW_LOOK, &err) < 0) {
        free(r);
        if (!err.code)
            err_memory(&err);
        fn(ctx, NULL, 0, &err);
        return;
    }
    box_touch(b);
    peer_ask(&b->warden, WIRE_REVIEW, 0, text, len, REVIEW_MS, on_answer, r);
}

void review_diff(struct box *b, enum review_format format, review_fn *fn, void *ctx)
{
    static const char *const questions[] = {[REVIEW_TEXT] = "{\"op\":\"diff\",\"format\":\"text\"}",
                                            [REVIEW_JSON] = "{\"op\":\"diff\",\"format\":\"json\"}",
                                            [REVIEW_STAT] =
                                                "{\"op\":\"diff\",\"format\":\"stat\"}"};
    ask(b, questions[format], strlen(questions[format]), fn, ctx);
}

/* RV-9. Whose sandbox it is can resume it between the look and the apply: of somebody else's, only
 * what was looked at is taken. */
static int may_take(const struct box *b, const struct key *by, const struct json *request,
                    struct err *err)
{
    const struct json *dry_run = request ? json_get(request, "dry_run") : NULL;
    bool changes = !(dry_run && json_type(dry_run) == JSON_BOOL && json_bool(dry_run));
    if (!by || !by->operator_key)
        return err_set(err, ERR_REFUSED, "changes are applied with an operator's key");
    if (by == b->info.owner || !changes || (request && json_text(request, "digest")))
        return 0;
    err_set(err, ERR_REFUSED, "the sandbox belongs to another key, which may change more");
    return err_hint(err, "give the digest of the changes that you looked at");
}

/* Passes on only the members that have a meaning, whatever else the request holds. */
void review_take(struct box *b, const struct key *by, const struct json *request, review_fn *fn,
                 void *ctx)
{
    static const char *const members[] = {"files", "trust", "digest", "dry_run"};
    cleanup_buf struct buf text = {0};
    struct json_writer w;
    struct err err = ERR_INIT;
    if (may_take(b, by, request, &err) < 0) {
        fn(ctx, NULL, 0, &err);
        return;
    }
    jw_begin(&w, &text, WIRE_TEXT_MAX);
    jw_kv_string(&w, "op", "apply");
    for (size_t i = 0; request && i < ARRAY_LEN(members); i++) {
        const struct json *value = json_get(request, members[i]);
        if (value)
            jw_kv_json(&w, members[i], value);
    }
    jw_object_end(&w);
    if (text.failed) {
        err_set(&err, ERR_LIMIT, "too many names in one request");
        fn(ctx, NULL, 0, &err);
        return;
    }
    core_record(b->core, "review.apply", b->info.id, by, buf_text(&text));
    ask(b, buf_text(&text), text.len, fn, ctx);
}

void review_drop(struct box *b, const struct key *by, review_fn *fn, void *ctx)
{
    static const char question[] = "{\"op\":\"discard\"}";
    core_record(b->core, "review.discard", b->info.id, by, NULL);
    ask(b, question, sizeof question - 1, fn, ctx);
}
