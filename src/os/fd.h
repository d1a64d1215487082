/* Small helpers around descriptors and small files. */
#pragma once

#include "base/err.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <unistd.h>

/* Read at most size-1 bytes and terminate with NUL. Returns the length, or a negative errno.
 * Relative to dir (AT_FDCWD). */
ssize_t file_read(int dir, const char *path, char *out, size_t size);
/* Write a short text into an existing file in one call. Returns 0 or a negative errno. */
int file_write(int dir, const char *path, const char *text);
/* An empty memfd, and filling it so that nobody can change it any more. */
int memfd_empty(const char *name, bool executable, struct err *err);
int memfd_fill(int fd, const void *data, size_t len, struct err *err);
/* Both at once. */
int memfd_sealed(const char *name, const void *data, size_t len, bool executable, struct err *err);
/* The same with what is in a file, of at most `max` bytes, from where it stands. The kernel copies:
 * nothing of it is ever in the caller's memory. */
int memfd_copied(const char *name, int from, size_t max, struct err *err);
int fd_set_cloexec(int fd, bool on);
/* All of it, on a descriptor that blocks; or -1 and errno. Here, since it is linked into init, too.
 */
static inline int fd_write_all(int fd, const void *data, size_t len)
{
    const char *at = data;
    for (ssize_t n; len > 0; at += n > 0 ? n : 0, len -= n > 0 ? (size_t)n : 0)
        if ((n = write(fd, at, len)) == 0 || (n < 0 && errno != EINTR))
            return -1;
    return 0;
}
/* Read or write what is possible at once, on a descriptor that may block: O_NONBLOCK is a property
 * of the open file, which is shared with others who do not expect it. Returns how much, 0 at the
 * end, or a negative errno; -EAGAIN: nothing now. */
ssize_t fd_read_now(int fd, void *data, size_t len);
ssize_t fd_write_now(int fd, const void *data, size_t len);
/* Of an open, stat or readlink that failed: nothing of that name is there, or no folder is on the
 * way, or a link where none is followed. Whatever else there is to say (no descriptors, no memory,
 * a disk that fails) tells nothing of what is there, and must not be taken for this. */
bool path_is_absent(int why);
/* To read a folder's entries; NULL and errno if it cannot be opened. */
DIR *folder_open(int dir, const char *path);
/* The same of a descriptor, which is taken, also where there is no memory for the list; negative:
 * NULL, and errno as it was. */
DIR *folder_take(int fd);
/* The next entry but "." and "..": 1, or 0 after the last. -1 and errno: the list broke off there;
 * what was not told of must not be taken for what is not there. */
int folder_next(DIR *list, struct dirent **ret);
