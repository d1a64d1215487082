/* One MCP request: how it is answered, as one JSON object or as a stream of events, and how it is
 * cancelled. */
#include "daemon/mcp/mcp.h"

#include "base/container.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ANSWER_MAX   (32u << 20)
#define ERROR_MAX    (1u << 20)
#define KEEPALIVE_MS 5000u
#define PROGRESS_MAX 10000u /* notifications for one request */

static struct mcp_call *running;

/* ---- its life ---- */

static void call_free(struct loop_task *t)
{
    struct mcp_call *c = container_of(t, struct mcp_call, release);
    if (c->pending)
        return; /* the callback comes back here */
    if (c->forget)
        c->forget(c);
    rpc_msg_done(&c->msg);
    buf_done(&c->body);
    hold_done(&c->hold);
    free(c);
}

void mcp_buf(struct mcp_call *c, struct buf *b, size_t cap)
{
    buf_init_metered(b, cap, &c->hold.meter);
}

static void mcp_close(struct mcp_call *c)
{
    if (c->closing)
        return;
    c->closing = true;
    *c->at = c->next;
    if (c->next)
        c->next->at = c->at;
    loop_timer_cancel(c->loop, &c->keepalive);
    if (c->stop)
        c->stop(c);
    loop_defer(c->loop, &c->release);
}

void mcp_wait(struct mcp_call *c)
{
    c->pending++;
}

bool mcp_back(struct mcp_call *c)
{
    c->pending--;
    if (c->closing)
        loop_defer(c->loop, &c->release);
    return !c->closing;
}

static void on_gone(struct call *call)
{
    struct mcp_call *c = call->data;
    c->call = NULL;
    mcp_close(c);
    call_ended(call);
}

static void on_writable(struct call *call)
{
    struct mcp_call *c = call->data;
    if (c->resume && !c->closing)
        c->resume(c);
}

/* "application/json, text/event-stream;q=0.5" */
static bool accepts(const char *accept, const char *type)
{
    size_t len = strlen(type);
    for (const char *at = accept; *at; at += *at == ',') {
        at += strspn(at, " \t");
        if ((!strncasecmp(at, type, len) && strchr(" \t;,", at[len])) || !strncmp(at, "*/*", 3))
            return true;
        at += strcspn(at, ",");
    }
    return false;
}

static void on_keepalive(struct loop_timer *t);

struct mcp_call *mcp_call_new(struct call *call, struct rpc_msg *msg)
{
    const char *accept = exchange_header(call->x, "Accept");
    struct mcp_call *c = calloc(1, sizeof(*c));
    if (!c) {
        call_fail_memory(call);
        return NULL;
    }
    c->call = call;
    c->core = call->core;
    c->loop = exchange_loop(call->x);
    c->key = call->key;
    hold_init(&c->hold, call->hold.account);
    c->body = call->body;
    hold_adopt(&c->hold, &c->body);
    call->body = (struct buf){0};
    hold_give(&call->hold, &c->hold, json_memory(msg->tree));
    c->msg = *msg;
    *msg = (struct rpc_msg){0};
    c->takes_json = !accept || accepts(accept, "application/json");
    c->takes_events = accept && accepts(accept, "text/event-stream");
    c->keepalive.fn = on_keepalive;
    c->release.fn = call_free;
    c->next = running;
    c->at = &running;
    if (running)
        running->at = &c->next;
    running = c;
    call->data = c;
    call->on_gone = on_gone;
    call->on_writable = on_writable;
    return c;
}

/* ---- the stream ---- */

static void stream_begin(struct mcp_call *c)
{
    if (c->streaming)
        return;
    c->streaming = true;
    exchange_add_header(c->call->x, "X-Accel-Buffering", "no");
    exchange_begin(c->call->x, 200, "text/event-stream", -1);
}

static bool stream_write(struct mcp_call *c, const struct buf *json)
{
    static const char head[] = "event: message\ndata: ";
    struct exchange *x = c->call->x;
    /* Only the result of the last write tells whether there is room for more. */
    exchange_write(x, head, sizeof(head) - 1);
    exchange_write(x, buf_text(json), json->len);
    return exchange_write(x, "\n\n", 2);
}

