/* A value, a text with the value in it in encodings that the input chooses, and cuts that the input
 * chooses. A slow and simple reader that knows nothing of automata says where the value is; what
 * comes out must have stars there and must else be what went in. */
/* The tables of spellings are formats. */
#pragma GCC diagnostic ignored "-Wformat-nonliteral"

#include "credentials/redact.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TEXT_MAX 2048

static void require(bool condition)
{
    if (!condition)
        abort();
}

struct input {
    const uint8_t *data;
    size_t size;
};

static unsigned take(struct input *in)
{
    if (in->size == 0)
        return 0;
    in->size--;
    return *in->data++;
}

/* ---- the simple reader ---- */

static char value[64];
static size_t value_len;
static char text[TEXT_MAX];
static size_t text_len;
/* By byte of text: it must be hidden; it may be (shared with a neighbour, or two readings). */
static bool must[TEXT_MAX], may[TEXT_MAX];

static int digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static bool spelled(size_t at, const char *with)
{
    return strlen(with) <= text_len - at && memcmp(text + at, with, strlen(with)) == 0;
}

/* How many bytes at `at` spell c, exactly; the lengths of all spellings as bits. */
static unsigned spellings_exact(size_t at, char c)
{
    unsigned found = 0;
    bool blank = (c == ' ' || c == '+') && (text[at] == ' ' || text[at] == '+');
    if (text[at] == c || blank)
        found |= 1u << 1;
    if (text[at] != '%' && text[at] != '\\' && text[at] != '&')
        return found;
    static const struct {
        const char *before, *after;
    } forms[] = {{"%", ""}, {"%25", ""}, {"\\u00", ""}, {"\\x", ""}, {"&#x", ";"}, {"&#X", ";"}};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        size_t digits = at + strlen(forms[i].before);
        if (spelled(at, forms[i].before) && digits + 2 <= text_len &&
            digit(text[digits]) == (unsigned char)c >> 4 && digit(text[digits + 1]) == (c & 15) &&
            spelled(digits + 2, forms[i].after))
            found |= 1u << (digits + 2 + strlen(forms[i].after) - at);
    }
    unsigned number = 0;
    for (size_t i = at + 2; spelled(at, "&#") && i < text_len && i < at + 6; i++) {
        if (text[i] == ';' && i > at + 2 && number == (unsigned char)c)
            found |= 1u << (i + 1 - at);
        if (text[i] < '0' || text[i] > '9')
            break;
        number = number * 10 + (unsigned)(text[i] - '0');
    }
    static const char *const named[] = {"&&amp;", "<&lt;", ">&gt;", "\"&quot;", "'&apos;"};
    for (size_t i = 0; i < 5; i++)
        if (named[i][0] == c && spelled(at, named[i] + 1))
            found |= 1u << strlen(named[i] + 1);
    if (strchr("/\"'\\", c) && spelled(at, (char[]){'\\', c, 0}))
        found |= 1u << 2;
    return found;
}

static char other_case(char c)
{
    return isalpha((unsigned char)c) ? (char)(c ^ 0x20) : c;
}

static unsigned spellings(size_t at, char c)
{
    return spellings_exact(at, c) | spellings_exact(at, other_case(c));
}

/* Every end that these bytes, read from the i-th on, can have. */
static void match_bytes(const char *want, size_t from)
{
    bool reach[2][6 * sizeof value + 8] = {{true}};
    size_t last = 0;
    for (size_t i = 0; i < value_len; i++) {
        bool *now = reach[i % 2], *next = reach[(i + 1) % 2], any = false;
        memset(next, 0, sizeof reach[0]);
        for (size_t at = 0; at <= 6 * i && from + at < text_len; at++) {
            unsigned found = now[at] ? spellings(from + at, want[i]) : 0;
            for (unsigned len = 1; len <= 6; len++) {
                if (found & 1u << len) {
                    next[at + len] = any = true;
                    last = at + len;
                }
            }
        }
        if (!any)
            return;
    }
    for (size_t end = 0; end < sizeof reach[0]; end++)
        if (reach[value_len % 2][end])
            last = end;
    memset(must + from, true, last);
}

