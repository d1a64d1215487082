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

/* New user namespaces are the way to most kernel bugs of the last years. The filter refuses the calls; this limit, kept by
 * another part of the kernel, holds without it. A host whose /proc/sys is read-only (a container) cannot have this second
 * layer. */
int apply_no_user_ns(struct apply_state *st, const struct op *op, struct err *err)
{
    (void)st, (void)op;
    cleanup_fd int fd = open("/proc/sys/user/max_user_namespaces", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == EROFS || errno == ENOENT || errno == EACCES ? 0 : err_sys(err, "open the limit of namespaces");
    return write(fd, "0", 1) == 1 ? 0 : err_sys(err, "forbid new user namespaces");
}
