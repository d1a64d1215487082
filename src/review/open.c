/* A review on the host: opened, listed, thrown away. */
#include "base/cleanup.h"
#include "base/id.h"
#include "os/fd.h"
#include "os/remove.h"
#include "os/sys.h"
#include "review/review.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#define META_MAX (64u * 1024)
#define BASE_MAX (256u << 20)

void review_init(struct review *r)
{
    *r = (struct review){.dir = -1, .project = -1, .layer = -1, .held = -1};
}

void review_done(struct review *r)
{
    for (size_t i = 0; i < r->count; i++)
        free(r->changes[i].path);
    free(r->changes);
    review_base_done(&r->base);
    free(r->base_text);
    review_base_done(&r->forgiven);
    free(r->forgiven_text);
    review_meta_done(&r->meta);
    int *fds[] = {&r->dir, &r->project, &r->layer, &r->held};
    for (size_t i = 0; i < ARRAY_LEN(fds); i++)
        if (*fds[i] >= 0)
            close(*fds[i]);
    review_init(r);
}

/* All of it, or NULL with errno. */
static char *read_whole(int dir, const char *name, size_t max, size_t *len)
{
    struct stat sb;
    cleanup_fd int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &sb) < 0)
        return NULL;
    if (!S_ISREG(sb.st_mode) || sb.st_size < 0 || (uint64_t)sb.st_size > max) {
        errno = S_ISREG(sb.st_mode) ? EFBIG : EINVAL;
        return NULL;
    }
    cleanup_free char *text = malloc((size_t)sb.st_size + 1);
    for (*len = 0; text && *len < (size_t)sb.st_size;) {
        ssize_t n = read(fd, text + *len, (size_t)sb.st_size - *len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n < 0 ? errno : EIO;
            return NULL;
        }
        *len += (size_t)n;
    }
    if (text)
        text[*len] = '\0';
    char *ret = text;
    text = NULL;
    return ret;
}

static int read_meta(int dir, struct review_meta *ret, struct err *err)
{
    size_t len = 0;
    cleanup_free char *text = read_whole(dir, "meta.json", META_MAX, &len);
    if (!text)
        return err_sys(err, "read the record of the review");
    return review_meta_parse(text, len, ret, err);
}

static int open_dir(int reviews, const char *id, struct err *err)
{
    int fd =
        reviews < 0 ? -1 : openat(reviews, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0)
        return fd;
    if (reviews >= 0 && !path_is_absent(errno))
        return err_sys(err, "open the review %s", id);
    err_set(err, ERR_USAGE, "there is no review %s", id);
    return err_hint(err, "`brig diff` lists what there is; a run that changed nothing leaves none");
}

