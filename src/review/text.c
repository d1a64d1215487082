/* The changes of a review as a unified diff with git's headings, for people and for tools that take
 * patches.
 * Lines that begin with # are brig's own; tools skip them. */
#include "base/cleanup.h"
#include "base/utf8.h"
#include "os/sys.h"
#include "review/diff.h"
#include "review/review.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONTEXT 3
#define OUT_MAX (16u << 20)

#define RED    "\033[31m"
#define GREEN  "\033[32m"
#define CYAN   "\033[36m"
#define BOLD   "\033[1m"
#define ALARM  "\033[1;33m"
#define NORMAL "\033[m"

/* Mode as git writes it. */
static unsigned review_git_mode(uint32_t mode)
{
    if (S_ISLNK(mode))
        return 0120000;
    if (S_ISDIR(mode))
        return 0040000;
    return mode & 0100 ? 0100755 : 0100644;
}

void review_name(struct buf *out, const char *prefix, const char *path)
{
    bool plain = true;
    for (const unsigned char *p = (const unsigned char *)path; *p; p++)
        plain = plain && *p >= 0x20 && *p < 0x7f && *p != '"' && *p != '\\';
    if (!plain)
        buf_chr(out, '"');
    buf_str(out, prefix);
    for (const unsigned char *p = (const unsigned char *)path; *p; p++) {
        if (*p == '"' || *p == '\\')
            buf_fmt(out, "\\%c", *p);
        else if (*p == '\n' || *p == '\t')
            buf_str(out, *p == '\n' ? "\\n" : "\\t");
        else if (*p < 0x20 || *p >= 0x7f)
            buf_fmt(out, "\\%03o", *p);
        else
            buf_chr(out, (char)*p);
    }
    if (!plain)
        buf_chr(out, '"');
}

/* ---- one text ---- */

struct text {
    char *data;
    size_t len;
};

static void text_done(struct text *t)
{
    free(t->data);
}
#define cleanup_text __attribute__((cleanup(text_done)))

/* 1: read; 0: no text, or too much of it. */
static int is_text(const struct text *t)
{
    return t->len <= REVIEW_TEXT_MAX && !diff_is_binary(t->data, t->len);
}

static int make_room(struct text *t, struct err *err)
{
    t->data = malloc(REVIEW_TEXT_MAX + 1);
    return t->data ? 0 : err_memory(err);
}

/* RV-7: of the layer, only what is held. */
static int read_new(const struct review *r, const struct review_change *c, struct text *ret,
                    struct err *err)
{
    if (!S_ISREG(c->new.mode) && !S_ISLNK(c->new.mode))
        return c->new.mode == 0 || S_ISDIR(c->new.mode);
    if (make_room(ret, err) < 0)
        return err_number(err);
    int n = review_held(r, c, ret->data, REVIEW_TEXT_MAX);
    ret->len = n < 0 ? 0 : (size_t)n;
    return n >= 0 && (S_ISLNK(c->new.mode) || is_text(ret));
}

static int read_old(const struct review *r, const struct review_change *c, struct text *ret,
                    struct err *err)
{
    if (!S_ISREG(c->old.mode) && !S_ISLNK(c->old.mode))
        return c->old.mode == 0 || S_ISDIR(c->old.mode);
    if (c->old.size > REVIEW_TEXT_MAX)
        return 0;
    if (make_room(ret, err) < 0)
        return err_number(err);
    if (S_ISLNK(c->old.mode)) {
        int n = review_read_link(r->project, c->path, ret->data);
        ret->len = n < 0 ? 0 : (size_t)n;
        return n >= 0;
    }
    cleanup_fd int fd = review_open_file(r->project, c->path, &c->old, NULL);
    if (fd < 0)
        return 0;
    for (ssize_t n; ret->len <= REVIEW_TEXT_MAX &&
                    (n = read(fd, ret->data + ret->len, REVIEW_TEXT_MAX + 1 - ret->len)) > 0;)
        ret->len += (size_t)n;
    return is_text(ret);
}

struct hunks {
    const struct review_style *style;
    struct buf *out;
    uint64_t added, removed;
};

/* Nothing that a terminal would obey: control characters, and marks that turn text around. */
static void escaped(struct buf *out, const char *text, size_t len)
{
    while (len > 0) {
        uint32_t code = 0;
        size_t n = utf8_decode(text, len, &code);
        bool moves = code == 0x200e || code == 0x200f || (code >= 0x2028 && code <= 0x202e) ||
                     (code >= 0x2066 && code <= 0x2069) || code == 0xfeff;
        bool control = (code < 0x20 && code != '\t') || (code >= 0x7f && code <= 0x9f);
        if (n == 0)
            buf_fmt(out, "\\x%02x", (unsigned char)*text);
        else if (moves)
            buf_fmt(out, "\\u%04x", code);
        else if (control)
            buf_fmt(out, "\\x%02x", code);
        else
            buf_add(out, text, n);
        n = n ? n : 1;
        text += n;
        len -= n;
    }
}

