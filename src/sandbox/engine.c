/* Tiers whose row names an engine: it is started in the place of the code, in the same walls, and
 * is told by its arguments what the code is and what it was given.
 *
 * The variables of the code stand in the engine's environment under names that no loader and no
 * library reads (credentials.h), never among its arguments, which every user of the host can see.
 */
#include "sandbox/internal.h"

#include "base/cleanup.h"
#include "base/quote.h"
#include "os/beside.h"
#include "os/reach.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int refuse(const struct sandbox *s, const char *what, struct err *err)
{
    err_set(err, ERR_USAGE, "tier %s runs modules: %s", tier_name(s->kernel.tier), what);
    err_at(err, BOUNDARY_KERNEL);
    return err_hint(err,
                    "brig run --tier wasm -- FILE.wasm; use tier container for other programs");
}

static int not_there(const char *name, int why, struct err *err)
{
    struct quoted q;
    errno = why;
    err_sys(err, "cannot open the module %s", quote(&q, name));
    err->code = ERR_NOT_FOUND;
    return err_hint(err, "tier wasm runs a file of the host: brig run --tier wasm -- FILE.wasm");
}

/* As it was named, seen from the current folder; no link is looked at. */
static int spell(const char *name, char out[static PATH_MAX], struct err *err)
{
    char here[PATH_MAX] = "";
    /* A current folder outside our root is reported as "(unreachable)…". */
    if (name[0] != '/' && (!getcwd(here, sizeof here) || here[0] != '/'))
        return err_sys(err, "find the current folder");
    if (snprintf(out, PATH_MAX, "%s/%s", here, name) >= PATH_MAX)
        return err_set(err, ERR_LIMIT, "the path of the module is too long");
    return 0;
}

int engine_take_module(struct sandbox *s, const char *name, struct err *err)
{
    char full[PATH_MAX];
    struct reached at;
    struct stat sb;
    if (!name[0])
        return not_there(name, ENOENT, err);
    if (spell(name, full, err) < 0)
        return err_number(err);
    int r = reach_open(full, &at);
    if (r == -ELOOP && at.link[0]) {
        reach_refused(&at, "cannot run the module", name, err);
        return err_at(err, BOUNDARY_FILESYSTEM);
    }
    if (r < 0)
        return not_there(name, -r, err);
    bool file = fstat(at.fd, &sb) == 0 && S_ISREG(sb.st_mode);
    reach_close(&at);
    if (!file)
        return refuse(s, "the first argument is a file", err);
    memcpy(s->engine.module, at.path, sizeof s->engine.module);
    return 0;
}

static int find_module(struct sandbox *s, struct err *err)
{
    const struct run_request *r = s->request;
    const char *first = r->argv && r->argv[0] ? r->argv[0] : "";
    return engine_take_module(s, r->module ? r->module : first, err);
}

int engine_refuse(enum tier tier, const char *what, struct err *err)
{
    err_set(err, ERR_UNSUPPORTED, "%s is not there on the %s tier in this version", what,
            tier_name(tier));
    err_at(err, BOUNDARY_KERNEL);
    return err_hint(err, "--tier container has it, behind a weaker kernel wall");
}

int engine_check_request(const struct sandbox *s, struct err *err)
{
    enum tier tier = s->kernel.tier;
    if (s->request->tty && !tier_row(tier)->terminal)
        return engine_refuse(tier, "a terminal (-t)", err);
    if (s->learner)
        return engine_refuse(tier, "learn mode", err);
    if (s->request->policy->report)
        return engine_refuse(tier, "the report of refused files (--report-files)", err);
    if ((s->session && !tier_row(tier)->served) || s->stem || s->source)
        return engine_refuse(tier, "a sandbox of brig serve", err);
    return 0;
}

int engine_open(struct sandbox *s, struct err *err)
{
    const struct tier_row *row = tier_row(s->kernel.tier);
    struct tier_answer answer = {0};
    if (!row->engine)
        return 0;
    if (row->module && s->learner)
        return refuse(s, "learn mode watches programs of the system", err);
    if (row->user_kernel && sentry_check(s, err) < 0)
        return err_number(err);
    if (row->probe && !row->probe(&answer)) {
        err_set(err, ERR_UNSUPPORTED, "the %s tier is not available here: %s",
                tier_name(s->kernel.tier), answer.why);
        err_at(err, BOUNDARY_KERNEL);
        return err_hint(err, "%s", answer.how);
    }
    if (s->request->engine)
        snprintf(s->engine.program, sizeof s->engine.program, "%s", s->request->engine);
    else if (program_beside(row->engine, s->engine.program, sizeof s->engine.program, err) < 0)
        return err_at(err, BOUNDARY_KERNEL);
    if (!row->module)
        return sentry_open(s, err);
    if (cells_only(s))
        return cells_open(s, err);
    return s->request->engine ? 0 : find_module(s, err);
}

const char *engine_program(const struct sandbox *s)
{
    return s->engine.program[0] ? s->engine.program : s->request->tool;
}

const char *engine_runs(const struct sandbox *s)
{
    if (s->machine.on)
        return s->request->tool;
    if (!tier_row(s->kernel.tier)->user_kernel)
        return NULL;
    return s->session ? s->engine.leader : s->request->tool;
}

void engine_give(struct plan *plan, const char *name, const char *folder, bool writable)
{
    cleanup_buf struct buf spec;
    buf_init(&spec, PLAN_MAX_BYTES);
    buf_fmt(&spec, "%s=%s", name, folder);
    plan_arg(plan, writable ? "--rw" : "--ro");
    plan_arg(plan, buf_text(&spec));
}

/* Every folder that the policy shows, at its own place; and the working folder, which is how
 * programs that know no absolute paths find theirs. */
void engine_give_folders(const struct sandbox *s, struct plan *plan)
{
    const struct filesystem *fs = &s->filesystem;
    /* On the process tier it is a folder of the host's; to the module it has the same name. */
    const char *work = fs->namespaced ? WORKSPACE : fs->private_dir;
    bool workspace = fs->policy->workspace, here = workspace && strcmp(fs->cwd, work) == 0;
    for (unsigned i = 0; i < fs->grant_count; i++) {
        const struct pinned_grant *g = &fs->grants[i];
        const char *place = grant_place(fs, g);
        if (!g->is_dir)
            continue;
        engine_give(plan, place, place, g->writable);
        if (strcmp(fs->cwd, place) == 0) {
            engine_give(plan, ".", place, g->writable);
            here = false;
        }
        if (strcmp(place, WORKSPACE) == 0)
            workspace = false;
    }
    if (workspace)
        engine_give(plan, WORKSPACE, work, true);
    if (here)
        engine_give(plan, ".", work, true);
}

void engine_plan(struct sandbox *s)
{
    if (!s->engine.program[0] || s->session) /* there the warden has it started */
        return;
    plan_arg(&s->plan, s->filesystem.namespaced ? TOOL_PATH : s->engine.program);
    if (s->request->engine)
        return;
    if (tier_row(s->kernel.tier)->user_kernel) {
        sentry_plan(s);
        return;
    }
    if (!s->request->policy->exec)
        plan_arg(&s->plan, "--no-exec");
    engine_give_folders(s, &s->plan);
    plan_arg(&s->plan, "--");
    plan_arg(&s->plan, s->filesystem.namespaced ? MODULE_PATH : s->engine.module);
}
