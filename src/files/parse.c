/* What a worker says, read on the outside.
 *
 * FA-5  The worker is as hostile as the code in its sandbox. Frames come in one order only, have
 *       lengths that fit their type, name only what an answer to this operation may hold, and as
 *       often as it may; texts end where they say and hold no NUL; paths are absolute and clean, so
 *       that a path joined to a folder of the client's stays in that folder. Anything else ends the
 * answer. The content of a file is passed on as it comes; all else is held until it is complete, in
 * a buffer of fixed size. The fuzzer is tests/fuzz/fuzz_files.c. */
#include "files/files.h"

#include <stdlib.h>
#include <string.h>

#define ERRNO_MAX 4095

enum expect { EXPECT_HEAD, EXPECT_BODY, EXPECT_NOTHING };

struct files_reader {
    enum files_op op;
    struct files_sink sink;
    enum expect expect;
    bool failed;
    uint64_t left;    /* bytes of DATA that HEAD promised and that did not come yet */
    uint32_t entries; /* that came */
    struct files_frame frame;
    size_t have;        /* of the frame: its head first, then its body */
    uint32_t data_left; /* of a DATA frame */
    struct files_entry entry;
    struct files_event event;
    char body[sizeof(struct files_entry_wire) + 3 * FILES_PATH_MAX];
};

static int bad(struct err *err, const char *what)
{
    int failed = err_set(err, ERR_PROTOCOL, "the file worker sent %s", what);
    err_at(err, BOUNDARY_FILESYSTEM);
    return failed;
}

int files_reader_new(struct files_reader **ret, enum files_op op, const struct files_sink *sink,
                     struct err *err)
{
    struct files_reader *r = calloc(1, sizeof *r);
    if (!r)
        return err_memory(err);
    r->op = op;
    r->sink = *sink;
    *ret = r;
    return 0;
}

void files_reader_free(struct files_reader *r)
{
    free(r);
}

/* ---- what a text may be ---- */

static bool has_nul(const char *text, size_t len)
{
    return memchr(text, '\0', len) != NULL;
}

/* Names with single slashes between them, none of them "." or "..". */
static bool is_clean(const char *path, size_t len)
{
    for (size_t at = 0; at <= len;) {
        const char *slash = memchr(path + at, '/', len - at);
        size_t n = slash ? (size_t)(slash - (path + at)) : len - at;
        const char *name = path + at;
        if (n == 0 || (n == 1 && name[0] == '.') || (n == 2 && name[0] == '.' && name[1] == '.'))
            return false;
        at += n + 1;
    }
    return !has_nul(path, len);
}

static bool is_clean_absolute(const char *path, size_t len)
{
    return len > 0 && path[0] == '/' && (len == 1 || is_clean(path + 1, len - 1));
}

/* name NUL value NUL …, at most so many, names not empty. */
static bool is_metadata(const char *text, size_t len)
{
    unsigned count = 0;
    for (size_t at = 0; at < len; count++) {
        const char *name_end = memchr(text + at, '\0', len - at);
        if (!name_end || name_end == text + at || count == FILES_METADATA_MAX)
            return false;
        at = (size_t)(name_end - text) + 1;
        const char *value_end = at < len ? memchr(text + at, '\0', len - at) : NULL;
        if (!value_end)
            return false;
        at = (size_t)(value_end - text) + 1;
    }
    return true;
}

/* ---- frames ---- */

static void end(struct files_reader *r, int error)
{
    r->expect = EXPECT_NOTHING;
    if (r->sink.end)
        r->sink.end(r->sink.ctx, error);
}

static int read_head_struct(struct files_reader *r, struct files_head *ret, struct err *err)
{
    memcpy(ret, r->body, sizeof *ret);
    if (ret->error < 0 || ret->error > ERRNO_MAX || ret->reserved != 0)
        return bad(err, "a malformed result");
    return 0;
}

static int take_head(struct files_reader *r, struct err *err)
{
    struct files_head head;
    if (read_head_struct(r, &head, err) < 0)
        return -ERR_PROTOCOL;
    r->expect = EXPECT_BODY;
    r->left = r->op == FILES_READ ? head.size : 0;
    if (r->sink.head)
        r->sink.head(r->sink.ctx, head.error, head.size);
    if (head.error)
        end(r, head.error);
    return 0;
}

