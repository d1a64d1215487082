/* The event loop: descriptors through epoll, timers in a heap, deferred tasks, and a bounded part
 * of each round for each of those who share it. */
#include "os/loop.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/container.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/stat.h>

#define BATCH        1024 /* usually all that are ready: nobody waits for the events of others */
#define TIMERS_FIRST 64
#define SHARE_US     500

struct loop {
    int epoll_fd;
    bool stopped;
    uint64_t round;
    void (*on_round)(void *ctx, uint64_t usec);
    void *round_ctx;
    uint64_t now_ms;
    uint64_t (*clock)(void); /* NULL: the real one */
    struct loop_timer **heap;
    size_t timers, timer_room;
    struct loop_task *first, **end;
    struct epoll_event batch[BATCH];
    int ready; /* of the batch */
};

static uint64_t read_clock(const struct loop *l)
{
    return l->clock ? l->clock() : clock_us() / 1000;
}

int loop_new(struct loop **ret, struct err *err)
{
    struct loop *l = calloc(1, sizeof *l);
    if (!l)
        return err_memory(err);
    /* Room for the timers of most processes from the start: setting a timer later cannot fail. */
    l->heap = calloc(TIMERS_FIRST, sizeof(*l->heap));
    l->timer_room = TIMERS_FIRST;
    l->epoll_fd = l->heap ? epoll_create1(EPOLL_CLOEXEC) : -1;
    if (l->epoll_fd < 0) {
        int result = l->heap ? err_sys(err, "epoll_create1") : err_memory(err);
        free(l->heap);
        free(l);
        return result;
    }
    l->end = &l->first;
    l->now_ms = read_clock(l);
    *ret = l;
    return 0;
}

void loop_free(struct loop *l)
{
    if (!l)
        return;
    close(l->epoll_fd);
    free(l->heap);
    free(l);
}

/* ---- descriptors ---- */

static int arm(struct loop *l, struct loop_io *io, uint32_t events)
{
    /* epoll reports errors and hang-ups even if no event is asked for: to get nothing, a descriptor
     * must be removed. */
    int op = !io->added ? EPOLL_CTL_ADD : events ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;
    if (op == EPOLL_CTL_ADD && !events)
        return 0;
    struct epoll_event ev = {.events = events, .data.ptr = io};
    if (epoll_ctl(l->epoll_fd, op, io->fd, &ev) < 0)
        return -errno;
    io->added = events != 0;
    io->armed = events;
    return 0;
}

/* Of these epoll says EPERM: there is nothing to wait for. */
static bool holds_data(int fd)
{
    struct stat sb;
    return fstat(fd, &sb) == 0 && (S_ISREG(sb.st_mode) || S_ISDIR(sb.st_mode) ||
                                   S_ISCHR(sb.st_mode) || S_ISBLK(sb.st_mode));
}

static void serve(struct loop *l, struct loop_io *io, uint32_t got);

/* It asks for its next turn first: the callback may free it. */
static void serve_file(struct loop_task *t)
{
    struct loop_io *io = container_of(t, struct loop_io, turn);
    struct loop *l = io->file_of;
    loop_defer(l, t);
    serve(l, io, io->events & (EPOLLIN | EPOLLOUT));
}

static void take_turns(struct loop *l, struct loop_io *io)
{
    io->turn.fn = serve_file;
    if (io->events & (EPOLLIN | EPOLLOUT))
        loop_defer(l, &io->turn);
    else
        loop_undefer(l, &io->turn);
}

/* Asking for fewer events is only noted; the kernel is told when it reports one that is not wanted.
 * So a request and its answer cost no epoll_ctl. */
int loop_watch(struct loop *l, struct loop_io *io, uint32_t events)
{
    io->events = events;
    if (io->added && (io->armed & events) == events)
        return 0;
    int result = io->file_of ? 0 : arm(l, io, events);
    if (result == -EPERM && holds_data(io->fd)) {
        io->file_of = l;
        result = 0;
    }
    if (io->file_of)
        take_turns(l, io);
    return result;
}

void loop_forget(struct loop *l, struct loop_io *io)
{
    if (io->added)
        arm(l, io, 0);
    if (io->file_of)
        loop_undefer(l, &io->turn);
    io->file_of = NULL;
    io->events = 0;
    for (int i = 0; i < l->ready; i++)
        if (l->batch[i].data.ptr == io)
            l->batch[i].data.ptr = NULL;
}

void loop_close(struct loop *l, struct loop_io *io)
{
    if (io->fd < 0)
        return;
    loop_forget(l, io);
    close(io->fd);
    io->fd = -1;
}

static void serve(struct loop *l, struct loop_io *io, uint32_t got)
{
    uint32_t wanted = io->events;
    uint32_t always = EPOLLERR | EPOLLHUP;
    if ((got & ~wanted & ~always) || !wanted)
        arm(l, io, wanted);
    got &= wanted | always;
    struct loop_share *share = io->share;
    /* An event that is not served now is reported again by the next epoll_wait. */
    if (!wanted || !got || loop_share_spent(l, share))
        return;
    uint64_t began = share ? clock_us() : 0;
    io->fn(io, got);
    if (share)
        loop_share_use(l, share, clock_us() - began);
}

bool loop_share_spent(const struct loop *l, const struct loop_share *s)
{
    return s && s->round == l->round && s->used_us >= SHARE_US;
}

void loop_share_use(const struct loop *l, struct loop_share *s, uint64_t usec)
{
    if (!s)
        return;
    if (s->round != l->round)
        *s = (struct loop_share){.round = l->round};
    s->used_us += usec;
}

