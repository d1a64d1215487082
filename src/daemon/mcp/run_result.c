/* The result of run_code and run_command: text for a model, members for a program. */
#include "daemon/mcp/run.h"

#include "base/clock.h"

#include <string.h>
#include <sys/wait.h>

#define TEXT_MAX (64u << 10) /* of one stream in the text; all of it is in structuredContent */

static uint64_t fresh(const struct mcp_run *r, const struct denial_list *l, size_t i)
{
    return l->items[i].count - r->denied_before[i];
}

static void write_denials(const struct mcp_run *r, const struct denial_list *l,
                          struct json_writer *w)
{
    jw_kv_array(w, "denials");
    for (size_t i = 0; l && i < l->count; i++) {
        const struct denial *d = &l->items[i];
        if (!fresh(r, l, i))
            continue;
        jw_object_begin(w);
        jw_kv_string(w, "boundary", boundary_name(d->boundary));
        jw_kv_bytes(w, "what", d->what, strlen(d->what));
        jw_kv_bytes(w, "rule", d->rule, strlen(d->rule));
        jw_kv_bytes(w, "hint", d->hint, strlen(d->hint));
        jw_kv_uint(w, "count", fresh(r, l, i));
        jw_object_end(w);
    }
    jw_array_end(w);
}

/* ---- for reading ---- */

static void add_stream(struct buf *text, const char *head, const struct buf *from)
{
    size_t n = from->len < TEXT_MAX ? from->len : TEXT_MAX;
    if (!from->len)
        return;
    if (text->len && text->data[text->len - 1] != '\n')
        buf_chr(text, '\n');
    buf_str(text, head);
    buf_add(text, from->data, n);
    if (n < from->len)
        buf_fmt(text, "\n[%zu bytes more]\n", from->len - n);
}

static void add_line(struct buf *text, const char *line)
{
    if (text->len && text->data[text->len - 1] != '\n')
        buf_chr(text, '\n');
    buf_str(text, line);
}

static void add_end(struct buf *text, const struct mcp_run *r)
{
    if (r->raised)
        add_line(text, buf_text(&r->traceback));
    if (r->error.code) {
        add_line(text, "");
        buf_fmt(text, "[%s%s%s]", r->error.message, r->error.hint[0] ? "; " : "", r->error.hint);
    } else if (r->command && r->wait_status) {
        add_line(text, "");
        if (WIFSIGNALED(r->wait_status))
            buf_fmt(text, "[ended by signal %d]", WTERMSIG(r->wait_status));
        else
            buf_fmt(text, "[exit code %d]", WEXITSTATUS(r->wait_status));
    }
    if (r->cut)
        add_line(text, "[output was longer than what is kept]");
}

static void add_denials(struct buf *text, const struct mcp_run *r, const struct denial_list *l)
{
    for (size_t i = 0; l && i < l->count; i++) {
        struct denial d = l->items[i];
        d.count = fresh(r, l, i);
        if (!d.count)
            continue;
        add_line(text, "");
        denial_line(&d, text);
    }
}

static void write_text(struct buf *text, const struct mcp_run *r, const struct denial_list *l)
{
    add_stream(text, "", &r->out[0]);
    add_stream(text, "[stderr]\n", &r->out[1]);
    add_stream(text, "", &r->result);
    add_end(text, r);
    add_denials(text, r, l);
    if (!text->len)
        buf_str(text, "[no output]");
}

/* ---- both ---- */

/* Whatever ended it from outside is in `error`: a program need not read the text to tell. */
static void write_error(const struct mcp_run *r, const struct box *b, struct json_writer *w)
{
    bool oom = err_is_oom(&r->error);
    jw_kv_bool(w, "oom_killed", oom);
    if (oom && b)
        jw_kv_uint(w, "memory_limit", box_info(b)->memory);
    if (r->error.code)
        tool_write_error(w, &r->error);
}

void run_explain_timeout(struct mcp_run *r)
{
    err_set(&r->error, ERR_LIMIT, "killed: it ran longer than %lld ms", (long long)r->timeout_ms);
    err_hint(&r->error, "give it more time with timeout_ms, or make it do less at a time");
    err_at(&r->error, BOUNDARY_LIFECYCLE);
}

void run_write(struct mcp_run *r, struct box *b)
{
    const struct denial_list *l = b ? box_denials(b) : NULL;
    struct mcp_result result;
    write_text(&r->text, r, l);
    tool_result_begin(r->c, &result, &r->text, LONG_TEXT, &r->images, r->failed);
    result_string(r->c, &result.w, "stdout", &r->out[0], LONG_TEXT);
    result_string(r->c, &result.w, "stderr", &r->out[1], LONG_TEXT);
    jw_kv_bool(&result.w, "truncated", r->cut);
    jw_kv_bool(&result.w, "timed_out", r->timed_out);
    write_error(r, b, &result.w);
    jw_kv_uint(&result.w, "duration_ms", (clock_us() - r->began_us) / 1000);
    if (!r->own_box)
        jw_kv_string(&result.w, "session_id", r->box_id);
    r->kind->write(r, &result.w);
    write_denials(r, l, &result.w);
    tool_result_send(r->c, &result);
}
