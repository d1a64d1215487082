/* A request may only make a policy stricter. Everything is checked before anything is changed, so
 * that a refused request leaves the policy as it was. */
#include "policy/egress/tighten.h"
#include "base/cleanup.h"
#include "base/num.h"
#include "base/quote.h"
#include "policy/commands/internal.h"
#include "policy/fields.h"
#include "policy/grants.h"
#include "policy/tools/internal.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* The request itself asks for this, it is not only what its level brought along. */
static bool is_asked(const struct policy *request, enum policy_field id)
{
    return request->origin[id].kind > ORIGIN_LEVEL;
}

static bool same_string(const struct policy *p, const struct policy *request, enum policy_field id)
{
    const char *a = field_string_of(p, id);
    const char *b = field_string_of(request, id);
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool is_as_strict(const struct policy *p, const struct policy *request, enum policy_field id)
{
    uint64_t have = field_number(p, id);
    uint64_t want = field_number(request, id);
    switch (field_rules(id)->tighter) {
    case TIGHTER_LOWER:
        return want <= have;
    case TIGHTER_HIGHER:
        return want >= have;
    case TIGHTER_NONZERO:
        return want == have || have == 0;
    case TIGHTER_ANY:
        return true;
    case TIGHTER_NONE:
        break;
    }
    return field_is_text(id) ? same_string(p, request, id) : want == have;
}

static int check_field(const struct policy *p, const struct policy *request, enum policy_field id,
                       struct err *err)
{
    if (!is_asked(request, id) || is_as_strict(p, request, id))
        return 0;
    cleanup_buf struct buf have;
    cleanup_buf struct buf want;
    struct quoted q;
    buf_init(&have, PATH_MAX);
    buf_init(&want, PATH_MAX);
    policy_field_text(p, id, &have);
    policy_field_text(request, id, &want);
    bool fixed = field_rules(id)->tighter == TIGHTER_NONE;
    err_set(err, ERR_REFUSED,
            "a request may only tighten the policy: %s is %.100s, %s cannot be %s",
            policy_field_path(id), buf_text(&have), quote(&q, buf_text(&want)),
            fixed ? "put in its place" : "asked for");
    return err_hint(err, "the operator can widen %s in the policy file or by an option",
                    policy_field_path(id));
}

static int check_grants(const struct policy *p, const struct policy *request, struct err *err)
{
    for (size_t i = 0; i < request->grant_count; i++) {
        const struct grant *want = &request->grants[i];
        const struct grant *have = grant_find(p, want->dest);
        if (have && have->writable == want->writable && strcmp(have->source, want->source) == 0)
            continue;
        struct quoted q;
        err_set(err, ERR_REFUSED,
                "a request may only tighten the policy: %s of %s is not among its grants",
                grant_field(want->writable), quote(&q, want->source));
        return err_hint(err,
                        "the operator can grant the folder in the policy file or by an option");
    }
    return 0;
}

/* New variables give no rights, but what the operator set stands. */
static int check_env(const struct policy *p, const struct policy *request, struct err *err)
{
    size_t added = 0;
    for (size_t i = 0; i < request->env_count; i++) {
        const struct env_var *have = env_find(p, request->env[i].name);
        added += !have;
        if (have && strcmp(have->value, request->env[i].value) != 0)
            return err_set(err, ERR_REFUSED,
                           "a request may only tighten the policy: the variable %s already has "
                           "another value",
                           have->name);
    }
    return env_check_room(p, added, err);
}

static int take_string(struct policy *p, const struct policy *request, enum policy_field id,
                       struct err *err)
{
    const char *text = field_string_of(request, id);
    char *copy = text ? strdup(text) : NULL;
    if (text && !copy)
        return err_memory(err);
    free(*field_string(p, id));
    *field_string(p, id) = copy;
    return 0;
}

static int take_field(struct policy *p, const struct policy *request, enum policy_field id,
                      struct err *err)
{
    int r = 0;
    if (field_is_text(id))
        r = take_string(p, request, id, err);
    else
        field_store(p, id, field_number(request, id));
    if (id == FIELD_TIER)
        p->wish = request->wish;
    if (r == 0)
        p->origin[id] = request->origin[id];
    return r;
}

/* A raised level brings its whole column, but only where it is stricter than what was there. */
static bool comes_with_level(const struct policy *p, const struct policy *request,
                             enum policy_field id)
{
    return request->origin[id].kind == ORIGIN_LEVEL && is_as_strict(p, request, id) &&
           field_number(request, id) != field_number(p, id);
}

static int take_all(struct policy *p, const struct policy *request, struct err *err)
{
    bool raised = is_asked(request, FIELD_LEVEL) && request->level > p->level;
    for (enum policy_field id = 0; id < FIELD_COUNT; id++) {
        if (!is_asked(request, id) && !(raised && comes_with_level(p, request, id)))
            continue;
        int r = take_field(p, request, id, err);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < request->env_count; i++) {
        const struct env_var *v = &request->env[i];
        int r = env_find(p, v->name) ? 0 : env_add(p, v->name, v->value, &v->origin, err);
        if (r < 0)
            return r;
    }
    return 0;
}

int policy_tighten(struct policy *p, const struct policy *request, struct err *err)
{
    __attribute__((cleanup(egress_done))) struct egress next;
    int r;
    egress_init(&next);
    for (enum policy_field id = 0; id < FIELD_COUNT; id++) {
        if ((r = check_field(p, request, id, err)) < 0)
            return r;
    }
    if ((r = check_grants(p, request, err)) < 0 || (r = check_env(p, request, err)) < 0 ||
        (r = egress_tighten(p, request, &next, err)) < 0 ||
        (r = commands_tighten(&p->commands, &request->commands, err)) < 0 ||
        (r = tools_tighten(&p->tools, &request->tools, err)) < 0 ||
        (r = take_all(p, request, err)) < 0 ||
        (r = tools_take(&p->tools, &request->tools, err)) < 0)
        return r;
    r = commands_take(&p->commands, &request->commands, err);
    return r < 0 ? r : egress_take(p, request, &next, err);
}
