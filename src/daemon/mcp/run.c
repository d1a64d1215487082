/* Where code and commands run: in a sandbox of the call's own, or in a session's. */
#include "daemon/mcp/run.h"

#include "base/clock.h"
#include "base/container.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define LIFE_MARGIN_MS  30000
#define LINES_PER_PIECE 64u /* more lines at once are told together */
#define PICTURES_MAX    (8u << 20)
#define RESULTS_MAX     (2u << 20) /* their text, and all else: each is written in one go */
#define TEXT_MAX        (8u << 20)

/* ---- its end ---- */

/* Called when the answer is out and when nobody waits for one any more: nothing may be left. */
static void run_stop(struct mcp_call *c)
{
    struct mcp_run *r = c->data;
    struct box *b = run_box(r);
    struct process *p = b && r->pid ? process_find(b, r->pid, NULL) : NULL;
    loop_timer_cancel(c->activity.loop, &r->deadline);
    if (r->execution)
        execution_cancel(r->execution);
    r->execution = NULL;
    if (r->client)
        process_detach(r->client);
    r->client = NULL;
    if (b && r->own_box)
        box_end(b, r->ended ? "the call has ended" : "the call was cancelled", NULL, NULL);
    else if (p && !r->ended)
        process_signal(p, SIGKILL);
}

static void run_forget(struct mcp_call *c)
{
    struct mcp_run *r = c->data;
    for (int i = 0; i < 2; i++) {
        buf_done(&r->out[i]);
        buf_done(&r->line[i]);
    }
    json_pieces_free(r->taking.pieces);
    buf_done(&r->result);
    buf_done(&r->results);
    buf_done(&r->images);
    buf_done(&r->name);
    buf_done(&r->value);
    buf_done(&r->traceback);
    buf_done(&r->text);
}

static void run_resume(struct mcp_call *c)
{
    struct mcp_run *r = c->data;
    if (r->execution)
        execution_resume(r->execution);
    if (r->client)
        process_resume(r->client);
}

static void on_deadline(struct loop_timer *t)
{
    struct mcp_run *r = container_of(t, struct mcp_run, deadline);
    r->timed_out = r->failed = true;
    run_explain_timeout(r);
    run_finish(r);
}

static struct mcp_run *run_new(struct mcp_call *c, const struct run_kind *kind)
{
    struct mcp_run *r = mcp_data_new(c, sizeof(*r));
    if (!r)
        return NULL;
    r->c = c;
    r->kind = kind;
    r->timeout_ms = MCP_TIMEOUT_DEFAULT_MS;
    r->deadline.fn = on_deadline;
    for (int i = 0; i < 2; i++) {
        activity_buf(&c->activity, &r->out[i], RUN_OUTPUT_MAX);
        activity_buf(&c->activity, &r->line[i], RUN_LINE_MAX);
    }
    activity_buf(&c->activity, &r->result, RESULTS_MAX);
    activity_buf(&c->activity, &r->results, RESULTS_MAX);
    activity_buf(&c->activity, &r->images, PICTURES_MAX);
    activity_buf(&c->activity, &r->name, INTERP_NAME_MAX);
    activity_buf(&c->activity, &r->value, INTERP_VALUE_MAX);
    activity_buf(&c->activity, &r->traceback, INTERP_TRACEBACK_MAX);
    activity_buf(&c->activity, &r->text, TEXT_MAX);
    c->stop = run_stop;
    c->resume = run_resume;
    c->forget = run_forget;
    return r;
}

void run_fail(struct mcp_run *r, const struct err *err)
{
    r->ended = true;
    tool_fail(r->c, err);
}

struct box *run_box(struct mcp_run *r)
{
    return r->box_id[0] ? box_find_any(r->c->activity.core, r->box_id) : NULL;
}

/* ---- its sandbox ---- */

static void begin_in(struct mcp_run *r, struct box *b)
{
    const struct denial_list *denied = box_denials(b);
    for (size_t i = 0; denied && i < denied->count; i++)
        r->denied_before[i] = denied->items[i].count;
    memcpy(r->box_id, box_info(b)->id, sizeof(r->box_id));
    r->began_us = clock_us();
    r->kind->start(r, b);
}

