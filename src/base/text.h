/* How texts and paths begin. Of paths by their text alone: both are absolute, or both relative, and
 * neither has a part "." or "..". */
#pragma once

#include <stdbool.h>
#include <string.h>

static inline bool text_begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static inline bool path_below(const char *path, const char *folder)
{
    return text_begins(path, folder) && path[strlen(folder)] == '/';
}

/* The folder itself, too. */
static inline bool path_within(const char *path, const char *folder)
{
    size_t len = strlen(folder);
    return strncmp(path, folder, len) == 0 && (path[len] == '\0' || path[len] == '/');
}

/* The same, and all absolute paths lie in "/". */
static inline bool path_covered(const char *path, const char *folder)
{
    return strcmp(folder, "/") == 0 || path_within(path, folder);
}
