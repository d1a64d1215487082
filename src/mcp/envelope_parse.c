/* Eras and headers: see envelope.h. */
#include "mcp/envelope.h"

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/text.h"

#include <string.h>

#define META_VERSION      "io.modelcontextprotocol/protocolVersion"
#define META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"
#define META_CLIENT       "io.modelcontextprotocol/clientInfo"
#define SENTINEL          "=?base64?"
#define SENTINEL_END      "?="

static const char *const legacy_versions[] = {MCP_LEGACY_NEWEST, "2025-06-18", "2025-03-26",
                                              "2024-11-05"};

bool envelope_legacy_known(const char *version)
{
    for (size_t i = 0; i < ARRAY_LEN(legacy_versions); i++)
        if (!strcmp(version, legacy_versions[i]))
            return true;
    return false;
}

const char *envelope_negotiate(const char *asked)
{
    for (size_t i = 0; asked && i < ARRAY_LEN(legacy_versions); i++)
        if (!strcmp(asked, legacy_versions[i]))
            return legacy_versions[i];
    return MCP_LEGACY_NEWEST;
}

/* A date of the era that has no handshake. */
static bool is_modern(const char *version)
{
    return version && strlen(version) == strlen(MCP_MODERN) && version[0] == '2' &&
           strcmp(version, MCP_MODERN) >= 0;
}

static int refuse(struct mcp_envelope *e, int code, struct err *err, const char *text)
{
    e->status = 400;
    e->code = code;
    return err_set(err, ERR_PROTOCOL, "%s", text);
}

static bool is_type(const struct json *j, enum json_type type)
{
    return j && json_type(j) == type;
}

/* ---- the body ---- */

static const struct json *meta_of(const struct rpc_msg *m)
{
    const struct json *meta = m->params ? json_get(m->params, "_meta") : NULL;
    return is_type(meta, JSON_OBJECT) ? meta : NULL;
}

static int check_meta(const struct rpc_msg *m, const struct json *meta, struct mcp_envelope *e,
                      struct err *err)
{
    const struct json *client = json_get(meta, META_CLIENT);
    if (!is_type(json_get(meta, META_VERSION), JSON_STRING))
        return refuse(e, RPC_INVALID_PARAMS, err, "_meta: " META_VERSION " must be a string");
    if (m->kind == RPC_NOTIFICATION)
        return 0;
    if (!is_type(json_get(meta, META_CAPABILITIES), JSON_OBJECT))
        return refuse(e, RPC_INVALID_PARAMS, err, "_meta: " META_CAPABILITIES " must be an object");
    if (client && json_type(client) != JSON_OBJECT)
        return refuse(e, RPC_INVALID_PARAMS, err, "_meta: " META_CLIENT " must be an object");
    return 0;
}

const char *envelope_name(const struct rpc_msg *m)
{
    const char *field = !m->method                             ? NULL
                        : !strcmp(m->method, "tools/call")     ? "name"
                        : !strcmp(m->method, "prompts/get")    ? "name"
                        : !strcmp(m->method, "resources/read") ? "uri"
                                                               : NULL;
    const struct json *value = field && m->params ? json_get(m->params, field) : NULL;
    return is_type(value, JSON_STRING) ? json_string(value) : NULL;
}

/* ---- the headers ---- */

static bool is_plain(const char *name)
{
    for (const char *c = name; *c; c++)
        if (*c <= ' ' || *c > '~')
            return false;
    return *name && !text_begins(name, SENTINEL);
}

void envelope_name_write(struct buf *out, const char *name)
{
    if (is_plain(name)) {
        buf_str(out, name);
        return;
    }
    buf_str(out, SENTINEL);
    base64_encode(name, strlen(name), out);
    buf_str(out, SENTINEL_END);
}

/* The header names this, plainly or encoded? */
static bool names(const char *header, const char *name)
{
    struct buf plain cleanup_buf = {0};
    size_t len = strlen(header), start = strlen(SENTINEL), end = strlen(SENTINEL_END);
    if (len < start + end || strncmp(header, SENTINEL, start) != 0 ||
        strcmp(header + len - end, SENTINEL_END) != 0)
        return !strcmp(header, name);
    buf_init(&plain, len);
    return base64_decode(header + start, len - start - end, &plain, NULL) == 0 && !plain.failed &&
           plain.len == strlen(name) && !memcmp(buf_text(&plain), name, plain.len);
}

