/* Review mode: the code works on a copy-on-write view of a project; what it changed is shown, and
 * taken over or thrown away, by the project's owner and on the host.
 *
 * The layer (the overlay's upper folder, or the process tier's copy) is hostile input: names,
 * kinds of files, modes, sizes, depth. The project may be changed by its owner at any moment.
 *
 * RV-1  The project is never written while the code runs.
 * RV-2  Everything is reached from the descriptor of the project or of the layer, never through a
 *       link, a mount point or "..": nothing outside of the project is ever written.
 * RV-3  Only plain files, folders and symbolic links are taken over; only the bits rwxrwxrwx of
 *       their modes; no owner, no attribute, no shared inode.
 * RV-4  A change is applied only to what the project held when the run began.
 * RV-5  All of the chosen changes are applied, or none of them, also if the one who does it is
 *       killed at any moment; the next one to touch the review finishes the work.
 * RV-6  What the host would trust or execute by itself is applied only when it is named.
 * RV-7  What was shown is what is applied, byte by byte, whatever the code does meanwhile. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/sha256.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#define REVIEW_PATH_MAX    4000       /* bytes of a path below the project */
#define REVIEW_DEPTH_MAX   96         /* folders in folders */
#define REVIEW_CHANGES_MAX 500000     /* entries */
#define REVIEW_TEXT_MAX    (1u << 20) /* larger files are not compared line by line */
#define REVIEW_STAGING     ".brig-apply-"

/* ---- what is known of a review: meta_parse.c ---- */
struct review_meta {
    char id[32];
    bool copy; /* the layer is a whole copy, not an overlay's */
    char *source, *dest;
    char *command; /* one line, for people */
    uint64_t dev, ino;
    uint64_t uid, gid;  /* the project's owner */
    int64_t started_ns; /* wall clock */
    uint64_t limit;     /* nothing that is new may be larger, nor all of it */
};
void review_meta_done(struct review_meta *m);
void review_meta_write(const struct review_meta *m, struct buf *out);
int review_meta_parse(const char *text, size_t len, struct review_meta *ret, struct err *err);

/* What tells one state of a file from another. */
struct review_stamp {
    uint64_t ino, size;
    int64_t mtime_ns, ctime_ns;
    uint32_t mode; /* with the kind; 0: there is nothing */
};
void review_stamp(const struct stat *sb, struct review_stamp *ret);
bool review_stamp_same(const struct review_stamp *a, const struct review_stamp *b);

/* ---- what a whole copy was made of: base_parse.c ---- */
struct review_base_entry {
    const char *path;          /* into the text */
    struct review_stamp host;  /* as it was copied */
    struct review_stamp layer; /* the copy */
    bool seen;
};
struct review_base {
    struct review_base_entry *items; /* sorted by path */
    size_t count;
};
void review_base_done(struct review_base *b);
void review_base_add(struct buf *out, const char *path, const struct review_stamp *host,
                     const struct review_stamp *layer);
/* Puts NULs into the text, which must outlive the result. */
int review_base_parse(char *text, size_t len, struct review_base *ret, struct err *err);
struct review_base_entry *review_base_find(const struct review_base *b, const char *path);

/* ---- changes ---- */
enum review_kind {
    REVIEW_ADDED,
    REVIEW_DELETED,
    REVIEW_MODIFIED, /* content, kind or mode */
};

struct review_change {
    char *path; /* below the project; no "..", no empty part, any byte but NUL */
    enum review_kind kind;
    struct review_stamp old, new;
    bool content;         /* not only the mode */
    const char *conflict; /* the host has changed it meanwhile; static */
    const char *refused;  /* it cannot be applied; static */
    const char *trust;    /* why it needs to be named; static */
    size_t twin;          /* renamed: the other half, else SIZE_MAX */
    bool lost;            /* a file of the host's that is not there any more, unless the code has
                             moved it */
    bool chosen;
    uint8_t digest[SHA256_SIZE]; /* of the new content, or of what the link says */
    uint64_t held_at;            /* where it begins in the copy */
};

struct review {
    struct review_meta meta;
    int dir;     /* of this review */
    int project; /* the host's folder */
    int layer;   /* the upper folder, or the copy */
    struct review_base base;
    char *base_text;
    struct review_base forgiven; /* files that an undone apply has put back: only their times are
                                    new */
    char *forgiven_text;
    struct review_change *changes; /* sorted by path */
    size_t count, room;
    int held; /* a copy of what is new, out of the code's reach; -1: nothing yet */
    uint64_t held_len;
    uint64_t taken;               /* by files that are new, holes and all */
    char digest[SHA256_HEX_SIZE]; /* of all changes */
    bool running;                 /* the code may still change things */
    bool live;                    /* set beforehand, by the holder of the lock of a running one */
};
void review_init(struct review *r);
void review_done(struct review *r);
/* `reviews` is the folder of all of them; finishes what an interrupted apply has left. */
int review_open(struct review *r, int reviews, const char *id, struct err *err);
/* open.c: calls fn for each, the newest first; then fails if there are some that cannot be read. */
int review_list(int reviews, void (*fn)(void *ctx, const struct review_meta *m, bool running),
                void *ctx, struct err *err);
