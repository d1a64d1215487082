/* The smallest face of the daemon: run this code, once, in a sandbox of its own.
 *
 * Code runs in the interpreter that a warm sandbox already has, so that nothing is started for it
 * but the sandbox itself; the sandbox ends with the answer. */
#include "daemon/api/long_answer.h"

#include "base/container.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUN_MS     5000
#define LIFE_MS    30000
#define OUTPUT_MAX (1u << 20) /* of each stream; what is more is left out and said */

struct job {
    struct activity activity;
    enum interp_language language;
    char *code;   /* until it runs */
    char *denied; /* what was refused meanwhile, for its error; or NULL */
    char box_id[BOX_ID_LEN + 1];
    struct execution *execution;
    struct loop_timer deadline;
    struct buf out, err;
    struct buf text; /* "error" of the answer */
    struct long_answer answer;
    bool cut, timed_out, lists_packages;
    int exit_code;
};

/* What GET /v1/sandbox/dependencies runs: one package per line, as "name version". */
static const char list_packages[] =
    "import importlib.metadata\n"
    "for d in sorted(importlib.metadata.distributions(), key=lambda d: str(d.metadata['Name'])):\n"
    "    print(d.metadata['Name'], d.version)\n";

/* The sandbox goes, whatever happened; however slowly the answer is read. */
static void let_go(struct job *j)
{
    struct box *b = j->box_id[0] ? box_find_any(j->activity.core, j->box_id) : NULL;
    loop_timer_cancel(j->activity.loop, &j->deadline);
    if (j->execution)
        execution_cancel(j->execution);
    j->execution = NULL;
    j->box_id[0] = '\0';
    if (b)
        box_end(b, "the code has run", NULL, NULL);
}

static void job_stop(struct activity *a)
{
    struct job *j = container_of(a, struct job, activity);
    long_stop(&j->answer);
    let_go(j);
}

static void job_writable(struct activity *a)
{
    long_resume(&container_of(a, struct job, activity)->answer);
}

static void job_done(struct activity *a)
{
    struct job *j = container_of(a, struct job, activity);
    buf_done(&j->out);
    buf_done(&j->err);
    buf_done(&j->text);
    long_done(&j->answer);
    free(j->code);
    free(j->denied);
}

static const struct activity_ops job_ops = {
    .stop = job_stop, .done = job_done, .writable = job_writable};

static void job_fail(struct job *j, const struct err *err)
{
    call_fail_err(activity_end(&j->activity), err);
}

/* ---- the answer ---- */

static void write_output(struct json_writer *w, struct job *j, const char *key,
                         const struct buf *text)
{
    jw_key(w, key);
    long_string(&j->answer, w, buf_text(text), text->len, LONG_TEXT);
}

static void write_error(struct json_writer *w, struct job *j)
{
    if (j->timed_out)
        buf_fmt(&j->text, "the code ran longer than %d s", RUN_MS / 1000);
    else if (j->exit_code)
        buf_fmt(&j->text, "process exited with code %d\n", j->exit_code);
    if (j->exit_code && !j->timed_out)
        j->cut |= !hold_fill(&j->activity.hold, &j->text, buf_text(&j->err), j->err.len);
    write_output(w, j, "error", &j->text);
}

static void write_run(struct json_writer *w, struct job *j)
{
    write_output(w, j, "stdout", &j->out);
    write_output(w, j, "stderr", &j->err);
    write_error(w, j);
    jw_kv_int(w, "exit_code", j->exit_code);
    if (j->cut)
        jw_kv_bool(w, "truncated", true);
}

static void write_packages(struct json_writer *w, const struct job *j)
{
    const char *at = buf_text(&j->out);
    jw_kv_array(w, "dependencies");
    while (*at) {
        size_t line = strcspn(at, "\n"), name = strcspn(at, " \n");
        if (name < line) {
            jw_object_begin(w);
            jw_kv_bytes(w, "name", at, name);
            jw_kv_bytes(w, "version", at + name + 1, line - name - 1);
            jw_object_end(w);
        }
        at += line + (at[line] == '\n');
    }
    jw_array_end(w);
}