/* A quiet request must not look like a dead one. */
static void on_keepalive(struct loop_timer *t)
{
    struct mcp_call *c = container_of(t, struct mcp_call, keepalive);
    static const char text[] = ": still running\n\n";
    if (!c->call)
        return;
    stream_begin(c);
    exchange_write(c->call->x, text, sizeof(text) - 1);
    loop_timer_set(c->loop, &c->keepalive, KEEPALIVE_MS);
}

bool mcp_progress(struct mcp_call *c, const char *text, size_t len)
{
    struct mcp_result r;
    bool more;
    if (!c->call || !c->token || !c->takes_events || c->progress >= PROGRESS_MAX)
        return true;
    stream_begin(c);
    mcp_buf(c, &r.out, ANSWER_MAX);
    jw_init(&r.w, &r.out, false);
    rpc_notification_begin(&r.w, "notifications/progress");
    jw_object_begin(&r.w);
    jw_key(&r.w, "progressToken");
    jw_json(&r.w, c->token);
    jw_kv_uint(&r.w, "progress", ++c->progress);
    jw_key(&r.w, "message");
    jw_bytes(&r.w, text, len);
    jw_object_end(&r.w);
    rpc_end(&r.w);
    more = stream_write(c, &r.out);
    buf_done(&r.out);
    return more;
}

/* ---- the answer ---- */

static void answer(struct mcp_call *c, int status, struct buf *json)
{
    struct call *call = c->call;
    if (!call)
        return;
    if (!c->takes_json && c->takes_events && status == 200)
        stream_begin(c);
    c->call = NULL;
    call->on_gone = NULL;
    if (c->streaming) {
        c->call = call;
        stream_write(c, json);
        c->call = NULL;
        exchange_end(call->x);
        call_ended(call);
    } else {
        call_text(call, status, "application/json", buf_text(json), json->len);
    }
    mcp_close(c);
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
    mcp_buf(c, &r->out, ANSWER_MAX);
    jw_init(&r->w, &r->out, false);
    rpc_result_begin(&r->w, c->msg.id);
    jw_object_begin(&r->w);
    if (!c->modern)
        return;
    jw_kv_string(&r->w, "resultType", "complete");
    jw_key(&r->w, "_meta");
    jw_object_begin(&r->w);
    jw_key(&r->w, "io.modelcontextprotocol/serverInfo");
    jw_object_begin(&r->w);
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

void result_send(struct mcp_call *c, struct mcp_result *r)
{
    jw_object_end(&r->w);
    rpc_end(&r->w);
    struct err err = ERR_INIT;
    if (r->out.failed && hold_refusal(&c->hold, &err) < 0)
        mcp_fail(c, 200, RPC_INTERNAL_ERROR, err.message, NULL);
    else if (r->out.failed)
        mcp_fail(c, 200, RPC_INTERNAL_ERROR, "the answer is too long", NULL);
    else
        answer(c, 200, &r->out);
    buf_done(&r->out);
}

void result_list(struct json_writer *w, const char *key, const struct buf *items)
{
    jw_key(w, key);
    buf_chr(w->out, '[');
    buf_add(w->out, buf_text(items), items->len);
    buf_chr(w->out, ']');
    w->after_key = false;
    w->need_comma = true;
}

/* ---- cancelled by a message of its own ---- */

void mcp_cancel(const struct key *key, const char *session, const struct json *id)
{
    struct mcp_call *c = running;
    while (c && (c->key != key || strcmp(c->session, session) != 0 || !rpc_id_equal(c->msg.id, id)))
        c = c->next;
    if (!c || !c->call)
        return;
    struct call *call = c->call;
    c->call = NULL;
    call->on_gone = NULL;
    /* There is no answer to a request that was taken back. */
    if (c->streaming) {
        exchange_end(call->x);
        call_ended(call);
    } else {
        call_empty(call, 202);
    }
    mcp_close(c);
}