static int check_method(const struct rpc_msg *m, const struct mcp_head *h, struct mcp_envelope *e,
                        struct err *err)
{
    if (h->method && strcmp(h->method, m->method) != 0)
        return refuse(e, RPC_HEADER_MISMATCH, err, "Mcp-Method is not the body's method");
    return 0;
}

static int check_present(const struct rpc_msg *m, const struct mcp_head *h, struct mcp_envelope *e,
                         struct err *err)
{
    const char *name = envelope_name(m);
    if (!h->version)
        return refuse(e, RPC_HEADER_MISMATCH, err, "the header MCP-Protocol-Version is missing");
    if (!h->method)
        return refuse(e, RPC_HEADER_MISMATCH, err, "the header Mcp-Method is missing");
    if (name && !h->name)
        return refuse(e, RPC_HEADER_MISMATCH, err, "the header Mcp-Name is missing");
    if (name && !names(h->name, name))
        return refuse(e, RPC_HEADER_MISMATCH, err, "Mcp-Name is not what the body names");
    return 0;
}

/* ---- both ---- */

static int read_modern(const struct rpc_msg *m, const struct mcp_head *h, const struct json *meta,
                       struct mcp_envelope *e, struct err *err)
{
    const char *claimed;
    if (check_meta(m, meta, e, err) < 0)
        return err_number(err);
    claimed = json_text(meta, META_VERSION);
    if (h->version && strcmp(h->version, claimed) != 0)
        return refuse(e, RPC_HEADER_MISMATCH, err,
                      "MCP-Protocol-Version is not the version in the body's _meta");
    if (check_method(m, h, e, err) < 0)
        return err_number(err);
    if (strcmp(claimed, MCP_MODERN) != 0) {
        e->requested = claimed;
        return refuse(e, RPC_UNSUPPORTED_VERSION, err, "this protocol version is not offered");
    }
    e->era = MCP_ERA_MODERN;
    return m->kind == RPC_REQUEST ? check_present(m, h, e, err) : 0;
}

/* Only the HTTP head says that the request is of the modern era; the body does not. */
static int read_headed(const struct rpc_msg *m, const struct mcp_head *h, struct mcp_envelope *e,
                       struct err *err)
{
    e->era = MCP_ERA_MODERN;
    if (m->kind == RPC_NOTIFICATION)
        return check_method(m, h, e, err);
    return refuse(e, RPC_INVALID_PARAMS, err,
                  "a request of this protocol version must have " META_VERSION
                  " and " META_CAPABILITIES " in params._meta");
}

static int read_legacy(const struct mcp_head *h, struct mcp_envelope *e, struct err *err)
{
    e->era = MCP_ERA_LEGACY;
    if (h->version && !envelope_legacy_known(h->version))
        return refuse(e, RPC_INVALID_REQUEST, err, "MCP-Protocol-Version names no known version");
    return 0;
}

static void read_progress(const struct json *meta, struct mcp_envelope *e)
{
    const struct json *token = meta ? json_get(meta, "progressToken") : NULL;
    if (is_type(token, JSON_INT) ||
        (is_type(token, JSON_STRING) && strlen(json_string(token)) <= RPC_ID_MAX))
        e->progress = token;
}

/* The handshake stays the handshake unless it says clearly that it is none. */
static bool claims_modern(const struct rpc_msg *m, const struct json *meta)
{
    const struct json *claim = meta ? json_get(meta, META_VERSION) : NULL;
    if (m->kind == RPC_REQUEST && !strcmp(m->method, "initialize"))
        return is_type(claim, JSON_STRING) && is_modern(json_string(claim));
    return claim != NULL;
}

int envelope_read(const struct rpc_msg *m, const struct mcp_head *head, struct mcp_envelope *ret,
                  struct err *err)
{
    const struct json *meta = meta_of(m);
    *ret = (struct mcp_envelope){0};
    read_progress(meta, ret);
    if (claims_modern(m, meta))
        return read_modern(m, head, meta, ret, err);
    if (!is_modern(head->version))
        return read_legacy(head, ret, err);
    if (m->kind == RPC_REQUEST && !strcmp(m->method, "initialize"))
        return refuse(ret, RPC_HEADER_MISMATCH, err,
                      "initialize belongs to the versions up to " MCP_LEGACY_NEWEST);
    return read_headed(m, head, ret, err);
}
