/* The code interpreter: /execute and /contexts, as its clients expect them.
 *
 * An execution is a stream of JSON, one object per line and ASCII only: the JavaScript client
 * decodes every piece that the network delivers by itself. What the interpreter says was parsed and
 * checked (wire/interp.h) and is written anew here; what code printed is bytes, and text only as
 * far as it is UTF-8. */
#include "base/container.h"
#include "daemon/api/activity.h"
#include "daemon/e2b/ascii.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KEEPALIVE_MS 5000
#define CONTEXT_HOME "/home/user"
#define TEXT_MAX     (8u << 20)   /* of one line but a result's */
#define PIECE        (32u * 1024) /* of a result, before it becomes ASCII */
#define MOMENT_SIZE  48

struct run {
    struct activity activity;
    struct execution *execution; /* NULL: it has ended */
    struct loop_timer keepalive;
    struct utf8_tail tail[2];
    /* a result that is being written */
    bool in_result;
    size_t member;              /* the next one */
    struct json_pieces *pieces; /* of the one before it */
    char *denied;               /* what was refused meanwhile, and is not told yet; or NULL */
};

/* ---- lines ---- */

static void line_begin(struct buf *out, struct json_writer *w, const char *type)
{
    buf_init(out, TEXT_MAX);
    jw_init(w, out, false);
    jw_object_begin(w);
    jw_kv_string(w, "type", type);
}

static bool line_send(struct run *r, struct buf *json, struct json_writer *w)
{
    struct buf ascii cleanup_buf = {0};
    bool more = true;
    jw_object_end(w);
    buf_init(&ascii, TEXT_MAX);
    ascii_write(&ascii, buf_text(json), json->len);
    buf_chr(&ascii, '\n');
    if (!json->failed && !ascii.failed)
        more = exchange_write(r->activity.call->x, ascii.data, ascii.len);
    buf_done(json);
    loop_timer_set(r->activity.loop, &r->keepalive, KEEPALIVE_MS);
    return more;
}

static bool line_simple(struct run *r, const char *type)
{
    struct buf out;
    struct json_writer w;
    line_begin(&out, &w, type);
    return line_send(r, &out, &w);
}

static void line_error(struct run *r, const char *name, const char *value, const char *traceback)
{
    struct buf out;
    struct json_writer w;
    line_begin(&out, &w, "error");
    jw_kv_string(&w, "name", name);
    jw_kv_string(&w, "value", value);
    jw_kv_string(&w, "traceback", traceback);
    line_send(r, &out, &w);
}

/* Clients show one or the other. */
static void line_exception(struct run *r, const struct interp_said *s)
{
    struct buf value cleanup_buf = {0}, traceback cleanup_buf = {0};
    buf_init(&value, TEXT_MAX);
    buf_init(&traceback, TEXT_MAX);
    buf_str(&value, s->value);
    buf_str(&traceback, s->traceback);
    if (r->denied) {
        buf_fmt(&value, "%s%s", *s->value ? "; " : "", r->denied);
        buf_fmt(&traceback, "%s%s\n",
                traceback.len && traceback.data[traceback.len - 1] != '\n' ? "\n" : "", r->denied);
    }
    line_error(r, s->name, buf_text(&value), buf_text(&traceback));
    free(r->denied);
    r->denied = NULL;
}

static void on_keepalive(struct loop_timer *t)
{
    struct run *r = container_of(t, struct run, keepalive);
    if (r->in_result) /* no other line fits into the middle of one */
        loop_timer_set(r->activity.loop, t, KEEPALIVE_MS);
    else
        line_simple(r, "keepalive");
}

/* ---- one execution ---- */

static void run_stop(struct activity *a)
{
    struct run *r = container_of(a, struct run, activity);
    loop_timer_cancel(a->loop, &r->keepalive);
    if (r->execution)
        execution_cancel(r->execution);
}

static void run_done(struct activity *a)
{
    struct run *r = container_of(a, struct run, activity);
    json_pieces_free(r->pieces);
    free(r->denied);
}

