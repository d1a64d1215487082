/* WebSocket frames: in one piece and byte by byte the verdict is the same. The first byte says
 * which direction. */
#include "http/ws.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int check(bool from_client, const uint8_t *data, size_t size, size_t step)
{
    struct ws_reader r;
    ws_reader_init(&r, from_client);
    for (size_t at = 0; at < size; at += step) {
        size_t piece = size - at < step ? size - at : step;
        if (ws_check(&r, data + at, piece, NULL) < 0)
            return -1;
    }
    return r.closed ? 1 : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    bool from_client = data[0] & 1;
    int whole = check(from_client, data + 1, size - 1, size);
    if (whole != check(from_client, data + 1, size - 1, 1) ||
        whole != check(from_client, data + 1, size - 1, 3))
        abort();
    /* Nothing passes for both sides, but for the first byte alone. */
    if (whole >= 0 && size > 2 && check(!from_client, data + 1, size - 1, size) >= 0)
        abort();
    return 0;
}
