/* The result of a run, as a structure and as the JSON of `brig run --json`. */
#include "sandbox/sandbox.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CAPTURE_MAX (1ull << 30)
#define RECEIPT_MAX (2u << 20)

/* A body of one MiB, and its proof. */
static const struct json_limits receipt_limits = {
    .max_bytes = RECEIPT_MAX, .max_depth = 32, .max_nodes = 131072};

void run_result_init(struct run_result *r)
{
    memset(r, 0, sizeof *r);
    buf_init(&r->out, CAPTURE_MAX);
    buf_init(&r->errout, CAPTURE_MAX);
    buf_init(&r->receipt, RECEIPT_MAX);
}

void run_result_done(struct run_result *r)
{
    buf_done(&r->out);
    buf_done(&r->errout);
    buf_done(&r->receipt);
    learn_free(r->learned);
    if (r->changes)
        close(r->changes->fd);
    free(r->changes);
    r->changes = NULL;
}

void run_result_write_end(const struct run_result *r, struct json_writer *w)
{
    jw_key(w, "exit_code");
    if (r->exit_code >= 0)
        jw_int(w, r->exit_code);
    else
        jw_null(w);
    jw_key(w, "signal");
    if (r->signal)
        jw_int(w, r->signal);
    else
        jw_null(w);
}

static void write_output(const struct run_result *r, struct json_writer *w)
{
    jw_key(w, "stdout");
    jw_bytes(w, r->out.data, r->out.len);
    jw_key(w, "stderr");
    jw_bytes(w, r->errout.data, r->errout.len);
    jw_kv_bool(w, "stdout_truncated", r->stdout_truncated);
    jw_kv_bool(w, "stderr_truncated", r->stderr_truncated);
}

static void write_asked(const struct run_result *r, struct json_writer *w)
{
    jw_key(w, "approvals");
    jw_array_begin(w);
    for (unsigned i = 0; i < r->asked_count; i++) {
        const struct run_asked *a = &r->asked[i];
        jw_object_begin(w);
        jw_kv_string(w, "id", a->id);
        jw_kv_string(w, "kind", a->kind);
        jw_key(w, "text"); /* cut to fit, perhaps within a character */
        jw_bytes(w, a->text, strlen(a->text));
        jw_key(w, "reason");
        jw_bytes(w, a->reason, strlen(a->reason));
        jw_kv_string(w, "answer", a->answer);
        jw_kv_string(w, "by", a->by);
        jw_object_end(w);
    }
    jw_array_end(w);
}

void run_result_json(const struct run_result *r, struct buf *out, bool pretty)
{
    struct json_writer w;
    struct json *receipt = NULL;
    jw_init(&w, out, pretty);
    jw_object_begin(&w);
    jw_kv_string(&w, "sandbox_id", r->sandbox_id);
    jw_kv_string(&w, "level", level_name(r->level));
    jw_kv_string(&w, "tier", tier_name(r->tier));
    run_result_write_end(r, &w);
    write_output(r, &w);
    jw_kv_bool(&w, "timed_out", r->timed_out);
    jw_kv_bool(&w, "oom_killed", r->oom_killed);
    jw_kv_string(&w, "limit_hit", r->limit_hit);
    jw_key(&w, "duration_ms");
    jw_real(&w, r->duration_ms);
    jw_key(&w, "cpu_ms");
    jw_real(&w, r->cpu_ms);
    jw_kv_uint(&w, "peak_memory_bytes", r->peak_memory_bytes);
    if (r->reviewed) {
        jw_key(&w, "review");
        jw_string(&w, r->review_pending ? r->sandbox_id : NULL);
    }
    if (r->ended_because)
        jw_kv_string(&w, "ended_because", r->ended_because);
    if (r->left.code)
        jw_kv_string(&w, "left_behind", r->left.message);
    jw_key(&w, "denials");
    denial_write_json(&r->denials, &w);
    if (r->learned) {
        jw_key(&w, "learned");
        learn_write_json(r->learned, &w);
    }
    if (r->asked_count)
        write_asked(r, &w);
    jw_key(&w, "receipt");
    if (json_parse(buf_text(&r->receipt), r->receipt.len, &receipt_limits, &receipt, NULL) == 0)
        jw_json(&w, receipt);
    else
        jw_null(&w);
    json_free(receipt);
    jw_object_end(&w);
}
