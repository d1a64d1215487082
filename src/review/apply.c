/* Taking changes over: choose, check, stage, write the journal, commit. Nothing of the project is
 * touched before everything that can be checked was checked and all that is new lies beside it. */
#include "base/cleanup.h"
#include "os/sys.h"
#include "review/journal.h"
#include "review/review.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>

#define JOURNAL_MAX (256u << 20)

struct staging {
    struct review *r;
    int fd;
    char name[REVIEW_STAGING_SIZE];
    struct buf journal;
    size_t count;
};

/* ---- what is new ---- */

static int changed(const struct review_change *c, struct err *err)
{
    err_set(err, ERR_REFUSED, "%s is not any more what was looked at", c->path);
    return err_hint(err, "nothing was applied: the code still writes it; pause or end the sandbox, "
                         "and look again");
}

static int copy_bytes(int from, int to, const struct review_change *c, struct err *err)
{
    static char block[256 * 1024];
    uint64_t total = 0;
    if (ioctl(to, FICLONE, from) == 0)
        return 0;
    for (ssize_t n; (n = read(from, block, sizeof block)) != 0;) {
        if (n < 0)
            return err_sys(err, "copy %s", c->path);
        if ((total += (uint64_t)n) > c->new.size)
            return changed(c, err);
        if (write(to, block, (size_t)n) != n)
            return err_sys(err, "copy %s", c->path);
    }
    return 0;
}

/* RV-7: what lies beside the project, where the code cannot write, is what gets its name; and it is
 * what was shown. Times and sizes would not tell. */
static int is_what_was_shown(int staged, const struct review_change *c, struct err *err)
{
    uint8_t digest[SHA256_SIZE];
    if (lseek(staged, 0, SEEK_SET) < 0 || review_hash_file(staged, digest) < 0)
        return err_sys(err, "read the staged %s", c->path);
    return memcmp(digest, c->digest, sizeof digest) == 0 ? 0 : changed(c, err);
}

