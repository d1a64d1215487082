/* One MCP request: how it is answered, as one JSON object or as a stream of events, and how it is
 * cancelled. */
#include "daemon/mcp/mcp.h"

#include "base/container.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ANSWER_MAX   (32u << 20)
#define ERROR_MAX    (1u << 20)
#define KEEPALIVE_MS 5000u
#define PROGRESS_MAX 10000u /* notifications for one request */

/* ---- its life ---- */

/* Of what ran for it. */
static void let_go(struct mcp_call *c)
{
    void (*stop)(struct mcp_call *) = c->stop;
    c->stop = NULL;
    if (stop)
        stop(c);
}

static void call_stop(struct activity *a)
{
    struct mcp_call *c = container_of(a, struct mcp_call, activity);
    if (c->at) /* NULL: the list is gone */
        *c->at = c->next;
    if (c->at && c->next)
        c->next->at = c->at;
    loop_timer_cancel(a->loop, &c->keepalive);
    long_stop(&c->answer);
    let_go(c);
}

static void call_forget(struct activity *a)
{
    struct mcp_call *c = container_of(a, struct mcp_call, activity);
    if (c->forget)
        c->forget(c);
    free(c->data);
    long_done(&c->answer);
    rpc_msg_done(&c->msg);
    buf_done(&c->body);
}

static void call_writable(struct activity *a)
{
    struct mcp_call *c = container_of(a, struct mcp_call, activity);
    if (c->answer.sent)
        long_resume(&c->answer);
    else if (c->resume)
        c->resume(c);
}

static const struct activity_ops call_ops = {
    .stop = call_stop, .done = call_forget, .writable = call_writable};

void *mcp_data_new(struct mcp_call *c, size_t size)
{
    c->data = calloc(1, size);
    if (!c->data)
        mcp_fail(c, 503, RPC_INTERNAL_ERROR, ERR_MEMORY_TEXT, NULL);
    return c->data;
}

/* "application/json, text/event-stream;q=0.5" */
static bool accepts(const char *accept, const char *type)
{
    size_t len = strlen(type);
    for (const char *at = accept; *at; at += *at == ',') {
        at += strspn(at, " \t");
        if ((!strncasecmp(at, type, len) && strchr(" \t;,", at[len])) || text_begins(at, "*/*"))
            return true;
        at += strcspn(at, ",");
    }
    return false;
}

static void on_keepalive(struct loop_timer *t);

struct mcp_call *mcp_call_new(struct call *call, struct rpc_msg *msg)
{
    const char *accept = exchange_header(call->x, "Accept");
    struct err err = ERR_INIT;
    struct mcp_state *state = mcp_state(call->core);
    struct mcp_call *c = NULL;
    if (state)
        c = activity_new(sizeof(*c), &call_ops, call->core, call->hold.account, &err);
    else
        err_memory(&err);
    if (!c) {
        call_fail_err(call, &err);
        return NULL;
    }
    c->key = call->key;
    c->body = call->body;
    hold_adopt(&c->activity.hold, &c->body);
    call->body = (struct buf){0};
    hold_give(&call->hold, &c->activity.hold, json_memory(msg->tree));
    c->msg = *msg;
    *msg = (struct rpc_msg){0};
    c->takes_json = !accept || accepts(accept, "application/json");
    c->takes_events = accept && accepts(accept, "text/event-stream");
    c->keepalive.fn = on_keepalive;
    c->state = state;
    c->at = mcp_running(state);
    c->next = *c->at;
    if (c->next)
        c->next->at = &c->next;
    *c->at = c;
    activity_serve(&c->activity, call);
    return c;
}

/* ---- the stream ---- */

static void stream_begin(struct mcp_call *c)
{
    if (c->streaming)
        return;
    c->streaming = true;
    exchange_add_header(c->activity.call->x, "X-Accel-Buffering", "no");
    exchange_begin(c->activity.call->x, 200, "text/event-stream", -1);
}

static const char event_head[] = "event: message\ndata: ", event_end[] = "\n\n";

static bool stream_write(struct mcp_call *c, const struct buf *json)
{
    struct exchange *x = c->activity.call->x;
    /* Only the result of the last write tells whether there is room for more. */
    exchange_write(x, event_head, sizeof(event_head) - 1);
    exchange_write(x, buf_text(json), json->len);
    return exchange_write(x, event_end, sizeof(event_end) - 1);
}

/* A quiet request must not look like a dead one. */
static void on_keepalive(struct loop_timer *t)
{
    struct mcp_call *c = container_of(t, struct mcp_call, keepalive);
    static const char text[] = ": still running\n\n";
    stream_begin(c);
    exchange_write(c->activity.call->x, text, sizeof(text) - 1);
    loop_timer_set(c->activity.loop, &c->keepalive, KEEPALIVE_MS);
}

