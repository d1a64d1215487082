/* Executions: one at a time per context, the others wait in a queue. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/container.h"
#include "daemon/base/fault.h"
#include "daemon/base/turn.h"
#include "daemon/box/context_internal.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>

#define ENV_TEXT_MAX (8u * WIRE_TEXT_MAX) /* with every byte of it escaped */

static void execution_free(struct trash *t)
{
    struct execution *e = container_of(t, struct execution, trash);
    buf_done(&e->frame);
    hold_done(&e->hold);
    free(e);
}

/* Takes the first one off the queue. */
static struct execution *shift(struct context *c)
{
    struct execution *e = c->first;
    c->first = e->next;
    if (!c->first)
        c->end = &c->first;
    c->queued--;
    c->queued_bytes -= e->size;
    e->context = NULL;
    e->trash.free = execution_free;
    core_discard(c->box->core, &e->trash);
    return e;
}

static void record(struct context *c, const struct execution *e, const char *outcome)
{
    struct box *b = c->box;
    uint64_t took = e->began_us ? clock_us() - e->began_us : 0;
    box_record(b, "execution.ended",
               JSON_SMALL(JSON_TEXT("context", c->info.id),
                          JSON_TEXT("language", interp_language_name(c->info.language)),
                          JSON_TEXT("outcome", outcome), JSON_NUMBER("usec", took)));
    core_observe(b->core, "execution", took);
}

static void finish(struct context *c, const struct err *err)
{
    struct execution *e = shift(c);
    record(c, e,
           e->cancelled      ? "cancelled"
           : err_is_oom(err) ? "oom_killed"
           : err             ? "lost"
           : e->failed       ? "error"
                             : "good");
    usual_exit(c->box->tmpl, box_who(c->box), err || e->failed);
    if (!e->cancelled)
        e->sink.end(e->sink.ctx, err);
}

/* ---- sending ---- */

void execution_send(struct context *c)
{
    struct execution *e = c->first;
    if (c->running && e && c->sent < e->frame.len && c->requests.fd >= 0) {
        ssize_t n = turn_write(c->requests.fd, e->frame.data + c->sent, e->frame.len - c->sent);
        if (n < 0)
            context_lose_touch(c);
        else
            c->sent += (size_t)n;
    }
    context_watch(c);
}

void execution_next(struct context *c)
{
    if (c->state != CONTEXT_READY || c->running || c->interrupting || !c->first)
        return;
    c->running = true;
    c->counted = false;
    c->sent = 0;
    c->interrupts = 0;
    c->first->began_us = clock_us();
    c->first->denied_mark = box_denied_mark(c->box);
    core_count(c->box->core, COUNT_EXECUTED, 1);
    execution_send(c);
    fault_point(FAULT_EXECUTE_SENT);
}

/* ---- hearing ---- */

void execution_output(struct context *c, int stream, const char *data, size_t len)
{
    struct execution *e = c->running ? c->first : NULL;
    if (!e || e->cancelled)
        return; /* of a thread that outlived its execution, or nobody listens */
    bool more = e->sink.output(e->sink.ctx, stream, data, len);
    if (!more && c->running && c->first == e && !e->cancelled)
        c->blocked = true;
}

static void on_end(struct context *c)
{
    fault_point(FAULT_EXECUTE_ENDED);
    c->running = false;
    c->served = true;
    loop_timer_cancel(c->box->core->loop, &c->timer);
    finish(c, NULL);
    execution_next(c);
}

/* ---- what was refused to it ---- */

struct settling {
    struct box *box;
    struct context *context;
    uint64_t id;
    unsigned spawn;
};

static void on_settled(void *ctx, const struct err *err)
{
    struct settling *s = ctx;
    struct context *c = s->box->contexts;
    (void)err; /* told late or never: the error comes without it */
    while (c && c != s->context)
        c = c->next;
    struct execution *e = c && c->running && c->spawn == s->spawn ? c->first : NULL;
    if (e && e->id == s->id) {
        e->settling = false;
        e->settled = true;
        c->blocked = false;
        context_pump(c); /* does nothing, and goes on there, if that is where this comes from */
    }
    free(s);
}

