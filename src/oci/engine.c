/* What stands in the place of the program on a tier with an engine: which one, whether it is there,
 * what it cannot do for the code, and its arguments. How it is started: become_child.c; where:
 * booth_child.c.
 *
 * OC-18  What a configuration asks for and an engine cannot give is refused by its name, and an
 * engine has no right that the program would not have had. */
#include "oci/engine.h"

#include "base/cleanup.h"
#include "kernel/tier.h"
#include "oci/build.h"
#include "os/beside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what it cannot do ---- */

static int refuse(enum tier tier, const char *what, const char *hint, struct err *err)
{
    err_set(err, ERR_UNSUPPORTED, "config: " OCI_KEY_TIER ": the tier %s has no %s",
            tier_name(tier), what);
    err_at(err, BOUNDARY_KERNEL);
    return err_hint(err, "%s", hint);
}

int oci_engine_judge(enum tier tier, const struct oci_process *p, unsigned keep, struct err *err)
{
    const struct tier_row *row = tier_row(tier);
    if (!row->engine)
        return 0;
    if (p->terminal && !row->terminal)
        return refuse(tier, "terminals", "set process.terminal to false (leave -t out)", err);
    if (keep)
        return refuse(tier, "descriptors but the three standard streams",
                      "leave --preserve-fds out", err);
    return 0;
}

int oci_engine_judge_config(enum tier tier, const struct oci_config *c, struct err *err)
{
    const struct tier_row *row = tier_row(tier);
    /* Both engines take links apart themselves. */
    for (size_t i = 0; row->engine && i < c->mount_count; i++)
        if (c->mounts[i].nosymfollow)
            return refuse(tier, "mounts with nosymfollow", "leave that option out", err);
    return row->user_kernel ? oci_sentry_judge(c, err) : 0;
}

int oci_engine_judge_exec(enum tier tier, const struct oci_process *p, const struct oci_config *c,
                          struct err *err)
{
    if (!tier_row(tier)->user_kernel)
        return 0;
    if (p->terminal)
        return refuse(tier, "terminals of exec, in which no key would be a signal",
                      "leave -t out; the container's first process can have one", err);
    if (c->seccomp)
        return refuse(tier,
                      "exec in a container whose configuration has a filter: the Sentry would not "
                      "put it on the process",
                      "make the container without one (--security-opt seccomp=unconfined); its "
                      "system calls end in the Sentry",
                      err);
    return 0;
}

/* ---- which ---- */

void oci_engine_init(struct oci_engine *e)
{
    e->tier = TIER_CONTAINER;
    oci_sentry_init(&e->sentry);
}

void oci_engine_close(struct oci_engine *e)
{
    oci_sentry_close(&e->sentry);
}

int oci_engine_find(struct oci_engine *e, enum tier tier, struct err *err)
{
    const struct tier_row *row = tier_row(tier);
    e->tier = tier;
    e->booth = row->module;
    e->user_kernel = row->user_kernel;
    if (!row->engine || program_beside(row->engine, e->program, sizeof e->program, err) == 0)
        return 0;
    return err_at(err, BOUNDARY_KERNEL);
}

int oci_engine_open(struct oci_engine *e, enum tier tier, bool rules, struct err *err)
{
    const struct tier_row *row = tier_row(tier);
    struct tier_answer answer = {0};
    if (row->module && rules)
        return refuse(tier, "sockets, and so no rules for the network",
                      "leave brig.allow and brig.policy out", err);
    if (row->engine && row->probe && !row->probe(&answer)) {
        err_set(err, ERR_UNSUPPORTED, "config: " OCI_KEY_TIER ": the tier %s is not there: %s",
                tier_name(tier), answer.why);
        err_at(err, BOUNDARY_KERNEL);
        return err_hint(err, "on this node: %s", answer.how);
    }
    return oci_engine_find(e, tier, err);
}

/* ---- its arguments and variables ---- */

static bool add(char **list, size_t *count, const char *text)
{
    return (list[(*count)++] = strdup(text)) != NULL;
}

/* As engines/wasm/main.c reads them. What is read-only is read-only by its mount. */
static char **module_arguments(const struct json *args, char **ret_number)
{
    static const char *const first[] = {"brig-wasm", "--rw", "/=" OCI_BOOTH_ROOT, "--rw", ".=."};
    size_t count = 0, given = json_count(args);
    char **list = calloc(ARRAY_LEN(first) + given + 5, sizeof *list);
    bool good = list != NULL;
    for (size_t i = 0; good && i < ARRAY_LEN(first); i++)
        good = add(list, &count, first[i]);
    if (good)
        good = add(list, &count, "--fd");
    if (good && (good = (*ret_number = calloc(1, OCI_NUMBER_SIZE)) != NULL))
        list[count++] = *ret_number;
    if (good)
        good = add(list, &count, "--") && add(list, &count, json_string(json_at(args, 0)));
    for (size_t i = 0; good && i < given; i++)
        good = add(list, &count, json_string(json_at(args, i)));
    if (!good)
        oci_engine_free(list);
    return good ? list : NULL;
}

/* The engine's own loader and libraries read none of these. */
static bool mark(char **env)
{
    for (; *env; env++) {
        char *marked = NULL;
        if (asprintf(&marked, OCI_VARIABLE "%s", *env) < 0)
            return false;
        free(*env);
        *env = marked;
    }
    return true;
}

int oci_engine_become(const struct oci_engine *e, const struct oci_process *p, char ***argv,
                      char **env, char **ret_number, struct err *err)
{
    if (!e->booth)
        return 0;
    oci_engine_free(*argv);
    *argv = module_arguments(p->args, ret_number);
    return *argv && mark(env) ? 0 : err_memory(err);
}

/* Its own variables are none. */
static int take_place(struct oci_become *b, char **argv, struct err *err)
{
    if (!argv)
        return err_memory(err);
    oci_engine_free(b->argv);
    b->argv = argv;
    oci_engine_free(b->envp);
    b->envp = calloc(1, sizeof *b->envp);
    return b->envp ? 0 : err_memory(err);
}

int oci_engine_describe(struct oci_engine *e, const struct oci_config *c, struct oci_become *b,
                        struct err *err)
{
    if (!e->user_kernel)
        return 0;
    if (oci_sentry_describe(&e->sentry, c, b->envp, b->caps, err) < 0)
        return err_number(err);
    return take_place(b, oci_sentry_arguments(&e->sentry, c, &b->number), err);
}

int oci_engine_describe_exec(struct oci_engine *e, const struct oci_process *p,
                             const struct oci_state *state, struct oci_become *b, struct err *err)
{
    if (!e->user_kernel)
        return 0;
    if (oci_sentry_join(&e->sentry, e->program, state, err) < 0 ||
        oci_sentry_describe_exec(&e->sentry, p, b->envp, b->caps, err) < 0)
        return err_number(err);
    return take_place(b, oci_sentry_exec_arguments(&e->sentry), err);
}

void oci_engine_free(char **list)
{
    for (char **entry = list; entry && *entry; entry++)
        free(*entry);
    free(list);
}
