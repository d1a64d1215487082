/* The life of everything that a request started: see activity.h. */
#include "daemon/api/activity.h"

#include "base/container.h"

#include <stdlib.h>

static void release(struct loop_task *t)
{
    struct activity *a = container_of(t, struct activity, release);
    if (a->ops->done)
        a->ops->done(a);
    for (unsigned kind = 0; kind < ACCOUNT_KINDS; kind++)
        if (a->charged & (1u << kind))
            account_return(a->hold.account, kind, 1);
    hold_done(&a->hold);
    free(a);
}

static void release_later(struct activity *a)
{
    if (a->ended && !a->pending)
        loop_defer(a->loop, &a->release);
}

static void on_box_gone(struct box_dependent *d)
{
    struct activity *a = container_of(d, struct activity, of_box);
    a->box = NULL;
    if (a->ops->box_gone)
        a->ops->box_gone(a);
    else
        activity_end(a);
}

void *activity_new(size_t size, const struct activity_ops *ops, struct core *core,
                   struct account *account, struct err *err)
{
    struct activity *a = calloc(1, size);
    if (!a) {
        err_memory(err);
        return NULL;
    }
    hold_init(&a->hold, account);
    if (hold_add(&a->hold, size, err) < 0) {
        free(a);
        return NULL;
    }
    a->ops = ops;
    a->core = core;
    a->loop = core_loop(core);
    a->of_box.gone = on_box_gone;
    a->release.fn = release;
    return a;
}

int activity_charge(struct activity *a, enum account_kind kind, struct err *err)
{
    int r = account_charge(a->hold.account, kind, 1, err);
    if (r == 0)
        a->charged |= 1u << kind;
    return r;
}

void activity_buf(struct activity *a, struct buf *b, size_t cap)
{
    buf_init_metered(b, cap, &a->hold.meter);
}

/* ---- its client ---- */

static void on_gone(struct call *call)
{
    activity_gone(call->data);
}

static void on_writable(struct call *call)
{
    struct activity *a = call->data;
    if (a->ops->writable)
        a->ops->writable(a);
}

void activity_serve(struct activity *a, struct call *call)
{
    a->call = call;
    call->data = a;
    call->on_gone = on_gone;
    call->on_writable = on_writable;
}

struct call *activity_detach(struct activity *a)
{
    struct call *call = a->call;
    a->call = NULL;
    if (call) {
        call->data = NULL;
        call->on_gone = call->on_writable = NULL;
    }
    return call;
}

void activity_gone(struct activity *a)
{
    struct call *call = activity_end(a);
    if (call)
        call_ended(call);
}

/* ---- its sandbox ---- */

void activity_enter(struct activity *a, struct box *b)
{
    a->box = b;
    box_depend(b, &a->of_box);
}

struct activity *activity_next(struct box *b, const struct activity *after,
                               const struct activity_ops *ops)
{
    struct box_dependent *d = after ? after->of_box.next : box_dependents(b);
    for (; d; d = d->next) {
        struct activity *a = container_of(d, struct activity, of_box);
        if (d->gone == on_box_gone && a->ops == ops)
            return a;
    }
    return NULL;
}

struct box *activity_box(const struct activity *a)
{
    return a->box ? box_find_any(a->core, box_info(a->box)->id) : NULL;
}

/* ---- waiting, and the end ---- */

void activity_wait(struct activity *a)
{
    a->pending++;
}

bool activity_back(struct activity *a)
{
    a->pending--;
    release_later(a);
    return !a->ended;
}

struct call *activity_end(struct activity *a)
{
    if (a->ended)
        return NULL;
    struct call *call = activity_detach(a);
    a->ended = true;
    box_undepend(&a->of_box);
    a->box = NULL;
    if (a->ops->stop)
        a->ops->stop(a);
    release_later(a);
    return call;
}
