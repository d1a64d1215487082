/* The journal of one apply: what is done to the project, in order, written before any of it is.
 * Every operation can be told to be done or not by looking at inodes, and can be undone. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum review_op_kind {
    REVIEW_OP_CREATE,  /* staging/nI → path, where nothing is */
    REVIEW_OP_REPLACE, /* staging/nI ↔ path */
    REVIEW_OP_REMOVE,  /* path → staging/oI */
    REVIEW_OP_MKDIR,   /* as CREATE; undone only where it is empty */
    REVIEW_OP_CHMOD,   /* of a folder */
    REVIEW_OP_COUNT,
};

struct review_op {
    enum review_op_kind kind;
    uint64_t new_ino, old_ino;
    uint64_t old_size;
    int64_t old_mtime_ns;
    uint32_t old_mode, new_mode;
    const char *path;
    /* As it was staged, which a rename keeps: a file that has them still is what was applied. */
    uint64_t new_size;
    int64_t new_mtime_ns;
    bool stamped; /* they are known; journals of older versions do not say them */
};

#define REVIEW_STAGING_SIZE 40

struct review_journal {
    char staging[REVIEW_STAGING_SIZE]; /* its name in the project */
    struct review_op *ops;
    size_t count;
};

void review_journal_done(struct review_journal *j);
void review_journal_begin(struct buf *out, const char *staging);
void review_journal_add(struct buf *out, const struct review_op *op);
void review_journal_end(struct buf *out);
/* The text must outlive the result. */
int review_journal_parse(const char *text, size_t len, struct review_journal *ret, struct err *err);
/* Relative, no empty part, no "." or "..". */
bool review_path_ok(const char *path);

/* commit.c */
struct review;
/* A place at which the tests kill. */
void review_step(void);
int review_commit(struct review *r, int staging, const struct review_journal *j, struct err *err);
/* Undoes what was done, from the last to the first. What somebody else has changed since is left
 * alone; then *kept is set, and the staging folder must stay because it holds what was there
 * before. */
void review_undo(struct review *r, int staging, const struct review_journal *j, size_t from,
                 bool *kept);
