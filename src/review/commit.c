/* Doing and undoing the operations of a journal. Each is one rename, which is done or not done and
 * nothing in between; inodes tell which (RV-5). All names are looked up from the project's
 * descriptor, without links (RV-2). */
#include "base/cleanup.h"
#include "base/num.h"
#include "os/fd.h"
#include "os/sys.h"
#include "os/weaken.h"
#include "review/journal.h"
#include "review/review.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE  2
#endif

bool review_is_empty(int dir, const char *name)
{
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *list = folder_take(fd);
    struct dirent *e;
    bool empty = list && folder_next(list, &e) == 0;
    if (list)
        closedir(list);
    return empty;
}

/* Between two steps, where a test build can be made to die. */
void review_step(void)
{
    static uint64_t left = UINT64_MAX;
    const char *text = left == UINT64_MAX ? weaken_setting("BRIG_REVIEW_FAULT") : NULL;
    if (left == UINT64_MAX && (!text || num_parse_uint(text, &left, NULL) < 0))
        left = 0;
    if (left > 0 && --left == 0)
        raise(SIGKILL);
}

static int swap(int from, const char *a, int to, const char *b, unsigned how)
{
    return (int)syscall(SYS_renameat2, from, a, to, b, how);
}

struct place {
    int parent;
    const char *leaf;
    char staged[24]; /* the new one */
    char saved[24];  /* the old one */
};

static int find(struct review *r, const struct review_op *op, size_t i, struct place *p)
{
    snprintf(p->staged, sizeof p->staged, "n%zu", i);
    snprintf(p->saved, sizeof p->saved, "o%zu", i);
    p->parent = review_parent_at(r->project, op->path, &p->leaf);
    return p->parent;
}

/* 0: there is none; UINT64_MAX: that cannot be told now. */
static uint64_t inode_at(int dir, const char *name)
{
    struct stat sb;
    if (fstatat(dir, name, &sb, AT_SYMLINK_NOFOLLOW) == 0)
        return sb.st_ino;
    return path_is_absent(errno) ? 0 : UINT64_MAX;
}

static bool is_as_reviewed(int dir, const char *name, const struct review_op *op)
{
    struct stat sb;
    struct review_stamp now;
    if (fstatat(dir, name, &sb, AT_SYMLINK_NOFOLLOW) < 0 || sb.st_ino != op->old_ino)
        return false;
    review_stamp(&sb, &now);
    return S_ISDIR(sb.st_mode) || (now.size == op->old_size && now.mtime_ns == op->old_mtime_ns &&
                                   now.mode == op->old_mode);
}

static int conflict(const struct review_op *op, struct err *err)
{
    err_set(err, ERR_REFUSED, "%s was changed on the host at this very moment", op->path);
    return err_hint(err, "nothing was applied; look again with brig diff");
}

