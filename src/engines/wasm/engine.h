/* The engine: compiles a module, links it with WASI and nothing else, and runs it. */
#pragma once

#include "engines/wasm/wasi.h"

/* How a run ended, if the module did not exit by itself. */
enum engine_end {
    ENGINE_RETURNED,     /* _start came back: status 0 */
    ENGINE_NOT_A_MODULE, /* malformed, or asks for what is not WASI */
    ENGINE_TRAPPED,
    ENGINE_OVERFLOWED, /* its stack */
};

/* `why` says what was wrong, in one line. Does not return if the module calls proc_exit, or
 * proc_raise with a signal that ends it. */
enum engine_end engine_run(struct wasi *w, void *module, size_t size, char *why, size_t why_size);
/* Ends this process as that signal does. */
__attribute__((noreturn)) void engine_end_by(int number);
