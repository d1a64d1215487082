/* brig diff, apply, discard: what a run changed in a project that it was given for review. */
#include "base/cleanup.h"
#include "base/json.h"
#include "cli/term.h"
#include "cli/verb.h"
#include "sandbox/review.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define OUTPUT_MAX (64u << 20)

enum review_option_id {
    OPT_JSON = 1,
    OPT_STAT,
    OPT_TRUST,
    OPT_DIGEST,
    OPT_DRY_RUN,
};

/* clang-format off */
static const struct opt diff_items[] = {
    {OPT_STAT, 0, "stat", OPT_FLAG, NULL, NULL, NULL, "Output",
     "only which files, not what in them"},
    {OPT_JSON, 0, "json", OPT_FLAG, NULL, NULL, NULL, "Output",
     "print one JSON object"},
};
static const struct opt apply_items[] = {
    {OPT_TRUST, 0, "trust", OPT_LIST, "NAME", NULL, NULL, "What",
     "also take over this file, which the host executes or obeys by itself (marked TRUST in the diff); repeatable"},
    {OPT_DIGEST, 0, "digest", OPT_VALUE, "DIGEST", NULL, NULL, "What",
     "only if the changes are still those that `brig diff --json` gave this digest for"},
    {OPT_DRY_RUN, 0, "dry-run", OPT_FLAG, NULL, NULL, NULL, "What",
     "check everything, and change nothing"},
    {OPT_JSON, 0, "json", OPT_FLAG, NULL, NULL, NULL, "Output",
     "print one JSON object"},
};
static const struct opt discard_items[] = {
    {OPT_JSON, 0, "json", OPT_FLAG, NULL, NULL, NULL, "Output",
     "print one JSON object"},
};
/* clang-format on */
static const struct opt_table diff_table = {
    .items = diff_items, .count = ARRAY_LEN(diff_items), .next = &common_options};
static const struct opt_table apply_table = {
    .items = apply_items, .count = ARRAY_LEN(apply_items), .next = &common_options};
static const struct opt_table discard_table = {
    .items = discard_items, .count = ARRAY_LEN(discard_items), .next = &common_options};

struct review_options {
    const char *id;
    bool json, stat, dry_run;
    const char *digest;
    const char **files, **trust;
    size_t file_count, trust_count;
    bool many; /* files may follow the id */
};

static int take(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    struct review_options *o = ctx;
    if (!opt && !o->id) {
        o->id = value;
        return 0;
    }
    if (!opt && o->many) {
        o->files[o->file_count++] = value;
        return 0;
    }
    if (!opt)
        return err_set(err, ERR_USAGE, "unexpected argument '%.60s' after the id", value);
    switch (opt->id) {
    case OPT_JSON:
        o->json = true;
        break;
    case OPT_STAT:
        o->stat = true;
        break;
    case OPT_DRY_RUN:
        o->dry_run = true;
        break;
    case OPT_DIGEST:
        o->digest = value;
        break;
    default:
        o->trust[o->trust_count++] = value;
    }
    return 0;
}

/* ---- the list ---- */

struct list {
    bool json;
    size_t count;
    struct buf out;
    struct json_writer w;
};

