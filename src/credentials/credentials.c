/* The boundary's verbs on the host: plans the environment of the code, with placeholders in the
 * place of secrets, and attests it. */
#include "credentials/credentials.h"

#include "os/peek.h"
#include "os/weaken.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The value that the policy has for it, or NULL. */
static const char *given(const struct policy *p, const char *name)
{
    for (size_t i = 0; i < p->env_count; i++)
        if (strcmp(p->env[i].name, name) == 0)
            return p->env[i].value;
    return NULL;
}

static void set(struct credentials *c, struct plan *plan, const char *name, const char *value)
{
    struct buf entry;
    buf_init(&entry, PLAN_MAX_BYTES);
    buf_fmt(&entry, "%s=%s", name, value);
    plan_str(plan, OP_ENV, buf_text(&entry), NULL, 0);
    buf_done(&entry);
    c->count++;
}

static void set_given(struct credentials *c, struct plan *plan, const struct env_var *v)
{
    struct buf name;
    buf_init(&name, PLAN_MAX_BYTES);
    buf_fmt(&name, "%s%s", c->engine ? CREDENTIALS_INNER : "", v->name);
    set(c, plan, buf_text(&name), v->value);
    buf_done(&name);
}

static void set_default(struct credentials *c, struct plan *plan, const char *name,
                        const char *value)
{
    if (value && !given(c->policy, name))
        set(c, plan, name, value);
}

void credentials_set(struct credentials *c, const char *name, const char *value)
{
    char *copy = strdup(value);
    if (c->extra_count == EXTRA_VARIABLES_MAX || !copy)
        c->incomplete = true;
    if (c->incomplete)
        free(copy);
    else
        c->extra[c->extra_count++] = (struct extra_variable){name, copy};
}

void credentials_teardown(struct credentials *c)
{
    while (c->extra_count)
        free(c->extra[--c->extra_count].value);
}

#define SYSTEM_PATH "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"

/* What is installed inside goes below the home, which dies with the sandbox: the system's own
 * folders are read-only, for pip and npm as for everybody. pip does so by itself when it cannot
 * write elsewhere, but Debian's stops before it has looked (PEP 668), because a real system could
 * be broken; this one cannot. PIP_USER is left alone: it would keep pip from working in a virtual
 * environment. */
static void plan_installers(struct credentials *c, struct plan *plan, const char *local)
{
    set_default(c, plan, "PIP_BREAK_SYSTEM_PACKAGES", "1");
    /* Disk is memory here, and what is kept for a second time is not used a second time. */
    set_default(c, plan, "PIP_NO_CACHE_DIR", "1");
    set_default(c, plan, "PIP_ROOT_USER_ACTION", c->root_inside ? "ignore" : NULL);
    /* Both would ask a host that need not be allowed whether there is a newer one. */
    set_default(c, plan, "PIP_DISABLE_PIP_VERSION_CHECK", "1");
    set_default(c, plan, "npm_config_update_notifier", "false");
    set_default(c, plan, "npm_config_prefix", local);
}

/* Programs that were installed inside come first, as pip and Debian's profile have it. */
static void plan_path(struct credentials *c, struct plan *plan, const char *local)
{
    struct buf path;
    buf_init(&path, PLAN_MAX_BYTES);
    if (local)
        buf_fmt(&path, "%s/bin:", local);
    if (c->first_tools)
        buf_fmt(&path, "%s:", c->first_tools);
    buf_str(&path, SYSTEM_PATH);
    if (c->tools)
        buf_fmt(&path, ":%s", c->tools);
    set_default(c, plan, "PATH", buf_text(&path));
    buf_done(&path);
}

