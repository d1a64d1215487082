/* Sandboxes of `brig serve` on a tier that runs modules: an interpreter is the tier's engine, which
 * runs the language's module with the pipes of its channel. Nothing else can be started in one. */
#include "sandbox/internal.h"

#include "base/cleanup.h"
#include "sandbox/module.h"

#include <stdlib.h>
#include <string.h>

#define LANGUAGE "javascript" /* that there is a module for which runs cells */

bool cells_only(const struct sandbox *s)
{
    return s->session && tier_row(s->kernel.tier)->module;
}

int cells_open(struct sandbox *s, struct err *err)
{
    if (s->request->review)
        return engine_refuse(s->kernel.tier, "review mode", err);
    cleanup_free struct module *m = malloc(sizeof *m);
    if (!m)
        return err_memory(err);
    return module_find(LANGUAGE, m, err) < 0 ? err_number(err)
                                             : engine_take_module(s, m->path, err);
}

int cells_refuse(const struct sandbox *s, const char *what, struct err *err)
{
    err_set(err, ERR_UNSUPPORTED, "a sandbox of tier %s has no %s: it runs cells of " LANGUAGE,
            tier_name(s->kernel.tier), what);
    err_at(err, BOUNDARY_KERNEL);
    return err_hint(err, "take a template of the container tier, behind a weaker kernel wall");
}

int cells_check(const struct sandbox *s, const char *language, struct err *err)
{
    if (strcmp(language, LANGUAGE) == 0)
        return 0;
    cleanup_buf struct buf what;
    buf_init(&what, 80);
    buf_fmt(&what, "interpreter for %.40s", language);
    return cells_refuse(s, buf_text(&what), err);
}

void cells_plan(const struct sandbox *s, struct plan *plan)
{
    plan_arg(plan, TOOL_PATH);
    if (!s->request->policy->exec)
        plan_arg(plan, "--no-exec");
    plan_arg(plan, "--cells");
    engine_give_folders(s, plan);
    if (s->request->policy->workspace)
        engine_give(plan, HOME_DIR, HOME_DIR, true);
    plan_arg(plan, "--");
    plan_arg(plan, MODULE_PATH);
    plan_arg(plan, LANGUAGE);
}
