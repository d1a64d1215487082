/* What a process does before it becomes another program: signals, and the search of execvp for
 * processes that have no C library's environment, or no heap. */
#include "os/execute_child.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int execute_search(const char *path, char *const argv[], char *const envp[])
{
    const char *name = argv[0];
    if (strchr(name, '/')) {
        execve(name, argv, envp);
        return errno;
    }
    int worst = ENOENT;
    for (const char *at = path; *name && at;) {
        const char *colon = strchr(at, ':');
        size_t len = colon ? (size_t)(colon - at) : strlen(at);
        char full[PATH_MAX];
        if (len && len + strlen(name) + 2 <= sizeof full) {
            memcpy(full, at, len);
            full[len] = '/';
            memcpy(full + len + 1, name, strlen(name) + 1);
            execve(full, argv, envp);
            if (errno != ENOENT && errno != ENOTDIR)
                worst = errno;
        }
        at = colon ? colon + 1 : NULL;
    }
    return worst;
}

void exec_default_signals(void)
{
    /* Those that the C library keeps for itself as well, which it would refuse: what the caller of
     * brig ignores would stay ignored. The kernel's struct has at most four words. */
    const unsigned long plain[4] = {0}, none = 0;
    for (int sig = 1; sig <= 64; sig++)
        syscall(SYS_rt_sigaction, sig, plain, NULL, sizeof none);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof none);
}
