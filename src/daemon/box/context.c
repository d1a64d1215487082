/* Contexts: interpreters with a state of their own. One that speaks nonsense, or ends, is lost, and
 * nothing else is. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/container.h"
#include "daemon/base/random.h"
#include "daemon/box/context_internal.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#define HOME        "/home/user"
#define CONTEXT_FDS INTERP_ENDS

const struct context_info *context_info(const struct context *c)
{
    return &c->info;
}

struct context *context_find(struct box *b, const char *id)
{
    for (struct context *c = b->contexts; c; c = c->next)
        if (c->state != CONTEXT_LOST && strcmp(c->info.id, id) == 0)
            return c;
    return NULL;
}

void context_each(struct box *b, void (*fn)(void *ctx, struct context *c), void *ctx)
{
    for (struct context *c = b->contexts, *next; c; c = next) {
        next = c->next;
        if (c->state != CONTEXT_LOST)
            fn(ctx, c);
    }
}

bool context_busy(const struct box *b)
{
    for (const struct context *c = b->contexts; c; c = c->next)
        if (c->first)
            return true;
    return false;
}

/* ---- its end ---- */

static void context_free(struct trash *t)
{
    struct context *c = container_of(t, struct context, trash);
    interp_reader_done(&c->reader);
    hold_done(&c->hold);
    free(c->cwd);
    free(c);
}

static void tell(struct context *c, struct context *as, const struct err *err)
{
    while (c->waits) {
        struct context_wait *w = c->waits;
        c->waits = w->next;
        w->fn(w->ctx, as, err);
        free(w);
    }
}

static void stop_interpreter(struct context *c)
{
    loop_timer_cancel(c->box->core->loop, &c->timer);
    if (c->pid && !c->exited && c->box->info.state < BOX_ENDING)
        box_signal(c->box, c->pid, SIGKILL, true, NULL, NULL);
    c->pid = 0;
    c->spawn++;
    context_io_close(c);
}

static void unlist(struct context *c)
{
    struct context **at = &c->box->contexts;
    while (*at && *at != c)
        at = &(*at)->next;
    if (!*at)
        return;
    *at = c->next;
    c->box->context_count--;
}

void context_lose(struct context *c, const struct err *why)
{
    struct core *core = c->box->core;
    if (c->state == CONTEXT_LOST)
        return;
    c->state = CONTEXT_LOST;
    stop_interpreter(c);
    account_return(c->box->account, ACCOUNT_DESCRIPTORS, CONTEXT_FDS);
    unlist(c);
    execution_fail_all(c, why);
    tell(c, NULL, why);
    c->trash.free = context_free;
    core_discard(core, &c->trash);
}

void context_remove(struct context *c)
{
    struct err err = ERR_INIT;
    err_set(&err, ERR_NOT_FOUND, "context %s was removed", c->info.id);
    box_record(c->box, "context.removed", NULL);
    context_lose(c, &err);
}

void context_stop_all(struct box *b, const struct err *why)
{
    while (b->contexts)
        context_lose(b->contexts, why);
}

bool context_on_exit(struct box *b, int64_t pid, int wait_status, bool oom)
{
    struct context *c = b->contexts;
    if (b->interp_fds[0] >= 0 && pid == b->interp_pid)
        for (unsigned i = 0; i < INTERP_ENDS; i++)
            close(fd_steal(&b->interp_fds[i])); /* it did not wait long enough */
    while (c && (c->pid != pid || c->exit_known))
        c = c->next;
    if (!c)
        return false;
    c->exited = c->exit_known = true;
    c->status = wait_status;
    c->oom = oom;
    if (b->pumped)
        loop_timer_set(b->core->loop, &c->timer, FAREWELL_MS);
    context_pump(c); /* what it still said comes first */
    return true;
}

/* ---- its start ---- */

void context_tell_ready(struct context *c)
{
    if (c->state != CONTEXT_STARTING)
        return;
    c->state = CONTEXT_READY;
    loop_timer_cancel(c->box->core->loop, &c->timer);
    tell(c, c, NULL);
    if (c->state == CONTEXT_READY)
        execution_next(c);
}

static void on_timer(struct loop_timer *t)
{
    struct context *c = container_of(t, struct context, timer);
    struct err err = ERR_INIT;
    if (c->box->info.state == BOX_PAUSED) {
        loop_timer_set(c->box->core->loop, t, 1000);
    } else if (c->state == CONTEXT_STARTING) {
        errno = ETIMEDOUT;
        err_sys(&err, "the %s interpreter did not start in time",
                interp_language_name(c->info.language));
        context_lose(c, &err);
    } else if (c->exited) { /* it closed its channel, and lives */
        if (!c->exit_known)
            box_signal(c->box, c->pid, SIGKILL, true, NULL, NULL);
        c->exit_known = c->exit_late = true;
        context_pump(c);
    } else {
        execution_on_timer(c);
    }
}

