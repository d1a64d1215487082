/* Signals as a descriptor to read from, for event loops; and their names. */
#pragma once

#include "base/err.h"

#include <signal.h>
#include <stddef.h>

/* Blocks them and returns a signalfd that they come from, or a negative errno. `old` gets
 * the mask as it was, to be put back; may be NULL. */
int signals_open(const int *numbers, size_t count, sigset_t *old, struct err *err);

/* As Go says it, and so E2B's clients read it: "killed", "segmentation fault", "signal 34". */
#define SIGNAL_WORDS_SIZE 32
const char *signal_words(int number, char ret[static SIGNAL_WORDS_SIZE]);
int signal_of_words(const char *words); /* 0: none */
