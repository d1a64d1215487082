/* Counts and latencies as Prometheus reads them. What can be named is bounded: templates by their
 * number, everything else by tables here. */
#include "base/cleanup.h"
#include "base/text.h"
#include "daemon/core/core_internal.h"

#include <stdio.h>
#include <string.h>

static const uint64_t bounds_usec[HISTOGRAM_BUCKETS] = {
    250,   500,    1000,   2000,   3000,    5000,    10000,   20000,
    50000, 100000, 200000, 500000, 1000000, 2000000, 5000000, 10000000,
};

static const struct {
    const char *name, *help;
} counters[COUNTER_COUNT] = {
    [COUNT_CREATED] = {"brig_boxes_created_total", "Sandboxes that were launched for a request"},
    [COUNT_CLAIMED] = {"brig_boxes_claimed_total", "Sandboxes that were handed out by a pool"},
    [COUNT_CREATE_FAILED] = {"brig_boxes_failed_total", "Requests for a sandbox that got none"},
    [COUNT_ENDED] = {"brig_boxes_ended_total", "Sandboxes that are gone"},
    [COUNT_SPAWNED] = {"brig_processes_started_total", "Processes that were started"},
    [COUNT_EXECUTED] = {"brig_executions_total", "Pieces of code given to an interpreter"},
    [COUNT_REQUESTS] = {"brig_requests_total", "HTTP requests"},
    [COUNT_REFUSED] = {"brig_requests_refused_total", "HTTP requests that were refused"},
    [COUNT_DENIALS] = {"brig_denials_total", "What sandboxes tried and were not allowed to"},
    [COUNT_LIMITS] = {"brig_limits_hit_total", "Sandboxes that a limit ended"},
};

void core_count(struct core *c, enum counter counter, uint64_t n)
{
    c->counters[counter] += n;
}

void core_observe(struct core *c, const char *what, uint64_t usec)
{
    struct histogram *h = c->histograms;
    while (h < c->histograms + HISTOGRAMS_MAX && h->name[0] && strcmp(h->name, what) != 0)
        h++;
    if (h == c->histograms + HISTOGRAMS_MAX)
        return;
    if (!h->name[0])
        snprintf(h->name, sizeof h->name, "%s", what);
    unsigned i = 0;
    while (i < HISTOGRAM_BUCKETS && usec > bounds_usec[i])
        i++;
    h->bucket[i]++;
    h->count++;
    h->sum_usec += usec;
}

/* "limit: memory" and "the daemon is gone" become words that a label can have. */
static void to_label(const char *reason, char *out, size_t size)
{
    size_t n = 0;
    for (; n < size - 1 && reason[n]; n++) {
        char ch = reason[n];
        out[n] = (ch >= 'a' && ch <= 'z') || (ch >= '0' && ch <= '9') ? ch : '_';
    }
    out[n] = '\0';
}

void metrics_reason(struct core *c, const char *reason)
{
    char name[sizeof c->reasons[0].name];
    to_label(*reason ? reason : "unknown", name, sizeof name);
    if (text_begins(reason, "limit"))
        core_count(c, COUNT_LIMITS, 1);
    struct reason_count *r = c->reasons, *last = r + REASONS_MAX - 1;
    while (r < last && r->name[0] && strcmp(r->name, name) != 0)
        r++;
    if (!r->name[0])
        snprintf(r->name, sizeof r->name, "%s", r == last ? "other" : name);
    r->count++;
}

/* ---- text ---- */

