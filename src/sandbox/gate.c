/* Decides before the start whether the policy's rules on commands allow this one, and asks a person
 * where they say so. */
#include "sandbox/gate.h"

#include "approvals/approval.h"
#include "base/cleanup.h"
#include "filesystem/filesystem.h"

#include <stdio.h>
#include <string.h>

#define ROOTS_MAX 64

size_t gate_roots(const struct policy *p, const char *project, const char **roots, size_t max)
{
    size_t count = 0;
    bool own = p->workspace; /* a grant may stand in its place */
    if (count < max)
        roots[count++] = "/tmp";
    for (size_t i = 0; i < p->grant_count; i++)
        own &= strcmp(p->grants[i].dest, WORKSPACE) != 0;
    if (own && count < max)
        roots[count++] = WORKSPACE;
    if (p->project && project && count < max)
        roots[count++] = project;
    for (size_t i = 0; i < p->grant_count && count < max; i++)
        if (p->grants[i].writable)
            roots[count++] = p->grants[i].dest;
    return count;
}

void gate_note(struct run_result *result, const char *id, const char *kind, const char *text,
               const char *reason, const char *answer, const char *by)
{
    if (result->asked_count == RUN_ASKED_MAX)
        return;
    struct run_asked *a = &result->asked[result->asked_count++];
    snprintf(a->id, sizeof a->id, "%s", id);
    snprintf(a->kind, sizeof a->kind, "%s", kind);
    snprintf(a->text, sizeof a->text, "%s", text);
    snprintf(a->reason, sizeof a->reason, "%s", reason);
    snprintf(a->answer, sizeof a->answer, "%s", answer);
    snprintf(a->by, sizeof a->by, "%s", by);
}

static void describe(const struct command_verdict *v, struct buf *out)
{
    cleanup_buf struct buf reason;
    buf_init(&reason, 1024);
    command_verdict_reason(v, &reason);
    approval_show_reason(out, buf_text(&reason), v->what);
}

static int refuse(struct err *err, const char *what, const char *reason, const char *hint)
{
    err_set(err, ERR_REFUSED, "%s: %s", what, reason);
    return err_hint(err, "%s", hint);
}

static int after_answer(const struct approval *a, enum approval_answer answer, const char *reason,
                        struct err *err)
{
    char what[96];
    if (answer == APPROVAL_ALLOWED)
        return 0;
    if (answer == APPROVAL_TIMED_OUT) {
        snprintf(what, sizeof what, "nobody answered %s in time, so the command was not run",
                 approval_id(a));
        return refuse(err, what, reason,
                      "ask again while somebody watches (`brig approvals`), or change the rules "
                      "under `commands` in the policy");
    }
    return refuse(err, "a person said no, the command was not run", reason,
                  "do it another way, or ask the person what they would agree to");
}

static int ask(const struct run_request *request, struct run_result *result, const char *reason,
               struct err *err)
{
    cleanup_buf struct buf text;
    struct approval *a = NULL;
    buf_init(&text, 2 * APPROVAL_TEXT_MAX);
    approval_show_argv(&text, request->argv, APPROVAL_TEXT_MAX);
    struct approval_question q = {.kind = APPROVAL_COMMAND,
                                  .text = buf_text(&text),
                                  .text_is_shown = true,
                                  .reason = reason,
                                  .reason_is_shown = true,
                                  .timeout_ms = request->ask_timeout_ms,
                                  .terminal = true};
    int r = approval_ask(&a, &q, err);
    if (r < 0)
        return r;
    if (request->held && !approval_has_terminal(a))
        request->held(approval_id(a), buf_text(&text), reason);
    enum approval_answer answer = approval_wait(a, -1);
    gate_note(result, approval_id(a), approval_kind_name(q.kind), buf_text(&text), reason,
              approval_answer_name(answer), approval_by(a));
    r = after_answer(a, answer, reason, err);
    approval_free(a);
    return r;
}

int gate_command(const struct run_request *request, struct run_result *result, struct err *err)
{
    const struct policy *p = request->policy;
    const char *roots[ROOTS_MAX];
    struct command_verdict v;
    cleanup_buf struct buf reason;
    buf_init(&reason, 1024);
    if (!p->commands.given)
        return 0;
    struct command_place at = {.roots = roots, .cwd = p->cwd};
    at.root_count = gate_roots(p, request->project, roots, ROOTS_MAX);
    commands_judge(&p->commands, request->argv, &at, &v);
    if (v.rule == COMMAND_ALLOW)
        return 0;
    describe(&v, &reason);
    if (v.rule == COMMAND_ASK)
        return ask(request, result, buf_text(&reason), err);
    return refuse(err, "the policy does not let this command be run", buf_text(&reason),
                  "do it another way, or change the rules under `commands` in the policy");
}