static void run_writable(struct activity *a)
{
    struct run *r = container_of(a, struct run, activity);
    if (r->execution)
        execution_resume(r->execution);
}

static const struct activity_ops run_ops = {
    .stop = run_stop, .done = run_done, .writable = run_writable};

/* With microseconds and an offset, as the clients' own server writes it. */
static void write_moment(char out[static MOMENT_SIZE])
{
    struct timespec now = {0};
    struct tm tm = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    size_t n = strftime(out, MOMENT_SIZE, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out + n, MOMENT_SIZE - n, ".%06ld+00:00", now.tv_nsec / 1000);
}

static bool write_text(struct run *r, int stream, const char *text, size_t len)
{
    struct buf out;
    struct json_writer w;
    char moment[MOMENT_SIZE];
    if (!len)
        return true;
    write_moment(moment);
    line_begin(&out, &w, stream == 2 ? "stderr" : "stdout");
    jw_kv_bytes(&w, "text", text, len);
    jw_kv_string(&w, "timestamp", moment); /* the Python client reads it without asking */
    return line_send(r, &out, &w);
}

static bool on_output(void *ctx, int stream, const void *data, size_t len)
{
    struct run *r = ctx;
    struct buf whole cleanup_buf = {0};
    buf_init(&whole, len + UTF8_TAIL_MAX);
    utf8_tail_join(&r->tail[stream == 2], data, len, &whole);
    return write_text(r, stream, buf_text(&whole), whole.len);
}

/* A result may be as long as a frame: it goes out in pieces, as its client takes them, and nobody
 * else waits for more than one. True: that was the last. */
static bool next_piece(struct run *r, const struct interp_said *s, struct buf *out)
{
    struct json_writer w;
    if (!r->in_result) {
        r->in_result = true;
        r->member = 0;
        buf_str(out, "{\"type\":\"result\"");
    }
    while (out->len < PIECE && !out->failed) {
        if (r->pieces && !json_pieces_next(r->pieces, out, PIECE))
            return false;
        json_pieces_free(r->pieces);
        r->pieces = NULL;
        w = (struct json_writer){.out = out, .need_comma = true};
        if (r->member == json_count(s->data)) {
            jw_kv_bool(&w, "is_main_result", s->main);
            buf_str(out, "}\n");
            r->in_result = false;
            return true;
        }
        jw_key(&w, json_key_at(s->data, r->member));
        r->pieces = json_pieces_new(json_value_at(s->data, r->member++));
        out->failed |= !r->pieces;
    }
    return false;
}

static enum sink_took write_result(struct run *r, const struct interp_said *s)
{
    struct buf json cleanup_buf = {0}, ascii cleanup_buf = {0};
    buf_init(&json, TEXT_MAX);
    buf_init(&ascii, TEXT_MAX);
    bool last = next_piece(r, s, &json);
    ascii_write(&ascii, buf_text(&json), json.len);
    loop_timer_set(r->activity.loop, &r->keepalive, KEEPALIVE_MS);
    if (json.failed || ascii.failed) { /* half a line is none, and cannot be taken back */
        call_abort(activity_end(&r->activity));
        return SINK_ALL;
    }
    bool more = exchange_write(r->activity.call->x, ascii.data, ascii.len);
    return last ? SINK_ALL : more ? SINK_MORE : SINK_FULL;
}

static enum sink_took on_said(void *ctx, const struct interp_said *s)
{
    struct run *r = ctx;
    struct buf out;
    struct json_writer w;
    switch (s->word) {
    case INTERP_COUNTED:
        line_begin(&out, &w, "number_of_executions");
        jw_kv_int(&w, "execution_count", s->count);
        line_send(r, &out, &w);
        break;
    case INTERP_RESULT:
        return write_result(r, s);
    case INTERP_ERROR:
        line_exception(r, s);
        break;
    case INTERP_READY:
    case INTERP_END:
        break;
    }
    return SINK_ALL;
}

static void on_denied(void *ctx, const char *words)
{
    struct run *r = ctx;
    free(r->denied);
    r->denied = strdup(words);
}