/* The supervisor that made the layer holds this lock as long as the code runs. */
static bool is_running(int dir)
{
    return flock(dir, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

static int open_project(struct review *r, struct err *err)
{
    struct stat sb;
    /* FS-7: as it was written down, it has no links. */
    r->project = sys_openat2(AT_FDCWD, r->meta.source, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0,
                             RESOLVE_NO_SYMLINKS);
    if (r->project < 0 || fstat(r->project, &sb) < 0)
        return err_sys(err, "open the project %s", r->meta.source);
    if (sb.st_dev == r->meta.dev && sb.st_ino == r->meta.ino)
        return 0;
    err_set(err, ERR_REFUSED, "%s is not the folder any more that the run was given",
            r->meta.source);
    return err_hint(err, "put it back, or throw the changes away: brig discard %s", r->meta.id);
}

static int open_base(struct review *r, struct err *err)
{
    size_t len = 0;
    r->base_text = read_whole(r->dir, "base", BASE_MAX, &len);
    if (!r->base_text)
        return err_sys(err, "read the record of the copy");
    return review_base_parse(r->base_text, len, &r->base, err);
}

static int open_forgiven(struct review *r, struct err *err)
{
    size_t len = 0;
    r->forgiven_text = read_whole(r->dir, "forgiven", BASE_MAX, &len);
    return r->forgiven_text ? review_base_parse(r->forgiven_text, len, &r->forgiven, err) : 0;
}

int review_open(struct review *r, int reviews, const char *id, struct err *err)
{
    r->dir = open_dir(reviews, id, err);
    if (r->dir < 0)
        return err_number(err);
    if (read_meta(r->dir, &r->meta, err) < 0)
        return err ? err_number(err) : -1;
    if (strcmp(r->meta.id, id) != 0)
        return err_set(err, ERR_PROTOCOL, "the record of the review is damaged");
    r->running = is_running(r->dir);
    int result = open_project(r, err);
    if (result >= 0 && (!r->running || r->live))
        result = review_recover(r, err);
    if (result >= 0 && r->meta.copy)
        result = open_base(r, err);
    if (result >= 0)
        result = open_forgiven(r, err);
    if (result < 0)
        return result;
    r->layer = openat(r->dir, r->meta.copy ? "tree" : "layers/upper",
                      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return r->layer < 0 ? err_sys(err, "open what the run changed") : 0;
}

int review_remove(int reviews, const char *id, struct err *err)
{
    cleanup_fd int dir = openat(reviews, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int result = dir < 0 ? -errno : remove_folder(reviews, id, dir);
    if (result == 0 || result == -ENOENT)
        return 0;
    errno = -result;
    err_sys(err, "remove the folder of the review %s", id);
    return err_hint(err, "brig discard %s tries again", id);
}

/* What cannot be undone any more, because the record or the project is gone, is thrown away too. */
static int undo_unfinished(struct review *r, struct err *err)
{
    struct err mine = ERR_INIT;
    if (read_meta(r->dir, &r->meta, &mine) >= 0 && open_project(r, &mine) >= 0)
        return review_recover(r, err);
    if (!mine.sys_errno || path_is_absent(mine.sys_errno) || mine.sys_errno == EACCES)
        return 0;
    if (err)
        *err = mine;
    return err_number(&mine);
}

int review_discard(int reviews, const char *id, bool even_running, struct err *err)
{
    struct review r;
    review_init(&r);
    r.dir = open_dir(reviews, id, err);
    if (r.dir < 0)
        return err_number(err);
    int result = 0;
    if (is_running(r.dir) && !even_running) {
        err_set(err, ERR_REFUSED, "%s still runs, or somebody else works on it", id);
        result = err_hint(err, "wait for its end, or end it");
    }
    /* An apply that was interrupted is undone first: its leftovers lie in the project. */
    if (result >= 0)
        result = undo_unfinished(&r, err);
    if (result >= 0)
        result = review_remove(reviews, id, err);
    review_done(&r);
    return result < 0 ? result : 0;
}

struct listed {
    struct review_meta meta;
    bool running;
};

static int newest_first(const void *a, const void *b)
{
    int64_t x = ((const struct listed *)a)->meta.started_ns;
    int64_t y = ((const struct listed *)b)->meta.started_ns;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* 1: it is taken; 0: there is none of that name, or its record is not all there yet. */
static int take_listed(int reviews, const char *name, struct listed *ret, struct err *err)
{
    cleanup_fd int dir = openat(reviews, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0 && path_is_absent(errno))
        return 0;
    if (dir < 0)
        return err_sys(err, "open its folder");
    bool held = is_running(dir);
    if (read_meta(dir, &ret->meta, err) < 0)
        /* A run that begins holds its folder before it writes the record. */
        return held || path_is_absent(err->sys_errno) ? 0 : err_number(err);
    ret->running = held;
    return 1;
}

struct list {
    struct listed *all;
    size_t count, room;
    size_t unread;
    struct err why; /* of the first of those */
};

static int add_listed(struct list *l, struct listed *one, struct err *err)
{
    if (l->count == l->room) {
        size_t room = 2 * l->room + 16;
        struct listed *more = realloc(l->all, room * sizeof *more);
        if (!more) {
            review_meta_done(&one->meta);
            return err_memory(err);
        }
        l->all = more;
        l->room = room;
    }
    l->all[l->count++] = *one;
    return 0;
}

static void note_unread(struct list *l, const char *name, struct err *why)
{
    if (!why->sys_errno)
        err_hint(why, "`brig discard %s` removes it", name);
    err_wrap(why, "the review %s cannot be read", name);
    if (l->unread++ == 0)
        l->why = *why;
}

static int collect(int reviews, struct list *l, struct err *err)
{
    struct dirent *e;
    int r = 0, more = 0;
    DIR *list = folder_open(reviews, ".");
    if (!list)
        return err_sys(err, "list the reviews");
    while (r >= 0 && (more = folder_next(list, &e)) > 0) {
        struct listed one;
        struct err why = ERR_INIT;
        int taken = run_id_valid(e->d_name) ? take_listed(reviews, e->d_name, &one, &why) : 0;
        if (taken > 0)
            r = add_listed(l, &one, err);
        else if (taken < 0)
            note_unread(l, e->d_name, &why);
    }
    if (r >= 0 && more < 0)
        r = err_sys(err, "list the reviews");
    closedir(list);
    return r;
}

int review_list(int reviews, void (*fn)(void *ctx, const struct review_meta *m, bool running),
                void *ctx, struct err *err)
{
    struct list l = {.why = ERR_INIT};
    int r = collect(reviews, &l, err);
    if (l.count)
        qsort(l.all, l.count, sizeof *l.all, newest_first);
    for (size_t i = 0; i < l.count; i++) {
        fn(ctx, &l.all[i].meta, l.all[i].running);
        review_meta_done(&l.all[i].meta);
    }
    free(l.all);
    if (r < 0 || !l.unread)
        return r;
    if (l.unread > 1)
        err_wrap(&l.why, "%zu reviews cannot be read; the first", l.unread);
    *err = l.why;
    return err_number(err);
}
