/* brig doctor: what this host can enforce; for what it cannot: why, and what would change that;
 * with
 * --fix, the commands that do, run only where --yes says so. */
#include "base/cleanup.h"
#include "base/json.h"
#include "cli/remedy.h"
#include "cli/term.h"
#include "cli/verb.h"
#include "sandbox/sandbox.h"

#include <stdio.h>

enum { OPT_JSON = 1, OPT_FIX, OPT_YES };

static const struct opt doctor_items[] = {
    {.id = OPT_FIX,
     .name = "fix",
     .group = "Setting right",
     .help = "print the commands that give this host what it lacks"},
    {.id = OPT_YES,
     .name = "yes",
     .group = "Setting right",
     .help = "with --fix: run those that this user has the rights for"},
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
    title(out, s, "Tiers: which kernel boundary is available");
    for (size_t i = 0; i < ARRAY_LEN(r->tiers); i++) {
        line(out, s, r->tiers[i].available, tier_name(r->tiers[i].tier),
             r->tiers[i].available ? r->tiers[i].about : "");
        reason(out, r->tiers[i].available, r->tiers[i].why, r->tiers[i].how);
        if (r->tiers[i].available)
            advice(out, "with", r->tiers[i].how);
    }
    title(out, s, "Levels: what `brig run --level` can do here");
    for (size_t i = 0; i < ARRAY_LEN(r->levels); i++) {
        char detail[64] = "";
        if (r->levels[i].available)
            snprintf(detail, sizeof detail, "%s tier", tier_name(r->levels[i].tier));
        line(out, s, r->levels[i].available, level_name(r->levels[i].level), detail);
        reason(out, r->levels[i].available, r->levels[i].why, r->levels[i].how);
    }
    title(out, s, "Languages: what `brig run --tier wasm --lang` can run here");
    for (const struct host_language *l = r->languages; l->name; l++) {
        line(out, s, l->module[0], l->name, l->module);
        reason(out, l->module[0], l->why, l->how);
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
        if (r->tiers[i].available && r->tiers[i].how[0])
            jw_kv_string(w, "with", r->tiers[i].how);
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

static void languages_json(const struct host_report *r, struct json_writer *w)
{
    jw_key(w, "languages");
    jw_array_begin(w);
    for (const struct host_language *l = r->languages; l->name; l++) {
        jw_object_begin(w);
        jw_kv_string(w, "language", l->name);
        jw_kv_bool(w, "available", l->module[0]);
        jw_kv_string(w, "module", l->module[0] ? l->module : NULL);
        reason_json(w, l->module[0], l->why, l->how);
    }
    jw_array_end(w);
}

/* What --fix found and did. */
struct fixes {
    struct remedy all[REMEDIES_MAX];
    unsigned count;
    bool done; /* nothing of it is left to do */
};

static void fix_text(const struct remedy *m, struct buf *out)
{
    buf_fmt(out, "# %s: ", m->fact);
    term_clean(out, m->why);
    buf_chr(out, '\n');
    if (m->command[0]) {
        remedy_show(m, out);
        buf_chr(out, '\n');
    }
    if (m->words[0]) {
        buf_str(out, m->command[0] ? "# besides: " : "# by hand: ");
        term_clean(out, m->words);
        buf_chr(out, '\n');
    }
    if (m->tried && m->status)
        buf_fmt(out, "# it failed with status %d\n", m->status);
    else if (m->tried)
        buf_str(out, "# done\n");
}

static void fixes_text(const struct fixes *f, struct buf *out)
{
    for (unsigned i = 0; i < f->count; i++) {
        buf_str(out, i ? "\n" : "");
        fix_text(&f->all[i], out);
    }
    if (!f->count)
        buf_str(out, "nothing is missing here\n");
}

static void fixes_json(const struct fixes *f, struct json_writer *w)
{
    jw_key(w, "fixes");
    jw_array_begin(w);
    for (unsigned i = 0; i < f->count; i++) {
        const struct remedy *m = &f->all[i];
        jw_object_begin(w);
        jw_kv_string(w, "name", m->fact);
        jw_kv_string(w, "why", m->why);
        jw_kv_string(w, "command", m->command[0] ? m->command : NULL);
        jw_kv_bool(w, "root", m->root);
        if (m->words[0])
            jw_kv_string(w, "words", m->words);
        jw_kv_bool(w, "tried", m->tried);
        if (m->tried)
            jw_kv_int(w, "status", m->status);
        jw_object_end(w);
    }
    jw_array_end(w);
}

static void report_json(const struct host_report *r, const struct fixes *f, struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out, false);
    jw_object_begin(&w);
    jw_kv_string(&w, "version", BRIG_VERSION);
    facts_json(r, &w);
    tiers_json(r, &w);
    levels_json(r, &w);
    languages_json(r, &w);
    if (f)
        fixes_json(f, &w);
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

struct asked {
    bool json, fix, yes;
};

static int take(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    struct asked *a = ctx;
    if (!opt)
        return err_set(err, ERR_USAGE, "unexpected argument '%.60s'", value);
    *(opt->id == OPT_FIX ? &a->fix : opt->id == OPT_YES ? &a->yes : &a->json) = true;
    return 0;
}

static int check(const struct asked *a, struct err *err)
{
    if (!a->yes || a->fix)
        return 0;
    err_set(err, ERR_USAGE, "--yes goes with --fix");
    return err_hint(err, "brig doctor --fix prints what it would run");
}

/* What a command says stands between the report's lines only if that has been written before. */
static int run_fixes(struct fixes *f, struct err *err)
{
    for (unsigned i = 0; i < f->count; i++) {
        struct remedy *m = &f->all[i];
        if (!remedy_can_run(m))
            continue;
        cleanup_buf struct buf shown;
        buf_init(&shown, 4096);
        buf_str(&shown, "brig: ");
        remedy_show(m, &shown);
        buf_chr(&shown, '\n');
        term_write(STDERR_FILENO, buf_text(&shown), shown.len);
        if (remedy_run(m, err) < 0)
            return err_number(err);
    }
    return 0;
}

/* Looks again after what was done: only what the host says then counts. */
static int fix(const struct asked *a, struct host_report *r, struct fixes *f, struct err *err)
{
    struct remedy left[REMEDIES_MAX];
    f->count = remedies_find(r, f->all);
    if (a->yes && run_fixes(f, err) < 0)
        return err_number(err);
    if (a->yes)
        sandbox_host_report(r);
    f->done = remedies_find(r, left) == 0;
    return 0;
}

static int doctor_main(const struct verb *verb, int argc, char *const argv[])
{
    struct err err = ERR_INIT;
    struct asked asked = {0};
    struct fixes fixes = {.count = 0};
    int rest = 0;
    int r = verb_parse(verb, argc, argv, take, &asked, &rest, &err);
    if (r > 0)
        return 0;
    if (r >= 0 && rest < argc)
        r = take(&asked, NULL, argv[rest], &err);
    if (r < 0 || check(&asked, &err) < 0)
        return verb_fail(verb, &err, asked.json || verb_wants_json(argc, argv));

    struct host_report report = {0};
    cleanup_buf struct buf out;
    buf_init(&out, (size_t)256 * 1024);
    sandbox_host_report(&report);
    if (!asked.fix)
        sandbox_host_try(&report);
    if (asked.fix && fix(&asked, &report, &fixes, &err) < 0)
        return verb_fail(verb, &err, asked.json);
    if (asked.json)
        report_json(&report, asked.fix ? &fixes : NULL, &out);
    else if (asked.fix)
        fixes_text(&fixes, &out);
    else
        report_text(&report, &out,
                    (struct style){term_colour(STDOUT_FILENO), term_utf8(STDOUT_FILENO)});
    if (term_write(STDOUT_FILENO, buf_text(&out), out.len) < 0)
        return 125;
    return asked.fix ? !fixes.done : !level_available(&report, LEVEL_HIGH);
}

const struct verb verb_doctor = {
    .name = "doctor",
    .summary = "what this host can enforce, and how to get what is missing",
    .usage = "doctor [--fix [--yes]] [--json]",
    .about = "Looks at the kernel, at what this user may do with it, and at control groups.\n"
             "Changes nothing, unless --fix --yes says so.\n"
             "Run it as the user that will run the sandboxes.",
    .examples = "brig doctor\n"
                "brig doctor --fix\n"
                "sudo brig doctor --fix --yes\n"
                "brig doctor --json",
    .statuses = "0    level high, the default, is available; with --fix: nothing is missing\n"
                "1    it cannot; with --fix: something is left to do\n"
                "125  bad usage",
    .options = &doctor_table,
    .main = doctor_main,
};