static void job_reply(struct job *j)
{
    struct json_writer w;
    long_begin(&j->answer, &j->activity, 16 * OUTPUT_MAX, &w);
    jw_object_begin(&w);
    jw_kv_int(&w, "code", 0);
    jw_kv_string(&w, "message", "success");
    jw_kv_object(&w, "data");
    if (j->lists_packages)
        write_packages(&w, j);
    else
        write_run(&w, j);
    jw_object_end(&w);
    jw_object_end(&w);
    long_reply(&j->answer);
    let_go(j);
}

/* ---- the run ---- */

static bool on_output(void *ctx, int stream, const void *data, size_t len)
{
    struct job *j = ctx;
    j->cut |= !hold_fill(&j->activity.hold, stream == 2 ? &j->err : &j->out, data, len);
    return true;
}

/* sys.exit(3) ends a script with 3; everything else that is not caught, with 1. */
static int exit_code_of(const struct interp_said *s)
{
    char *end;
    long code;
    if (strcmp(s->name, "SystemExit") != 0)
        return 1;
    code = strtol(s->value, &end, 10);
    if (!*s->value || !strcmp(s->value, "None"))
        return 0;
    return *end || end == s->value ? 1 : (int)(code & 0xff);
}

static enum sink_took on_said(void *ctx, const struct interp_said *s)
{
    struct job *j = ctx;
    if (s->word != INTERP_ERROR)
        return SINK_ALL;
    j->exit_code = exit_code_of(s);
    if (strcmp(s->name, "SystemExit") != 0) {
        on_output(j, 2, s->traceback, strlen(s->traceback));
        on_output(j, 2, "\n", 1);
    }
    if (j->exit_code && j->denied) {
        on_output(j, 2, j->denied, strlen(j->denied));
        on_output(j, 2, "\n", 1);
    }
    return SINK_ALL;
}

static void on_denied(void *ctx, const char *words)
{
    struct job *j = ctx;
    free(j->denied);
    j->denied = strdup(words);
}

static void on_end(void *ctx, const struct err *err)
{
    struct job *j = ctx;
    j->execution = NULL;
    if (err && !j->exit_code) {
        j->exit_code = -1;
        on_output(j, 2, err->message, strlen(err->message));
        if (err_is_oom(err)) {
            on_output(j, 2, "; ", 2);
            on_output(j, 2, err->hint, strlen(err->hint));
        }
    }
    job_reply(j);
}

static void on_deadline(struct loop_timer *t)
{
    struct job *j = container_of(t, struct job, deadline);
    j->timed_out = true;
    j->exit_code = -1;
    job_reply(j);
}

static void context_ready(void *ctx, struct context *context, const struct err *err)
{
    struct job *j = ctx;
    struct err own = ERR_INIT;
    struct execution_sink sink = {
        .output = on_output, .said = on_said, .end = on_end, .denied = on_denied, .ctx = j};
    if (!activity_back(&j->activity))
        return;
    if (!context) {
        job_fail(j, err);
        return;
    }
    loop_timer_set(j->activity.loop, &j->deadline, RUN_MS);
    if (execution_start(context, j->code, strlen(j->code), NULL, &sink, &j->execution, &own) < 0)
        job_fail(j, &own);
    hold_sub(&j->activity.hold, strlen(j->code) + 1);
    free(j->code);
    j->code = NULL;
}

static void box_ready(void *ctx, struct box *b, const struct err *err)
{
    struct job *j = ctx;
    if (b)
        memcpy(j->box_id, box_info(b)->id, sizeof(j->box_id));
    if (j->activity.ended && b)
        box_end(b, "the client went away", NULL, NULL);
    if (!activity_back(&j->activity))
        return;
    if (!b) {
        job_fail(j, err);
        return;
    }
    activity_wait(&j->activity);
    context_default(b, j->language, context_ready, j);
}

