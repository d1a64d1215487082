/* Remembers where brig's own state lies, and tells whether a path leads to it, so that it is never
 * granted to a sandbox. */
#include "os/keep.h"

#include "base/cleanup.h"
#include "base/sha256.h"
#include "os/fd.h"
#include "os/reach.h"
#include "os/runstate.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define LIST      "places"
#define NAME_SIZE 33
#define DEPTH_MAX 256

/* ---- writing ---- */

static const char mark_text[] =
    "This folder holds keys and records of brig. Because of this file brig does not let it, or\n"
    "anything in it, into a sandbox.\n";

bool keep_mark(int dir)
{
    cleanup_fd int fd =
        openat(dir, KEEP_MARK, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd >= 0 && write(fd, mark_text, sizeof mark_text - 1) > 0;
}

static void entry_name(const char *path, char ret[static NAME_SIZE])
{
    char hex[SHA256_HEX_SIZE];
    sha256_hex(path, strlen(path), hex);
    snprintf(ret, NAME_SIZE, "%.32s", hex);
}

static bool entry_read(int list, const char *name, char ret[static PATH_MAX])
{
    ssize_t n = readlinkat(list, name, ret, PATH_MAX);
    if (n <= 0 || n >= PATH_MAX || ret[0] != '/')
        return false;
    ret[n] = '\0';
    return true;
}

static bool is_gone(const char *path)
{
    struct stat sb;
    return lstat(path, &sb) < 0 && (errno == ENOENT || errno == ENOTDIR);
}

static void prune(int list)
{
    char path[PATH_MAX];
    DIR *d = folder_open(list, ".");
    for (struct dirent *e; d && (e = readdir(d));)
        if (entry_read(list, e->d_name, path) && is_gone(path))
            unlinkat(list, e->d_name, 0);
    if (d)
        closedir(d);
}

/* An entry is a symbolic link whose text is the path: it is made and read atomically. Nobody
 * follows it. */
static void put(const char *path)
{
    char name[NAME_SIZE];
    cleanup_fd int list = runstate_open_fixed(LIST, true);
    entry_name(path, name);
    if (list >= 0 && symlinkat(path, list, name) == 0)
        prune(list);
}

static bool path_of(int fd, char ret[static PATH_MAX])
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, ret, PATH_MAX);
    if (n <= 0 || n >= PATH_MAX || ret[0] != '/')
        return false;
    ret[n] = '\0';
    return true;
}

void keep_file(const char *path)
{
    char folder[PATH_MAX], real[PATH_MAX];
    const char *slash = strrchr(path, '/');
    if (!slash || !slash[1] || strlen(path) >= sizeof folder)
        return;
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - path + 1), path);
    cleanup_fd int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    size_t room = fd >= 0 && path_of(fd, real) ? sizeof real - strlen(real) : 0;
    if (room > strlen(slash)) {
        memcpy(real + strlen(real), slash, strlen(slash) + 1);
        put(real[1] == '/' ? real + 1 : real);
    }
}

void keep_folder(int dir)
{
    char path[PATH_MAX];
    keep_mark(dir);
    if (path_of(dir, path))
        put(path);
}

void keep_forget(int dir)
{
    char path[PATH_MAX], name[NAME_SIZE];
    cleanup_fd int list = runstate_open_fixed(LIST, false);
    if (list < 0 || !path_of(dir, path))
        return;
    entry_name(path, name);
    unlinkat(list, name, 0);
}

/* ---- looking ---- */

/* The objects on the way from the root to a place, which is the last of them. */
struct chain {
    struct {
        dev_t dev;
        ino_t ino;
    } at[DEPTH_MAX];
    unsigned count;
    bool folder;           /* the last of them is one */
    char marked[PATH_MAX]; /* the first folder with the mark, or empty */
};

/* Whatever else it is: what cannot be looked at may be ours. */
static bool says_no(int why)
{
    return path_is_absent(why) || why == EACCES;
}

static int add(struct chain *c, int fd, const char *path)
{
    struct stat sb, found;
    if (c->count == DEPTH_MAX || fstat(fd, &sb) < 0)
        return -ELOOP;
    c->at[c->count].dev = sb.st_dev;
    c->at[c->count++].ino = sb.st_ino;
    c->folder = S_ISDIR(sb.st_mode);
    bool marked = c->folder && !c->marked[0] &&
                  (fstatat(fd, KEEP_MARK, &found, AT_SYMLINK_NOFOLLOW) == 0 || !says_no(errno));
    if (marked)
        snprintf(c->marked, sizeof c->marked, "%s", path[0] ? path : "/");
    return 0;
}