static void plan_places(struct credentials *c, struct plan *plan)
{
    const char *home = given(c->policy, "HOME");
    struct buf local;
    buf_init(&local, PLAN_MAX_BYTES);
    if (!home)
        home = c->home;
    /* Without a folder of its own there is nothing to install into. */
    bool own = home[0] == '/' && home[1];
    buf_fmt(&local, "%s/.local", home);
    plan_path(c, plan, own ? buf_text(&local) : NULL);
    set_default(c, plan, "HOME", c->home);
    plan_installers(c, plan, own ? buf_text(&local) : NULL);
    buf_done(&local);
}

/* The variable with a secret's name holds the placeholder. If the caller also sets that variable,
 * it is most likely the real value, passed in by mistake. */
static int plan_placeholders(struct credentials *c, struct plan *plan, struct err *err)
{
    for (size_t i = 0; c->egress && i < c->egress->secret_count; i++) {
        const struct egress_secret *s = &c->egress->secrets[i];
        if (s->hidden)
            continue;
        if (given(c->policy, s->name)) {
            err_set(err, ERR_POLICY, "%s is both a secret and a variable with a value", s->name);
            err_at(err, BOUNDARY_CREDENTIALS);
            return err_hint(err, "leave out one of --secret %s=… and --env %s=…", s->name, s->name);
        }
        set(c, plan, s->name, s->placeholder);
    }
    return 0;
}

int credentials_plan(struct credentials *c, enum plan_stage stage, struct plan *plan,
                     struct err *err)
{
    if (stage != STAGE_CODE)
        return 0;
    if (c->incomplete)
        return err_set(err, ERR_LIMIT, "too many variables for the sandbox");
    plan_places(c, plan);
    set_default(c, plan, "USER", c->root_inside ? "root" : "user");
    set_default(c, plan, "LOGNAME", c->root_inside ? "root" : "user");
    set_default(c, plan, "LANG", "C.UTF-8");
    set_default(c, plan, "TMPDIR", c->tmpdir);
    set_default(c, plan, "TERM", c->term);
    /* git gives up when a system-wide configuration exists and cannot be read. */
    set_default(c, plan, "GIT_CONFIG_NOSYSTEM", c->host_etc ? "1" : NULL);
    for (unsigned i = 0; i < c->extra_count; i++)
        set_default(c, plan, c->extra[i].name, c->extra[i].value);
    for (size_t i = 0; i < c->policy->env_count; i++)
        set_given(c, plan, &c->policy->env[i]);
    for (char **each = environ; guard_left_out(GUARD_ENVIRONMENT) && *each; each++)
        plan_str(plan, OP_ENV, *each, NULL, 0);
    return plan_placeholders(c, plan, err);
}

/* Where it comes from and where it goes, never what it is. */
static void write_secret(struct json_writer *w, const struct egress_secret *s)
{
    char origin[320];
    snprintf(origin, sizeof origin, "%s://%s:%u", scheme_name(s->scheme), s->host.text, s->port);
    jw_object_begin(w);
    jw_kv_string(w, "name", s->name);
    jw_kv_string(w, "origin", origin);
    jw_kv_string(w, "inside", s->hidden ? "nothing" : "placeholder");
    jw_object_end(w);
}

int credentials_check(const int *user_ns, pid_t pid, struct err *err)
{
    int found = peek_environment(user_ns, pid, err);
    if (found == 0)
        return 0;
    if (found > 0)
        err_set(err, ERR_ATTEST, "the sandbox inherited an environment");
    return err_at(err, BOUNDARY_CREDENTIALS);
}

int credentials_attest(struct credentials *c, pid_t pid, struct evidence *out, struct err *err)
{
    if (!guard_unattested(GUARD_ENVIRONMENT) && credentials_check(c->user_ns, pid, err) < 0)
        return err_number(err);
    evidence_uint(out, "inherited_variables", 0);
    evidence_uint(out, "variables", c->count);
    jw_key(out->w, "secrets");
    jw_array_begin(out->w);
    for (size_t i = 0; c->egress && i < c->egress->secret_count; i++)
        write_secret(out->w, &c->egress->secrets[i]);
    jw_array_end(out->w);
    return 0;
}
