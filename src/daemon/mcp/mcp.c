/* /mcp: who may speak, which era, which method. See mcp.h. */
#include "daemon/mcp/mcp.h"

#include <string.h>
#include <strings.h>

#define LIST_TTL_MS 3600000u

/* ---- the methods that answer at once ---- */

static void write_server(struct json_writer *w)
{
    jw_kv_object(w, "capabilities");
    jw_kv_object(w, "tools");
    jw_object_end(w);
    jw_kv_object(w, "resources");
    jw_object_end(w);
    jw_object_end(w);
    jw_kv_string(
        w, "instructions",
        "Everything runs in sandboxes without access to the host. For one step call run_code or "
        "run_command without a session; for work over several steps call create_session first and "
        "pass its session_id. When something was refused, denials and error say by which rule and "
        "what would allow it: tell the person, there is no way around it from inside.");
}

static void initialize(struct mcp_call *c)
{
    struct mcp_result r;
    const struct json *asked = c->msg.params ? json_get(c->msg.params, "protocolVersion") : NULL;
    if (!asked || json_type(asked) != JSON_STRING) {
        mcp_fail(c, 200, RPC_INVALID_PARAMS, "protocolVersion is missing", NULL);
        return;
    }
    exchange_add_header(c->activity.call->x, "Mcp-Session-Id", mcp_session_new(c->state, c->key));
    result_begin(c, &r);
    jw_kv_string(&r.w, "protocolVersion", envelope_negotiate(json_string(asked)));
    write_server(&r.w);
    jw_kv_object(&r.w, "serverInfo");
    jw_kv_string(&r.w, "name", "brig");
    jw_kv_string(&r.w, "title", "brig sandbox");
    jw_kv_string(&r.w, "version", BRIG_VERSION);
    jw_object_end(&r.w);
    result_send(c, &r);
}

static void discover(struct mcp_call *c)
{
    struct mcp_result r;
    result_begin(c, &r);
    jw_kv_array(&r.w, "supportedVersions");
    jw_string(&r.w, MCP_MODERN);
    jw_array_end(&r.w);
    write_server(&r.w);
    result_cacheable(c, &r, LIST_TTL_MS, true);
    result_send(c, &r);
}

static void ping(struct mcp_call *c)
{
    struct mcp_result r;
    result_begin(c, &r);
    result_send(c, &r);
}

static void tools_list(struct mcp_call *c)
{
    struct mcp_result r;
    if (c->msg.params && json_get(c->msg.params, "cursor")) {
        mcp_fail(c, 200, RPC_INVALID_PARAMS, "there is no such page", NULL);
        return;
    }
    result_begin(c, &r);
    jw_key(&r.w, "tools");
    offer_write(&r.w);
    result_cacheable(c, &r, LIST_TTL_MS, true);
    result_send(c, &r);
}

/* ---- which one ---- */

enum { IN_LEGACY = 1, IN_MODERN = 2, IN_BOTH = 3 };
static const struct method {
    const char *name;
    unsigned eras;
    void (*fn)(struct mcp_call *c);
} methods[] = {
    {"initialize", IN_LEGACY, initialize},
    {"ping", IN_LEGACY, ping},
    {"server/discover", IN_MODERN, discover},
    {"tools/list", IN_BOTH, tools_list},
    {"tools/call", IN_BOTH, mcp_tools_call},
    {"resources/list", IN_BOTH, mcp_resources_list},
    {"resources/templates/list", IN_BOTH, mcp_resources_templates},
    {"resources/read", IN_BOTH, mcp_resources_read},
};

static void dispatch(struct mcp_call *c)
{
    unsigned era = c->modern ? IN_MODERN : IN_LEGACY;
    for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
        if ((methods[i].eras & era) && !strcmp(methods[i].name, c->msg.method)) {
            methods[i].fn(c);
            return;
        }
    }
    mcp_fail(c, c->modern ? 404 : 200, RPC_METHOD_NOT_FOUND, "there is no such method", NULL);
}

/* ---- the message ---- */

static void fail(struct call *call, int status, const struct json *id, int code, const char *text,
                 const struct json *data)
{
    struct buf out cleanup_buf = {0};
    buf_init(&out, 1u << 20);
    rpc_write_error(&out, id, code, text, data);
    call_text(call, status, "application/json", buf_text(&out), out.len);
}

static struct json *versions_data(const char *requested)
{
    struct buf text cleanup_buf = {0};
    struct json_writer w;
    struct json *tree = NULL;
    jw_begin(&w, &text, 65536);
    jw_kv_array(&w, "supported");
    jw_string(&w, MCP_MODERN);
    jw_array_end(&w);
    jw_kv_string(&w, "requested", requested);
    jw_object_end(&w);
    json_parse(buf_text(&text), text.len, NULL, &tree, NULL);
    return tree;
}

static void refuse(struct call *call, const struct rpc_msg *m, const struct mcp_envelope *e,
                   const struct err *err)
{
    struct json *data = e->requested ? versions_data(e->requested) : NULL;
    fail(call, e->status, m->id, e->code, err->message, data);
    json_free(data);
}

