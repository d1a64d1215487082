/* The gvisor tier: brig-gvisor takes the place of the code, inside all walls of the container tier,
 * and the code runs behind the Sentry that it starts. What the Sentry is and may do:
 * engines/gvisor/. */
#include "sandbox/internal.h"

#include "os/beside.h"
#include "os/weaken.h"
#include "plan/join.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LEADER_PROGRAM "brig-lead"
/* The id of the first process behind the Sentry in a session; the second, where it is the code's.
 */
#define NOBODY_ID  65534u
#define ANOTHER_ID 65533u

#define SENTRY_CPUS   64u
#define SENTRY_LEAST  (96ull << 20) /* what runsc itself takes, and something for the code */
#define SENTRY_MEMORY (1ull << 40)

int sentry_check_policy(const struct policy *p, struct err *err)
{
    /* The host does not see what the Sentry maps for execution. */
    if (!p->exec)
        return engine_refuse(
            TIER_GVISOR, "a workspace without executable files (filesystem.exec: false, --noexec)",
            err);
    if (p->memory >= SENTRY_LEAST)
        return 0;
    err_set(err, ERR_UNSUPPORTED, "the gvisor tier needs at least 96 MiB of memory");
    err_at(err, BOUNDARY_KERNEL);
    return err_hint(err, "--memory 256M");
}

int sentry_check(const struct sandbox *s, struct err *err)
{
    if (engine_check_request(s, err) < 0)
        return err_number(err);
    if (s->request->review && s->session)
        return engine_refuse(s->kernel.tier, "a project, which is changed in review mode,", err);
    return sentry_check_policy(s->request->policy, err);
}

/* The file that was looked at is the one that is shown inside: nobody but root and the caller could
 * put another in its place. */
int sentry_open(struct sandbox *s, struct err *err)
{
    if (gvisor_find(&s->sentry, true, err) < 0)
        return err_number(err);
    memcpy(s->engine.module, s->sentry.path, sizeof s->engine.module);
    s->kernel.sentry = &s->sentry;
    if (s->session &&
        program_beside(LEADER_PROGRAM, s->engine.leader, sizeof s->engine.leader, err) < 0)
        return err_at(err, BOUNDARY_KERNEL);
    if (s->request->platform)
        s->sentry.platform = s->request->platform;
    else if (s->request->engine || !s->result) /* nothing of runsc is started */
        platform_known(&s->sentry);
    else
        return platform_choose(&s->sentry, err);
    return 0;
}

static uint64_t at_most(uint64_t value, uint64_t most)
{
    return value < most ? value : most;
}

static uint64_t cpus(const struct policy *p)
{
    return at_most(sandbox_cpus(p), SENTRY_CPUS);
}

/* What to call the code, where and how. */
struct start {
    const char *input, *cwd;
    uint64_t uid;
};

/* As engines/gvisor/main.c reads them. */
static void give_start(const struct sandbox *s, const struct start *start, struct plan *plan)
{
    const struct policy *p = s->request->policy;
    plan_arg(plan, s->filesystem.namespaced ? MODULE_PATH : s->engine.module);
    plan_arg(plan, s->sentry.platform);
    plan_arg(plan, s->sentry.confs ? "confs" : "plain");
    plan_arg(plan, start->input);
    plan_arg_number(plan, start->uid);
    plan_arg(plan, start->cwd);
    plan_arg_number(plan, at_most(p->memory, SENTRY_MEMORY));
    plan_arg_number(plan, cpus(p));
    plan_arg_number(plan, guard_left_out(GUARD_OPEN_FILES) ? MACHINE_FILES : p->open_files);
    plan_arg_number(plan, s->request->review && !guard_left_out(GUARD_DISK) ? p->disk : 0);
    plan_arg(plan, "--");
}

void sentry_plan(struct sandbox *s)
{
    const struct start code = {s->request->tty ? "terminal" : "pipes", s->filesystem.cwd,
                               s->kernel.inside_uid};
    give_start(s, &code, &s->plan);
}

static const char *engine_path(const struct sandbox *s)
{
    return s->filesystem.namespaced ? TOOL_PATH : s->engine.program;
}

static const char *leader_path(const struct sandbox *s)
{
    return s->filesystem.namespaced ? PROGRAM_PATH : s->engine.leader;
}

/* Under an id that no code has: none can end the first process, and with it all the others. */
void sentry_plan_boot(const struct sandbox *s, struct plan *plan)
{
    const struct start reaper = {"serve", "/",
                                 s->kernel.inside_uid == NOBODY_ID ? ANOTHER_ID : NOBODY_ID};
    plan_arg(plan, engine_path(s));
    give_start(s, &reaper, plan);
    plan_arg(plan, leader_path(s));
    plan_arg(plan, JOIN_REAP);
}

void sentry_plan_size(const struct sentry_program *program, struct plan *plan)
{
    char size[48] = "-";
    if (program->cols)
        snprintf(size, sizeof size, "%" PRIu64 "x%" PRIu64, program->cols, program->rows);
    plan_arg(plan, size);
}

/* As engines/gvisor/join.c reads them. */
void sentry_plan_join(const struct sandbox *s, const struct sentry_program *program,
                      struct plan *plan)
{
    plan_arg(plan, engine_path(s));
    plan_arg(plan, "join");
    plan_arg(plan, program->name);
    plan_arg(plan, leader_path(s));
    plan_arg_number(plan, s->kernel.inside_uid);
    plan_arg_number(plan, program->count);
    sentry_plan_size(program, plan);
    plan_arg(plan, program->folder);
    plan_arg(plan, "--");
}
