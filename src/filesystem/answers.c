/* Can what the code sees stop answering?
 *
 * A file of a network file system, or of one that another program serves, is there only as long as
 * somebody answers for it. Code that has such a file mapped can have the kernel wait in the middle
 * of a copy, with whatever is locked for it (os/pump.h). What is listed here is served by the
 * kernel alone, from memory or from a device; all others may stop, and so may those that are not
 * known here.
 *
 * No file system is asked for this: one that has stopped already must not hold up the start.
 *
 * Not looked into: what a file system lies on. One on a device that is itself a file elsewhere, or
 * the network, and an overlay of such folders, count as what they are. */
#include "base/cleanup.h"
#include "base/text.h"
#include "filesystem/filesystem.h"
#include "os/procfs.h"
#include "os/sys.h"

#include <fcntl.h>
#include <string.h>

/* As mountinfo names them. */
static const char *const local[] = {
    "ext4",      "xfs",      "btrfs",    "tmpfs",     "overlay",  "ext2",        "ext3",
    "f2fs",      "ramfs",    "rootfs",   "hugetlbfs", "squashfs", "cramfs",      "erofs",
    "iso9660",   "udf",      "vfat",     "msdos",     "exfat",    "ntfs3",       "nilfs2",
    "reiserfs",  "jfs",      "bcachefs", "zfs",       "proc",     "sysfs",       "cgroup",
    "cgroup2",   "devpts",   "devtmpfs", "bpf",       "debugfs",  "tracefs",     "securityfs",
    "selinuxfs", "configfs", "efivarfs", "pstore",    "mqueue",   "binfmt_misc",
};

bool answers_always(const char *type)
{
    for (size_t i = 0; i < ARRAY_LEN(local); i++)
        if (strcmp(type, local[i]) == 0)
            return true;
    return false;
}

#define LIES_ON_MAX (GRANTS_MAX + VIEW_MAX + 3)

struct search {
    const struct filesystem *fs;
    uint64_t lies_on[LIES_ON_MAX]; /* the mounts that the folders lie on, each once */
    unsigned count, found;
    bool silent; /* one was found that may be, or that nothing is known of */
};

/* What the kernel knows by itself, without a word to the file system or an automounter. */
static void note_mount(struct search *s, int dir, const char *path)
{
    struct sys_statx sx;
    int flags = AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | SYS_AT_STATX_DONT_SYNC;
    if (syscall(SYS_statx, dir, path, flags, SYS_STATX_MNT_ID, &sx) < 0 ||
        !(sx.mask & SYS_STATX_MNT_ID) || s->count == LIES_ON_MAX) {
        s->silent = true;
        return;
    }
    for (unsigned i = 0; i < s->count; i++)
        if (s->lies_on[i] == sx.mnt_id)
            return;
    s->lies_on[s->count++] = sx.mnt_id;
}

static void note_folders(struct search *s)
{
    const struct filesystem *fs = s->fs;
    for (unsigned i = 0; i < fs->grant_count; i++)
        note_mount(s, fs->grants[i].fd, "");
    for (unsigned i = 0; fs->root_fd < 0 && i < fs->host.view_count; i++)
        if (!fs->host.view[i].target[0])
            note_mount(s, AT_FDCWD, fs->host.view[i].path);
    if (fs->root_fd >= 0)
        note_mount(s, fs->root_fd, "");
    if (fs->reviews_fd >= 0)
        note_mount(s, fs->reviews_fd, "");
    if (fs->private_dir[0])
        note_mount(s, AT_FDCWD, "/tmp");
}

/* Does a mount at this place come along with a folder above it? Those below the host's own folders
 * do, those below others only where the policy says so (FS-8). */
static bool comes_along(const struct filesystem *fs, const char *place)
{
    for (unsigned i = 0; fs->root_fd < 0 && i < fs->host.view_count; i++)
        if (path_below(place, fs->host.view[i].path))
            return true;
    if (!fs->policy->submounts)
        return false;
    for (unsigned i = 0; i < fs->grant_count; i++)
        if (path_below(place, fs->grants[i].source))
            return true;
    return fs->root_fd >= 0 && path_below(place, fs->root_path);
}

static int look_at_mount(void *ctx, const struct mount_place *m, struct err *err)
{
    struct search *s = ctx;
    bool shown = false;
    (void)err;
    for (unsigned i = 0; i < s->count; i++)
        shown |= s->lies_on[i] == m->id;
    s->found += shown;
    if ((shown || comes_along(s->fs, m->place)) && !answers_always(m->type))
        s->silent = true;
    return 0;
}

bool filesystem_answers(const struct filesystem *fs)
{
    struct search s = {.fs = fs};
    struct err err = ERR_INIT;
    note_folders(&s);
    if (!s.silent && procfs_each_mount(look_at_mount, &s, &err) < 0)
        return false;
    return !s.silent && s.found == s.count;
}
