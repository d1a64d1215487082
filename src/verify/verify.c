/* `brig verify` as a whole: which levels and tiers are tried on this host, with which canaries and
 * controls. */
#include "verify/verify.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "os/signals.h"
#include "sandbox/sandbox.h"
#include "verify/cell.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* A level may ask for what a tier does not have. */
static void check_policy(const struct verify_options *o, struct verify_cell *cell)
{
    struct policy p;
    struct err err = ERR_INIT;
    if (o->build(o->ctx, cell->level, cell->tier, &p, &err) < 0)
        return; /* the first sandbox that is made tells it */
    if (run_check_policy(&p, cell->tier, &err) < 0) {
        cell->tried = false;
        snprintf(cell->why, sizeof cell->why, "%.250s", err.message);
        snprintf(cell->how, sizeof cell->how, "%.250s", err.hint);
    }
    policy_done(&p);
}

static void add_cell(const struct verify_options *o, struct verify_result *r,
                     const struct host_report *host, enum level level, enum tier tier)
{
    struct verify_cell *cell = &r->cells[r->cell_count];
    if (r->cell_count == CELLS_MAX)
        return;
    *cell = (struct verify_cell){.level = level, .tier = tier, .tried = true};
    const struct host_tier *here = host_tier_of(host, tier);
    if (!here->available) {
        cell->tried = false;
        snprintf(cell->why, sizeof cell->why, "%s", here->why);
        snprintf(cell->how, sizeof cell->how, "%s", here->how);
    } else {
        check_policy(o, cell);
    }
    r->cell_count++;
}

/* Each level on the tier that it asks for; and level high on the other one, which an operator may
 * choose. */
static void choose_cells(const struct verify_options *o, const struct host_report *host,
                         struct verify_result *r)
{
    for (int level = 0; level < LEVEL_COUNT; level++) {
        if (o->one_level && o->level != (enum level)level)
            continue;
        add_cell(o, r, host, (enum level)level,
                 o->tier == TIER_AUTO ? host->levels[level].tier : o->tier);
    }
    if (!o->one_level && o->tier == TIER_AUTO)
        add_cell(o, r, host, LEVEL_HIGH, TIER_PROCESS);
}

static bool host_has(const struct host_report *host, const char *name)
{
    for (unsigned i = 0; i < host->fact_count; i++)
        if (strcmp(host->facts[i].name, name) == 0)
            return host->facts[i].present;
    return false;
}

/* Root's sandboxes have a uid of their own, which is enough where a socket is not for everybody. */
static bool has_open_engine(const struct canaries *canaries)
{
    struct attempt a = {.place = &canaries->place, .outside = true};
    struct outcome o;
    return outcome_try(attack_engines_as_nobody, &a, false, &o) && o.worked;
}

static int look_around(const struct verify_options *o, const struct verify_cell *cell,
                       const struct host_report *host, const struct canaries *canaries,
                       struct circumstances *ret, struct err *err)
{
    struct policy p;
    int r = o->build(o->ctx, cell->level, cell->tier, &p, err);
    if (r < 0)
        return r;
    *ret = (struct circumstances){.tier = cell->tier,
                                  .sentry = run_behind_sentry(cell->tier),
                                  .guest = run_in_machine(cell->tier),
                                  .root = geteuid() == 0,
                                  .cgroup = p.cgroup != NEED_OFF && host_has(host, "cgroup limits"),
                                  .workspace = p.workspace,
                                  .exec = p.exec,
                                  .writable_root = p.writable_root,
                                  .ipv6 = canaries->tcp6 >= 0,
                                  .proxy = host_has(host, "brig-proxy"),
                                  .unix_sockets = p.unix_sockets == NEED_REQUIRE};
    ret->open_engine = ret->root && has_open_engine(canaries);
    ret->limited[SCENE_MEMORY] = p.memory != POLICY_UNLIMITED;
    ret->limited[SCENE_MODULE_MEMORY] = p.memory != POLICY_UNLIMITED;
    ret->limited[SCENE_MODULE_DEADLINE] = p.timeout_ms != POLICY_UNLIMITED;
    ret->limited[SCENE_PIDS] = p.pids != POLICY_UNLIMITED;
    ret->limited[SCENE_DEADLINE] = p.timeout_ms != POLICY_UNLIMITED;
    ret->limited[SCENE_DISK] = p.disk != POLICY_UNLIMITED;
    ret->limited[SCENE_INODES] = p.inodes != POLICY_UNLIMITED;
    ret->limited[SCENE_OUTPUT] = p.output != POLICY_UNLIMITED;
    policy_done(&p);
    return 0;
}

