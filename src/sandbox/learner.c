/* Learn mode at the end of a run: turns what each boundary refused into proposals for a policy. */
#include "sandbox/learner.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "filesystem/look.h"
#include "sandbox/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct learner *learner_new(void)
{
    struct learner *l = calloc(1, sizeof *l);
    if (l)
        asked_init(&l->asked);
    return l;
}

void learner_free(struct learner *l)
{
    if (!l)
        return;
    asked_done(&l->asked);
    free(l);
}

int learner_blind(struct err *err)
{
    err_set(err, ERR_UNSUPPORTED,
            "learn mode: another sandbox already watches the system calls of this process");
    err_hint(err, "run it outside of the other sandbox or tracer");
    return err_at(err, BOUNDARY_KERNEL);
}

/* ---- calls ---- */

/* The denials of system calls that no proposal answers. */
static void refuse_calls(const struct sandbox *s, struct learn *l)
{
    const struct denial_list *list = &s->result->denials;
    bool process = !tier_namespaced(s->kernel.tier);
    for (size_t i = 0; i < list->count; i++) {
        const struct denial *d = &list->items[i];
        bool call = text_begins(d->rule, "kernel.seccomp");
        bool moved = process && strstr(d->hint, "--tier container");
        bool sockets = text_begins(d->what, "socket(AF_UNIX");
        if (call && !moved && !sockets)
            learn_refuse(l, d->what, d->hint[0] ? d->hint : d->rule, d->count);
    }
}

static void learn_calls(const struct sandbox *s, struct learn *l)
{
    const struct kernel *k = &s->kernel;
    const struct policy *p = s->request->policy;
    bool process = !tier_namespaced(k->tier);
    uint64_t unix_refused = k->learn.refused[FIX_UNIX_SOCKETS];
    uint64_t moved = k->learn.refused[FIX_TIER] + unix_refused;
    if (process && moved)
        learn_field(l, FIELD_TIER, "container",
                    "calls that only a sandbox with namespaces can have for itself",
                    "none: the container tier is the stronger one", moved);
    /* A granted folder closes them, unless the policy asks for them. */
    bool closing = !process && k->options.unix_sockets && p->unix_sockets == NEED_AUTO &&
                   k->learn.unix_used && learn_has_grants(l);
    if (!process && (unix_refused || closing))
        learn_field(l, FIELD_UNIX_SOCKETS, "require", "UNIX sockets were made, or asked for",
                    "medium: a socket in a granted folder can then be reached",
                    unix_refused + k->learn.unix_used);
    refuse_calls(s, l);
}

/* ---- limits ---- */

static void learn_limits(const struct sandbox *s, struct learn *l)
{
    static const struct {
        const char *name;
        enum policy_field field;
    } limits[] = {
        {"timeout", FIELD_TIMEOUT}, {"cpu_time", FIELD_CPU_TIME},     {"memory", FIELD_MEMORY},
        {"pids", FIELD_PIDS},       {"output", FIELD_OUTPUT},         {"disk", FIELD_DISK},
        {"inodes", FIELD_INODES},   {"open_files", FIELD_OPEN_FILES},
    };
    const struct run_result *r = s->result;
    const struct policy *p = s->request->policy;
    size_t before = l->line_count;
    bool watched = r->oom_killed && lifecycle_watches(&s->lifecycle, FIELD_MEMORY);
    for (size_t i = 0; r->limit_hit && i < ARRAY_LEN(limits); i++)
        if (strcmp(limits[i].name, r->limit_hit) == 0) {
            learn_limit(l, p, limits[i].field, "the run came up against this limit");
            watched |= lifecycle_watches(&s->lifecycle, limits[i].field);
        }
    if (r->oom_killed && (!r->limit_hit || strcmp(r->limit_hit, "memory") != 0))
        learn_limit(l, p, FIELD_MEMORY, "a process was killed for want of memory");
    /* A limit other than the level's own must be kept by the kernel, unless the policy accepts that
     * it is only watched. */
    if (l->line_count > before && watched && p->sampling != SAMPLING_ACCEPT)
        learn_field(l, FIELD_SAMPLING, "accept", "the limit can only be watched on this host",
                    "medium: it can be overrun for a moment, see lifecycle.sampling", 1);
}

/* ---- all of it ---- */

bool learner_may_merge(void *ctx, const char *folder)
{
    char why[LOOK_WHY_MAX];
    (void)ctx;
    return look_may_propose(folder, true, why);
}

static char *command_text(char *const *argv)
{
    cleanup_buf struct buf text;
    buf_init(&text, 512);
    for (; argv && *argv && !text.failed; argv++)
        buf_fmt(&text, "%s%s", text.len ? " " : "", *argv);
    return strdup(buf_text(&text));
}

struct learn *learner_settle(struct sandbox *s)
{
    struct learn *l = learn_new();
    const struct run_result *r = s->result;
    if (!l)
        return NULL;
    l->command = command_text(s->request->argv);
    l->ended_well = r->exit_code == 0 && !r->limit_hit && !s->exec_failed;
    l->dropped = s->learner->asked.dropped + s->learner->dropped;
    learner_files(s, l);
    learner_hosts(s->learner, l);
    learn_limits(s, l);
    learn_merge(l, learner_may_merge, NULL);
    learn_calls(s, l);
    learn_merge(l, learner_may_merge, NULL);
    return l;
}
