/* Processes: started by the warden's word, found by pid or tag, ended once. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/container.h"
#include "base/wall.h"
#include "daemon/base/fault.h"
#include "daemon/box/process_internal.h"
#include "daemon/box/questions.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

struct spawn {
    struct process *process;
    bool has_stdin;
    uint64_t timeout_ms, began_us;
    char *record;
    process_fn *fn;
    void *ctx;
};

int64_t process_pid(const struct process *p)
{
    return p->pid;
}

const char *process_tag(const struct process *p)
{
    return p->tag;
}

const struct json *process_config(const struct process *p)
{
    return p->config;
}

struct process *process_find(struct box *b, int64_t pid, const char *tag)
{
    for (struct process *p = b->processes; p; p = p->next) {
        if (!p->started || p->ended)
            continue;
        if (tag ? p->tag && strcmp(p->tag, tag) == 0 : p->pid == pid)
            return p;
    }
    return NULL;
}

void process_each(struct box *b, void (*fn)(void *ctx, struct process *p), void *ctx)
{
    for (struct process *p = b->processes, *next; p; p = next) {
        next = p->next;
        if (p->started && !p->ended)
            fn(ctx, p);
    }
}

bool process_busy(const struct box *b)
{
    for (const struct process *p = b->processes; p; p = p->next)
        for (const struct process_client *cl = p->clients; cl && !p->ended; cl = cl->next)
            if (!cl->detached)
                return true;
    return false;
}

/* ---- its end ---- */

static void process_free(struct trash *t)
{
    struct process *p = container_of(t, struct process, trash);
    for (struct process_client *cl = p->clients; cl; cl = cl->next)
        cl->process = NULL;
    loop_timer_cancel(p->box->core->loop, &p->timer);
    process_log_free(p);
    json_free(p->config);
    free(p->tag);
    process_fds_closed(p, p->descriptors);
    hold_done(&p->hold);
    free(p);
}

/* Takes it out of its list as well. */
static void process_free_later(struct process *p)
{
    struct box *b = p->box;
    struct process **at = &b->processes;
    while (*at && *at != p)
        at = &(*at)->next;
    if (!*at)
        return;
    *at = p->next;
    b->process_count--;
    process_io_close(p);
    loop_timer_cancel(b->core->loop, &p->timer);
    p->trash.free = process_free;
    core_discard(b->core, &p->trash);
}

static bool is_quiet(const struct process *p)
{
    return p->out[0].io.fd < 0 && p->out[1].io.fd < 0;
}

/* Of those that ended, the log of the last few is kept, and so are pipes that children hold. The
 * list has the newest first. */
static void forget_old(struct box *b)
{
    unsigned quiet = 0, lingering = 0;
    for (struct process *p = b->processes, *next; p; p = next) {
        next = p->next;
        if (!p->ended)
            continue;
        if (is_quiet(p) ? ++quiet > ENDED_KEPT : ++lingering > LINGERING_MAX)
            process_free_later(p);
    }
}

static void record_exit(struct process *p)
{
    cleanup_buf struct buf text;
    struct json_writer w;
    int s = p->status;
    jw_begin(&w, &text, JSON_SMALL_MAX);
    jw_kv_int(&w, "pid", p->pid);
    if (WIFSIGNALED(s)) {
        jw_kv_int(&w, "signal", WTERMSIG(s));
        jw_kv_bool(&w, "timed_out", p->timed_out);
    } else {
        jw_kv_int(&w, "status", WEXITSTATUS(s));
    }
    if (p->oom_killed) {
        jw_kv_bool(&w, "oom_killed", true);
        jw_kv_uint(&w, "memory_limit", p->box->info.memory);
    }
    jw_object_end(&w);
    box_record(p->box, "process.ended", buf_text(&text));
}

