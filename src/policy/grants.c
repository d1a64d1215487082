/* Parses and checks the host folders that a policy grants. */
#include "policy/grants.h"

#include "base/cleanup.h"
#include "base/quote.h"
#include "base/text.h"
#include "policy/paths.h"
#include "policy/values.h"

#include <string.h>

#define GRANTS_MAX 256

const char *grant_field(bool writable)
{
    return writable ? "filesystem.rw" : "filesystem.ro";
}

void grant_text(const struct grant *g, struct buf *out)
{
    buf_str(out, g->source);
    if (strcmp(g->source, g->dest) != 0)
        buf_fmt(out, ":%s", g->dest);
}

const struct grant *grant_find(const struct policy *p, const char *dest)
{
    for (size_t i = 0; i < p->grant_count; i++) {
        if (strcmp(p->grants[i].dest, dest) == 0)
            return &p->grants[i];
    }
    return NULL;
}

/* DIR[:DEST] into two normalised paths. */
static int split_spec(const char *spec, char **ret_source, char **ret_dest, struct err *err)
{
    struct quoted q;
    const char *colon = strchr(spec, ':');
    size_t len = colon ? (size_t)(colon - spec) : strlen(spec);
    if (len == 0 || (colon && (colon[1] == '\0' || strchr(colon + 1, ':'))))
        return err_set(err, ERR_USAGE, "%s is not a grant, expected DIR or DIR:DEST",
                       quote(&q, spec));
    cleanup_free char *source = strndup(spec, len);
    if (!source)
        return err_memory(err);
    int r = path_normalise(source, ret_source, err);
    return r < 0 ? r : path_normalise(colon ? colon + 1 : source, ret_dest, err);
}

/* The sandbox has its own of these; the host's would show other processes, devices and kernel
 * controls. */
static const char *kernel_folder(const char *path)
{
    static const char *const folders[] = {"/proc", "/sys", "/dev"};
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        if (path_within(path, folders[i]))
            return folders[i];
    }
    return NULL;
}

static int check_source(const char *source, struct err *err)
{
    struct quoted q;
    if (strcmp(source, "/") == 0)
        return err_set(err, ERR_USAGE, "/ would show the whole host, expected a folder in it");
    /* Memory files of the host's users: an ordinary tmpfs that happens to live in /dev. */
    if (path_within(source, "/dev/shm"))
        return 0;
    const char *folder = kernel_folder(source);
    if (folder)
        return err_set(err, ERR_USAGE, "%s lies in the host's %s, which is never shown inside",
                       quote(&q, source), folder);
    return 0;
}

static int check_dest(const char *dest, struct err *err)
{
    struct quoted q;
    if (strcmp(dest, "/") == 0)
        return err_set(err, ERR_USAGE, "a grant cannot stand at /, expected a folder below it");
    const char *folder = path_within(dest, SHOWN_DIR) ? SHOWN_DIR : kernel_folder(dest);
    if (folder)
        return err_set(err, ERR_USAGE, "a grant cannot stand at %s: the sandbox has its own %s",
                       quote(&q, dest), folder);
    return 0;
}

static int check_room(const struct policy *p, const char *dest, struct err *err)
{
    struct quoted q;
    const struct grant *other = grant_find(p, dest);
    if (other)
        return err_set(err, ERR_USAGE,
                       "%s is already the place of a grant (%s), expected each "
                       "place once",
                       quote(&q, dest), other->writable ? "read-write" : "read-only");
    if (p->grant_count >= GRANTS_MAX)
        return err_set(err, ERR_LIMIT, "too many grants, expected at most %d", GRANTS_MAX);
    return 0;
}

int grant_add(struct policy *p, const char *spec, bool writable, const struct origin *origin,
              struct err *err)
{
    cleanup_free char *source = NULL;
    cleanup_free char *dest = NULL;
    int r;
    if ((r = split_spec(spec, &source, &dest, err)) < 0 || (r = check_dest(dest, err)) < 0 ||
        (r = check_source(source, err)) < 0 || (r = check_room(p, dest, err)) < 0)
        return r;
    struct grant *grants = realloc(p->grants, (p->grant_count + 1) * sizeof *grants);
    if (!grants)
        return err_memory(err);
    p->grants = grants;
    grants[p->grant_count++] = (struct grant){source, dest, writable, *origin};
    source = dest = NULL;
    return 0;
}

int policy_grant(struct policy *p, const char *spec, bool writable, const struct origin *origin,
                 struct err *err)
{
    int r = grant_add(p, spec, writable, origin, err);
    return r < 0 ? origin_blame(origin, grant_field(writable), err) : 0;
}
