/* Writing JSON-RPC: see rpc.h. */
#include "mcp/rpc.h"

static void begin(struct json_writer *w, const struct json *id)
{
    jw_object_begin(w);
    jw_kv_string(w, "jsonrpc", "2.0");
    if (!id)
        return;
    jw_key(w, "id");
    jw_json(w, id);
}

void rpc_result_begin(struct json_writer *w, const struct json *id)
{
    begin(w, id);
    jw_key(w, "result");
}

void rpc_notification_begin(struct json_writer *w, const char *method)
{
    rpc_request_begin(w, NULL, method);
}

void rpc_request_begin(struct json_writer *w, const struct json *id, const char *method)
{
    begin(w, id);
    jw_kv_string(w, "method", method);
    jw_key(w, "params");
}

void rpc_end(struct json_writer *w)
{
    jw_object_end(w);
}

void rpc_write_error(struct buf *out, const struct json *id, int code, const char *message,
                     const struct json *data)
{
    struct json_writer w;
    jw_init(&w, out, false);
    begin(&w, id);
    if (!id) {
        jw_key(&w, "id");
        jw_null(&w);
    }
    jw_key(&w, "error");
    jw_object_begin(&w);
    jw_kv_int(&w, "code", code);
    jw_kv_string(&w, "message", message);
    if (data) {
        jw_key(&w, "data");
        jw_json(&w, data);
    }
    jw_object_end(&w);
    jw_object_end(&w);
}
