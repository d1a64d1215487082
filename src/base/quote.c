/* Quoting of text from outside for messages. */
#include "base/quote.h"

#include "base/utf8.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static bool is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7F && code < 0xA0);
}

/* Bytes of the character at the front of a text that is not empty, 0 if it is none. */
static size_t first_character(const char *text, uint32_t *ret_code)
{
    return utf8_decode(text, strnlen(text, 4), ret_code);
}

bool text_is_utf8(const char *text)
{
    uint32_t code;
    while (*text) {
        size_t len = first_character(text, &code);
        if (len == 0)
            return false;
        text += len;
    }
    return true;
}

bool text_has_control(const char *text)
{
    uint32_t code;
    while (*text) {
        size_t len = first_character(text, &code);
        if (len > 0 && is_control(code))
            return true;
        text += len ? len : 1;
    }
    return false;
}

/* One character of the source into `out`; returns how many bytes of the source it was. */
static size_t quote_one(const char *s, char out[static 5])
{
    uint32_t code = 0;
    size_t len = first_character(s, &code);
    if (code == '"' || code == '\\') {
        snprintf(out, 5, "\\%c", *s);
    } else if (code == '\n') {
        snprintf(out, 5, "\\n");
    } else if (len > 0 && !is_control(code)) {
        memcpy(out, s, len);
        out[len] = '\0';
        return len;
    } else {
        snprintf(out, 5, "\\x%02x", (unsigned)(unsigned char)*s);
    }
    return 1;
}

const char *quote(struct quoted *q, const char *text)
{
    char one[5];
    size_t used = 0;
    q->text[used++] = '"';
    if (!text)
        text = "";
    while (*text) {
        size_t taken = quote_one(text, one);
        size_t len = strlen(one);
        if (used + len > QUOTE_MAX) {
            memcpy(q->text + used, "...", 3);
            used += 3;
            break;
        }
        memcpy(q->text + used, one, len);
        used += len;
        text += taken;
    }
    memcpy(q->text + used, "\"", 2);
    return q->text;
}
