/* Lines of the client. */
#include "base/cleanup.h"
#include "base/quote.h"
#include "mcp/wrap_internal.h"

#include <string.h>

/* What a client asks of a server, in both eras of the protocol. */
static const char *const requests[] = {
    "initialize",
    "ping",
    "server/discover",
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "prompts/list",
    "prompts/get",
    "completion/complete",
    "logging/setLevel",
    "subscriptions/listen",
    "tasks/get",
    "tasks/list",
    "tasks/cancel",
    "tasks/result",
    "tasks/update",
};

static const char *const notifications[] = {
    "notifications/initialized",
    "notifications/progress",
    "notifications/roots/list_changed",
};

static enum wrap_method method_of(const char *method)
{
    if (strcmp(method, "tools/call") == 0)
        return WRAP_TOOLS_CALL;
    if (strcmp(method, "tools/list") == 0)
        return WRAP_TOOLS_LIST;
    return strcmp(method, "initialize") == 0 ? WRAP_INITIALIZE : WRAP_OTHER;
}

static void forward(struct wrap *w, const struct rpc_msg *m)
{
    if (!wrap_call_add(w, m, method_of(m->method)))
        wrap_error(&w->to_client, m->id, RPC_INTERNAL_ERROR,
                   "more than %u requests wait for an answer", WRAP_CALLS_MAX);
    else
        wrap_write_to_server(w, m);
}

/* ---- calls ---- */

static size_t waiting(const struct wrap *w)
{
    size_t n = 0;
    for (size_t i = 0; i < w->call_count; i++)
        n += w->calls[i].ticket != 0;
    return n;
}

static int ask_person(struct wrap *w, uint32_t ticket, const char *name,
                      const struct json *arguments, const struct tool_rule *rule)
{
    cleanup_buf struct buf text;
    cleanup_buf struct buf reason;
    struct err err = ERR_INIT;
    buf_init(&text, WRAP_SHOWN_MAX);
    buf_init(&reason, 512);
    wrap_rule_text(rule, &reason);
    int r = wrap_show_call(name, arguments, &text, &err);
    if (r == 0 && waiting(w) >= WRAP_WAITING_MAX)
        r = err_set(&err, ERR_LIMIT, "too many questions wait for an answer");
    if (r == 0)
        r = w->hooks.ask(w->hooks.ctx, ticket, buf_text(&text), buf_text(&reason), &err);
    if (r < 0)
        wrap_dropped(w, "nobody is asked about a call: %s", err.message);
    return r;
}

/* Takes the message over if it waits. */
static void hold(struct wrap *w, struct rpc_msg *m, const char *name, const struct json *arguments,
                 const struct tool_decision *d)
{
    uint32_t ticket = ++w->last_ticket ? w->last_ticket : ++w->last_ticket;
    struct wrap_call *call = NULL;
    if (ask_person(w, ticket, name, arguments, d->rule) >= 0) {
        call = wrap_call_add(w, m, WRAP_TOOLS_CALL);
        if (!call)
            w->hooks.withdraw(w->hooks.ctx, ticket);
    }
    if (!call) {
        wrap_deny(w, m->id, wrap_is_modern(m), name, d, WRAP_BY_NOBODY);
        return;
    }
    call->ticket = ticket;
    call->held = *m;
    *m = (struct rpc_msg){0};
}

static void on_tool_call(struct wrap *w, struct rpc_msg *m)
{
    const struct json *name = m->params ? json_get(m->params, "name") : NULL;
    const struct json *arguments = m->params ? json_get(m->params, "arguments") : NULL;
    if (!name || json_type(name) != JSON_STRING) {
        wrap_error(&w->to_client, m->id, RPC_INVALID_PARAMS, "\"name\" must be a string");
        return;
    }
    if (arguments && json_type(arguments) != JSON_OBJECT) {
        wrap_error(&w->to_client, m->id, RPC_INVALID_PARAMS, "\"arguments\" must be an object");
        return;
    }
    struct tool_decision d = tools_decide(w->tools, json_string(name), arguments);
    if (d.verdict == TOOL_ALLOW)
        forward(w, m);
    else if (d.verdict == TOOL_ASK)
        hold(w, m, json_string(name), arguments, &d);
    else
        wrap_deny(w, m->id, wrap_is_modern(m), json_string(name), &d, WRAP_BY_RULE);
}

