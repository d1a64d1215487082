/* brig approvals, approve, deny: the questions that wait for a person, those of local runs and
 * those of the daemon's sandboxes, if there is one. */
#include "approvals/approval.h"
#include "base/cleanup.h"
#include "cli/client/boxes.h"
#include "cli/term.h"

#include <stdio.h>
#include <string.h>

/* ---- what there is ---- */

struct listing {
    struct buf *out;
    struct json_writer *w; /* NULL: for people */
    size_t count;
};

/* The text of a question may come from hostile code: it reaches the terminal as plain text only. */
static void show(struct buf *out, const char *text)
{
    cleanup_buf struct buf clean;
    buf_init(&clean, 2 * APPROVAL_TEXT_MAX);
    term_clean(&clean, text ? text : "");
    buf_str(out, buf_text(&clean));
}

/* Nothing is known of it but that it waits. */
static void list_silent(struct listing *l, const char *id)
{
    l->count++;
    if (!l->w) {
        buf_fmt(l->out,
                "%s  its run does not say what it is, it may be stopped or slow: ask again\n", id);
        return;
    }
    jw_object_begin(l->w);
    jw_kv_string(l->w, "id", id);
    jw_kv_string(l->w, "where", "local");
    jw_kv_bool(l->w, "silent", true);
    jw_object_end(l->w);
}

static void list_one(struct listing *l, const struct json *j, const char *run, const char *where)
{
    const char *id = json_text(j, "id");
    if (!id || !approval_is_id(id))
        return;
    l->count++;
    if (l->w) {
        jw_object_begin(l->w);
        jw_kv_string(l->w, "id", id);
        jw_kv_string(l->w, "kind", json_text(j, "kind"));
        jw_kv_string(l->w, "run", run);
        jw_kv_string(l->w, "where", where);
        jw_kv_string(l->w, "text", json_text(j, "text"));
        jw_kv_string(l->w, "reason", json_text(j, "reason"));
        jw_kv_int(l->w, "remaining_ms", member_int(j, "remaining_ms", 0));
        jw_object_end(l->w);
        return;
    }
    char left[24];
    boxes_age(member_int(j, "remaining_ms", 0), left);
    buf_fmt(l->out, "%s  %-7.10s  %5s left  ", id,
            json_text(j, "kind") ? json_text(j, "kind") : "?", left);
    show(l->out, run);
    buf_str(l->out, "\n    ");
    show(l->out, json_text(j, "text"));
    buf_str(l->out, "\n    because: ");
    show(l->out, json_text(j, "reason"));
    buf_chr(l->out, '\n');
}

static void list_local(void *ctx, const char *id, const char *text)
{
    cleanup_json struct json *j = NULL;
    if (!text)
        list_silent(ctx, id);
    if (!text || json_parse(text, strlen(text), &json_default_limits, &j, NULL) < 0)
        return;
    const char *told = json_text(j, "id");
    if (told && strcmp(told, id) == 0)
        list_one(ctx, j, json_text(j, "run"), "local");
}

/* If no daemon runs there is nothing of it to list, unless the user named one: then that is an
 * error. */
static int list_daemon(struct boxes *b, struct listing *l, struct err *err)
{
    cleanup_json struct json *list = NULL;
    struct err why = ERR_INIT;
    struct ask ask = {.method = "GET", .path = "/approvals"};
    bool named = b->client.host || b->client.state || b->client.key_file;
    int r = client_open(&b->client, &why);
    if (r >= 0)
        r = client_json(&b->client, &ask, &list, &why);
    if (r < 0) {
        if (named)
            *err = why;
        return named ? r : 0;
    }
    for (size_t i = 0; list && json_type(list) == JSON_ARRAY && i < json_count(list); i++)
        list_one(l, json_at(list, i), json_text(json_at(list, i), "sandboxID"), "daemon");
    return 0;
}

static int draw(struct boxes *b, struct buf *out, struct err *err)
{
    struct json_writer w = {0};
    struct listing l = {.out = out, .w = b->json ? &w : NULL};
    if (b->json) {
        jw_init(&w, out, false);
        jw_array_begin(&w);
    }
    approval_list(list_local, &l);
    int r = list_daemon(b, &l, err);
    if (r < 0)
        return r;
    if (b->json) {
        jw_array_end(&w);
        buf_chr(out, '\n');
    } else if (l.count == 0) {
        buf_str(out, "nothing waits for an answer\n");
    } else {
        buf_str(out, "\nbrig approve ID lets it be done, brig deny ID does not\n");
    }
    return 0;
}

/* ---- answering ---- */

static int answer_daemon(struct boxes *b, const char *id, bool allow, struct err *err)
{
    char path[64];
    const char *body = allow ? "{\"decision\":\"approve\"}" : "{\"decision\":\"deny\"}";
    cleanup_json struct json *reply = NULL;
    snprintf(path, sizeof path, "/approvals/%s", id);
    struct ask ask = {.method = "POST", .path = path, .body = body, .body_len = strlen(body)};
    int r = client_open(&b->client, err);
    return r < 0 ? r : client_json(&b->client, &ask, &reply, err);
}

