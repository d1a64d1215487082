/* Messages written anew from what was read. */
#include "mcp/wrap_internal.h"

#include <string.h>

static void begin(struct json_writer *w, struct buf *out, const struct rpc_msg *m)
{
    jw_init(w, out, false);
    jw_object_begin(w);
    jw_kv_string(w, "jsonrpc", "2.0");
    if (m->id) {
        jw_key(w, "id");
        jw_json(w, m->id);
    }
    if (m->method)
        jw_kv_string(w, "method", m->method);
}

static void end(struct json_writer *w)
{
    jw_object_end(w);
    wrap_line_end(w->out);
}

static void member(struct json_writer *w, const char *key, const struct json *value)
{
    if (!value)
        return;
    jw_key(w, key);
    jw_json(w, value);
}

void wrap_write(struct buf *out, const struct rpc_msg *m)
{
    struct json_writer w;
    begin(&w, out, m);
    member(&w, "params", m->params);
    member(&w, "result", m->result);
    member(&w, "error", m->error);
    end(&w);
}

/* ---- what the client can do, as far as the server may ask for it ---- */

static bool is_cut(const struct tools *tools, const char *capability)
{
    for (unsigned i = 0; i < CALLBACK_COUNT; i++) {
        if (strcmp(capability, tool_callback_name(i)) == 0)
            return !(tools->callbacks & 1u << i);
    }
    return false;
}

static void write_capabilities(struct json_writer *w, const struct tools *tools,
                               const struct json *capabilities)
{
    if (json_type(capabilities) != JSON_OBJECT) {
        jw_json(w, capabilities);
        return;
    }
    jw_object_begin(w);
    for (size_t i = 0; i < json_count(capabilities); i++) {
        if (!is_cut(tools, json_key_at(capabilities, i)))
            member(w, json_key_at(capabilities, i), json_value_at(capabilities, i));
    }
    jw_object_end(w);
}

static void write_meta(struct json_writer *w, const struct tools *tools, const struct json *meta)
{
    if (json_type(meta) != JSON_OBJECT) {
        jw_json(w, meta);
        return;
    }
    jw_object_begin(w);
    for (size_t i = 0; i < json_count(meta); i++) {
        const char *key = json_key_at(meta, i);
        jw_key(w, key);
        if (strcmp(key, "io.modelcontextprotocol/clientCapabilities") == 0)
            write_capabilities(w, tools, json_value_at(meta, i));
        else
            jw_json(w, json_value_at(meta, i));
    }
    jw_object_end(w);
}

static void write_params(struct json_writer *w, const struct tools *tools, const struct rpc_msg *m)
{
    bool first = strcmp(m->method, "initialize") == 0;
    jw_object_begin(w);
    for (size_t i = 0; i < json_count(m->params); i++) {
        const char *key = json_key_at(m->params, i);
        const struct json *value = json_value_at(m->params, i);
        jw_key(w, key);
        if (strcmp(key, "_meta") == 0)
            write_meta(w, tools, value);
        else if (first && strcmp(key, "capabilities") == 0)
            write_capabilities(w, tools, value);
        else
            jw_json(w, value);
    }
    jw_object_end(w);
}

void wrap_write_to_server(struct wrap *wrap, const struct rpc_msg *m)
{
    struct json_writer w;
    begin(&w, &wrap->to_server, m);
    if (m->params) {
        jw_key(&w, "params");
        write_params(&w, wrap->tools, m);
    }
    end(&w);
}

/* ---- the list of tools ---- */

static const char *name_of(const struct json *tool)
{
    const struct json *name = json_type(tool) == JSON_OBJECT ? json_get(tool, "name") : NULL;
    return name && json_type(name) == JSON_STRING ? json_string(name) : NULL;
}

/* A name that comes twice is shown once. */
static bool is_first(const struct json *tools, size_t i, const char *name)
{
    for (size_t k = 0; k < i; k++) {
        const char *other = name_of(json_at(tools, k));
        if (other && strcmp(other, name) == 0)
            return false;
    }
    return true;
}

static void write_tools(struct wrap *wrap, struct json_writer *w, const struct json *tools)
{
    jw_array_begin(w);
    for (size_t i = 0; i < json_count(tools); i++) {
        const char *name = name_of(json_at(tools, i));
        if (name && tools_shows(wrap->tools, name) && is_first(tools, i, name))
            jw_json(w, json_at(tools, i));
    }
    jw_array_end(w);
}

void wrap_write_list(struct wrap *wrap, const struct rpc_msg *m)
{
    struct json_writer w;
    const struct json *tools = json_get(m->result, "tools");
    if (!tools || json_type(tools) != JSON_ARRAY || json_count(tools) > WRAP_TOOLS_MAX) {
        wrap_dropped(wrap,
                     "the server answered tools/list without a list of tools that can be taken");
        wrap_error(&wrap->to_client, m->id, RPC_INTERNAL_ERROR,
                   "the server's answer has no list of tools, or one that is too long");
        return;
    }
    begin(&w, &wrap->to_client, m);
    jw_key(&w, "result");
    jw_object_begin(&w);
    for (size_t i = 0; i < json_count(m->result); i++) {
        const char *key = json_key_at(m->result, i);
        jw_key(&w, key);
        if (strcmp(key, "tools") == 0)
            write_tools(wrap, &w, tools);
        else
            jw_json(&w, json_value_at(m->result, i));
    }
    jw_object_end(&w);
    end(&w);
}
