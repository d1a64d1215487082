/* Base64 (RFC 4648). */
#pragma once

#include "base/buf.h"

#include <stddef.h>
#include <sys/types.h>

#define BASE64_SIZE(n) (((n) + 2) / 3 * 4 + 1) /* of the text, with the final NUL */

/* With padding, appended. */
void base64_encode(struct buf *out, const void *data, size_t len);
/* In the alphabet for URLs, without padding; `out` has BASE64_SIZE(len) bytes. */
void base64url_encode(char *out, const void *data, size_t len);
/* Takes both alphabets, with padding or without; nothing else: no blanks, no bits left over.
 * Returns how many bytes were written to `out` (at most len / 4 * 3 + 2), or negative. */
ssize_t base64_decode(void *out, const char *text, size_t len);
