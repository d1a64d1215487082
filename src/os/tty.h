/* Terminals: the caller's own in raw mode, and private pairs. */
#pragma once

#include "base/err.h"

int tty_open_pair(int *master, int *slave, struct err *err);
/* One terminal at a time; restored by tty_restore, which may be called at any time. */
void tty_raw(int fd);
void tty_restore(void);
void tty_copy_size(int from, int to);
