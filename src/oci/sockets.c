/* Sockets of the host that lie below what is bound: a read-only mount keeps nobody from connecting,
 * and who listens sees the root of the host at the other end (OC-5). */
#include "base/cleanup.h"
#include "base/text.h"
#include "oci/build.h"
#include "os/errand.h"
#include "os/fd.h"
#include "os/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* "ffff8d: 00000002 00000000 00010000 0001 01 12345 /run/x y", to the end of the line; or NULL. */
static const char *bound_name(const char *line)
{
    for (int word = 0; word < 7; word++) {
        line += strspn(line, " ");
        line += strcspn(line, " ");
    }
    return line[0] == ' ' && line[1] == '/' ? line + 1 : NULL;
}

/* The list keeps names as they were given, by way of links too, and those of files that are gone
 * or belong to another mount namespace. Only the file is looked at, nothing is asked of who
 * listens. A name may be anybody's, and lead to a file system that another program serves: what the
 * kernel does not know by itself is looked up on an errand, and not waited for without end. */
#define PATIENCE_MS 3000

struct place {
    int why;             /* an errno, or 0 */
    bool socket;         /* one is there */
    char path[PATH_MAX]; /* where, without links */
};

static void look(const char *name, uint64_t resolve, struct place *ret)
{
    struct sys_statx sx = {0};
    char link[64];
    cleanup_fd int fd = sys_openat2(AT_FDCWD, name, O_PATH | O_CLOEXEC, 0, resolve);
    *ret = (struct place){.why = fd < 0 ? errno : 0};
    if (fd >= 0 && sys_statx_fd(fd, &sx) < 0)
        ret->why = errno;
    if (ret->why || !S_ISSOCK(sx.mode))
        return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, ret->path, sizeof ret->path - 1);
    ret->socket = n > 0;
    ret->why = n > 0 ? 0 : errno;
}

static void look_aside(void *ctx, const void *ask, const int fds[ERRAND_FDS], void *answer)
{
    (void)ctx;
    (void)fds;
    look(ask, 0, answer);
}

/* Nobody can be reached by a name of which the kernel says this. Of others that cannot be looked at
 * it is not known. */
static bool leads_nowhere(int why)
{
    return path_is_absent(why) || why == EACCES || why == EPERM || why == ENAMETOOLONG ||
           why == ENOTCONN || why == ESTALE;
}

static int find_socket(struct errand *aside, const char *name, struct place *ret, struct err *err)
{
    char ask[PATH_MAX];
    int n = snprintf(ask, sizeof ask, "%s", name);
    if (n < 0 || (size_t)n >= sizeof ask) {
        ret->socket = false;
        return 0;
    }
    look(name, SYS_RESOLVE_CACHED, ret);
    bool unknown = ret->why == EAGAIN || ret->why == EINVAL || ret->why == ENOSYS;
    if (unknown && (n = errand_ask(aside, ask, NULL, ret, PATIENCE_MS)) < 0)
        ret->why = -n;
    if (!ret->why || leads_nowhere(ret->why))
        return 0;
    errno = ret->why;
    err_sys(err, "look where the socket %.300s lies, which may be in what is bound", name);
    return err_hint(err, "the file system there does not answer; unmount it, or end who listens");
}

static int judge_socket(const struct oci_build *b, const char *path, const struct oci_operator *o,
                        struct err *err)
{
    static const char why[] = "a socket of the host lies there, a door to what listens",
                      hint[] = "bind a folder without it; only the operator can allow a socket, by "
                               "its path in " OCI_OPERATOR_FILE " (sockets)";
    bool found = path_below(path, b->root.path);
    for (size_t i = 0; i < b->config->mount_count && !found; i++)
        found = b->config->mounts[i].type == OCI_MOUNT_BIND && b->sources[i].folder &&
                path_below(path, b->sources[i].path);
    return found && !oci_text_in(o->sockets, path) ? oci_refuse_source(path, why, hint, err) : 0;
}

int oci_judge_sockets(const struct oci_build *b, const struct oci_operator *o, struct err *err)
{
    FILE *list = fopen("/proc/net/unix", "re");
    cleanup_free char *line = NULL;
    struct errand aside;
    struct place place;
    size_t room = 0;
    int r = 0;
    if (!list)
        return err_sys(err, "read /proc/net/unix");
    errand_init(&aside, look_aside, NULL, PATH_MAX, sizeof place);
    while (r >= 0 && getline(&line, &room, list) > 0) {
        line[strcspn(line, "\n")] = '\0';
        const char *name = bound_name(line);
        if (name)
            r = find_socket(&aside, name, &place, err);
        if (name && r >= 0 && place.socket)
            r = judge_socket(b, place.path, o, err);
    }
    if (r >= 0 && ferror(list))
        r = err_sys(err, "read /proc/net/unix");
    errand_end(&aside);
    fclose(list);
    return r;
}
