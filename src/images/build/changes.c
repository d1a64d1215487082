/* What a run changed, as a layer: the upper layers of its overlays, and what is new at the top of
 * its root. All of it was written by the code (IM-14); it has ended, and nobody else writes there.
 */
#include "images/build/build.h"

#include "base/cleanup.h"
#include "base/quote.h"
#include "base/text.h"
#include "os/fd.h"
#include "os/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#define DEPTH_MAX 256
#define HOLES     4
#define WHITEOUT  ".wh."
#define LINKED    1024 /* names of files that have more than one */

struct linked {
    uint64_t ino;
    char *name;
};

struct packing {
    struct tar *tar;
    bool overlay; /* an upper layer: whiteouts and opaque folders mean something */
    unsigned depth;
    uint64_t left_bytes, left_entries, left_out;
    const struct words *but; /* or NULL */
    struct linked linked[LINKED];
    char name[PATH_MAX];
};

static int pack_folder(struct packing *p, int dir, struct err *err);

static int count_one(struct packing *p, uint64_t bytes, struct err *err)
{
    if (!p->left_entries--)
        return err_set(err, ERR_LIMIT, "too many files were changed to be kept");
    if (bytes > p->left_bytes)
        return err_set(err, ERR_LIMIT, "too much was changed to be kept");
    p->left_bytes -= bytes;
    return 0;
}

static int whiteout(struct packing *p, struct err *err)
{
    char name[PATH_MAX];
    const char *slash = strrchr(p->name, '/');
    int folder = slash ? (int)(slash + 1 - p->name) : 0;
    int len = snprintf(name, sizeof name, "%.*s" WHITEOUT "%s", folder, p->name, p->name + folder);
    if (len < 0 || (size_t)len >= sizeof name)
        return err_set(err, ERR_LIMIT, "a name that is too long");
    return tar_text(p->tar, name, "", 0, 0600, err);
}

/* By descriptor: the kernel's fchmodat follows links. */
static bool give_back(int dir, const char *name)
{
    struct stat sb;
    char path[40];
    cleanup_fd int fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &sb) < 0 || S_ISLNK(sb.st_mode))
        return false;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return chmod(path, (sb.st_mode & 0777) | 0700) == 0;
}

/* The code may have taken its own right to read away, which is its owner's to give back. */
static int open_entry(int dir, const char *name, int flags)
{
    flags |= O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    int fd = openat(dir, name, flags);
    if (fd < 0 && errno == EACCES && give_back(dir, name))
        fd = openat(dir, name, flags);
    return fd;
}

/* 1: it is another name of a file that was written already. Where there is no room to remember it,
 * the file is written once more. */
static int pack_again(struct packing *p, const struct stat *sb, struct err *err)
{
    struct linked *l = &p->linked[sb->st_ino % LINKED];
    if (sb->st_nlink < 2)
        return 0;
    if (l->name && l->ino == sb->st_ino)
        return tar_hard_link(p->tar, p->name, l->name, err) < 0 ? err_number(err) : 1;
    if (!l->name && (l->name = strdup(p->name)))
        l->ino = sb->st_ino;
    return 0;
}

static int pack_file(struct packing *p, int dir, const char *leaf, const struct stat *sb,
                     struct err *err)
{
    struct stat now;
    int again = pack_again(p, sb, err);
    if (again)
        return again < 0 ? again : 0;
    cleanup_fd int fd = open_entry(dir, leaf, 0);
    if (fd < 0 || fstat(fd, &now) < 0)
        return err_sys(err, "open a file that was changed");
    if (!S_ISREG(now.st_mode) || now.st_ino != sb->st_ino)
        return err_set(err, ERR_REFUSED, "what was changed changes still");
    if (count_one(p, (uint64_t)now.st_size, err) < 0)
        return err_number(err);
    return tar_file(p->tar, p->name, fd, (uint64_t)now.st_size, sb->st_mode, sb->st_mtime,
                    "the changes", err);
}

static int pack_link(struct packing *p, int dir, const char *leaf, const struct stat *sb,
                     struct err *err)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(dir, leaf, target, sizeof target - 1);
    if (n <= 0)
        return err_sys(err, "read a link that was changed");
    target[n] = '\0';
    return tar_link(p->tar, p->name, target, sb->st_mtime, err);
}

/* Nothing of the layers below shows in it any more. */
static bool is_opaque(int fd)
{
    char value[4] = "";
    return fgetxattr(fd, "user.overlay.opaque", value, sizeof value) == 1 && value[0] == 'y';
}

