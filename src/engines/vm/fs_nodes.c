/* What the guest knows of files: nodes (a file that it has heard of) and handles (a file that it
 * has open). Numbers are indices into tables of the monitor's own. */
#include "engines/vm/fs.h"

#include "os/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUCKETS 4096u
#define NOTHING UINT32_MAX
#define ROOT    1u

/* Descriptors that the monitor needs for itself. */
#define RESERVE 64u

static uint32_t bucket(dev_t dev, ino_t ino)
{
    uint64_t mixed = ((uint64_t)ino ^ (uint64_t)dev << 32) * 0x9e3779b97f4a7c15ull;
    return (uint32_t)(mixed >> 52);
}

struct fs_node *fs_node(struct fs *fs, uint64_t id)
{
    return id >= ROOT && id < fs->node_count && fs->nodes[id].fd >= 0 ? &fs->nodes[id] : NULL;
}

struct fs_node *fs_node_open(struct fs *fs, uint64_t id)
{
    struct fs_node *node = fs_node(fs, id);
    return node && !node->closed ? node : NULL;
}

/* Which file it is, and through which mount: a folder that was granted twice is read-only in one
 * place and not in the other (VM-22). */
static int identify(int fd, struct fs_node *ret)
{
    struct stat sb;
    struct sys_statx sx = {0};
    if (fstat(fd, &sb) < 0 || sys_statx_fd(fd, &sx) < 0)
        return -errno;
    *ret = (struct fs_node){.fd = fd,
                            .dev = sb.st_dev,
                            .ino = sb.st_ino,
                            .mount = sx.mask & SYS_STATX_MNT_ID ? sx.mnt_id : 0,
                            .known = 1};
    return 0;
}

static uint32_t find(const struct fs *fs, const struct fs_node *is)
{
    uint32_t id = fs->buckets[bucket(is->dev, is->ino)];
    while (id != NOTHING && (fs->nodes[id].dev != is->dev || fs->nodes[id].ino != is->ino ||
                             fs->nodes[id].mount != is->mount))
        id = fs->nodes[id].next;
    return id;
}

static uint32_t new_node(struct fs *fs)
{
    uint32_t id = fs->node_free;
    if (id != NOTHING)
        fs->node_free = fs->nodes[id].next;
    else if (fs->node_count < fs->nodes_max)
        id = fs->node_count++;
    return id;
}

static void add_node(struct fs *fs, uint32_t id, struct fs_node *is)
{
    uint32_t *head = &fs->buckets[bucket(is->dev, is->ino)];
    is->next = *head;
    fs->nodes[id] = *is;
    *head = id;
}

int64_t fs_remember(struct fs *fs, int fd, bool closed)
{
    struct fs_node is = {.fd = -1};
    int result = identify(fd, &is);
    if (result < 0) {
        close(fd);
        return result;
    }
    uint32_t id = find(fs, &is);
    if (id != NOTHING) {
        close(fd);
        fs->nodes[id].known += fs->nodes[id].known < UINT64_MAX;
        return id;
    }
    if ((id = new_node(fs)) == NOTHING) { /* VM-11 */
        close(fd);
        return -ENFILE;
    }
    is.closed = closed;
    add_node(fs, id, &is);
    return id;
}

int fs_node_put(struct fs *fs, uint64_t id, int fd, bool closed, uint64_t known)
{
    struct fs_node is = {.fd = -1};
    int result =
        id < fs->node_count || id >= fs->nodes_max || known == 0 ? -EINVAL : identify(fd, &is);
    if (result < 0) {
        close(fd);
        return result;
    }
    for (; fs->node_count < id; fs->node_count++) { /* those between were forgotten */
        fs->nodes[fs->node_count] = (struct fs_node){.fd = -1, .next = fs->node_free};
        fs->node_free = fs->node_count;
    }
    fs->node_count++;
    is.closed = closed;
    is.known = known;
    add_node(fs, (uint32_t)id, &is);
    return 0;
}

void fs_forget(struct fs *fs, uint64_t id, uint64_t times)
{
    struct fs_node *node = fs_node(fs, id);
    if (!node || id == ROOT)
        return;
    node->known -= times < node->known ? times : node->known;
    if (node->known > 0)
        return;
    uint32_t *link = &fs->buckets[bucket(node->dev, node->ino)];
    while (*link != id)
        link = &fs->nodes[*link].next;
    *link = node->next;
    close(node->fd);
    node->fd = -1;
    node->next = fs->node_free;
    fs->node_free = (uint32_t)id;
}