static int take_end(struct files_reader *r, struct err *err)
{
    struct files_head head = {.error = 0};
    bool has_entry = r->op == FILES_STAT || r->op == FILES_MKDIR || r->op == FILES_MOVE;
    if (r->frame.length > 0 && read_head_struct(r, &head, err) < 0)
        return -ERR_PROTOCOL;
    if ((r->frame.length > 0) != (head.error != 0))
        return bad(err, "an end that is none");
    if (!head.error && (r->left > 0 || (has_entry && r->entries != 1) || r->op == FILES_WATCH))
        return bad(err, "less than it promised");
    end(r, head.error);
    return 0;
}

static int check_entry(const struct files_entry_wire *w, const char *text, size_t len)
{
    if ((uint64_t)w->path_len + w->target_len + w->metadata_len != len ||
        w->path_len > FILES_PATH_MAX || w->target_len > FILES_PATH_MAX ||
        w->metadata_len > sizeof((struct files_entry *)0)->metadata)
        return -ERR_PROTOCOL;
    if (w->kind < FILES_REGULAR || w->kind > FILES_OTHER || w->mode > 07777 ||
        w->mtime_nsec > 999999999 || (w->target_len && w->kind != FILES_SYMLINK) ||
        (w->metadata_len && w->kind != FILES_REGULAR))
        return -ERR_PROTOCOL;
    if (w->target_kind > FILES_OTHER || w->target_kind == FILES_SYMLINK || w->target_mode > 07777 ||
        (w->target_mode && !w->target_kind) ||
        (w->target_kind && !is_clean_absolute(text + w->path_len, w->target_len)))
        return -ERR_PROTOCOL;
    if (!is_clean_absolute(text, w->path_len) || has_nul(text + w->path_len, w->target_len) ||
        !is_metadata(text + w->path_len + w->target_len, w->metadata_len))
        return -ERR_PROTOCOL;
    return 0;
}

static int take_entry(struct files_reader *r, struct err *err)
{
    struct files_entry_wire w;
    struct files_entry *e = &r->entry;
    const char *text = r->body + sizeof w;
    memcpy(&w, r->body, sizeof w);
    if (check_entry(&w, text, r->frame.length - sizeof w) < 0)
        return bad(err, "a malformed entry");
    if (++r->entries > (r->op == FILES_LIST ? FILES_ENTRIES_MAX : 1u))
        return bad(err, "too many entries");
    e->kind = (enum files_kind)w.kind;
    e->mode = w.mode;
    e->target_kind = (enum files_kind)w.target_kind;
    e->target_mode = w.target_mode;
    e->uid = w.uid;
    e->gid = w.gid;
    e->size = w.size;
    e->mtime_sec = w.mtime_sec;
    e->mtime_nsec = w.mtime_nsec;
    e->path[utf8_escape(text, w.path_len, e->path)] = '\0';
    e->target[utf8_escape(text + w.path_len, w.target_len, e->target)] = '\0';
    memcpy(e->metadata, text + w.path_len + w.target_len, w.metadata_len);
    e->metadata_len = w.metadata_len;
    if (r->sink.entry)
        r->sink.entry(r->sink.ctx, e);
    return 0;
}

static int take_event(struct files_reader *r, struct err *err)
{
    uint32_t words[2];
    const char *name = r->body + sizeof words;
    size_t len = r->frame.length - sizeof words;
    memcpy(words, r->body, sizeof words);
    if (words[0] < FILES_CREATE || words[0] > FILES_CHMOD || words[1] > 1 || !is_clean(name, len))
        return bad(err, "a malformed event");
    r->event.kind = (enum files_event_kind)words[0];
    r->event.is_dir = words[1];
    r->event.name[utf8_escape(name, len, r->event.name)] = '\0';
    if (r->sink.event)
        r->sink.event(r->sink.ctx, &r->event);
    return 0;
}

/* ---- the stream ---- */

