/* Reads the chunked coding. One byte at a time but for the data, which is handed out in pieces. */
#include "http/chunk.h"

#include "base/hex.h"

#define SIZE_DIGITS  16
#define TRAILERS_MAX (8u * 1024)

enum state {
    AT_SIZE,
    AT_SIZE_LF,
    AT_DATA,
    AT_DATA_CR,
    AT_DATA_LF,
    AT_TRAILER_START, /* of a line: a name, or the empty line at the end */
    AT_TRAILER_NAME,
    AT_TRAILER_VALUE,
    AT_TRAILER_LF,
    AT_END_LF,
    AT_END,
};

void chunk_reader_init(struct chunk_reader *r)
{
    *r = (struct chunk_reader){.state = AT_SIZE};
}

static int expect(struct chunk_reader *r, char c, char wanted, enum state next, struct err *err)
{
    if (c != wanted)
        return err_set(err, ERR_PROTOCOL, "a chunk that does not end with CR LF");
    r->state = (int)next;
    return 0;
}

static int read_size(struct chunk_reader *r, char c, struct err *err)
{
    int digit = hex_digit(c);
    if (digit < 0) {
        if (c != '\r' || !r->head)
            return err_set(err, ERR_PROTOCOL, "the size of a chunk is not a plain hex number");
        r->state = AT_SIZE_LF;
        return 0;
    }
    if (++r->head > SIZE_DIGITS || r->left >> 59)
        return err_set(err, ERR_PROTOCOL, "the size of a chunk is too large");
    r->left = r->left << 4 | (unsigned)digit;
    return 0;
}

static bool is_name_byte(unsigned char c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '-' ||
           c == '_' || c == '.' || c == '!' || (c >= '#' && c <= '\'') || c == '*' || c == '+' ||
           c == '^' || c == '`' || c == '|' || c == '~';
}

static int read_trailer(struct chunk_reader *r, char c, struct err *err)
{
    unsigned char byte = (unsigned char)c;
    if (++r->head > TRAILERS_MAX)
        return err_set(err, ERR_LIMIT, "trailers over %u bytes", TRAILERS_MAX);
    if (r->state == AT_TRAILER_VALUE) {
        if (c == '\r')
            r->state = AT_TRAILER_LF;
        else if ((byte < ' ' && c != '\t') || byte == 0x7f)
            return err_set(err, ERR_PROTOCOL, "a control byte in a trailer");
    } else if (r->state == AT_TRAILER_START && c == '\r') {
        r->state = AT_END_LF;
    } else if (r->state == AT_TRAILER_NAME && c == ':') {
        r->state = AT_TRAILER_VALUE;
    } else {
        if (!is_name_byte(byte))
            return err_set(err, ERR_PROTOCOL, "a byte in the name of a trailer that none has");
        r->state = AT_TRAILER_NAME;
    }
    return 0;
}

static int after_size(struct chunk_reader *r, char c, struct err *err)
{
    r->head = 0;
    return expect(r, c, '\n', r->left ? AT_DATA : AT_TRAILER_START, err);
}

static int read_byte(struct chunk_reader *r, char c, struct err *err)
{
    switch ((enum state)r->state) {
    case AT_SIZE:
        return read_size(r, c, err);
    case AT_SIZE_LF:
        return after_size(r, c, err);
    case AT_DATA_CR:
        return expect(r, c, '\r', AT_DATA_LF, err);
    case AT_DATA_LF:
        return expect(r, c, '\n', AT_SIZE, err);
    case AT_TRAILER_START:
    case AT_TRAILER_NAME:
    case AT_TRAILER_VALUE:
        return read_trailer(r, c, err);
    case AT_TRAILER_LF:
        return expect(r, c, '\n', AT_TRAILER_START, err);
    case AT_END_LF:
        r->done = c == '\n';
        return expect(r, c, '\n', AT_END, err);
    case AT_DATA:
    case AT_END:
        break;
    }
    return err_set(err, ERR_INTERNAL, "a chunk reader that lost its place");
}

ssize_t chunk_read(struct chunk_reader *r, const char *data, size_t len, const char **ret_data,
                   size_t *ret_len, struct err *err)
{
    size_t i = 0;
    *ret_data = data;
    *ret_len = 0;
    while (i < len && !r->done) {
        if (r->state == AT_DATA) {
            size_t piece = len - i < r->left ? len - i : (size_t)r->left;
            *ret_data = data + i;
            *ret_len = piece;
            r->left -= piece;
            if (!r->left)
                r->state = AT_DATA_CR;
            return (ssize_t)(i + piece);
        }
        if (read_byte(r, data[i], err) < 0)
            return err_number(err);
        i++;
    }
    return (ssize_t)i;
}