static void tell_end(struct process *p)
{
    struct err oom = ERR_INIT;
    struct process_end how = {.wait_status = p->status, .timed_out = p->timed_out};
    if (p->oom_killed) {
        box_explain_oom(p->box, "the process", &oom);
        how.oom = &oom;
    }
    cleanup_buf struct buf denied;
    buf_init(&denied, DENIED_WORDS_MAX);
    if (p->status && box_denied_since(p->box, p->denied_mark, &denied) && !denied.failed)
        how.denied = buf_text(&denied);
    p->ended = true;
    p->ended_ms = wall_ms();
    loop_timer_cancel(p->box->core->loop, &p->timer);
    process_input_done(p);
    for (struct process_client *cl = p->clients; cl; cl = cl->next) {
        if (cl->detached || cl->ended)
            continue;
        cl->ended = true;
        cl->sink.end(cl->sink.ctx, &how);
    }
    process_io_start(p); /* what is still written is read and dropped */
    forget_old(p->box);
}

static bool is_drained(const struct process *p, const struct process_stream *s)
{
    return s->io.fd < 0 || (p->grace_over && s->owed == 0);
}

struct settling {
    struct box *box;
    struct process *process;
    int64_t pid;
};

static void on_settled(void *ctx, const struct err *err)
{
    struct settling *s = ctx;
    struct process *p = s->box->processes;
    (void)err; /* told late or never: its end is told without */
    while (p && (p != s->process || p->pid != s->pid))
        p = p->next;
    if (p) {
        p->settled = true;
        process_finish(p);
    }
    free(s);
}

/* As with an error of an interpreter's (execution.c). */
static bool is_settled(struct process *p)
{
    if (!p->status || p->settled || p->settling)
        return !p->settling || p->settled;
    struct settling *s = malloc(sizeof *s);
    if (!s)
        return true;
    *s = (struct settling){p->box, p, p->pid};
    p->settling = true;
    box_settle(p->box, on_settled, s); /* perhaps at once, and then this has told its end */
    return false;
}

void process_finish(struct process *p)
{
    if (p->exited && !p->ended && is_drained(p, &p->out[0]) && is_drained(p, &p->out[1]) &&
        is_settled(p))
        tell_end(p);
}

static void on_timer(struct loop_timer *t)
{
    struct process *p = container_of(t, struct process, timer);
    struct box *b = p->box;
    if (p->exited && process_io_owes(p)) {
        loop_timer_set(b->core->loop, t, GRACE_MS);
    } else if (p->exited) {
        p->grace_over = true;
        process_finish(p);
    } else if (b->info.state == BOX_PAUSED) {
        loop_timer_set(b->core->loop, t, 1000); /* its clock stands as well */
    } else {
        p->timed_out = p->timed_out || !p->kill_due;
        process_signal(p, SIGKILL);
    }
}

bool process_on_exit(struct box *b, int64_t pid, int wait_status, bool oom)
{
    struct process *p = b->processes;
    while (p && (p->pid != pid || !p->started || p->exited))
        p = p->next;
    if (!p)
        return false;
    p->exited = true;
    p->status = wait_status;
    p->oom_killed = oom && !p->timed_out; /* which is a kill of our own */
    record_exit(p);
    usual_exit(b->tmpl, box_who(b), wait_status != 0);
    process_io_exited(p);
    loop_timer_set(b->core->loop, &p->timer, p->pumped ? PUMP_GRACE_MS : GRACE_MS);
    process_finish(p);
    return true;
}

void process_stop_all(struct box *b)
{
    questions_drop(b);
    for (struct process *p = b->processes, *next; p; p = next) {
        next = p->next;
        if (!p->started)
            continue; /* the answer to its start comes, and fails */
        if (!p->exited) {
            p->exited = true;
            p->status = SIGKILL;
        }
        if (!p->ended)
            tell_end(p);
    }
    for (struct process *p = b->processes, *next; p; p = next) {
        next = p->next;
        if (p->started)
            process_free_later(p);
    }
}

/* ---- clients ---- */

static void client_free(struct trash *t)
{
    struct process_client *cl = container_of(t, struct process_client, trash);
    struct process *p = cl->process;
    if (p) {
        struct process_client **at = &p->clients;
        while (*at != cl)
            at = &(*at)->next;
        *at = cl->next;
    }
    free(cl);
}

