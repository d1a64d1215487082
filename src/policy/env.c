/* Environment variables of the sandbox. They are the only ones it gets besides the few that brig
 * sets, so that no name is dangerous here: LD_PRELOAD inside can only name what is inside. */
#include "base/cleanup.h"
#include "base/quote.h"
#include "policy/egress/internal.h"
#include "policy/grants.h"
#include "policy/values.h"

#include <string.h>

#define ENV_NAME_MAX  255
#define ENV_VALUE_MAX (127 * 1024) /* the kernel takes 128 KiB for NAME=VALUE */

const struct env_var *env_find(const struct policy *p, const char *name)
{
    for (size_t i = 0; i < p->env_count; i++) {
        if (strcmp(p->env[i].name, name) == 0)
            return &p->env[i];
    }
    return NULL;
}

bool variable_name_ok(const char *s)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
    static const char more[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
    size_t len = strspn(s, more);
    return len > 0 && strspn(s, letters) > 0 && s[len] == '\0' && len <= ENV_NAME_MAX;
}

static int check_variable(const char *name, const char *value, struct err *err)
{
    struct quoted q;
    if (!variable_name_ok(name))
        return err_set(err, ERR_USAGE,
                       "%s is not a variable name, expected letters, digits and _, "
                       "not beginning with a digit",
                       quote(&q, name));
    if (strlen(value) > ENV_VALUE_MAX)
        return err_set(err, ERR_USAGE, "the value of %s is too long, expected at most %d bytes",
                       name, ENV_VALUE_MAX);
    if (!text_is_utf8(value))
        return err_set(err, ERR_USAGE, "the value of %s is not valid UTF-8", name);
    return 0;
}

int env_check_room(const struct policy *p, size_t more, struct err *err)
{
    if (more > ENV_MAX - p->env_count)
        return err_set(err, ERR_LIMIT, "too many variables, expected at most %d", ENV_MAX);
    return 0;
}

/* A variable that is already there: an option replaces a file's, two options must agree. */
static int env_replace(struct env_var *old, const char *value, const struct origin *origin,
                       struct err *err)
{
    if (origin->kind < old->origin.kind)
        return 0;
    bool same = strcmp(old->value, value) == 0;
    if (!same && origin->kind == ORIGIN_OPTION && old->origin.kind == ORIGIN_OPTION)
        return err_set(err, ERR_USAGE, "%s was given before with another value", old->name);
    char *copy = strdup(value);
    if (!copy)
        return err_memory(err);
    free(old->value);
    old->value = copy;
    old->origin = *origin;
    return 0;
}

int env_add(struct policy *p, const char *name, const char *value, const struct origin *origin,
            struct err *err)
{
    int r = check_variable(name, value, err);
    if (r < 0)
        return r;
    const struct env_var *old = env_find(p, name);
    if (old)
        return env_replace(&p->env[old - p->env], value, origin, err);
    if ((r = env_check_room(p, 1, err)) < 0)
        return r;
    cleanup_free char *own_name = strdup(name);
    cleanup_free char *own_value = strdup(value);
    struct env_var *env = realloc(p->env, (p->env_count + 1) * sizeof *env);
    if (env)
        p->env = env;
    if (!own_name || !own_value || !env)
        return err_sys(err, "environment");
    env[p->env_count++] = (struct env_var){own_name, own_value, *origin};
    own_name = own_value = NULL;
    return 0;
}

static int env_spec(struct policy *p, const char *spec, const struct origin *origin,
                    struct err *err)
{
    struct quoted q;
    const char *equals = strchr(spec, '=');
    if (!equals)
        return err_set(err, ERR_USAGE, "%s has no =, expected KEY=VALUE", quote(&q, spec));
    cleanup_free char *name = strndup(spec, (size_t)(equals - spec));
    if (!name)
        return err_memory(err);
    return env_add(p, name, equals + 1, origin, err);
}

int policy_env(struct policy *p, const char *spec, const struct origin *origin, struct err *err)
{
    int r = env_spec(p, spec, origin, err);
    return r < 0 ? origin_blame(origin, "credentials.env", err) : 0;
}
