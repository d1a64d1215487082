/* Base64: see base64.h. */
#include "base/base64.h"

#include <errno.h>
#include <stdint.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(const void *data, size_t len, struct buf *out)
{
    const uint8_t *in = data;
    size_t done = 0;
    if (len)
        buf_room(out, BASE64_SIZE(len) - 1);
    while (done < len) {
        /* In pieces, so that the buffer is asked once for many digits. */
        char text[256];
        size_t n = 0;
        while (done < len && n < sizeof(text)) {
            size_t left = len - done < 3 ? len - done : 3;
            uint32_t v = (uint32_t)in[done] << 16;
            v |= left > 1 ? (uint32_t)in[done + 1] << 8 : 0;
            v |= left > 2 ? in[done + 2] : 0;
            text[n++] = digits[v >> 18];
            text[n++] = digits[v >> 12 & 63];
            text[n++] = left > 1 ? digits[v >> 6 & 63] : '=';
            text[n++] = left > 2 ? digits[v & 63] : '=';
            done += left;
        }
        buf_add(out, text, n);
    }
}

static char url_digit(uint32_t v)
{
    return v == 62 ? '-' : v == 63 ? '_' : digits[v];
}

void base64url_encode(const void *data, size_t len, char *out)
{
    const uint8_t *in = data;
    uint32_t bits = 0;
    unsigned have = 0;
    for (size_t i = 0; i < len; i++) {
        bits = bits << 8 | in[i];
        for (have += 8; have >= 6; have -= 6)
            *out++ = url_digit(bits >> (have - 6) & 63);
    }
    if (have)
        *out++ = url_digit(bits << (6 - have) & 63);
    *out = '\0';
}

/* From '+' to 'z'. */
static const int8_t values[] = {
    62, -1, 62, -1, 63,                                 /* + , - . / */
    52, 53, 54, 55, 56, 57, 58, 59, 60, 61,             /* 0 to 9 */
    -1, -1, -1, -1, -1, -1, -1,                         /* : ; < = > ? @ */
    0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, /* A to M */
    13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, /* N to Z */
    -1, -1, -1, -1, 63, -1,                             /* [ \ ] ^ _ ` */
    26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, /* a to m */
    39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, /* n to z */
};

static int digit_value(char c)
{
    unsigned at = (unsigned char)c - (unsigned)'+';
    return at < sizeof values ? values[at] : -1;
}

/* The bytes of up to four digits; negative: one of them is none, or bits are left over. */
static int decode_group(const char *text, size_t len, uint8_t out[3])
{
    uint32_t bits = 0;
    for (size_t i = 0; i < len; i++) {
        int v = digit_value(text[i]);
        if (v < 0)
            return -EINVAL;
        bits |= (uint32_t)v << (18 - 6 * i);
    }
    if (len == 1 || (len == 2 && bits & 0xffff) || (len == 3 && bits & 0xff))
        return -EINVAL;
    for (int i = 0; i < 3; i++)
        out[i] = (uint8_t)(bits >> (16 - 8 * i));
    return (int)len - 1;
}

int base64_decode(const char *text, size_t len, struct buf *out, struct err *err)
{
    size_t start = out->len;
    if (len && len % 4 == 0 && text[len - 1] == '=')
        len -= text[len - 2] == '=' ? 2 : 1;
    if (len)
        buf_room(out, len / 4 * 3 + 2);
    uint8_t bytes[192]; /* so that the buffer is asked once for many groups */
    size_t have = 0;
    for (size_t at = 0; at < len; at += 4) {
        int n = decode_group(text + at, len - at < 4 ? len - at : 4, bytes + have);
        if (n < 0) {
            out->len = start;
            return err_set(err, ERR_USAGE, "malformed base64");
        }
        have += (size_t)n;
        if (have == sizeof bytes || at + 4 >= len) {
            buf_add(out, bytes, have);
            have = 0;
        }
    }
    return out->failed ? err_set(err, ERR_LIMIT, "too much base64") : 0;
}
