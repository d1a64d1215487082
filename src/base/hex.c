/* Hexadecimal text, read and written. */
#include "base/hex.h"

#include <string.h>

#define DIGIT(c, value) [c] = (value) + 1
const int8_t hex_values[256] = {
    DIGIT('0', 0),  DIGIT('1', 1),  DIGIT('2', 2),  DIGIT('3', 3),  DIGIT('4', 4),  DIGIT('5', 5),
    DIGIT('6', 6),  DIGIT('7', 7),  DIGIT('8', 8),  DIGIT('9', 9),  DIGIT('a', 10), DIGIT('b', 11),
    DIGIT('c', 12), DIGIT('d', 13), DIGIT('e', 14), DIGIT('f', 15), DIGIT('A', 10), DIGIT('B', 11),
    DIGIT('C', 12), DIGIT('D', 13), DIGIT('E', 14), DIGIT('F', 15),
};

void hex_encode(const void *data, size_t len, char *out)
{
    const uint8_t *bytes = data;
    for (size_t i = 0; i < len; i++) {
        out[2 * i] = HEX_DIGITS[bytes[i] >> 4];
        out[2 * i + 1] = HEX_DIGITS[bytes[i] & 15];
    }
    out[2 * len] = '\0';
}

void hex_write(struct buf *out, const void *data, size_t len)
{
    const uint8_t *bytes = data;
    for (size_t i = 0; i < len; i++)
        buf_add(out, (char[]){HEX_DIGITS[bytes[i] >> 4], HEX_DIGITS[bytes[i] & 15]}, 2);
}

bool hex_decode(const char *text, void *ret, size_t len)
{
    uint8_t *bytes = ret;
    if (!text || strlen(text) != 2 * len)
        return false;
    for (size_t i = 0; i < len; i++) {
        int high = hex_digit_lower(text[2 * i]), low = hex_digit_lower(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        bytes[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}
