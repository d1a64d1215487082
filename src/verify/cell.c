/* Runs all sandboxes of one level on one tier, collects what their attacks report and what is seen
 * outside, and has each row judged. */
#include "verify/cell.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "os/weaken.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A sandbox that takes longer than this hangs. */
#define CELL_US 200000000u
#define RETRIES 2
/* What brig-wasm exits with if a module cannot be run. */
#define NOT_EXECUTABLE 126

struct cell_state {
    const struct cell_work *work;
    const struct controls *controls;
    const struct circumstances *c;
    const struct cell_progress *progress;
    struct scene *scenes[SCENE_COUNT]; /* NULL: not needed */
};

static struct scene *scene_of(const struct cell_state *s, const struct row *r)
{
    return s->scenes[row_scene(r, s->c->guest)];
}

static bool has_grants(enum scene_id id)
{
    return id == SCENE_GRANTS || id == SCENE_MODULE;
}

/* Root can grant a folder to be written only where the folder's file system has idmapped mounts
 * (tmpfs has none before Linux 6.3). Where it has not, brig makes no such sandbox for anybody, and
 * there is nothing to attack. */
static bool grants_refused(const struct cell_state *s, enum scene_id id)
{
    const struct scene *scene = has_grants(id) ? s->scenes[id] : NULL;
    return scene && s->c->root && scene->ended && scene->end.result < 0 &&
           scene->end.err.code == ERR_UNSUPPORTED && scene->end.err.boundary == BOUNDARY_FILESYSTEM;
}

static const char *excuse_of(const struct cell_state *s, size_t i)
{
    const char *excuse =
        s->work->left_out[i] ? "it was not asked for" : row_excused(&rows[i], s->c);
    if (excuse)
        return excuse;
    if (grants_refused(s, rows[i].scene))
        return s->scenes[rows[i].scene]->end.err.message;
    if (rows[i].scene == SCENE_NETWORK && guard_left_out(GUARD_NS_NET))
        return "a sandbox without a network namespace cannot be given a network";
    return NULL;
}

static bool is_timed(enum scene_id id)
{
    return id == SCENE_DEADLINE || id == SCENE_CPU;
}

/* How long a guest takes to come up must be known before its time is limited. */
static bool scene_wanted(const struct cell_state *s, enum scene_id id)
{
    for (size_t i = 0; i < row_count; i++) {
        enum scene_id its = row_scene(&rows[i], s->c->guest);
        if ((its == id || (s->c->guest && id == SCENE_PLAIN && is_timed(its))) && !excuse_of(s, i))
            return true;
    }
    return false;
}

/* Where nothing counts a sandbox's tasks apart from the user's others, the limit of tasks is tried
 * when the other sandboxes are gone. Guests come one after the other: each takes memory and, while
 * it boots, a processor. */
static int batch_of(const struct cell_state *s, enum scene_id id)
{
    return s->c->guest ? (int)id : id == SCENE_PIDS;
}

static int start_scenes(struct cell_state *s, int batch, unsigned *sandboxes, struct err *err)
{
    for (int id = 0; id < SCENE_COUNT; id++) {
        if (batch_of(s, (enum scene_id)id) != batch || !scene_wanted(s, (enum scene_id)id))
            continue;
        s->scenes[id] = malloc(sizeof *s->scenes[id]);
        if (!s->scenes[id])
            return err_memory(err);
        if (scene_start(s->scenes[id], (enum scene_id)id, s->work, err) < 0)
            return err_number(err);
        (*sandboxes)++;
    }
    return 0;
}

static unsigned fill(struct cell_state *s, struct pollfd fds[2 * SCENE_COUNT + 1])
{
    unsigned open = 0;
    fds[2 * SCENE_COUNT] = (struct pollfd){.fd = s->progress->signal_fd, .events = POLLIN};
    for (int id = 0; id < SCENE_COUNT; id++) {
        struct scene *scene = s->scenes[id];
        fds[2 * id] = (struct pollfd){.fd = scene ? scene->out_fd : -1, .events = POLLIN};
        fds[2 * id + 1] = (struct pollfd){.fd = scene ? scene->end_fd : -1, .events = POLLIN};
        open += (fds[2 * id].fd >= 0) + (fds[2 * id + 1].fd >= 0);
    }
    return open;
}

static void on_events(struct cell_state *s, const struct pollfd fds[2 * SCENE_COUNT])
{
    for (int id = 0; id < SCENE_COUNT; id++) {
        struct scene *scene = s->scenes[id];
        if (scene && scene->out_fd >= 0 && fds[2 * id].revents)
            scene_read(scene, s->work);
        if (!scene || scene->end_fd < 0 || !fds[2 * id + 1].revents)
            continue;
        scene_take_end(scene);
        if (s->progress->tell)
            s->progress->tell(s->progress->ctx);
    }
}

