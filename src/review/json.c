/* The changes of a review as JSON. */
#include "base/cleanup.h"
#include "base/quote.h"
#include "review/review.h"

#include <stdio.h>
#include <string.h>

#define OUT_MAX (16u << 20)

static void put_path(struct json_writer *w, const char *key, const char *path)
{
    jw_key(w, key);
    jw_bytes(w, path, strlen(path));
    if (text_is_utf8(path))
        return;
    /* What a JSON text cannot say as it is. */
    cleanup_buf struct buf name;
    char quoted[32];
    buf_init(&name, 5 * REVIEW_PATH_MAX);
    review_name(&name, "", path);
    snprintf(quoted, sizeof quoted, "%s_quoted", key);
    jw_kv_string(w, quoted, buf_text(&name));
}

static void put_mode(struct json_writer *w, const char *key, uint32_t mode)
{
    char text[16];
    snprintf(text, sizeof text, "%04o", mode & 07777);
    jw_kv_string(w, key, mode ? text : NULL);
}

static const char *type_word(uint32_t mode)
{
    return mode == 0        ? NULL
           : S_ISREG(mode)  ? "file"
           : S_ISDIR(mode)  ? "folder"
           : S_ISLNK(mode)  ? "link"
           : S_ISFIFO(mode) ? "fifo"
           : S_ISSOCK(mode) ? "socket"
                            : "device";
}

struct sums {
    uint64_t added, deleted, modified, renamed, trust, conflicts, refused, lines_added,
        lines_removed;
};

static void count(struct sums *s, const struct review_change *c)
{
    s->added += c->kind == REVIEW_ADDED && c->twin == SIZE_MAX;
    s->deleted += c->kind == REVIEW_DELETED;
    s->modified += c->kind == REVIEW_MODIFIED;
    s->renamed += c->kind == REVIEW_ADDED && c->twin != SIZE_MAX;
    s->trust += c->trust != NULL;
    s->conflicts += c->conflict != NULL;
    s->refused += c->refused != NULL;
}

static int put_lines(struct review *r, const struct review_change *c, bool stat,
                     struct json_writer *w, struct sums *s, struct err *err)
{
    struct review_style style = {.stat = stat};
    cleanup_buf struct buf hunks;
    uint64_t added = 0, removed = 0;
    bool plain = c->content && c->twin == SIZE_MAX && !c->refused &&
                 (S_ISREG(c->new.mode | c->old.mode) || S_ISLNK(c->new.mode) ||
                  S_ISLNK(c->old.mode) || S_ISREG(c->new.mode) || S_ISREG(c->old.mode));
    buf_init(&hunks, OUT_MAX);
    int text = plain ? review_hunks(r, c, NULL, &style, &hunks, &added, &removed, err) : 1;
    if (text < 0)
        return text;
    jw_kv_bool(w, "binary", text == 0);
    jw_kv_uint(w, "lines_added", added);
    jw_kv_uint(w, "lines_removed", removed);
    s->lines_added += added;
    s->lines_removed += removed;
    if (stat)
        return 0;
    jw_key(w, "diff");
    if (plain && text > 0 && !hunks.failed)
        jw_bytes(w, hunks.data ? hunks.data : "", hunks.len);
    else
        jw_null(w);
    return 0;
}

static int put_change(struct review *r, const struct review_change *c, bool stat,
                      struct json_writer *w, struct sums *s, struct err *err)
{
    const struct review_change *from = c->twin != SIZE_MAX ? &r->changes[c->twin] : NULL;
    const struct review_stamp *old = from ? &from->old : &c->old;
    count(s, c);
    jw_object_begin(w);
    put_path(w, "path", c->path);
    jw_kv_string(w, "change", review_kind_word(c));
    if (from)
        put_path(w, "old_path", from->path);
    jw_kv_string(w, "old_type", type_word(old->mode));
    jw_kv_string(w, "new_type", type_word(c->new.mode));
    put_mode(w, "old_mode", old->mode);
    put_mode(w, "new_mode", c->new.mode);
    jw_kv_uint(w, "old_size", S_ISDIR(old->mode) ? 0 : old->size);
    jw_kv_uint(w, "new_size", S_ISDIR(c->new.mode) ? 0 : c->new.size);
    jw_kv_string(w, "trust", c->trust ? c->trust : from ? from->trust : NULL);
    jw_kv_string(w, "conflict", c->conflict ? c->conflict : from ? from->conflict : NULL);
    jw_kv_string(w, "refused", c->refused);
    int result = put_lines(r, c, stat, w, s, err);
    jw_object_end(w);
    return result;
}

static void put_sums(struct json_writer *w, const struct sums *s)
{
    jw_key(w, "summary");
    jw_object_begin(w);
    jw_kv_uint(w, "added", s->added);
    jw_kv_uint(w, "deleted", s->deleted);
    jw_kv_uint(w, "modified", s->modified);
    jw_kv_uint(w, "renamed", s->renamed);
    jw_kv_uint(w, "lines_added", s->lines_added);
    jw_kv_uint(w, "lines_removed", s->lines_removed);
    jw_kv_uint(w, "need_trust", s->trust);
    jw_kv_uint(w, "conflicts", s->conflicts);
    jw_kv_uint(w, "refused", s->refused);
    jw_object_end(w);
}

int review_json(struct review *r, bool stat, struct buf *out, struct err *err)
{
    struct json_writer w;
    struct sums s = {0};
    int result = 0;
    jw_init(&w, out, false);
    jw_object_begin(&w);
    jw_kv_string(&w, "id", r->meta.id);
    put_path(&w, "project", r->meta.source);
    jw_kv_bool(&w, "running", r->running);
    jw_kv_string(&w, "digest", r->digest);
    jw_key(&w, "changes");
    jw_array_begin(&w);
    for (size_t i = 0; result >= 0 && i < r->count; i++)
        if (r->changes[i].kind != REVIEW_DELETED || r->changes[i].twin == SIZE_MAX)
            result = put_change(r, &r->changes[i], stat, &w, &s, err);
    jw_array_end(&w);
    put_sums(&w, &s);
    jw_object_end(&w);
    buf_chr(out, '\n');
    if (result >= 0 && out->failed)
        result = err_set(err, ERR_LIMIT, "the changes are too many for one JSON text");
    return result;
}

static const char *done_word(const struct review_change *c)
{
    return c->kind == REVIEW_ADDED ? "added" : c->kind == REVIEW_DELETED ? "deleted" : "modified";
}

bool review_told(const struct review *r, bool json, bool dry_run, struct buf *out)
{
    struct json_writer w;
    size_t left = 0;
    jw_init(&w, out, false);
    if (json) {
        jw_object_begin(&w);
        jw_kv_string(&w, "id", r->meta.id);
        jw_kv_bool(&w, "dry_run", dry_run);
        jw_key(&w, "applied");
        jw_array_begin(&w);
    }
    for (size_t i = 0; i < r->count; i++) {
        const struct review_change *c = &r->changes[i];
        left += !c->chosen;
        if (!c->chosen)
            continue;
        if (json) {
            jw_bytes(&w, c->path, strlen(c->path));
            continue;
        }
        buf_fmt(out, "%-9s", done_word(c));
        review_name(out, "", c->path);
        buf_str(out, S_ISDIR(c->new.mode ? c->new.mode : c->old.mode) ? "/\n" : "\n");
    }
    if (json) {
        jw_array_end(&w);
        jw_kv_uint(&w, "left", left);
        jw_object_end(&w);
        buf_chr(out, '\n');
    }
    return left > 0;
}