/* Removes a review that does not run; the project is not looked at. */
int review_discard(int reviews, const char *id, bool even_running, struct err *err);
int review_remove(int reviews, const char *id, struct err *err);

/* walk.c, compare.c: fills in the changes. */
int review_walk(struct review *r, struct err *err);
/* Both, then marks, renames and r->digest, which is over all that is shown. */
int review_find(struct review *r, struct err *err);
struct review_change *review_add(struct review *r, const char *path, enum review_kind kind,
                                 const struct review_stamp *old, const struct review_stamp *new,
                                 struct err *err);
extern const char review_gone[];                                            /* a conflict */
struct review_change *review_get(const struct review *r, const char *path); /* NULL: none */

/* file.c: files of the project and of the layer, never through a link. */
int review_open_at(int root, const char *path, int flags);
int review_parent_at(int root, const char *path, const char **leaf);
int review_open_file(int root, const char *path, const struct review_stamp *expected,
                     struct err *err);
int review_read_link(int root, const char *path, char out[static REVIEW_PATH_MAX + 1]);

/* hold.c: reads what is new of a change, once; from then on its size is that of the copy. */
int review_hold(struct review *r, struct review_change *c, struct err *err);
/* The one that was held last is no change after all. */
void review_let_go(struct review *r, const struct review_change *c);
/* The new content, or what the link says: its length, or negative where it is not kept because it
 * is too long to be shown, or cannot be read. */
int review_held(const struct review *r, const struct review_change *c, char *out, size_t size);
void review_hash(const void *bytes, size_t len, uint8_t out[static SHA256_SIZE]);
int review_hash_file(int fd, uint8_t out[static SHA256_SIZE]);

/* trust.c: why the host would trust this file, or NULL. Pure. */
const char *review_trust(const char *path);
/* A link with this target leads out of the project, for one that lies at `path`. Pure. */
bool review_link_escapes(const char *path, const char *target);
/* The name of something that git looks for in a repository: one part of a path. Pure. */
#define REVIEW_GIT_HEAD      1u
#define REVIEW_GIT_OBJECTS   2u
#define REVIEW_GIT_REFS      4u
#define REVIEW_GIT_COMMONDIR 8u
bool review_is_git_name(const char *part, size_t len, unsigned *ret_bit);
/* repository.c: marks what makes a folder a repository, or lies in one. */
int review_mark_repositories(struct review *r, struct err *err);
/* linked.c: and those that a link of a trusted name leads to. */
int review_mark_linked(struct review *r, struct err *err);

/* text.c, json.c */
struct review_style {
    bool colour;
    bool escape; /* for a terminal: no control character of the code's choosing */
    bool stat;   /* only what, not how */
};
typedef int review_out_fn(void *ctx, const char *text, size_t len); /* negative: stop */
int review_text(struct review *r, const struct review_style *style, review_out_fn *out, void *ctx,
                struct err *err);
int review_json(struct review *r, bool stat, struct buf *out, struct err *err);
/* What was chosen: lines, or a JSON object. True: something else is left. */
bool review_told(const struct review *r, bool json, bool dry_run, struct buf *out);
/* What happened to it, in a word. */
const char *review_kind_word(const struct review_change *c);
/* A name as diff tools quote it: in double quotes with C escapes where it needs them. */
void review_name(struct buf *out, const char *prefix, const char *path);
/* The unified diff of one change, without its headings. 1: text was added; 0: it is not text;
 * *added and *removed count lines. */
int review_hunks(struct review *r, const struct review_change *c, const struct review_change *from,
                 const struct review_style *style, struct buf *out, uint64_t *added,
                 uint64_t *removed, struct err *err);

/* apply.c */
struct review_choice {
    const char *const *files; /* none: all */
    size_t file_count;
    const char *const *trust;
    size_t trust_count;
    const char *digest; /* or NULL: of what was shown */
    bool dry_run;
    bool live; /* the sandbox runs but stands still */
};
int review_choose(struct review *r, const struct review_choice *choice, struct err *err);
/* Chooses, checks, and applies. r->changes[].chosen says what. */
int review_apply(struct review *r, const struct review_choice *choice, struct err *err);
/* recover.c: 1: something was finished or undone. */
int review_recover(struct review *r, struct err *err);
bool review_is_empty(int dir, const char *name);
