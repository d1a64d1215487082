#include "cli/term.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define LINE_MAX_BYTES 4096

bool term_colour(int fd)
{
    const char *no_color = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    if (no_color && no_color[0])
        return false;
    return term && strcmp(term, "dumb") != 0 && isatty(fd);
}

bool term_utf8(int fd)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    const char *value = NULL;
    for (size_t i = 0; i < 3 && (!value || !value[0]); i++)
        value = getenv(names[i]);
    return value && (strcasestr(value, "utf-8") || strcasestr(value, "utf8")) && isatty(fd);
}

int term_write(int fd, const void *data, size_t len)
{
    const char *p = data;
    while (len > 0) {
        ssize_t n = write(fd, p, len);
        if (n >= 0) {
            p += n;
            len -= (size_t)n;
        } else if (errno == EAGAIN) {
            /* Someone else made the descriptor non-blocking: wait as if it were not. */
            struct pollfd ready = {.fd = fd, .events = POLLOUT};
            poll(&ready, 1, -1);
        } else if (errno != EINTR) {
            return -errno;
        }
    }
    return 0;
}

/* Length of the UTF-8 sequence at p if it is well formed and printable, else 0. */
static size_t printable(const unsigned char *p)
{
    if (p[0] < 0x80)
        return p[0] >= 0x20 && p[0] != 0x7f;
    size_t len = p[0] >= 0xf0 && p[0] <= 0xf4 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    }
    /* U+0080 to U+009F are control characters as well. */
    return p[0] == 0xc2 && p[1] <= 0x9f ? 0 : len;
}

void term_clean(struct buf *out, const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    while (*p) {
        size_t len = printable(p);
        if (len)
            buf_add(out, p, len);
        else
            buf_chr(out, '?');
        p += len ? len : 1;
    }
}

void term_say(const char *fmt, ...)
{
    cleanup_buf struct buf text;
    cleanup_buf struct buf line;
    buf_init(&text, LINE_MAX_BYTES);
    buf_init(&line, 2 * LINE_MAX_BYTES);
    va_list ap;
    va_start(ap, fmt);
    buf_vfmt(&text, fmt, ap);
    va_end(ap);
    buf_str(&line, "brig: ");
    term_clean(&line, buf_text(&text));
    buf_chr(&line, '\n');
    /* Nobody is left to tell when stderr is gone. */
    (void)term_write(STDERR_FILENO, buf_text(&line), line.len);
}
