/* Replaces placeholders by values in headers, query strings, forms, JSON and Basic credentials.
 * Buffers that hold a value are wiped. */
#include "credentials/swap.h"

#include "base/hex.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

void wiped_done(struct buf *b)
{
    secret_wipe(b->data, b->size);
    buf_done(b);
}

/* ---- values ---- */

static void add_percent(struct buf *out, unsigned char c)
{
    static const char hex[] = "0123456789ABCDEF";
    if (isalnum(c) || strchr("-._~", c)) {
        buf_chr(out, (char)c);
    } else {
        buf_chr(out, '%');
        buf_chr(out, hex[c >> 4]);
        buf_chr(out, hex[c & 15]);
    }
}

void swap_add_value(struct buf *out, const struct secret *value, enum swap_escape how)
{
    size_t len;
    const char *bytes = secret_expose(value, &len);
    if (how == SWAP_RAW) {
        buf_add(out, bytes, len);
        return;
    }
    for (size_t i = 0; i < len; i++) {
        if (how == SWAP_FORM) {
            add_percent(out, (unsigned char)bytes[i]);
            continue;
        }
        if (bytes[i] == '"' || bytes[i] == '\\')
            buf_chr(out, '\\');
        buf_chr(out, bytes[i]);
    }
}

/* ---- placeholders ---- */

bool swap_found(const char *text, size_t len, const char *placeholder)
{
    return placeholder && memmem(text, len, placeholder, strlen(placeholder));
}

static size_t count_of(const char *text, size_t len, const char *placeholder)
{
    size_t count = 0, size = strlen(placeholder);
    for (const char *at; (at = memmem(text, len, placeholder, size)); count++) {
        len -= (size_t)(at - text) + size;
        text = at + size;
    }
    return count;
}

size_t swap_text(const char *text, size_t len, const char *placeholder, const struct secret *value,
                 enum swap_escape how, struct buf *out)
{
    size_t count = count_of(text, len, placeholder), size = strlen(placeholder), value_len;
    secret_expose(value, &value_len);
    /* Reserve all of it at once: a buffer that grows leaves copies of the value behind in freed
     * memory. */
    buf_room(out, len + count * value_len * (how == SWAP_FORM ? 3 : how == SWAP_JSON ? 2 : 1));
    for (const char *at; (at = memmem(text, len, placeholder, size));) {
        buf_add(out, text, (size_t)(at - text));
        swap_add_value(out, value, how);
        len -= (size_t)(at - text) + size;
        text = at + size;
    }
    buf_add(out, text, len);
    return count;
}

/* ---- Basic ---- */

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

bool basic_decode(const char *header, struct buf *out)
{
    if (strncasecmp(header, "Basic ", 6) != 0)
        return false;
    const char *text = header + 6 + strspn(header + 6, " ");
    size_t len = strcspn(text, "= ");
    if (text[len + strspn(text + len, "= ")] || len % 4 == 1)
        return false;
    buf_room(out, len);
    unsigned bits = 0, have = 0;
    for (size_t i = 0; i < len; i++) {
        const char *at = strchr(alphabet, text[i]);
        if (!at)
            return false;
        bits = (bits << 6 | (unsigned)(at - alphabet)) & 0xffff;
        have += 6;
        if (have >= 8) {
            have -= 8;
            buf_chr(out, (char)(bits >> have & 0xff));
        }
    }
    return !out->failed;
}

void basic_encode(const char *plain, size_t len, struct buf *out)
{
    buf_room(out, 8 + (len + 2) / 3 * 4);
    buf_str(out, "Basic ");
    for (size_t i = 0; i < len; i += 3) {
        unsigned v = 0;
        for (size_t k = 0; k < 3; k++)
            v = v << 8 | (i + k < len ? (unsigned char)plain[i + k] : 0);
        for (unsigned k = 0; k < 4; k++)
            buf_chr(out, k > len - i ? '=' : alphabet[v >> (18 - 6 * k) & 63]);
    }
}

/* ---- query ---- */

/* The next character of a name as lenient servers take it: decoded, without case, some punctuation
 * folded, cut at a bracket or a NUL. -1 at the end. */
static int next_of_name(const char **at, const char *end)
{
    if (*at == end || **at == '=')
        return -1;
    int c = (unsigned char)*(*at)++;
    int escaped = c == '%' && end - *at >= 2 ? hex_byte(*at) : -1;
    if (escaped >= 0) {
        c = escaped;
        *at += 2;
    } else if (c == '+') {
        c = ' ';
    }
    if (c == '\0' || c == '[') {
        *at = end;
        return -1;
    }
    return c == '.' || c == ' ' ? '_' : tolower(c);
}

bool query_same_name(const char *piece, size_t len, const char *name)
{
    const char *a = piece, *b = name, *b_end = name + strlen(name);
    while (a < piece + len && (*a == ' ' || *a == '+'))
        a++;
    for (;;) {
        int x = next_of_name(&a, piece + len), y = next_of_name(&b, b_end);
        if (x != y)
            return false;
        if (x < 0)
            return true;
    }
}

void query_set(const char *target, const char *name, const struct secret *value, struct buf *out)
{
    size_t path = strcspn(target, "?"), value_len;
    secret_expose(value, &value_len);
    buf_room(out, strlen(target) + strlen(name) + 3 * value_len + 4);
    buf_add(out, target, path);
    /* First, so that nothing of the client's stands between the path and it. */
    buf_chr(out, '?');
    buf_str(out, name);
    buf_chr(out, '=');
    swap_add_value(out, value, SWAP_FORM);
    /* Some servers also part at ';'. */
    for (const char *piece = target + path; *piece;) {
        char parting = *piece == '?' && piece == target + path ? '&' : *piece;
        size_t len = strcspn(++piece, "&;");
        if (len > 0 && !query_same_name(piece, len, name)) {
            buf_chr(out, parting);
            buf_add(out, piece, len);
        }
        piece += len;
    }
}
