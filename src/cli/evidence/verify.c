/* brig verify: attacks sandboxes of this host and policy, and says which walls held. */
#include "verify/verify.h"

#include "base/cleanup.h"
#include "cli/evidence/verify_text.h"
#include "cli/policy_options.h"
#include "cli/term.h"
#include "cli/verb.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { OPT_TIER = 1, OPT_JSON, OPT_LIST_ROWS, OPT_ONLY };

#define WHAT   "What is attacked"
#define OUTPUT "Output"

/* clang-format off */
static const struct opt verify_items[] = {
    {OPT_LEVEL, 0, "level", OPT_VALUE, "LEVEL", "low medium high critical", NULL, WHAT,
     "only this level; default: every level that the host has"},
    {OPT_TIER, 0, "tier", OPT_VALUE, "TIER", "process wasm-process container wasm gvisor vm", NULL, WHAT,
     "only this tier; default: the tier of each level, and the process tier for level high"},
    {OPT_POLICY, 0, "policy", OPT_VALUE, "FILE", NULL, NULL, WHAT,
     "sandboxes of this policy, at its own level unless --level says otherwise"},
    {OPT_ONLY, 0, "only", OPT_LIST, "ID", NULL, NULL, WHAT,
     "only this attack, or those whose ids begin so: K-01.open, F, R-11; repeatable"},
    {OPT_JSON, 0, "json", OPT_FLAG, NULL, NULL, NULL, OUTPUT,
     "print the result as one JSON object"},
    {OPT_LIST_ROWS, 0, "list", OPT_FLAG, NULL, NULL, NULL, OUTPUT,
     "print the attacks and run none"},
};
/* clang-format on */
static const struct opt_table verify_table = {
    .items = verify_items, .count = ARRAY_LEN(verify_items), .next = &common_options};

struct verify_request {
    struct policy_options policy;
    enum tier tier;
    bool json, list;
    bool chosen; /* some of the rows, by --only */
    bool left_out[ROWS_MAX];
    bool shown; /* the line of progress */
};

/* A whole id, or what one begins with before its number or word. */
static bool is_named(const char *id, const char *name)
{
    size_t len = strlen(name);
    return strncmp(id, name, len) == 0 && (id[len] == '\0' || id[len] == '-' || id[len] == '.');
}

static int choose_rows(struct verify_request *o, const char *name, struct err *err)
{
    bool any = false;
    for (size_t i = 0; i < row_count && !o->chosen; i++)
        o->left_out[i] = true;
    o->chosen = true;
    for (size_t i = 0; i < row_count; i++) {
        bool named = is_named(rows[i].id, name);
        o->left_out[i] = o->left_out[i] && !named;
        any |= named;
    }
    if (any)
        return 0;
    err_set(err, ERR_USAGE, "--only: there is no attack '%.40s'", name);
    return err_hint(err, "brig verify --list");
}

static int take(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    struct verify_request *o = ctx;
    if (!opt)
        return err_set(err, ERR_USAGE, "unexpected argument '%.60s'", value);
    int r = policy_options_take(&o->policy, opt, value, err);
    if (r)
        return r < 0 ? r : 0;
    if (opt->id == OPT_TIER)
        return tier_parse(value, &o->tier);
    if (opt->id == OPT_ONLY)
        return choose_rows(o, value, err);
    if (opt->id == OPT_JSON)
        o->json = true;
    else
        o->list = true;
    return 0;
}

static int build(void *ctx, enum level level, enum tier tier, struct policy *ret, struct err *err)
{
    const struct verify_request *o = ctx;
    struct policy_options at = o->policy;
    at.level = level_name(level);
    int r = policy_options_build(&at, ret, err);
    if (r < 0) {
        policy_done(ret);
        return r;
    }
    if (tier != TIER_AUTO) {
        ret->tier = tier;
        ret->wish.count = 0;
    }
    return 0;
}

/* A policy file has a level of its own. */
static int choose_level(const struct verify_request *o, struct verify_options *v, struct err *err)
{
    struct policy p;
    if (!o->policy.level && !o->policy.file)
        return 0;
    int r = policy_options_build(&o->policy, &p, err);
    if (r >= 0) {
        v->one_level = true;
        v->level = p.level;
        if (v->tier == TIER_AUTO)
            v->tier = p.tier;
    }
    policy_done(&p);
    return r;
}

