/* Writing to terminals: colours where they are wanted, whole writes, and no control characters from
 * text of others. */
#include "cli/term.h"

#include "base/utf8.h"

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

/* Bytes of the character at p if a terminal will show it and nothing else, else 0. */
static size_t printable(const char *p, size_t left)
{
    uint32_t code = 0;
    size_t len = utf8_decode(p, left, &code);
    bool control = code < 0x20 || (code >= 0x7f && code <= 0x9f);
    /* Line separators, and the marks that change the direction of what follows. */
    bool moves = code == 0x61c || code == 0x200e || code == 0x200f ||
                 (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
    return len > 0 && !control && !moves ? len : 0;
}

int term_print(const struct buf *out, const char *what, struct err *err)
{
    if (out->failed)
        return err_set(err, ERR_LIMIT, "%s is too long to print", what);
    return term_write(STDOUT_FILENO, buf_text(out), out->len) < 0 ? err_sys(err, "write %s", what)
                                                                  : 0;
}

void term_clean(struct buf *out, const char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        size_t len = printable(text, left);
        if (len)
            buf_add(out, text, len);
        else
            buf_chr(out, '?');
        len = len ? len : 1;
        text += len;
        left -= len;
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
    /* If stderr is gone there is nobody to report the failure to. */
    (void)term_write(STDERR_FILENO, buf_text(&line), line.len);
}
