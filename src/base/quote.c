#include "base/quote.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static bool is_continuation(unsigned char c)
{
    return (c & 0xC0) == 0x80;
}

size_t utf8_sequence(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] < 0x80)
        return s[0] != 0;
    /* 0xC0, 0xC1 and everything above 0xF4 can only start overlong or out-of-range sequences. */
    size_t len = s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : 2;
    if (s[0] < 0xC2 || s[0] > 0xF4)
        return 0;
    for (size_t i = 1; i < len; i++) {
        if (!is_continuation(s[i]))
            return 0;
    }
    bool overlong = (s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xF0 && s[1] < 0x90);
    bool surrogate = s[0] == 0xED && s[1] >= 0xA0;
    bool beyond = s[0] == 0xF4 && s[1] >= 0x90;
    return overlong || surrogate || beyond ? 0 : len;
}

bool utf8_valid(const char *text)
{
    while (*text) {
        size_t len = utf8_sequence(text);
        if (len == 0)
            return false;
        text += len;
    }
    return true;
}

/* C0 and C1 controls and DEL: what a terminal may act on. */
static bool is_control(const char *s)
{
    unsigned char c = (unsigned char)s[0];
    return c < 0x20 || c == 0x7F || (c == 0xC2 && (unsigned char)s[1] < 0xA0);
}

/* One character of the source into `out` (at least 5 bytes); returns how many source bytes it was.
 */
static size_t quote_one(const char *s, char *out)
{
    size_t len = utf8_sequence(s);
    if (*s == '"' || *s == '\\') {
        snprintf(out, 5, "\\%c", *s);
        return 1;
    }
    if (*s == '\n') {
        snprintf(out, 5, "\\n");
        return 1;
    }
    if (len == 0 || is_control(s)) {
        snprintf(out, 5, "\\x%02x", (unsigned)(unsigned char)*s);
        return 1;
    }
    memcpy(out, s, len);
    out[len] = '\0';
    return len;
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
