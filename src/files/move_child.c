/* Moving: by the kernel where it can. Between /tmp and the home folder, which are two file systems,
 * it cannot, and clients do not know of that: a file is then written anew as an upload is, complete
 * or not at all, and its old name goes last. A folder stays where it is (EXDEV): half of it could
 * have been moved when something fails. */
#include "files/worker_child.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h> /* renameat */
#include <sys/stat.h>
#include <unistd.h>

struct old {
    int dir;
    const char *name;
    struct stat sb; /* what is moved */
};

/* What came under that name since is not what was moved. */
static int leave(void *ctx)
{
    const struct old *o = ctx;
    struct stat now;
    if (fstatat(o->dir, o->name, &now, AT_SYMLINK_NOFOLLOW) < 0 || now.st_ino != o->sb.st_ino ||
        now.st_dev != o->sb.st_dev)
        return 0;
    return unlinkat(o->dir, o->name, 0) < 0 ? -errno : 0;
}

/* May the old name go, once its file is in the other place? The kernel decides that at the end;
 * what can be known is said before anything is copied. Root inside has no rights over others'
 * files. */
static int check_leave(const struct old *o)
{
    struct stat dir;
    if (faccessat(o->dir, ".", W_OK | X_OK, AT_EACCESS) < 0 || fstat(o->dir, &dir) < 0)
        return -errno;
    uid_t me = geteuid();
    bool kept = (dir.st_mode & S_ISVTX) && dir.st_uid != me && o->sb.st_uid != me;
    return kept ? -EPERM : 0;
}

/* Over what stands there, as an upload would. The old name goes before the last step, for a link is
 * no more than its text: it can be put back, and what it would have replaced could not. */
static int link_over(struct old *o, const char *target, int dir, const char *leaf)
{
    char temp[FILES_TEMP_LEN];
    struct stat sb;
    if (fstatat(dir, leaf, &sb, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(sb.st_mode) &&
        !S_ISLNK(sb.st_mode))
        return S_ISDIR(sb.st_mode) ? -EISDIR : -EINVAL;
    files_temp_name_over(temp);
    if (symlinkat(target, dir, temp) < 0)
        return -errno;
    int done = leave(o);
    if (done == 0 && renameat(dir, temp, dir, leaf) == 0)
        return 0;
    if (done == 0) {
        done = -errno;
        (void)!symlinkat(target, o->dir, o->name);
    }
    unlinkat(dir, temp, 0);
    return done;
}

static int carry_link(struct old *o, int dir, const char *leaf)
{
    static char target[FILES_PATH_MAX + 1];
    ssize_t len = readlinkat(o->dir, o->name, target, sizeof target);
    if (len < 0)
        return -errno;
    if ((size_t)len == sizeof target)
        return -ENAMETOOLONG;
    target[len] = '\0';
    if (symlinkat(target, dir, leaf) < 0)
        return errno == EEXIST ? link_over(o, target, dir, leaf) : -errno;
    int done = leave(o);
    if (done < 0)
        unlinkat(dir, leaf, 0);
    return done;
}

/* The code may have put something else under the name meanwhile: only a file that is a file still
 * is read, and only the name of that goes. */
static int carry_file(struct old *o, int dir, const char *leaf)
{
    int in = openat(o->dir, o->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (in < 0)
        return -errno;
    int done = fstat(in, &o->sb) < 0 ? -errno : !S_ISREG(o->sb.st_mode) ? -EXDEV : 0;
    if (done == 0)
        done = files_copy_child(dir, leaf, in, &o->sb, leave, o);
    close(in);
    return done;
}

static int carry(int from, const char *name, const struct stat *sb, int dir, const char *leaf)
{
    struct old o = {.dir = from, .name = name, .sb = *sb};
    if (!S_ISREG(sb->st_mode) && !S_ISLNK(sb->st_mode))
        return -EXDEV;
    int done = check_leave(&o);
    if (done < 0)
        return done;
    return S_ISLNK(sb->st_mode) ? carry_link(&o, dir, leaf) : carry_file(&o, dir, leaf);
}

static int move_to(int from, const char *name, const char *to)
{
    const char *leaf;
    struct stat sb;
    /* Before folders are made for something that is not there. */
    if (fstatat(from, name, &sb, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    int dir = files_path_parent(to, true, &leaf);
    if (dir < 0)
        return dir;
    int done = *leaf ? 0 : -EINVAL;
    if (done == 0 && renameat(from, name, dir, leaf) < 0)
        done = errno == EXDEV ? carry(from, name, &sb, dir, leaf) : -errno;
    if (done == 0)
        done = files_answer_entry(dir, leaf, to);
    close(dir);
    return done;
}

int files_move_child(const struct files_request *r, const char *path)
{
    static char to[FILES_PATH_MAX + 1];
    const char *leaf;
    int done = files_path_clean(r->home, r->to, to);
    int from = done < 0 ? done : files_path_parent(path, false, &leaf);
    if (from < 0)
        return from;
    done = *leaf ? move_to(from, leaf, to) : -EINVAL;
    close(from);
    return done;
}
