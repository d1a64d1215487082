/* One request on its way through a handler: see call.h. */
#include "daemon/api/call.h"

#include "base/clock.h"
#include "base/container.h"
#include "os/loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TURN_US 2000u       /* then others have theirs */
#define PIECE   (32u << 10) /* of a body, read in one go */

static const struct json_limits body_limits = {
    .max_bytes = CALL_JSON_MAX, .max_depth = 32, .max_nodes = 65536, .max_key = 64u << 10};

static void on_turn(struct loop_timer *t);

static void call_free(struct loop_task *t)
{
    struct call *call = container_of(t, struct call, release);
    call_forget_body(call);
    hold_done(&call->hold);
    free(call);
}

struct call *call_new(struct core *core, struct exchange *x, const struct route *route)
{
    struct call *call = calloc(1, sizeof(*call));
    if (!call)
        return NULL;
    call->core = core;
    call->x = x;
    call->route = route;
    call->key = exchange_auth(x)->key;
    call->release.fn = call_free;
    hold_init(&call->hold, exchange_account(x));
    call->turn = (struct loop_timer){.fn = on_turn, .share = account_share(call->hold.account)};
    return call;
}

/* Later: a handler that answers in a callback, and whoever called it, may still hold the call. */
static void call_release(struct call *call)
{
    if (call->x || call->pending || call->released)
        return;
    call->released = true;
    loop_defer(core_loop(call->core), &call->release);
}

void call_ended(struct call *call)
{
    call->x = NULL;
    call_release(call);
}

void call_end(struct call *call)
{
    exchange_end(call->x);
    call_ended(call);
}

void call_abort(struct call *call)
{
    exchange_abort(call->x);
    call_ended(call);
}

/* Whether or not it came to its end. */
static void parser_done(struct call *call)
{
    json_parser_free(call->parser);
    call->parser = NULL;
    hold_sub(&call->hold, call->parsed);
    call->parsed = 0;
}

void call_forget_body(struct call *call)
{
    parser_done(call);
    hold_sub(&call->hold, json_memory(call->json));
    json_free(call->json);
    call->json = NULL;
    /* There may be secrets of a client's in it: variables, headers. */
    if (call->body.data)
        explicit_bzero(call->body.data, call->body.len);
    buf_done(&call->body);
}

void call_buf(struct call *call, struct buf *b, size_t cap)
{
    buf_init_metered(b, cap, &call->hold.meter);
}

static void client_gone(void *ctx)
{
    struct call *call = ctx;
    call->x = NULL;
    if (call->on_gone)
        call->on_gone(call);
    else
        call_release(call);
}

static void client_writable(void *ctx)
{
    struct call *call = ctx;
    if (call->on_writable)
        call->on_writable(call);
}

void call_watch(struct call *call)
{
    exchange_on(call->x, client_writable, client_gone, call);
}

void call_unwatch(struct call *call)
{
    exchange_on(call->x, client_writable, NULL, call);
}

void call_wait(struct call *call)
{
    call->pending++;
}

bool call_back(struct call *call)
{
    call->pending--;
    if (call->x)
        return true;
    call_release(call);
    return false;
}

bool call_came(struct call *call, const struct err *err)
{
    if (!call_back(call))
        return false;
    if (err)
        call_fail_err(call, err);
    return !err;
}

void call_empty(struct call *call, int status)
{
    call_text(call, status, NULL, "", 0);
}

void call_text(struct call *call, int status, const char *type, const char *body, size_t len)
{
    if (!call->x)
        return;
    exchange_reply(call->x, status, type, body, len);
    call_ended(call);
}

void call_fail(struct call *call, int status, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (!call->x)
        return;
    exchange_fail(call->x, status, "%s", text);
    call_ended(call);
}

void call_fail_err(struct call *call, const struct err *err)
{
    if (!call->x)
        return;
    exchange_fail_err(call->x, err);
    call_ended(call);
}

void call_fail_memory(struct call *call)
{
    struct err err = ERR_INIT;
    err_memory(&err);
    call_fail_err(call, &err);
}

void call_reply(struct call *call, int status, struct buf *json)
{
    struct err err = ERR_INIT;
    if (json->failed && hold_refusal(&call->hold, &err) < 0)
        call_fail_err(call, &err);
    else if (json->failed)
        call_fail(call, 500, "the answer is too long");
    else
        call_text(call, status, "application/json", buf_text(json), json->len);
}

void call_done(void *ctx, const struct err *err)
{
    struct call *call = ctx;
    if (call_came(call, err))
        call_empty(call, 204);
}

void call_answered(void *ctx, const char *json, size_t len, const struct err *err)
{
    struct call *call = ctx;
    if (call_came(call, err))
        call_text(call, 200, "application/json", json, len);
}

/* ---- the body ---- */

static size_t body_take(void *ctx, const char *data, size_t len)
{
    struct call *call = ctx;
    struct err err = ERR_INIT;
    buf_add(&call->body, data, len);
    if (call->body.failed && hold_refusal(&call->hold, &err) < 0)
        call_fail_err(call, &err);
    else if (call->body.failed)
        call_fail(call, 413, "the body is longer than %zu bytes", call->body.cap);
    return len;
}