struct process_client *process_attach(struct process *p, const struct process_sink *sink)
{
    struct process_client *cl = calloc(1, sizeof *cl);
    if (!cl)
        return NULL;
    cl->core = p->box->core;
    cl->process = p;
    cl->sink = *sink;
    cl->next = p->clients;
    p->clients = cl;
    return cl;
}

struct process_client *process_first(struct process *p)
{
    return p->first;
}

void process_detach(struct process_client *cl)
{
    if (!cl || cl->detached)
        return;
    if (cl->process && cl->process->first == cl)
        cl->process->first = NULL;
    process_resume(cl);
    cl->detached = true;
    cl->trash.free = client_free;
    core_discard(cl->core, &cl->trash);
}

/* ---- its start ---- */

/* A kill must not get lost: there may be too much to do for the warden to take it, or the sandbox
 * stands still, where it would end nothing. */
void process_signal(struct process *p, int sig)
{
    if (p->exited)
        return;
    box_signal(p->box, p->pid, sig, true, NULL, NULL);
    if (sig == SIGKILL) {
        p->kill_due = true;
        loop_timer_set(p->box->core->loop, &p->timer, KILL_AGAIN_MS);
    }
}

static void spawn_end(struct spawn *s, struct process *p, const struct err *err)
{
    s->fn(s->ctx, p, err);
    free(s->record);
    free(s);
}

static void spawn_fail(struct spawn *s, const struct err *err)
{
    struct process *p = s->process;
    struct process_client *first = p->first;
    process_free_later(p);
    spawn_end(s, NULL, err);
    process_detach(first);
}

static void on_spawned(void *ctx, struct wire_msg *m, const struct err *err)
{
    struct spawn *s = ctx;
    struct process *p = s->process;
    struct box *b = p->box;
    struct err mine = ERR_INIT;
    if (!err && !box_usable(b, &mine) && b->info.state != BOX_PAUSED && !b->freezing)
        err = &mine;
    if (!err && process_io_open(p, m, s->has_stdin, &mine) < 0) {
        box_signal(b, m->value, SIGKILL, true, NULL, NULL);
        err = &mine;
    }
    if (err) {
        spawn_fail(s, err);
        return;
    }
    fault_point(FAULT_SPAWNED);
    p->pid = m->value;
    p->started_ms = wall_ms();
    p->started = true;
    box_record(b, "process.started", s->record);
    core_count(b->core, COUNT_SPAWNED, 1);
    core_observe(b->core, "spawn", clock_us() - s->began_us);
    if (s->timeout_ms)
        loop_timer_set(b->core->loop, &p->timer, s->timeout_ms);
    spawn_end(s, p, NULL);
    process_io_start(p);
}

static void write_request(const struct process_request *r, struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out, false);
    jw_object_begin(&w);
    jw_kv_array(&w, "argv");
    for (const char *const *a = r->argv; *a; a++)
        jw_string(&w, *a);
    jw_array_end(&w);
    jw_key(&w, "env");
    if (r->env) {
        jw_json(&w, r->env);
    } else {
        jw_object_begin(&w);
        jw_object_end(&w);
    }
    jw_kv_string(&w, "cwd", r->cwd ? r->cwd : "");
    if (r->as_root)
        jw_kv_string(&w, "user", "root");
    jw_key(&w, "tty");
    if (r->tty) {
        jw_object_begin(&w);
        jw_kv_uint(&w, "cols", r->cols);
        jw_kv_uint(&w, "rows", r->rows);
        jw_object_end(&w);
    } else {
        jw_null(&w);
    }
    jw_kv_bool(&w, "stdin", r->has_stdin);
    jw_kv_string(&w, "interpreter", NULL);
    jw_object_end(&w);
}

