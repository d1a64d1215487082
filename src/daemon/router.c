/* Finds out which key a request shows (api_auth, with the head alone), and which handler answers it
 * (api_serve).
 *
 * A request shows one of
 *   an API key            X-API-KEY, or Authorization: Bearer: everything that belongs to it
 *   a sandbox's token     X-Access-Token: envd, the interpreter and the ports of that sandbox
 *   its traffic token     E2B-Traffic-Access-Token: its ports, and its list of contexts
 *   a signature           /files?…&signature=: that path, that direction, until it expires
 *   nothing               the ports of a sandbox whose owner asked for that (allowPublicTraffic)
 * A sandbox that is not there is 502 on envd, interpreter and port paths, whoever asks: clients
 * take that for "gone", and an id has 100 random bits. */
#include "base/text.h"
#include "daemon/api/call.h"
#include "daemon/api/sign.h"
#include "daemon/e2b/frames.h"
#include "daemon/e2b/not_offered.h"
#include "daemon/e2b/ports.h"
#include "daemon/e2b/user.h"

#include <string.h>
#include <time.h>

static const struct route *const api_tables[] = {control_routes, dify_routes,     brig_routes,
                                                 mcp_routes,     approval_routes, NULL};
static const struct route *const envd_tables[] = {process_routes, files_routes, NULL};
static const struct route *const interpreter_tables[] = {interpreter_routes, NULL};

static int target_read(const struct http_request *r, struct api_target *ret, struct err *err)
{
    const struct target_head head = {
        .host = r->host.kind == HOST_NAME ? r->host.text : NULL,
        .id = http_header_get(&r->headers, "E2b-Sandbox-Id"),
        .port = http_header_get(&r->headers, "E2b-Sandbox-Port"),
        .target = r->target,
    };
    return target_parse(&head, ret, err);
}

/* ---- who ---- */

static const struct key *key_shown(struct core *core, const struct http_request *r)
{
    static const char bearer[] = "Bearer ";
    const char *text = http_header_get(&r->headers, "X-API-KEY");
    const char *authorization = http_header_get(&r->headers, "Authorization");
    if (!text && authorization && !strncasecmp(authorization, bearer, sizeof(bearer) - 1))
        text = authorization + sizeof(bearer) - 1;
    return text ? keys_check(core_keys(core), text, strlen(text)) : NULL;
}

static bool path_is(const struct http_request *r, const char *path)
{
    size_t len = strcspn(r->target, "?");
    return len == strlen(path) && !memcmp(r->target, path, len);
}

static bool path_begins(const struct http_request *r, const char *path)
{
    return text_begins(r->target, path) && strchr("/?", r->target[strlen(path)]);
}

struct signed_query {
    struct signature signature;
    struct signature_start start;
    char text[PARAM_LEN], path[QUERY_LEN], user[PARAM_LEN], expiration[32];
};

/* False: it is malformed. */
static bool signature_read(const struct http_request *r, struct signed_query *q)
{
    int expires =
        target_query(r->target, "signature_expiration", q->expiration, sizeof(q->expiration), NULL);
    q->path[0] = q->user[0] = '\0';
    if (target_query(r->target, "signature", q->text, sizeof(q->text), NULL) <= 0 ||
        target_query(r->target, "path", q->path, sizeof(q->path), NULL) < 0 ||
        target_query(r->target, "username", q->user, sizeof(q->user), NULL) < 0 || expires < 0)
        return false;
    q->signature = (struct signature){.text = q->text,
                                      .path = q->path,
                                      .user = q->user,
                                      .write = !strcmp(r->method, "POST"),
                                      .expiration = expires ? q->expiration : NULL};
    return q->signature.write || !strcmp(r->method, "GET");
}

/* What belongs to a sandbox (its token, links, open ports) is good for as long as its key: else who
 * was shut out would go on with the sandboxes that he has. */
static bool owner_revoked(const struct box *b)
{
    const struct key *owner = box_info(b)->owner;
    return owner && owner->revoked_ms;
}

static bool signed_by(void *ctx, const struct box *b)
{
    const struct signed_query *q = ctx;
    return !owner_revoked(b) && signature_matches(&q->signature, &q->start, box_info(b)->token);
}

