/* Base64 (RFC 4648). */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <stddef.h>

#define BASE64_SIZE(n) (((n) + 2) / 3 * 4 + 1) /* of the text, with the final NUL */

/* With padding, appended. */
void base64_encode(const void *data, size_t len, struct buf *out);
/* In the alphabet for URLs, without padding; `out` has BASE64_SIZE(len) bytes. */
void base64url_encode(const void *data, size_t len, char *out);
/* Takes both alphabets, with padding or without, as proto3's JSON does; nothing else: no blanks, no
 * bits left over. Appended; on failure nothing is. */
int base64_decode(const char *text, size_t len, struct buf *out, struct err *err);