static void head(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_fmt(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* The name of a template is an operator's; a label must still be well-formed. */
static void label(struct buf *out, const char *name, const char *value)
{
    buf_fmt(out, "%s=\"", name);
    for (; *value; value++) {
        if (*value == '"' || *value == '\\')
            buf_chr(out, '\\');
        buf_chr(out, (unsigned char)*value < ' ' ? '_' : *value);
    }
    buf_chr(out, '"');
}

static void write_counters(struct core *c, struct buf *out)
{
    for (unsigned i = 0; i < COUNTER_COUNT; i++) {
        head(out, counters[i].name, "counter", counters[i].help);
        buf_fmt(out, "%s %llu\n", counters[i].name, (unsigned long long)c->counters[i]);
    }
    head(out, "brig_boundary_denials_total", "counter", "The same, by boundary");
    for (int i = 0; i < BOUNDARY_COUNT; i++)
        buf_fmt(out, "brig_boundary_denials_total{boundary=\"%s\"} %llu\n",
                i ? boundary_name((enum boundary_id)i) : "none", (unsigned long long)c->denials[i]);
    head(out, "brig_boxes_ended_by_reason_total", "counter", "Why sandboxes ended");
    for (unsigned i = 0; i < REASONS_MAX && c->reasons[i].name[0]; i++)
        buf_fmt(out, "brig_boxes_ended_by_reason_total{reason=\"%s\"} %llu\n", c->reasons[i].name,
                (unsigned long long)c->reasons[i].count);
    head(out, "brig_audit_records_lost", "gauge", "Records that wait to be counted as lost");
    buf_fmt(out, "brig_audit_records_lost %llu\n", (unsigned long long)c->records_lost);
}

static void write_boxes(struct core *c, struct buf *out)
{
    head(out, "brig_boxes", "gauge", "Sandboxes that exist, by template and state");
    for (struct tmpl *t = c->templates; t; t = t->next)
        for (unsigned s = 0; s < BOX_GONE; s++) {
            if (!t->boxes[s] && s != BOX_RUNNING)
                continue;
            buf_str(out, "brig_boxes{");
            label(out, "template", t->name);
            buf_fmt(out, ",state=\"%s\"} %u\n", box_state_name((enum box_state)s), t->boxes[s]);
        }
    head(out, "brig_boxes_max", "gauge", "How many there may be");
    buf_fmt(out, "brig_boxes_max %u\n", c->config.max_boxes);
}

static void write_pool_line(struct buf *out, const char *name, const struct tmpl *t, uint64_t value)
{
    buf_fmt(out, "%s{", name);
    label(out, "template", t->name);
    buf_fmt(out, "} %llu\n", (unsigned long long)value);
}

static void write_pools(struct core *c, struct buf *out)
{
    static const struct {
        const char *name, *type, *help;
        size_t offset;
        bool wide;
    } lines[] = {
#define LINE(name, type, help, field, wide) {name, type, help, offsetof(struct pool, field), wide}
        LINE("brig_pool_idle", "gauge", "Warm sandboxes that wait", idle, false),
        LINE("brig_pool_starting", "gauge", "Warm sandboxes on their way", starting, false),
        LINE("brig_pool_min", "gauge", "Smallest size of the pool", min, false),
        LINE("brig_pool_max", "gauge", "Largest size of the pool", max, false),
        LINE("brig_pool_hits_total", "counter", "Requests that a pool served", hits, true),
        LINE("brig_pool_misses_total", "counter", "Requests that found it empty", misses, true),
        LINE("brig_pool_expired_total", "counter", "Warm ones that nobody wanted", expired, true),
        LINE("brig_pool_failures_total", "counter", "Warm ones that failed", failures, true),
#undef LINE
    };
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        head(out, lines[i].name, lines[i].type, lines[i].help);
        for (struct tmpl *t = c->templates; t; t = t->next) {
            const char *at = (const char *)&t->pool + lines[i].offset;
            uint64_t value = lines[i].wide ? *(const uint64_t *)(const void *)at
                                           : *(const unsigned *)(const void *)at;
            write_pool_line(out, lines[i].name, t, value);
        }
    }
}

static void write_histograms(struct core *c, struct buf *out)
{
    static const char name[] = "brig_duration_seconds";
    head(out, name, "histogram", "How long things took");
    for (unsigned i = 0; i < HISTOGRAMS_MAX && c->histograms[i].name[0]; i++) {
        const struct histogram *h = &c->histograms[i];
        uint64_t sum = 0;
        for (unsigned b = 0; b < HISTOGRAM_BUCKETS; b++) {
            sum += h->bucket[b];
            buf_fmt(out, "%s_bucket{what=\"%s\",le=\"%g\"} %llu\n", name, h->name,
                    (double)bounds_usec[b] / 1e6, (unsigned long long)sum);
        }
        buf_fmt(out, "%s_bucket{what=\"%s\",le=\"+Inf\"} %llu\n", name, h->name,
                (unsigned long long)h->count);
        buf_fmt(out, "%s_sum{what=\"%s\"} %.6f\n", name, h->name, (double)h->sum_usec / 1e6);
        buf_fmt(out, "%s_count{what=\"%s\"} %llu\n", name, h->name, (unsigned long long)h->count);
    }
}

void core_metrics(struct core *c, struct buf *out)
{
    write_counters(c, out);
    write_boxes(c, out);
    write_pools(c, out);
    write_histograms(c, out);
    usage_metrics(c, out);
    head(out, "brig_anomalies_total", "counter", "Sandboxes that were unlike others");
    buf_fmt(out, "brig_anomalies_total %u\n", c->anomaly_count);
    head(out, "brig_start_time_seconds", "gauge", "When the daemon started");
    buf_fmt(out, "brig_start_time_seconds %.3f\n", (double)c->started_ms / 1e3);
}
