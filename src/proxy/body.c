/* Reads message bodies out of one framing (length, chunks, end of connection) and writes them in
 * another. */
#include "proxy/body.h"

void body_reader_init(struct body_reader *b, enum http_body kind, uint64_t length)
{
    *b = (struct body_reader){.kind = kind, .left = length};
    b->done = kind == BODY_NONE || (kind == BODY_LENGTH && !length);
    chunk_reader_init(&b->chunks);
}

ssize_t body_read(struct body_reader *b, const char *data, size_t len, const char **ret_piece,
                  size_t *ret_len, struct err *err)
{
    *ret_piece = data;
    *ret_len = 0;
    if (b->done)
        return 0;
    if (b->kind == BODY_CHUNKED) {
        ssize_t n = chunk_read(&b->chunks, data, len, ret_piece, ret_len, err);
        b->done = b->chunks.done;
        return n;
    }
    if (b->kind == BODY_LENGTH) {
        len = len < b->left ? len : (size_t)b->left;
        b->left -= len;
        b->done = !b->left;
    }
    *ret_len = len;
    return (ssize_t)len;
}

size_t body_ask(const struct body_reader *b, size_t most)
{
    return b->kind == BODY_LENGTH && b->left < most ? (size_t)b->left : most;
}

void body_write(enum http_body kind, const char *piece, size_t len, struct buf *out)
{
    if (!len)
        return;
    if (kind != BODY_CHUNKED) {
        buf_add(out, piece, len);
        return;
    }
    buf_room(out, len + 24);
    buf_fmt(out, "%zx\r\n", len);
    buf_add(out, piece, len);
    buf_add(out, "\r\n", 2);
}

void body_write_end(enum http_body kind, struct buf *out)
{
    if (kind == BODY_CHUNKED)
        buf_str(out, "0\r\n\r\n");
}