static void body_done(void *ctx, bool good)
{
    struct call *call = ctx;
    if (!good) {
        call_ended(call);
        return;
    }
    call_watch(call);
    call->on_body(call, buf_text(&call->body), call->body.len);
}

void call_body(struct call *call, size_t cap,
               void (*fn)(struct call *call, const char *data, size_t len))
{
    const struct http_request *r = exchange_request(call->x);
    if (r->body == BODY_LENGTH && r->length > cap) {
        call_fail(call, 413, "the body is longer than %zu bytes", cap);
        return;
    }
    call_buf(call, &call->body, cap);
    call->on_body = fn;
    exchange_keep_body(call->x);
    exchange_read_stream(call->x, body_take, body_done, call);
}

/* What the tree takes is on the account as it grows. */
static int hold_tree(struct call *call, struct err *err)
{
    size_t now = json_parser_memory(call->parser);
    if (now <= call->parsed)
        return 0;
    int r = hold_add(&call->hold, now - call->parsed, err);
    if (r >= 0)
        call->parsed = now;
    return r < 0 ? r : 0;
}

static void parse_some(struct call *call)
{
    struct err err = ERR_INIT;
    uint64_t began = clock_us();
    int r = 0;
    while (r == 0 && clock_us() - began < TURN_US) {
        r = json_parser_next(call->parser, PIECE, &call->json, &err);
        if (r == 0)
            r = hold_tree(call, &err);
    }
    if (r == 0) {
        call_wait(call);
        loop_timer_set(core_loop(call->core), &call->turn, 1);
        return;
    }
    parser_done(call);
    if (r > 0 && (r = hold_add(&call->hold, json_memory(call->json), &err)) < 0) {
        json_free(call->json);
        call->json = NULL;
    }
    call->on_parsed(call, r < 0 ? &err : NULL);
}

static void on_turn(struct loop_timer *t)
{
    struct call *call = container_of(t, struct call, turn);
    if (call_back(call))
        parse_some(call);
}

void call_parse(struct call *call, char *text, size_t len, const struct json_limits *limits,
                void (*fn)(struct call *call, const struct err *err))
{
    struct err err = ERR_INIT;
    struct json_limits l = *limits;
    uint64_t room = account_room(call->hold.account, ACCOUNT_BYTES);
    l.max_memory = room < SIZE_MAX ? (size_t)room + 1 : 0;
    call->on_parsed = fn;
    call->parser = json_parser_new(text, len, &l, &err);
    if (call->parser)
        parse_some(call);
    else
        fn(call, &err);
}

static void object_parsed(struct call *call, const struct err *err)
{
    if (err && err->code == ERR_LIMIT)
        call_fail_err(call, err);
    else if (err)
        call_fail(call, 400, "the body is no good JSON: %s", err->message);
    else if (json_type(call->json) != JSON_OBJECT)
        call_fail(call, 400, "the body must be a JSON object");
    else
        call->on_json(call, call->json);
}

void call_parse_object(struct call *call, char *text, size_t len, const struct json_limits *limits)
{
    call_parse(call, text, len, limits, object_parsed);
}

static void body_parse(struct call *call, const char *data, size_t len)
{
    static char nothing[] = "{}";
    (void)data; /* is call->body */
    call_parse_object(call, len ? call->body.data : nothing, len ? len : 2, &body_limits);
}

void call_json(struct call *call, void (*fn)(struct call *call, const struct json *body))
{
    call->on_json = fn;
    call_body(call, CALL_JSON_MAX, body_parse);
}

/* ---- who and what ---- */

/* What is no id is the id of nothing. Old clients know a sandbox as "ID-CLIENT". */
struct box *call_box(struct call *call)
{
    char *id = call->params.value[0];
    struct box *b = NULL;
    if (strlen(id) > BOX_ID_LEN && id[BOX_ID_LEN] == '-')
        id[BOX_ID_LEN] = '\0';
    if (box_id_valid(id))
        b = box_find(call->core, call->key, id);
    if (!b)
        call_fail(call, 404, "there is no sandbox %s", id);
    return b;
}

struct box *call_sandbox(struct call *call)
{
    struct box *b = box_find_any(call->core, call->id);
    if (b && box_info(b)->state == BOX_RUNNING) {
        box_touch(b);
        return b;
    }
    call_fail(call, 502, b ? "sandbox %s is paused" : "sandbox %s is not there", call->id);
    return NULL;
}

bool call_fields(struct call *call, const struct json *object, enum fields_mode mode,
                 const struct field *fields, size_t count)
{
    struct err err = ERR_INIT;
    bool good = fields_read(object, mode, fields, count, &err) >= 0;
    if (!good)
        call_fail_err(call, &err);
    return good;
}

int call_query(struct call *call, const char *name, char *out, size_t size)
{
    struct err err = ERR_INIT;
    int r = target_query(exchange_request(call->x)->target, name, out, size, &err);
    if (r < 0)
        call_fail_err(call, &err);
    return r;
}
