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

/* May the old name go, once its file is in the other place? As the kernel would decide it. */
static int check_leave(int from, const struct stat *sb)
{
    struct stat dir;
    if (faccessat(from, ".", W_OK | X_OK, AT_EACCESS) < 0 || fstat(from, &dir) < 0)
        return -errno;
    uid_t me = geteuid();
    bool kept = (dir.st_mode & S_ISVTX) && me != 0 && dir.st_uid != me && sb->st_uid != me;
    return kept ? -EPERM : 0;
}

static int carry_link(int from, const char *name, int dir, const char *leaf)
{
    static char target[FILES_PATH_MAX + 1];
    char temp[FILES_TEMP_LEN];
    ssize_t len = readlinkat(from, name, target, sizeof target);
    if (len < 0)
        return -errno;
    if ((size_t)len == sizeof target)
        return -ENAMETOOLONG;
    target[len] = '\0';
    files_temp_name(temp);
    if (symlinkat(target, dir, temp) < 0)
        return -errno;
    if (renameat(dir, temp, dir, leaf) == 0)
        return 0;
    int failed = -errno;
    unlinkat(dir, temp, 0);
    return failed;
}

/* The code may have put something else under the name meanwhile: only a file that is a file still
 * is read. */
static int carry_file(int from, const char *name, int dir, const char *leaf)
{
    struct stat sb;
    int in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (in < 0)
        return -errno;
    int done = fstat(in, &sb) < 0 ? -errno : !S_ISREG(sb.st_mode) ? -EXDEV : 0;
    if (done == 0)
        done = files_copy_child(dir, leaf, in, &sb);
    close(in);
    return done;
}

static int carry(int from, const char *name, const struct stat *sb, int dir, const char *leaf)
{
    struct stat now;
    if (!S_ISREG(sb->st_mode) && !S_ISLNK(sb->st_mode))
        return -EXDEV;
    int done = check_leave(from, sb);
    if (done == 0)
        done = S_ISLNK(sb->st_mode) ? carry_link(from, name, dir, leaf)
                                    : carry_file(from, name, dir, leaf);
    if (done < 0)
        return done;
    /* What came under that name since is not what was moved. */
    if (fstatat(from, name, &now, AT_SYMLINK_NOFOLLOW) < 0 || now.st_ino != sb->st_ino ||
        now.st_dev != sb->st_dev)
        return 0;
    return unlinkat(from, name, 0) < 0 ? -errno : 0;
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