void wrap_answer(struct wrap *w, uint32_t ticket, enum wrap_answer answer)
{
    struct wrap_call *call = NULL;
    for (size_t i = 0; ticket && i < w->call_count; i++) {
        if (w->calls[i].ticket == ticket)
            call = &w->calls[i];
    }
    if (!call)
        return;
    const struct rpc_msg *m = &call->held;
    if (answer == WRAP_ANSWER_ALLOW) {
        wrap_write_to_server(w, m);
        rpc_msg_done(&call->held);
        call->ticket = 0;
        return;
    }
    const char *name = json_text(m->params, "name");
    struct tool_decision d = tools_decide(w->tools, name, json_get(m->params, "arguments"));
    wrap_deny(w, m->id, call->modern, name, &d,
              answer == WRAP_ANSWER_TIME     ? WRAP_BY_TIME
              : answer == WRAP_ANSWER_NOBODY ? WRAP_BY_NOBODY
                                             : WRAP_BY_PERSON);
    wrap_call_drop(w, call);
}

/* ---- the rest ---- */

static void on_request(struct wrap *w, struct rpc_msg *m)
{
    struct quoted q;
    if (wrap_call_find(w, m->id)) {
        /* An error with this id would answer the other request. */
        wrap_dropped(w, "the client used the id of a request that still waits for its answer");
        wrap_error(&w->to_client, NULL, RPC_INVALID_REQUEST,
                   "the id is that of a request that still waits for its answer");
    } else if (!wrap_word_in(m->method, requests, ARRAY_LEN(requests))) {
        wrap_error(&w->to_client, m->id, RPC_METHOD_NOT_FOUND, "brig does not pass %s on",
                   quote(&q, m->method));
    } else if (method_of(m->method) == WRAP_TOOLS_CALL) {
        on_tool_call(w, m);
    } else {
        forward(w, m);
    }
}

/* The server hears of it only if it has heard of the call. */
static void on_cancelled(struct wrap *w, const struct rpc_msg *m)
{
    const struct json *id = m->params ? json_get(m->params, "requestId") : NULL;
    struct wrap_call *call = id ? wrap_call_find(w, id) : NULL;
    if (!call)
        return;
    if (call->ticket)
        w->hooks.withdraw(w->hooks.ctx, call->ticket);
    else
        wrap_write_to_server(w, m);
    /* An answer that still comes is dropped. */
    wrap_call_drop(w, call);
}

static void on_notification(struct wrap *w, const struct rpc_msg *m)
{
    struct quoted q;
    if (strcmp(m->method, "notifications/cancelled") == 0)
        on_cancelled(w, m);
    else if (wrap_word_in(m->method, notifications, ARRAY_LEN(notifications)))
        wrap_write_to_server(w, m);
    else
        wrap_dropped(w, "the client's %s is not passed on", quote(&q, m->method));
}

static void on_answer(struct wrap *w, const struct rpc_msg *m)
{
    size_t i;
    if (!m->id || !wrap_asked_find(w, m->id, &i)) {
        wrap_dropped(w, "the client answered something that the server did not ask");
        return;
    }
    wrap_asked_drop(w, i);
    wrap_write(&w->to_server, m);
}

void wrap_client_line(struct wrap *w, const char *text, size_t len)
{
    cleanup_rpc_msg struct rpc_msg m;
    struct err err = ERR_INIT;
    int code;
    if (rpc_parse(text, len, &m, &code, &err) < 0) {
        wrap_dropped(w, "a message of the client was refused: %s", err.message);
        /* Not with the id of a request that runs. */
        wrap_error(&w->to_client, m.id && !wrap_call_find(w, m.id) ? m.id : NULL, code, "%s",
                   err.message);
        return;
    }
    if (m.kind == RPC_REQUEST)
        on_request(w, &m);
    else if (m.kind == RPC_NOTIFICATION)
        on_notification(w, &m);
    else
        on_answer(w, &m);
}

void wrap_client_overlong(struct wrap *w)
{
    wrap_dropped(w, "a message of the client was longer than %u bytes", RPC_BYTES_MAX);
    wrap_error(&w->to_client, NULL, RPC_INVALID_REQUEST, "the message is longer than %u bytes",
               RPC_BYTES_MAX);
}
