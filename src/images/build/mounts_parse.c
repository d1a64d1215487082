/* RUN --mount: what it asks for, of a Dockerfile that may be somebody else's. What is not known is
 * an error; see mounts.c. */
#include "base/cleanup.h"
#include "base/quote.h"
#include "base/text.h"
#include "images/build/mounts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void mounts_done(struct run_mounts *m)
{
    for (unsigned n = 0; n < m->count; n++) {
        free(m->items[n].target);
        free(m->items[n].source);
        free(m->items[n].from);
    }
    words_done(&m->left_out);
    m->count = 0;
}

static bool is_one(const char *key, size_t len, const char *const *names)
{
    for (; *names; names++)
        if (strlen(*names) == len && memcmp(*names, key, len) == 0)
            return true;
    return false;
}

static int take_kind(struct run_mount *m, const char *value, struct err *err)
{
    static const char *const kinds[] = {
        [MOUNT_BIND] = "bind", [MOUNT_CACHE] = "cache", [MOUNT_TMPFS] = "tmpfs"};
    struct quoted q;
    for (size_t n = 0; n < ARRAY_LEN(kinds); n++)
        if (strcmp(kinds[n], value) == 0) {
            m->kind = (enum run_mount_kind)n;
            return 0;
        }
    err_set(err, ERR_UNSUPPORTED, "--mount: type %s is not known here", quote(&q, value));
    return strcmp(value, "secret") == 0 || strcmp(value, "ssh") == 0
               ? err_hint(err, "brig image build --secret adds one to requests, outside: the "
                               "command never has it")
               : err_hint(err, "there are bind, cache and tmpfs");
}

static int take_text(char **slot, const char *value, struct err *err)
{
    free(*slot);
    *slot = strdup(value);
    return *slot ? 0 : err_memory(err);
}

/* What concerns owners, sizes and sharing has no meaning here: there is one user inside, --disk
 * counts, and nothing is shared. */
static int take_key(struct run_mount *m, const char *key, size_t len, const char *value,
                    struct err *err)
{
    static const char *const targets[] = {"target", "dst", "destination", NULL},
                             *const sources[] = {"source", "src", NULL},
                             *const from[] = {"from", NULL}, *const kind[] = {"type", NULL},
                             *const idle[] = {"id",        "sharing",  "mode", "uid",
                                              "gid",       "size",     "rw",   "ro",
                                              "readwrite", "readonly", NULL};
    if (is_one(key, len, kind))
        return take_kind(m, value, err);
    if (is_one(key, len, targets))
        return take_text(&m->target, value, err);
    if (is_one(key, len, sources))
        return take_text(&m->source, value, err);
    if (is_one(key, len, from))
        return take_text(&m->from, value, err);
    return is_one(key, len, idle)
               ? 0
               : err_set(err, ERR_USAGE, "--mount: %.*s is not known here", (int)len, key);
}

/* brig's own places in every sandbox: empty, and never kept. */
static bool is_own_place(const char *target)
{
    static const char *const ours[] = {"/dev", "/proc", "/sys",      "/tmp",
                                       "/run", "/home", "/workspace"};
    for (size_t n = 0; n < ARRAY_LEN(ours); n++)
        if (path_within(target, ours[n]))
            return true;
    return text_begins(target, "/.brig");
}

static int check(struct run_mount *m, const char *folder, struct err *err)
{
    char place[PATH_MAX];
    struct quoted q;
    if (!m->target || !*m->target)
        return err_set(err, ERR_USAGE, "--mount: expected target=PLACE");
    if (context_place(folder, m->target, place, err) < 0)
        return err_number(err);
    size_t len = strlen(place);
    while (len > 1 && place[len - 1] == '/')
        place[--len] = '\0';
    if (len == 1)
        return err_set(err, ERR_REFUSED, "--mount: the root itself is no target");
    if (m->kind != MOUNT_BIND && (m->from || m->source))
        return err_set(err, ERR_UNSUPPORTED,
                       "--mount: a cache and a tmpfs begin empty: no from, no source");
    m->own = is_own_place(place);
    if (m->own && m->kind == MOUNT_BIND) {
        err_set(err, ERR_UNSUPPORTED, "--mount: %s is the sandbox's own", quote(&q, place));
        return err_hint(err, "choose a target elsewhere than in /tmp, /run, /home and their like");
    }
    return take_text(&m->target, place, err);
}

int mounts_add(struct run_mounts *m, const char *text, const char *folder, struct err *err)
{
    char part[PATH_MAX];
    if (m->count == RUN_MOUNTS_MAX)
        return err_set(err, ERR_LIMIT, "--mount: more than %d", RUN_MOUNTS_MAX);
    struct run_mount *one = &m->items[m->count++];
    *one = (struct run_mount){.kind = MOUNT_BIND};
    for (size_t len; *text; text += len + (text[len] == ',')) {
        len = strcspn(text, ",");
        if (len >= sizeof part)
            return err_set(err, ERR_USAGE, "--mount: it is too long");
        memcpy(part, text, len);
        part[len] = '\0';
        size_t key = strcspn(part, "=");
        if (take_key(one, part, key, part + key + (part[key] == '='), err) < 0)
            return err_number(err);
    }
    return check(one, folder, err);
}
