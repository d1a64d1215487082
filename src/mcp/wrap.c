/* Keeps account of requests that wait for an answer, of the client's and of the server's. */
#include "base/cleanup.h"
#include "base/quote.h"
#include "mcp/wrap_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void wrap_init(struct wrap *w, const struct tools *tools, const struct wrap_hooks *hooks)
{
    *w = (struct wrap){.tools = tools, .hooks = *hooks};
    buf_init(&w->to_client, 8 * (size_t)RPC_BYTES_MAX);
    buf_init(&w->to_server, 8 * (size_t)RPC_BYTES_MAX);
}

static void call_free(struct wrap_call *c)
{
    rpc_msg_done(&c->held);
    free(c->id);
    free(c->token);
}

void wrap_done(struct wrap *w)
{
    for (size_t i = 0; i < w->call_count; i++)
        call_free(&w->calls[i]);
    for (size_t i = 0; i < w->asked_count; i++)
        free(w->asked[i]);
    free(w->calls);
    free(w->asked);
    buf_done(&w->to_client);
    buf_done(&w->to_server);
}

char *wrap_text_of(const struct json *j)
{
    cleanup_buf struct buf text;
    struct json_writer w;
    buf_init(&text, 8 * RPC_ID_MAX);
    jw_init(&w, &text, false);
    jw_json(&w, j);
    return text.failed ? NULL : strdup(buf_text(&text));
}

struct wrap_call *wrap_call_find(struct wrap *w, const struct json *id)
{
    cleanup_free char *text = wrap_text_of(id);
    for (size_t i = 0; text && i < w->call_count; i++) {
        if (strcmp(w->calls[i].id, text) == 0)
            return &w->calls[i];
    }
    return NULL;
}

/* A token is a string or a whole number, like an id. */
static const struct json *token_of(const struct rpc_msg *m)
{
    const struct json *meta = m->params ? json_get(m->params, "_meta") : NULL;
    const struct json *token = meta ? json_get(meta, "progressToken") : NULL;
    return token && (json_type(token) == JSON_STRING || json_type(token) == JSON_INT) ? token
                                                                                      : NULL;
}

bool wrap_is_modern(const struct rpc_msg *m)
{
    const struct json *meta = m->params ? json_get(m->params, "_meta") : NULL;
    return meta && json_get(meta, "io.modelcontextprotocol/protocolVersion");
}

struct wrap_call *wrap_call_add(struct wrap *w, const struct rpc_msg *m, enum wrap_method method)
{
    struct wrap_call c = {.method = method, .modern = wrap_is_modern(m)};
    const struct json *token = token_of(m);
    if (w->call_count == WRAP_CALLS_MAX)
        return NULL;
    struct wrap_call *more = realloc(w->calls, (w->call_count + 1) * sizeof *more);
    if (!more)
        return NULL;
    w->calls = more;
    c.id = wrap_text_of(m->id);
    c.token = token ? wrap_text_of(token) : NULL;
    if (!c.id || (token && !c.token)) {
        call_free(&c);
        return NULL;
    }
    w->calls[w->call_count] = c;
    return &w->calls[w->call_count++];
}

void wrap_call_drop(struct wrap *w, struct wrap_call *call)
{
    call_free(call);
    *call = w->calls[--w->call_count];
}

bool wrap_asked_find(const struct wrap *w, const struct json *id, size_t *ret)
{
    cleanup_free char *text = wrap_text_of(id);
    for (size_t i = 0; text && i < w->asked_count; i++) {
        if (strcmp(w->asked[i], text) == 0) {
            *ret = i;
            return true;
        }
    }
    return false;
}

int wrap_asked_add(struct wrap *w, const struct json *id)
{
    if (w->asked_count == WRAP_ASKED_MAX)
        return -ERR_LIMIT;
    char **more = realloc(w->asked, (w->asked_count + 1) * sizeof *more);
    char *text = more ? wrap_text_of(id) : NULL;
    if (more)
        w->asked = more;
    if (!text)
        return -ERR_SYSTEM;
    w->asked[w->asked_count++] = text;
    return 0;
}

void wrap_asked_drop(struct wrap *w, size_t i)
{
    free(w->asked[i]);
    w->asked[i] = w->asked[--w->asked_count];
}

void wrap_dropped(struct wrap *w, const char *fmt, ...)
{
    char text[700];
    va_list ap;
    w->dropped++;
    if (w->notes++ >= WRAP_NOTES_MAX || !w->hooks.note)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    w->hooks.note(w->hooks.ctx, text);
}

bool wrap_word_in(const char *word, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(words[i], word) == 0)
            return true;
    }
    return false;
}

unsigned wrap_callback_of(const char *method)
{
    if (strcmp(method, "roots/list") == 0)
        return CALLBACK_ROOTS;
    if (strcmp(method, "sampling/createMessage") == 0)
        return CALLBACK_SAMPLING;
    return strcmp(method, "elicitation/create") == 0 ? CALLBACK_ELICITATION : 0;
}

void wrap_line_end(struct buf *out)
{
    buf_chr(out, '\n');
}

void wrap_error(struct buf *out, const struct json *id, int code, const char *fmt, ...)
{
    char text[700];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    rpc_write_error(out, id, code, text, NULL);
    wrap_line_end(out);
}

bool wrap_owes(const struct wrap *w)
{
    return w->call_count > 0;
}