struct fs_handle *fs_handle(struct fs *fs, uint64_t id, bool folder)
{
    if (id >= fs->handle_count || fs->handles[id].fd < 0 || fs->handles[id].folder != folder)
        return NULL;
    return &fs->handles[id];
}

int64_t fs_handle_new(struct fs *fs, int fd, bool folder, uint64_t node)
{
    uint32_t id = fs->handle_free;
    if (id != NOTHING)
        fs->handle_free = fs->handles[id].next;
    else if (fs->handle_count < fs->handles_max)
        id = fs->handle_count++;
    if (id == NOTHING) {
        close(fd);
        return -ENFILE;
    }
    fs->handles[id] = (struct fs_handle){.fd = fd, .folder = folder, .node = (uint32_t)node};
    return id;
}

void fs_handle_drop(struct fs *fs, uint64_t id, bool folder)
{
    struct fs_handle *handle = fs_handle(fs, id, folder);
    if (!handle)
        return;
    close(handle->fd);
    handle->fd = -1;
    handle->next = fs->handle_free;
    fs->handle_free = (uint32_t)id;
}

/* VM-9: what is looked at and what is opened are the same file, held by the same descriptor. */
int fs_open_node(struct fs *fs, const struct fs_node *node, int flags)
{
    struct stat sb;
    char name[16];
    if (fstat(node->fd, &sb) < 0)
        return -errno;
    if (!S_ISREG(sb.st_mode) && !S_ISDIR(sb.st_mode))
        return -EACCES;
    snprintf(name, sizeof name, "%d", node->fd);
    int fd = openat(fs->self_fd, name, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    return fd < 0 ? -errno : fd;
}

static void share_out_descriptors(struct fs *fs)
{
    struct rlimit limit = {1024, 1024};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    uint64_t most = limit.rlim_max > 2 * RESERVE ? limit.rlim_max - RESERVE : RESERVE;
    fs->handles_max = most / 4 < FS_HANDLES_MAX ? (uint32_t)(most / 4) : FS_HANDLES_MAX;
    most -= fs->handles_max;
    fs->nodes_max = most < FS_NODES_MAX ? (uint32_t)most : FS_NODES_MAX;
}

#define REQUEST_MAX 16384u
#define ANSWER_MAX  65536u

static bool get_room(struct fs *fs)
{
    fs->nodes = calloc(fs->nodes_max, sizeof *fs->nodes);
    fs->handles = calloc(fs->handles_max, sizeof *fs->handles);
    fs->buckets = malloc(BUCKETS * sizeof *fs->buckets);
    fs->in = malloc(REQUEST_MAX);
    fs->out = malloc(ANSWER_MAX);
    return fs->nodes && fs->handles && fs->buckets && fs->in && fs->out;
}

void fs_device_init(struct fs *fs, const struct guest_memory *memory);

int fs_init(struct fs *fs, const struct guest_memory *memory, int root, int self_fd)
{
    memset(fs, 0, sizeof *fs);
    fs->self_fd = self_fd;
    share_out_descriptors(fs);
    if (!get_room(fs)) {
        fs_done(fs);
        return -ENOMEM;
    }
    memset(fs->buckets, 0xff, BUCKETS * sizeof *fs->buckets);
    fs->nodes[0].fd = -1;
    fs->node_count = ROOT;
    fs->node_free = fs->handle_free = NOTHING;
    fs_device_init(fs, memory);
    int64_t id = fs_remember(fs, root, false);
    return id == ROOT ? 0 : (int)id;
}

void fs_done(struct fs *fs)
{
    for (uint32_t i = ROOT; i < fs->node_count; i++)
        if (fs->nodes[i].fd >= 0)
            close(fs->nodes[i].fd);
    for (uint32_t i = 0; i < fs->handle_count; i++)
        if (fs->handles[i].fd >= 0)
            close(fs->handles[i].fd);
    free(fs->nodes);
    free(fs->handles);
    free(fs->buckets);
    free(fs->in);
    free(fs->out);
    fs->nodes = NULL, fs->handles = NULL, fs->buckets = NULL, fs->in = NULL, fs->out = NULL;
    fs->node_count = fs->handle_count = 0;
}