struct teller {
    const struct verify_options *options;
    unsigned done, all;
};

static void tell(void *ctx)
{
    struct teller *t = ctx;
    t->done++;
    if (t->options->progress)
        t->options->progress(t->options->ctx, t->done, t->all);
}

static unsigned cells_to_try(const struct verify_result *r)
{
    unsigned n = 0;
    for (unsigned i = 0; i < r->cell_count; i++)
        n += r->cells[i].tried;
    return n;
}

static int try_cells(const struct verify_options *o, const struct host_report *host,
                     struct canaries *canaries, int signal_fd, struct verify_result *ret,
                     struct err *err)
{
    struct controls *controls cleanup_free = malloc(sizeof *controls);
    static const bool none[ROWS_MAX];
    struct teller teller = {.options = o, .all = cells_to_try(ret) * SCENE_COUNT};
    struct cell_progress progress = {.tell = tell, .ctx = &teller, .signal_fd = signal_fd};
    if (!controls)
        return err_sys(err, "allocate");
    controls_run(controls, canaries);
    for (unsigned i = 0; i < ret->cell_count; i++) {
        struct verify_cell *cell = &ret->cells[i];
        struct circumstances c;
        struct cell_work work = {.build = o->build,
                                 .ctx = o->ctx,
                                 .canaries = canaries,
                                 .level = cell->level,
                                 .tier = cell->tier,
                                 .tier_asked = cell->tier,
                                 .left_out = o->left_out ? o->left_out : none};
        if (!cell->tried)
            continue;
        canaries_reset(canaries);
        int r = look_around(o, cell, host, canaries, &c, err);
        if (r < 0)
            return r;
        work.writable_root = c.writable_root;
        work.sentry = c.sentry;
        work.guest = c.guest;
        work.boot_ms = run_boot_ms(cell->tier);
        if ((r = cell_run(cell, &work, controls, &c, &progress, &ret->sandboxes, err)) < 0)
            return r;
    }
    return 0;
}

static const int watched[] = {SIGINT, SIGTERM, SIGHUP};

int verify_run(const struct verify_options *options, struct verify_result *ret, struct err *err)
{
    struct host_report host;
    struct canaries canaries;
    sigset_t old;
    uint64_t start = clock_us();
    memset(ret, 0, sizeof *ret);
    ret->left_out = options->left_out;
    sandbox_host_report(&host);
    choose_cells(options, &host, ret);
    cleanup_fd int signal_fd = signals_open(watched, ARRAY_LEN(watched), &old, err);
    canaries_init(&canaries);
    bool any = cells_to_try(ret) > 0;
    int r = signal_fd < 0 ? signal_fd : any ? canaries_open(&canaries, err) : 0;
    if (r >= 0 && any)
        r = try_cells(options, &host, &canaries, signal_fd, ret, err);
    struct err left = ERR_INIT;
    if (canaries_close(&canaries, &left) < 0 && r >= 0) {
        *err = left;
        r = err_number(err);
    }
    /* Take pending signals off the queue: they were obeyed already. */
    struct signalfd_siginfo heard;
    while (signal_fd >= 0 && read(signal_fd, &heard, sizeof heard) > 0)
        ;
    sigprocmask(SIG_SETMASK, &old, NULL);
    ret->duration_ms = (double)(clock_us() - start) / 1000.0;
    return r;
}
