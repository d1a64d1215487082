/* brig doctor: what this host can enforce; for what it cannot: why, and what would change that. */
#include "base/cleanup.h"
#include "base/json.h"
#include "cli/term.h"
#include "cli/verb.h"
#include "sandbox/sandbox.h"

#include <stdio.h>

enum { OPT_JSON = 1 };

static const struct opt doctor_items[] = {
    {.id = OPT_JSON,
     .name = "json",
     .group = "Output",
     .help = "print the report as one JSON object"},
};
static const struct opt_table doctor_table = {
    .items = doctor_items, .count = ARRAY_LEN(doctor_items), .next = &common_options};

struct style {
    bool colour;
    bool utf8;
};

static const char *mark(struct style s, bool good)
{
    if (s.utf8 && s.colour)
        return good ? "\033[32m✓\033[0m " : "\033[31m✗\033[0m ";
    if (s.utf8)
        return good ? "✓ " : "✗ ";
    if (s.colour)
        return good ? "\033[32mok\033[0m" : "\033[31mno\033[0m";
    return good ? "ok" : "no";
}

static void title(struct buf *out, struct style s, const char *text)
{
    buf_fmt(out, s.colour ? "%s\033[1m%s\033[0m\n" : "%s%s\n", out->len ? "\n" : "", text);
}

static void line(struct buf *out, struct style s, bool good, const char *name, const char *detail)
{
    if (detail[0]) {
        buf_fmt(out, "  %s  %-24s ", mark(s, good), name);
        term_clean(out, detail);
    } else {
        buf_fmt(out, "  %s  %s", mark(s, good), name);
    }
    buf_chr(out, '\n');
}

static void advice(struct buf *out, const char *word, const char *text)
{
    if (!text[0])
        return;
    buf_fmt(out, "        %s: ", word);
    term_clean(out, text);
    buf_chr(out, '\n');
}

static void reason(struct buf *out, bool good, const char *why, const char *how)
{
    if (good)
        return;
    advice(out, "why", why);
    advice(out, "how", how);
}

static void report_text(const struct host_report *r, struct buf *out, struct style s)
{
    title(out, s, "This host has");
    for (unsigned i = 0; i < r->fact_count; i++) {
        const struct host_fact *f = &r->facts[i];
        line(out, s, f->present, f->name, f->detail);
        reason(out, f->present, f->why, f->how);
    }
    title(out, s, "Tiers: which kernel boundary can be had");
    for (size_t i = 0; i < ARRAY_LEN(r->tiers); i++) {
        line(out, s, r->tiers[i].available, tier_name(r->tiers[i].tier), "");
        reason(out, r->tiers[i].available, r->tiers[i].why, r->tiers[i].how);
    }
    title(out, s, "Levels: what `brig run --level` can do here");
    for (size_t i = 0; i < ARRAY_LEN(r->levels); i++) {
        char detail[64] = "";
        if (r->levels[i].available)
            snprintf(detail, sizeof detail, "%s tier", tier_name(r->levels[i].tier));
        line(out, s, r->levels[i].available, level_name(r->levels[i].level), detail);
        reason(out, r->levels[i].available, r->levels[i].why, r->levels[i].how);
    }
}

static void reason_json(struct json_writer *w, bool good, const char *why, const char *how)
{
    if (!good && why[0])
        jw_kv_string(w, "why", why);
    if (!good && how[0])
        jw_kv_string(w, "how", how);
    jw_object_end(w);
}

static void facts_json(const struct host_report *r, struct json_writer *w)
{
    jw_key(w, "facts");
    jw_array_begin(w);
    for (unsigned i = 0; i < r->fact_count; i++) {
        const struct host_fact *f = &r->facts[i];
        jw_object_begin(w);
        jw_kv_string(w, "name", f->name);
        jw_kv_bool(w, "present", f->present);
        if (f->detail[0])
            jw_kv_string(w, "detail", f->detail);
        reason_json(w, f->present, f->why, f->how);
    }
    jw_array_end(w);
}

static void tiers_json(const struct host_report *r, struct json_writer *w)
{
    jw_key(w, "tiers");
    jw_array_begin(w);
    for (size_t i = 0; i < ARRAY_LEN(r->tiers); i++) {
        jw_object_begin(w);
        jw_kv_string(w, "tier", tier_name(r->tiers[i].tier));
        jw_kv_bool(w, "available", r->tiers[i].available);
        reason_json(w, r->tiers[i].available, r->tiers[i].why, r->tiers[i].how);
    }
    jw_array_end(w);
}

static void levels_json(const struct host_report *r, struct json_writer *w)
{
    jw_key(w, "levels");
    jw_array_begin(w);
    for (size_t i = 0; i < ARRAY_LEN(r->levels); i++) {
        bool good = r->levels[i].available;
        jw_object_begin(w);
        jw_kv_string(w, "level", level_name(r->levels[i].level));
        jw_kv_bool(w, "available", good);
        jw_kv_string(w, "tier", good ? tier_name(r->levels[i].tier) : NULL);
        reason_json(w, good, r->levels[i].why, r->levels[i].how);
    }
    jw_array_end(w);
}

static void report_json(const struct host_report *r, struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out, false);
    jw_object_begin(&w);
    jw_kv_string(&w, "version", BRIG_VERSION);
    facts_json(r, &w);
    tiers_json(r, &w);
    levels_json(r, &w);
    jw_object_end(&w);
    buf_chr(out, '\n');
}

static bool level_available(const struct host_report *r, enum level level)
{
    for (size_t i = 0; i < ARRAY_LEN(r->levels); i++) {
        if (r->levels[i].level == level)
            return r->levels[i].available;
    }
    return false;
}

static int take(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    if (!opt)
        return err_set(err, ERR_USAGE, "unexpected argument '%.60s'", value);
    *(bool *)ctx = true;
    return 0;
}

static int doctor_main(const struct verb *verb, int argc, char *const argv[])
{
    struct err err = ERR_INIT;
    bool json = false;
    int rest = 0;
    int r = verb_parse(verb, argc, argv, take, &json, &rest, &err);
    if (r > 0)
        return 0;
    if (r >= 0 && rest < argc)
        r = take(&json, NULL, argv[rest], &err);
    if (r < 0)
        return verb_fail(verb, &err, json || verb_wants_json(argc, argv));

    struct host_report report = {0};
    cleanup_buf struct buf out;
    buf_init(&out, (size_t)256 * 1024);
    sandbox_host_report(&report);
    if (json)
        report_json(&report, &out);
    else
        report_text(&report, &out,
                    (struct style){term_colour(STDOUT_FILENO), term_utf8(STDOUT_FILENO)});
    if (term_write(STDOUT_FILENO, buf_text(&out), out.len) < 0)
        return 125;
    return level_available(&report, LEVEL_HIGH) ? 0 : 1;
}

const struct verb verb_doctor = {
    .name = "doctor",
    .summary = "what this host can enforce, and how to get what is missing",
    .usage = "doctor [--json]",
    .about = "Looks at the kernel, at what this user may do with it, and at control groups.\n"
             "Changes nothing. Run it as the user that will run the sandboxes.",
    .examples = "brig doctor\n"
                "brig doctor --json",
    .statuses = "0    level high, the default, can be had here\n"
                "1    it cannot\n"
                "125  bad usage",
    .options = &doctor_table,
    .main = doctor_main,
};
