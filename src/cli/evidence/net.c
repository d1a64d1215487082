/* brig net: what a run asked of the network, and new rules for one that still runs. */
#include "base/cleanup.h"
#include "base/json.h"
#include "cli/evidence/net_text.h"
#include "cli/policy_options.h"
#include "cli/term.h"
#include "cli/verb.h"
#include "sandbox/egress.h"

#include <stdio.h>
#include <string.h>

enum { OPT_JSON = 1, OPT_NONE };

#define OUTPUT_MAX ((size_t)16 * 1024 * 1024)

static const struct opt net_items[] = {
    {.id = OPT_JSON, .name = "json", .group = "Output", .help = "print JSON"},
    {.id = OPT_NONE,
     .name = "none",
     .group = "Network boundary",
     .help = "from now on allow nothing at all"},
};
static const struct opt_table net_table = {
    .items = net_items, .count = ARRAY_LEN(net_items), .next = &rule_option_table};

struct net_options {
    struct policy_options policy;
    const char *id;
    bool json, none;
};

static void net_options_done(struct net_options *o)
{
    policy_options_done(&o->policy);
}

static int take(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    struct net_options *o = ctx;
    if (!opt && o->id)
        return err_set(err, ERR_USAGE, "one run at a time: '%.60s' is one too many", value);
    if (!opt) {
        o->id = value;
        return 0;
    }
    if (opt->id == OPT_JSON || opt->id == OPT_NONE) {
        *(opt->id == OPT_JSON ? &o->json : &o->none) = true;
        return 0;
    }
    int r = policy_options_take(&o->policy, opt, value, err);
    return r < 0 ? r : 0;
}

/* ---- one run ---- */

/* A supervisor that was killed could not write that its run is over. */
static void show_json(const struct json *record, struct json_writer *w)
{
    jw_object_begin(w);
    for (size_t i = 0; i < json_count(record); i++) {
        const char *key = json_key_at(record, i);
        jw_key(w, key);
        if (strcmp(key, "state") == 0)
            jw_string(w, net_state(record));
        else
            jw_json(w, json_value_at(record, i));
    }
    jw_object_end(w);
}

static int show(const struct net_options *o, struct err *err)
{
    cleanup_buf struct buf text = {0};
    cleanup_buf struct buf out;
    cleanup_json struct json *record = NULL;
    buf_init(&out, OUTPUT_MAX);
    int r = netrecord_read(o->id, &text, err);
    if (r < 0)
        return r;
    r = json_parse(buf_text(&text), text.len, &json_default_limits, &record, err);
    if (r < 0)
        return err_wrap(err, "the record of %.40s cannot be read", o->id);
    if (o->json) {
        struct json_writer w;
        jw_init(&w, &out, false);
        show_json(record, &w);
        buf_chr(&out, '\n');
    } else {
        net_text(record, term_colour(STDOUT_FILENO), &out);
    }
    return term_print(&out, "the record", err);
}

/* ---- the last runs ---- */

struct list {
    struct buf out;
    struct json_writer w;
    bool json;
    size_t count;
};

static const char *const summary_numbers[] = {"total", "allowed", "denied", "errors"};

static void list_json(struct list *l, const char *id, const struct json *record)
{
    const struct json *n = json_get(record, "network");
    const struct json *started = json_get(record, "started");
    jw_object_begin(&l->w);
    jw_kv_string(&l->w, "sandbox_id", id);
    jw_kv_string(&l->w, "state", net_state(record));
    jw_kv_string(&l->w, "started", started ? json_string(started) : NULL);
    for (size_t i = 0; i < ARRAY_LEN(summary_numbers); i++) {
        const struct json *j = n ? json_get(n, summary_numbers[i]) : NULL;
        jw_kv_int(&l->w, summary_numbers[i], j && json_type(j) == JSON_INT ? json_int(j) : 0);
    }
    jw_object_end(&l->w);
}

static void list_one(void *ctx, const char *id, const char *json)
{
    struct list *l = ctx;
    struct buf text = {.data = NULL};
    cleanup_json struct json *record = NULL;
    buf_init(&text, OUTPUT_MAX);
    buf_str(&text, json);
    int r = json_parse(buf_text(&text), text.len, &json_default_limits, &record, NULL);
    buf_done(&text);
    if (r < 0 || json_type(record) != JSON_OBJECT)
        return;
    l->count++;
    if (l->json)
        list_json(l, id, record);
    else
        net_line(id, record, &l->out);
}

