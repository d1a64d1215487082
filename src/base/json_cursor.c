/* Where a parser stands, and how it names what it found there. Hostile text ends up in these
 * messages, and the messages on a terminal: only printable ASCII passes as it is. */
#include "base/json_build.h"

#include <stdio.h>
#include <string.h>

struct json_pos json_cursor_pos(const struct json_cursor *c)
{
    return (struct json_pos){.line = c->line, .column = (unsigned)(c->at - c->line_start) + 1};
}

void json_cursor_newline(struct json_cursor *c)
{
    c->at++;
    c->line++;
    c->line_start = c->at;
}

/* Eight bytes at a time. `x - ONES & ~x & TOPS` has a bit where a byte of x is zero, and perhaps
 * further up: that there is none is what counts. */
#define ONES 0x0101010101010101u
#define TOPS 0x8080808080808080u

static uint64_t zeros(uint64_t x)
{
    return (x - ONES) & ~x & TOPS;
}

/* The lowest bit set marks a byte that ends a string, escapes, or is a control character; those
 * above it may be wrong. */
static uint64_t stops(uint64_t x)
{
    return ((x - ONES * 0x20) & ~x & TOPS) | zeros(x ^ ONES * '"') | zeros(x ^ ONES * '\\');
}

static bool is_plain_word(uint64_t x)
{
    return !(stops(x) | (x & TOPS) | zeros(x ^ ONES * 0x7F));
}

size_t json_string_run(const char *text, size_t left)
{
    const unsigned char *u = (const unsigned char *)text;
    size_t n = 0;
    for (uint64_t x; left - n >= sizeof x; n += sizeof x) {
        memcpy(&x, text + n, sizeof x);
        if (stops(x))
            break;
    }
    while (n < left && u[n] >= 0x20 && u[n] != '"' && u[n] != '\\')
        n++;
    return n;
}

size_t json_plain_run(const char *text, size_t left)
{
    size_t n = 0;
    for (uint64_t x; left - n >= sizeof x; n += sizeof x) {
        memcpy(&x, text + n, sizeof x);
        if (!is_plain_word(x))
            break;
    }
    while (n < left && text[n] >= 0x20 && text[n] < 0x7F && text[n] != '"' && text[n] != '\\')
        n++;
    return n;
}

static bool is_printable(int byte)
{
    return byte >= 0x20 && byte < 0x7F;
}

struct json_found json_quote(const char *text, size_t len)
{
    struct json_found found;
    /* Room for one escape, the dots, the quote and the NUL. */
    const size_t most = sizeof found.text - 10;
    size_t used = 0, i;
    found.text[used++] = '"';
    for (i = 0; i < len && used < most; i++) {
        unsigned char byte = (unsigned char)text[i];
        if (byte == '"' || byte == '\\')
            found.text[used++] = '\\';
        if (is_printable(byte))
            found.text[used++] = (char)byte;
        else
            used += (size_t)snprintf(found.text + used, sizeof found.text - used, "\\x%02x", byte);
    }
    snprintf(found.text + used, sizeof found.text - used, "%s\"", i < len ? "..." : "");
    return found;
}

static bool is_word(int byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || byte == '_' || byte == '-' || byte == '.';
}

struct json_found json_cursor_found(const struct json_cursor *c)
{
    struct json_found found;
    int byte = json_cursor_peek(c, 0);
    if (is_word(byte)) {
        size_t len = 1;
        while (is_word(json_cursor_peek(c, len)) && len < sizeof found.text)
            len++;
        return json_quote(c->text + c->at, len);
    }
    if (byte < 0)
        snprintf(found.text, sizeof found.text, "the end of the text");
    else if (byte == '\n' || (byte == '\r' && json_cursor_peek(c, 1) == '\n'))
        snprintf(found.text, sizeof found.text, "the end of the line");
    else if (byte == '\t')
        snprintf(found.text, sizeof found.text, "a tab");
    else if (is_printable(byte))
        snprintf(found.text, sizeof found.text, "'%c'", byte);
    else
        snprintf(found.text, sizeof found.text, "the byte 0x%02x", (unsigned)byte);
    return found;
}
