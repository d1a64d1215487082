/* What init applies on the container tier alone: the host name, quotas of the sandbox's own user
 * namespace, and a clock that starts with the sandbox. */
#include "base/cleanup.h"
#include "os/sys.h"
#include "plan/apply.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
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
        return err_number(err);
    if (set_quota("/proc/sys/user/max_inotify_watches", "16384", err) < 0)
        return err_number(err);
    return set_quota("/proc/sys/user/max_inotify_instances", "16", err);
}

/* The time since boot is the time since now: for /proc/uptime, sysinfo, CLOCK_BOOTTIME and the
 * start times that ps reads, in all that this process starts. The monotonic clock stays as it is:
 * what a warm interpreter noted down by it must not lie in the future of its clone. */
int apply_own_clock(struct apply_state *st, const struct op *op, struct err *err)
{
    (void)st, (void)op;
    char text[48];
    struct timespec now;
    if (clock_gettime(CLOCK_BOOTTIME, &now) < 0 || unshare(CLONE_NEWTIME) < 0) {
        err_sys(err, "make a time namespace");
        return err_hint(err,
                        "allow them (sysctl user.max_time_namespaces, a filter around brig), or do "
                        "without the sandbox's own numbers: --proc pid, filesystem.proc: pid");
    }
    snprintf(text, sizeof text, "boottime -%lld 0", (long long)now.tv_sec);
    cleanup_fd int fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        return err_sys(err, "set the time since boot");
    return 0;
}