/* Answers to questions that we never ask, and news that change nothing. */
static void take_notification(struct call *call, const struct rpc_msg *m, const char *session)
{
    const struct json *id = m->params ? json_get(m->params, "requestId") : NULL;
    if (m->kind == RPC_NOTIFICATION && !strcmp(m->method, "notifications/cancelled") && session)
        mcp_cancel(mcp_state(call->core), call->key, session, id);
    call_empty(call, 202);
}

static bool session_good(struct call *call, const struct rpc_msg *m, const char *session)
{
    if (!session || mcp_session_use(mcp_state(call->core), call->key, session))
        return true;
    fail(call, 404, m->id, RPC_INVALID_REQUEST, "there is no such session: initialize again", NULL);
    return false;
}

static void take_message(struct call *call, struct rpc_msg *m)
{
    struct err err = ERR_INIT;
    struct mcp_envelope e = {0};
    struct mcp_call *c;
    const char *session = exchange_header(call->x, "Mcp-Session-Id");
    const struct mcp_head head = {
        .version = exchange_header(call->x, "MCP-Protocol-Version"),
        .method = exchange_header(call->x, "Mcp-Method"),
        .name = exchange_header(call->x, "Mcp-Name"),
    };
    bool speaks = m->kind == RPC_REQUEST || m->kind == RPC_NOTIFICATION;
    if (speaks && envelope_read(m, &head, &e, &err) < 0) {
        refuse(call, m, &e, &err);
        return;
    }
    if (e.era == MCP_ERA_MODERN)
        session = NULL; /* that era has none */
    if (!session_good(call, m, session))
        return;
    if (m->kind != RPC_REQUEST) {
        take_notification(call, m, session);
        return;
    }
    c = mcp_call_new(call, m);
    if (!c)
        return;
    c->modern = e.era == MCP_ERA_MODERN;
    c->token = e.progress;
    if (session)
        memcpy(c->session, session, sizeof(c->session));
    dispatch(c);
}

/* The tree, and what it takes on the account, is the call's until rpc_read has it. */
static void take_tree(struct call *call, const struct err *wrong)
{
    struct rpc_msg m = {0};
    struct err err = wrong ? *wrong : (struct err)ERR_INIT;
    int code = RPC_PARSE_ERROR;
    if (wrong && wrong->code != ERR_LIMIT)
        err_wrap(&err, "this is no JSON that is taken here");
    if (wrong) {
        fail(call, err.code == ERR_LIMIT ? 429 : 400, NULL,
             err.code == ERR_LIMIT ? RPC_INTERNAL_ERROR : code, err.message, NULL);
        return;
    }
    struct json *tree = call->json;
    uint64_t memory = json_memory(tree);
    call->json = NULL;
    if (rpc_read(tree, &m, &code, &err) < 0)
        fail(call, code == RPC_INVALID_PARAMS ? 200 : 400, m.id, code, err.message, NULL);
    else
        take_message(call, &m);
    if (m.tree) /* else it is a call's of its own now */
        hold_sub(&call->hold, memory);
    rpc_msg_done(&m);
}

static void take_body(struct call *call, const char *data, size_t len)
{
    struct json_limits limits = rpc_limits;
    (void)data; /* is call->body */
    limits.max_key = 64u << 10;
    call_parse(call, call->body.data, len, &limits, take_tree);
}

/* A page can make a browser send forms and plain text without asking, but not this. */
static bool type_good(const char *type)
{
    static const char json[] = "application/json";
    return type && !strncasecmp(type, json, sizeof(json) - 1) &&
           strchr(" \t;", type[sizeof(json) - 1]);
}

static bool accept_good(const char *accept)
{
    return !accept || strcasestr(accept, "application/json") || strstr(accept, "*/*") ||
           strcasestr(accept, "text/event-stream") || strcasestr(accept, "application/*");
}

static void post_mcp(struct call *call)
{
    if (!type_good(exchange_header(call->x, "Content-Type")))
        fail(call, 415, NULL, RPC_INVALID_REQUEST, "Content-Type must be application/json", NULL);
    else if (!accept_good(exchange_header(call->x, "Accept")))
        fail(call, 406, NULL, RPC_INVALID_REQUEST,
             "Accept must name application/json, text/event-stream or both", NULL);
    else
        call_body(call, RPC_BYTES_MAX, take_body);
}

static void delete_mcp(struct call *call)
{
    const char *session = exchange_header(call->x, "Mcp-Session-Id");
    if (!session)
        fail(call, 400, NULL, RPC_INVALID_REQUEST, "the header Mcp-Session-Id is missing", NULL);
    else if (!mcp_session_end(mcp_state(call->core), call->key, session))
        fail(call, 404, NULL, RPC_INVALID_REQUEST, "there is no such session", NULL);
    else
        call_empty(call, 204);
}

const struct route mcp_routes[] = {
    {"POST", "/mcp", ERRORS_RPC, false, post_mcp},
    {"DELETE", "/mcp", ERRORS_RPC, false, delete_mcp},
    {0},
};