static int chain_make(struct chain *c, const char *path)
{
    struct reach_walk w;
    char name[NAME_MAX + 1];
    c->count = 0;
    c->marked[0] = '\0';
    int r = reach_begin(&w, path);
    if (r >= 0)
        r = add(c, w.dir, w.at);
    while (r >= 0 && (r = reach_name(&w, name)) > 0) {
        int fd = openat(w.dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        r = fd < 0 ? -errno : reach_enter(&w, name, fd);
        if (r >= 0)
            r = add(c, w.dir, w.at);
    }
    reach_end(&w);
    return r;
}

/* True if outer is inner, or one of the folders above it. */
static bool is_on_the_way(const struct chain *outer, const struct chain *inner)
{
    unsigned last = outer->count - 1;
    for (unsigned i = 0; i < inner->count; i++)
        if (inner->at[i].dev == outer->at[last].dev && inner->at[i].ino == outer->at[last].ino)
            return true;
    return false;
}

struct looking {
    const struct chain *asked;
    char *ret;
    struct chain place;
};

/* Short of descriptors or memory: at another time the question has an answer. (A place on a file
 * system that is broken for good must not stand in the way of all that is granted.) */
static bool is_short(int why)
{
    return why == EMFILE || why == ENFILE || why == ENOMEM;
}

static bool hits(struct looking *l, const char *path)
{
    /* The folder may be gone, or another one may have its name. */
    int r = chain_make(&l->place, path);
    if (r < 0 && is_short(-r)) {
        snprintf(l->ret, PATH_MAX, "%s", path);
        return true;
    }
    if (r < 0 || (l->place.folder && !l->place.marked[0]))
        return false;
    if (!is_on_the_way(&l->place, l->asked) && !is_on_the_way(l->asked, &l->place))
        return false;
    snprintf(l->ret, PATH_MAX, "%s", path);
    return true;
}

static bool list_hits(struct looking *l)
{
    char path[PATH_MAX];
    bool found = false;
    int list = runstate_open_fixed(LIST, false), more = 0;
    DIR *d = folder_take(list);
    if (!d) /* there is none, or it is somebody else's; or it could not be opened */
        found = is_short(errno);
    for (struct dirent *e; d && !found && (more = folder_next(d, &e)) > 0;)
        found = entry_read(dirfd(d), e->d_name, path) && hits(l, path);
    found |= more < 0;
    if (d)
        closedir(d);
    return found;
}

static bool canonical(const char *folder, const char *name, char out[static PATH_MAX])
{
    char path[PATH_MAX];
    if (!folder || folder[0] != '/' ||
        snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return false;
    cleanup_fd int fd = open(path, O_PATH | O_CLOEXEC);
    return fd >= 0 && path_of(fd, out);
}

/* Marked or not: an older brig made none. */
static bool usual_hits(struct looking *l)
{
    char own[24];
    snprintf(own, sizeof own, "brig-%u", (unsigned)geteuid());
    const struct {
        const char *folder, *name;
    } usual[] = {{getenv("XDG_STATE_HOME"), "brig"},
                 {getenv("HOME"), ".local/state/brig"},
                 {getenv("XDG_RUNTIME_DIR"), "brig"},
                 {"/var/lib", "brig"},
                 {"/run", "brig"},
                 {"/tmp", own}};
    char path[PATH_MAX];
    for (size_t i = 0; i < ARRAY_LEN(usual); i++)
        if (canonical(usual[i].folder, usual[i].name, path) && hits(l, path))
            return true;
    return false;
}

bool keep_holds(const char *path, char ret[static PATH_MAX])
{
    struct chain asked;
    struct looking l = {.asked = &asked, .ret = ret};
    snprintf(ret, PATH_MAX, "%s", path);
    if (chain_make(&asked, path) < 0)
        return true;
    if (asked.marked[0])
        snprintf(ret, PATH_MAX, "%s", asked.marked);
    return asked.marked[0] || usual_hits(&l) || list_hits(&l);
}
