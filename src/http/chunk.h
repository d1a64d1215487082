/* The chunked coding, strictly: hex sizes without sign, blank or leading zeros beyond 16 digits, no
 * extensions, CRLF everywhere, trailers bounded and dropped. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct chunk_reader {
    int state;
    uint64_t left; /* of the chunk that is being read */
    size_t head;   /* bytes of the size line or the trailers so far */
    bool done;
};
void chunk_reader_init(struct chunk_reader *r);
/* Looks at data[0..len). Returns how many bytes it took; *ret_data and *ret_len are the piece of
 * the body among them, if any (at most one per call). Negative: malformed. 0 with `done`: the end.
 */
ssize_t chunk_read(struct chunk_reader *r, const char *data, size_t len, const char **ret_data,
                   size_t *ret_len, struct err *err);
