/* Removing a file, or a folder with everything in it. Each step is one name in a folder that is
 * held open, and no name is followed: what the code moves or links in the meantime decides what is
 * still found, never where the worker looks. A folder is entered only after the kernel said that it
 * is not empty; of a place where something is mounted it says that it is busy, and that is that.
 *
 * One descriptor for each level. Folders below the last level are moved up to the top, where a
 * later pass finds them: the depth of a tree costs nothing. */
#include "files/worker_child.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h> /* renameat */
#include <string.h>
#include <unistd.h>

#define LOOK_EVERY 256u /* entries: is anybody still waiting? */
#define TRIES      16

static struct {
    unsigned level, seen;
    int error; /* the first */
} removal;

static void failed(int error)
{
    if (error != ENOENT && !removal.error)
        removal.error = error;
}

static struct files_dir *here(void)
{
    return &files_dirs[removal.level];
}

static void move_up(const char *name)
{
    char temp[FILES_TEMP_LEN];
    files_temp_name(temp);
    if (renameat(here()->fd, name, files_dirs[0].fd, temp) < 0) {
        failed(errno);
        return;
    }
    here()->cleared++;
    files_dirs[0].cleared++;
}

static void descend(const char *name)
{
    size_t len = strlen(name);
    if (removal.level + 1 == FILES_DEPTH_MAX || len >= sizeof here()->name) {
        move_up(name);
        return;
    }
    int fd = files_dir_open(here()->fd, name);
    if (fd < 0) {
        failed(-fd);
        return;
    }
    removal.level++;
    files_dir_begin(here(), fd);
    memcpy(here()->name, name, len + 1);
}

static void clear_entry(const char *name)
{
    int dir = here()->fd;
    if (unlinkat(dir, name, 0) == 0 ||
        (errno == EISDIR && unlinkat(dir, name, AT_REMOVEDIR) == 0)) {
        here()->cleared++;
        return;
    }
    if (errno == ENOTEMPTY || errno == EEXIST)
        descend(name);
    else
        failed(errno);
}

/* The folder has nothing more to clear: back to the one above. */
static void ascend(void)
{
    struct files_dir *done = here();
    files_dir_end(done);
    removal.level--;
    if (unlinkat(here()->fd, done->name, AT_REMOVEDIR) == 0)
        here()->cleared++;
    else
        failed(errno);
}

/* Passes over every folder until one changes nothing. */
static int clear_tree(void)
{
    for (;;) {
        const char *name = files_dir_next(here());
        if (name) {
            if (++removal.seen % LOOK_EVERY == 0 && files_out_gone())
                return -EPIPE;
            clear_entry(name);
        } else if (here()->cleared > 0) {
            files_dir_rewind(here());
        } else if (removal.level > 0) {
            ascend();
        } else {
            return 0;
        }
    }
}

static int remove_folder(int dir, const char *leaf)
{
    int fd = files_dir_open(dir, leaf);
    if (fd < 0)
        return fd;
    memset(&removal, 0, sizeof removal);
    files_dir_begin(&files_dirs[0], fd);
    int done = clear_tree();
    files_dir_end(&files_dirs[0]);
    if (done < 0)
        return done;
    if (unlinkat(dir, leaf, AT_REMOVEDIR) == 0)
        return 0;
    return removal.error ? -removal.error : -errno;
}

/* The name may be a folder now and a link in a moment: whatever it is then goes, itself. */
static int remove_leaf(int dir, const char *leaf)
{
    int done = -EBUSY;
    for (int i = 0; i < TRIES; i++) {
        if (unlinkat(dir, leaf, 0) == 0 ||
            (errno == EISDIR && unlinkat(dir, leaf, AT_REMOVEDIR) == 0))
            return 0;
        if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR)
            return -errno;
        done = remove_folder(dir, leaf);
        if (done != -ENOTDIR && done != -ELOOP && done != -ENOTEMPTY)
            return done;
    }
    return done;
}

int files_remove_child(const char *path)
{
    const char *leaf;
    int dir = files_path_parent(path, false, &leaf);
    if (dir < 0)
        return dir;
    int done = *leaf ? remove_leaf(dir, leaf) : -EINVAL;
    close(dir);
    if (done == 0)
        done = files_out_head(0, 0);
    return done < 0 ? done : files_out_end(0);
}
