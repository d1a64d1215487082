/* Decodes one escaped character (JSON, percent, HTML); no state, no memory. */
#include "credentials/escape_parse.h"

#include "base/cleanup.h"
#include "base/hex.h"

#include <stdbool.h>
#include <string.h>

/* `prefix`, two hex digits, then `end` (or nothing). */
static int read_hex(const char *text, size_t left, const char *prefix, const char *end,
                    uint8_t *ret)
{
    size_t before = strlen(prefix), after = strlen(end);
    int value = 0;
    for (size_t i = 0; i < before + 2 + after; i++) {
        if (i >= left)
            return -1;
        bool digit = i >= before && i < before + 2;
        char expected = i < before ? prefix[i] : end[digit ? 0 : i - before - 2];
        if (digit ? hex_digit(text[i]) < 0 : text[i] != expected)
            return 0;
        if (digit)
            value = value * 16 + hex_digit(text[i]);
    }
    *ret = (uint8_t)value;
    return (int)(before + 2 + after);
}

static int read_backslash(const char *text, size_t left, uint8_t *ret)
{
    if (left < 2)
        return -1;
    switch (text[1]) {
    case 'u':
        return read_hex(text, left, "\\u00", "", ret);
    case 'x':
        return read_hex(text, left, "\\x", "", ret);
    case 'n':
        *ret = '\n';
        return 2;
    case 'r':
        *ret = '\r';
        return 2;
    case '/':
    case '"':
    case '\'':
    case '\\':
        *ret = (uint8_t)text[1];
        return 2;
    default:
        return 0;
    }
}

static const struct entity {
    const char *name;
    char byte;
} entities[] = {
    {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''},
};

/* &#39; and &#039; */
static int read_decimal(const char *text, size_t left, uint8_t *ret)
{
    unsigned value = 0;
    for (size_t i = 2; i < ESCAPE_MAX; i++) {
        if (i >= left)
            return -1;
        if (text[i] == ';' && i > 2 && value < 256) {
            *ret = (uint8_t)value;
            return (int)i + 1;
        }
        if (text[i] < '0' || text[i] > '9')
            return 0;
        value = value * 10 + (unsigned)(text[i] - '0');
    }
    return 0;
}

static int read_entity(const char *text, size_t left, uint8_t *ret)
{
    if (left < 2)
        return -1;
    if (text[1] == '#') {
        if (left < 3)
            return -1;
        return text[2] == 'x'   ? read_hex(text, left, "&#x", ";", ret)
               : text[2] == 'X' ? read_hex(text, left, "&#X", ";", ret)
                                : read_decimal(text, left, ret);
    }
    for (size_t i = 0; i < ARRAY_LEN(entities); i++) {
        size_t len = strlen(entities[i].name);
        if (strncmp(text, entities[i].name, len < left ? len : left) != 0)
            continue;
        if (left < len)
            return -1;
        *ret = (uint8_t)entities[i].byte;
        return (int)len;
    }
    return 0;
}

int escape_read(const char *text, size_t left, uint8_t *ret)
{
    if (left == 0)
        return 0;
    switch (text[0]) {
    case '%':
        return read_hex(text, left, "%", "", ret);
    case '\\':
        return read_backslash(text, left, ret);
    case '&':
        return read_entity(text, left, ret);
    default:
        return 0;
    }
}

int escape_read_twice(const char *text, size_t left, uint8_t *ret)
{
    return left && text[0] == '%' ? read_hex(text, left, "%25", "", ret) : 0;
}

void escape_heads(uint8_t byte, void (*fn)(void *ctx, char first, char second), void *ctx)
{
    fn(ctx, '%', HEX_DIGITS[byte >> 4]);
    fn(ctx, '%', "0123456789ABCDEF"[byte >> 4]);
    fn(ctx, '%', '2'); /* %25 and so on */
    fn(ctx, '\\', 'u');
    fn(ctx, '\\', 'x');
    if (byte && strchr("/\"'\\", byte))
        fn(ctx, '\\', (char)byte);
    fn(ctx, '&', '#');
    for (size_t i = 0; i < ARRAY_LEN(entities); i++)
        if (entities[i].byte == (char)byte)
            fn(ctx, '&', entities[i].name[1]);
}