bool mcp_progress(struct mcp_call *c, const char *text, size_t len)
{
    struct buf out cleanup_buf = {0};
    struct json_writer w;
    if (!c->activity.call || c->answer.sent || !c->token || !c->takes_events ||
        c->progress >= PROGRESS_MAX)
        return true;
    stream_begin(c);
    activity_buf(&c->activity, &out, ANSWER_MAX);
    jw_init(&w, &out, false);
    rpc_notification_begin(&w, "notifications/progress");
    jw_object_begin(&w);
    jw_kv_json(&w, "progressToken", c->token);
    jw_kv_uint(&w, "progress", ++c->progress);
    jw_kv_bytes(&w, "message", text, len);
    jw_object_end(&w);
    rpc_end(&w);
    return stream_write(c, &out);
}

/* ---- the answer ---- */

/* The client first: what `stop` ends may take its time. */
static void answer(struct mcp_call *c, int status, struct buf *json)
{
    if (!c->activity.call)
        return;
    if (!c->takes_json && c->takes_events && status == 200)
        stream_begin(c);
    if (c->streaming) {
        stream_write(c, json);
        call_end(activity_detach(&c->activity));
    } else {
        call_text(activity_detach(&c->activity), status, "application/json", buf_text(json),
                  json->len);
    }
    activity_end(&c->activity);
}

void mcp_fail(struct mcp_call *c, int status, int code, const char *message,
              const struct json *data)
{
    struct buf out cleanup_buf = {0};
    buf_init(&out, ERROR_MAX);
    rpc_write_error(&out, c->msg.id, code, message, data);
    answer(c, status, &out);
}

void result_begin(struct mcp_call *c, struct mcp_result *r)
{
    long_begin(&c->answer, &c->activity, ANSWER_MAX, &r->w);
    rpc_result_begin(&r->w, c->msg.id);
    jw_object_begin(&r->w);
    if (!c->modern)
        return;
    jw_kv_string(&r->w, "resultType", "complete");
    jw_kv_object(&r->w, "_meta");
    jw_kv_object(&r->w, "io.modelcontextprotocol/serverInfo");
    jw_kv_string(&r->w, "name", "brig");
    jw_kv_string(&r->w, "version", BRIG_VERSION);
    jw_object_end(&r->w);
    jw_object_end(&r->w);
}

void result_cacheable(struct mcp_call *c, struct mcp_result *r, uint64_t ttl_ms, bool shared)
{
    if (!c->modern)
        return;
    jw_kv_uint(&r->w, "ttlMs", ttl_ms);
    jw_kv_string(&r->w, "cacheScope", shared ? "public" : "private");
}

static void on_sent(struct long_answer *a)
{
    struct mcp_call *c = container_of(a, struct mcp_call, answer);
    if (c->streaming)
        exchange_write(c->activity.call->x, event_end, sizeof(event_end) - 1);
    call_end(activity_end(&c->activity));
}

/* CL-5. No comment that it still runs may come into the middle of it. */
static void answer_long(struct mcp_call *c)
{
    loop_timer_cancel(c->activity.loop, &c->keepalive);
    if (!c->takes_json && c->takes_events)
        stream_begin(c);
    if (c->streaming)
        exchange_write(c->activity.call->x, event_head, sizeof(event_head) - 1);
    else
        exchange_begin(c->activity.call->x, 200, "application/json", -1);
    long_send(&c->answer, on_sent);
    let_go(c); /* however slowly it is read */
}

static void answer_short(struct mcp_call *c)
{
    struct buf out cleanup_buf = {0};
    struct err err = ERR_INIT;
    activity_buf(&c->activity, &out, ANSWER_MAX);
    long_write(&c->answer, &out);
    if (!c->answer.frame.failed && !out.failed)
        answer(c, 200, &out);
    else if (hold_refusal(&c->activity.hold, &err) < 0)
        mcp_fail(c, 200, RPC_INTERNAL_ERROR, err.message, NULL);
    else
        mcp_fail(c, 200, RPC_INTERNAL_ERROR, "the answer is too long", NULL);
}

void result_send(struct mcp_call *c, struct mcp_result *r)
{
    jw_object_end(&r->w);
    rpc_end(&r->w);
    if (!c->activity.call)
        return;
    if (c->answer.frame.failed || long_is_short(&c->answer))
        answer_short(c);
    else
        answer_long(c);
}

void result_list(struct mcp_call *c, struct json_writer *w, const char *key,
                 const struct buf *items)
{
    jw_key(w, key);
    buf_chr(w->out, '[');
    long_json(&c->answer, w, items);
    buf_chr(w->out, ']');
}

void result_string(struct mcp_call *c, struct json_writer *w, const char *key,
                   const struct buf *text, enum long_form form)
{
    jw_key(w, key);
    long_string(&c->answer, w, buf_text(text), text->len, form);
}

/* ---- cancelled by a message of its own ---- */

void mcp_cancel(struct mcp_state *s, const struct key *key, const char *session,
                const struct json *id)
{
    struct mcp_call *c = *mcp_running(s);
    while (c && (c->key != key || strcmp(c->session, session) != 0 || !rpc_id_equal(c->msg.id, id)))
        c = c->next;
    if (!c || !c->activity.call || c->answer.sent)
        return;
    /* There is no answer to a request that was taken back. */
    if (c->streaming)
        call_end(activity_detach(&c->activity));
    else
        call_empty(activity_detach(&c->activity), 202);
    activity_end(&c->activity);
}
