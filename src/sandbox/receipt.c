/* The receipt: what each boundary enforced, as checked from outside before the code ran, plus
 * policy hash, usage, verdict. */
#include "sandbox/internal.h"

#include <time.h>

static void write_time(struct json_writer *w)
{
    char text[32];
    time_t now = time(NULL);
    struct tm tm;
    gmtime_r(&now, &tm);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
    jw_kv_string(w, "finished", text);
}

static void write_usage(const struct sandbox *s, struct json_writer *w)
{
    const struct usage *u = &s->lifecycle.usage;
    jw_key(w, "usage");
    jw_object_begin(w);
    jw_kv_uint(w, "cpu_usec", u->cpu_usec);
    jw_kv_uint(w, "memory_peak_bytes", u->memory_peak);
    jw_kv_string(w, "memory_peak_from", u->memory_exact ? "cgroup" : "largest process and samples");
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

void receipt_write(struct sandbox *s)
{
    struct run_result *r = s->result;
    struct json_writer w;
    char hash[72];
    policy_hash(s->request->policy, hash);
    jw_init(&w, &r->receipt, false);
    jw_object_begin(&w);
    jw_kv_int(&w, "version", 1);
    jw_kv_string(&w, "sandbox_id", s->id);
    jw_kv_string(&w, "brig_version", BRIG_VERSION);
    write_time(&w);
    jw_kv_string(&w, "level", level_name(r->level));
    jw_kv_string(&w, "tier", tier_name(r->tier));
    jw_kv_string(&w, "policy_hash", hash);
    write_weaker(r, &w);
    jw_key(&w, "boundaries");
    jw_written(&w, &s->boundaries);
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
