/* The search of execvp for processes that have no C library's environment, or no heap. */
#include "os/execute_child.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
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
