/* The programs that run cells of code inside a sandbox ("drivers"), as bytes inside brig. Who
 * starts an interpreter shows the files inside, where the code can read them, starts `argv` with
 * the channel of wire/interp.h as descriptors 3 and 4, stdin empty, stdout and stderr as pipes, and
 * as the leader of a process group of its own.
 *
 * A driver is written in the language that it runs: nothing has to be executable or installed
 * inside besides the language itself. */
#pragma once

#include "wire/interp.h"

#include <stddef.h>

/* Where argv expects the file; filesystem/filesystem.h shows it there. */
#define INTERPRETER_DIR "/.brig"

struct interpreter {
    const char *name;        /* as interp_language_name says */
    const char *const *argv; /* NULL-terminated; the first is searched for in PATH inside */
};

struct interpreter_file {
    const char *name; /* in INTERPRETER_DIR */
    const char *data;
    size_t len;
};
#define INTERPRETER_FILES 7

/* NULL for INTERP_NONE and what is no language. */
const struct interpreter *interpreter_get(enum interp_language l);
struct interpreter_file interpreter_file(size_t i); /* below INTERPRETER_FILES */
