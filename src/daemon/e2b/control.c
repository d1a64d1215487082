/* The control plane: sandboxes as objects that are made, looked at, paused and ended. */
#include "daemon/e2b/control.h"

#include "base/num.h"
#include "daemon/e2b/not_offered.h"

#include <string.h>

#define TIMEOUT_MAX     (24 * 3600)
#define TIMEOUT_DEFAULT 300

static void reply_info(struct call *call, int status, struct box *b, bool handle)
{
    char domain[DOMAIN_SIZE];
    struct buf out cleanup_buf = {0};
    struct json_writer w;
    buf_init(&out, 1u << 20);
    jw_init(&w, &out, false);
    control_domain(call, domain);
    if (handle)
        control_write_handle(&w, box_info(b), domain);
    else
        control_write_info(&w, box_info(b), domain, true);
    call_reply(call, status, &out);
}

static void get_info(struct call *call)
{
    struct box *b = call_box(call);
    if (b)
        reply_info(call, 200, b, false);
}

static void end_it(struct call *call)
{
    struct box *b = call_box(call);
    if (!b)
        return;
    call_watch(call);
    call_wait(call);
    box_end(b, "deleted", call_done, call);
}

/* ---- how long ---- */

static bool read_seconds(struct call *call, const struct json *body, const char *name, int64_t min,
                         int64_t *ret)
{
    struct err err = ERR_INIT;
    const struct field fields[] = {{name, FIELD_INT, ret, min, TIMEOUT_MAX}};
    if (FIELDS_READ(body, FIELDS_STRICT, fields, &err) == 0)
        return true;
    call_fail_err(call, &err);
    return false;
}

static void timeout_body(struct call *call, const struct json *body)
{
    int64_t seconds = -1;
    struct box *b;
    if (!read_seconds(call, body, "timeout", 0, &seconds))
        return;
    if (seconds < 0) {
        call_fail(call, 400, "\"timeout\" is missing");
        return;
    }
    b = call_box(call);
    if (!b)
        return;
    box_set_timeout(b, seconds * 1000, false);
    call_empty(call, 204);
}

static void refresh_body(struct call *call, const struct json *body)
{
    int64_t seconds = TIMEOUT_DEFAULT;
    struct box *b;
    if (!read_seconds(call, body, "duration", 0, &seconds) || !(b = call_box(call)))
        return;
    box_set_timeout(b, seconds * 1000, true);
    call_empty(call, 204);
}

/* ---- pause, resume ---- */

static void pause_body(struct call *call, const struct json *body)
{
    bool memory = true;
    const struct field fields[] = {{"memory", FIELD_BOOL, &memory}};
    struct box *b;
    if (!CALL_FIELDS(call, body, FIELDS_STRICT, fields))
        return;
    if (!memory) {
        call_fail(call, 501, CONTROL_KEEPS_MEMORY, "memory");
        return;
    }
    b = call_box(call);
    if (!b)
        return;
    if (box_info(b)->state == BOX_PAUSED) {
        call_fail(call, 409, "sandbox %s is paused already", call->params.value[0]);
        return;
    }
    call_wait(call);
    box_pause(b, call_done, call);
}

static void resumed(void *ctx, const struct err *err)
{
    struct call *call = ctx;
    struct box *b = call_came(call, err) ? call_box(call) : NULL;
    if (b)
        reply_info(call, 201, b, true);
}

struct connect {
    int64_t seconds;
    bool auto_pause, has_auto_pause;
};

static bool read_connect(struct call *call, const struct json *body, struct connect *ret)
{
    bool memory = true;
    const struct field fields[] = {
        {"timeout", FIELD_INT, &ret->seconds, 1, TIMEOUT_MAX},
        {"memory", FIELD_BOOL, &memory},
        {"autoPause", FIELD_BOOL, &ret->auto_pause, .has = &ret->has_auto_pause},
    };
    if (!CALL_FIELDS(call, body, FIELDS_STRICT, fields))
        return false;
    if (!memory)
        call_fail(call, 501, CONTROL_KEEPS_MEMORY, "memory");
    return memory;
}

