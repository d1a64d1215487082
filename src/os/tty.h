/* Terminals: the caller's own in raw mode, and private pairs. */
#pragma once

#include "base/err.h"

#include <stddef.h>

int tty_open_pair(int *master, int *slave, struct err *err);
/* One terminal at a time; restored by tty_restore, which may be called at any time. */
void tty_raw(int fd);
void tty_restore(void);
void tty_copy_size(int from, int to);
/* Writes it into a pipe, as a struct winsize. */
void tty_send_size(int from, int to);
/* The caller's own terminal, opened anew and not blocking, with what was typed before thrown away;
 * -1 if there is none, or if we are not in its foreground. */
int tty_foreground(void);
/* Waits a little for a terminal that is held up, then gives up. */
void tty_say(int fd, const char *text, size_t len);