static bool may_come(const struct files_reader *r, enum files_frame_type type)
{
    if (r->expect != EXPECT_BODY)
        return r->expect == EXPECT_HEAD && type == FILES_HEAD;
    switch (type) {
    case FILES_ENTRY:
        return r->op == FILES_STAT || r->op == FILES_LIST || r->op == FILES_MKDIR ||
               r->op == FILES_MOVE;
    case FILES_EVENT:
        return r->op == FILES_WATCH;
    case FILES_DATA:
        return r->op == FILES_READ;
    default:
        return type == FILES_END;
    }
}

static bool fits(const struct files_reader *r, const struct files_frame *f)
{
    const uint32_t len = f->length;
    switch (f->type) {
    case FILES_HEAD:
        return len == sizeof(struct files_head);
    case FILES_END:
        return len == 0 || len == sizeof(struct files_head);
    case FILES_ENTRY:
        return len > sizeof(struct files_entry_wire) && len <= sizeof r->body;
    case FILES_EVENT:
        return len > 8 && len <= 8 + FILES_PATH_MAX;
    default:
        return len > 0 && len <= FILES_FRAME_DATA_MAX && len <= r->left;
    }
}

static int begin_frame(struct files_reader *r, struct err *err)
{
    const struct files_frame *f = &r->frame;
    if (f->zero1 || f->zero2 || f->type < FILES_HEAD || f->type > FILES_END)
        return bad(err, "no frame");
    if (!may_come(r, (enum files_frame_type)f->type))
        return bad(err, "a frame out of turn");
    if (!fits(r, f))
        return bad(err, "a frame of a wrong length");
    if (f->type == FILES_DATA) {
        r->data_left = f->length;
        r->left -= f->length;
    }
    return 0;
}

static int take_frame(struct files_reader *r, struct err *err)
{
    switch (r->frame.type) {
    case FILES_HEAD:
        return take_head(r, err);
    case FILES_ENTRY:
        return take_entry(r, err);
    case FILES_EVENT:
        return take_event(r, err);
    default:
        return take_end(r, err);
    }
}

/* Fills `to` up to `want` bytes of the frame; true when they are there. */
static bool gather(struct files_reader *r, void *to, size_t have, size_t want, const char **at,
                   size_t *len)
{
    size_t n = want - have < *len ? want - have : *len;
    memcpy((char *)to + have, *at, n);
    r->have += n;
    *at += n;
    *len -= n;
    return have + n == want;
}

static void pass_on(struct files_reader *r, const char **at, size_t *len)
{
    size_t n = r->data_left < *len ? r->data_left : *len;
    if (r->sink.data)
        r->sink.data(r->sink.ctx, *at, n);
    r->data_left -= (uint32_t)n;
    *at += n;
    *len -= n;
    if (r->data_left == 0)
        r->have = 0;
}

/* One step: at least a byte is used, or a frame completed. */
static int advance(struct files_reader *r, const char **at, size_t *len, struct err *err)
{
    const size_t head = sizeof r->frame;
    if (r->have < head) {
        if (r->expect == EXPECT_NOTHING)
            return bad(err, "more after its end");
        if (!gather(r, &r->frame, r->have, head, at, len))
            return 0;
        if (begin_frame(r, err) < 0)
            return -ERR_PROTOCOL;
    }
    if (r->data_left > 0) {
        if (*len > 0)
            pass_on(r, at, len);
        return 0;
    }
    if (!gather(r, r->body, r->have - head, r->frame.length, at, len))
        return 0;
    r->have = 0;
    return take_frame(r, err);
}

int files_reader_feed(struct files_reader *r, const void *bytes, size_t len, struct err *err)
{
    const char *at = bytes;
    if (r->failed)
        return bad(err, "nonsense before");
    while (len > 0)
        if (advance(r, &at, &len, err) < 0) {
            r->failed = true;
            return -ERR_PROTOCOL;
        }
    return 0;
}

int files_reader_finish(struct files_reader *r, struct err *err)
{
    bool complete = !r->failed && r->expect == EXPECT_NOTHING && r->have == 0;
    return complete ? 0 : bad(err, "only a part of its answer");
}
