/* Bodies of messages: out of one framing and into another. No sockets. */
#pragma once

#include "http/chunk.h"
#include "http/message.h"

struct body_reader {
    enum http_body kind;
    uint64_t left; /* BODY_LENGTH */
    struct chunk_reader chunks;
    bool done;
};
void body_reader_init(struct body_reader *b, enum http_body kind, uint64_t length);
/* As chunk_read, for every framing. BODY_UNTIL_CLOSE is never done by itself. */
ssize_t body_read(struct body_reader *b, const char *data, size_t len, const char **ret_piece,
                  size_t *ret_len, struct err *err);
/* How many bytes may be read without taking some of the next message. */
size_t body_ask(const struct body_reader *b, size_t most);

/* One piece, or the end, in this framing. */
void body_write(enum http_body kind, const char *piece, size_t len, struct buf *out);
void body_write_end(enum http_body kind, struct buf *out);
