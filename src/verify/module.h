/* A WebAssembly module, put together while `brig verify` runs: calls of WASI one after the other,
 * each with a line that says what came of it (report.h). The attacker's own view of WASI: nothing
 * of the runner's is used. */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

/* X(name, "types of what it takes"): i has 32 bits, I has 64. */
#define MODULE_CALLS(X)                                                                            \
    X(clock_time_get, "iIi")                                                                       \
    X(fd_close, "i")                                                                               \
    X(fd_fdstat_set_rights, "iII")                                                                 \
    X(fd_filestat_get, "ii")                                                                       \
    X(fd_read, "iiii")                                                                             \
    X(fd_renumber, "ii")                                                                           \
    X(fd_write, "iiii")                                                                            \
    X(path_create_directory, "iii")                                                                \
    X(path_link, "iiiiiii")                                                                        \
    X(path_open, "iiiiiIIii")                                                                      \
    X(path_symlink, "iiiii")                                                                       \
    X(poll_oneoff, "iiii")                                                                         \
    X(random_get, "ii")

enum module_call {
#define X(name, takes) CALL_##name,
    MODULE_CALLS(X)
#undef X
};

/* Its memory: results of calls lie at the beginning, what we put there behind them. */
#define MODULE_BYTES   (4u * 65536u)
#define MODULE_SLOT(n) (64u * (n)) /* n below 16 */

enum module_word_kind { WORD_END, WORD_NUMBER, WORD_TEXT, WORD_AT };

#define MODULE_WORDS 9
struct module_step {
    const char *id; /* of the row that it is reported for, '=' before that of its control; or NULL:
                       it only prepares */
    enum module_call call;
    struct module_word {
        enum module_word_kind kind;
        uint64_t number;
        const char *text;
    } words[MODULE_WORDS];
    unsigned times; /* as often, or until it fails; 0: once */
};
#define NUMBER(n)                                                                                  \
    {                                                                                              \
        .kind = WORD_NUMBER, .number = (n)                                                         \
    }
/* Two arguments: where the text lies, and its length. */
#define TEXT(t)                                                                                    \
    {                                                                                              \
        .kind = WORD_TEXT, .text = (t)                                                             \
    }
/* What an earlier call put there. */
#define AT(address)                                                                                \
    {                                                                                              \
        .kind = WORD_AT, .number = (address)                                                       \
    }

struct module {
    struct buf code, data;
    const char *import; /* one more, which is not WASI's; or NULL */
};

void module_init(struct module *m);
void module_done(struct module *m);
void module_add(struct module *m, const struct module_step *step);
/* Has its memory grow by so many pages, writes to all of them, and keeps them for a while. */
void module_grow(struct module *m, unsigned pages, uint64_t nanoseconds);
/* Works without a pause until so much time has passed. */
void module_spin(struct module *m, uint64_t nanoseconds);
/* Sleeps for so long. */
void module_sleep(struct module *m, uint64_t nanoseconds);
/* Waits until its input is closed. */
void module_wait(struct module *m);
/* Says under this name what the last call came to; before the first one: that it runs. */
void module_say(struct module *m, const char *id);
/* Prints a text as it is. */
void module_print(struct module *m, const char *text);
/* False: it did not fit. */
bool module_write(const struct module *m, struct buf *out);
