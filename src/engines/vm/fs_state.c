/* What a guest that is parked knows of files. */
#include "engines/vm/fs.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TAG_COUNT STATE_TAG('f', 'i', 'l', 'e')
#define TAG_NODE  STATE_TAG('n', 'o', 'd', 'e')
#define TAG_PATH  STATE_TAG('p', 'a', 't', 'h')
#define ROOT      1u

struct node_state {
    uint64_t id, known;
    uint32_t kind, closed;
};

static uint32_t kind_of(int fd)
{
    struct stat sb;
    return fstat(fd, &sb) < 0 ? 0 : sb.st_mode & S_IFMT;
}

/* The length of a node's path, ended with NUL; negative: it has none. */
static ssize_t path_of(const struct fs *fs, uint32_t id, char path[static PATH_MAX])
{
    char name[16];
    snprintf(name, sizeof name, "%d", fs->nodes[id].fd);
    ssize_t n = readlinkat(fs->self_fd, name, path, PATH_MAX);
    if (n <= 0 || n == PATH_MAX || path[0] != '/')
        return -1;
    path[n] = '\0';
    return n;
}

/* The path of a node below the root. Whether it still leads to the same file is checked where it is
 * opened. */
static const char *path_beneath(const struct fs *fs, uint32_t id, char path[static PATH_MAX])
{
    char root[PATH_MAX];
    ssize_t len = path_of(fs, ROOT, root), n = path_of(fs, id, path);
    if (len < 0 || n < 0)
        return NULL;
    if (len == 1) /* "/" */
        len = 0;
    return n > len + 1 && strncmp(path, root, (size_t)len) == 0 && path[len] == '/' ? path + len + 1
                                                                                    : NULL;
}

static int save_node(struct fs *fs, uint32_t id, struct state_writer *w, struct err *err)
{
    char room[PATH_MAX];
    const struct fs_node *node = &fs->nodes[id];
    const struct node_state state = {
        .id = id, .known = node->known, .kind = kind_of(node->fd), .closed = node->closed};
    const char *path = path_beneath(fs, id, room);
    if (!path)
        return err_set(err, ERR_UNSUPPORTED, "a file that the guest knows has no path");
    state_put(w, TAG_NODE, &state, sizeof state);
    state_put(w, TAG_PATH, path, strlen(path));
    return 0;
}

int fs_save(struct fs *fs, struct state_writer *w, struct err *err)
{
    uint32_t count = 0;
    device_save(&fs->device, w);
    for (uint32_t i = 0; i < fs->handle_count; i++)
        if (fs->handles[i].fd >= 0)
            return err_set(err, ERR_UNSUPPORTED, "the guest has a file open");
    for (uint32_t id = ROOT + 1; id < fs->node_count; id++)
        count += fs->nodes[id].fd >= 0;
    if (count > FS_PARKED_MAX)
        return err_set(err, ERR_LIMIT, "the guest knows too many files");
    state_put(w, TAG_COUNT, &count, sizeof count);
    for (uint32_t id = ROOT + 1; id < fs->node_count; id++)
        if (fs->nodes[id].fd >= 0 && save_node(fs, id, w, err) < 0)
            return err_number(err);
    return 0;
}

static int malformed(struct err *err)
{
    return err_set(err, ERR_PROTOCOL, "the state of the file system is malformed");
}

/* VM-8: by one name after the other, and no link on the way. In place of openat2, which the filter
 * hides from some sandboxes. `path` is cut up. */
static int open_beneath(const struct fs *fs, char *path)
{
    cleanup_fd int at = -1;
    char *rest = path;
    for (;;) {
        const char *name = strsep(&rest, "/");
        if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
            errno = EINVAL;
            return -1;
        }
        int next = openat(at < 0 ? fs->nodes[ROOT].fd : at, name,
                          O_PATH | O_NOFOLLOW | O_CLOEXEC | (rest ? O_DIRECTORY : 0));
        if (next < 0 || !rest)
            return next;
        if (at >= 0)
            close(at);
        at = next;
    }
}

static int restore_node(struct fs *fs, struct state_reader *r, struct err *err)
{
    char path[PATH_MAX];
    struct node_state state;
    if (!state_get(r, TAG_NODE, &state, sizeof state) ||
        !state_get_text(r, TAG_PATH, path, sizeof path) || state.closed > 1)
        return malformed(err);
    cleanup_fd int fd = open_beneath(fs, path);
    if (fd < 0)
        return err_sys(err, "find a file again that the guest knows");
    /* VM-16: judged here, and not believed. */
    bool closed = !fs_served(fd);
    if (kind_of(fd) != state.kind || closed != (state.closed == 1))
        return err_set(err, ERR_UNSUPPORTED, "a file that the guest knows is of another kind now");
    return fs_node_put(fs, state.id, fd_steal(&fd), closed, state.known) < 0 ? malformed(err) : 0;
}

int fs_restore(struct fs *fs, struct state_reader *r, struct err *err)
{
    uint32_t count;
    if (!device_restore(&fs->device, r) || !state_get(r, TAG_COUNT, &count, sizeof count) ||
        count > FS_PARKED_MAX)
        return malformed(err);
    for (uint32_t i = 0; i < count; i++)
        if (restore_node(fs, r, err) < 0)
            return err_number(err);
    return 0;
}
