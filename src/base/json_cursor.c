/* Where a parser stands, and how it names what it found there. Hostile text ends up in these
 * messages, and the messages on a terminal: only printable ASCII passes as it is. */
#include "base/json_build.h"

#include <stdio.h>
#include <string.h>

int json_cursor_peek(const struct json_cursor *c, size_t ahead)
{
    return ahead < c->len - c->at ? (unsigned char)c->text[c->at + ahead] : -1;
}

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