static void put_line(void *ctx, char kind, const char *text, size_t len, bool unended)
{
    struct hunks *h = ctx;
    const char *colour = kind == '+' ? GREEN : kind == '-' ? RED : kind == '@' ? CYAN : NULL;
    h->added += kind == '+';
    h->removed += kind == '-';
    if (h->style->stat)
        return;
    if (h->style->colour && colour)
        buf_str(h->out, colour);
    if (kind != '@')
        buf_chr(h->out, kind);
    if (h->style->escape)
        escaped(h->out, text, len);
    else
        buf_add(h->out, text, len);
    if (h->style->colour && colour)
        buf_str(h->out, NORMAL);
    buf_str(h->out, unended ? "\n\\ No newline at end of file\n" : "\n");
}

int review_hunks(struct review *r, const struct review_change *c, const struct review_change *from,
                 const struct review_style *style, struct buf *out, uint64_t *added,
                 uint64_t *removed, struct err *err)
{
    cleanup_text struct text a = {0}, b = {0};
    struct diff d;
    struct hunks h = {style, out, 0, 0};
    int got = read_old(r, from ? from : c, &a, err);
    if (got > 0)
        got = read_new(r, c, &b, err);
    if (got <= 0)
        return got;
    if (diff_make(&d, a.data ? a.data : "", a.len, b.data ? b.data : "", b.len, err) < 0)
        return err_number(err);
    diff_walk(&d, CONTEXT, put_line, &h);
    diff_done(&d);
    *added = h.added;
    *removed = h.removed;
    return 1;
}

/* ---- headings ---- */

static void note(struct buf *out, const struct review_style *style, const char *what,
                 const char *path, const char *why)
{
    buf_str(out, style->colour ? ALARM : "");
    buf_fmt(out, "# %s ", what);
    review_name(out, "", path);
    buf_fmt(out, ": %s", why);
    buf_str(out, style->colour ? NORMAL "\n" : "\n");
}

static void notes(struct buf *out, const struct review_style *style, const struct review_change *c)
{
    if (c->trust)
        note(out, style, "TRUST", c->path, c->trust);
    if (c->conflict)
        note(out, style, "CONFLICT", c->path, c->conflict);
    if (c->refused)
        note(out, style, "REFUSED", c->path, c->refused);
    if (c->new.mode & 07000 && !S_ISDIR(c->new.mode))
        note(out, style, "DROPPED", c->path, "set-id and sticky bits are not taken over");
}

static void two_names(struct buf *out, const struct review_change *a, const struct review_change *b)
{
    buf_str(out, "diff --git ");
    review_name(out, "a/", a->path);
    buf_chr(out, ' ');
    review_name(out, "b/", b->path);
    buf_chr(out, '\n');
}

static void mode_lines(struct buf *out, const struct review_change *c, uint32_t old)
{
    unsigned a = review_git_mode(old), b = review_git_mode(c->new.mode);
    if (c->kind == REVIEW_DELETED)
        buf_fmt(out, "deleted file mode %06o\n", review_git_mode(c->old.mode));
    else if (!old)
        buf_fmt(out, "new file mode %06o\n", b);
    else if (a != b)
        buf_fmt(out, "old mode %06o\nnew mode %06o\n", a, b);
}

/* Bits that git does not know. */
static void more_mode(struct buf *out, const struct review_style *style,
                      const struct review_change *c, uint32_t old)
{
    char why[64];
    if (!old || !c->new.mode || S_ISLNK(c->new.mode) || !((old ^ c->new.mode) & 0777))
        return;
    snprintf(why, sizeof why, "%04o to %04o", old & 0777, c->new.mode & 0777);
    note(out, style, "MODE", c->path, why);
}

static void file_lines(struct buf *out, const struct review_change *a,
                       const struct review_change *c)
{
    buf_str(out, "--- ");
    if (a->old.mode)
        review_name(out, "a/", a->path);
    else
        buf_str(out, "/dev/null");
    buf_str(out, "\n+++ ");
    if (c->new.mode)
        review_name(out, "b/", c->path);
    else
        buf_str(out, "/dev/null");
    buf_chr(out, '\n');
}

static void binary_line(struct buf *out, const struct review_change *a,
                        const struct review_change *c)
{
    buf_str(out, "Binary files ");
    if (a->old.mode)
        review_name(out, "a/", a->path);
    else
        buf_str(out, "/dev/null");
    buf_str(out, " and ");
    if (c->new.mode)
        review_name(out, "b/", c->path);
    else
        buf_str(out, "/dev/null");
    buf_fmt(out, " differ\n# %" PRIu64 " bytes before, %" PRIu64 " after\n",
            a->old.mode ? a->old.size : 0, c->new.mode ? c->new.size : 0);
}