static void connect_body(struct call *call, const struct json *body)
{
    struct connect c = {.seconds = TIMEOUT_DEFAULT};
    bool resume_only = strstr(call->route->path, "/resume");
    struct box *b;
    if (!read_connect(call, body, &c) || !(b = call_box(call)))
        return;
    bool paused = box_info(b)->state == BOX_PAUSED;
    if (c.has_auto_pause && (paused || !resume_only))
        box_set_auto_pause(b, c.auto_pause);
    if (paused) {
        call_wait(call);
        box_resume(b, c.seconds * 1000, resumed, call);
    } else if (resume_only) {
        call_fail(call, 409, "sandbox %s is running", call->params.value[0]);
    } else {
        box_set_timeout(b, c.seconds * 1000, true);
        reply_info(call, 200, b, true);
    }
}

/* ---- what is not offered ---- */

static void no_snapshots(struct call *call)
{
    if (call_box(call))
        call_fail(call, 501,
                  "snapshots and forks of a running sandbox are not offered; use a "
                  "template, or pause");
}

static void list_snapshots(struct call *call)
{
    call_text(call, 200, "application/json", "[]", 2);
}

static void delete_template(struct call *call)
{
    if (!strcmp(call->params.value[0], "tags")) {
        call_fail(call, 501, "%s", not_offered("/templates/tags"));
        return;
    }
    call_fail(call, 404, "there is no snapshot \"%s\"; templates are the operator's files",
              call->params.value[0]);
}

static void no_metrics(struct call *call)
{
    call_fail(call, 501,
              "metrics of several sandboxes at once are not offered: GET /sandboxes/{id}/metrics "
              "has those of one, and GET /metrics, for operators, those of all");
}

const struct route control_routes[] = {
    {"POST", "/sandboxes", ERRORS_API, false, .body = control_create},
    {"POST", "/v2/sandboxes", ERRORS_API, false, .body = control_create},
    {"GET", "/sandboxes", ERRORS_API, false, control_list},
    {"GET", "/v2/sandboxes", ERRORS_API, false, control_list},
    {"GET", "/sandboxes/metrics", ERRORS_API, false, no_metrics},
    {"GET", "/sandboxes/{id}", ERRORS_API, false, get_info},
    {"DELETE", "/sandboxes/{id}", ERRORS_API, false, end_it},
    {"POST", "/sandboxes/{id}/timeout", ERRORS_API, false, .body = timeout_body},
    {"POST", "/sandboxes/{id}/refreshes", ERRORS_API, false, .body = refresh_body},
    {"POST", "/sandboxes/{id}/pause", ERRORS_API, false, .body = pause_body},
    {"POST", "/sandboxes/{id}/resume", ERRORS_API, false, .body = connect_body},
    {"POST", "/sandboxes/{id}/connect", ERRORS_API, false, .body = connect_body},
    {"POST", "/v2/sandboxes/{id}/connect", ERRORS_API, false, .body = connect_body},
    {"GET", "/sandboxes/{id}/metrics", ERRORS_API, false, control_metrics},
    {"GET", "/sandboxes/{id}/logs", ERRORS_API, false, control_logs},
    {"GET", "/v2/sandboxes/{id}/logs", ERRORS_API, false, control_logs},
    {"PUT", "/sandboxes/{id}/network", ERRORS_API, false, .body = control_network},
    {"GET", "/sandboxes/{id}/review", ERRORS_API, false, control_review},
    {"POST", "/sandboxes/{id}/review/apply", ERRORS_API, true, .body = control_review_apply},
    {"POST", "/sandboxes/{id}/review/discard", ERRORS_API, false, control_review_discard},
    {"POST", "/sandboxes/{id}/snapshots", ERRORS_API, false, no_snapshots},
    {"POST", "/sandboxes/{id}/fork", ERRORS_API, false, no_snapshots},
    {"GET", "/snapshots", ERRORS_API, false, list_snapshots},
    {"GET", "/templates", ERRORS_API, false, control_templates},
    {"GET", "/v2/templates", ERRORS_API, false, control_templates},
    {"GET", "/templates/aliases/{alias}", ERRORS_API, false, control_alias},
    {"DELETE", "/templates/{id}", ERRORS_API, false, delete_template},
    {0},
};
