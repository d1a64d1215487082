/* The file worker: what files/files.h promises, from the inside. */
#include "files/worker_child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

int files_answer_entry(int dir, const char *name, const char *path)
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
    int done = fstatat(dir, leaf, &sb, AT_SYMLINK_NOFOLLOW) < 0
                   ? -errno
                   : files_answer_entry(dir, leaf, path);
    close(dir);
    return done;
}

static bool is_folder(int dir, const char *leaf)
{
    struct stat sb;
    return fstatat(dir, leaf, &sb, 0) == 0 && S_ISDIR(sb.st_mode);
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
        done = errno == EEXIST && !is_folder(dir, leaf) ? -ENOTDIR : -errno;
    else
        done = files_answer_entry(dir, leaf, path);
    close(dir);
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
        return files_move_child(r, path);
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