/* ---- timers: a binary heap, the next one first ---- */

static void place(struct loop *l, size_t i, struct loop_timer *t)
{
    l->heap[i] = t;
    t->at = i;
}

static void sift_up(struct loop *l, size_t i, struct loop_timer *t)
{
    for (; i > 0 && l->heap[(i - 1) / 2]->due_ms > t->due_ms; i = (i - 1) / 2)
        place(l, i, l->heap[(i - 1) / 2]);
    place(l, i, t);
}

static void sift_down(struct loop *l, size_t i, struct loop_timer *t)
{
    for (size_t child; (child = 2 * i + 1) < l->timers; i = child) {
        if (child + 1 < l->timers && l->heap[child + 1]->due_ms < l->heap[child]->due_ms)
            child++;
        if (l->heap[child]->due_ms >= t->due_ms)
            break;
        place(l, i, l->heap[child]);
    }
    place(l, i, t);
}

static void settle(struct loop *l, size_t i, struct loop_timer *t)
{
    if (i > 0 && l->heap[(i - 1) / 2]->due_ms > t->due_ms)
        sift_up(l, i, t);
    else
        sift_down(l, i, t);
}

static bool heap_room(struct loop *l)
{
    if (l->timers < l->timer_room)
        return true;
    size_t room = l->timer_room * 2;
    struct loop_timer **heap = reallocarray(l->heap, room, sizeof(*heap));
    if (!heap)
        return false;
    l->heap = heap;
    l->timer_room = room;
    return true;
}

void loop_timer_set(struct loop *l, struct loop_timer *t, uint64_t after_ms)
{
    bool known = t->due_ms != 0;
    uint64_t due = l->now_ms + after_ms;
    if (!known && !heap_room(l))
        abort(); /* without its deadline a connection could stay for ever */
    t->due_ms = due ? due : 1;
    if (known)
        settle(l, t->at, t);
    else
        sift_up(l, l->timers++, t);
}

void loop_timer_cancel(struct loop *l, struct loop_timer *t)
{
    if (t->due_ms == 0)
        return;
    t->due_ms = 0;
    struct loop_timer *last = l->heap[--l->timers];
    if (last != t)
        settle(l, t->at, last);
}

static void run_timer(struct loop *l, struct loop_timer *t)
{
    struct loop_share *share = t->share;
    if (loop_share_spent(l, share)) {
        loop_timer_set(l, t, 1);
        return;
    }
    uint64_t began = share ? clock_us() : 0;
    t->fn(t);
    if (share)
        loop_share_use(l, share, clock_us() - began);
}

static void run_timers(struct loop *l)
{
    while (l->timers > 0 && l->heap[0]->due_ms <= l->now_ms) {
        struct loop_timer *t = l->heap[0];
        loop_timer_cancel(l, t);
        run_timer(l, t);
    }
}

/* ---- tasks ---- */

void loop_defer(struct loop *l, struct loop_task *t)
{
    if (t->queued)
        return;
    t->queued = true;
    t->next = NULL;
    *l->end = t;
    l->end = &t->next;
}

void loop_undefer(struct loop *l, struct loop_task *t)
{
    if (!t->queued)
        return;
    struct loop_task **at = &l->first;
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    if (l->end == &t->next)
        l->end = at;
    t->queued = false;
}

/* Runs only the tasks that were there at the start, so that a task that defers itself again does
 * not starve the others. */
static void run_tasks(struct loop *l)
{
    struct loop_task stop = {0};
    if (!l->first)
        return;
    loop_defer(l, &stop);
    for (;;) {
        struct loop_task *t = l->first;
        loop_undefer(l, t);
        if (t == &stop)
            return;
        t->fn(t);
    }
}

/* ---- the round ---- */

uint64_t loop_now_ms(const struct loop *l)
{
    return l->now_ms;
}

static int wait_ms(const struct loop *l)
{
    if (l->first || l->clock)
        return 0;
    if (l->timers == 0)
        return -1;
    uint64_t now = read_clock(l), due = l->heap[0]->due_ms;
    uint64_t left = due > now ? due - now : 0;
    return left > 60000 ? 60000 : (int)left;
}

/* The kernel reports events in the same order every time. Start with another one in each round, so
 * that all who share one budget get their turn. */
static void serve_all(struct loop *l)
{
    for (int i = 0; i < l->ready; i++) {
        struct epoll_event *ev = &l->batch[(l->round + (unsigned)i) % (unsigned)l->ready];
        if (ev->data.ptr)
            serve(l, ev->data.ptr, ev->events);
    }
}

int loop_run(struct loop *l)
{
    /* Whoever stopped it before it ran meant it. */
    while (!l->stopped) {
        int n = epoll_wait(l->epoll_fd, l->batch, BATCH, wait_ms(l));
        if (n < 0 && errno != EINTR)
            return -errno;
        uint64_t began = l->on_round ? clock_us() : 0;
        l->now_ms = read_clock(l);
        l->round++;
        l->ready = n < 0 ? 0 : n;
        serve_all(l);
        l->ready = 0;
        run_timers(l);
        run_tasks(l);
        if (l->on_round)
            l->on_round(l->round_ctx, clock_us() - began);
    }
    l->stopped = false;
    return 0;
}

void loop_on_round(struct loop *l, void (*fn)(void *ctx, uint64_t usec), void *ctx)
{
    l->on_round = fn;
    l->round_ctx = ctx;
}

void loop_stop(struct loop *l)
{
    l->stopped = true;
}

void loop_set_clock(struct loop *l, uint64_t (*now_ms)(void))
{
    l->clock = now_ms;
    l->now_ms = now_ms();
}
