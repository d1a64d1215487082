#include "cli/term.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static void cleans(const char *text, const char *expected)
{
    cleanup_buf struct buf out;
    buf_init(&out, 200);
    term_clean(&out, text);
    cr_assert_str_eq(buf_text(&out), expected);
}

Test(term, text_of_the_sandbox_cannot_command_the_terminal)
{
    cleans("plain", "plain");
    cleans("\033[31mred\033[0m", "?[31mred?[0m");
    cleans("\033]0;title\007", "?]0;title?");
    cleans("a\nb\tc\rd\x7f", "a?b?c?d?");
    /* CSI as one byte, and as U+009B in UTF-8. */
    cleans("\x9b"
           "31m",
           "?31m");
    cleans("\xc2\x9b"
           "31m",
           "??31m");
    cleans("caf\xc3\xa9 \xe2\x9c\x93", "caf\xc3\xa9 \xe2\x9c\x93");
    cleans("\xff\xfe\xc3", "???");
}

Test(term, colour_is_for_terminals)
{
    int fds[2];
    cr_assert_eq(pipe(fds), 0);
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    cr_assert_not(term_colour(fds[1]));
    setenv("LANG", "C.UTF-8", 1);
    cr_assert_not(term_utf8(fds[1]));
}

static int terminal(void)
{
    int fd = posix_openpt(O_RDWR | O_NOCTTY);
    cr_assert_geq(fd, 0);
    return fd;
}

Test(term, colour_can_be_refused)
{
    int fd = terminal();
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    cr_assert(term_colour(fd));
    setenv("NO_COLOR", "1", 1);
    cr_assert_not(term_colour(fd));
    unsetenv("NO_COLOR");
    setenv("TERM", "dumb", 1);
    cr_assert_not(term_colour(fd));
}

Test(term, marks_need_a_terminal_that_shows_them)
{
    int fd = terminal();
    setenv("LANG", "C.UTF-8", 1);
    unsetenv("LC_ALL");
    unsetenv("LC_CTYPE");
    cr_assert(term_utf8(fd));
    setenv("LC_ALL", "C", 1);
    cr_assert_not(term_utf8(fd));
}
