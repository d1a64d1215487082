/* Finds the programs that are installed with brig. */
#include "os/beside.h"

#include "base/cleanup.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

int program_beside(const char *name, char *ret, size_t size, struct err *err)
{
    static const char *const places[] = {"", "../libexec/brig/"};
    char self[4000];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0)
        return err_sys(err, "find brig's own folder");
    self[n] = '\0';
    char *slash = strrchr(self, '/');
    if (slash)
        slash[1] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        snprintf(ret, size, "%s%s%s", self, places[i], name);
        if (access(ret, X_OK) == 0)
            return 0;
    }
    err_set(err, ERR_UNSUPPORTED, "%s is not beside brig (looked in %s and %s../libexec/brig)",
            name, self, self);
    return err_hint(err, "build it with `make`, or install it with `make install`");
}