static int watch(struct cell_state *s, struct err *err)
{
    struct pollfd fds[2 * SCENE_COUNT + 1];
    uint64_t most = CELL_US + s->work->boot_ms * 1000, deadline = clock_us() + most;
    while (fill(s, fds) > 0) {
        uint64_t now = clock_us();
        if (now >= deadline)
            return err_set(err, ERR_SYSTEM, "a sandbox did not end within %u s",
                           (unsigned)(most / 1000000u));
        int n = poll(fds, ARRAY_LEN(fds), (int)((deadline - now) / 1000) + 1);
        if (n < 0 && errno != EINTR)
            return err_sys(err, "poll");
        if (n > 0 && fds[2 * SCENE_COUNT].revents)
            return err_set(err, ERR_INTERRUPTED, "interrupted");
        if (n > 0)
            on_events(s, fds);
    }
    return 0;
}

/* On a busy host a start may fail for want of time or tasks. Returns how many were tried again. */
static int start_again(struct cell_state *s, int batch, struct err *err)
{
    int count = 0;
    for (int id = 0; id < SCENE_COUNT; id++) {
        struct scene *scene = s->scenes[id];
        if (!scene || batch_of(s, (enum scene_id)id) != batch || !scene->ended ||
            scene->end.result >= 0 || scene->end.err.code != ERR_SYSTEM)
            continue;
        scene_close(scene);
        if (scene_start(scene, (enum scene_id)id, s->work, err) < 0)
            return err_number(err);
        count++;
    }
    return count;
}

/* The guest said nothing: it did not come up, or the limit that is attacked came first. */
static bool is_dumb(const struct cell_state *s, const struct scene *scene)
{
    return s->c->guest && !scene->up_us && scene->id != SCENE_ENGINE;
}

/* A sandbox that did not start proves nothing. */
static int check_started(const struct cell_state *s, struct err *err)
{
    for (int id = 0; id < SCENE_COUNT; id++) {
        const struct scene *scene = s->scenes[id];
        bool dumb = scene && is_dumb(s, scene) && !is_timed((enum scene_id)id);
        if (!scene || scene->killed || (scene->ended && scene->end.result >= 0 && !dumb))
            continue;
        if (grants_refused(s, (enum scene_id)id))
            continue;
        *err = scene->end.err;
        if (!scene->ended)
            err_set(err, ERR_SYSTEM, "the supervisor died");
        else if (!err->code && dumb)
            err_set(err, ERR_SYSTEM, "its guest did not come up");
        else if (!err->code)
            err_set(err, ERR_SYSTEM, "it gave no reason");
        return err_wrap(err, "the sandbox \"%s\" at level %s on the %s tier could not be run",
                        scene_name((enum scene_id)id), level_name(s->work->level),
                        tier_name(s->work->tier));
    }
    return 0;
}

static void take_control(const struct cell_state *s, size_t i, const struct scene *scene,
                         struct evidence_of_row *e)
{
    e->control_ran = s->controls->ran[i];
    e->control = s->controls->outcomes[i];
    if ((rows[i].flags & ROW_MODULE) && !rows[i].look) {
        /* A module that is refused says nothing: one that imports WASI alone is its control. */
        const struct scene *first =
            rows[i].flags & ROW_REFUSED ? s->scenes[SCENE_MODULE_EDGE] : scene;
        e->control_ran = first != NULL;
        e->control = first ? first->controls[i] : (struct outcome){0};
    }
    if (!(rows[i].flags & ROW_PROXY))
        return;
    e->control_ran = true;
    e->control = scene->allowed;
    /* A secret that never arrives cannot leak either. */
    const struct lab_notes *notes = s->work->canaries->lab.notes;
    if (rows[i].boundary == BOUNDARY_CREDENTIALS && notes->with_secret[LAB_BOUND] == 0)
        e->control.worked = false;
}

static void see(struct evidence_of_row *e, bool seen, const char *what)
{
    if (!seen)
        return;
    e->seen = true;
    if (!e->what[0])
        snprintf(e->what, sizeof e->what, "%s", what);
}

