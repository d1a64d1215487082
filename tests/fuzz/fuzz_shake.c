/* The bytes of a client's side of a TLS handshake. The first byte of the input says how they are
 * cut, the second whether a change of the cipher ends what is in the clear. */
#include "base/shake_parse.h"

#include <stdlib.h>

#define MAX 32768

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The same once more, from the whole input at once: does any handshake message claim too much? */
static bool reference(const uint8_t *data, size_t size, bool changes_cipher)
{
    uint64_t body_left = 0;
    uint8_t head[4];
    unsigned have = 0;
    for (size_t at = 0; size - at >= 5;) {
        size_t len = (size_t)data[at + 3] << 8 | data[at + 4];
        uint8_t kind = data[at];
        at += 5;
        if (kind == 23 || (kind == 20 && changes_cipher))
            break;
        size_t here = len < size - at ? len : size - at;
        for (size_t i = 0; kind == 22 && i < here; i++) {
            if (body_left > 0) {
                body_left--;
                continue;
            }
            head[have++] = data[at + i];
            if (have < 4)
                continue;
            have = 0;
            body_left = (uint64_t)head[1] << 16 | (uint64_t)head[2] << 8 | head[3];
            if (body_left > MAX)
                return false;
        }
        at += here;
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    size_t piece = data[0] % 16 + 1u;
    bool changes_cipher = data[1] & 1, good = true;
    data += 2;
    size -= 2;
    struct shake s = {0};
    for (size_t at = 0; at < size && good; at += piece)
        good =
            shake_take(&s, data + at, piece < size - at ? piece : size - at, MAX, changes_cipher);
    if (good != reference(data, size, changes_cipher))
        abort();
    if (!good && shake_take(&s, data, size, MAX, changes_cipher))
        abort();
    return 0;
}
