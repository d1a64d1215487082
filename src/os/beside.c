/* Finds and starts the programs that are installed with brig. */
#include "os/beside.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "os/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A program that was copied into memory has no folder; who copied it left the path as its name
 * (oci_reseal). Nobody else can have: who starts a copy of his own has no need to mislead it. */
static int own_path(char *out, size_t size, struct err *err)
{
    ssize_t n = readlink("/proc/self/exe", out, size - 1);
    if (n <= 0)
        return err_sys(err, "find brig's own folder");
    out[n] = '\0';
    if (!text_begins(out, "/memfd:"))
        return 0;
    ssize_t len = file_read(AT_FDCWD, "/proc/self/cmdline", out, size);
    if (len > 0 && out[0] == '/')
        return 0;
    return err_set(err, ERR_UNSUPPORTED, "brig does not know its own folder");
}

static int find_beside(const char *name, int mode, char *ret, size_t size, struct err *err)
{
    static const char *const places[] = {"", "../libexec/brig/"};
    char self[4000];
    if (own_path(self, sizeof self, err) < 0)
        return err_number(err);
    char *slash = strrchr(self, '/');
    if (slash)
        slash[1] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        snprintf(ret, size, "%s%s%s", self, places[i], name);
        if (access(ret, mode) == 0)
            return 0;
    }
    err_set(err, ERR_UNSUPPORTED, "%s is not beside brig (looked in %s and %s../libexec/brig)",
            name, self, self);
    return err_hint(err, "build it with `make`, or install it with `make install`");
}

int program_beside(const char *name, char *ret, size_t size, struct err *err)
{
    return find_beside(name, X_OK, ret, size, err);
}

int file_beside(const char *name, char *ret, size_t size, struct err *err)
{
    return find_beside(name, R_OK, ret, size, err);
}

static int spawn(const char *program, char *const argv[], char *const envp[], const int *fds,
                 unsigned count, pid_t *ret)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attr);
    for (int fd = 0; fd < PROGRAM_FD; fd++)
        posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_RDWR, 0);
    for (unsigned i = 0; i < count; i++)
        posix_spawn_file_actions_adddup2(&files, fds[i], PROGRAM_FD + (int)i);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setflags(&attr,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
    int why = posix_spawn(ret, program, &files, &attr, argv, envp);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attr);
    return why;
}

int program_start(const char *program, char *const argv[], char *const envp[], const int *fds,
                  unsigned count, pid_t *ret, struct err *err)
{
    int high[PROGRAM_FDS_MAX] = {0}, why = count > PROGRAM_FDS_MAX ? EMFILE : 0;
    unsigned lifted = 0;
    /* Out of the way of the places where they shall stand: a dup2 onto itself would leave the
     * descriptor close-on-exec. */
    while (!why && lifted < count) {
        int fd = fcntl(fds[lifted], F_DUPFD_CLOEXEC, PROGRAM_FD + PROGRAM_FDS_MAX);
        if (fd < 0)
            why = errno;
        else
            high[lifted++] = fd;
    }
    if (!why)
        why = spawn(program, argv, envp, high, count, ret);
    while (lifted)
        close(high[--lifted]);
    errno = why;
    return why ? err_sys(err, "start %s", program) : 0;
}
