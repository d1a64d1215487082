/* Questions that wait for a person: see questions.h. */
#include "daemon/box/questions.h"

#include "base/container.h"
#include "daemon/base/random.h"
#include "daemon/box/box_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OF_BOX_MAX 16

struct question {
    struct question *next;
    struct core *core;
    struct box *box;
    enum approval_kind kind;
    char id[APPROVAL_ID_SIZE];
    char box_id[BOX_ID_LEN + 1];
    char owner[16]; /* id of the key */
    struct hold hold;
    char *text, *reason;
    uint64_t until_ms;
    enum approval_answer answer;
    const char *by;
    struct loop_timer timer;
    bool (*wanted)(void *ctx);
    questions_fn *fn;
    void *ctx;
};

/* ---- what is told ---- */

void question_info(const struct question *q, struct question_info *ret)
{
    uint64_t now = loop_now_ms(q->core->loop);
    *ret = (struct question_info){
        .id = q->id,
        .box_id = q->box_id,
        .owner = q->owner,
        .kind = q->kind,
        .text = q->text,
        .reason = q->reason,
        .remaining_ms = q->until_ms > now ? q->until_ms - now : 0,
        .answer = q->answer,
        .by = q->by,
    };
}

void questions_watch(struct core *c, struct question_watcher *w)
{
    w->next = c->question_watchers;
    c->question_watchers = w;
}

void questions_unwatch(struct core *c, struct question_watcher *w)
{
    struct question_watcher **at = &c->question_watchers;
    while (*at && *at != w)
        at = &(*at)->next;
    if (*at)
        *at = w->next;
}

static void tell(const struct question *q)
{
    struct question_info info;
    question_info(q, &info);
    for (struct question_watcher *w = q->core->question_watchers, *next; w; w = next) {
        next = w->next;
        w->told(w, &info);
    }
}

void questions_each(struct core *c, void (*fn)(void *ctx, const struct question_info *q), void *ctx)
{
    for (const struct question *q = c->questions; q; q = q->next) {
        struct question_info info;
        question_info(q, &info);
        fn(ctx, &info);
    }
}

/* Names and verdicts, never the arguments (AU-2). */
static void record(const struct question *q, const char *kind, const struct key *key,
                   const char *program)
{
    cleanup_buf struct buf out;
    struct json_writer w;
    jw_begin(&w, &out, 4096);
    jw_kv_string(&w, "id", q->id);
    jw_kv_string(&w, "kind", approval_kind_name(q->kind));
    if (program)
        jw_kv_bytes(&w, "program", program, strnlen(program, 256));
    if (q->answer != APPROVAL_PENDING)
        jw_kv_string(&w, "answer", approval_answer_name(q->answer));
    jw_object_end(&w);
    const struct box *b = box_find_any(q->core, q->box_id);
    core_record(q->core, kind, b ? b->info.id : NULL, key, buf_text(&out));
}

/* ---- life ---- */

static void question_free(struct question *q)
{
    account_return(q->hold.account, ACCOUNT_QUESTIONS, 1);
    hold_done(&q->hold);
    free(q->text);
    free(q->reason);
    free(q);
}

void question_answer(struct question *q, enum approval_answer answer, const struct key *key)
{
    struct question **at = &q->core->questions;
    while (*at != q)
        at = &(*at)->next;
    *at = q->next;
    loop_timer_cancel(q->core->loop, &q->timer);
    q->answer = answer;
    q->by = key ? key->id : answer == APPROVAL_TIMED_OUT ? "time" : "nobody waits";
    tell(q);
    record(q, "approval.answered", key, NULL);
    q->fn(q->ctx, answer);
    question_free(q);
}

static void on_time(struct loop_timer *t)
{
    question_answer(container_of(t, struct question, timer), APPROVAL_TIMED_OUT, NULL);
}

struct question *question_find(struct core *c, const char *id)
{
    struct question *q = c->questions;
    while (q && strcmp(q->id, id) != 0)
        q = q->next;
    return q;
}

static unsigned count_of(const struct box *b)
{
    unsigned count = 0;
    for (const struct question *q = b->core->questions; q; q = q->next)
        count += q->box == b;
    return count;
}

static void make_id(struct core *c, char out[static APPROVAL_ID_SIZE])
{
    do
        snprintf(out, APPROVAL_ID_SIZE, "ask-%08" PRIx32, random_below(UINT32_MAX));
    while (question_find(c, out));
}

int questions_ask(struct box *b, enum approval_kind kind, const char *text, const char *reason,
                  const char *program, bool (*wanted)(void *ctx), questions_fn *fn, void *ctx,
                  struct err *err)
{
    struct core *c = b->core;
    if (count_of(b) >= OF_BOX_MAX)
        return err_set(err, ERR_LIMIT, "%u questions of sandbox %s wait for a person already",
                       OF_BOX_MAX, b->info.id);
    int r = account_charge(b->account, ACCOUNT_QUESTIONS, 1, err);
    if (r < 0)
        return r;
    struct question *q = calloc(1, sizeof *q);
    if (!q) {
        account_return(b->account, ACCOUNT_QUESTIONS, 1);
        return err_memory(err);
    }
    hold_init(&q->hold, b->account);
    r = hold_add(&q->hold, sizeof *q + strlen(text) + strlen(reason) + 2, err);
    q->text = strdup(text);
    q->reason = strdup(reason);
    if (r < 0 || !q->text || !q->reason) {
        question_free(q);
        return r < 0 ? r : err_memory(err);
    }
    q->core = c;
    q->box = b;
    q->kind = kind;
    q->wanted = wanted;
    q->fn = fn;
    q->ctx = ctx;
    make_id(c, q->id);
    snprintf(q->box_id, sizeof q->box_id, "%s", b->info.id);
    snprintf(q->owner, sizeof q->owner, "%s", b->info.owner ? b->info.owner->id : "");
    q->until_ms = loop_now_ms(c->loop) + APPROVAL_TIMEOUT_MS;
    q->timer.fn = on_time;
    loop_timer_set(c->loop, &q->timer, APPROVAL_TIMEOUT_MS);
    q->next = c->questions;
    c->questions = q;
    record(q, "approval.asked", b->info.owner, program);
    tell(q);
    return 0;
}

void questions_drop(struct box *b)
{
    struct core *c = b->core;
    for (struct question *q = c->questions, *next; q; q = next) {
        next = q->next;
        if (q->box != b)
            continue;
        question_answer(q, APPROVAL_DENIED, NULL);
        next = c->questions; /* what was told may have asked or dropped others */
    }
}

void questions_sweep(struct core *c)
{
    for (struct question *q = c->questions, *next; q; q = next) {
        next = q->next;
        if (q->wanted(q->ctx))
            continue;
        question_answer(q, APPROVAL_DENIED, NULL);
        next = c->questions;
    }
}