/* As root, give the new file to the owner of the old one, or else of the project. */
static int give_away(const struct staging *s, const char *name, const struct review_change *c,
                     struct err *err)
{
    struct stat sb = {.st_uid = (uid_t)s->r->meta.uid, .st_gid = (gid_t)s->r->meta.gid};
    const char *leaf;
    if (geteuid() != 0)
        return 0;
    cleanup_fd int parent = c->old.mode ? review_parent_at(s->r->project, c->path, &leaf) : -1;
    if (c->old.mode && (parent < 0 || fstatat(parent, leaf, &sb, AT_SYMLINK_NOFOLLOW) < 0))
        return err_sys(err, "look whose %s is", c->path);
    if (fchownat(s->fd, name, sb.st_uid, sb.st_gid, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(err, "give %s to its owner", c->path);
    return 0;
}

static int stage_file(const struct staging *s, const char *name, const struct review_change *c,
                      struct err *err)
{
    cleanup_fd int from = review_open_file(s->r->layer, c->path, &c->new, err);
    if (from < 0)
        return from;
    cleanup_fd int to = openat(s->fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (to < 0)
        return err_sys(err, "stage %s", c->path);
    if (copy_bytes(from, to, c, err) < 0 || is_what_was_shown(to, c, err) < 0 ||
        give_away(s, name, c, err) < 0)
        return err_number(err);
    /* RV-3: these bits and no others. */
    return fchmod(to, c->new.mode & 0777) < 0 ? err_sys(err, "set the mode of %s", c->path) : 0;
}

static int stage_link(const struct staging *s, const char *name, const struct review_change *c,
                      struct err *err)
{
    char target[REVIEW_PATH_MAX + 1];
    uint8_t digest[SHA256_SIZE];
    int n = review_read_link(s->r->layer, c->path, target);
    errno = n < 0 ? -n : 0;
    if (n < 0)
        return err_sys(err, "stage %s", c->path);
    review_hash(target, (size_t)n, digest);
    if (memcmp(digest, c->digest, sizeof digest) != 0)
        return changed(c, err);
    if (symlinkat(target, s->fd, name) < 0)
        return err_sys(err, "stage %s", c->path);
    return give_away(s, name, c, err);
}

static int stage_folder(const struct staging *s, const char *name, const struct review_change *c,
                        struct err *err)
{
    /* Whatever its mode was inside, the owner can always enter it. */
    if (mkdirat(s->fd, name, 0700) < 0)
        return err_sys(err, "stage %s", c->path);
    if (give_away(s, name, c, err) < 0)
        return err_number(err);
    if (fchmodat(s->fd, name, (c->new.mode & 0777) | 0700, 0) < 0)
        return err_sys(err, "set the mode of %s", c->path);
    return 0;
}

/* Notes how it lies there, by which it is known again where it is applied. */
static int stage(struct staging *s, const struct review_change *c, struct review_op *op,
                 struct err *err)
{
    char name[24];
    struct stat sb;
    struct review_stamp staged;
    snprintf(name, sizeof name, "n%zu", s->count);
    int r = S_ISREG(c->new.mode)   ? stage_file(s, name, c, err)
            : S_ISLNK(c->new.mode) ? stage_link(s, name, c, err)
            : S_ISDIR(c->new.mode) ? stage_folder(s, name, c, err)
                                   : err_set(err, ERR_REFUSED, "%s is not a plain file", c->path);
    if (r >= 0 && fstatat(s->fd, name, &sb, AT_SYMLINK_NOFOLLOW) < 0)
        r = err_sys(err, "look at the staged %s", c->path);
    if (r < 0)
        return r;
    review_stamp(&sb, &staged);
    op->new_ino = staged.ino;
    op->new_size = staged.size;
    op->new_mtime_ns = staged.mtime_ns;
    return r;
}

/* ---- the journal ---- */

static int add_op(struct staging *s, enum review_op_kind kind, const struct review_change *c,
                  struct err *err)
{
    struct review_op op = {.kind = kind,
                           .old_ino = c->old.ino,
                           .old_size = c->old.size,
                           .old_mtime_ns = c->old.mtime_ns,
                           .old_mode = c->old.mode,
                           .new_mode = c->new.mode,
                           .path = c->path};
    bool stages = kind == REVIEW_OP_CREATE || kind == REVIEW_OP_REPLACE || kind == REVIEW_OP_MKDIR;
    if (stages && stage(s, c, &op, err) < 0)
        return err_number(err);
    review_journal_add(&s->journal, &op);
    s->count++;
    review_step();
    return 0;
}

static bool changes_kind(const struct review_change *c)
{
    return c->kind == REVIEW_MODIFIED && ((c->old.mode ^ c->new.mode) & S_IFMT);
}

static bool is_chmod(const struct review_change *c)
{
    return c->kind == REVIEW_MODIFIED && S_ISDIR(c->new.mode) && S_ISDIR(c->old.mode);
}

static bool opens_up(const struct review_change *c)
{
    return (c->new.mode & 0300) == 0300;
}

static int plan_removals(struct staging *s, struct err *err)
{
    struct review *r = s->r;
    /* From the last path to the first: what is in a folder before the folder. */
    for (size_t i = r->count; i-- > 0;) {
        const struct review_change *c = &r->changes[i];
        bool folder = S_ISDIR(c->old.mode) || S_ISDIR(c->new.mode);
        if (c->chosen && (c->kind == REVIEW_DELETED || (changes_kind(c) && folder)) &&
            add_op(s, REVIEW_OP_REMOVE, c, err) < 0)
            return err_number(err);
    }
    return 0;
}

static int plan_arrivals(struct staging *s, struct err *err)
{
    struct review *r = s->r;
    for (size_t i = 0; i < r->count; i++) {
        struct review_change *c = &r->changes[i];
        if (!c->chosen || c->kind == REVIEW_DELETED || is_chmod(c))
            continue;
        bool removed = changes_kind(c) && (S_ISDIR(c->old.mode) || S_ISDIR(c->new.mode));
        enum review_op_kind kind = S_ISDIR(c->new.mode)                 ? REVIEW_OP_MKDIR
                                   : c->kind == REVIEW_ADDED || removed ? REVIEW_OP_CREATE
                                                                        : REVIEW_OP_REPLACE;
        if (add_op(s, kind, c, err) < 0)
            return err_number(err);
    }
    return 0;
}

static int plan_modes(struct staging *s, bool opening, struct err *err)
{
    struct review *r = s->r;
    for (size_t n = 0; n < r->count; n++) {
        const struct review_change *c = &r->changes[opening ? n : r->count - 1 - n];
        if (c->chosen && is_chmod(c) && opens_up(c) == opening &&
            add_op(s, REVIEW_OP_CHMOD, c, err) < 0)
            return err_number(err);
    }
    return 0;
}

static int plan(struct staging *s, struct err *err)
{
    review_journal_begin(&s->journal, s->name);
    if (plan_modes(s, true, err) < 0 || plan_removals(s, err) < 0 || plan_arrivals(s, err) < 0 ||
        plan_modes(s, false, err) < 0)
        return err_number(err);
    review_journal_end(&s->journal);
    return s->journal.failed ? err_set(err, ERR_LIMIT, "too many changes for one apply") : 0;
}

/* Whole or not at all, and on the disk. */
static int write_whole(int dir, const char *name, const struct buf *text, struct err *err)
{
    size_t done = 0;
    cleanup_fd int fd =
        openat(dir, "new", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    while (fd >= 0 && done < text->len) {
        ssize_t n = write(fd, text->data + done, text->len - done);
        if (n <= 0)
            return err_sys(err, "write the journal");
        done += (size_t)n;
    }
    if (fd < 0 || fsync(fd) < 0)
        return err_sys(err, "write the journal");
    review_step();
    if (renameat(dir, "new", dir, name) < 0 || fsync(dir) < 0)
        return err_sys(err, "write the journal");
    review_step();
    return 0;
}

/* ---- all of it ---- */

static int make_staging(struct staging *s, struct err *err)
{
    uint64_t random;
    cleanup_buf struct buf text;
    buf_init(&text, 4096);
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return err_sys(err, "random name");
    snprintf(s->name, sizeof s->name, REVIEW_STAGING "%016" PRIx64, random);
    review_journal_begin(&text, s->name);
    review_journal_end(&text);
    if (write_whole(s->r->dir, "staging", &text, err) < 0)
        return err_number(err);
    if (mkdirat(s->r->project, s->name, 0700) < 0)
        return err_sys(err, "make a folder in %s", s->r->meta.source);
    review_step();
    s->fd = openat(s->r->project, s->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return s->fd < 0 ? err_sys(err, "open %s", s->name) : 0;
}

static int commit(struct staging *s, struct err *err)
{
    struct review *r = s->r;
    struct review_journal j;
    if (syncfs(r->project) < 0)
        return err_sys(err, "bring the staged files to the disk");
    if (write_whole(r->dir, "journal", &s->journal, err) < 0 ||
        review_journal_parse(s->journal.data, s->journal.len, &j, err) < 0)
        return err_number(err);
    int result = review_commit(r, s->fd, &j, err);
    review_journal_done(&j);
    if (result < 0)
        return result;
    if (syncfs(r->project) < 0 || renameat(r->dir, "journal", r->dir, "done") < 0)
        return err_sys(err, "close the journal");
    review_step();
    return 0;
}

static int lock_project(const struct review *r, struct err *err)
{
    if (flock(r->project, LOCK_EX | LOCK_NB) == 0)
        return 0;
    err_set(err, ERR_REFUSED, "another apply works on %s", r->meta.source);
    return err_hint(err, "wait until it is done");
}

static int perform(struct review *r, struct err *err)
{
    struct staging s = {.r = r, .fd = -1};
    struct err later = ERR_INIT;
    buf_init(&s.journal, JOURNAL_MAX);
    int result = lock_project(r, err);
    if (result >= 0)
        result = make_staging(&s, err);
    if (result >= 0)
        result = plan(&s, err);
    if (result >= 0)
        result = commit(&s, err);
    /* Undoes what is not done, and removes the staging folder. */
    int cleaned = s.name[0] ? review_recover(r, &later) : 0;
    if (cleaned < 0 && result >= 0) {
        *err = later;
        result = cleaned;
    }
    flock(r->project, LOCK_UN);
    if (s.fd >= 0)
        close(s.fd);
    buf_done(&s.journal);
    return result < 0 ? result : 0;
}

int review_apply(struct review *r, const struct review_choice *choice, struct err *err)
{
    int result = review_choose(r, choice, err);
    bool some = false;
    for (size_t i = 0; result >= 0 && i < r->count; i++)
        some |= r->changes[i].chosen;
    return result < 0 || !some || choice->dry_run ? result : perform(r, err);
}