static int set_mode(int parent, const char *leaf, uint64_t ino, uint32_t mode)
{
    char path[64];
    cleanup_fd int fd = openat(parent, leaf, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat sb;
    if (fd < 0 || fstat(fd, &sb) < 0)
        return -1;
    if (sb.st_ino != ino) {
        errno = ESTALE;
        return -1;
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return chmod(path, mode & 0777);
}

/* ---- doing ---- */

static int failed(const struct review_op *op, struct err *err)
{
    int why = errno;
    err_sys(err, "change %s", op->path);
    if (why == EEXIST || why == ENOENT || why == ELOOP || why == ENOTDIR)
        return err_hint(err, "it is not any more what it was: look again with brig diff");
    if (why == EXDEV)
        return err_hint(err, "something is mounted there");
    return err_number(err);
}

/* An emptied folder that got something new in the meantime is not removed. */
static bool is_gone(int staging, const struct place *p, const struct review_op *op)
{
    if (!is_as_reviewed(staging, p->saved, op))
        return false;
    if (!S_ISDIR(op->old_mode))
        return true;
    /* The folder may have to be put back, so do not try rmdir to see whether it is empty. */
    return review_is_empty(staging, p->saved);
}

static int perform(int staging, const struct place *p, const struct review_op *op, struct err *err)
{
    switch (op->kind) {
    case REVIEW_OP_CREATE:
    case REVIEW_OP_MKDIR:
        return swap(staging, p->staged, p->parent, p->leaf, RENAME_NOREPLACE) < 0 ? failed(op, err)
                                                                                  : 0;
    case REVIEW_OP_REPLACE:
        if (swap(staging, p->staged, p->parent, p->leaf, RENAME_EXCHANGE) < 0)
            return failed(op, err);
        review_step();
        return is_as_reviewed(staging, p->staged, op) ? 0 : conflict(op, err);
    case REVIEW_OP_REMOVE:
        if (swap(p->parent, p->leaf, staging, p->saved, RENAME_NOREPLACE) < 0)
            return failed(op, err);
        review_step();
        return is_gone(staging, p, op) ? 0 : conflict(op, err);
    case REVIEW_OP_CHMOD:
        return set_mode(p->parent, p->leaf, op->old_ino, op->new_mode) < 0 ? failed(op, err) : 0;
    default:
        return err_set(err, ERR_INTERNAL, "unknown operation");
    }
}

int review_commit(struct review *r, int staging, const struct review_journal *j, struct err *err)
{
    for (size_t i = 0; i < j->count; i++) {
        struct place p;
        bool kept = false;
        int result = find(r, &j->ops[i], i, &p) < 0 ? failed(&j->ops[i], err)
                                                    : perform(staging, &p, &j->ops[i], err);
        if (p.parent >= 0)
            close(p.parent);
        if (result < 0) {
            review_undo(r, staging, j, i + 1, &kept);
            return kept ? err_hint(err, "%s/%s holds what could not be put back", r->meta.source,
                                   j->staging)
                        : result;
        }
        review_step();
    }
    return 0;
}

/* ---- undoing ---- */

/* False: somebody else has been there since, and the old one is still in the staging folder. */
static bool undo(int staging, const struct place *p, const struct review_op *op)
{
    switch (op->kind) {
    case REVIEW_OP_CREATE:
        if (inode_at(p->parent, p->leaf) == op->new_ino && inode_at(staging, p->staged) == 0)
            swap(p->parent, p->leaf, staging, p->staged, RENAME_NOREPLACE);
        return true;
    case REVIEW_OP_MKDIR:
        if (inode_at(p->parent, p->leaf) == op->new_ino)
            unlinkat(p->parent, p->leaf, AT_REMOVEDIR);
        return true;
    case REVIEW_OP_REPLACE:
        if (inode_at(staging, p->staged) == op->new_ino)
            return true;
        return inode_at(p->parent, p->leaf) == op->new_ino &&
               swap(staging, p->staged, p->parent, p->leaf, RENAME_EXCHANGE) == 0;
    case REVIEW_OP_REMOVE:
        return inode_at(staging, p->saved) == 0 ||
               swap(staging, p->saved, p->parent, p->leaf, RENAME_NOREPLACE) == 0;
    case REVIEW_OP_CHMOD:
        set_mode(p->parent, p->leaf, op->old_ino, op->old_mode);
        return true;
    default:
        return true;
    }
}

void review_undo(struct review *r, int staging, const struct review_journal *j, size_t from,
                 bool *kept)
{
    for (size_t i = from; i-- > 0;) {
        struct place p;
        if (find(r, &j->ops[i], i, &p) < 0) {
            /* The folder above is gone: only what is left in the staging folder matters. */
            *kept |= (j->ops[i].kind == REVIEW_OP_REMOVE && inode_at(staging, p.saved)) ||
                     (j->ops[i].kind == REVIEW_OP_REPLACE &&
                      inode_at(staging, p.staged) != j->ops[i].new_ino);
            continue;
        }
        *kept |= !undo(staging, &p, &j->ops[i]);
        close(p.parent);
        review_step();
    }
}
