/* OC-5: programs that would run outside of the sandbox. Pure; what a path leads to is looked at
 * when the hook is run (hooks.c). */
#include "base/cleanup.h"
#include "base/text.h"
#include "oci/fields.h"
#include "oci/judge.h"

#include <string.h>

static int refuse(struct err *err, const char *hint)
{
    err_at(err, BOUNDARY_KERNEL);
    return err_hint(err, "%s", hint);
}

static bool in_hook_path(const char *folder, size_t len)
{
    for (const char *at = strchr(OCI_HOOK_PATH, '=') + 1; *at;) {
        size_t n = strcspn(at, ":");
        if (n == len && strncmp(at, folder, len) == 0)
            return true;
        at += n + (at[n] == ':');
    }
    return false;
}

/* PATH, with folders of the host's own programs only. */
static bool plain_variable(const char *entry)
{
    if (!text_begins(entry, "PATH="))
        return false;
    for (const char *at = entry + 5;; at++) {
        size_t n = strcspn(at, ":");
        if (!in_hook_path(at, n))
            return false;
        at += n;
        if (*at == '\0')
            return true;
    }
}

/* LD_PRELOAD, BASH_ENV, PYTHONPATH and their like make another program of the one that was allowed,
 * and there is no end to the list of them. */
static int judge_hook_variables(const struct json *env, const char *stage, struct err *err)
{
    for (size_t i = 0; i < json_count(env); i++) {
        const char *entry = json_string(json_at(env, i));
        if (plain_variable(entry))
            continue;
        err_set(err, ERR_REFUSED,
                "config: hooks.%s: the variable %.*s would lead the hook to other programs", stage,
                (int)(strcspn(entry, "=") > 60 ? 60 : strcspn(entry, "=")), entry);
        return refuse(err,
                      "a hook may have PATH alone, with folders of " OCI_HOOK_PATH
                      "; what it needs it finds in the state on its stdin, or a wrapper that the "
                      "operator allows sets it");
    }
    return 0;
}

/* ---- Docker's own ---- */

/* "/proc/123/exe" */
bool oci_hook_of_docker(const char *path)
{
    static const char before[] = "/proc/";
    if (!text_begins(path, before))
        return false;
    path += sizeof before - 1;
    size_t digits = strspn(path, "0123456789");
    return digits > 0 && strcmp(path + digits, "/exe") == 0;
}

static bool hexadecimal(const char *text)
{
    size_t len = strspn(text, "0123456789abcdef");
    return len > 0 && len <= 64 && text[len] == '\0';
}

/* By its first argument dockerd is the small program that hands a network namespace to the daemon;
 * by any other one it is the daemon. */
static bool is_set_key(const struct json *args)
{
    return json_count(args) == 4 &&
           strcmp(json_string(json_at(args, 0)), "libnetwork-setkey") == 0 &&
           text_begins(json_string(json_at(args, 1)), "-exec-root=/") &&
           hexadecimal(json_string(json_at(args, OCI_DOCKER_ID))) &&
           hexadecimal(json_string(json_at(args, 3)));
}

/* Docker gives a network to a container by a hook that is itself, named by its process; which
 * program that is looks hooks.c at. Its arguments are these or none: they could make it do
 * anything. */
static int judge_docker(const struct json *args, const struct json *env, const char *stage,
                        const struct oci_operator *o, struct err *err)
{
    if (!o->docker) {
        err_set(err, ERR_REFUSED,
                "config: hooks.%s: Docker's own program would run outside of the sandbox", stage);
        return refuse(err, "Docker connects its networks that way; the operator can allow it, "
                           "in " OCI_OPERATOR_FILE ": {\"docker\": \"/usr/sbin/dockerd\"}");
    }
    if (strcmp(stage, "prestart") == 0 && is_set_key(args) && json_count(env) == 0)
        return 0;
    err_set(err, ERR_REFUSED,
            "config: hooks.%s: Docker's program is asked for something else than a network", stage);
    return refuse(err, "it may be the hook prestart, with the arguments libnetwork-setkey, "
                       "-exec-root=FOLDER and two ids, and no variables");
}

/* ---- all of them ---- */

static int judge_hook(const struct json *j, const char *stage, const struct oci_operator *o,
                      struct err *err)
{
    const char *path = NULL;
    const struct json *args = NULL, *env = NULL;
    int64_t timeout = 1;
    if (json_type(j) != JSON_OBJECT)
        return field_wrong("hooks", stage, "a list of objects", err);
    if (field_text(j, "hooks[]", "path", &path, err) < 0 ||
        field_texts(j, "hooks[]", "args", &args, err) < 0 ||
        field_texts(j, "hooks[]", "env", &env, err) < 0 ||
        field_int(j, "hooks[]", "timeout", &timeout, err) < 0)
        return err_number(err);
    if (!path || path[0] != '/')
        return field_wrong("hooks[]", "path", "an absolute path", err);
    if (timeout <= 0)
        return field_wrong("hooks[]", "timeout", "at least 1 second", err);
    if (oci_hook_of_docker(path))
        return judge_docker(args, env, stage, o, err);
    if (oci_text_in(o->hooks, path))
        return judge_hook_variables(env, stage, err);
    err_set(err, ERR_REFUSED, "config: hooks.%s: %.200s would run outside of the sandbox", stage,
            path);
    return refuse(err, "only the operator can allow a hook, by its path in " OCI_OPERATOR_FILE
                       " (hooks)");
}

int oci_judge_hooks(const struct oci_config *c, const struct oci_operator *o, struct err *err)
{
    static const char *const inside[] = {"createContainer", "startContainer", NULL};
    static const char *const stages[] = {"prestart", "createRuntime", "poststart", "poststop"};
    if (field_refuse(c->hooks, "hooks", inside,
                     "no program of the host runs in a half-built sandbox", err) < 0)
        return err_number(err);
    for (size_t s = 0; s < ARRAY_LEN(stages); s++) {
        const struct json *list = NULL;
        if (field_list(c->hooks, "hooks", stages[s], &list, err) < 0)
            return err_number(err);
        for (size_t i = 0; i < json_count(list); i++)
            if (judge_hook(json_at(list, i), stages[s], o, err) < 0)
                return err_number(err);
    }
    return 0;
}
