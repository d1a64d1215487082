/* Questions that wait for a person: their life, the routes that list and answer them, and the
 * readers of /events that are told of them. */
#include "daemon/box/questions.h"

#include "base/container.h"
#include "daemon/api/call.h"
#include "daemon/base/random.h"
#include "daemon/box/box_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OF_BOX_MAX 16
#define READER_MAX (256u * 1024) /* that waits for a reader of events; then it is cut off */
#define PING_MS    15000
#define EVENT_MAX  16384

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
    struct loop_timer timer;
    bool (*wanted)(void *ctx);
    approvals_fn *fn;
    void *ctx;
};

/* Somebody who reads GET /events. */
struct listener_of_events {
    struct listener_of_events *next;
    struct call *call;
    char key[16];
    bool all; /* an operator's */
    struct loop_timer ping;
};

static struct question *questions;
static struct listener_of_events *readers;

/* ---- what is told ---- */

static void write_question(struct json_writer *w, const struct question *q, const char *answer,
                           const char *by)
{
    uint64_t now = loop_now_ms(q->core->loop);
    jw_object_begin(w);
    jw_kv_string(w, "id", q->id);
    jw_kv_string(w, "kind", approval_kind_name(q->kind));
    jw_kv_string(w, "sandboxID", q->box_id);
    jw_kv_string(w, "text", q->text);
    jw_kv_string(w, "reason", q->reason);
    if (answer) {
        jw_kv_string(w, "answer", answer);
        jw_kv_string(w, "by", by);
    } else {
        jw_kv_uint(w, "remaining_ms", q->until_ms > now ? q->until_ms - now : 0);
    }
    jw_object_end(w);
}

static bool may_see(const struct question *q, const char *key, bool all)
{
    return all || strcmp(q->owner, key) == 0;
}

static void forget_reader(struct listener_of_events *l);

/* A reader that does not keep up is disconnected; when it comes back it is told what is waiting. */
static void tell_reader(struct listener_of_events *l, const char *data, size_t len)
{
    struct call *call = l->call;
    if (!call->x || exchange_write(call->x, data, len) || exchange_waiting(call->x) < READER_MAX)
        return;
    forget_reader(l);
    exchange_abort(call->x);
    call_ended(call);
}

static void tell_readers(const struct question *q, const char *event, const char *answer,
                         const char *by)
{
    cleanup_buf struct buf out;
    struct json_writer w;
    buf_init(&out, EVENT_MAX);
    buf_fmt(&out, "event: %s\ndata: ", event);
    jw_init(&w, &out, false);
    write_question(&w, q, answer, by);
    buf_str(&out, "\n\n");
    for (struct listener_of_events *l = readers, *next; l && !out.failed; l = next) {
        next = l->next;
        if (may_see(q, l->key, l->all))
            tell_reader(l, out.data, out.len);
    }
}

