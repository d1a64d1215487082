/* RV-5: an apply that was killed leaves, in the folder of the review,
 *   staging   the name of its staging folder, before that is made
 *   journal   what it was about to do: undone
 *   done      the same, when all of it was done: only the staging folder is left to be removed
 * and in the project the staging folder. Whoever opens the review next finishes it. */
#include "base/cleanup.h"
#include "os/fd.h"
#include "os/remove.h"
#include "os/sys.h"
#include "review/journal.h"
#include "review/review.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JOURNAL_MAX   (256u << 20)
#define CLOCK_STEP_NS 10000000

static int open_staging(const struct review *r, const char *name)
{
    struct stat sb;
    int fd = openat(r->project, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && (fstat(fd, &sb) < 0 || sb.st_uid != geteuid() || (sb.st_mode & 077))) {
        close(fd);
        errno = ENOENT; /* somebody else's */
        return -1;
    }
    return fd;
}

static int review_clean(struct review *r, const char *staging)
{
    cleanup_fd int fd = open_staging(r, staging);
    if (fd < 0)
        return path_is_absent(errno) ? 0 : -1;
    int left = remove_contents(fd);
    errno = -left;
    if (left < 0)
        return -1;
    review_step();
    return unlinkat(r->project, staging, AT_REMOVEDIR);
}

/* NULL and errno. */
static char *read_journal(int dir, const char *name, size_t *len)
{
    struct stat sb;
    cleanup_fd int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &sb) < 0)
        return NULL;
    errno = EFBIG;
    cleanup_free char *text = sb.st_size > JOURNAL_MAX ? NULL : malloc((size_t)sb.st_size + 1);
    for (*len = 0; text && *len < (size_t)sb.st_size;) {
        ssize_t n = read(fd, text + *len, (size_t)sb.st_size - *len);
        if (n < 0)
            return NULL;
        if (n == 0)
            break;
        *len += (size_t)n;
    }
    char *whole = text;
    text = NULL;
    return whole;
}

/* The inode alone would take for ours what the owner has written into the file since. */
static bool is_applied(const struct review_op *op, const struct review_stamp *now)
{
    return op->stamped && op->new_ino && now->ino == op->new_ino && now->size == op->new_size &&
           now->mtime_ns == op->new_mtime_ns && (now->mode & 0777) == (op->new_mode & 0777);
}

/* What was put back has the time of now as that of its last change, and would look like somebody's
 * work since the run began. */
