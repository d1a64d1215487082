/* Opens the folder in which runs keep their records, reviews and keys, and makes it if need be. */
#include "os/runstate.h"

#include "os/keep.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* One step down, made if it is not there; only a folder that is the caller's own and nobody else's
 * to write counts. */
static int enter(int dir, const char *name, bool make)
{
    struct stat sb;
    if (make && mkdirat(dir, name, 0700) < 0 && errno != EEXIST)
        return -1;
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && (fstat(fd, &sb) < 0 || sb.st_uid != geteuid() || (sb.st_mode & 022))) {
        close(fd);
        errno = EPERM;
        return -1;
    }
    return fd;
}

static int enter_all(int dir, const char *const *names, bool make)
{
    for (; dir >= 0 && *names; names++) {
        int next = enter(dir, *names, make);
        int why = errno;
        close(dir);
        errno = why;
        dir = next;
    }
    return dir;
}

/* Into the folder `brig` of a folder of the user's, and on. */
static int enter_own(int dir, const char *const *above, const char *name, bool make, bool named)
{
    const char *const own[] = {"brig", NULL}, *const last[] = {name, NULL};
    dir = enter_all(enter_all(dir, above, make), own, make);
    /* A folder that the environment names is put on the list: brig would not look there without
     * that variable. */
    if (dir >= 0 && make && keep_mark(dir) && named)
        keep_folder(dir);
    return enter_all(dir, last, make);
}

int runstate_open_fixed(const char *name, bool make)
{
    static const char *const none[] = {NULL}, *const below_home[] = {".local", "state", NULL};
    const char *home = getenv("HOME");
    int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    if (geteuid() == 0)
        return enter_own(open("/var/lib", flags), none, name, make, false);
    if (home && home[0] == '/')
        return enter_own(open(home, flags), below_home, name, make, false);
    errno = ENOENT;
    return -1;
}

int runstate_open(const char *name, bool make)
{
    static const char *const none[] = {NULL};
    const char *state = getenv("XDG_STATE_HOME");
    if (!state || state[0] != '/')
        return runstate_open_fixed(name, make);
    if (make && mkdir(state, 0700) < 0 && errno != EEXIST)
        return -1;
    return enter_own(open(state, O_RDONLY | O_DIRECTORY | O_CLOEXEC), none, name, make, true);
}

bool runstate_path(const char *name, struct buf *ret)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (state && state[0] == '/')
        buf_fmt(ret, "%s/brig/%s", state, name);
    else if (geteuid() == 0)
        buf_fmt(ret, "/var/lib/brig/%s", name);
    else if (home && home[0] == '/')
        buf_fmt(ret, "%s/.local/state/brig/%s", home, name);
    return ret->len && !ret->failed;
}
