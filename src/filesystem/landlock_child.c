/* Landlock, the second and independent layer of the filesystem boundary.
 *
 * FS-4  A probe that opens before the restriction and must fail with EACCES after it shows that the
 * layer is in force; both results go to the supervisor, which refuses to start without them. */
#include "base/cleanup.h"
#include "filesystem/mount_child.h"
#include "os/landlock.h"
#include "os/sys.h"
#include "plan/apply.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

/* Rights that make sense for something that is not a folder. */
#define FILE_RIGHTS (LL_EXECUTE | LL_WRITE_FILE | LL_READ_FILE | LL_TRUNCATE | LL_IOCTL_DEV)

static size_t ruleset_size(uint64_t abi)
{
    if (abi >= 6)
        return sizeof(struct landlock_ruleset);
    return abi >= 4 ? offsetof(struct landlock_ruleset, scoped)
                    : offsetof(struct landlock_ruleset, handled_access_net);
}

int landlock_aside(struct err *err)
{
    static const struct fs_option options[] = {{"mode", "777"}, {"nr_inodes", "4"}, {NULL, NULL}};
    return fs_make("tmpfs", options,
                   SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV | SYS_MOUNT_ATTR_NOEXEC, err);
}

int apply_landlock_begin(struct apply_state *st, const struct op *op, struct err *err)
{
    struct landlock_ruleset r = {
        .handled_access_fs = op->num[0], .handled_access_net = op->num[1], .scoped = op->num[2]};
    st->landlock_probe = op->a;
    if (op->b && st->aside_fd < 0 && (st->aside_fd = landlock_aside(err)) < 0)
        return err_number(err);
    st->ruleset_fd = landlock_create(&r, ruleset_size(op->num[3]));
    return st->ruleset_fd < 0 ? err_sys(err, "landlock ruleset") : 0;
}

static int allow(const struct apply_state *st, int fd, const struct op *op, struct err *err)
{
    struct stat sb;
    if (fstat(fd, &sb) < 0)
        return err_sys(err, "landlock: stat %s", op->a);
    struct landlock_beneath rule = {.parent_fd = fd, .allowed_access = op->num[0]};
    if (!S_ISDIR(sb.st_mode))
        rule.allowed_access &= FILE_RIGHTS;
    return landlock_allow(st->ruleset_fd, &rule) < 0 ? err_sys(err, "landlock: allow %s", op->a)
                                                     : 0;
}

int apply_landlock_allow(struct apply_state *st, const struct op *op, struct err *err)
{
    cleanup_fd int fd = open(op->a, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return op->num[1] && errno == ENOENT ? 0 : err_sys(err, "landlock: open %s", op->a);
    return allow(st, fd, op, err);
}

/* FS-6 */
int apply_landlock_grant(struct apply_state *st, const struct op *op, struct err *err)
{
    cleanup_fd int fd = planned_open(op->a, op->num[2], op->num[3], err);
    return fd < 0 ? err_wrap(err, "landlock") : allow(st, fd, op, err);
}

/* In a root that can be written everywhere there is nothing that a rule of ours keeps shut, and in
 * a guest nothing that could be opened without one. A file system that is mounted nowhere lies
 * beneath no rule; else everybody could make files in it. */
static int probe(const struct apply_state *st)
{
    const char *path = st->landlock_probe;
    bool aside = st->aside_fd >= 0;
    cleanup_fd int fd =
        aside ? openat(st->aside_fd, path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600)
              : open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 || (aside && unlinkat(st->aside_fd, path, 0) < 0) ? errno : 0;
}

int apply_landlock_enforce(struct apply_state *st, const struct op *op, struct err *err)
{
    (void)op;
    st->evidence.landlock_before = probe(st);
    if (landlock_restrict(st->ruleset_fd) < 0)
        return err_sys(err, "landlock: restrict");
    close(st->ruleset_fd);
    st->ruleset_fd = -1;
    st->evidence.landlock_after = probe(st);
    if (st->aside_fd >= 0)
        close(st->aside_fd);
    st->aside_fd = -1;
    return 0;
}
