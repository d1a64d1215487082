/* Before a process is started: the template's rules on commands. A guide for people; the walls are
 * elsewhere. What the rules mark `ask` waits here with a copy of the request. */
#include "base/cleanup.h"
#include "daemon/box/box_internal.h"
#include "daemon/box/process_internal.h"
#include "daemon/box/questions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENV_TEXT_MAX (256u * 1024)

struct held {
    struct core *core;
    struct hold hold;
    char box_id[BOX_ID_LEN + 1];
    struct process_request request;
    char **argv;
    char *cwd, *tag;
    struct json *env, *config;
    bool has_sink;
    struct process_sink sink;
    process_fn *fn;
    void *ctx;
    char reason[512];
};

static void held_free(struct held *h)
{
    for (size_t i = 0; h->argv && h->argv[i]; i++)
        free(h->argv[i]);
    free(h->argv);
    free(h->cwd);
    free(h->tag);
    json_free(h->env);
    json_free(h->config);
    hold_done(&h->hold);
    free(h);
}

static bool copy_tree(const struct json *json, struct json **ret)
{
    cleanup_buf struct buf text;
    struct json_writer w;
    buf_init(&text, ENV_TEXT_MAX);
    if (!json)
        return true;
    jw_init(&w, &text, false);
    jw_json(&w, json);
    return !text.failed && json_parse(buf_text(&text), text.len, NULL, ret, NULL) == 0;
}

static bool copy_text(const char *text, char **ret)
{
    return !text || (*ret = strdup(text)) != NULL;
}

static bool copy_argv(const char *const *argv, char ***ret)
{
    size_t count = 0;
    while (argv[count])
        count++;
    char **copy = calloc(count + 1, sizeof *copy);
    *ret = copy;
    for (size_t i = 0; copy && i < count; i++)
        if (!(copy[i] = strdup(argv[i])))
            return false;
    return copy != NULL;
}

/* NULL: no room, and *err may say whose. */
static struct held *hold(struct box *b, const struct process_request *r,
                         const struct process_sink *sink, process_fn *fn, void *ctx,
                         struct err *err)
{
    struct held *h = calloc(1, sizeof *h);
    if (!h)
        return NULL;
    h->core = b->core;
    snprintf(h->box_id, sizeof h->box_id, "%s", b->info.id);
    h->request = *r;
    h->fn = fn;
    h->ctx = ctx;
    h->has_sink = sink != NULL;
    if (sink)
        h->sink = *sink;
    if (!copy_argv(r->argv, &h->argv) || !copy_text(r->cwd, &h->cwd) ||
        !copy_text(r->tag, &h->tag) || !copy_tree(r->env, &h->env) ||
        !copy_tree(r->config, &h->config)) {
        held_free(h);
        return NULL;
    }
    size_t size = sizeof *h + json_memory(h->env) + json_memory(h->config);
    for (size_t i = 0; h->argv[i]; i++)
        size += strlen(h->argv[i]) + 1 + sizeof h->argv[0];
    hold_init(&h->hold, b->account);
    if (hold_add(&h->hold, size, err) < 0) {
        held_free(h);
        return NULL;
    }
    h->request.argv = (const char *const *)h->argv;
    h->request.cwd = h->cwd;
    h->request.tag = h->tag;
    h->request.env = h->env;
    h->request.config = h->config;
    return h;
}

static void refuse(struct err *err, const char *what, const char *reason)
{
    err_set(err, ERR_REFUSED, "%s: %s", what, reason);
    err_hint(err,
             "do it another way, or ask the operator to change the rules under `commands` of the "
             "template");
}

static bool is_wanted(void *ctx)
{
    const struct held *h = ctx;
    return !h->request.wanted || h->request.wanted(h->ctx);
}

static void on_answer(void *ctx, enum approval_answer answer)
{
    struct held *h = ctx;
    struct err err = ERR_INIT;
    struct box *b = box_find_any(h->core, h->box_id);
    if (answer != APPROVAL_ALLOWED)
        refuse(&err,
               answer == APPROVAL_TIMED_OUT ? "nobody answered in time, so the command was not run"
                                            : "a person said no, the command was not run",
               h->reason);
    else if (!b)
        err_set(&err, ERR_NOT_FOUND, "sandbox %s is not there any more", h->box_id);
    /* The client is gone: an answer that comes now starts nothing. */
    else if (!is_wanted(h))
        err_set(&err, ERR_INTERRUPTED, "the client went away");
    if (err.code)
        h->fn(h->ctx, NULL, &err);
    else
        process_start_now(b, &h->request, h->has_sink ? &h->sink : NULL, h->fn, h->ctx);
    held_free(h);
}

static int ask(struct box *b, const struct process_request *r, const struct process_sink *sink,
               process_fn *fn, void *ctx, const char *reason, struct err *err)
{
    cleanup_buf struct buf text;
    buf_init(&text, 2 * APPROVAL_TEXT_MAX);
    struct held *h = hold(b, r, sink, fn, ctx, err);
    if (!h)
        return err->code ? err_number(err) : err_memory(err);
    snprintf(h->reason, sizeof h->reason, "%s", reason);
    approval_show_argv(&text, h->argv, APPROVAL_TEXT_MAX);
    int n = questions_ask(b, APPROVAL_COMMAND, buf_text(&text), reason, h->argv[0], is_wanted,
                          on_answer, h, err);
    if (n < 0)
        held_free(h);
    return n;
}

static void describe(const struct command_verdict *v, struct buf *out)
{
    cleanup_buf struct buf reason;
    buf_init(&reason, 1024);
    command_verdict_reason(v, &reason);
    approval_show_reason(out, buf_text(&reason), v->what);
}

static void record_refusal(struct box *b, const struct process_request *r,
                           const struct command_verdict *v)
{
    cleanup_buf struct buf out;
    struct json_writer w;
    jw_begin(&w, &out, 4096);
    jw_kv_bytes(&w, "program", r->argv[0], strnlen(r->argv[0], 256));
    jw_kv_string(&w, "shape", v->shape ? command_shape_name(v->shape) : NULL);
    jw_kv_bytes(&w, "rule", v->rule_text, strlen(v->rule_text));
    jw_object_end(&w);
    box_record(b, "command.refused", buf_text(&out));
}

void process_start(struct box *b, const struct process_request *r, const struct process_sink *sink,
                   process_fn *fn, void *ctx)
{
    const struct command_rules *rules = b->rules ? b->rules : &b->tmpl->rules;
    struct command_verdict v = {0};
    struct err err = ERR_INIT;
    cleanup_buf struct buf reason;
    buf_init(&reason, 1024);
    if (rules->commands.given && r->argv && r->argv[0]) {
        struct command_place at = {(const char *const *)rules->roots, rules->root_count, r->cwd};
        /* The judge only reads. */
        commands_judge(&rules->commands, (char *const *)(uintptr_t)r->argv, &at, &v);
    }
    if (v.rule == COMMAND_ALLOW) {
        process_start_now(b, r, sink, fn, ctx);
        return;
    }
    describe(&v, &reason);
    if (v.rule == COMMAND_ASK && ask(b, r, sink, fn, ctx, buf_text(&reason), &err) == 0)
        return;
    if (v.rule == COMMAND_DENY) {
        record_refusal(b, r, &v);
        refuse(&err,
               b->rules ? "the policy of this sandbox does not let this command be run"
                        : "the template does not let this command be run",
               buf_text(&reason));
    }
    fn(ctx, NULL, &err);
}
