/* The names of a container's scope and its slice; see manager.h.
 *
 * OC-15  A scope is the container's own: a new unit, whose name can be nobody's but a scope's, in a
 * slice that is named and not climbed to. */
#include "oci/manager.h"

#include <stdio.h>
#include <string.h>

#define SLICE        ".slice"
#define SCOPE        ".scope"
#define ROOT_SLICE   "-.slice"
#define USUAL_PREFIX "brig"
/* Of a unit's name, without what has a meaning in it: @ of templates, : of this form, \ of escapes.
 */
#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"

static int wrong(const char *path, const char *why, struct err *err)
{
    err_set(err, ERR_USAGE, "config: linux.cgroupsPath \"%.80s\": %s", path, why);
    return err_hint(err, "with --systemd-cgroup it is SLICE:PREFIX:NAME, such as "
                         "machine.slice:libpod:ID");
}

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), n = strlen(end);
    return len > n && strcmp(text + len - n, end) == 0;
}

static bool plain(const char *text)
{
    return text[strspn(text, NAME_LETTERS)] == '\0' && text[0] != '.';
}

/* "a-b.slice": each dash is a slice around; none of them may be without a name. */
static bool is_slice(const char *name)
{
    return strcmp(name, ROOT_SLICE) == 0 ||
           (plain(name) && ends_with(name, SLICE) && name[0] != '-' && !strstr(name, "--") &&
            !strstr(name, "-.") && strstr(name, SLICE) == name + strlen(name) - strlen(SLICE));
}

/* The part up to the next colon, or the rest. */
static const char *part(const char *at, char *out, size_t size)
{
    size_t len = strcspn(at, ":");
    if (len >= size)
        return NULL;
    memcpy(out, at, len);
    out[len] = '\0';
    return at + len + (at[len] == ':');
}

static int check(const char *path, const struct oci_scope *s, const char *prefix, const char *name,
                 struct err *err)
{
    if (!is_slice(s->slice))
        return wrong(path, "that is no slice", err);
    if (!*name || !plain(name) || !plain(prefix))
        return wrong(path, "that is no name of a scope", err);
    /* With runc such a name is a slice of its own, which is not a container's. */
    return ends_with(name, SLICE) ? wrong(path, "a container is no slice", err) : 0;
}

int oci_scope_parse(const char *path, const char *id, bool users, struct oci_scope *s,
                    struct err *err)
{
    char prefix[128] = USUAL_PREFIX, name[200];
    size_t colons = 0;
    *s = (struct oci_scope){.unit = ""};
    snprintf(name, sizeof name, "%s", id);
    for (const char *at = path ? path : ""; *at; at++)
        colons += *at == ':';
    if (path && *path) {
        const char *at = colons == 2 ? part(path, s->slice, sizeof s->slice) : NULL;
        at = at ? part(at, prefix, sizeof prefix) : NULL;
        if (!at || !part(at, name, sizeof name))
            return wrong(path, "that is not the form of a service manager", err);
    }
    if (!s->slice[0])
        snprintf(s->slice, sizeof s->slice, users ? "user.slice" : "system.slice");
    if (check(path ? path : "", s, prefix, name, err) < 0)
        return err_number(err);
    int n = snprintf(s->unit, sizeof s->unit, "%s%s%s" SCOPE, prefix, *prefix ? "-" : "", name);
    return n < (int)sizeof s->unit ? 0 : wrong(path ? path : "", "it is too long", err);
}

int oci_scope_path(const struct oci_scope *s, const char *manager, char out[static 1024],
                   struct err *err)
{
    size_t stem = strlen(s->slice) - strlen(SLICE), len = 0;
    int n = snprintf(out, 1024, "%s", strcmp(manager, "/") == 0 ? "" : manager);
    /* a.slice/a-b.slice/a-b-c.slice */
    for (size_t i = 1; n >= 0 && n < 1024 && strcmp(s->slice, ROOT_SLICE) != 0 && i <= stem; i++) {
        if (s->slice[i] != '-' && i != stem)
            continue;
        len = (size_t)n;
        n += snprintf(out + len, 1024 - len, "/%.*s" SLICE, (int)i, s->slice);
    }
    if (n >= 0 && n < 1024) {
        len = (size_t)n;
        n += snprintf(out + len, 1024 - len, "/%s/" OCI_SCOPE_GROUP, s->unit);
    }
    return n >= 0 && n < 1024 ? 0 : err_set(err, ERR_USAGE, "the path of the cgroup is too long");
}
