/* Questions to a person about what a sandbox is to do. Held in memory by the core, each charged to
 * the key of its sandbox. Who may see and answer one is decided in
 * daemon/api/approvals.c; here stands what waits, and for how long. */
#pragma once

#include "approvals/approval.h"
#include "daemon/box/box.h"

struct question;
struct question_info {
    const char *id, *box_id;
    const char *owner; /* id of the sandbox's key, or "" */
    enum approval_kind kind;
    const char *text, *reason; /* fit to be shown */
    uint64_t remaining_ms;
    enum approval_answer answer; /* pending until it was answered */
    const char *by;              /* a key's id, or why without one; NULL while it is pending */
};

typedef void questions_fn(void *ctx, enum approval_answer answer);

/* `text` and `reason` are fit to be shown. `wanted` (gets ctx) says whether anybody still waits: a
 * question that nobody waits for is withdrawn when somebody looks at it. `fn` is called once, never
 * before this returns. Negative: too many questions wait already, and fn is not called. */
int questions_ask(struct box *b, enum approval_kind kind, const char *text, const char *reason,
                  const char *program, bool (*wanted)(void *ctx), questions_fn *fn, void *ctx,
                  struct err *err);
/* The sandbox has ended: its questions are denied. */
void questions_drop(struct box *b);

/* Withdraws those that nobody waits for any more. */
void questions_sweep(struct core *c);
struct question *question_find(struct core *c, const char *id); /* NULL: no such question waits */
void question_info(const struct question *q, struct question_info *ret);
/* Answered by `key`. The question is gone afterwards. */
void question_answer(struct question *q, enum approval_answer answer, const struct key *key);
void questions_each(struct core *c, void (*fn)(void *ctx, const struct question_info *q),
                    void *ctx);

/* Somebody who is told of each question when it is asked and when it is answered. `told` may take
 * this watcher off the list, and no other. */
struct question_watcher {
    struct question_watcher *next;
    void (*told)(struct question_watcher *w, const struct question_info *q);
};
void questions_watch(struct core *c, struct question_watcher *w);
void questions_unwatch(struct core *c, struct question_watcher *w); /* also if it does not */
