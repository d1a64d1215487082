/* Sockets of the host that lie below what is bound: a read-only mount keeps nobody from connecting,
 * and who listens sees the root of the host at the other end (OC-5). */
#include "base/cleanup.h"
#include "oci/build.h"

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
 * listens. */
static bool is_there(const char *name, char out[static PATH_MAX])
{
    struct stat sb;
    char link[64];
    cleanup_fd int fd = open(name, O_PATH | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &sb) < 0 || !S_ISSOCK(sb.st_mode))
        return false;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, out, PATH_MAX - 1);
    out[n > 0 ? n : 0] = '\0';
    return n > 0;
}

static int judge_socket(const struct oci_build *b, const char *path, const struct oci_operator *o,
                        struct err *err)
{
    static const char why[] = "a socket of the host lies there, a door to what listens",
                      hint[] = "bind a folder without it; only the operator can allow a socket, by "
                               "its path in " OCI_OPERATOR_FILE " (sockets)";
    bool found = oci_is_below(path, b->root.path);
    for (size_t i = 0; i < b->config->mount_count && !found; i++)
        found = b->config->mounts[i].type == OCI_MOUNT_BIND && b->sources[i].folder &&
                oci_is_below(path, b->sources[i].path);
    return found && !oci_text_in(o->sockets, path) ? oci_refuse_source(path, why, hint, err) : 0;
}

int oci_judge_sockets(const struct oci_build *b, const struct oci_operator *o, struct err *err)
{
    FILE *list = fopen("/proc/net/unix", "re");
    cleanup_free char *line = NULL;
    char path[PATH_MAX];
    size_t room = 0;
    int r = 0;
    if (!list)
        return err_sys(err, "read /proc/net/unix");
    while (r == 0 && getline(&line, &room, list) > 0) {
        line[strcspn(line, "\n")] = '\0';
        const char *name = bound_name(line);
        if (name && is_there(name, path))
            r = judge_socket(b, path, o, err);
    }
    if (r == 0 && ferror(list))
        r = err_sys(err, "read /proc/net/unix");
    fclose(list);
    return r;
}