/* The sandbox that signed it, or NULL. `b`: the one that was named, if any was. */
static struct box *find_signer(struct core *core, const struct http_request *r, struct box *b,
                               const char **why)
{
    struct signed_query q;
    *why = "invalid signature";
    if (!signature_read(r, &q))
        return NULL;
    signature_begin(&q.signature, &q.start);
    if (!b)
        b = box_by_token(core, signed_by, &q);
    else if (!signed_by(&q, b))
        b = NULL;
    /* Only who has a link that was good once is told that it no longer is. */
    if (!b || signature_current(&q.signature, (int64_t)time(NULL)))
        return b;
    *why = "signature is already expired";
    return NULL;
}

static bool header_is_token(const struct http_request *r, const char *name, const char *token)
{
    const char *value = http_header_get(&r->headers, name);
    return value && token_equal(value, token);
}

/* May this request touch that sandbox without a key? */
static bool token_shown(const struct http_request *r, const struct api_target *target,
                        const struct box *b)
{
    const struct box_info *info = box_info(b);
    char traffic[TRAFFIC_TOKEN_LEN + 1];
    if (owner_revoked(b))
        return false;
    if (header_is_token(r, "X-Access-Token", info->token))
        return true;
    if (target->face == FACE_PORT && info->public_ports)
        return true;
    if (target->face == FACE_PORT ||
        (target->face == FACE_INTERPRETER && path_begins(r, "/contexts"))) {
        traffic_token(info->token, traffic);
        if (header_is_token(r, "E2B-Traffic-Access-Token", traffic))
            return true;
    }
    return false;
}

static int auth_sandbox(struct core *core, const struct http_request *r,
                        const struct api_target *target, struct auth *ret, int *ret_status)
{
    struct box *b = target->id[0] ? box_find_any(core, target->id) : NULL, *allowed = NULL;
    const struct key *key;
    *ret_status = 502;
    if (target->id[0] && !b) {
        if (ret->is_port)
            ret->why = PORTS_NO_SANDBOX;
        return -1;
    }
    *ret_status = ret->is_port ? 403 : 401;
    if (b && token_shown(r, target, b)) {
        allowed = b;
    } else if (b && (key = key_shown(core, r))) {
        ret->by = key;
        /* A sandbox of another key: answer as if it did not exist. */
        *ret_status = 502;
        ret->why = ret->is_port ? PORTS_NO_SANDBOX : NULL;
        allowed = box_find(core, key, target->id);
    } else if (ret->is_port) {
        ret->why = http_header_get(&r->headers, "E2B-Traffic-Access-Token")
                       ? "the e2b-traffic-access-token header is invalid"
                       : "the e2b-traffic-access-token header is missing: this port is private";
    } else if (http_header_get(&r->headers, "X-Access-Token")) {
        ret->why = "access token present in header but does not match";
    } else if (target->is_signed) {
        allowed = find_signer(core, r, b, &ret->why);
    } else if (target->face == FACE_ENVD && path_is(r, "/files")) {
        ret->why = "missing signature query parameter, or X-Access-Token";
    }
    if (!allowed)
        return -1;
    ret->key = box_info(allowed)->owner;
    if (!ret->by)
        ret->by = ret->key;
    memcpy(ret->box, box_info(allowed)->id, sizeof ret->box);
    return 0;
}

static int authenticate(struct core *core, const struct http_request *r, struct auth *ret,
                        int *ret_status)
{
    struct api_target target;
    *ret = (struct auth){0};
    *ret_status = 400;
    if (!r->target || target_read(r, &target, NULL) < 0)
        return -1;
    ret->face = (unsigned)target.face;
    ret->port = target.port;
    ret->is_port = target.face == FACE_PORT;
    memcpy(ret->id, target.id, sizeof(ret->id));
    if (target.face != FACE_API)
        return auth_sandbox(core, r, &target, ret, ret_status);
    *ret_status = 401;
    if (!strcmp(r->method, "GET") && path_is(r, "/health")) {
        ret->anonymous = true;
        return 0;
    }
    ret->key = ret->by = key_shown(core, r);
    return ret->key ? 0 : -1;
}

