/* The pumps of a sandbox: one for each process with a terminal, and, where its folders may stop
 * answering, for each that the front has pipes of (os/pump.h). W-2 holds all the same: the front is
 * connected to the pump. */
#include "base/clock.h"
#include "base/container.h"
#include "warden/session.h"

#include <errno.h>
#include <stdlib.h>

/* Twice as many as the front has processes, and works on files, of one sandbox: somebody inside may
 * keep those waiting whose process has ended. */
#define CARRIERS_MAX 640u

struct carrier {
    struct carrier *next;
    struct warden *w;
    struct pump pump;
    struct loop_io ended;
    uint64_t cpu_usec; /* that is on the code's account */
};

/* LC-11 */
static void look_at(struct carrier *c)
{
    uint64_t now = helped_time(c->pump.pid);
    if (now == UINT64_MAX || now <= c->cpu_usec)
        return;
    c->w->s->lifecycle.helped_usec += now - c->cpu_usec;
    c->cpu_usec = now;
}

void carriers_look(struct warden *w)
{
    for (struct carrier *c = w->carriers; c; c = c->next)
        look_at(c);
}

static void carrier_free(struct carrier *c)
{
    struct carrier **at = &c->w->carriers;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    c->w->carrier_count--;
    free(c);
}

/* It has nothing left to carry, or somebody killed it; to both ends that is the end of a pipe. */
static void on_ended(struct loop_io *io, uint32_t events)
{
    struct carrier *c = container_of(io, struct carrier, ended);
    (void)events;
    loop_forget(c->w->loop, io);
    look_at(c); /* it has ended, and its time can still be read */
    pump_failed(&c->pump);
    carrier_free(c);
}

static bool is_used(const struct pump_line lines[PUMP_LINES])
{
    for (unsigned i = 0; i < PUMP_LINES; i++)
        if (lines[i].from >= 0)
            return true;
    return false;
}

int carrier_start(struct warden *w, struct pump_line lines[PUMP_LINES], struct err *err)
{
    if (!is_used(lines))
        return 0;
    bool room = w->carrier_count < CARRIERS_MAX;
    struct carrier *c = room ? calloc(1, sizeof *c) : NULL;
    if (!c) {
        pump_close(lines);
        return room ? err_memory(err) : err_set(err, ERR_LIMIT, "too many pumps at one time");
    }
    pump_init(&c->pump);
    c->w = w;
    errno = -pump_start(&c->pump, lines);
    if (errno) {
        err_sys(err, "start the pump");
        free(c);
        return err_number(err);
    }
    c->next = w->carriers;
    w->carriers = c;
    w->carrier_count++;
    warden_watch(w, &c->ended, c->pump.pidfd, on_ended);
    return 0;
}

int carrier_lay(struct ask *a, struct pump_line lines[PUMP_LINES], int *theirs, bool we_write,
                struct err *err)
{
    struct pump_line *line = a->w->s->pumped ? &lines[a->fd_count] : NULL;
    errno = -pump_lay(line, !we_write, theirs, &a->fds[a->fd_count]);
    if (errno)
        return err_sys(err, "pipe");
    a->fd_count++;
    return 0;
}

void carriers_end(struct warden *w)
{
    uint64_t deadline = clock_us() + PUMP_END_US;
    for (struct carrier *c = w->carriers; c; c = c->next)
        pump_kill(&c->pump);
    while (w->carriers) {
        loop_forget(w->loop, &w->carriers->ended);
        pump_let_go(&w->carriers->pump, deadline);
        carrier_free(w->carriers);
    }
}
