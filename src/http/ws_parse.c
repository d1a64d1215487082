/* Checks WebSocket frames as they pass. */
#include "http/ws.h"

#include <string.h>

#define OP_CONTINUATION 0x0
#define OP_TEXT         0x1
#define OP_BINARY       0x2
#define OP_CLOSE        0x8
#define OP_PING         0x9
#define OP_PONG         0xa
#define CONTROL_MAX     125

void ws_reader_init(struct ws_reader *r, bool from_client)
{
    *r = (struct ws_reader){.from_client = from_client};
}

static unsigned head_length(const struct ws_reader *r)
{
    unsigned size = r->head[1] & 0x7f;
    unsigned extra = size == 127 ? 8 : size == 126 ? 2 : 0;
    return 2 + extra + (r->head[1] & 0x80 ? 4 : 0);
}

static int check_data_frame(struct ws_reader *r, unsigned op, bool fin, struct err *err)
{
    if (op == OP_CONTINUATION && !r->fragmented)
        return err_set(err, ERR_PROTOCOL, "a WebSocket frame that continues nothing");
    if (op != OP_CONTINUATION && r->fragmented)
        return err_set(err, ERR_PROTOCOL, "a WebSocket message within another");
    r->fragmented = !fin;
    return 0;
}

static int check_control_frame(struct ws_reader *r, unsigned op, bool fin, struct err *err)
{
    unsigned size = r->head[1] & 0x7f;
    if (!fin || size > CONTROL_MAX)
        return err_set(err, ERR_PROTOCOL, "a WebSocket control frame in parts or too long");
    if (op == OP_CLOSE && size == 1)
        return err_set(err, ERR_PROTOCOL, "a WebSocket close frame with half a code");
    r->closed = op == OP_CLOSE;
    return 0;
}

/* The first two bytes say what the frame is. */
static int check_start(struct ws_reader *r, struct err *err)
{
    bool fin = r->head[0] & 0x80;
    unsigned op = r->head[0] & 0x0f;
    if (r->head[0] & 0x70)
        return err_set(err, ERR_PROTOCOL, "a WebSocket frame with reserved bits");
    if (!!(r->head[1] & 0x80) != r->from_client)
        return err_set(err, ERR_PROTOCOL, "a WebSocket frame with the wrong masking");
    if (op <= OP_BINARY)
        return check_data_frame(r, op, fin, err);
    if (op >= OP_CLOSE && op <= OP_PONG)
        return check_control_frame(r, op, fin, err);
    return err_set(err, ERR_PROTOCOL, "a WebSocket frame of a reserved kind");
}

static int take_length(struct ws_reader *r, struct err *err)
{
    unsigned size = r->head[1] & 0x7f;
    unsigned extra = size == 127 ? 8 : size == 126 ? 2 : 0;
    uint64_t length = size;
    if (extra) {
        length = 0;
        for (unsigned i = 0; i < extra; i++)
            length = length << 8 | r->head[2 + i];
        if (length >> 63 || length < (extra == 8 ? 0x10000u : 126u))
            return err_set(err, ERR_PROTOCOL, "a WebSocket length that is not the shortest form");
    }
    r->left = length;
    r->have = 0;
    return 0;
}

int ws_check(struct ws_reader *r, const void *data, size_t len, struct err *err)
{
    const uint8_t *p = data;
    while (len) {
        if (r->left) {
            size_t piece = len < r->left ? len : (size_t)r->left;
            r->left -= piece;
            p += piece;
            len -= piece;
            continue;
        }
        if (r->closed && !r->have)
            return err_set(err, ERR_PROTOCOL, "bytes after a WebSocket close frame");
        do {
            r->head[r->have++] = *p++;
            len--;
            if (r->have == 2 && check_start(r, err) < 0)
                return err_number(err);
        } while (len && (r->have < 2 || r->have < head_length(r)));
        if (r->have >= 2 && r->have == head_length(r) && take_length(r, err) < 0)
            return err_number(err);
    }
    return 0;
}
