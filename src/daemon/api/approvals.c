/* Questions to a person over the API: GET /approvals, POST /approvals/{id}, and GET /events, which
 * tells of them as they come. A key sees the questions of its own sandboxes; operators see all, and
 * they alone answer: the key that asks must not be able to answer itself. */
#include "base/container.h"
#include "daemon/api/activity.h"
#include "daemon/box/questions.h"

#include <stdlib.h>
#include <string.h>

#define READER_MAX (256u * 1024) /* that waits for a reader of events; then it is cut off */
#define PING_MS    15000
#define EVENT_MAX  16384

static void write_question(struct json_writer *w, const struct question_info *q)
{
    jw_object_begin(w);
    jw_kv_string(w, "id", q->id);
    jw_kv_string(w, "kind", approval_kind_name(q->kind));
    jw_kv_string(w, "sandboxID", q->box_id);
    jw_kv_string(w, "text", q->text);
    jw_kv_string(w, "reason", q->reason);
    if (q->answer == APPROVAL_PENDING) {
        jw_kv_uint(w, "remaining_ms", q->remaining_ms);
    } else {
        jw_kv_string(w, "answer", approval_answer_name(q->answer));
        jw_kv_string(w, "by", q->by);
    }
    jw_object_end(w);
}

/* A stream of events lasts for long: its key may have been revoked since it began. */
static bool may_see(const struct key *key, const struct question_info *q)
{
    return !key->revoked_ms && (key->operator_key || strcmp(q->owner, key->id) == 0);
}

/* ---- GET /approvals, POST /approvals/{id} ---- */

struct listing {
    const struct key *key;
    struct json_writer w;
};

static void list_question(void *ctx, const struct question_info *q)
{
    struct listing *l = ctx;
    if (may_see(l->key, q))
        write_question(&l->w, q);
}

static void get_approvals(struct call *call)
{
    cleanup_buf struct buf out;
    struct listing l = {.key = call->key};
    call_buf(call, &out, 4u << 20);
    questions_sweep(call->core);
    jw_init(&l.w, &out, false);
    jw_array_begin(&l.w);
    questions_each(call->core, list_question, &l);
    jw_array_end(&l.w);
    call_reply(call, 200, &out);
}

static void answer_question(struct call *call, struct question *q, enum approval_answer answer)
{
    cleanup_buf struct buf out;
    struct json_writer w;
    struct question_info info;
    question_info(q, &info);
    info.answer = answer;
    info.by = call->key->id;
    buf_init(&out, EVENT_MAX);
    jw_init(&w, &out, false);
    write_question(&w, &info);
    question_answer(q, answer, call->key);
    call_reply(call, 200, &out);
}

static void answer_body(struct call *call, const struct json *body)
{
    const char *decision = NULL;
    const struct field fields[] = {{"decision", FIELD_STRING, &decision}};
    questions_sweep(call->core);
    struct question *q = question_find(call->core, call->params.value[0]);
    if (!CALL_FIELDS(call, body, FIELDS_STRICT, fields))
        return;
    bool approve = decision && strcmp(decision, "approve") == 0;
    if (!approve && !(decision && strcmp(decision, "deny") == 0))
        call_fail(call, 400, "decision: expected \"approve\" or \"deny\"");
    else if (!q)
        call_fail(call, 404,
                  "no such question waits; it may have been answered, or its time is over");
    else
        answer_question(call, q, approve ? APPROVAL_ALLOWED : APPROVAL_DENIED);
}

/* ---- GET /events ---- */

/* Somebody who reads them. */
struct reader {
    struct activity activity;
    struct question_watcher watcher;
    struct loop_timer ping;
};

static void reader_stop(struct activity *a)
{
    struct reader *r = container_of(a, struct reader, activity);
    questions_unwatch(a->core, &r->watcher);
    loop_timer_cancel(a->loop, &r->ping);
}

static const struct activity_ops reader_ops = {.stop = reader_stop};

/* One that does not read is cut off: it comes back, and is told what waits. */
static void tell_reader(struct reader *r, const char *data, size_t len)
{
    struct exchange *x = r->activity.call->x;
    if (!exchange_write(x, data, len) && exchange_waiting(x) >= READER_MAX)
        call_abort(activity_end(&r->activity));
}

static void write_event(struct buf *out, const struct question_info *q)
{
    struct json_writer w;
    buf_fmt(out, "event: %s\ndata: ", q->answer == APPROVAL_PENDING ? "approval" : "answer");
    jw_init(&w, out, false);
    write_question(&w, q);
    buf_str(out, "\n\n");
}

static void on_question(struct question_watcher *watcher, const struct question_info *q)
{
    struct reader *r = container_of(watcher, struct reader, watcher);
    cleanup_buf struct buf out;
    buf_init(&out, EVENT_MAX);
    if (!may_see(r->activity.call->key, q))
        return;
    write_event(&out, q);
    if (!out.failed)
        tell_reader(r, out.data, out.len);
}

/* What waits already comes first: who connects late misses nothing. Nobody can have read of it yet,
 * so that nobody is cut off for it; how much can wait is bounded where questions are asked. */
static void tell_waiting(void *ctx, const struct question_info *q)
{
    struct call *call = ctx;
    cleanup_buf struct buf out;
    buf_init(&out, EVENT_MAX);
    if (!call->x || !may_see(call->key, q))
        return;
    write_event(&out, q);
    if (!out.failed)
        exchange_write(call->x, out.data, out.len);
}

static void on_ping(struct loop_timer *t)
{
    struct reader *r = container_of(t, struct reader, ping);
    loop_timer_set(r->activity.loop, &r->ping, PING_MS);
    tell_reader(r, ": \n\n", 4);
}

static void get_events(struct call *call)
{
    struct err err = ERR_INIT;
    struct reader *r = activity_new(sizeof *r, &reader_ops, call->core, call->hold.account, &err);
    if (!r || activity_charge(&r->activity, ACCOUNT_READERS, &err) < 0) {
        if (r)
            activity_end(&r->activity);
        call_fail_err(call, &err);
        return;
    }
    r->ping.fn = on_ping;
    r->watcher.told = on_question;
    questions_watch(call->core, &r->watcher);
    activity_serve(&r->activity, call);
    call_watch(call);
    exchange_begin(call->x, 200, "text/event-stream", -1);
    exchange_write(call->x, ": brig\n\n", 8);
    loop_timer_set(r->activity.loop, &r->ping, PING_MS);
    questions_each(call->core, tell_waiting, call);
}

const struct route approval_routes[] = {
    {"GET", "/approvals", ERRORS_API, false, get_approvals},
    /* Operators alone: an agent's own key must not be able to approve what the agent asks for. */
    {"POST", "/approvals/{id}", ERRORS_API, true, .body = answer_body},
    {"GET", "/events", ERRORS_API, false, get_events},
    {0},
};