static void forgive_one(struct review *r, const struct review_op *op, struct buf *out)
{
    struct stat sb;
    struct review_stamp now, none = {0};
    const char *leaf;
    if (op->kind == REVIEW_OP_CHMOD || op->kind == REVIEW_OP_MKDIR)
        return;
    cleanup_fd int parent = review_parent_at(r->project, op->path, &leaf);
    if (parent < 0 || fstatat(parent, leaf, &sb, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    review_stamp(&sb, &now);
    bool put_back = now.ino == op->old_ino && now.size == op->old_size &&
                    now.mtime_ns == op->old_mtime_ns && now.mode == op->old_mode;
    /* Or it is what was applied: the code may go on and change it again. */
    if (put_back || is_applied(op, &now))
        review_base_add(out, op->path, &now, &none);
}

/* And the folders, in which this was done, but none that was changed after `until`: then somebody
 * else may have removed a file there. */
static void forgive_folder(struct review *r, const char *path, int64_t until, struct buf *out)
{
    struct stat sb;
    struct review_stamp now, none = {0};
    const char *leaf;
    char parent[REVIEW_PATH_MAX + 1];
    cleanup_fd int fd = review_parent_at(r->project, path, &leaf);
    if (fd < 0 || fstat(fd, &sb) < 0 || (size_t)(leaf - path) >= sizeof parent)
        return;
    size_t len = leaf > path ? (size_t)(leaf - path) - 1 : 0;
    memcpy(parent, path, len);
    parent[len] = '\0';
    review_stamp(&sb, &now);
    if (now.ctime_ns <= until)
        review_base_add(out, len ? parent : ".", &now, &none);
}

/* Keeps the entries that an earlier undo wrote for other files. */
static void forgive_earlier(struct review *r, struct buf *text)
{
    size_t len = 0;
    cleanup_free char *before = read_journal(r->dir, "forgiven", &len);
    cleanup_free char *now = text->len ? malloc(text->len) : NULL;
    struct review_base old = {0}, fresh = {0};
    if (now)
        memcpy(now, text->data, text->len);
    if (before && review_base_parse(before, len, &old, NULL) >= 0 &&
        (!now || review_base_parse(now, text->len, &fresh, NULL) >= 0))
        for (size_t i = 0; i < old.count; i++)
            if (!review_base_find(&fresh, old.items[i].path))
                review_base_add(text, old.items[i].path, &old.items[i].host, &old.items[i].layer);
    review_base_done(&old);
    review_base_done(&fresh);
}

static bool same_folder(const char *a, const char *b)
{
    const char *x = strrchr(a, '/'), *y = strrchr(b, '/');
    size_t n = x ? (size_t)(x - a) : 0, m = y ? (size_t)(y - b) : 0;
    return n == m && memcmp(a, b, n) == 0;
}

/* When the last operation was done, if all of them were: the journal was renamed right after. The
 * clock of a file system is the kernel's, which goes in steps, and more finely in some. Of an apply
 * that was undone nobody knows, and the undoing changes the folders once more. */
static int64_t last_change(const struct review *r, const char *name)
{
    struct stat sb;
    struct review_stamp stamp;
    if (strcmp(name, "done") != 0 || fstatat(r->dir, name, &sb, AT_SYMLINK_NOFOLLOW) < 0)
        return INT64_MAX;
    review_stamp(&sb, &stamp);
    return stamp.ctime_ns + CLOCK_STEP_NS;
}

/* The project's own folder, from which the staging folder is still to be removed. */
static int64_t until_of_top(const struct review *r, int64_t until)
{
    struct stat sb;
    struct review_stamp stamp;
    if (fstat(r->project, &sb) < 0)
        return 0;
    review_stamp(&sb, &stamp);
    return stamp.ctime_ns <= until ? INT64_MAX : 0;
}

static void forgive(struct review *r, const struct review_journal *j, int64_t until, int64_t top)
{
    size_t done = 0;
    cleanup_buf struct buf text;
    buf_init(&text, JOURNAL_MAX);
    forgive_folder(r, "x", top, &text);
    for (size_t i = 0; i < j->count; i++) {
        forgive_one(r, &j->ops[i], &text);
        /* Neighbours come one after the other. */
        if (strchr(j->ops[i].path, '/') &&
            (i == 0 || !same_folder(j->ops[i - 1].path, j->ops[i].path)))
            forgive_folder(r, j->ops[i].path, until, &text);
    }
    forgive_earlier(r, &text);
    cleanup_fd int fd =
        openat(r->dir, "new", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    while (fd >= 0 && done < text.len) {
        ssize_t n = write(fd, text.data + done, text.len - done);
        if (n <= 0)
            return;
        done += (size_t)n;
    }
    if (fd >= 0 && !text.failed)
        renameat(r->dir, "new", r->dir, "forgiven");
}

static int undo_all(struct review *r, const struct review_journal *j, struct err *err)
{
    bool kept = false;
    cleanup_fd int staging = open_staging(r, j->staging);
    if (staging < 0)
        return path_is_absent(errno) ? 0 : err_sys(err, "open %s/%s", r->meta.source, j->staging);
    review_undo(r, staging, j, j->count, &kept);
    if (!kept)
        return 0;
    err_set(err, ERR_REFUSED,
            "an interrupted apply could not be undone completely: the project was changed since");
    return err_hint(err, "%s/%s holds the files that were there before; remove it when done",
                    r->meta.source, j->staging);
}

/* The project could not be looked at just now, which says nothing about it. */
static bool may_succeed_later(const struct err *why)
{
    return why->code == ERR_MEMORY || (why->code == ERR_SYSTEM && !path_is_absent(why->sys_errno));
}

/* The journal alone knows of it, and stays until it is gone. */
static int clean(struct review *r, const char *staging, struct err *err)
{
    if (review_clean(r, staging) == 0)
        return 0;
    err_sys(err, "remove %s in %s, which an apply made", staging, r->meta.source);
    return err_hint(err, "it is tried again the next time; or remove it by hand");
}

/* 0: there was none. */
static int finish(struct review *r, const char *name, bool done, struct err *err)
{
    size_t len = 0;
    struct review_journal j = {0};
    cleanup_free char *text = read_journal(r->dir, name, &len);
    if (!text)
        return path_is_absent(errno) ? 0 : err_sys(err, "read the journal of an apply");
    struct err mine = ERR_INIT;
    int result = review_journal_parse(text, len, &j, &mine);
    if (result >= 0 && !done)
        result = undo_all(r, &j, &mine);
    if (result < 0 && err)
        *err = mine;
    if (result < 0 && may_succeed_later(&mine)) {
        review_journal_done(&j);
        return result;
    }
    int64_t until = last_change(r, name), top = until_of_top(r, until);
    if (result >= 0 && clean(r, j.staging, &mine) < 0) {
        review_journal_done(&j);
        if (err)
            *err = mine;
        return err_number(&mine);
    }
    if (result >= 0)
        forgive(r, &j, until, top);
    /* What could not be put back is told once; it will not get better by itself. */
    review_step();
    unlinkat(r->dir, name, 0);
    review_step();
    unlinkat(r->dir, "staging", 0);
    review_journal_done(&j);
    return result < 0 ? result : 1;
}

int review_recover(struct review *r, struct err *err)
{
    int result = finish(r, "done", true, err);
    if (result == 0)
        result = finish(r, "journal", false, err);
    return result == 0 ? finish(r, "staging", true, err) : result;
}