static int list(const struct net_options *o, struct err *err)
{
    struct list l = {.json = o->json};
    buf_init(&l.out, OUTPUT_MAX);
    jw_init(&l.w, &l.out, false);
    if (l.json) {
        jw_object_begin(&l.w);
        jw_key(&l.w, "runs");
        jw_array_begin(&l.w);
    }
    int r = netrecord_list(list_one, &l, err);
    if (r >= 0 && l.json) {
        jw_array_end(&l.w);
        jw_object_end(&l.w);
        buf_chr(&l.out, '\n');
    }
    if (r >= 0 && !l.json && l.count == 0)
        buf_str(&l.out, "no run has had a network yet; one gets it with `brig run --allow HOST`\n");
    if (r >= 0)
        r = term_print(&l.out, "the record", err);
    buf_done(&l.out);
    return r;
}

/* ---- new rules ---- */

static int told(const struct net_options *o, const struct egress *e, unsigned ended,
                struct err *err)
{
    cleanup_buf struct buf out;
    buf_init(&out, OUTPUT_MAX);
    if (o->json) {
        struct json_writer w;
        jw_init(&w, &out, false);
        jw_object_begin(&w);
        jw_kv_string(&w, "sandbox_id", o->id);
        jw_kv_uint(&w, "rules", e->rule_count);
        jw_kv_uint(&w, "ended", ended);
        jw_object_end(&w);
        buf_chr(&out, '\n');
    } else {
        buf_fmt(&out, "%s: %zu rules are in force; %u connections were ended\n", o->id,
                e->rule_count, ended);
    }
    return term_print(&out, "the record", err);
}

static int replace(const struct net_options *o, struct err *err)
{
    struct policy policy;
    unsigned ended = 0;
    int r = policy_options_build(&o->policy, &policy, err);
    if (r >= 0)
        r = netrecord_replace(o->id, &policy.egress, &ended, err);
    if (r >= 0)
        r = told(o, &policy.egress, ended, err);
    policy_done(&policy);
    return r;
}

/* New rules take the place of all: options that name none would close everything, which is not what
 * --block alone looks like. */
static int check_rules(const struct net_options *o, struct err *err)
{
    bool some = o->policy.file;
    for (size_t i = 0; i < o->policy.count; i++)
        some |= o->policy.uses[i].opt->id == OPT_ALLOW;
    if (some && o->none)
        return err_set(err, ERR_USAGE, "--none and rules contradict each other");
    if (some || o->none)
        return 0;
    err_set(err, ERR_USAGE, "no rule given, and the new rules take the place of all others");
    return err_hint(err, "name with --allow what stays open, or say --none");
}

static int run(const struct net_options *o, struct err *err)
{
    bool rules = o->policy.count > 0 || o->policy.file || o->none;
    if (rules && !o->id) {
        err_set(err, ERR_USAGE, "new rules for which run?");
        return err_hint(err, "`brig net` lists them: brig net ID --allow HOST");
    }
    if (rules) {
        int r = check_rules(o, err);
        return r < 0 ? r : replace(o, err);
    }
    return o->id ? show(o, err) : list(o, err);
}

static int net_main(const struct verb *verb, int argc, char *const argv[])
{
    struct err err = ERR_INIT;
    __attribute__((cleanup(net_options_done))) struct net_options o = {0};
    int r = policy_options_init(&o.policy, argc, &err);
    if (r >= 0)
        r = verb_parse_all(verb, argc, argv, take, &o, &err);
    if (r > 0)
        return 0;
    if (r >= 0)
        r = run(&o, &err);
    return r < 0 ? verb_fail(verb, &err, o.json || verb_wants_json(argc, argv)) : 0;
}

const struct verb verb_net = {
    .name = "net",
    .summary = "what a run asked of the network, and new rules for a running one",
    .usage = "net [--json]\n"
             "net ID [--json]\n"
             "net ID [--allow HOST…] [--block HOST…] [--policy FILE] [--none] [--json]",
    .about = "Without ID: the last runs that had a network. With ID: its requests in all, by\n"
             "method, by status, by host; what was denied and what would allow it; the last\n"
             "requests. Never a query, a header, a body or a secret.\n"
             "\n"
             "With rules: they take the place of all rules that the running sandbox had.\n"
             "Connections that they still allow go on, others are ended. The secrets of the\n"
             "run stay; a rule must still name their origin.",
    .examples = "brig net\n"
                "brig net brig-4f1d2c\n"
                "# only this host from now on\n"
                "brig net brig-4f1d2c --allow api.github.com\n"
                "# nothing from now on\n"
                "brig net brig-4f1d2c --none",
    .statuses = "0    printed, or the new rules are in force\n"
                "125  there is no such record, or the run does not take the rules",
    .options = &net_table,
    .main = net_main,
};
