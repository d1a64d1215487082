/* Landlock, the second and independent layer of the filesystem boundary.
 *
 * FS-4  A probe that opens before the restriction and must fail with EACCES after it shows that the
 * layer is in force; both results go to the supervisor, which refuses to start without them. */
#include "base/cleanup.h"
#include "filesystem/mount_child.h"
#include "os/landlock.h"
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

int apply_landlock_begin(struct apply_state *st, const struct op *op, struct err *err)
{
    struct landlock_ruleset r = {
        .handled_access_fs = op->num[0], .handled_access_net = op->num[1], .scoped = op->num[2]};
    st->landlock_probe = op->a;
    st->landlock_probe_by = op->b;
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

/* In a root that can be written everywhere every file can be opened. A device node is what nobody
 * may make; the one of no device is the one that the kernel by itself lets everybody make. In a
 * guest there is a folder in which everybody could make files. */
static int probe(const struct apply_state *st)
{
    const char *path = st->landlock_probe;
    if (st->landlock_probe_by && strcmp(st->landlock_probe_by, "file") == 0) {
        cleanup_fd int made = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
        return made < 0 || unlink(path) < 0 ? errno : 0;
    }
    if (st->landlock_probe_by)
        return mknod(path, S_IFCHR, 0) < 0 || unlink(path) < 0 ? errno : 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    close(fd);
    return 0;
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
    return 0;
}
