/* What one turn of the front passes to the inside. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#define TURN_BYTES  (256u << 10)
#define TURN_WRITES 64u /* a pipe can be made as small as a page */

/* Writes to a pipe or terminal that leads inside and does not block. Returns how much was taken,
 * which may be nothing, or -EPIPE when nobody can read it. What is left goes in a later turn. */
ssize_t turn_write(int fd, const void *data, size_t len);