static int pack_inside(struct packing *p, int dir, const char *leaf, const struct stat *sb,
                       struct err *err)
{
    cleanup_fd int fd = open_entry(dir, leaf, O_DIRECTORY);
    if (fd < 0)
        return err_sys(err, "open a folder that was changed");
    if (tar_folder(p->tar, p->name, sb->st_mode & 01777, sb->st_mtime, err) < 0)
        return err_number(err);
    if (p->overlay && is_opaque(fd)) {
        char mark[PATH_MAX];
        if (snprintf(mark, sizeof mark, "%s/.wh..wh..opq", p->name) >= (int)sizeof mark)
            return err_set(err, ERR_LIMIT, "a name that is too long");
        if (tar_text(p->tar, mark, "", 0, 0600, err) < 0)
            return err_number(err);
    }
    return pack_folder(p, fd, err);
}

static int pack_known(struct packing *p, int dir, const char *leaf, struct err *err)
{
    struct stat sb;
    if (fstatat(dir, leaf, &sb, AT_SYMLINK_NOFOLLOW) < 0)
        return err_sys(err, "look at what was changed");
    if (!S_ISREG(sb.st_mode) && count_one(p, 0, err) < 0)
        return err_number(err);
    if (p->overlay && S_ISCHR(sb.st_mode) && sb.st_rdev == makedev(0, 0))
        return whiteout(p, err);
    if (text_begins(leaf, WHITEOUT)) {
        err_set(err, ERR_REFUSED, "it has a name that means something else in a layer");
        return err_hint(err, "remove or rename what begins with " WHITEOUT);
    }
    if (S_ISDIR(sb.st_mode))
        return pack_inside(p, dir, leaf, &sb, err);
    if (S_ISREG(sb.st_mode))
        return pack_file(p, dir, leaf, &sb, err);
    if (S_ISLNK(sb.st_mode))
        return pack_link(p, dir, leaf, &sb, err);
    p->left_out++; /* IM-3: a device, a FIFO, a socket */
    return 0;
}

static bool is_left_out(const struct packing *p)
{
    for (size_t i = 0; p->but && i < p->but->count; i++)
        if (strcmp(p->but->items[i], p->name) == 0)
            return true;
    return false;
}

static int pack_entry(struct packing *p, int dir, const char *leaf, struct err *err)
{
    struct quoted q;
    size_t before = strlen(p->name);
    int len = snprintf(p->name + before, sizeof p->name - before, "%s%s", before ? "/" : "", leaf);
    int r = len < 0 || (size_t)len >= sizeof p->name - before
                ? err_set(err, ERR_LIMIT, "a name that is too long")
            : is_left_out(p) ? 0
                             : pack_known(p, dir, leaf, err);
    if (r < 0 && p->depth <= 1)
        err_wrap(err, "/%s", quote(&q, p->name));
    p->name[before] = '\0';
    return r;
}

static int pack_folder(struct packing *p, int dir, struct err *err)
{
    DIR *list = folder_open(dir, ".");
    struct dirent *e;
    int more = 0;
    int r = list ? 0 : err_sys(err, "list a folder that was changed");
    if (r == 0 && ++p->depth > DEPTH_MAX)
        r = err_set(err, ERR_LIMIT, "folders that lie too deep");
    while (r >= 0 && (more = folder_next(list, &e)) > 0)
        r = pack_entry(p, dir, e->d_name, err);
    if (r >= 0 && more < 0)
        r = err_sys(err, "list a folder that was changed");
    p->depth--;
    if (list)
        closedir(list);
    return r;
}

/* ---- the top ---- */

/* brig's own places in every sandbox, whatever lies there. */
static bool is_ours(const char *name)
{
    static const char *const ours[] = {"dev", "proc", "sys",       "tmp",
                                       "run", "home", "workspace", ".landlock"};
    for (size_t i = 0; i < ARRAY_LEN(ours); i++)
        if (strcmp(name, ours[i]) == 0)
            return true;
    return text_begins(name, ".brig");
}

static const struct run_change *find_top(const struct run_changes *c, const char *name)
{
    for (unsigned i = 0; i < c->count; i++)
        if (strcmp(c->tops[i].path + 1, name) == 0)
            return &c->tops[i];
    return NULL;
}

