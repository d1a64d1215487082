/* Decoding and encoding of UTF-8, and names of files that are not UTF-8 as text that can be turned
 * back into the same bytes. */
#include "base/utf8.h"

#include <stdbool.h>
#include <string.h>

static bool is_scalar_value(uint32_t code)
{
    return code <= 0x10FFFF && !(code >= 0xD800 && code <= 0xDFFF);
}

static size_t lead_length(unsigned char lead, uint32_t *ret_bits)
{
    if (lead >= 0xC2 && lead <= 0xDF) {
        *ret_bits = lead & 0x1Fu;
        return 2;
    }
    if ((lead & 0xF0) == 0xE0) {
        *ret_bits = lead & 0x0Fu;
        return 3;
    }
    if (lead >= 0xF0 && lead <= 0xF4) {
        *ret_bits = lead & 0x07u;
        return 4;
    }
    return 0;
}

size_t utf8_decode(const char *p, size_t left, uint32_t *ret_code)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *u = (const unsigned char *)p;
    if (left == 0)
        return 0;
    if (u[0] < 0x80) {
        *ret_code = u[0];
        return 1;
    }
    uint32_t code = 0;
    size_t n = lead_length(u[0], &code);
    if (n == 0 || n > left)
        return 0;
    for (size_t i = 1; i < n; i++) {
        if ((u[i] & 0xC0) != 0x80)
            return 0;
        code = code << 6 | (u[i] & 0x3Fu);
    }
    if (code < smallest[n] || !is_scalar_value(code))
        return 0;
    *ret_code = code;
    return n;
}

static bool is_tail(unsigned char byte)
{
    return (byte & 0xC0) == 0x80;
}

/* The usual ones, without decoding; what is rare or wrong is left to utf8_decode. */
static size_t common_length(const unsigned char *u, size_t left)
{
    if (u[0] >= 0xC2 && u[0] <= 0xDF)
        return left >= 2 && is_tail(u[1]) ? 2 : 0;
    if (u[0] >= 0xE1 && u[0] <= 0xEF && u[0] != 0xED)
        return left >= 3 && is_tail(u[1]) && is_tail(u[2]) ? 3 : 0;
    return 0;
}

size_t utf8_run(const char *p, size_t left)
{
    const unsigned char *u = (const unsigned char *)p;
    size_t n = 0;
    while (n < left && u[n] >= 0x80) {
        uint32_t code;
        size_t len = common_length(u + n, left - n);
        if (!len)
            len = utf8_decode(p + n, left - n, &code);
        if (!len)
            break;
        n += len;
    }
    return n;
}

size_t utf8_encode(uint32_t code, char out[4])
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xC0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3F));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xE0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3F));
        out[2] = (char)(0x80 | (code & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3F));
    out[2] = (char)(0x80 | (code >> 6 & 0x3F));
    out[3] = (char)(0x80 | (code & 0x3F));
    return 4;
}

/* ---- names ---- */

#define ESCAPE 0xF700u

static bool is_escape(uint32_t code)
{
    return code >= ESCAPE + 0x80 && code <= ESCAPE + 0xFF;
}

static size_t escape_bytes(const char *bytes, size_t len, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++)
        n += utf8_encode(ESCAPE + (unsigned char)bytes[i], out + n);
    return n;
}

static size_t escape(const char *name, size_t len, bool keep, char *out)
{
    size_t n = 0;
    for (size_t at = 0, step; at < len; at += step) {
        uint32_t code = 0;
        step = utf8_decode(name + at, len - at, &code);
        if (!step || (!keep && is_escape(code))) {
            step = step ? step : 1;
            n += escape_bytes(name + at, step, out + n);
        } else {
            memmove(out + n, name + at, step);
            n += step;
        }
    }
    return n;
}

size_t utf8_escape(const char *name, size_t len, char *out)
{
    return escape(name, len, false, out);
}

size_t utf8_mend(const char *text, size_t len, char *out)
{
    return escape(text, len, true, out);
}

size_t utf8_unescape(const char *text, size_t len, char *out)
{
    size_t n = 0;
    for (size_t at = 0, step; at < len; at += step) {
        uint32_t code = 0;
        step = utf8_decode(text + at, len - at, &code);
        if (step && is_escape(code)) {
            out[n++] = (char)(code - ESCAPE);
            continue;
        }
        step = step ? step : 1;
        memmove(out + n, text + at, step);
        n += step;
    }
    return n;
}