const char *review_kind_word(const struct review_change *c)
{
    if (c->twin != SIZE_MAX)
        return "renamed";
    return c->kind == REVIEW_ADDED     ? "added"
           : c->kind == REVIEW_DELETED ? "deleted"
           : c->content                ? "modified"
                                       : "mode";
}

static void stat_line(struct buf *out, const struct review_style *style,
                      const struct review_change *c, const struct review_change *from, int text,
                      uint64_t added, uint64_t removed)
{
    buf_fmt(out, "%-9s ", review_kind_word(c));
    if (from) {
        review_name(out, "", from->path);
        buf_str(out, " => ");
    }
    review_name(out, "", c->path);
    bool folder = S_ISDIR(c->new.mode ? c->new.mode : c->old.mode);
    if (folder)
        buf_chr(out, '/');
    else if (c->refused)
        buf_str(out, "  refused");
    else if (text > 0 && c->content)
        buf_fmt(out, "  +%" PRIu64 " -%" PRIu64, added, removed);
    else if (text == 0)
        buf_fmt(out, "  binary, %" PRIu64 " bytes", c->new.mode ? c->new.size : 0);
    buf_chr(out, '\n');
    (void)style;
}

/* A folder is in a patch only through what lies in it. */
static void folder_text(struct buf *out, const struct review_style *style,
                        const struct review_change *c)
{
    const char *word = c->kind == REVIEW_ADDED     ? "new folder"
                       : c->kind == REVIEW_DELETED ? "deleted folder"
                                                   : "folder";
    notes(out, style, c);
    if (c->kind == REVIEW_MODIFIED && !c->refused && S_ISDIR(c->old.mode))
        more_mode(out, style, c, c->old.mode);
    else
        note(out, style, "FOLDER", c->path, word);
}

static bool is_folder(const struct review_change *c)
{
    return (S_ISDIR(c->new.mode) && (S_ISDIR(c->old.mode) || !c->old.mode)) ||
           (S_ISDIR(c->old.mode) && !c->new.mode);
}

static int change_text(struct review *r, const struct review_style *style,
                       const struct review_change *c, struct buf *out, struct err *err)
{
    const struct review_change *from = c->twin != SIZE_MAX ? &r->changes[c->twin] : NULL;
    const struct review_change *a = from ? from : c;
    cleanup_buf struct buf hunks;
    uint64_t added = 0, removed = 0;
    int text = 1;
    buf_init(&hunks, OUT_MAX);
    if (c->content && !from && !c->refused && !is_folder(c))
        text = review_hunks(r, c, from, style, &hunks, &added, &removed, err);
    if (text < 0)
        return text;
    if (style->stat) {
        notes(out, style, c);
        stat_line(out, style, c, from, text, added, removed);
        return 0;
    }
    if (is_folder(c) && !c->refused) {
        folder_text(out, style, c);
        return 0;
    }
    notes(out, style, c);
    if (from && from->trust && !c->trust)
        note(out, style, "TRUST", from->path, from->trust);
    more_mode(out, style, c, a->old.mode);
    /* A patch has no words for this change. */
    if (c->refused ||
        (!from && !c->content && review_git_mode(a->old.mode) == review_git_mode(c->new.mode)))
        return 0;
    buf_str(out, style->colour ? BOLD : "");
    two_names(out, a, c);
    mode_lines(out, c, a->old.mode);
    if (from) {
        buf_str(out, "similarity index 100%\nrename from ");
        review_name(out, "", from->path);
        buf_str(out, "\nrename to ");
        review_name(out, "", c->path);
        buf_chr(out, '\n');
    }
    if (hunks.len)
        file_lines(out, a, c);
    buf_str(out, style->colour ? NORMAL : "");
    if (text == 0)
        binary_line(out, a, c);
    buf_add(out, hunks.data ? hunks.data : "", hunks.len);
    if (hunks.failed)
        buf_str(out, "# the rest is too long to be shown\n");
    return 0;
}

int review_text(struct review *r, const struct review_style *style, review_out_fn *fn, void *ctx,
                struct err *err)
{
    int result = 0;
    char line[SHA256_HEX_SIZE + 16];
    int len = snprintf(line, sizeof line, "# DIGEST %s\n", r->digest);
    if (r->count && fn(ctx, line, (size_t)len) < 0)
        return err_sys(err, "write the changes");
    for (size_t i = 0; result >= 0 && i < r->count; i++) {
        cleanup_buf struct buf out;
        buf_init(&out, 2 * OUT_MAX);
        if (r->changes[i].kind == REVIEW_DELETED && r->changes[i].twin != SIZE_MAX)
            continue; /* told with the file that it became */
        result = change_text(r, style, &r->changes[i], &out, err);
        if (result >= 0 && fn(ctx, buf_text(&out), out.len) < 0)
            return err_sys(err, "write the changes");
    }
    return result;
}