static void when_text(int64_t ns, char out[static 32])
{
    time_t seconds = (time_t)(ns / 1000000000);
    struct tm tm;
    gmtime_r(&seconds, &tm);
    strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

static void list_one(void *ctx, const struct reviews_line *line)
{
    struct list *l = ctx;
    char when[32];
    when_text(line->started_ns, when);
    l->count++;
    if (l->json) {
        jw_object_begin(&l->w);
        jw_kv_string(&l->w, "id", line->id);
        jw_kv_string(&l->w, "started", when);
        jw_kv_bool(&l->w, "running", line->running);
        jw_key(&l->w, "project");
        jw_bytes(&l->w, line->project, strlen(line->project));
        jw_key(&l->w, "command");
        jw_bytes(&l->w, line->command, strlen(line->command));
        jw_object_end(&l->w);
        return;
    }
    buf_fmt(&l->out, "%-18s  %s  %-7s  ", line->id, when, line->running ? "running" : "ended");
    term_clean(&l->out, line->project);
    buf_str(&l->out, "  ");
    char command[61];
    snprintf(command, sizeof command, "%s", line->command);
    term_clean(&l->out, command);
    buf_chr(&l->out, '\n');
}

static int list(const struct review_options *o, struct err *err)
{
    struct list l = {.json = o->json};
    buf_init(&l.out, OUTPUT_MAX);
    jw_init(&l.w, &l.out, false);
    if (l.json) {
        jw_object_begin(&l.w);
        jw_key(&l.w, "reviews");
        jw_array_begin(&l.w);
    }
    int r = reviews_list(list_one, &l, err);
    if (l.json) {
        jw_array_end(&l.w);
        jw_object_end(&l.w);
        buf_chr(&l.out, '\n');
    } else if (l.count == 0 && r >= 0) {
        buf_str(&l.out, "no changes wait for a review; `brig run --review DIR` makes some\n");
    }
    /* A person is shown those that can be read all the same; of JSON there is one object. */
    struct err ignored = ERR_INIT;
    int printed = r < 0 && l.json ? 0 : term_print(&l.out, "the review", r < 0 ? &ignored : err);
    buf_done(&l.out);
    return r < 0 ? r : printed;
}

/* ---- the verbs ---- */

static int write_out(void *ctx, const char *text, size_t len)
{
    (void)ctx;
    return term_write(STDOUT_FILENO, text, len);
}

static int show(const struct review_options *o, struct err *err)
{
    if (!o->id)
        return list(o, err);
    if (!o->json) {
        struct reviews_style style = {.colour = term_colour(STDOUT_FILENO),
                                      .terminal = isatty(STDOUT_FILENO),
                                      .stat = o->stat};
        return reviews_diff(o->id, &style, write_out, NULL, err);
    }
    cleanup_buf struct buf out;
    buf_init(&out, OUTPUT_MAX);
    int r = reviews_json(o->id, o->stat, &out, err);
    return r < 0 ? r : term_print(&out, "the review", err);
}

static int need_id(const struct review_options *o, struct err *err)
{
    if (o->id)
        return 0;
    err_set(err, ERR_USAGE, "which review?");
    return err_hint(err, "`brig diff` lists them");
}

static int apply(const struct review_options *o, struct err *err)
{
    cleanup_buf struct buf out;
    struct reviews_choice choice = {.files = o->files,
                                    .file_count = o->file_count,
                                    .trust = o->trust,
                                    .trust_count = o->trust_count,
                                    .digest = o->digest,
                                    .dry_run = o->dry_run};
    buf_init(&out, OUTPUT_MAX);
    int r = need_id(o, err);
    if (r >= 0)
        r = reviews_apply(o->id, &choice, o->json, &out, err);
    return r < 0 ? r : term_print(&out, "the review", err);
}

static int discard(const struct review_options *o, struct err *err)
{
    cleanup_buf struct buf out;
    buf_init(&out, 4096);
    int r = need_id(o, err);
    if (r >= 0)
        r = reviews_discard(o->id, err);
    if (r < 0 || !o->json)
        return r;
    buf_fmt(&out, "%s\n", JSON_SMALL(JSON_TEXT("id", o->id), JSON_FLAG("discarded", true)));
    return term_print(&out, "the review", err);
}

static int review_main(const struct verb *verb, int argc, char *const argv[],
                       int (*work)(const struct review_options *o, struct err *err))
{
    struct err err = ERR_INIT;
    size_t room = (size_t)argc + 1;
    cleanup_free const char **files = calloc(room, sizeof *files);
    cleanup_free const char **trust = calloc(room, sizeof *trust);
    struct review_options o = {.files = files, .trust = trust, .many = work == apply};
    int r = files && trust ? verb_parse_all(verb, argc, argv, take, &o, &err) : err_memory(&err);
    if (r > 0)
        return 0;
    if (r >= 0)
        r = work(&o, &err);
    return r < 0 ? verb_fail(verb, &err, o.json || verb_wants_json(argc, argv)) : 0;
}

static int diff_main(const struct verb *verb, int argc, char *const argv[])
{
    return review_main(verb, argc, argv, show);
}

static int apply_main(const struct verb *verb, int argc, char *const argv[])
{
    return review_main(verb, argc, argv, apply);
}

static int discard_main(const struct verb *verb, int argc, char *const argv[])
{
    return review_main(verb, argc, argv, discard);
}

const struct verb verb_diff = {
    .name = "diff",
    .summary = "what a run changed in the project that it was given for review",
    .usage = "diff [--json]\n"
             "diff ID [--stat] [--json]",
    .about = "Without ID: the reviews that wait. With ID: a unified diff of what the run of\n"
             "`brig run --review DIR` changed, against DIR as it is now. Lines that begin with\n"
             "# are brig's: TRUST marks files that the host executes or obeys by itself,\n"
             "CONFLICT what was changed in DIR since the run began, REFUSED what cannot be\n"
             "applied. On a terminal, control characters are shown, not obeyed; into a file\n"
             "or a pipe goes a patch that other tools read.",
    .examples = "brig diff\n"
                "brig diff brig-4f1d2c\n"
                "brig diff brig-4f1d2c --stat",
    .statuses = "0    printed\n"
                "125  there is no such review, or it cannot be read",
    .options = &diff_table,
    .main = diff_main,
};

const struct verb verb_apply = {
    .name = "apply",
    .summary = "take over what a run changed, all of it or some files",
    .usage = "apply ID [FILE…] [--trust NAME…] [--digest DIGEST] [--dry-run] [--json]",
    .about = "Changes DIR of `brig run --review DIR` as `brig diff ID` shows it: all of the\n"
             "chosen files or, if anything is wrong, none. FILE is a path in DIR; a folder\n"
             "stands for all in it. Refused are files that were changed in DIR since the run\n"
             "began, special files, and, unless --trust names them, files that the host\n"
             "executes or obeys by itself. An apply that is killed is undone by the next\n"
             "diff, apply or discard.",
    .examples = "brig apply brig-4f1d2c\n"
                "brig apply brig-4f1d2c src/main.c docs\n"
                "brig apply brig-4f1d2c --trust Makefile",
    .statuses = "0    applied; with --dry-run: it would have been\n"
                "125  refused; nothing was changed",
    .options = &apply_table,
    .main = apply_main,
};

const struct verb verb_discard = {
    .name = "discard",
    .summary = "throw away what a run changed",
    .usage = "discard ID [--json]",
    .about = "Forgets the changes of `brig run --review DIR`. DIR stays as it is.",
    .examples = "brig discard brig-4f1d2c",
    .statuses = "0    gone\n"
                "125  there is no such review, or its run has not ended",
    .options = &discard_table,
    .main = discard_main,
};