/* A cell that is good in itself, such as `!curl HOST`: nobody but us says why nothing came. */
static void write_denied(struct run *r)
{
    struct buf line cleanup_buf = {0};
    if (!r->denied)
        return;
    buf_init(&line, TEXT_MAX);
    buf_fmt(&line, "brig: %s\n", r->denied);
    write_text(r, 2, buf_text(&line), line.len);
}

static void say_lost(struct run *r, const struct err *err)
{
    char text[sizeof err->message + sizeof err->hint + 4];
    snprintf(text, sizeof text, "%s; %s", err->message, err->hint);
    line_error(r, err_is_oom(err) ? "OutOfMemory" : "ContextEnded",
               err_is_oom(err) ? text : err->message, "");
}

static void on_end(void *ctx, const struct err *err)
{
    struct run *r = ctx;
    struct call *call = r->activity.call;
    r->execution = NULL;
    /* The interpreter was lost in the middle of a line; or the sandbox has ended, of which clients
     * convince themselves when their stream is cut (frames_cut). */
    if (r->in_result || !box_find_any(call->core, call->id)) {
        call_abort(activity_end(&r->activity));
        return;
    }
    for (int i = 0; i < 2; i++)
        write_text(r, i + 1, r->tail[i].bytes, r->tail[i].len);
    write_denied(r);
    if (err)
        say_lost(r, err);
    line_simple(r, "end_of_execution");
    call_end(activity_end(&r->activity));
}

/* ---- POST /execute ---- */

struct execute {
    const char *code, *context_id, *language;
    const struct json *env;
};

static int read_execute(const struct json *body, struct execute *e, struct err *err)
{
    const struct field fields[] = {
        {"code", FIELD_STRING, &e->code},
        {"context_id", FIELD_STRING, &e->context_id},
        {"language", FIELD_STRING, &e->language},
        {"env_vars", FIELD_MAP, &e->env},
    };
    int r = FIELDS_READ(body, FIELDS_PROTO, fields, err);
    if (r < 0)
        return r;
    if (!e->code)
        return err_set(err, ERR_USAGE, "\"code\" is missing");
    if (strlen(e->code) > INTERP_CODE_MAX)
        return err_set(err, ERR_USAGE,
                       "\"code\": more than %u bytes; write it to a file and run that",
                       INTERP_CODE_MAX);
    if (e->context_id && e->language)
        return err_set(err, ERR_USAGE, "either \"context_id\" or \"language\", not both");
    return fields_check_env(e->env, "env_vars", err);
}

/* Answers with an error where there is none. */
static enum interp_language read_language(struct call *call, const char *name)
{
    static const char blanks[] = " \t\r\n";
    char word[32] = "python";
    if (name) {
        snprintf(word, sizeof word, "%s", name + strspn(name, blanks));
        for (size_t n = strlen(word); n && strchr(blanks, word[n - 1]); n--)
            word[n - 1] = '\0';
    }
    enum interp_language l = interp_language_parse(word);
    if (l == INTERP_NONE) /* with the status that its clients' own server has for it */
        call_fail(call, 500,
                  "Failed to create context: language \"%s\" is not offered; there are "
                  "python, javascript, typescript, bash, r and java",
                  word);
    return l;
}

static void run_in(struct call *call, struct context *context)
{
    struct err err = ERR_INIT;
    struct execute e = {0};
    struct run *r = activity_new(sizeof(*r), &run_ops, call->core, call->hold.account, &err);
    struct execution_sink sink = {
        .output = on_output, .said = on_said, .end = on_end, .denied = on_denied, .ctx = r};
    if (!r) {
        call_fail_err(call, &err);
        return;
    }
    read_execute(call->json, &e, &err);
    r->keepalive.fn = on_keepalive;
    activity_serve(&r->activity, call);
    exchange_begin(call->x, 200, "application/x-ndjson", -1);
    loop_timer_set(r->activity.loop, &r->keepalive, KEEPALIVE_MS);
    if (execution_start(context, e.code, strlen(e.code), e.env, &sink, &r->execution, &err) < 0)
        on_end(r, &err);
    call_forget_body(call); /* it is in the execution */
}

