/* Attacks on the filesystem boundary in a sandbox that has folders of the host: what is granted to
 * be read stays as it is, and what is granted to be written leads nowhere else. */
#include "verify/attack.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static void below(char out[static PLACE_PATH + 32], const char *folder, const char *name)
{
    snprintf(out, PLACE_PATH + 32, "%s/%s", folder, name);
}

int attack_grant_write(struct attempt *a)
{
    char path[PLACE_PATH + 32];
    below(path, a->place->ro, "file");
    if (attack_open(path, O_RDONLY) != 0)
        return ENOENT;
    cleanup_fd int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    return fd < 0 ? errno : attack_result(write(fd, "x", 1));
}

/* Permissions are no contents: the flag of the mount is all that guards them. */
int attack_grant_meta(struct attempt *a)
{
    char path[PLACE_PATH + 32];
    below(path, a->place->ro, "file");
    return attack_result(chmod(path, 0600));
}

/* A file with the set-id bit in a folder of the host would outlive the sandbox. */
int attack_grant_set_id(struct attempt *a)
{
    char path[PLACE_PATH + 32];
    below(path, a->place->rw, "set-id");
    cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    return fd < 0 ? errno : attack_result(fchmod(fd, 04755));
}

/* A socket file of the code's that a program of the host would take for a server's. */
int attack_grant_bind(struct attempt *a)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "%s/bound", a->place->rw);
    cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return fd < 0 ? errno : attack_result(bind(fd, (struct sockaddr *)&at, sizeof at));
}

/* A named pipe of the code's, on which a program of the host that opens it would wait. */
int attack_grant_special(struct attempt *a)
{
    char path[PLACE_PATH + 32];
    below(path, a->place->rw, "special");
    return attack_result(mkfifo(path, 0666));
}

/* A link that the code made leads where the code may go, and nowhere else. */
int attack_grant_climb(struct attempt *a)
{
    char path[PLACE_PATH + 32];
    below(path, a->place->rw, "link");
    unlink(path);
    if (symlink(a->place->file, path) < 0)
        return errno;
    int code = attack_read(a, path);
    unlink(path);
    return code;
}
