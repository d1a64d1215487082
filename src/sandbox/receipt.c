/* The receipt: what each boundary enforced, as checked from outside before the code ran, plus
 * policy hash, what went in and came out, decisions, usage, verdict; and its signature, which a
 * process of its own makes (sandbox/notary.h). */
#include "audit/receipt.h"

#include "base/cleanup.h"
#include "base/hex.h"
#include "images/store.h"
#include "sandbox/internal.h"

#include <string.h>
#include <time.h>

static void time_now(char ret[static RECEIPT_TIME_SIZE])
{
    time_t now = time(NULL);
    struct tm tm;
    gmtime_r(&now, &tm);
    strftime(ret, RECEIPT_TIME_SIZE, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

static void write_times(const struct sandbox *s, struct json_writer *w)
{
    char now[RECEIPT_TIME_SIZE];
    time_now(now);
    if (s->started[0])
        jw_kv_string(w, "started", s->started);
    jw_kv_string(w, "finished", now);
}

/* ---- what went in and came out ---- */

static void write_hash(struct json_writer *w, const char *key, struct sha256 *sha)
{
    uint8_t digest[SHA256_SIZE];
    cleanup_buf struct buf text;
    buf_init(&text, 80);
    sha256_finish(sha, digest);
    buf_str(&text, "sha256:");
    hex_write(&text, digest, sizeof digest);
    jw_kv_string(w, key, buf_text(&text));
}

static void write_stream(struct json_writer *w, const char *name, const struct stream_hash *h)
{
    struct sha256 copy = h->sha;
    jw_key(w, name);
    jw_object_begin(w);
    jw_kv_uint(w, "bytes", h->bytes);
    write_hash(w, "hash", &copy);
    jw_object_end(w);
}

/* Each argument with its final NUL: arguments may be secrets, so only their hash is told. */
static void write_command(struct json_writer *w, char *const *argv)
{
    struct sha256 sha;
    sha256_init(&sha);
    for (; *argv; argv++)
        sha256_add(&sha, *argv, strlen(*argv) + 1);
    write_hash(w, "command", &sha);
}

/* Of a sandbox of the daemon: all programs that were started in it, in order. What they read and
 * wrote does not pass here. */
static void write_session(const struct sandbox *s, struct json_writer *w)
{
    struct sha256 copy = s->commands.sha;
    jw_key(w, "inputs");
    jw_object_begin(w);
    jw_key(w, "commands");
    jw_object_begin(w);
    jw_kv_uint(w, "count", s->commands.bytes);
    write_hash(w, "hash", &copy);
    jw_object_end(w);
    jw_object_end(w);
}

static void write_data(const struct sandbox *s, struct json_writer *w)
{
    if (s->session) {
        write_session(s, w);
        return;
    }
    jw_key(w, "inputs");
    jw_object_begin(w);
    write_command(w, s->request->argv);
    write_stream(w, s->request->code ? "code" : "stdin", &s->in_hash);
    jw_object_end(w);
    jw_key(w, "outputs");
    jw_object_begin(w);
    write_stream(w, "stdout", &s->out_hash);
    write_stream(w, "stderr", &s->err_hash);
    jw_object_end(w);
}

static void write_usage(const struct sandbox *s, struct json_writer *w)
{
    const struct usage *u = &s->lifecycle.usage;
    jw_key(w, "usage");
    jw_object_begin(w);
    jw_kv_uint(w, "cpu_usec", u->cpu_usec);
    jw_kv_uint(w, "cpu_beside_usec", u->cpu_usec - u->code_usec);
    jw_kv_uint(w, "memory_peak_bytes", u->memory_peak);
    jw_kv_string(w, "memory_peak_from", u->memory_exact ? "cgroup" : "largest process and samples");
    jw_kv_uint(w, "oom_kills", u->oom_kills + u->outlived);
    jw_kv_uint(w, "stdout_bytes", s->out_bytes);
    jw_kv_uint(w, "stderr_bytes", s->err_bytes);
    jw_object_end(w);
}

static void write_verdict(const struct run_result *r, struct json_writer *w)
{
    jw_key(w, "verdict");
    jw_object_begin(w);
    run_result_write_end(r, w);
    jw_kv_string(w, "limit_hit", r->limit_hit);
    jw_kv_string(w, "ended_because", r->ended_because);
    jw_kv_uint(w, "denial_kinds", r->denials.count);
    jw_kv_uint(w, "denials_not_listed", r->denials.dropped);
    jw_object_end(w);
}

static void write_weaker(const struct run_result *r, struct json_writer *w)
{
    jw_key(w, "weaker_than_level");
    jw_array_begin(w);
    for (unsigned i = 0; i < r->notice_count; i++)
        jw_string(w, r->notices[i]);
    jw_array_end(w);
}

static void write_decisions(const struct run_result *r, struct json_writer *w)
{
    jw_key(w, "decisions");
    jw_object_begin(w);
    jw_key(w, "denials");
    denial_write_json(&r->denials, w);
    jw_object_end(w);
}

/* Which bytes were the root, whatever the name meant then or means later. */
static void write_image(const struct image *image, struct json_writer *w)
{
    if (!image)
        return;
    jw_kv_object(w, "image");
    jw_kv_string(w, "name", image->name.name);
    jw_kv_string(w, "manifest", image->name.manifest);
    jw_kv_string(w, "config", image->manifest.config.digest);
    jw_kv_string(w, "files", image->facts.tree);
    jw_object_end(w);
}

static void write_body(struct sandbox *s, struct buf *out)
{
    struct run_result *r = s->result;
    struct json_writer w;
    char hash[72];
    policy_hash(s->request->policy, hash);
    jw_init(&w, out, false);
    jw_object_begin(&w);
    jw_kv_int(&w, "version", RECEIPT_VERSION);
    jw_kv_string(&w, "sandbox_id", s->id);
    jw_kv_string(&w, "brig_version", BRIG_VERSION);
    write_times(s, &w);
    jw_kv_string(&w, "level", level_name(r->level));
    jw_kv_string(&w, "tier", tier_name(r->tier));
    jw_kv_string(&w, "policy_hash", hash);
    write_image(s->request->image, &w);
    write_weaker(r, &w);
    jw_key(&w, "boundaries");
    jw_written(&w, &s->boundaries);
    write_data(s, &w);
    write_decisions(r, &w);
    jw_key(&w, "states_usec");
    state_write_json(&s->state, &w);
    write_usage(s, &w);
    if (s->netlog) {
        jw_key(&w, "network");
        netlog_write_json(s->netlog, &w, false);
    }
    write_verdict(r, &w);
    jw_object_end(&w);
}

/* ---- signing ---- */

void sandbox_receipt_begin(struct sandbox *s)
{
    time_now(s->started);
    s->in.hash = s->request->stdin_hash;
    if (!s->request->receipt)
        return;
    stream_hash_init(&s->out_hash);
    stream_hash_init(&s->err_hash);
    stream_hash_init(&s->in_hash);
    s->out.hash = &s->out_hash;
    s->errout.hash = &s->err_hash;
    s->in.hash = &s->in_hash;
    notary_begins(&s->notary, s->id);
}

/* Whether that is a reason not to go on is the caller's word. */
static int give_up(struct sandbox *s, struct err *err)
{
    s->notary_err = *err;
    notary_done(&s->notary);
    s->lifecycle.helpers[HELPER_NOTARY] = 0;
    if (s->request->sign == RUN_SIGN_REQUIRED)
        return err_wrap(err, "the receipt could not be signed");
    *err = (struct err)ERR_INIT;
    return 0;
}

int sandbox_notary_start(struct sandbox *s, struct err *err)
{
    if (!s->request->receipt || s->request->sign == RUN_SIGN_NOT)
        return 0;
    if (notary_start(&s->notary, err) < 0)
        return give_up(s, err);
    s->lifecycle.helpers[HELPER_NOTARY] = s->notary.pid;
    return 0;
}

int sandbox_notary_await(struct sandbox *s, struct err *err)
{
    if (s->request->sign != RUN_SIGN_REQUIRED)
        return 0;
    return notary_await(&s->notary, s->signal_fd, err) < 0 ? give_up(s, err) : 0;
}

static void note(struct sandbox *s, const struct err *err)
{
    if (!s->notary_err.code)
        s->notary_err = *err;
}

void sandbox_receipt_write(struct sandbox *s)
{
    struct err err = ERR_INIT;
    struct receipt r;
    cleanup_buf struct buf text;
    buf_init(&text, RECEIPT_MAX);
    if (!s->request->receipt)
        return;
    write_body(s, &text);
    receipt_init(&r);
    if (text.failed)
        err_set(&err, ERR_LIMIT, "the receipt is too long");
    if (text.failed || receipt_body_read(text.data, text.len, &r, &err) < 0)
        note(s, &err);
    buf_add(&s->result->receipt, r.body.data ? r.body.data : text.data,
            r.body.data ? r.body.len : text.len);
    receipt_done(&r);
    if (s->notary.fd >= 0 && notary_ask(&s->notary, &s->result->receipt, &err) < 0)
        note(s, &err);
}

static void add_signature(struct sandbox *s)
{
    struct err err = ERR_INIT;
    cleanup_buf struct buf proof, body;
    buf_init(&proof, (size_t)256 * 1024);
    if (s->notary.fd >= 0 && !s->notary_err.code && notary_answer(&s->notary, &proof, &err) < 0)
        note(s, &err);
    bool good = s->notary.fd >= 0 && !s->notary_err.code;
    body = s->result->receipt;
    buf_init(&s->result->receipt, 2 * RECEIPT_MAX);
    receipt_write_signed(&s->result->receipt, body.data, body.len, good ? buf_text(&proof) : NULL,
                         s->notary_err.message);
    s->result->is_signed = good;
    s->result->why_not_signed = s->notary_err;
}

void sandbox_receipt_end(struct sandbox *s, int result)
{
    if (result < 0)
        notary_forget(&s->notary);
    else if (s->request->receipt && s->request->sign != RUN_SIGN_NOT)
        add_signature(s);
    notary_done(&s->notary);
}
