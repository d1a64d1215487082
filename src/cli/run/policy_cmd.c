/* brig policy: the policy in force after level, file and options, and where each value came from.
 */
#include "base/cleanup.h"
#include "base/json.h"
#include "cli/policy_options.h"
#include "cli/term.h"
#include "cli/verb.h"
#include "policy/egress/presets.h"
#include "policy/policy.h"
#include "sandbox/sandbox.h"

#include <string.h>

enum { OPT_JSON = 1 };

static const struct opt json_items[] = {
    {.id = OPT_JSON, .name = "json", .group = "Output", .help = "print JSON"},
};
static const struct opt_table show_table = {
    .items = json_items, .count = ARRAY_LEN(json_items), .next = &policy_option_table};
static const struct opt_table check_table = {
    .items = json_items, .count = ARRAY_LEN(json_items), .next = &common_options};

struct show_options {
    struct policy_options policy;
    bool json;
};

static void show_options_done(struct show_options *o)
{
    policy_options_done(&o->policy);
}

static int unexpected(const char *word, struct err *err)
{
    err_set(err, ERR_USAGE, "unexpected argument '%.60s'", word);
    return err_hint(err, "a policy file is given as --policy %.60s", word);
}

static int take_show(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    struct show_options *o = ctx;
    if (!opt)
        return unexpected(value, err);
    if (opt->id == OPT_JSON) {
        o->json = true;
        return 0;
    }
    int r = policy_options_take(&o->policy, opt, value, err);
    return r < 0 ? r : 0;
}

typedef void (*render_fn)(const struct policy *p, struct buf *out);

static int build_and_print(const struct show_options *o, render_fn render, struct err *err)
{
    struct policy policy;
    cleanup_buf struct buf out;
    buf_init(&out, (size_t)16 * 1024 * 1024);
    int r = policy_options_build(&o->policy, &policy, err);
    if (r >= 0) {
        render(&policy, &out);
        if (out.len && buf_text(&out)[out.len - 1] != '\n')
            buf_chr(&out, '\n');
        r = term_print(&out, "the policy", err);
    }
    policy_done(&policy);
    return r;
}

/* show and explain differ in how they print. */
static int show(const struct verb *verb, int argc, char *const argv[], render_fn text,
                render_fn json)
{
    struct err err = ERR_INIT;
    __attribute__((cleanup(show_options_done))) struct show_options o = {0};
    int rest = 0;
    int r = policy_options_init(&o.policy, argc, &err);
    if (r >= 0)
        r = verb_parse(verb, argc, argv, take_show, &o, &rest, &err);
    if (r > 0)
        return 0;
    if (r >= 0 && rest < argc)
        r = unexpected(argv[rest], &err);
    if (r >= 0)
        r = build_and_print(&o, o.json ? json : text, &err);
    return r < 0 ? verb_fail(verb, &err, o.json || verb_wants_json(argc, argv)) : 0;
}

static int show_main(const struct verb *verb, int argc, char *const argv[])
{
    return show(verb, argc, argv, policy_show_yaml, policy_show_json);
}

/* The tier is a wish; what comes of it depends on the host. */
static void explain(const struct policy *p, struct buf *out)
{
    struct host_report host;
    policy_explain(p, out);
    sandbox_host_report(&host);
    buf_str(out, "\n# tiers on this host, from the weakest wall to the strongest\n");
    for (size_t i = 0; i < ARRAY_LEN(host.tiers); i++) {
        const struct host_tier *t = &host.tiers[i];
        buf_fmt(out, "# %-14s%s", tier_name(t->tier), t->available ? t->about : "not here: ");
        if (!t->available)
            term_clean(out, t->why);
        buf_chr(out, '\n');
    }
}

static int explain_main(const struct verb *verb, int argc, char *const argv[])
{
    return show(verb, argc, argv, explain, policy_explain_json);
}

struct check_options {
    const char *file;
    bool json;
};

static int take_check(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    struct check_options *o = ctx;
    if (opt)
        o->json = true;
    else if (o->file)
        return err_set(err, ERR_USAGE, "one file at a time: '%.60s' is one too many", value);
    else
        o->file = value;
    return 0;
}

static void check_render(const struct check_options *o, const struct policy *p, const char *hash,
                         struct buf *out)
{
    if (!o->json) {
        term_clean(out, o->file);
        buf_fmt(out, ": ok (level %s, %s)\n", level_name(p->level), hash);
        return;
    }
    struct json_writer w;
    jw_init(&w, out, false);
    jw_object_begin(&w);
    jw_key(&w, "file");
    jw_bytes(&w, o->file, strlen(o->file));
    jw_kv_bool(&w, "ok", true);
    jw_kv_string(&w, "level", level_name(p->level));
    jw_kv_string(&w, "policy_hash", hash);
    jw_object_end(&w);
    buf_chr(out, '\n');
}

static int check_file(const struct check_options *o, struct err *err)
{
    struct policy policy;
    char hash[72];
    cleanup_buf struct buf out;
    struct policy_options only_file = {.file = o->file};
    buf_init(&out, 65536);
    int r = policy_options_build(&only_file, &policy, err);
    if (r >= 0 && policy_hash(&policy, hash) < 0)
        r = err_memory(err);
    if (r >= 0) {
        check_render(o, &policy, hash, &out);
        r = term_print(&out, "the policy", err);
    }
    policy_done(&policy);
    return r;
}