struct starting {
    struct box *box;
    struct context *context; /* only compared, until it is found in the box's list */
    unsigned spawn;
};

static struct context *still_there(const struct starting *s)
{
    struct context *c = s->box->contexts;
    while (c && c != s->context)
        c = c->next;
    return c && c->spawn == s->spawn ? c : NULL;
}

/* A program that is not there; a folder that is not there comes with the kernel's number. */
static void explain_missing(const struct context *c, const struct err *err, struct err *ret)
{
    enum interp_language l = c->info.language;
    if (err->code == ERR_NOT_FOUND && err->sys_errno == 0)
        err_set(ret, ERR_NOT_FOUND,
                "%s is not installed in this sandbox: install Debian's package %s on the host (or "
                "in the image that the template's root comes from)",
                interp_language_name(l), interp_language_package(l));
}

static void on_spawned(void *ctx, struct wire_msg *m, const struct err *err)
{
    struct starting *s = ctx;
    struct context *c = still_there(s);
    struct err mine = ERR_INIT;
    if (!c) {
        if (!err && s->box->info.state < BOX_ENDING)
            box_signal(s->box, m->value, SIGKILL, true, NULL, NULL);
    } else if (err) {
        explain_missing(c, err, &mine);
        context_lose(c, mine.code ? &mine : err);
    } else {
        c->pid = m->value;
        int fds[INTERP_ENDS];
        for (unsigned i = 0; i < INTERP_ENDS; i++)
            fds[i] = wire_steal_fd(m, i);
        if (context_io_open(c, fds, &mine) < 0)
            context_lose(c, &mine);
    }
    free(s);
}

static void write_request(struct context *c, struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out, false);
    jw_object_begin(&w);
    jw_kv_array(&w, "argv");
    jw_array_end(&w);
    jw_kv_object(&w, "env");
    jw_object_end(&w);
    jw_kv_string(&w, "cwd", c->cwd ? c->cwd : "");
    jw_kv_string(&w, "tty", NULL);
    jw_kv_bool(&w, "stdin", false);
    jw_kv_string(&w, "interpreter", interp_language_name(c->info.language));
    jw_object_end(&w);
}

static void spawn(struct context *c)
{
    struct box *b = c->box;
    struct err err = ERR_INIT;
    struct starting *s = malloc(sizeof *s);
    if (!s) {
        err_memory(&err);
        context_lose(c, &err);
        return;
    }
    *s = (struct starting){b, c, c->spawn};
    c->state = CONTEXT_STARTING;
    loop_timer_set(b->core->loop, &c->timer, CONTEXT_READY_MS);
    struct buf *out = core_scratch(b->core);
    write_request(c, out);
    peer_ask(&b->warden, WIRE_SPAWN, 0, out->data, out->len, ANSWER_MS, on_spawned, s);
}

static struct context *context_new(struct box *b, enum interp_language l, const char *cwd,
                                   struct err *err)
{
    if (!box_usable(b, err))
        return NULL;
    if (l <= INTERP_NONE || l >= INTERP_COUNT) {
        err_set(err, ERR_USAGE, "there is no interpreter of that name");
        return NULL;
    }
    struct context *c = b->context_count < CONTEXTS_MAX ? calloc(1, sizeof *c) : NULL;
    if (!c || !(c->cwd = strdup(cwd && *cwd ? cwd : HOME))) {
        free(c);
        err_set(err, ERR_LIMIT, "sandbox %s already has %u contexts", b->info.id, b->context_count);
        return NULL;
    }
    hold_init(&c->hold, b->account);
    if (hold_add(&c->hold, sizeof *c + INTERP_READER_BASE + strlen(c->cwd), err) < 0 ||
        account_charge(b->account, ACCOUNT_DESCRIPTORS, CONTEXT_FDS, err) < 0) {
        hold_done(&c->hold);
        free(c->cwd);
        free(c);
        return NULL;
    }
    c->box = b;
    c->info.language = l;
    c->info.cwd = c->cwd;
    c->end = &c->first;
    c->timer.fn = on_timer;
    random_uuid(c->info.id);
    interp_reader_init(&c->reader);
    c->reader.meter = &c->hold.meter;
    context_io_init(c);
    c->next = b->contexts;
    b->contexts = c;
    b->context_count++;
    return c;
}

static bool add_wait(struct context *c, context_fn *fn, void *ctx)
{
    struct context_wait *w = malloc(sizeof *w);
    struct err err = ERR_INIT;
    if (!w) {
        err_memory(&err);
        fn(ctx, NULL, &err);
        return false;
    }
    *w = (struct context_wait){c->waits, fn, ctx};
    c->waits = w;
    return true;
}

