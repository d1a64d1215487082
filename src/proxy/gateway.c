/* The gateway: a request to http://brig.proxy/ with X-Forward-To becomes a request to that URL.
 * From then on it is like any other. */
#include "http/url.h"
#include "proxy/session.h"

#include <stdlib.h>
#include <string.h>

#define GATEWAY_HOST "brig.proxy"
#define GATEWAY_PORT 80

bool gateway_is_meant(const struct session *s, const struct http_request *r)
{
    const struct host *host = r->form == FORM_ABSOLUTE ? &r->url.host : &r->host;
    uint16_t port = r->form == FORM_ABSOLUTE ? r->url.port : r->port;
    if (s->has_fixed || r->form == FORM_AUTHORITY || strcmp(host->text, GATEWAY_HOST) != 0)
        return false;
    return !port || port == GATEWAY_PORT;
}

/* The one header of this name, or NULL. */
static const char *take_one(const struct http_request *r, const char *name)
{
    return http_header_count(&r->headers, name) == 1 ? http_header_get(&r->headers, name) : NULL;
}

static int set_method(struct http_request *r, struct err *err)
{
    const char *method = take_one(r, "X-Forward-Method");
    if (!http_header_count(&r->headers, "X-Forward-Method"))
        return 0;
    if (!method || !method[0] || strlen(method) >= sizeof(r->method) ||
        strspn(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != strlen(method) ||
        !strcmp(method, "CONNECT"))
        return err_set(err, ERR_PROTOCOL, "X-Forward-Method is not a method");
    memset(r->method, 0, sizeof(r->method));
    memcpy(r->method, method, strlen(method));
    /* "Content-Length: 0" is how a client posts nothing; a GET has no body at all. */
    if (r->body == BODY_LENGTH && !r->length && strcmp(method, "POST") != 0)
        r->body = BODY_NONE;
    return 0;
}

static int set_target(struct http_request *r, const struct url *u, struct err *err)
{
    struct buf target;
    buf_init(&target, HTTP_TARGET_MAX);
    if (!u->path_len)
        buf_chr(&target, '/');
    buf_add(&target, u->path, u->path_len);
    if (u->query) {
        buf_chr(&target, '?');
        buf_add(&target, u->query, u->query_len);
    }
    if (target.failed) {
        buf_done(&target);
        return err_set(err, ERR_LIMIT, "X-Forward-To is too long");
    }
    free(r->target);
    r->target = target.data;
    return 0;
}

int gateway_resolve(struct http_request *r, struct target *t, struct err *err)
{
    struct url u;
    const char *to = take_one(r, "X-Forward-To");
    if (!to) {
        err_set(err, ERR_PROTOCOL, "the gateway needs one X-Forward-To header with a URL");
        err_hint(err, "curl -H 'X-Forward-To: https://HOST/PATH' http://brig.proxy/");
        return err_number(err);
    }
    if (strcmp(r->target, "/") != 0)
        return err_set(err, ERR_PROTOCOL, "the gateway has one path, /");
    if (url_parse(to, strlen(to), &u, err) < 0)
        return err_wrap(err, "X-Forward-To");
    if (set_method(r, err) < 0 || set_target(r, &u, err) < 0)
        return err_number(err);
    t->scheme = u.scheme;
    t->host = u.host;
    t->port = u.port;
    http_header_remove(&r->headers, "X-Forward-To");
    http_header_remove(&r->headers, "X-Forward-Method");
    return 0;
}