static void match_hex(const char *want, size_t from)
{
    if (from + 2 * value_len > text_len)
        return;
    for (size_t i = 0; i < value_len; i++)
        if (digit(text[from + 2 * i]) != want[i] >> 4 ||
            digit(text[from + 2 * i + 1]) != (want[i] & 15))
            return;
    memset(must + from, true, 2 * value_len);
}

static int sextet(char c)
{
    static const char all[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(all, c == '-' ? '+' : c == '_' ? '/' : c) : NULL;
    return at ? (int)(at - all) : -1;
}

/* Only whole groups; the character at each side may be shared. */
static void match_base64(const char *want, size_t from, unsigned skip)
{
    size_t count = (value_len * 8 - skip) / 6;
    for (size_t i = 0; i < count; i++) {
        if (from + i >= text_len || sextet(text[from + i]) < 0)
            return;
        for (unsigned k = 0; k < 6; k++) {
            size_t bit = skip + 6 * i + k;
            if ((sextet(text[from + i]) >> (5 - k) & 1) != (want[bit / 8] >> (7 - bit % 8) & 1))
                return;
        }
    }
    memset(must + from, true, count);
    if (from > 0)
        may[from - 1] = true;
    may[from + count] = true;
}

/* ---- the text ---- */

/* The value as it is, in lower case, in upper case. */
static const char *variant(unsigned which)
{
    static char changed[sizeof value];
    for (size_t i = 0; i < value_len; i++) {
        unsigned char c = (unsigned char)value[i];
        changed[i] = (char)(which % 3 == 1 ? tolower(c) : which % 3 == 2 ? toupper(c) : c);
    }
    return changed;
}

static const char *backwards(void)
{
    static char changed[sizeof value];
    for (size_t i = 0; i < value_len; i++)
        changed[i] = value[value_len - 1 - i];
    return changed;
}

static void add(const char *bytes, size_t len)
{
    if (text_len + len + 8 < TEXT_MAX) {
        memcpy(text + text_len, bytes, len);
        text_len += len;
    }
}

static void add_mixed(struct input *in)
{
    for (size_t i = 0; i < value_len; i++) {
        char with[16] = {value[i], 0};
        unsigned c = (unsigned char)value[i];
        switch (take(in) % 10) {
        case 0:
            snprintf(with, sizeof with, "%%%02X", c);
            break;
        case 1:
            snprintf(with, sizeof with, "%%%02x", c);
            break;
        case 2:
            snprintf(with, sizeof with, "\\u00%02x", c);
            break;
        case 3:
            if (strchr("/\"\\", value[i]))
                snprintf(with, sizeof with, "\\%c", value[i]);
            break;
        case 4:
            snprintf(with, sizeof with, "&#%u;", c);
            break;
        case 5:
            snprintf(with, sizeof with, "%%25%02x", c);
            break;
        case 6:
            with[0] = other_case(value[i]);
            break;
        }
        add(with, strlen(with));
    }
}

static void add_base64(struct input *in)
{
    static const char all[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_";
    char plain[80];
    size_t before = take(in) % 4, after = take(in) % 4, len = before + value_len + after;
    bool url = take(in) % 2;
    const char *from = variant(take(in));
    for (size_t i = 0; i < len; i++)
        plain[i] = i < before || i >= before + value_len ? (char)take(in) : from[i - before];
    for (size_t bit = 0; bit < len * 8; bit += 6) {
        unsigned v = 0;
        for (size_t k = bit; k < bit + 6; k++)
            v = v << 1 | (k < len * 8 ? (unsigned char)plain[k / 8] >> (7 - k % 8) & 1 : 0);
        add(&all[v >= 62 && url ? v + 2 : v], 1);
    }
}

static void add_hex(struct input *in)
{
    bool upper = take(in) % 2;
    const char *from = variant(take(in));
    for (size_t i = 0; i < value_len; i++) {
        char with[4];
        snprintf(with, sizeof with, upper ? "%02X" : "%02x", (unsigned char)from[i]);
        add(with, 2);
    }
}

static void make_value(struct input *in)
{
    /* Few different bytes, so that values repeat themselves, and those that escapes are made of. */
    static const char few[] = "ab%\\&u0415/\"; #xamp+f";
    value_len = SECRET_MIN + take(in) % 20;
    bool plain = take(in) % 2;
    for (size_t i = 0; i < value_len; i++)
        value[i] = plain ? (char)(0x20 + take(in) % 0x5f) : few[take(in) % (sizeof few - 1)];
}

static void make_text(struct input *in)
{
    text_len = 0;
    while (in->size > 0 && text_len < TEXT_MAX - 300) {
        unsigned kind = take(in);
        char byte = (char)take(in);
        size_t part;
        switch (kind % 8) {
        case 0:
            add_mixed(in);
            break;
        case 1:
            add_base64(in);
            break;
        case 2:
            add_hex(in);
            break;
        case 3:
            add(value, value_len);
            break;
        case 5:
            add(backwards(), value_len);
            break;
        case 4:
            part = take(in) % value_len;
            add(value + part / 2, part - part / 2);
            break;
        default:
            add(&byte, 1);
        }
    }
}

static void find_all(void)
{
    memset(must, 0, sizeof must);
    memset(may, 0, sizeof may);
    for (size_t from = 0; from < text_len; from++) {
        match_bytes(value, from);
        match_bytes(backwards(), from);
        for (unsigned which = 0; which < 3; which++) {
            const char *want = variant(which);
            match_hex(want, from);
            match_base64(want, from, 0);
            match_base64(want, from, 4);
            match_base64(want, from, 2);
        }
    }
}

static void check(const char *out, size_t len)
{
    /* Where one text can be read in two ways, or base64 goes on after a line break, more may be
     * hidden. */
    bool loose = memchr(value, '%', value_len) || memchr(value, '\\', value_len) ||
                 memchr(value, '&', value_len) || memchr(text, '\n', text_len) ||
                 memchr(text, '\r', text_len) || memmem(text, text_len, "\\n", 2) ||
                 memmem(text, text_len, "\\r", 2) || memchr(text, '%', text_len) ||
                 memmem(text, text_len, "\\/", 2) || memmem(text, text_len, "&#", 2) ||
                 memmem(text, text_len, "\\u", 2) || memmem(text, text_len, "\\x", 2);
    require(len == text_len);
    for (size_t i = 0; i < len; i++) {
        if (must[i])
            require(out[i] == '*');
        else if (!may[i] && !loose)
            require(out[i] == text[i]);
        else
            require(out[i] == text[i] || out[i] == '*');
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    unsigned cut = take(&in);
    make_value(&in);
    make_text(&in);
    struct secret *secret = NULL;
    struct redactor *r = NULL;
    struct redact_stream *s = NULL;
    if (secret_new(value, value_len, &secret, NULL) < 0)
        return 0;
    require(redactor_new(&secret, 1, &r, NULL) == 0 && redact_open(r, &s, NULL) == 0);
    find_all();
    static char out[TEXT_MAX];
    size_t out_len = 0, len;
    const char *piece;
    for (size_t at = 0; at < text_len;) {
        cut = cut * 5 + 7;
        size_t n = 1 + cut / 4 % (cut % 3 ? 7 : 200);
        n = n < text_len - at ? n : text_len - at;
        require(redact_feed(s, text + at, n, &piece, &len, NULL) >= 0);
        require(out_len + len <= text_len);
        memcpy(out + out_len, piece, len);
        out_len += len;
        at += n;
    }
    redact_flush(s, &piece, &len);
    require(out_len + len <= text_len);
    if (len > 0)
        memcpy(out + out_len, piece, len);
    check(out, out_len + len);
    memcpy(out, text, text_len);
    redact_text(r, out, text_len);
    check(out, text_len);
    redact_close(s);
    redactor_free(r);
    secret_free(secret);
    return 0;
}