static int check_main(const struct verb *verb, int argc, char *const argv[])
{
    struct err err = ERR_INIT;
    struct check_options o = {0};
    int r = verb_parse_all(verb, argc, argv, take_check, &o, &err);
    if (r > 0)
        return 0;
    if (r >= 0 && !o.file)
        r = err_set(&err, ERR_USAGE, "no policy file given");
    if (r >= 0)
        r = check_file(&o, &err);
    return r < 0 ? verb_fail(verb, &err, o.json || verb_wants_json(argc, argv)) : 0;
}

/* ---- presets ---- */

static void presets_text(struct buf *out)
{
    const struct preset *p;
    for (size_t i = 0; (p = preset_at(i)); i++) {
        buf_fmt(out, "%-13s%s\n", p->name, p->help);
        for (size_t k = 0; k < PRESET_HOSTS_MAX && p->rules[k]; k++)
            buf_fmt(out, "%-13s  %s\n", "", p->rules[k]);
    }
}

static void presets_json(struct buf *out)
{
    struct json_writer w;
    const struct preset *p;
    jw_init(&w, out, false);
    jw_object_begin(&w);
    jw_key(&w, "presets");
    jw_array_begin(&w);
    for (size_t i = 0; (p = preset_at(i)); i++) {
        jw_object_begin(&w);
        jw_kv_string(&w, "name", p->name);
        jw_kv_string(&w, "for", p->help);
        jw_key(&w, "allow");
        jw_array_begin(&w);
        for (size_t k = 0; k < PRESET_HOSTS_MAX && p->rules[k]; k++)
            jw_string(&w, p->rules[k]);
        jw_array_end(&w);
        jw_object_end(&w);
    }
    jw_array_end(&w);
    jw_object_end(&w);
    buf_chr(out, '\n');
}

static int take_json(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    if (!opt)
        return err_set(err, ERR_USAGE, "unexpected argument '%.60s'", value);
    *(bool *)ctx = true;
    return 0;
}

static int presets_main(const struct verb *verb, int argc, char *const argv[])
{
    struct err err = ERR_INIT;
    cleanup_buf struct buf out;
    bool json = false;
    buf_init(&out, 65536);
    int r = verb_parse_all(verb, argc, argv, take_json, &json, &err);
    if (r > 0)
        return 0;
    if (r >= 0) {
        json ? presets_json(&out) : presets_text(&out);
        r = term_print(&out, "the policy", &err);
    }
    return r < 0 ? verb_fail(verb, &err, json || verb_wants_json(argc, argv)) : 0;
}

static const struct verb verb_policy_show = {
    .name = "policy show",
    .summary = "print the policy in force, as a policy file",
    .usage = "policy show [OPTIONS]",
    .about = "Takes the options of `brig run` that shape a policy. What it prints is itself a\n"
             "policy file: save it, change it, use it with --policy.",
    .examples = "brig policy show --level medium\n"
                "brig policy show --policy agent.yaml -m 1G --json",
    .statuses = "0    printed\n125  the options or the file are wrong",
    .options = &show_table,
    .main = show_main,
};

static const struct verb verb_policy_check = {
    .name = "policy check",
    .summary = "read a policy file and say what is wrong with it",
    .usage = "policy check [--json] FILE",
    .about = "An error names file, line and column, and what was expected there.",
    .examples = "brig policy check agent.yaml",
    .statuses = "0    the file is a valid policy\n125  it is not, or cannot be read",
    .options = &check_table,
    .main = check_main,
};

static const struct verb verb_policy_explain = {
    .name = "policy explain",
    .summary = "print each value and where it came from",
    .usage = "policy explain [OPTIONS]",
    .about = "Takes the options of `brig run` that shape a policy. Below it stand the tiers\n"
             "that this host can give.",
    .examples = "brig policy explain --policy agent.yaml --timeout 5s",
    .statuses = "0    printed\n125  the options or the file are wrong",
    .options = &show_table,
    .main = explain_main,
};

static const struct verb verb_policy_presets = {
    .name = "policy presets",
    .summary = "list the presets that --allow knows, and their hosts",
    .usage = "policy presets [--json]",
    .about = "A preset is a short name for the hosts that one tool asks: in --allow @pypi, in\n"
             "network.allow of a policy, in allowOut of the API.",
    .examples = "brig policy presets\n"
                "brig run --allow @pypi -- sh -c 'pip install requests && python3 app.py'",
    .statuses = "0    printed\n125  the options are wrong",
    .options = &check_table,
    .main = presets_main,
};

static const struct verb *const policy_verbs[] = {&verb_policy_show,    &verb_policy_check,
                                                  &verb_policy_explain, &verb_policy_presets,
                                                  &verb_policy_choose,  NULL};

const struct verb verb_policy = {
    .name = "policy",
    .summary = "show, check and explain policies",
    .usage = "policy COMMAND [OPTIONS]",
    .about = "A policy says what each of the five boundaries enforces. The threat level fills\n"
             "it in; a policy file changes values; options change them last.",
    .examples = "brig policy show --level high\n"
                "brig policy check agent.yaml\n"
                "brig policy explain --policy agent.yaml -m 1G",
    .children = policy_verbs,
};
