/* Watching a folder, and with `recursive` those in it: inotify, one watch for each. A folder that
 * appears is watched from then on, and what it already holds is reported as created: an entry may
 * be reported twice, never not at all. When the kernel says that it lost events, so does the END.
 *
 * The watches form a tree of names (folders_child.c), in which a folder is found again from
 * the top without following a link. No folder is held open: its end would not be told. */
#include "files/folders_child.h"
#include "files/worker_child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define SCAN_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)

static struct {
    const char *top;
    bool recursive;
    char said[FILES_PATH_MAX + 1]; /* what was written to last: a run of writes is one event */
    uint32_t over;                 /* the move that puts a complete write in a file's place */
} watch;

static int say(uint32_t slot, const char *name, enum files_event_kind kind, bool is_dir)
{
    if (files_temp_is(name))
        return 0;
    const char *path = folders_path(slot, name);
    if (!path)
        return -ENAMETOOLONG;
    if (kind != FILES_MODIFY)
        watch.said[0] = '\0';
    else if (strcmp(watch.said, path) == 0)
        return 0;
    else
        memcpy(watch.said, path, strlen(path) + 1);
    return files_out_event(kind, is_dir, path);
}

/* The folder at `path` below the top, by its names. */
static int reopen(const char *path)
{
    char name[NAME_MAX + 1];
    int fd = files_path_open(AT_FDCWD, watch.top, O_PATH | O_DIRECTORY);
    while (fd >= 0 && *path) {
        size_t len = strcspn(path, "/");
        memcpy(name, path, len);
        name[len] = '\0';
        path += len + (path[len] == '/');
        int next = openat(fd, name, *path ? O_PATH | SCAN_FLAGS : SCAN_FLAGS);
        next = next < 0 ? -errno : next;
        close(fd);
        fd = next;
    }
    return fd;
}

/* Begins to watch what is behind `fd`, which is consumed, and to look through it at this level. */
static int begin(unsigned level, int fd, uint32_t above, const char *name)
{
    struct files_dir *d = &files_dirs[level];
    if (files_place_check(fd) < 0) {
        close(fd);
        return 0;
    }
    int done = folders_add(fd, above, name, &d->slot);
    if (done < 0) {
        close(fd);
        /* Gone, or not for us, or known by another name: no reason to end. */
        return done == -EFBIG ? done : 0;
    }
    files_dir_begin(d, fd);
    return 1;
}

static int look_at(unsigned *level, const char *name, bool tell)
{
    struct files_dir *d = &files_dirs[*level];
    int fd = openat(d->fd, name, SCAN_FLAGS);
    int done = tell ? say(d->slot, name, FILES_CREATE, fd >= 0) : 0;
    if (fd < 0 || done < 0)
        return done;
    if (*level + 1 == FILES_DEPTH_MAX)
        return -EFBIG;
    done = begin(*level + 1, fd, d->slot, name);
    *level += done > 0;
    return done;
}

/* A folder and all in it; `fd` is consumed. */
static int adopt(int fd, uint32_t above, const char *name, bool tell)
{
    unsigned level = 0;
    int done = begin(0, fd, above, name);
    while (done > 0) {
        const char *entry = watch.recursive ? files_dir_next(&files_dirs[level]) : NULL;
        if (entry) {
            int failed = look_at(&level, entry, tell);
            done = failed < 0 ? failed : 1;
            continue;
        }
        files_dir_end(&files_dirs[level]);
        if (level-- == 0)
            return 0;
    }
    return done;
}

static int adopt_new(uint32_t slot, const char *name)
{
    const char *path = folders_path(slot, name);
    if (!path)
        return -ENAMETOOLONG;
    int fd = reopen(path);
    return fd < 0 ? 0 : adopt(fd, slot, name, true);
}

static enum files_event_kind kind_of(uint32_t mask)
{
    return mask & (IN_CREATE | IN_MOVED_TO) ? FILES_CREATE
           : mask & IN_MOVED_FROM           ? FILES_RENAME
           : mask & IN_DELETE               ? FILES_DELETE
           : mask & IN_MODIFY               ? FILES_MODIFY
                                            : FILES_CHMOD;
}

static int named_event(uint32_t slot, const struct inotify_event *e)
{
    bool is_dir = e->mask & IN_ISDIR, follow = is_dir && watch.recursive;
    if (follow && (e->mask & (IN_DELETE | IN_MOVED_FROM)))
        folders_forget(folders_child(slot, e->name));
    if ((e->mask & IN_MOVED_FROM) && files_temp_is_over(e->name))
        watch.over = e->cookie;
    /* The file was there before: what follows says that it changed. */
    if ((e->mask & IN_MOVED_TO) && e->cookie && e->cookie == watch.over)
        return 0;
    int done = say(slot, e->name, kind_of(e->mask), is_dir);
    if (done == 0 && follow && (e->mask & (IN_CREATE | IN_MOVED_TO)))
        done = adopt_new(slot, e->name);
    return done;
}

static int handle(const struct inotify_event *e)
{
    if (e->mask & IN_Q_OVERFLOW)
        return -EOVERFLOW;
    uint32_t slot = folders_find(e->wd);
    if (slot == FOLDERS_NONE)
        return 0;
    if (e->mask & (IN_IGNORED | IN_DELETE_SELF | IN_UNMOUNT)) {
        if (slot == FOLDERS_TOP)
            return -ENOENT;
        folders_forget(slot);
        return 0;
    }
    return e->len > 0 && e->name[0] ? named_event(slot, e) : 0;
}

static int handle_some(int inotify)
{
    static char block[64 << 10] __attribute__((aligned(8)));
    ssize_t n = read(inotify, block, sizeof block);
    int done = n < 0 && errno != EAGAIN && errno != EINTR ? -errno : 0;
    watch.said[0] = '\0';
    for (ssize_t at = 0; done >= 0 && at < n;) {
        const struct inotify_event *e = (const struct inotify_event *)(block + at);
        at += (ssize_t)(sizeof *e + e->len);
        done = handle(e);
    }
    return done;
}

static int follow_events(int inotify)
{
    int done = files_out_head(0, 0);
    while (done >= 0) {
        if (files_out_flush() < 0 || files_out_wait(inotify) < 0)
            return -EPIPE;
        done = handle_some(inotify);
    }
    return done == -EPIPE ? done : files_out_end(-done);
}

int files_watch_child(const struct files_request *r, const char *path)
{
    watch.top = path;
    watch.recursive = r->recursive;
    int fd = files_path_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
    if (fd < 0)
        return fd;
    int done = files_place_check(fd);
    if (done < 0) {
        close(fd);
        return done;
    }
    int inotify = folders_begin();
    if (inotify < 0) {
        close(fd);
        return inotify;
    }
    done = adopt(fd, FOLDERS_TOP, "", false);
    return done < 0 ? done : follow_events(inotify);
}