/* NULL: answered. */
static struct job *job_new(struct call *call, const char *preload, const char *code)
{
    struct err err = ERR_INIT;
    struct job *j = activity_new(sizeof(*j), &job_ops, call->core, call->hold.account, &err);
    preload = preload ? preload : "";
    if (!j || hold_add(&j->activity.hold, strlen(preload) + 1 + strlen(code) + 1, &err) < 0 ||
        asprintf(&j->code, "%s%s%s", preload, *preload ? "\n" : "", code) < 0) {
        if (!err.code)
            err_memory(&err);
        if (j) {
            j->code = NULL;
            activity_end(&j->activity);
        }
        call_fail_err(call, &err);
        return NULL;
    }
    call_forget_body(call);
    j->deadline.fn = on_deadline;
    activity_buf(&j->activity, &j->out, OUTPUT_MAX);
    activity_buf(&j->activity, &j->err, OUTPUT_MAX);
    activity_buf(&j->activity, &j->text, OUTPUT_MAX + 1024);
    return j;
}

static void job_start(struct call *call, struct job *j, enum interp_language l, bool network)
{
    struct json *nothing = NULL;
    struct box_request r = {
        .template_name = l == INTERP_PYTHON ? "python" : "node",
        .owner = call->key,
        .timeout_ms = LIFE_MS,
    };
    if (!network) {
        json_parse("{\"allow\":[],\"block\":[]}", 23, NULL, &nothing, NULL);
        r.network = nothing;
    }
    j->language = l;
    activity_serve(&j->activity, call);
    activity_wait(&j->activity);
    box_create(call->core, &r, box_ready, j);
    json_free(nothing);
}

/* ---- requests ---- */

static void run_body(struct call *call, const struct json *body)
{
    const char *language = NULL, *code = NULL, *preload = NULL;
    bool network = false;
    const struct field fields[] = {
        {"language", FIELD_STRING, &language},
        {"code", FIELD_STRING, &code},
        {"preload", FIELD_STRING, &preload},
        {"enable_network", FIELD_BOOL, &network},
        {"options", FIELD_UNUSED},
    };
    struct job *j;
    bool python, node;
    if (!CALL_FIELDS(call, body, FIELDS_STRICT, fields))
        return;
    python = language && !strcmp(language, "python3");
    node = language && !strcmp(language, "nodejs");
    if (!code || (!python && !node)) {
        call_fail(call, 400, code ? "language: expected python3 or nodejs" : "code is missing");
        return;
    }
    j = job_new(call, preload, code);
    if (j)
        job_start(call, j, python ? INTERP_PYTHON : INTERP_JAVASCRIPT, network);
}

static void dify_dependencies(struct call *call)
{
    char language[32] = "python3";
    struct job *j;
    if (call_query(call, "language", language, sizeof(language)) < 0)
        return;
    if (strcmp(language, "python3") != 0) {
        call_fail(call, 400, "language: expected python3");
        return;
    }
    j = job_new(call, NULL, list_packages);
    if (!j)
        return;
    j->lists_packages = true;
    call_watch(call);
    job_start(call, j, INTERP_PYTHON, false);
}

static void dify_update(struct call *call)
{
    call_fail(call, 501, "packages belong to the template; they are not installed by a request");
}

static void health(struct call *call)
{
    call_text(call, 200, "application/json", "\"ok\"", 4);
}

const struct route dify_routes[] = {
    {"GET", "/health", ERRORS_DIFY, false, health},
    {"POST", "/v1/sandbox/run", ERRORS_DIFY, false, .body = run_body},
    {"GET", "/v1/sandbox/dependencies", ERRORS_DIFY, false, dify_dependencies},
    {"GET", "/v1/sandbox/dependencies/refresh", ERRORS_DIFY, false, dify_dependencies},
    {"POST", "/v1/sandbox/dependencies/update", ERRORS_DIFY, false, dify_update},
    {0},
};
