/* Prepares text for a person who decides: hostile text must not look like something else than it
 * is. */
#include "approvals/approval.h"
#include "base/cleanup.h"
#include "base/utf8.h"

#include <string.h>

#define WHOLE_MAX (1u << 20)

/* Characters that take no room, look like nothing, join the one before them, or change the
 * direction of what follows. */
static const struct {
    uint32_t first, last;
} hidden[] = {
    {0x0000, 0x001f},   {0x007f, 0x00a0},    {0x00ad, 0x00ad}, {0x0300, 0x036f}, {0x0483, 0x0489},
    {0x0591, 0x05bd},   {0x0600, 0x0605},    {0x061c, 0x061c}, {0x064b, 0x065f}, {0x115f, 0x1160},
    {0x1680, 0x1680},   {0x17b4, 0x17b5},    {0x180b, 0x180f}, {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff},
    {0x2000, 0x200f},   {0x2028, 0x202f},    {0x205f, 0x206f}, {0x20d0, 0x20ff}, {0x2800, 0x2800},
    {0x3000, 0x3000},   {0x3164, 0x3164},    {0xe000, 0xf8ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f},
    {0xfeff, 0xfeff},   {0xffa0, 0xffa0},    {0xfff0, 0xfffb}, {0xfffe, 0xffff}, {0x1bca0, 0x1bca3},
    {0x1d173, 0x1d17a}, {0xe0000, 0x10ffff},
};

static bool is_hidden(uint32_t code)
{
    for (size_t i = 0; i < ARRAY_LEN(hidden); i++)
        if (code >= hidden[i].first && code <= hidden[i].last)
            return true;
    return false;
}

static void show_ascii(struct buf *out, unsigned char c)
{
    if (c == '\n')
        buf_str(out, "\\n");
    else if (c == '\t')
        buf_str(out, "\\t");
    else if (c == '\r')
        buf_str(out, "\\r");
    else if (c == '\\')
        buf_str(out, "\\\\");
    else if (c < 0x20 || c >= 0x7f)
        buf_fmt(out, "\\x%02x", c);
    else
        buf_chr(out, (char)c);
}

/* One character; returns how many bytes of the text it was. */
static size_t show_one(struct buf *out, const char *text, size_t left)
{
    uint32_t code = 0;
    size_t len = utf8_decode(text, left, &code);
    if (len <= 1 || code < 0x80) {
        show_ascii(out, (unsigned char)*text);
        return 1;
    }
    if (is_hidden(code))
        buf_fmt(out, "\\u{%x}", code);
    else
        buf_add(out, text, len);
    return len;
}

static bool is_inside_character(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* The end is shown as well: a long harmless beginning hides nothing. */
static void cut_middle(struct buf *out, const struct buf *whole, size_t max)
{
    size_t room = max > 64 ? max - 64 : 0;
    size_t head = room / 3 * 2, tail = whole->len - (room - head);
    while (head > 0 && is_inside_character(whole->data[head]))
        head--;
    while (tail < whole->len && is_inside_character(whole->data[tail]))
        tail++;
    buf_add(out, whole->data, head);
    buf_fmt(out, " [... %zu bytes are not shown ...] ", tail - head);
    buf_add(out, whole->data + tail, whole->len - tail);
}

void approval_show_text(struct buf *out, const char *text, size_t len, size_t max)
{
    cleanup_buf struct buf whole;
    buf_init(&whole, WHOLE_MAX);
    size_t at = 0;
    while (at < len && !whole.failed)
        at += show_one(&whole, text + at, len - at);
    if (whole.failed)
        buf_str(out, "[more text than can be shown]");
    else if (whole.len <= max)
        buf_add(out, buf_text(&whole), whole.len);
    else
        cut_middle(out, &whole, max);
}

void approval_show_reason(struct buf *out, const char *rule, const char *what)
{
    approval_show_text(out, rule, strlen(rule), 256);
    if (!what[0])
        return;
    buf_str(out, " (");
    approval_show_text(out, what, strlen(what), 200);
    buf_chr(out, ')');
}

static bool is_plain_word(const char *word)
{
    return *word && word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                      "0123456789_@%+=:,./-")] == '\0';
}

static void quote_word(struct buf *out, const char *word)
{
    if (is_plain_word(word)) {
        buf_str(out, word);
        return;
    }
    buf_chr(out, '\'');
    for (; *word; word++) {
        if (*word == '\'')
            buf_str(out, "'\\''");
        else
            buf_chr(out, *word);
    }
    buf_chr(out, '\'');
}

void approval_show_argv(struct buf *out, char *const argv[], size_t max)
{
    cleanup_buf struct buf line;
    buf_init(&line, WHOLE_MAX);
    for (size_t i = 0; argv[i] && !line.failed; i++) {
        if (i)
            buf_chr(&line, ' ');
        quote_word(&line, argv[i]);
    }
    if (line.failed)
        buf_str(out, "[a command that is too long to be shown]");
    else
        approval_show_text(out, buf_text(&line), line.len, max);
}