/* Rows with an oracle that is no function of the canaries. */
static void see_special(const struct cell_state *s, const struct row *r, const struct scene *scene,
                        struct evidence_of_row *e)
{
    bool known = !e->sentry || (scene->tasks.count && (r->scene != SCENE_SENTRY || scene->killed));
    char text[120];
    if (r->scene == SCENE_OUTPUT && scene->bytes > (uint64_t)scene->place.limit + 4096) {
        snprintf(text, sizeof text, "%llu bytes came out", (unsigned long long)scene->bytes);
        see(e, true, text);
    }
    /* Where the kernel counts what else the user runs, and less of that runs by now, more tasks can
     * be started than the limit allows: brig sees them, and ends the sandbox. */
    e->limited = r->scene == SCENE_PIDS && scene->end.by_pids;
    /* An engine that gets no more tasks dies with its code. */
    if (r->scene == SCENE_PIDS && s->c->sentry && !e->inside.reported)
        e->limited = scene->home[0] && !scene->end.by_other; /* it had begun */
    e->refused = (r->flags & ROW_REFUSED) && scene->end.status == NOT_EXECUTABLE;
    if (!(r->flags & ROW_MARKED))
        return;
    if (r->attack) {
        see(e, !known, "its tasks were not found while they lived, so nobody knows of their end");
        see(e, scene_tasks_left(scene), "tasks of the sandbox are still there");
        e->inside.reported = true;
    } else {
        e->control_ran = e->control.reported = true;
        if (!scene->had_files)
            e->excuse = "it keeps no files on the host";
        e->control.worked = scene->had_files;
        e->control.code = scene->had_files ? 0 : ATTACK_NOTHING;
        see(e, scene->had_files && scene_files_left(scene),
            "its folder or its control group is still there");
    }
}

/* In a guest that serves several scenes a row has to answer; the last one may be cut off, if it was
 * heard before that. */
static bool has_to_answer(const struct cell_state *s, const struct row *r,
                          const struct scene *scene)
{
    bool flooded = r->scene == SCENE_OUTPUT && scene->bytes > (uint64_t)scene->place.limit / 2;
    return row_scene(r, s->c->guest) != r->scene && !flooded;
}

static void judge(const struct cell_state *s, size_t i, struct ruling *ret)
{
    const struct row *r = &rows[i];
    const struct canaries *c = s->work->canaries;
    const struct scene *scene = scene_of(s, r);
    struct evidence_of_row e = {
        .excuse = excuse_of(s, i), .sentry = s->c->sentry || s->c->guest, .guest = s->c->guest};
    if (!e.excuse && is_dumb(s, scene))
        e.excuse = "its guest was not up when the limit ended it";
    if (!e.excuse) {
        take_control(s, i, scene, &e);
        e.inside = scene->outcomes[i];
        e.token = strstr(e.inside.detail, c->token) || strstr(e.inside.detail, c->secret);
        e.looked = scene->looked;
        see(&e, r->look && scene->seen[i], scene->what[i]);
        e.shared = has_to_answer(s, r, scene);
        see_special(s, r, scene, &e);
        see(&e, r->check && r->check(c), "the canary outside noticed it");
    }
    judge_row(r, &e, ret);
}

static uint64_t slowest_start(const struct cell_state *s)
{
    uint64_t most = 0;
    for (int id = 0; id < SCENE_COUNT; id++) {
        const struct scene *scene = s->scenes[id];
        uint64_t took = scene && scene->up_us ? (scene->up_us - scene->begun_us) / 1000 : 0;
        most = took > most ? took : most;
    }
    return most;
}

int cell_run(struct verify_cell *cell, const struct cell_work *work,
             const struct controls *controls, const struct circumstances *c,
             const struct cell_progress *progress, unsigned *sandboxes, struct err *err)
{
    struct cell_work own = *work;
    struct cell_state s = {.work = &own, .controls = controls, .c = c, .progress = progress};
    int r = 0;
    for (int batch = 0; batch < SCENE_COUNT && r >= 0; batch++) {
        r = start_scenes(&s, batch, sandboxes, err);
        if (r >= 0)
            r = watch(&s, err);
        for (int i = 0; i < RETRIES && r >= 0 && (r = start_again(&s, batch, err)) > 0; i++)
            r = watch(&s, err);
        own.up_ms = slowest_start(&s);
    }
    if (r >= 0)
        r = check_started(&s, err);
    for (size_t i = 0; r >= 0 && i < row_count; i++) {
        judge(&s, i, &cell->rulings[i]);
        cell->guards[i] = row_guards(&rows[i], c);
    }
    for (int id = 0; id < SCENE_COUNT; id++) {
        if (s.scenes[id])
            scene_close(s.scenes[id]);
        free(s.scenes[id]);
    }
    return r;
}
