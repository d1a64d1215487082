/* Signals as something to read: for who waits in one place for all that can happen; and as words.
 */
#pragma once

#include "base/err.h"

#include <signal.h>
#include <stddef.h>

/* Blocks them and returns a signalfd that they come from, or a negative errno. `old` is the mask
 * before, for who puts it back; may be NULL. */
int signals_open(const int *numbers, size_t count, sigset_t *old, struct err *err);

/* As Go says it, and so E2B's clients read it: "killed", "segmentation fault", "signal 34". */
#define SIGNAL_WORDS_SIZE 32
const char *signal_words(int number, char ret[static SIGNAL_WORDS_SIZE]);
int signal_of_words(const char *words); /* 0: none */