/* Names and verdicts, never the arguments (AU-2). */
static void record(const struct question *q, const char *kind, const struct key *key,
                   const char *program, const char *answer)
{
    cleanup_buf struct buf out;
    struct json_writer w;
    buf_init(&out, 4096);
    jw_init(&w, &out, false);
    jw_object_begin(&w);
    jw_kv_string(&w, "id", q->id);
    jw_kv_string(&w, "kind", approval_kind_name(q->kind));
    if (program) {
        jw_key(&w, "program");
        jw_bytes(&w, program, strnlen(program, 256));
    }
    if (answer)
        jw_kv_string(&w, "answer", answer);
    jw_object_end(&w);
    core_record(q->core, kind, box_find_any(q->core, q->box_id), key, buf_text(&out));
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

static void settle(struct question *q, enum approval_answer answer, const struct key *key)
{
    struct question **at = &questions;
    while (*at != q)
        at = &(*at)->next;
    *at = q->next;
    loop_timer_cancel(q->core->loop, &q->timer);
    const char *by = key ? key->id : answer == APPROVAL_TIMED_OUT ? "time" : "nobody waits";
    tell_readers(q, "answer", approval_answer_name(answer), by);
    record(q, "approval.answered", key, NULL, approval_answer_name(answer));
    q->fn(q->ctx, answer);
    question_free(q);
}

static void on_time(struct loop_timer *t)
{
    settle(container_of(t, struct question, timer), APPROVAL_TIMED_OUT, NULL);
}

static struct question *find(const char *id)
{
    struct question *q = questions;
    while (q && strcmp(q->id, id) != 0)
        q = q->next;
    return q;
}

static unsigned count_of(const struct box *b)
{
    unsigned count = 0;
    for (const struct question *q = questions; q; q = q->next)
        count += q->box == b;
    return count;
}

static void make_id(char out[static APPROVAL_ID_SIZE])
{
    do
        snprintf(out, APPROVAL_ID_SIZE, "ask-%08" PRIx32, random_below(UINT32_MAX));
    while (find(out));
}

int approvals_ask(struct box *b, enum approval_kind kind, const char *text, const char *reason,
                  const char *program, bool (*wanted)(void *ctx), approvals_fn *fn, void *ctx,
                  struct err *err)
{
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
    q->core = b->core;
    q->box = b;
    q->kind = kind;
    q->wanted = wanted;
    q->fn = fn;
    q->ctx = ctx;
    make_id(q->id);
    snprintf(q->box_id, sizeof q->box_id, "%s", b->info.id);
    snprintf(q->owner, sizeof q->owner, "%s", b->info.owner ? b->info.owner->id : "");
    q->until_ms = loop_now_ms(q->core->loop) + APPROVAL_TIMEOUT_MS;
    q->timer.fn = on_time;
    loop_timer_set(q->core->loop, &q->timer, APPROVAL_TIMEOUT_MS);
    q->next = questions;
    questions = q;
    record(q, "approval.asked", b->info.owner, program, NULL);
    tell_readers(q, "approval", NULL, NULL);
    return 0;
}

void approvals_drop(struct box *b)
{
    for (struct question *q = questions, *next; q; q = next) {
        next = q->next;
        if (q->box != b)
            continue;
        settle(q, APPROVAL_DENIED, NULL);
        next = questions; /* what was told may have asked or dropped others */
    }
}

/* Whoever asked has left: there is nothing to answer any more. */
static void sweep(void)
{
    for (struct question *q = questions, *next; q; q = next) {
        next = q->next;
        if (q->wanted(q->ctx))
            continue;
        settle(q, APPROVAL_DENIED, NULL);
        next = questions;
    }
}

/* ---- GET /approvals, POST /approvals/{id} ---- */

static void get_approvals(struct call *call)
{
    cleanup_buf struct buf out;
    struct json_writer w;
    call_buf(call, &out, 4u << 20);
    sweep();
    jw_init(&w, &out, false);
    jw_array_begin(&w);
    for (const struct question *q = questions; q; q = q->next)
        if (may_see(q, call->key->id, call->key->operator_key))
            write_question(&w, q, NULL, NULL);
    jw_array_end(&w);
    call_reply(call, 200, &out);
}

static void answer_body(struct call *call, const struct json *body)
{
    const char *decision = NULL;
    struct err err = ERR_INIT;
    const struct field fields[] = {{"decision", FIELD_STRING, &decision}};
    sweep();
    struct question *q = find(call->params.value[0]);
    if (FIELDS_READ(body, FIELDS_STRICT, fields, &err) < 0) {
        call_fail_err(call, &err);
        return;
    }
    bool approve = decision && strcmp(decision, "approve") == 0;
    if (!approve && !(decision && strcmp(decision, "deny") == 0)) {
        call_fail(call, 400, "decision: expected \"approve\" or \"deny\"");
        return;
    }
    if (!q) {
        call_fail(call, 404,
                  "no such question waits; it may have been answered, or its time is over");
        return;
    }
    cleanup_buf struct buf out;
    struct json_writer w;
    buf_init(&out, EVENT_MAX);
    jw_init(&w, &out, false);
    write_question(&w, q, approve ? "allowed" : "denied", call->key->id);
    settle(q, approve ? APPROVAL_ALLOWED : APPROVAL_DENIED, call->key);
    call_reply(call, 200, &out);
}

static void post_answer(struct call *call)
{
    call_json(call, answer_body);
}

/* ---- GET /events ---- */

static void forget_reader(struct listener_of_events *l)
{
    struct listener_of_events **at = &readers;
    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
    account_return(l->call->hold.account, ACCOUNT_READERS, 1);
    loop_timer_cancel(l->call->core->loop, &l->ping);
    free(l);
}

static void reader_gone(struct call *call)
{
    forget_reader(call->data);
    call_ended(call);
}

static void on_ping(struct loop_timer *t)
{
    struct listener_of_events *l = container_of(t, struct listener_of_events, ping);
    loop_timer_set(l->call->core->loop, &l->ping, PING_MS);
    tell_reader(l, ": \n\n", 4);
}

/* What waits already comes first: who connects late misses nothing. */
static void tell_waiting(const struct listener_of_events *l)
{
    for (const struct question *q = questions; q; q = q->next) {
        cleanup_buf struct buf out;
        struct json_writer w;
        buf_init(&out, EVENT_MAX);
        if (!may_see(q, l->key, l->all))
            continue;
        buf_str(&out, "event: approval\ndata: ");
        jw_init(&w, &out, false);
        write_question(&w, q, NULL, NULL);
        buf_str(&out, "\n\n");
        exchange_write(l->call->x, out.data, out.len);
    }
}

static void get_events(struct call *call)
{
    struct err err = ERR_INIT;
    if (account_charge(call->hold.account, ACCOUNT_READERS, 1, &err) < 0) {
        call_fail_err(call, &err);
        return;
    }
    struct listener_of_events *l = calloc(1, sizeof *l);
    if (!l) {
        account_return(call->hold.account, ACCOUNT_READERS, 1);
        call_fail_memory(call);
        return;
    }
    l->call = call;
    l->all = call->key->operator_key;
    snprintf(l->key, sizeof l->key, "%s", call->key->id);
    l->ping.fn = on_ping;
    l->next = readers;
    readers = l;
    call->data = l;
    call->on_gone = reader_gone;
    call_watch(call);
    exchange_begin(call->x, 200, "text/event-stream", -1);
    exchange_write(call->x, ": brig\n\n", 8);
    tell_waiting(l);
    loop_timer_set(call->core->loop, &l->ping, PING_MS);
}

const struct route approval_routes[] = {
    {"GET", "/approvals", ERRORS_API, false, get_approvals},
    /* Operators alone: an agent's own key must not be able to approve what the agent asks for. */
    {"POST", "/approvals/{id}", ERRORS_API, true, post_answer},
    {"GET", "/events", ERRORS_API, false, get_events},
    {0},
};