/* The interpreter's words come straight from inside, the refusals by the warden and brig-proxy: an
 * error waits until they, asked in turn, have told what they refused before. So does a good end:
 * what is told late would be taken for the next cell's. False: the end is to be told later. A
 * caller that does not ask for refusals need not wait. */
static bool settle(struct context *c, struct execution *e)
{
    if (e->settled || !e->sink.denied)
        return true;
    struct settling *s = malloc(sizeof *s);
    if (!s)
        return true;
    *s = (struct settling){c->box, c, e->id, c->spawn};
    e->settling = true;
    c->blocked = true;
    box_settle(c->box, on_settled, s); /* perhaps at once */
    return false;
}

static void tell_denied(struct context *c, struct execution *e)
{
    cleanup_buf struct buf words;
    buf_init(&words, DENIED_WORDS_MAX);
    if (e->sink.denied && box_denied_since(c->box, e->denied_mark, &words) && !words.failed)
        e->sink.denied(e->sink.ctx, buf_text(&words));
}

bool execution_hear(struct context *c, const struct interp_said *s)
{
    struct execution *e = c->running ? c->first : NULL;
    if (!e || s->id != e->id)
        return true; /* out of turn */
    fault_point(FAULT_EXECUTE_SAID);
    if (s->word == INTERP_END) {
        bool quiet = !e->failed && !e->cancelled;
        if (quiet && !settle(c, e))
            return false;
        if (quiet)
            tell_denied(c, e);
        on_end(c);
        return true;
    }
    if (!c->counted && c->sent >= e->frame.len)
        buf_release(&e->frame); /* it has been read, and may run for long */
    c->counted = true;
    if (s->word == INTERP_ERROR)
        e->failed = true;
    if (e->cancelled)
        return true;
    if (s->word == INTERP_ERROR && !settle(c, e))
        return false;
    if (s->word == INTERP_ERROR)
        tell_denied(c, e);
    enum sink_took took = e->sink.said(e->sink.ctx, s);
    if (took == SINK_FULL && c->running && c->first == e && !e->cancelled)
        c->blocked = true;
    return took == SINK_ALL;
}

void execution_fail_all(struct context *c, const struct err *why)
{
    c->running = false;
    c->blocked = false;
    while (c->first)
        finish(c, why);
}

/* ---- interrupting ---- */

struct interrupt {
    struct box *box;
    struct context *context;
    unsigned spawn;
};

/* The next execution starts when the signal has arrived: it must not hit the wrong one. */
static void on_signalled(void *ctx, struct wire_msg *m, const struct err *err)
{
    (void)m, (void)err;
    struct interrupt *i = ctx;
    struct context *c = i->box->contexts;
    while (c && c != i->context)
        c = c->next;
    if (c && c->spawn == i->spawn) {
        c->interrupting = false;
        execution_next(c);
    }
    free(i);
}

static void interrupt(struct context *c)
{
    struct interrupt *i = malloc(sizeof *i);
    if (!i)
        return;
    *i = (struct interrupt){c->box, c, c->spawn};
    c->interrupting = true;
    c->interrupts++;
    loop_timer_set(c->box->core->loop, &c->timer, INTERRUPT_MS);
    box_signal(c->box, c->pid, SIGINT, true, on_signalled, i);
}

/* Code that does not heed the signal cannot keep the context, and what waits behind it, for ever.
 */
void execution_on_timer(struct context *c)
{
    struct err err = ERR_INIT;
    if (!c->running || !c->first || !c->first->cancelled)
        return;
    if (c->interrupts < INTERRUPTS) {
        interrupt(c);
        return;
    }
    err_set(&err, ERR_INTERRUPTED, "context %s could not be interrupted", c->info.id);
    context_lose(c, &err);
}

