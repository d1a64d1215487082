/* Asking a template process for a clone of itself, in the place of kernel_launch. */
#include "plan/clone.h"
#include "kernel/kernel.h"
#include "os/rights.h"
#include "plan/control.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

struct parcel {
    int fds[CLONE_FDS_MAX];
    unsigned count;
};

static void put(struct parcel *p, int fd)
{
    if (p->count < CLONE_FDS_MAX)
        p->fds[p->count] = fd;
    p->count++;
}

/* In the order of plan/clone.h. */
static void pack(struct parcel *p, const struct launch *l, int image, const int channel[2])
{
    put(p, l->ctl_fd);
    put(p, l->plan_fd);
    put(p, image);
    for (int i = 0; i < 3; i++)
        put(p, l->stdio[i]);
    put(p, channel[0]);
    put(p, channel[1]);
    for (unsigned i = 0; i < l->join_count; i++)
        put(p, l->join_fds[i]);
    for (unsigned i = 0; i < l->tree_count; i++)
        put(p, l->trees[i]);
}

static int post(int door, const struct clone_request *r, const struct parcel *p)
{
    struct iovec part = {(void *)(uintptr_t)r, sizeof *r};
    /* A template that is busy, or stuck, has a queue: nobody waits in front of it. */
    ssize_t n = rights_send(door, &part, 1, p->fds, p->count, MSG_DONTWAIT);
    if (n < 0)
        errno = (int)-n;
    return n == (ssize_t)sizeof *r ? 0 : -1;
}

int kernel_clone(struct kernel *k, const struct launch *l, int door, int image,
                 const int channel[2], struct err *err)
{
    /* Ids are those of the template's user namespace. */
    struct clone_request r = {.magic = CLONE_MAGIC,
                              .inside_uid = k->inside_uid,
                              .outside_uid = k->privileged ? k->host_uid : KERNEL_STEM_UID,
                              .outside_gid = k->privileged ? k->host_gid : KERNEL_STEM_UID,
                              .join_count = l->join_count,
                              .tree_count = l->tree_count};
    struct parcel parcel = {.count = 0};
    pack(&parcel, l, image, channel);
    if (parcel.count > CLONE_FDS_MAX) {
        err_set(err, ERR_LIMIT, "more descriptors than a clone can be given");
        return err_at(err, BOUNDARY_KERNEL);
    }
    if (post(door, &r, &parcel) == 0)
        return 0;
    err_sys(err, "ask the template process for a clone");
    return err_at(err, BOUNDARY_KERNEL);
}