static void on_box(void *ctx, struct box *b, const struct err *err)
{
    struct mcp_run *r = ctx;
    if (b && r->c->activity.ended)
        box_end(b, "the call was cancelled", NULL, NULL);
    if (!activity_back(&r->c->activity))
        return;
    if (b)
        begin_in(r, b);
    else
        run_fail(r, err);
}

static void create(struct mcp_run *r)
{
    struct err err = ERR_INIT;
    const struct box_request request = {
        .template_name = r->template_name,
        .owner = r->c->key,
        .timeout_ms = r->timeout_ms + LIFE_MARGIN_MS,
        .project = tool_project(r->c),
        .policy = r->policy,
    };
    if (tool_has_template(r->c, r->template_name, &err) < 0) {
        run_fail(r, &err);
        return;
    }
    r->own_box = true;
    activity_wait(&r->c->activity);
    box_create(r->c->activity.core, &request, on_box, r);
}

/* What is about a fresh sandbox does not go together with one that is there. */
static int check(const struct mcp_run *r, const char *session, struct err *err)
{
    const char *given = r->template_name ? "template" : r->policy ? "policy" : NULL;
    if (session && given)
        return err_set(err, ERR_USAGE, "\"%s\" and \"session_id\": one of them", given);
    return fields_check_env(r->env, "env", err);
}

/* Gets the sandbox, then starts what is to run in it. */
static void begin(struct mcp_run *r, const char *session)
{
    struct box *b;
    if (!session) {
        create(r);
        return;
    }
    r->ended = true; /* until something runs in it there is nothing to kill */
    b = tool_box(r->c, session);
    if (!b)
        return;
    r->ended = false;
    begin_in(r, b);
}

void run_tool(struct mcp_call *c, const struct run_kind *kind)
{
    struct err err = ERR_INIT;
    const char *session = NULL;
    struct mcp_run *r = run_new(c, kind);
    if (!r)
        return;
    if (kind->read(r, &session, &err) < 0 || check(r, session, &err) < 0) {
        run_fail(r, &err);
        return;
    }
    if (!r->template_name)
        r->template_name = kind->template_name(r);
    begin(r, session);
}

/* ---- output ---- */

static bool tell(struct mcp_run *r, struct buf *line)
{
    bool more = mcp_progress(r->c, buf_text(line), line->len);
    buf_reset(line);
    return more;
}

static size_t count_lines(const char *data, size_t len)
{
    size_t n = 0;
    for (const char *at = data; (at = memchr(at, '\n', len - (size_t)(at - data))); at++)
        n++;
    return n;
}

/* Line by line, as they come; long ones in pieces, many at once together. */
static bool tell_lines(struct mcp_run *r, struct buf *line, const char *data, size_t len)
{
    bool more = true, together = count_lines(data, len) > LINES_PER_PIECE;
    while (len) {
        const char *end = together ? NULL : memchr(data, '\n', len);
        size_t n = end ? (size_t)(end - data) : len, room = RUN_LINE_MAX - line->len;
        bool whole = end && n <= room;
        n = n < room ? n : room;
        buf_add(line, data, n);
        data += n + whole;
        len -= n + whole;
        if (whole || line->len == RUN_LINE_MAX)
            more = tell(r, line) && more;
    }
    if (together && line->len)
        more = tell(r, line) && more;
    return more;
}

bool run_output(struct mcp_run *r, int stream, const void *data, size_t len)
{
    int i = stream == 2;
    r->cut |= !hold_fill(&r->c->activity.hold, &r->out[i], data, len);
    return !r->c->token || tell_lines(r, &r->line[i], data, len);
}

/* ---- the answer ---- */

static void on_settled(void *ctx, const struct err *err)
{
    struct mcp_run *r = ctx;
    (void)err;
    if (activity_back(&r->c->activity))
        run_write(r, run_box(r));
}

void run_finish(struct mcp_run *r)
{
    struct box *b = run_box(r);
    loop_timer_cancel(r->c->activity.loop, &r->deadline);
    if (r->execution)
        execution_cancel(r->execution);
    r->execution = NULL;
    for (int i = 0; i < 2; i++)
        if (r->line[i].len)
            tell(r, &r->line[i]);
    run_drop_half(r);
    r->ended = true;
    /* What was refused is told by the warden, which is not who told the end: wait until it has told
     * all that was refused before. */
    if (b) {
        activity_wait(&r->c->activity);
        box_settle(b, on_settled, r);
    } else {
        run_write(r, b);
    }
}
