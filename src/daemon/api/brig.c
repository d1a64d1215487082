/* What only brig has: pools, metrics, anomalies, the audit, the last output of processes. */
#include "daemon/api/call.h"

#include "base/num.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static void get_version(struct call *call)
{
    static const char text[] = "{\"version\":\"" BRIG_VERSION "\"}";
    call_text(call, 200, "application/json", text, sizeof(text) - 1);
}

static void get_metrics(struct call *call)
{
    struct buf out cleanup_buf = {0};
    buf_init(&out, 16u << 20);
    core_metrics(call->core, &out);
    if (out.failed)
        call_fail(call, 500, "the metrics are too long");
    else
        call_text(call, 200, "text/plain; version=0.0.4; charset=utf-8", buf_text(&out), out.len);
}

static void get_anomalies(struct call *call)
{
    struct buf out cleanup_buf = {0};
    struct json_writer w;
    buf_init(&out, 4u << 20);
    jw_init(&w, &out, false);
    core_anomalies(call->core, &w);
    call_reply(call, 200, &out);
}

/* ---- pools ---- */

static void write_pool(void *ctx, const struct pool_info *p)
{
    struct json_writer *w = ctx;
    jw_object_begin(w);
    jw_kv_string(w, "template", p->template_name);
    jw_kv_uint(w, "idle", p->idle);
    jw_kv_uint(w, "starting", p->starting);
    jw_kv_uint(w, "target", p->target);
    jw_kv_uint(w, "min", p->min);
    jw_kv_uint(w, "max", p->max);
    jw_kv_uint(w, "hits", p->hits);
    jw_kv_uint(w, "misses", p->misses);
    jw_kv_uint(w, "expired", p->expired);
    jw_kv_uint(w, "failures", p->failures);
    jw_object_end(w);
}

static void get_pools(struct call *call)
{
    struct buf out cleanup_buf = {0};
    struct json_writer w;
    buf_init(&out, 1u << 20);
    jw_init(&w, &out, false);
    jw_array_begin(&w);
    pools_each(call->core, write_pool, &w);
    jw_array_end(&w);
    call_reply(call, 200, &out);
}

static void resize_body(struct call *call, const struct json *body)
{
    struct err err = ERR_INIT;
    int64_t min = -1, max = -1;
    const struct field fields[] = {
        {"min", FIELD_INT, &min, 0, 10000},
        {"max", FIELD_INT, &max, 0, 10000},
    };
    if (!core_has_template(call->core, call->params.value[0])) {
        call_fail(call, 404, "there is no template \"%s\"", call->params.value[0]);
        return;
    }
    if (FIELDS_READ(body, FIELDS_STRICT, fields, &err) < 0 ||
        (min < 0 && err_set(&err, ERR_USAGE, "\"min\" is missing")) ||
        (max < min && err_set(&err, ERR_USAGE, "\"max\" is missing or below \"min\"")) ||
        pool_resize(call->core, call->params.value[0], (unsigned)min, (unsigned)max, &err) < 0)
        call_fail_err(call, &err);
    else
        call_empty(call, 204);
}

/* ---- audit ---- */

static void ask(struct call *call, const struct buf *question)
{
    if (question->failed) {
        call_fail(call, 400, "the question is too long");
        return;
    }
    call_watch(call);
    call_wait(call);
    core_query(call->core, buf_text(question), call_answered, call);
}

static bool add_number(struct call *call, struct json_writer *w, const char *name)
{
    char text[32];
    uint64_t number;
    int r = call_query(call, name, text, sizeof(text));
    if (r <= 0)
        return r == 0;
    if (num_parse_uint(text, &number, NULL) < 0 || number > INT64_MAX) {
        call_fail(call, 400, "%s: expected a number", name);
        return false;
    }
    jw_kv_uint(w, name, number);
    return true;
}

static bool add_text(struct call *call, struct json_writer *w, const char *name)
{
    char text[PARAM_LEN];
    int r = call_query(call, name, text, sizeof(text));
    if (r > 0)
        jw_kv_string(w, name, text);
    return r >= 0;
}

static void get_audit(struct call *call)
{
    struct buf question cleanup_buf = {0};
    struct json_writer w;
    jw_begin(&w, &question, 8192);
    jw_kv_string(&w, "what", "audit");
    if (!add_number(call, &w, "after") || !add_number(call, &w, "limit") ||
        !add_number(call, &w, "since_us") || !add_text(call, &w, "box") ||
        !add_text(call, &w, "kind") || !add_text(call, &w, "key") ||
        !add_text(call, &w, "boundary"))
        return;
    jw_object_end(&w);
    ask(call, &question);
}

static void get_summary(struct call *call)
{
    struct buf question cleanup_buf = {0};
    struct json_writer w;
    jw_begin(&w, &question, 8192);
    jw_kv_string(&w, "what", "summary");
    if (!add_number(call, &w, "since_us"))
        return;
    jw_object_end(&w);
    ask(call, &question);
}

static void get_verify(struct call *call)
{
    struct buf question cleanup_buf = {0};
    buf_init(&question, 64);
    buf_str(&question, "{\"what\":\"verify\"}");
    ask(call, &question);
}