/* The interpreter that waited for the claim becomes the default of its language. */
static void adopt(struct context *c)
{
    struct box *b = c->box;
    struct err err = ERR_INIT;
    int fds[INTERP_ENDS];
    for (unsigned i = 0; i < INTERP_ENDS; i++)
        fds[i] = fd_steal(&b->interp_fds[i]);
    c->pid = b->interp_pid;
    c->waited = true;
    if (context_io_open(c, fds, &err) < 0)
        context_lose(c, &err);
    else
        context_tell_ready(c); /* what it is asked now it reads when it is there */
}

static void start(struct context *c)
{
    struct box *b = c->box;
    box_record(b, "context.created", NULL);
    if (c->is_default && b->interp_fds[0] >= 0 && b->interp_language == c->info.language)
        adopt(c);
    else
        spawn(c);
}

void context_wake(struct context *c)
{
    if (c->state != CONTEXT_ASLEEP)
        return;
    c->state = CONTEXT_STARTING;
    start(c);
}

static void context_begin(struct context *c, context_fn *fn, void *ctx)
{
    box_touch(c->box);
    if (add_wait(c, fn, ctx))
        start(c);
    else
        context_remove(c);
}

void context_create(struct box *b, enum interp_language l, const char *cwd, context_fn *fn,
                    void *ctx)
{
    struct err err = ERR_INIT;
    struct context *c = context_new(b, l, cwd, &err);
    if (!c)
        fn(ctx, NULL, &err);
    else
        context_begin(c, fn, ctx);
}

static struct context *find_default(struct box *b, enum interp_language l)
{
    struct context *c = b->contexts;
    while (c && !(c->is_default && c->info.language == l && c->state != CONTEXT_LOST))
        c = c->next;
    return c;
}

void context_name_defaults(struct box *b)
{
    static const enum interp_language languages[] = {INTERP_JAVASCRIPT, INTERP_PYTHON};
    for (size_t i = 0; i < ARRAY_LEN(languages); i++) {
        struct err err = ERR_INIT;
        struct context *c =
            find_default(b, languages[i]) ? NULL : context_new(b, languages[i], NULL, &err);
        if (!c)
            continue;
        c->is_default = true;
        c->state = CONTEXT_ASLEEP;
    }
}

void context_default(struct box *b, enum interp_language l, context_fn *fn, void *ctx)
{
    struct err err = ERR_INIT;
    struct context *c = find_default(b, l);
    if (c) {
        box_touch(b);
        if (c->state == CONTEXT_READY)
            fn(ctx, c, NULL);
        else if (add_wait(c, fn, ctx))
            context_wake(c);
        return;
    }
    c = context_new(b, l, NULL, &err);
    if (!c) {
        fn(ctx, NULL, &err);
        return;
    }
    c->is_default = true;
    context_begin(c, fn, ctx);
}

static void begin_again(struct context *c)
{
    struct box *b = c->box;
    interp_reader_done(&c->reader);
    interp_reader_init(&c->reader);
    c->reader.meter = &c->hold.meter;
    c->exited = c->exit_known = c->exit_noted = c->exit_late = c->oom = c->waited = false;
    c->interrupting = c->served = false;
    box_record(b, "context.restarted", NULL);
    spawn(c);
}

void context_renew(struct context *c, const struct err *why)
{
    /* An interpreter that never became ready would fail again: give the context up. */
    if (c->state != CONTEXT_READY || !box_usable(c->box, NULL)) {
        context_lose(c, why);
        return;
    }
    stop_interpreter(c);
    execution_fail_all(c, why);
    if (c->state != CONTEXT_LOST)
        begin_again(c);
}

/* A shell that ends with a cell (`exit`, `set -e`) is sent the next one before its end is known
 * here. Not a word was said about that one, so that it was not begun. An interpreter must have
 * brought one to its end: those that always die are not started for ever. */
bool context_relieve(struct context *c)
{
    bool begun = c->running && c->counted;
    if (c->state != CONTEXT_READY || !c->first || c->first->cancelled || begun || !c->served ||
        !box_usable(c->box, NULL))
        return false;
    stop_interpreter(c);
    c->running = c->blocked = false;
    begin_again(c);
    return true;
}

void context_restart(struct context *c, context_fn *fn, void *ctx)
{
    struct err err = ERR_INIT;
    struct box *b = c->box;
    if (!box_usable(b, &err)) {
        fn(ctx, NULL, &err);
        return;
    }
    if (c->state == CONTEXT_ASLEEP) { /* nothing to forget */
        c->state = CONTEXT_STARTING;
        context_begin(c, fn, ctx);
        return;
    }
    box_touch(b);
    err_set(&err, ERR_INTERRUPTED, "context %s was restarted", c->info.id);
    stop_interpreter(c);
    execution_fail_all(c, &err);
    tell(c, NULL, &err);
    if (c->state != CONTEXT_LOST && add_wait(c, fn, ctx))
        begin_again(c);
}