static void context_ready(void *ctx, struct context *context, const struct err *err)
{
    if (call_came(ctx, context ? NULL : err))
        run_in(ctx, context);
}

static void execute_body(struct call *call, const struct json *body)
{
    struct err err = ERR_INIT;
    struct execute e = {0};
    enum interp_language l;
    struct context *context;
    struct box *b = call_sandbox(call);
    if (!b)
        return;
    if (read_execute(body, &e, &err) < 0) {
        call_fail_err(call, &err);
    } else if (e.context_id) {
        context = context_find(b, e.context_id);
        if (context)
            run_in(call, context);
        else
            call_fail(call, 404, "there is no context %.64s", e.context_id);
    } else if ((l = read_language(call, e.language)) != INTERP_NONE) {
        call_wait(call);
        context_default(b, l, context_ready, call);
    }
}

/* ---- contexts ---- */

static void write_context(void *ctx, struct context *c)
{
    struct json_writer *w = ctx;
    const struct context_info *info = context_info(c);
    jw_object_begin(w);
    jw_kv_string(w, "id", info->id);
    jw_kv_string(w, "language", interp_language_name(info->language));
    jw_kv_string(w, "cwd", info->cwd ? info->cwd : CONTEXT_HOME);
    jw_object_end(w);
}

static void context_made(void *ctx, struct context *context, const struct err *err)
{
    struct call *call = ctx;
    struct buf out cleanup_buf = {0};
    struct json_writer w;
    if (!call_came(call, context ? NULL : err))
        return;
    buf_init(&out, 64u * 1024);
    jw_init(&w, &out, false);
    write_context(&w, context);
    call_reply(call, 200, &out);
}

static void create_body(struct call *call, const struct json *body)
{
    const char *language = NULL, *cwd = CONTEXT_HOME;
    const struct field fields[] = {
        {"language", FIELD_STRING, &language},
        {"cwd", FIELD_STRING, &cwd},
    };
    enum interp_language l;
    struct box *b;
    if (!CALL_FIELDS(call, body, FIELDS_PROTO, fields))
        return;
    if ((l = read_language(call, language)) == INTERP_NONE || !(b = call_sandbox(call)))
        return;
    call_wait(call);
    context_create(b, l, cwd, context_made, call);
}

static void kernel_list(struct call *call)
{
    struct buf out cleanup_buf = {0};
    struct json_writer w;
    struct box *b = call_sandbox(call);
    if (!b)
        return;
    call_buf(call, &out, 4u << 20);
    jw_init(&w, &out, false);
    jw_array_begin(&w);
    context_name_defaults(b);
    context_each(b, write_context, &w);
    jw_array_end(&w);
    call_reply(call, 200, &out);
}

static struct context *named_context(struct call *call)
{
    struct box *b = call_sandbox(call);
    struct context *c = b ? context_find(b, call->params.value[0]) : NULL;
    if (b && !c)
        call_fail(call, 404, "there is no context %s", call->params.value[0]);
    return c;
}

static void kernel_remove(struct call *call)
{
    struct context *c = named_context(call);
    if (!c)
        return;
    context_remove(c);
    call_empty(call, 204);
}

static void kernel_restart(struct call *call)
{
    struct context *c = named_context(call);
    if (!c)
        return;
    call_watch(call);
    call_wait(call);
    context_restart(c, context_made, call);
}

static void kernel_health(struct call *call)
{
    if (call_sandbox(call))
        call_text(call, 200, "text/plain", "OK", 2);
}

const struct route interpreter_routes[] = {
    {"POST", "/execute", ERRORS_TEXT, false, .body = execute_body},
    {"GET", "/contexts", ERRORS_TEXT, false, kernel_list},
    {"POST", "/contexts", ERRORS_TEXT, false, .body = create_body},
    {"DELETE", "/contexts/{id}", ERRORS_TEXT, false, kernel_remove},
    {"POST", "/contexts/{id}/restart", ERRORS_TEXT, false, kernel_restart},
    {"GET", "/health", ERRORS_TEXT, false, kernel_health},
    {0},
};