static int answer_one(struct boxes *b, const char *id, bool allow, struct err *err)
{
    struct err local = ERR_INIT, remote = ERR_INIT;
    bool named = b->client.host || b->client.state || b->client.key_file;
    if (!approval_is_id(id)) {
        err_set(err, ERR_USAGE, "'%.40s' is no question", id);
        return err_hint(err, "`brig approvals` lists those that wait");
    }
    int r = approval_answer(id, allow, &local);
    if (r >= 0 || local.code != ERR_NOT_FOUND) {
        *err = local;
        return r;
    }
    r = answer_daemon(b, id, allow, &remote);
    /* If no daemon runs, report the local error, which is the helpful one. */
    if (r < 0)
        *err = named || remote.code != ERR_SYSTEM ? remote : local;
    if (r < 0 && err->code == ERR_NOT_FOUND)
        err->code = ERR_USAGE; /* 127 would say that a command was not found */
    return r;
}

static int answer_all(struct boxes *b, bool allow, struct err *err)
{
    int result = 0;
    if (b->count == 0) {
        err_set(err, ERR_USAGE, "which question?");
        return err_hint(err, "`brig approvals` lists those that wait");
    }
    for (unsigned i = 0; i < b->count; i++) {
        struct err one = ERR_INIT;
        int r = answer_one(b, b->words[i], allow, &one);
        if (r >= 0 && !b->json)
            term_say("%s is %s", b->words[i], allow ? "approved" : "denied");
        if (r < 0 && result < 0)
            term_say("%s", one.message);
        else if (r < 0)
            *err = one;
        result = result < 0 ? result : r;
    }
    return result;
}

/* ---- the verbs ---- */

static int take(void *ctx, const struct opt *opt, const char *value, struct err *err)
{
    struct boxes *b = ctx;
    if (!opt && b->count == BOXES_MAX)
        return err_set(err, ERR_USAGE, "more than %d names", BOXES_MAX);
    if (!opt)
        b->words[b->count++] = value;
    else if (opt->id == BOXES_JSON)
        b->json = true;
    else if (opt->id == BOXES_WATCH)
        b->watch = true;
    else if (!client_take(&b->client, opt, value))
        return err_set(err, ERR_INTERNAL, "option --%s is not handled", opt->name);
    return 0;
}

static int run_approvals(struct boxes *b, struct err *err)
{
    if (b->count)
        return err_set(err, ERR_USAGE, "unexpected argument '%.60s'", b->words[0]);
    return boxes_watch_loop(b, draw, err);
}

static int run_approve(struct boxes *b, struct err *err)
{
    return answer_all(b, true, err);
}

static int run_deny(struct boxes *b, struct err *err)
{
    return answer_all(b, false, err);
}

static int verb_main(const struct verb *verb, int argc, char *const argv[],
                     int (*run)(struct boxes *b, struct err *err))
{
    struct err err = ERR_INIT;
    struct boxes b = {0};
    int r = verb_parse_all(verb, argc, argv, take, &b, &err);
    if (r > 0)
        return 0;
    if (r >= 0)
        r = run(&b, &err);
    return r < 0 ? verb_fail(verb, &err, b.json || verb_wants_json(argc, argv)) : 0;
}

static int approvals_main(const struct verb *verb, int argc, char *const argv[])
{
    return verb_main(verb, argc, argv, run_approvals);
}

static int approve_main(const struct verb *verb, int argc, char *const argv[])
{
    return verb_main(verb, argc, argv, run_approve);
}

static int deny_main(const struct verb *verb, int argc, char *const argv[])
{
    return verb_main(verb, argc, argv, run_deny);
}

const struct verb verb_approvals = {
    .name = "approvals",
    .summary = "what waits for a person's answer",
    .usage = "approvals [--watch] [--json]",
    .about = "Commands, connections and tool calls that a policy marks `ask` wait until a\n"
             "person answers, and are denied when nobody does. Lists those of your own runs\n"
             "on this machine and, if a daemon runs, those of its sandboxes. What is shown is\n"
             "made safe for a terminal: what cannot be shown stands there as \\x1b or \\u{202e}.",
    .examples = "brig approvals --watch\n"
                "# a command that waits, and its answer from another terminal\n"
                "brig run --dangerous ask -- git push --force\n"
                "brig approve ask-4f1d2c3b",
    .statuses = "0    printed\n125  a daemon that was named is not there",
    .options = &boxes_watch_table,
    .main = approvals_main,
};

const struct verb verb_approve = {
    .name = "approve",
    .summary = "let what waits for an answer be done",
    .usage = "approve ID…",
    .about = "The first answer counts; one that comes after another, or after the time is\n"
             "over, is told so. For the daemon's sandboxes this takes an operator's key: the\n"
             "key of an agent cannot approve what the agent asks for.",
    .examples = "brig approve ask-4f1d2c3b",
    .statuses =
        "0    it counts\n125  there is no such question, it was answered, or its time is over",
    .options = &client_option_table,
    .main = approve_main,
};

const struct verb verb_deny = {
    .name = "deny",
    .summary = "do not let what waits for an answer be done",
    .usage = "deny ID…",
    .about = "The first answer counts; one that comes after another, or after the time is\n"
             "over, is told so.",
    .examples = "brig deny ask-4f1d2c3b",
    .statuses =
        "0    it counts\n125  there is no such question, it was answered, or its time is over",
    .options = &client_option_table,
    .main = deny_main,
};
