/* Taking a variable out of the environment so that nothing of it stays: neither in memory nor in
 * /proc/PID/environ, which shows the very bytes that the program was started with. */
#pragma once

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

/* True if it was there. */
static inline bool environment_wipe(const char *name)
{
    bool found = false;
    size_t len = strlen(name);
    char **to = environ;
    for (char **from = environ; from && *from; from++) {
        if (strncmp(*from, name, len) == 0 && (*from)[len] == '=') {
            explicit_bzero(*from, strlen(*from));
            found = true;
        } else {
            *to++ = *from;
        }
    }
    if (found)
        *to = NULL;
    return found;
}
