/* One request and its answer: its life, and what a handler may ask about it. */
#include "daemon/server/connection.h"
#include "http/query.h"

#include <stdlib.h>
#include <string.h>

struct exchange *exchange_new(struct connection *c, struct http_request *r)
{
    struct exchange *x = calloc(1, sizeof *x);
    if (!x)
        return NULL;
    x->c = c;
    x->request = *r;
    *r = (struct http_request){0};
    x->head_only = !strcmp(x->request.method, "HEAD");
    x->continue_due =
        x->request.expects_continue && (x->request.body == BODY_CHUNKED || x->request.length > 0);
    return x;
}

void exchange_free(struct exchange *x)
{
    struct connection *c = x->c;
    c->x = NULL;
    if (x->streaming)
        account_return(x->account, ACCOUNT_STREAMS, 1);
    if (x->counted)
        account_return(x->account, ACCOUNT_CONNECTIONS, 1);
    http_headers_done(&x->extra);
    http_request_done(&x->request);
    free(x->path);
    hold_done(&x->hold);
    free(x);
    if (c->phase == PHASE_DEAD)
        connection_later(c);
    else
        connection_answered(c);
}

void exchange_leave(struct exchange *x)
{
    bool was_reading = x->reading;
    void (*gone)(void *ctx) = x->gone;
    if (x->leaving)
        return;
    x->leaving = true;
    x->reading = false;
    x->gone = NULL;
    if (was_reading)
        x->stream_done(x->body_ctx, false);
    if (gone)
        gone(x->ctx);
    if (gone || was_reading)
        exchange_free(x);
    else
        x->leaving = false; /* something else is under way that will end it */
}

void exchange_on(struct exchange *x, void (*writable)(void *ctx), void (*gone)(void *ctx),
                 void *ctx)
{
    x->writable = writable;
    x->gone = gone;
    x->ctx = ctx;
    if (x->over && gone)
        connection_later(x->c);
}

const struct http_request *exchange_request(const struct exchange *x)
{
    return &x->request;
}

const struct auth *exchange_auth(const struct exchange *x)
{
    return &x->auth;
}

struct account *exchange_account(const struct exchange *x)
{
    return x->account;
}

const char *exchange_header(const struct exchange *x, const char *name)
{
    return http_header_get(&x->request.headers, name);
}

void exchange_add_header(struct exchange *x, const char *name, const char *value)
{
    http_header_add(&x->extra, name, value, NULL);
}

void exchange_set_style(struct exchange *x, enum error_style style)
{
    x->style = style;
}

/* Decodes path and query, or neither: a target with one malformed part names nothing. */
static void decode_target(struct exchange *x)
{
    const char *target = x->request.target;
    size_t path = strcspn(target, "?");
    struct query query = {0};
    x->target_known = true;
    x->path = malloc(path + 1);
    if (!x->path)
        return;
    if (path_decode(target, path, x->path, NULL) < 0 ||
        (target[path] &&
         query_parse(target + path + 1, strlen(target + path + 1), &query, NULL) < 0))
        x->path[0] = '\0';
    query_done(&query);
}

/* Decodes on first use and keeps the result behind the const pointer. */
const char *exchange_path(const struct exchange *x)
{
    struct exchange *own = x->c->x;
    if (!own->target_known)
        decode_target(own);
    return own->path ? own->path : "";
}