/* ---- GET /sandboxes/{id}/receipt ---- */

/* Other keys get the same answer as for a sandbox that does not exist. */
static const struct json *own_receipt(const struct call *call, const struct json *answer)
{
    const char *owner = json_text(answer, "owner");
    bool mine =
        owner && call->key && (call->key->operator_key || strcmp(owner, call->key->id) == 0);
    return mine ? json_get(answer, "receipt") : NULL;
}

static void receipt_found(void *ctx, const char *json, size_t len, const struct err *err)
{
    struct call *call = ctx;
    struct json *tree = NULL;
    struct buf out cleanup_buf = {0};
    if (!call_came(call, err))
        return;
    (void)json_parse(json, len, NULL, &tree, NULL);
    const struct json *receipt = own_receipt(call, tree);
    buf_init(&out, 1u << 20);
    if (receipt) {
        struct json_writer w;
        jw_init(&w, &out, false);
        jw_json(&w, receipt);
        call_reply(call, 200, &out);
    } else {
        call_fail(call, 404, "there is no receipt of a sandbox %s", call->params.value[0]);
    }
    json_free(tree);
}

static void get_receipt(struct call *call)
{
    const char *id = call->params.value[0];
    if (!box_id_valid(id)) {
        call_fail(call, 400, "a sandbox id is %d letters and digits", BOX_ID_LEN);
        return;
    }
    if (box_find(call->core, call->key, id)) {
        call_fail(call, 409, "sandbox %s has not ended: its receipt is made at its end", id);
        return;
    }
    call_watch(call);
    call_wait(call);
    core_query(call->core, JSON_SMALL(JSON_TEXT("what", "receipt"), JSON_TEXT("box", id)),
               receipt_found, call);
}

/* ---- GET /sandboxes/{id}/logs?format=text ---- */

struct logs {
    struct buf out;
    int64_t pid; /* 0: all */
    unsigned found;
};

static void write_log_head(struct buf *out, const struct process_log *log)
{
    buf_fmt(out, "== process %lld", (long long)log->pid);
    if (log->tag)
        buf_fmt(out, " (%s)", log->tag);
    if (log->ended && WIFEXITED(log->wait_status))
        buf_fmt(out, ", exit status %d", WEXITSTATUS(log->wait_status));
    if (log->ended && WIFSIGNALED(log->wait_status))
        buf_fmt(out, ", signal: %d", WTERMSIG(log->wait_status));
    if (log->oom_killed)
        buf_str(out, ", oom_killed: the sandbox ran out of memory");
    buf_str(out, " ==\n");
}

static void write_log(void *ctx, const struct process_log *log)
{
    struct logs *l = ctx;
    if (l->pid && l->pid != log->pid)
        return;
    l->found++;
    if (!l->pid)
        write_log_head(&l->out, log);
    if (log->lost)
        buf_fmt(&l->out, "== %llu bytes before this are not kept ==\n",
                (unsigned long long)log->lost);
    buf_add(&l->out, log->data, log->len);
    if (!l->pid && log->len && log->data[log->len - 1] != '\n')
        buf_chr(&l->out, '\n');
}

static bool read_pid(struct call *call, int64_t *ret)
{
    char text[16];
    uint64_t pid = 0;
    int r = call_query(call, "pid", text, sizeof(text));
    if (r > 0 && (num_parse_uint(text, &pid, NULL) < 0 || !pid || pid > INT32_MAX)) {
        call_fail(call, 400, "pid: expected a number");
        return false;
    }
    *ret = (int64_t)pid;
    return r >= 0;
}

/* For `brig logs`. */
void logs_get_text(struct call *call)
{
    struct logs l = {0};
    struct box *b;
    if (!read_pid(call, &l.pid) || !(b = call_box(call)))
        return;
    call_buf(call, &l.out, 16u << 20);
    process_logs(b, write_log, &l);
    struct err err = ERR_INIT;
    if (l.out.failed && hold_refusal(&call->hold, &err) < 0)
        call_fail_err(call, &err);
    else if (l.pid && !l.found)
        call_fail(call, 404, "nothing is kept of a process %lld", (long long)l.pid);
    else
        call_text(call, 200, "text/plain; charset=utf-8", buf_text(&l.out), l.out.len);
    buf_done(&l.out);
}

const struct route brig_routes[] = {
    {"GET", "/version", ERRORS_API, false, get_version},
    {"GET", "/sandboxes/{id}/receipt", ERRORS_API, false, get_receipt},
    {"GET", "/accounts", ERRORS_API, false, accounts_get},
    {"GET", "/metrics", ERRORS_API, true, get_metrics},
    {"GET", "/anomalies", ERRORS_API, true, get_anomalies},
    {"GET", "/pools", ERRORS_API, true, get_pools},
    {"PUT", "/pools/{template}", ERRORS_API, true, .body = resize_body},
    {"GET", "/audit", ERRORS_API, true, get_audit},
    {"GET", "/audit/summary", ERRORS_API, true, get_summary},
    {"GET", "/audit/verify", ERRORS_API, true, get_verify},
    {0},
};
