/* Reading JSON-RPC: see rpc.h. */
#include "mcp/rpc.h"

#include <errno.h>
#include <string.h>

const struct json_limits rpc_limits = {
    .max_bytes = RPC_BYTES_MAX, .max_depth = 64, .max_nodes = 262144};

/* ---- one message ---- */

static bool is_type(const struct json *j, enum json_type type)
{
    return j && json_type(j) == type;
}

static bool id_usable(const struct json *id)
{
    return is_type(id, JSON_INT) ||
           (is_type(id, JSON_STRING) && strlen(json_string(id)) <= RPC_ID_MAX);
}

static int invalid(int *ret_code, struct err *err, const char *what)
{
    *ret_code = RPC_INVALID_REQUEST;
    return err_set(err, ERR_PROTOCOL, "%s", what);
}

static int read_call(struct rpc_msg *m, const struct json *id, int *ret_code, struct err *err)
{
    const struct json *method = json_get(m->tree, "method");
    if (!is_type(method, JSON_STRING) || !*json_string(method) ||
        strlen(json_string(method)) > RPC_METHOD_MAX)
        return invalid(ret_code, err, "\"method\" must be a string of 1 to 128 bytes");
    if (json_get(m->tree, "result") || json_get(m->tree, "error"))
        return invalid(ret_code, err, "a message cannot be a request and a response");
    if (id && !m->id)
        return invalid(ret_code, err, "\"id\" must be a string or a whole number");
    m->method = json_string(method);
    m->params = json_get(m->tree, "params");
    if (m->params && json_type(m->params) != JSON_OBJECT) {
        m->params = NULL;
        *ret_code = RPC_INVALID_PARAMS;
        return err_set(err, ERR_PROTOCOL, "\"params\" must be an object");
    }
    m->kind = id ? RPC_REQUEST : RPC_NOTIFICATION;
    return 0;
}

static int read_answer(struct rpc_msg *m, const struct json *id, int *ret_code, struct err *err)
{
    m->result = json_get(m->tree, "result");
    m->error = json_get(m->tree, "error");
    if (!m->result == !m->error)
        return invalid(ret_code, err, "a message has a \"method\", a \"result\" or an \"error\"");
    if (!m->id && !(m->error && (!id || json_type(id) == JSON_NULL)))
        return invalid(ret_code, err, "\"id\" must be a string or a whole number");
    if (m->result && json_type(m->result) != JSON_OBJECT)
        return invalid(ret_code, err, "\"result\" must be an object");
    if (m->error &&
        (json_type(m->error) != JSON_OBJECT || !is_type(json_get(m->error, "code"), JSON_INT) ||
         !is_type(json_get(m->error, "message"), JSON_STRING)))
        return invalid(ret_code, err, "\"error\" must have a \"code\" and a \"message\"");
    m->kind = m->result ? RPC_RESPONSE : RPC_ERROR;
    return 0;
}

int rpc_parse(const char *text, size_t len, struct rpc_msg *ret, int *ret_code, struct err *err)
{
    struct json *tree = NULL;
    *ret = (struct rpc_msg){0};
    *ret_code = RPC_PARSE_ERROR;
    if (json_parse(text, len, &rpc_limits, &tree, err) < 0)
        return err_wrap(err, "this is no JSON that is taken here");
    return rpc_read(tree, ret, ret_code, err);
}

int rpc_read(struct json *tree, struct rpc_msg *ret, int *ret_code, struct err *err)
{
    const struct json *version, *id;
    *ret = (struct rpc_msg){.tree = tree};
    if (json_type(ret->tree) == JSON_ARRAY)
        return invalid(ret_code, err, "batches are not offered: one message at a time");
    if (json_type(ret->tree) != JSON_OBJECT)
        return invalid(ret_code, err, "a message is a JSON object");
    id = json_get(ret->tree, "id");
    if (id_usable(id))
        ret->id = id;
    version = json_get(ret->tree, "jsonrpc");
    if (!is_type(version, JSON_STRING) || strcmp(json_string(version), "2.0") != 0)
        return invalid(ret_code, err, "\"jsonrpc\" must be \"2.0\"");
    return json_get(ret->tree, "method") ? read_call(ret, id, ret_code, err)
                                         : read_answer(ret, id, ret_code, err);
}

void rpc_msg_done(struct rpc_msg *m)
{
    json_free(m->tree);
    *m = (struct rpc_msg){0};
}

bool rpc_id_equal(const struct json *a, const struct json *b)
{
    if (!a || !b || json_type(a) != json_type(b))
        return false;
    if (json_type(a) == JSON_STRING)
        return !strcmp(json_string(a), json_string(b));
    return json_type(a) == JSON_INT && json_int(a) == json_int(b);
}

/* ---- lines ---- */

void rpc_lines_init(struct rpc_lines *l, size_t max)
{
    *l = (struct rpc_lines){.max = max};
    buf_init(&l->in, SIZE_MAX / 2);
}

void rpc_lines_done(struct rpc_lines *l)
{
    buf_done(&l->in);
}

/* Removes the lines that were taken out. */
static void shift(struct rpc_lines *l)
{
    size_t rest = l->in.len - l->at;
    if (!l->at)
        return;
    memmove(l->in.data, l->in.data + l->at, rest);
    l->in.len = rest;
    l->in.data[rest] = '\0';
    l->looked -= l->at;
    l->at = 0;
}

int rpc_lines_add(struct rpc_lines *l, const void *data, size_t len, struct err *err)
{
    shift(l);
    buf_add(&l->in, data, len);
    return l->in.failed ? err_memory(err) : 0;
}

/* The rest of a line of which the beginning is gone. True: it has ended. */
static bool drop(struct rpc_lines *l)
{
    const char *end =
        l->in.len > l->at ? memchr(l->in.data + l->at, '\n', l->in.len - l->at) : NULL;
    l->at = end ? (size_t)(end - l->in.data) + 1 : l->in.len;
    l->looked = l->at;
    l->dropping = !end;
    return end != NULL;
}

int rpc_lines_next(struct rpc_lines *l, const char **ret, size_t *ret_len)
{
    while (!l->dropping || drop(l)) {
        if (l->at == l->in.len)
            return 0;
        size_t rest = l->in.len - l->looked, len;
        const char *start = l->in.data + l->at;
        const char *end = rest ? memchr(l->in.data + l->looked, '\n', rest) : NULL;
        len = end ? (size_t)(end - start) : l->in.len - l->at;
        l->looked = end ? l->at + len + 1 : l->in.len;
        if (len > l->max) {
            l->dropping = !end;
            l->at = l->looked;
            return -E2BIG;
        }
        if (!end)
            return 0;
        l->at = l->looked;
        if (len && start[len - 1] == '\r')
            len--;
        if (!len)
            continue;
        *ret = start;
        *ret_len = len;
        return 1;
    }
    return 0;
}
