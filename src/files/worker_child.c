/* The file worker: what files/files.h promises, from the inside. */
#include "files/worker_child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h> /* renameat */
#include <sys/stat.h>
#include <unistd.h>

static int answer_entry(int dir, const char *name, const char *path)
{
    int done = files_out_head(0, 0);
    if (done == 0)
        done = files_out_entry(dir, name, path, NULL, NULL);
    if (done == -EPIPE)
        return done;
    /* It was there a moment ago, but the code may change files at any time. */
    return files_out_end(-done);
}

static int stat_child(const char *path)
{
    struct stat sb;
    const char *leaf;
    int dir = files_path_parent(path, false, &leaf);
    if (dir < 0)
        return dir;
    leaf = *leaf ? leaf : ".";
    int done =
        fstatat(dir, leaf, &sb, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : answer_entry(dir, leaf, path);
    close(dir);
    return done;
}

static int mkdir_child(const char *path)
{
    const char *leaf;
    int dir = files_path_parent(path, true, &leaf);
    if (dir < 0)
        return dir;
    int done;
    if (!*leaf)
        done = -EEXIST;
    else if (mkdirat(dir, leaf, 0755) < 0)
        done = -errno;
    else
        done = answer_entry(dir, leaf, path);
    close(dir);
    return done;
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
    int done;
    if (!*leaf)
        done = -EINVAL;
    else if (renameat(from, name, dir, leaf) < 0)
        done = -errno;
    else
        done = answer_entry(dir, leaf, to);
    close(dir);
    return done;
}

static int move_child(const struct files_request *r, const char *path)
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

static int work(const struct files_request *r, int in)
{
    static char path[FILES_PATH_MAX + 1];
    int bad = files_path_clean(r->home, r->path, path);
    if (bad < 0)
        return bad;
    switch (r->op) {
    case FILES_READ:
        return files_read_child(r, path);
    case FILES_WRITE:
        return files_write_child(r, path, in);
    case FILES_STAT:
        return stat_child(path);
    case FILES_LIST:
        return files_list_child(r, path);
    case FILES_MKDIR:
        return mkdir_child(path);
    case FILES_REMOVE:
        return files_remove_child(path);
    case FILES_MOVE:
        return move_child(r, path);
    case FILES_WATCH:
        return files_watch_child(r, path);
    default:
        return -ENOSYS;
    }
}

/* An operation returns an error only as long as it has said nothing; then it is the answer. */
int files_work_child(const struct files_request *r, int in, int out)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &ignore, NULL);
    sigaction(SIGXFSZ, &ignore, NULL);
    umask(0);
    files_out_begin(out);
    int done = files_out_gone() ? -EPIPE : work(r, in);
    if (done < 0 && done != -EPIPE)
        done = files_out_head(-done, 0);
    return done == 0 && files_out_flush() == 0 ? 0 : 1;
}
