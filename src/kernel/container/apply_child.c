/* What init applies on the container tier alone: the host name, and quotas of the sandbox's own
 * user namespace. */
#include "base/cleanup.h"
#include "plan/apply.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int apply_hostname(struct apply_state *st, const struct op *op, struct err *err)
{
    (void)st;
    return sethostname(op->a, strlen(op->a)) < 0 ? err_sys(err, "set the host name") : 0;
}

static int set_quota(const char *path, const char *value, struct err *err)
{
    cleanup_fd int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == EROFS || errno == ENOENT || errno == EACCES ? 0
                                                                    : err_sys(err, "open %s", path);
    return write(fd, value, strlen(value)) > 0 ? 0 : err_sys(err, "write %s", path);
}

/* Quotas of the sandbox's own user namespace.
 *
 * New user namespaces are the way to most kernel bugs of the last years. The filter refuses the
 * calls; this limit, kept by another part of the kernel, holds without it. inotify instances
 * and watches are few, and an ordinary user's sandboxes take them from the user's own.
 *
 * A host whose /proc/sys is read-only (a container) cannot have this second layer. */
int apply_quotas(struct apply_state *st, const struct op *op, struct err *err)
{
    (void)st, (void)op;
    if (set_quota("/proc/sys/user/max_user_namespaces", "0", err) < 0)
        return -err->code;
    if (set_quota("/proc/sys/user/max_inotify_watches", "16384", err) < 0)
        return -err->code;
    return set_quota("/proc/sys/user/max_inotify_instances", "16", err);
}
