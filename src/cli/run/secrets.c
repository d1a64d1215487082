/* brig secrets check: is each secret available? Nothing of a value is ever shown: it stays in
 * brig-proxy, which is asked. */
#include "base/cleanup.h"
#include "base/json.h"
#include "cli/policy_options.h"
#include "cli/term.h"
#include "cli/verb.h"
#include "sandbox/egress.h"

#include <string.h>

enum { OPT_JSON = 1 };

static const struct opt check_items[] = {
    {.id = OPT_JSON, .name = "json", .group = "Output", .help = "print JSON"},
};
static const struct opt_table check_table = {
    .items = check_items, .count = ARRAY_LEN(check_items), .next = &secret_option_table};

struct check_options {
    struct policy_options policy;
    bool json;
};

static void check_options_done(struct check_options *o)
{
    policy_options_done(&o->policy);
}

static int take(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    struct check_options *o = ctx;
    if (!opt)
        return err_set(err, ERR_USAGE, "unexpected argument '%.60s'", value);
    if (opt->id == OPT_JSON) {
        o->json = true;
        return 0;
    }
    int r = policy_options_take(&o->policy, opt, value, err);
    return r < 0 ? r : 0;
}

struct report {
    struct buf out;
    struct json_writer w;
    bool json;
    int width; /* of the longest name */
    size_t bad;
};

static void told_text(struct report *r, const char *name, const char *source, const char *error)
{
    buf_fmt(&r->out, "%-8s", error ? "missing" : "ok");
    buf_fmt(&r->out, "%-*s  ", r->width, name);
    term_clean(&r->out, source);
    buf_chr(&r->out, '\n');
    if (!error)
        return;
    buf_str(&r->out, "        ");
    term_clean(&r->out, error);
    buf_chr(&r->out, '\n');
}

static void told(void *ctx, const char *name, const char *source, const char *error)
{
    struct report *r = ctx;
    r->bad += error != NULL;
    if (!r->json) {
        told_text(r, name, source, error);
        return;
    }
    jw_object_begin(&r->w);
    jw_kv_string(&r->w, "name", name);
    jw_kv_string(&r->w, "source", source);
    jw_kv_bool(&r->w, "ok", !error);
    jw_kv_string(&r->w, "error", error);
    jw_object_end(&r->w);
}

static int widest(const struct egress *e)
{
    size_t width = 0;
    for (size_t i = 0; i < e->secret_count; i++) {
        size_t len = strlen(e->secrets[i].name);
        width = len > width ? len : width;
    }
    return (int)(width > 40 ? 40 : width);
}

/* Negative, or the exit status. */
static int check(const struct check_options *o, const struct policy *p, struct report *r,
                 struct err *err)
{
    if (p->egress.secret_count == 0) {
        err_set(err, ERR_USAGE, "there is no secret to check");
        return err_hint(err, "give --secret NAME=SOURCE@ORIGIN, or --policy FILE that has some");
    }
    r->json = o->json;
    r->width = widest(&p->egress);
    jw_init(&r->w, &r->out, false);
    if (r->json) {
        jw_object_begin(&r->w);
        jw_key(&r->w, "secrets");
        jw_array_begin(&r->w);
    }
    int result = sandbox_secrets_check(p, told, r, err);
    if (result < 0)
        return result;
    if (r->json) {
        jw_array_end(&r->w);
        jw_kv_bool(&r->w, "ok", r->bad == 0);
        jw_object_end(&r->w);
        buf_chr(&r->out, '\n');
    }
    if (term_write(STDOUT_FILENO, buf_text(&r->out), r->out.len) < 0)
        return err_sys(err, "write the report");
    return r->bad ? 1 : 0;
}

static int build_and_check(const struct check_options *o, struct err *err)
{
    struct policy policy;
    struct report report = {0};
    buf_init(&report.out, (size_t)1024 * 1024);
    int r = policy_options_build(&o->policy, &policy, err);
    if (r >= 0) {
        policy_options_notes(&o->policy, &policy, "");
        r = check(o, &policy, &report, err);
    }
    policy_done(&policy);
    buf_done(&report.out);
    return r;
}

static int check_main(const struct verb *verb, int argc, char *const argv[])
{
    struct err err = ERR_INIT;
    __attribute__((cleanup(check_options_done))) struct check_options o = {0};
    int rest = 0;
    int r = policy_options_init(&o.policy, argc, &err);
    if (r >= 0)
        r = verb_parse(verb, argc, argv, take, &o, &rest, &err);
    if (r > 0)
        return 0;
    if (r >= 0 && rest < argc)
        r = err_set(&err, ERR_USAGE, "unexpected argument '%.60s'", argv[rest]);
    if (r >= 0)
        r = build_and_check(&o, &err);
    return r < 0 ? verb_fail(verb, &err, o.json || verb_wants_json(argc, argv)) : r;
}

static const struct verb verb_secrets_check = {
    .name = "secrets check",
    .summary = "say whether each secret is available, without showing it",
    .usage = "secrets check [--json] [--secret NAME=SOURCE@ORIGIN…] [--policy FILE]",
    .about = "Each source is asked as a run would ask it: the variable, the file, the program,\n"
             "Vault. The value stays in brig-proxy; only whether there is one comes back.",
    .examples = "brig secrets check --policy agent.yaml\n"
                "brig secrets check --secret 'TOKEN=file:/run/token@https://api.example.org'",
    .statuses = "0    every secret is available\n"
                "1    at least one is not\n"
                "125  the options or the file are wrong, or the check could not be made",
    .options = &check_table,
    .main = check_main,
};

static const struct verb *const secrets_verbs[] = {&verb_secrets_check, NULL};

const struct verb verb_secrets = {
    .name = "secrets",
    .summary = "check where secrets come from",
    .usage = "secrets COMMAND [OPTIONS]",
    .about = "A secret has a name, a source and one origin that it is for. brig-proxy adds it\n"
             "to requests to that origin; inside the sandbox there is only a placeholder.",
    .examples = "brig secrets check --policy agent.yaml",
    .children = secrets_verbs,
};