/* The program's name and how many arguments it got, not what they are (AU-2). */
static char *write_record(const struct process_request *r)
{
    struct buf out;
    struct json_writer w;
    unsigned args = 0;
    while (r->argv[args])
        args++;
    jw_begin(&w, &out, RECORD_TEXT_MAX);
    jw_kv_bytes(&w, "program", r->argv[0], strnlen(r->argv[0], 256));
    jw_kv_uint(&w, "args", args - 1);
    jw_kv_bool(&w, "terminal", r->tty);
    if (r->as_root)
        jw_kv_string(&w, "user", "root");
    jw_object_end(&w);
    return out.data;
}

/* A tree of its own: the request's goes with the request. */
static struct json *copy_json(const struct json *json)
{
    struct json *copy = NULL;
    cleanup_buf struct buf text = {0};
    struct json_writer w;
    if (!json)
        return NULL;
    buf_init(&text, 256 * 1024);
    jw_init(&w, &text, false);
    jw_json(&w, json);
    if (text.failed || json_parse(buf_text(&text), text.len, NULL, &copy, NULL) < 0)
        return NULL;
    return copy;
}

/* stdin, stdout and stderr, or of a terminal what comes out, what goes in, and its size. */
#define PROCESS_FDS 3u

static int process_charge(struct process *p, struct err *err)
{
    size_t tag = p->tag ? strlen(p->tag) + 1 : 0;
    hold_init(&p->hold, p->box->account);
    int r = hold_add(&p->hold, sizeof *p + tag + json_memory(p->config), err);
    if (r == 0)
        r = account_charge(p->box->account, ACCOUNT_DESCRIPTORS, PROCESS_FDS, err);
    p->descriptors = r == 0 ? PROCESS_FDS : 0;
    return r;
}

static struct process *process_new(struct box *b, const struct process_request *r, struct err *err)
{
    struct process *p = calloc(1, sizeof *p);
    if (!p) {
        err_memory(err);
        return NULL;
    }
    p->box = b;
    p->denied_mark = box_denied_mark(b);
    p->tty = r->tty;
    p->pumped = b->pumped || r->tty;
    p->timer.fn = on_timer;
    p->tag = r->tag ? strdup(r->tag) : NULL;
    p->config = copy_json(r->config);
    process_io_init(p);
    if (process_charge(p, err) < 0) {
        process_free(&p->trash);
        return NULL;
    }
    p->next = b->processes;
    b->processes = p;
    b->process_count++;
    return p;
}

static int check_start(const struct box *b, const struct process_request *r, struct err *err)
{
    if (!box_usable(b, err))
        return -EINVAL;
    if (!r->argv || !r->argv[0])
        return err_set(err, ERR_USAGE, "a process needs a program");
    unsigned live = 0;
    for (const struct process *p = b->processes; p; p = p->next)
        live += !p->ended;
    if (live >= PROCESSES_MAX)
        return err_set(err, ERR_LIMIT, "sandbox %s already has %u processes", b->info.id, live);
    return 0;
}

void process_start_now(struct box *b, const struct process_request *r,
                       const struct process_sink *sink, process_fn *fn, void *ctx)
{
    struct err err = ERR_INIT;
    if (check_start(b, r, &err) < 0) {
        fn(ctx, NULL, &err);
        return;
    }
    struct spawn *s = calloc(1, sizeof *s);
    struct process *p = s ? process_new(b, r, &err) : NULL;
    if (!p) {
        free(s);
        if (!err.code)
            err_memory(&err);
        fn(ctx, NULL, &err);
        return;
    }
    *s = (struct spawn){.process = p, .has_stdin = r->has_stdin, .timeout_ms = r->timeout_ms};
    s->fn = fn;
    s->ctx = ctx;
    s->began_us = clock_us();
    s->record = write_record(r);
    if (sink)
        p->first = process_attach(p, sink);
    box_touch(b);
    struct buf *out = core_scratch(b->core);
    write_request(r, out);
    peer_ask(&b->warden, WIRE_SPAWN, 0, out->data, out->failed ? WIRE_TEXT_MAX + 1 : out->len,
             ANSWER_MS, on_spawned, s);
    fault_point(FAULT_SPAWN_SENT);
}
