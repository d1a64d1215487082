/* Review mode, inside: the project is shown through an overlay whose upper layer lies in the
 * caller's state folder. Nothing of the project is walked or copied to start.
 *
 * RV-1  What the code writes goes into the upper layer; the lower one, the project, is never
 * written. The layers are named relative to one folder that is held by descriptor, so that no name
 * of the host's can be taken for a separator of layers. */
#include "base/cleanup.h"
#include "filesystem/mount_child.h"
#include "os/sys.h"
#include "plan/apply.h"

#include <errno.h>
#include <string.h>

/* The lower layer on the folder that waits for it beside the upper one. */
static int join_layers(int lower, int layers, struct err *err)
{
    if (helper_attach(layers, err) < 0)
        return err_number(err);
    if (sys_move_mount(lower, "", layers, "lower", SYS_MOVE_MOUNT_F_EMPTY) < 0)
        return err_sys(err, "attach the lower layer");
    /* The kernel looks the layers up from here; the pivot comes later and leaves this folder. */
    return fchdir(layers) < 0 ? err_sys(err, "enter the layers") : 0;
}

static int overlay_make(uint64_t flags, struct err *err)
{
    /* volatile: what is not yet applied need not survive a power cut, and ending the sandbox must
     * not wait until a whole disk is in sync. */
    static const struct fs_option options[] = {{"lowerdir", "lower"}, {"upperdir", "upper"},
                                               {"workdir", "work"},   {"userxattr", NULL},
                                               {"volatile", NULL},    {NULL, NULL}};
    int mnt = fs_make("overlay", options, (unsigned)mount_attr_of(flags), err);
    if (mnt >= 0)
        return mnt;
    err->code = ERR_UNSUPPORTED;
    return err_hint(err, "the state folder must lie on a file system that can be the upper layer "
                         "of an overlay (ext4, xfs, btrfs, tmpfs): set XDG_STATE_HOME; or use "
                         "--tier process, which copies the project");
}

int apply_overlay(struct apply_state *st, const struct op *op, struct err *err)
{
    bool given = op->num[1] != UINT64_MAX;
    if (!given &&
        (!op->data || op->data_len == 0 || ((const char *)op->data)[op->data_len - 1] != '\0'))
        return err_set(err, ERR_INTERNAL, "an overlay without layers");
    cleanup_fd int lower = alone_open(op->num[1], op->a, op->num[2], op->num[3], err);
    if (lower < 0)
        return lower;
    cleanup_fd int layers = alone_open(given ? op->num[1] + 1 : UINT64_MAX, op->data, 0, 0, err);
    if (layers < 0 || join_layers(lower, layers, err) < 0)
        return err_number(err);
    cleanup_fd int mnt = overlay_make(op->num[0], err);
    return mnt < 0 ? mnt : tree_attach(mnt, st->root_fd, op->b, err);
}