int api_auth(void *ctx, const struct http_request *r, struct auth *ret, int *ret_status)
{
    int result = authenticate(ctx, r, ret, ret_status);
    if (result < 0 && (*ret_status == 401 || *ret_status == 403))
        strangers_seen(ctx);
    return result;
}

/* ---- which handler ---- */

/* NULL: none. *ret_path: there is one, but for another method. */
static const struct route *route_find(const struct route *const *tables, const char *method,
                                      const char *path, struct params *params, bool *ret_path)
{
    *ret_path = false;
    for (; *tables; tables++) {
        for (const struct route *r = *tables; r->method; r++) {
            if (!path_match(r->path, path, params))
                continue;
            *ret_path = true;
            if (!strcmp(r->method, method))
                return r;
        }
    }
    return NULL;
}

static const struct route *const *tables_of(enum face face)
{
    return face == FACE_API ? api_tables : face == FACE_ENVD ? envd_tables : interpreter_tables;
}

static const struct route port_route = {
    .method = "*", .path = "*", .style = ERRORS_PORT, .fn = ports_serve};

static void refuse(struct exchange *x, enum face face, bool other_method)
{
    const char *instead = face == FACE_INTERPRETER ? NULL : not_offered(exchange_path(x));
    exchange_set_style(x, face == FACE_INTERPRETER ? ERRORS_TEXT : ERRORS_API);
    if (instead)
        exchange_fail(x, 501, "%s", instead);
    else if (other_method)
        exchange_fail(x, 405, "%s is not offered for this path", exchange_request(x)->method);
    else
        exchange_fail(x, 404, "there is no %.200s here", exchange_path(x));
}

static void serve(struct call *call)
{
    const struct route *route = call->route;
    if (!route->body)
        route->fn(call);
    else if (route->style == ERRORS_CONNECT_STREAM)
        frames_json(call, route->body);
    else
        call_json(call, route->body);
}

static void woken(void *ctx, const struct err *err)
{
    struct call *call = ctx;
    if (!call_back(call))
        return;
    if (err)
        call_fail(call, 502, "%s", err->message);
    else
        serve(call);
}

/* A sandbox whose owner asked for that goes on when a request comes for it. */
static void wake_and_serve(struct call *call, struct box *b)
{
    call_wait(call);
    box_wake(b, woken, call);
}

static void dispatch(struct core *core, struct exchange *x, const struct route *route,
                     const struct params *params)
{
    const struct auth *auth = exchange_auth(x);
    struct call *call;
    exchange_set_style(x, route->style);
    if (route->operator_only && !(auth->key && auth->key->operator_key)) {
        core_count(core, COUNT_REFUSED, 1);
        exchange_fail(x, 403, "this needs an operator key");
        return;
    }
    call = call_new(core, x, route);
    if (!call) {
        exchange_fail(x, 503, ERR_MEMORY_TEXT);
        return;
    }
    call->params = *params;
    call->port = auth->port;
    memcpy(call->id, auth->box, sizeof(call->id));
    struct box *b = auth->box[0] ? box_find_any(core, auth->box) : NULL;
    if (b && auth->face == FACE_ENVD && !user_given(call, b))
        core_count(core, COUNT_REFUSED, 1);
    else if (b && auth->face != FACE_API && box_info(b)->auto_resume)
        wake_and_serve(call, b);
    else
        serve(call);
}

void api_serve(void *ctx, struct exchange *x)
{
    struct core *core = ctx;
    const enum face face = (enum face)exchange_auth(x)->face;
    struct params params = {0};
    bool other_method = false;
    const struct route *route = &port_route;
    core_count(core, COUNT_REQUESTS, 1);
    if (face != FACE_PORT)
        route = route_find(tables_of(face), exchange_request(x)->method, exchange_path(x), &params,
                           &other_method);
    if (route)
        dispatch(core, x, route, &params);
    else
        refuse(x, face, other_method);
}

void api_print_routes(struct buf *out)
{
    static const struct route *const all[] = {control_routes,     process_routes, files_routes,
                                              interpreter_routes, dify_routes,    brig_routes,
                                              mcp_routes,         approval_routes};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        for (const struct route *r = all[i]; r->method; r++)
            buf_fmt(out, "%s %s\n", r->method, r->path);
}
