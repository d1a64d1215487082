/* The table of folders that a WATCH watches, and the paths of their events. */
#include "files/folders_child.h"
#include "files/worker_child.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define EVENTS                                                                                     \
    (IN_CREATE | IN_MODIFY | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_DELETE_SELF)

struct folder {
    uint32_t above;
    char name[NAME_MAX + 1];
};

static struct {
    int inotify;
    uint32_t count;             /* slots that were ever used */
    int wds[FILES_FOLDERS_MAX]; /* -1: free */
    struct folder folders[FILES_FOLDERS_MAX];
} all;

int folders_begin(void)
{
    all.count = 0;
    all.inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (all.inotify < 0)
        return errno == EMFILE ? -EFBIG : -errno;
    return all.inotify;
}

uint32_t folders_find(int wd)
{
    for (uint32_t i = 0; i < all.count; i++)
        if (all.wds[i] == wd)
            return i;
    return FOLDERS_NONE;
}

static uint32_t free_slot(void)
{
    uint32_t slot = folders_find(-1);
    if (slot == FOLDERS_NONE && all.count < FILES_FOLDERS_MAX)
        slot = all.count;
    return slot;
}

/* Is `slot` the folder `top`, or somewhere in it? Each slot leads to the first one. */
static bool is_in(uint32_t slot, uint32_t top)
{
    while (slot != FOLDERS_TOP && slot != top)
        slot = all.folders[slot].above;
    return slot == top;
}

/* inotify takes paths and no descriptors: the worker changes into the folder and watches ".". */
static int watch_folder(int fd)
{
    if (fchdir(fd) < 0)
        return -errno;
    int wd = inotify_add_watch(all.inotify, ".", EVENTS | IN_ONLYDIR | IN_EXCL_UNLINK);
    int failed = wd < 0 ? errno : 0;
    if (chdir("/") < 0)
        return -errno;
    if (failed)
        return failed == ENOSPC ? -EFBIG : -failed;
    return wd;
}

int folders_add(int fd, uint32_t above, const char *name, uint32_t *ret)
{
    uint32_t slot = free_slot();
    if (slot == FOLDERS_NONE)
        return -EFBIG;
    int wd = watch_folder(fd);
    if (wd < 0)
        return wd;
    uint32_t known = folders_find(wd);
    if (known != FOLDERS_NONE) {
        /* The folder was moved, and the event of that is still to come. Until then it may seem to
         * lie in itself. */
        if (is_in(above, known))
            return -ELOOP;
        slot = known;
    }
    if (slot == all.count)
        all.count++;
    all.wds[slot] = wd;
    all.folders[slot].above = above;
    memcpy(all.folders[slot].name, name, strlen(name) + 1);
    *ret = slot;
    return 0;
}

uint32_t folders_child(uint32_t above, const char *name)
{
    for (uint32_t i = FOLDERS_TOP + 1; i < all.count; i++)
        if (all.wds[i] >= 0 && all.folders[i].above == above &&
            strcmp(all.folders[i].name, name) == 0)
            return i;
    return FOLDERS_NONE;
}

static void drop(uint32_t slot)
{
    inotify_rm_watch(all.inotify, all.wds[slot]);
    all.wds[slot] = -1;
}

void folders_forget(uint32_t slot)
{
    if (slot == FOLDERS_NONE || slot == FOLDERS_TOP)
        return;
    /* Links upwards stay readable until a slot is used again. */
    for (uint32_t i = FOLDERS_TOP + 1; i < all.count; i++)
        if (i != slot && all.wds[i] >= 0 && is_in(i, slot))
            drop(i);
    drop(slot);
}

const char *folders_path(uint32_t slot, const char *name)
{
    static char path[FILES_PATH_MAX + 1];
    char *at = path + FILES_PATH_MAX;
    *at = '\0';
    for (;;) {
        size_t len = strlen(name);
        if ((size_t)(at - path) < len + 1)
            return NULL;
        at -= len;
        memcpy(at, name, len);
        if (slot == FOLDERS_TOP)
            return at;
        *--at = '/';
        name = all.folders[slot].name;
        slot = all.folders[slot].above;
    }
}