/* Progress, shown only on a terminal. */
static void show_progress(void *ctx, unsigned done, unsigned all)
{
    struct verify_request *o = ctx;
    char line[80];
    o->shown = true;
    int len = snprintf(line, sizeof line, "\rattacking: %u of at most %u sandboxes ", done, all);
    (void)term_write(STDERR_FILENO, line, (size_t)len);
}

static void clear_progress(const struct verify_request *o)
{
    static const char blank[] = "\r\033[K";
    if (o->shown)
        (void)term_write(STDERR_FILENO, blank, sizeof blank - 1);
}

static int list(const struct verify_request *o, struct err *err)
{
    cleanup_buf struct buf out;
    buf_init(&out, 1 << 20);
    if (o->json)
        verify_list_json(&out);
    else
        verify_list_text(&out);
    return term_print(&out, "the result", err);
}

/* Negative, or the exit status. */
static int attack(struct verify_request *o, struct err *err)
{
    struct verify_options v = {.build = build, .ctx = o, .tier = o->tier, .left_out = o->left_out};
    struct verify_result *result cleanup_free = malloc(sizeof *result);
    struct verify_count n;
    cleanup_buf struct buf out;
    buf_init(&out, 4 << 20);
    if (!result)
        return err_sys(err, "allocate");
    if (isatty(STDERR_FILENO))
        v.progress = show_progress;
    int r = choose_level(o, &v, err);
    if (r >= 0)
        r = verify_run(&v, result, err);
    clear_progress(o);
    if (r < 0)
        return r;
    verify_count(result, &n);
    if (n.held + n.failed == 0) {
        err_set(err, ERR_UNSUPPORTED, "nothing could be attacked: %s",
                result->cell_count ? result->cells[0].why : "no such level");
        return err_hint(err, "%s", result->cell_count ? result->cells[0].how : "");
    }
    if (o->json)
        verify_json(result, &out);
    else
        verify_text(result,
                    (struct verify_style){.colour = term_colour(STDOUT_FILENO),
                                          .utf8 = term_utf8(STDOUT_FILENO)},
                    &out);
    r = term_print(&out, "the result", err);
    for (unsigned i = 0; r == 0 && i < result->cell_count; i++)
        r = result->cells[i].tried ? judge_status(result->cells[i].rulings, row_count) : 0;
    return r;
}

static int verify_main(const struct verb *verb, int argc, char *const argv[])
{
    struct err err = ERR_INIT;
    struct verify_request o = {.tier = TIER_AUTO};
    int rest = 0;
    int r = policy_options_init(&o.policy, argc, &err);
    if (r >= 0)
        r = verb_parse(verb, argc, argv, take, &o, &rest, &err);
    if (r == 0 && rest < argc)
        r = err_set(&err, ERR_USAGE, "unexpected argument '%.60s'", argv[rest]);
    if (r == 0)
        r = o.list ? list(&o, &err) : attack(&o, &err);
    else if (r > 0)
        r = 0;
    policy_options_done(&o.policy);
    return r < 0 ? verb_fail(verb, &err, o.json || verb_wants_json(argc, argv)) : r;
}

const struct verb verb_verify_walls = {
    .name = "verify",
    .summary = "attack sandboxes of this host and see whether they hold",
    .usage = "verify [OPTIONS]",
    .about = "More than a hundred attacks on all five boundaries, from inside sandboxes\n"
             "that are made as `brig run` makes them. Each is first run without a sandbox, to\n"
             "show that it works there. What is attacked are canaries: files, sockets,\n"
             "processes and secrets made for this and removed afterwards. Run it as the user\n"
             "that will run sandboxes.",
    .examples = "# every level that this host has\n"
                "brig verify\n"
                "# a gate for CI\n"
                "brig verify --policy agent.yaml --json > verify.json\n"
                "# one level on the weaker tier\n"
                "brig verify --level high --tier process\n"
                "# from behind gVisor's kernel\n"
                "brig verify --tier gvisor\n"
                "# from inside a virtual machine, and from the place of its monitor\n"
                "brig verify --tier vm\n"
                "# modules, and who broke their runner\n"
                "brig verify --level high --tier wasm",
    .statuses = "0    every attack that could be tried was held\n"
                "1    at least one got through\n"
                "125  it could not be run",
    .options = &verify_table,
    .main = verify_main,
};