void execution_cancel(struct execution *e)
{
    struct context *c = e->context;
    if (!c || e->cancelled)
        return;
    e->cancelled = true;
    if (c->running && c->first == e) {
        c->blocked = false;
        context_watch(c);
        context_pump_soon(c);
        interrupt(c);
        return;
    }
    struct execution **at = &c->first;
    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    if (!*at)
        c->end = at;
    c->queued--;
    c->queued_bytes -= e->size;
    e->context = NULL;
    e->trash.free = execution_free;
    core_discard(c->box->core, &e->trash);
}

void execution_resume(struct execution *e)
{
    struct context *c = e->context;
    if (!c || !c->blocked || !c->running || c->first != e || e->settling)
        return;
    c->blocked = false;
    context_watch(c);
    context_pump_soon(c);
}

/* ---- starting ---- */

/* The interpreter that waited was started before the box had an environment of its own: 0 and NULL
 * for others. */
static int whole_env(const struct context *c, const struct json *env, struct json **ret,
                     struct err *err)
{
    struct json *mine = NULL;
    cleanup_buf struct buf text = {0};
    struct json_writer w;
    const char *box_env = c->box->env ? c->box->env : "{}";
    if (!c->waited)
        return 0;
    if (json_parse(box_env, strlen(box_env), NULL, &mine, err) < 0)
        return err_number(err);
    jw_begin(&w, &text, ENV_TEXT_MAX);
    box_write_names(&w, c->box, env);
    for (size_t i = 0; i < json_count(mine); i++)
        if (!env || !json_get(env, json_key_at(mine, i)))
            jw_kv_string(&w, json_key_at(mine, i), json_string(json_value_at(mine, i)));
    for (size_t i = 0; env && i < json_count(env); i++)
        jw_kv_string(&w, json_key_at(env, i), json_string(json_value_at(env, i)));
    jw_object_end(&w);
    json_free(mine);
    if (text.failed)
        return err_set(err, ERR_LIMIT, "the environment is too long");
    return json_parse(buf_text(&text), text.len, NULL, ret, err);
}

static int check(const struct context *c, size_t len, struct err *err)
{
    if (!box_usable(c->box, err))
        return -EINVAL;
    if (c->state == CONTEXT_LOST)
        return err_set(err, ERR_NOT_FOUND, "context %s is gone", c->info.id);
    if (len > INTERP_CODE_MAX)
        return err_set(err, ERR_LIMIT, "code of more than %u bytes", INTERP_CODE_MAX);
    if (c->queued >= QUEUE_MAX || (c->queued && c->queued_bytes + len > QUEUE_BYTES_MAX))
        return err_set(err, ERR_LIMIT, "context %s has too much to do", c->info.id);
    return 0;
}

int execution_start(struct context *c, const char *code, size_t len, const struct json *env,
                    const struct execution_sink *sink, struct execution **ret, struct err *err)
{
    int r = check(c, len, err);
    if (r < 0)
        return r;
    context_wake(c); /* before its environment is looked at, which depends on how it was started */
    if (c->state == CONTEXT_LOST)
        return err_set(err, ERR_LIMIT, "context %s could not be started", c->info.id);
    struct execution *e = calloc(1, sizeof *e);
    if (!e)
        return err_memory(err);
    *e = (struct execution){.context = c, .sink = *sink, .id = ++c->next_id};
    struct json *all = NULL;
    r = whole_env(c, env, &all, err);
    if (r < 0) {
        free(e);
        return r;
    }
    hold_init(&e->hold, c->box->account);
    buf_init_metered(&e->frame, INTERP_FRAME_MAX + 4, &e->hold.meter);
    interp_write_execute(&e->frame, e->id, code, len, all ? all : env);
    json_free(all);
    if (e->frame.failed) {
        r = hold_refusal(&e->hold, err);
        execution_free(&e->trash);
        return r < 0 ? r : err_set(err, ERR_LIMIT, "the code is too long");
    }
    *c->end = e;
    c->end = &e->next;
    c->queued++;
    e->size = e->frame.len;
    c->queued_bytes += e->size;
    *ret = e;
    box_touch(c->box);
    pool_busy(c->box->core);
    execution_next(c);
    return 0;
}
