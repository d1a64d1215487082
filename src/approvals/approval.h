/* A question to a person, and its answer: something wants to be done that a rule marks `ask`.
 *
 * The one who asks waits (in its own poll loop, or in approval_wait) and is the only judge: the
 * first answer that reaches it counts, one that comes later is told so, and no answer within the
 * time is a denial. The question can be answered on the caller's terminal, or by `brig approve ID`
 * and `brig deny ID` of the same user (or root) in the same network namespace, for which the folder
 * of runs has an empty file of that name. What it is about is told by the asking process itself,
 * over a socket without a file that checks who is there: nothing that lies in the folder is
 * believed, and when the process is gone, however it ended, so is the question. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum approval_kind {
    APPROVAL_COMMAND,
    APPROVAL_EGRESS,
    APPROVAL_TOOL,
    APPROVAL_KIND_COUNT,
};
const char *approval_kind_name(enum approval_kind kind); /* "command", … */

enum approval_answer {
    APPROVAL_PENDING,
    APPROVAL_ALLOWED,
    APPROVAL_DENIED,
    APPROVAL_TIMED_OUT, /* counts as denied */
};
const char *approval_answer_name(enum approval_answer answer); /* "pending", "allowed", … */

#define APPROVAL_ID_SIZE        16           /* "ask-" and 8 hexadecimal digits */
#define APPROVAL_TEXT_MAX       2048         /* bytes of what is shown, after escaping */
#define APPROVAL_TIMEOUT_MS     (60u * 1000) /* where nobody chose another */
#define APPROVAL_TIMEOUT_MAX_MS (24u * 3600 * 1000)

struct approval_question {
    enum approval_kind kind;
    const char *run;    /* the sandbox's id, or NULL where there is none yet */
    const char *text;   /* what would be done. Any bytes: shown through approval_show_text */
    const char *reason; /* why it is asked: the rule or the shape. The same holds */
    bool text_is_shown; /* it went through approval_show_text or _argv already */
    bool reason_is_shown;
    uint64_t timeout_ms; /* 0: APPROVAL_TIMEOUT_MS */
    bool terminal; /* ask on the caller's terminal too, if it has one and is in its foreground */
};

struct approval; /* one question that waits */
#define APPROVAL_FDS_MAX 10

/* Asks. Fails if nobody could ever answer, because there is neither a terminal nor a folder of
 * runs; the caller must then refuse. */
int approval_ask(struct approval **ret, const struct approval_question *q, struct err *err);
const char *approval_id(const struct approval *a);
/* True while it owns the caller's terminal: do not read from it or write to it meanwhile. */
bool approval_has_terminal(const struct approval *a);
/* What to wait for; returns how many of fds (room for APPROVAL_FDS_MAX) were filled in. */
size_t approval_poll(const struct approval *a, struct pollfd fds[static APPROVAL_FDS_MAX]);
/* How long to wait at most. */
int approval_wait_ms(const struct approval *a);
/* Never blocks: takes what has come. Call it when a descriptor is ready or the time is over. Once
 * it says something other than APPROVAL_PENDING it says so for ever. */
enum approval_answer approval_step(struct approval *a);
/* Who answered: "terminal", "uid 1000", "time"; "" while nobody has. */
const char *approval_by(const struct approval *a);
/* Waits in a loop of its own. `interrupt_fd` becoming readable ends it as a denial; -1: none. */
enum approval_answer approval_wait(struct approval *a, int interrupt_fd);
/* Withdraws the question if it still stands. Takes NULL. */
void approval_free(struct approval *a);

/* Text of unknown origin made fit to be shown to a person: one line, printable characters as they
 * are, all else (controls, bytes that are no UTF-8, characters without width, and those that
 * change the direction of writing) as \n, \t, \x1b, \u{202e}; a backslash as \\. At most `max`
 * bytes; what is left out is said. */
void approval_show_text(struct buf *out, const char *text, size_t len, size_t max);
/* Why somebody is asked: the rule, and what of the command it is about ("": all of it). */
void approval_show_reason(struct buf *out, const char *rule, const char *what);
/* A command as a shell would read it, one word after the other, through the above. */
void approval_show_argv(struct buf *out, char *const argv[], size_t max);

/* ---- for those who answer ---- */

/* "ask-" and hexadecimal digits. */
bool approval_is_id(const char *text);
/* Every local question that stands, as the asker describes it: one JSON object {"id", "kind",
 * "run", "pid", "text", "reason", "remaining_ms"}; NULL of one that does not say it in time. What
 * lies about without an asker is removed. */
int approval_list(void (*fn)(void *ctx, const char *id, const char *json), void *ctx);
/* 0: it counts. ERR_NOT_FOUND: no such question stands here. ERR_REFUSED: somebody was faster, or
 * its time was over. */
int approval_answer(const char *id, bool allow, struct err *err);
