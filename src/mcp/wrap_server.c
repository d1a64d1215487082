/* Lines of the server, which may be anybody's. */
#include "base/cleanup.h"
#include "base/quote.h"
#include "mcp/wrap_internal.h"

#include <stdio.h>
#include <string.h>

static const char *const notifications[] = {
    "notifications/message",
    "notifications/tools/list_changed",
    "notifications/resources/list_changed",
    "notifications/resources/updated",
    "notifications/prompts/list_changed",
    "notifications/subscriptions/acknowledged",
    "notifications/tasks/status",
};

/* ---- answers ---- */

/* In the modern era a question comes as the result of the client's own request: the first that may
 * not be asked, or NULL. */
static const char *forbidden_question(const struct wrap *w, const struct json *result)
{
    const struct json *type = json_get(result, "resultType");
    const struct json *questions = json_get(result, "inputRequests");
    if (!type || json_type(type) != JSON_STRING || strcmp(json_string(type), "input_required") != 0)
        return NULL;
    for (size_t i = 0; questions && i < json_count(questions); i++) {
        const struct json *q = json_type(questions) == JSON_OBJECT ? json_value_at(questions, i)
                                                                   : json_at(questions, i);
        const struct json *method = json_type(q) == JSON_OBJECT ? json_get(q, "method") : NULL;
        if (!method || json_type(method) != JSON_STRING)
            return "without a method";
        if (!(wrap_callback_of(json_string(method)) & w->tools->callbacks))
            return json_string(method);
    }
    return NULL;
}

/* "Show the person this page first" is a question too; without its data it is a plain error. */
#define URL_ELICITATION (-32042)

static void pass_error(struct wrap *w, const struct rpc_msg *m)
{
    const struct json *code = json_get(m->error, "code");
    if (json_int(code) == URL_ELICITATION && !(w->tools->callbacks & CALLBACK_ELICITATION))
        wrap_error(&w->to_client, m->id, RPC_INTERNAL_ERROR,
                   "denied by brig: the server's question \"elicitation/create\": tools.callbacks "
                   "does not name it");
    else
        wrap_write(&w->to_client, m);
}

static void pass_result(struct wrap *w, const struct rpc_msg *m, const struct wrap_call *call)
{
    const char *question = forbidden_question(w, m->result);
    if (question)
        wrap_deny_callback(w, m->id, call, question);
    else if (call->method == WRAP_TOOLS_LIST)
        wrap_write_list(w, m);
    else
        wrap_write(&w->to_client, m);
}

/* WR-3 */
static void on_answer(struct wrap *w, const struct rpc_msg *m)
{
    struct wrap_call *call = m->id ? wrap_call_find(w, m->id) : NULL;
    if (!call || call->ticket) {
        wrap_dropped(w, "the server answered something that it was not asked");
        return;
    }
    if (m->kind == RPC_ERROR)
        pass_error(w, m);
    else
        pass_result(w, m, call);
    wrap_call_drop(w, call);
}

/* ---- questions ---- */

static void refuse(struct wrap *w, const struct rpc_msg *m, bool known)
{
    char what[96];
    struct quoted q;
    snprintf(what, sizeof what, "the server's question %s", quote(&q, m->method));
    if (known)
        denial_add(&w->denials, BOUNDARY_NONE, what, "tools.callbacks does not name it",
                   "add it to tools.callbacks in the policy");
    else
        wrap_dropped(w, "%s is not passed on", what);
    wrap_error(&w->to_server, m->id, RPC_METHOD_NOT_FOUND, "the client does not offer %s",
               quote(&q, m->method));
}

/* WR-4 */
static void on_request(struct wrap *w, const struct rpc_msg *m)
{
    size_t i;
    unsigned callback = wrap_callback_of(m->method);
    if (callback && !(w->tools->callbacks & callback))
        refuse(w, m, true);
    else if (!callback && strcmp(m->method, "ping") != 0)
        refuse(w, m, false);
    else if (wrap_asked_find(w, m->id, &i) || wrap_asked_add(w, m->id) < 0)
        wrap_error(&w->to_server, NULL, RPC_INVALID_REQUEST,
                   "the id is in use, or too many requests wait for an answer");
    else
        wrap_write(&w->to_client, m);
}

/* ---- notifications ---- */

static bool token_known(const struct wrap *w, const struct json *token)
{
    cleanup_free char *text = token ? wrap_text_of(token) : NULL;
    for (size_t i = 0; text && i < w->call_count; i++) {
        const struct wrap_call *c = &w->calls[i];
        if (!c->ticket && c->token && strcmp(c->token, text) == 0)
            return true;
    }
    return false;
}

static bool notification_passes(const struct wrap *w, const struct rpc_msg *m)
{
    size_t i;
    if (strcmp(m->method, "notifications/progress") == 0)
        return m->params && token_known(w, json_get(m->params, "progressToken"));
    if (strcmp(m->method, "notifications/cancelled") == 0) {
        const struct json *id = m->params ? json_get(m->params, "requestId") : NULL;
        return id && wrap_asked_find(w, id, &i);
    }
    return wrap_word_in(m->method, notifications, ARRAY_LEN(notifications));
}

static void on_notification(struct wrap *w, const struct rpc_msg *m)
{
    struct quoted q;
    if (notification_passes(w, m))
        wrap_write(&w->to_client, m);
    else
        wrap_dropped(w, "the server's %s is not passed on", quote(&q, m->method));
}

/* ---- lines ---- */

/* The answer to the only call there is cannot be taken: better an error than a client that waits
 * for ever. What does not look like a message is some program's chatter. */
static void answer_instead(struct wrap *w, const char *why)
{
    struct json *id = NULL;
    if (w->call_count != 1 || w->calls[0].ticket)
        return;
    if (json_parse(w->calls[0].id, strlen(w->calls[0].id), NULL, &id, NULL) < 0)
        return;
    wrap_error(&w->to_client, id, RPC_INTERNAL_ERROR, "the server's answer was refused: %s", why);
    wrap_call_drop(w, &w->calls[0]);
    json_free(id);
}

void wrap_server_line(struct wrap *w, const char *text, size_t len)
{
    cleanup_rpc_msg struct rpc_msg m;
    struct err err = ERR_INIT;
    int code;
    if (rpc_parse(text, len, &m, &code, &err) < 0) {
        wrap_dropped(w, "a line of the server was dropped: %s", err.message);
        if (code == RPC_PARSE_ERROR && memmem(text, len, "\"jsonrpc\"", 9))
            answer_instead(w, err.message);
        return;
    }
    if (m.kind == RPC_REQUEST)
        on_request(w, &m);
    else if (m.kind == RPC_NOTIFICATION)
        on_notification(w, &m);
    else
        on_answer(w, &m);
}

void wrap_server_overlong(struct wrap *w)
{
    wrap_dropped(w, "a line of the server was longer than %u bytes", RPC_BYTES_MAX);
    answer_instead(w, "it is too long");
}