/* What it had at its top: folders are overlays, files cannot be changed. */
static bool is_as_it_was(const struct run_change *top, int root, const char *name)
{
    char target[sizeof top->target];
    if (!top || !top->target[0])
        return top != NULL;
    ssize_t n = readlinkat(root, name, target, sizeof target);
    return n == (ssize_t)strlen(top->target) && memcmp(target, top->target, (size_t)n) == 0;
}

static int pack_top(struct packing *p, const struct run_changes *c, int root, struct err *err)
{
    DIR *list = folder_open(root, ".");
    struct dirent *e;
    int more = 0;
    int r = list ? 0 : err_sys(err, "list the root");
    p->overlay = false;
    while (r >= 0 && (more = folder_next(list, &e)) > 0) {
        const char *name = e->d_name;
        if (!is_ours(name) && !is_as_it_was(find_top(c, name), root, name))
            r = pack_entry(p, root, name, err);
    }
    if (r >= 0 && more < 0)
        r = err_sys(err, "list the root");
    if (list)
        closedir(list);
    return r;
}

/* A link at the top that is gone. */
static int pack_gone(struct packing *p, const struct run_changes *c, int root, struct err *err)
{
    struct stat sb;
    for (unsigned i = 0; i < c->count; i++) {
        const char *name = c->tops[i].path + 1;
        if (!c->tops[i].target[0] || fstatat(root, name, &sb, AT_SYMLINK_NOFOLLOW) == 0)
            continue;
        if (!path_is_absent(errno))
            return err_sys(err, "look at %s", name);
        snprintf(p->name, sizeof p->name, "%s", name);
        int r = whiteout(p, err);
        p->name[0] = '\0';
        if (r < 0)
            return r;
    }
    return 0;
}

static bool is_empty(int dir)
{
    DIR *list = folder_open(dir, ".");
    struct dirent *e;
    bool empty = list && folder_next(list, &e) == 0;
    if (list)
        closedir(list);
    return empty;
}

static int pack_layer(struct packing *p, const struct run_changes *c, const struct run_change *top,
                      struct err *err)
{
    char path[48];
    struct stat sb;
    snprintf(path, sizeof path, "layer%d/upper", top->layer);
    cleanup_fd int fd = sys_openat2(c->fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0,
                                    RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    if (fd < 0 || fstat(fd, &sb) < 0)
        return err_sys(err, "open what was changed in %s", top->path);
    if (is_empty(fd))
        return 0;
    p->overlay = true;
    snprintf(p->name, sizeof p->name, "%s", top->path + 1);
    bool out = is_left_out(p);
    int r = out ? 0 : tar_folder(p->tar, p->name, sb.st_mode & 01777, sb.st_mtime, err);
    if (r >= 0 && !out)
        r = pack_folder(p, fd, err);
    p->name[0] = '\0';
    return r;
}

static int pack_all(struct packing *p, const struct run_changes *c, struct err *err)
{
    cleanup_fd int root = openat(c->fd, "root", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (root < 0)
        return err_sys(err, "open the root that was changed");
    if (pack_top(p, c, root, err) < 0 || pack_gone(p, c, root, err) < 0)
        return err_number(err);
    for (unsigned i = 0; i < c->count; i++)
        if (c->tops[i].layer >= 0 && pack_layer(p, c, &c->tops[i], err) < 0)
            return err_number(err);
    return 0;
}

/* Holes take no room where the code ran, and all that they say in a layer: what is kept may be a
 * few times as large as what the run was allowed to write, and no more. */
static uint64_t most_bytes(const struct run_changes *c, uint64_t max_bytes)
{
    struct statfs s;
    if (fstatfs(c->fd, &s) < 0)
        return 0;
    uint64_t most = (uint64_t)s.f_blocks * (uint64_t)s.f_bsize * HOLES;
    return most < max_bytes ? most : max_bytes;
}

int changes_write(const struct run_changes *c, const struct words *but, struct tar *t,
                  uint64_t max_bytes, uint64_t max_entries, uint64_t *left_out, struct err *err)
{
    struct packing *p = calloc(1, sizeof *p);
    if (!p)
        return err_memory(err);
    *p = (struct packing){
        .tar = t, .but = but, .left_bytes = most_bytes(c, max_bytes), .left_entries = max_entries};
    int r = pack_all(p, c, err);
    *left_out += p->left_out;
    for (size_t i = 0; i < LINKED; i++)
        free(p->linked[i].name);
    free(p);
    return r < 0 ? err_wrap(err, "what was changed cannot be kept") : 0;
}
