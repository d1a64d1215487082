/* What is unlike the other sandboxes of the same template: more memory, time or refusals than four
 * standard deviations above the mean, once there are twenty to compare with; and a run of failures
 * that the template does not usually have. The last 64 are kept. */
#include "base/cleanup.h"
#include "base/wall.h"
#include "daemon/core/core_internal.h"

#include <stdio.h>
#include <string.h>

#define SAMPLES_MIN 20u
#define SIGMAS      4.0
#define WINDOW      32u
#define APART       64u /* exits between two flags of the same kind */

static const char *const usual_names[USUAL_COUNT] = {
    [USUAL_MEMORY] = "memory_peak", [USUAL_CPU] = "cpu_usec", [USUAL_DENIALS] = "denials"};

/* After Newton; the daemon has no other use for a library of mathematics. */
double root_of(double v)
{
    double x = v > 1 ? v : 1;
    if (v <= 0)
        return 0;
    for (int i = 0; i < 200; i++) {
        double next = (x + v / x) / 2;
        if (next >= x)
            break;
        x = next;
    }
    return x;
}

/* What a record can hold as a whole number. */
static double whole(double v)
{
    return v > 9e15 ? 9e15 : v;
}

static void flag(struct tmpl *t, struct usual_of who, const char *what, double value, double mean,
                 double deviation)
{
    struct core *c = t->core;
    struct anomaly *a = &c->anomalies[c->anomaly_at++ % ANOMALIES_MAX];
    *a = (struct anomaly){
        .time_ms = wall_ms(), .value = value, .mean = mean, .deviation = deviation};
    snprintf(a->template_name, sizeof a->template_name, "%s", t->name);
    snprintf(a->box, sizeof a->box, "%s", who.box ? who.box : "");
    snprintf(a->what, sizeof a->what, "%s", what);
    c->anomaly_count++;
    core_record(c, "anomaly.seen", who.box, who.owner,
                JSON_SMALL(JSON_TEXT("what", what), JSON_NUMBER("value", whole(value)),
                           JSON_NUMBER("mean", whole(mean))));
}

void usual_see(struct tmpl *t, struct usual_of who, enum usual_id id, double value)
{
    struct usual *u = &t->usual[id];
    if (u->count >= SAMPLES_MIN) {
        double sigma = root_of(u->spread / (double)u->count);
        /* If all samples are equal the deviation is 0, and the smallest difference would count as
         * infinite. */
        double least = u->mean * 0.05 + 1;
        double deviation = (value - u->mean) / (sigma > least ? sigma : least);
        if (deviation > SIGMAS)
            flag(t, who, usual_names[id], value, u->mean, deviation);
    }
    u->count++;
    double before = value - u->mean;
    u->mean += before / (double)u->count;
    u->spread += before * (value - u->mean);
}

static unsigned ones(uint32_t v)
{
    unsigned n = 0;
    for (; v; v &= v - 1)
        n++;
    return n;
}

void usual_exit(struct tmpl *t, struct usual_of who, bool failed)
{
    t->exits_window = (t->exits_window << 1) | failed;
    t->exits++;
    t->exits_failed += failed;
    uint64_t older = t->exits > WINDOW ? t->exits - WINDOW : 0;
    if (older < SAMPLES_MIN || t->exits - t->last_flag_at < APART)
        return;
    unsigned now = ones(t->exits_window);
    double usual = (double)(t->exits_failed - now) / (double)older;
    double p = usual < 0.01 ? 0.01 : usual;
    double sigma = root_of(p * (1 - p) * WINDOW);
    double deviation = ((double)now - usual * WINDOW) / (sigma > 0.5 ? sigma : 0.5);
    if (deviation <= SIGMAS)
        return;
    t->last_flag_at = t->exits;
    flag(t, who, "failures", (double)now / WINDOW * 100, usual * 100, deviation);
}

void core_anomalies(struct core *c, struct json_writer *w)
{
    unsigned count = c->anomaly_count < ANOMALIES_MAX ? c->anomaly_count : ANOMALIES_MAX;
    jw_array_begin(w);
    for (unsigned i = 0; i < count; i++) {
        const struct anomaly *a = &c->anomalies[(c->anomaly_at - 1 - i) % ANOMALIES_MAX];
        jw_object_begin(w);
        jw_kv_int(w, "time_ms", a->time_ms);
        jw_kv_string(w, "template", a->template_name);
        jw_kv_string(w, "box", a->box[0] ? a->box : NULL);
        jw_kv_string(w, "what", a->what);
        jw_key(w, "value");
        jw_real(w, a->value);
        jw_key(w, "mean");
        jw_real(w, a->mean);
        jw_key(w, "deviation");
        jw_real(w, a->deviation);
        jw_object_end(w);
    }
    jw_array_end(w);
}
