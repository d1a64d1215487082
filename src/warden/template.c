/* Built-in templates and those of the operator's files: reads, checks and lists them. */
#include "warden/template.h"

#include "base/cleanup.h"
#include "kernel/tier.h"
#include "os/fd.h"
#include "os/trusted.h"
#include "sandbox/gate.h"
#include "warden/stem.h"
#include "warden/template_parse.h"
#include "wire/interp.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define MIB       (1ull << 20)
#define BASE_CPUS 2000
#define BASE_DISK (512 * MIB)
/* Files live in memory: there must be more of it than disk, so that a full disk is an error for the
 * writer and not a kill for want of memory. */
#define BASE_MEMORY (BASE_DISK + 512 * MIB)
#define SENTRY_PIDS 2048

static void template_free(struct template *t)
{
    if (!t)
        return;
    template_drop_modules(t);
    policy_done(&t->policy);
    free(t);
}

void templates_done(struct templates *t)
{
    while (t->count)
        template_free(t->items[--t->count]);
}

/* What all are made from: level high with a little more room. */
static struct template *template_new(const char *name, struct err *err)
{
    struct template *t = calloc(1, sizeof *t);
    if (!t || policy_init(&t->policy, LEVEL_HIGH) < 0) {
        free(t);
        err_memory(err);
        return NULL;
    }
    snprintf(t->name, sizeof t->name, "%s", name);
    t->policy.cpus_milli = BASE_CPUS;
    t->policy.disk = BASE_DISK;
    t->policy.memory = BASE_MEMORY;
    t->policy.proc = PROC_OWN;
    /* A file that only names the level does not change them. */
    t->policy.origin[FIELD_CPUS] = t->policy.origin[FIELD_DISK] = t->policy.origin[FIELD_MEMORY] =
        t->policy.origin[FIELD_PROC] = (struct origin){.kind = ORIGIN_FILE, .name = "base"};
    t->pool_max = 32;
    t->pool_idle_ms = 60000;
    return t;
}

/* Behind a Sentry each process is several tasks of the host's, and they stay for the next one: with
 * the number of a level, which counts tasks, a dozen processes would be all. */
static void settle_pids(struct policy *p)
{
    if (p->wish.count || !tier_row(p->tier)->user_kernel || policy_field_is_chosen(p, FIELD_PIDS))
        return;
    p->pids = SENTRY_PIDS;
    p->origin[FIELD_PIDS] = (struct origin){.kind = ORIGIN_FILE, .name = "base"};
}

/* These numbers are brig's own, as a level's are: where nobody named others they may be watched
 * instead of kept. */
static void settle_sampling(struct policy *p)
{
    bool own = p->cpus_milli == BASE_CPUS && p->disk == BASE_DISK && p->memory == BASE_MEMORY &&
               policy_field_is_levels(p, FIELD_INODES) && policy_field_is_levels(p, FIELD_PIDS) &&
               policy_field_is_levels(p, FIELD_CPU_TIME);
    if (own && p->sampling == SAMPLING_AUTO)
        p->sampling = SAMPLING_ACCEPT;
}

static bool answers_to(const struct template *t, const char *name)
{
    bool is = strcmp(t->name, name) == 0;
    for (unsigned i = 0; !is && i < t->alias_count; i++)
        is = strcmp(t->aliases[i], name) == 0;
    return is;
}

struct template *templates_find(const struct templates *t, const char *name)
{
    for (size_t i = 0; i < t->count; i++)
        if (strcmp(t->items[i]->name, name) == 0)
            return t->items[i];
    for (size_t i = 0; i < t->count; i++)
        if (answers_to(t->items[i], name))
            return t->items[i];
    return NULL;
}

/* Takes it, also on failure. */
static int put(struct templates *t, struct template *fresh, struct err *err)
{
    for (size_t i = 0; i < t->count; i++)
        if (strcmp(t->items[i]->name, fresh->name) == 0) {
            template_free(t->items[i]);
            t->items[i] = fresh;
            return 0;
        }
    if (t->count == TEMPLATES_MAX) {
        template_free(fresh);
        return err_set(err, ERR_LIMIT, "more than %d templates", TEMPLATES_MAX);
    }
    t->items[t->count++] = fresh;
    return 0;
}

int templates_init(struct templates *t, struct err *err)
{
    static const struct {
        const char *name, *text;
    } built_in[] = {
        {"base", "description: a shell and the host's programs\n"},
        {"python",
         "description: Python, started and waiting\n"
         "aliases: [code-interpreter-v1]\n"
         "interpreter: python\n"
         "modules: [json, re, math, datetime, collections, itertools, random, numpy, pandas, "
         "matplotlib.pyplot]\n"},
        {"node", "description: JavaScript on Node.js\n"
                 "interpreter: javascript\n"},
    };
    t->count = 0;
    for (size_t i = 0; i < ARRAY_LEN(built_in); i++)
        if (templates_add(t, built_in[i].name, built_in[i].text, strlen(built_in[i].text), err) < 0)
            return err_number(err);
    return 0;
}

static struct template *template_begin(const char *name, struct err *err)
{
    if (template_name_ok(name))
        return template_new(name, err);
    err_set(err, ERR_USAGE, "%.80s is no name for a template", name);
    err_hint(err, "letters, digits, dots and dashes, at most %d", TEMPLATE_NAME_MAX);
    return NULL;
}

int templates_add(struct templates *t, const char *name, const char *text, size_t len,
                  struct err *err)
{
    struct template *fresh = template_begin(name, err);
    if (!fresh)
        return err_number(err);
    if (template_parse(fresh, name, text, len, err) < 0) {
        template_free(fresh);
        return err_number(err);
    }
    settle_sampling(&fresh->policy);
    settle_pids(&fresh->policy);
    return put(t, fresh, err);
}

int templates_add_folder(struct templates *t, const char *name, const char *folder, struct err *err)
{
    struct origin origin = {.kind = ORIGIN_OPTION, .name = "--template"};
    struct template *fresh = template_begin(name, err);
    if (!fresh)
        return err_number(err);
    if (policy_set(&fresh->policy, FIELD_ROOT, folder, &origin, err) < 0 ||
        template_check(fresh, err) < 0) {
        template_free(fresh);
        return err_number(err);
    }
    settle_sampling(&fresh->policy);
    settle_pids(&fresh->policy);
    snprintf(fresh->description, sizeof fresh->description, "%.240s as root", folder);
    return put(t, fresh, err);
}

/* A template decides what its sandboxes may do, so its file must be trusted. */
static int read_text(int dir, const char *file, struct buf *out, struct err *err)
{
    char chunk[4096];
    ssize_t n;
    cleanup_fd int fd = trusted_open(dir, file, "template file", TRUSTED_FILE, err);
    if (fd < 0)
        return fd;
    while ((n = read(fd, chunk, sizeof chunk)) > 0)
        buf_add(out, chunk, (size_t)n);
    if (n < 0)
        return err_sys(err, "read template file %s", file);
    return out->failed ? err_set(err, ERR_LIMIT, "template file %s is too long", file) : 0;
}

static int load_one(struct templates *t, int dir, const char *file, struct err *err)
{
    char name[TEMPLATE_NAME_MAX + 1];
    const char *dot = strrchr(file, '.');
    cleanup_buf struct buf text;
    buf_init(&text, TEMPLATE_FILE_MAX);
    if (!dot || file[0] == '.' ||
        (strcmp(dot, ".yaml") != 0 && strcmp(dot, ".yml") != 0 && strcmp(dot, ".json") != 0))
        return 0;
    if ((size_t)(dot - file) >= sizeof name)
        return err_set(err, ERR_USAGE, "template file %.80s has too long a name", file);
    snprintf(name, sizeof name, "%.*s", (int)(dot - file), file);
    if (read_text(dir, file, &text, err) < 0)
        return err_number(err);
    return templates_add(t, name, buf_text(&text), text.len, err);
}

int templates_load(struct templates *t, int dir, const char *folder, struct err *err)
{
    struct err mine = ERR_INIT;
    int fd = trusted_folder(dir, folder, "the folder of templates", &mine);
    if (fd < 0 && mine.sys_errno == ENOENT)
        return 0;
    if (fd < 0) {
        *err = mine;
        return fd;
    }
    DIR *list = folder_take(fd);
    if (!list)
        return err_sys(err, "folder of templates %s", folder);
    struct dirent *e;
    int result = 0, more = 0;
    while (result == 0 && (more = folder_next(list, &e)) > 0)
        result = load_one(t, dirfd(list), e->d_name, err);
    if (result == 0 && more < 0)
        result = err_sys(err, "list it");
    closedir(list);
    return result < 0 ? err_wrap(err, "%.100s", folder) : 0;
}

void template_write_commands(const struct template *t, struct json_writer *w)
{
    const struct policy *p = &t->policy;
    const char *roots[32];
    if (!p->commands.given)
        return;
    size_t count = gate_roots(p, NULL, roots, ARRAY_LEN(roots));
    jw_key(w, "commands");
    commands_write(&p->commands, w);
    jw_key(w, "roots");
    jw_array_begin(w);
    for (size_t i = 0; i < count; i++)
        jw_string(w, roots[i]);
    jw_array_end(w);
}

static bool boots(const struct policy *p)
{
    bool any = run_in_machine(p->tier == TIER_AUTO ? tier_of_level(p->level) : p->tier);
    for (unsigned i = 0; i < p->wish.count; i++)
        any = any || run_in_machine(p->wish.tiers[i]);
    return any;
}

static void write_one(const struct template *t, struct json_writer *w)
{
    char hash[72];
    policy_hash(&t->policy, hash);
    jw_object_begin(w);
    jw_kv_string(w, "name", t->name);
    /* Lets the front notice a changed policy: sandboxes that wait with the old one must be
     * replaced. */
    jw_kv_string(w, "policy_hash", hash);
    jw_key(w, "aliases");
    jw_array_begin(w);
    for (unsigned i = 0; i < t->alias_count; i++)
        jw_string(w, t->aliases[i]);
    jw_array_end(w);
    jw_kv_string(w, "description", t->description);
    jw_kv_uint(w, "cpus_milli", t->policy.cpus_milli);
    jw_kv_uint(w, "memory", t->policy.memory);
    jw_kv_uint(w, "disk", t->policy.disk);
    jw_kv_uint(w, "pids", t->policy.pids);
    jw_kv_bool(w, "public_ports", t->public_ports);
    jw_kv_bool(w, "root", t->policy.uid == 0);
    jw_kv_bool(w, "root_beside", t->policy.root_beside);
    template_write_commands(t, w);
    jw_key(w, "interpreters");
    jw_array_begin(w);
    for (int l = INTERP_NONE + 1; l < INTERP_COUNT; l++)
        if (!tier_runs_modules(t->policy.tier) || l == INTERP_JAVASCRIPT)
            jw_string(w, interp_language_name((enum interp_language)l));
    jw_array_end(w);
    jw_kv_string(w, "interpreter", t->interpreter[0] ? t->interpreter : NULL);
    /* What a machine may take to boot, besides all else: with the template's own policy, and with a
     * stricter one of a request. */
    jw_kv_uint(w, "boot_ms", boots(&t->policy) ? run_boot_ms(TIER_VM) : 0);
    jw_kv_uint(w, "boot_most_ms", run_boot_ms(TIER_VM));
    char why[STEM_WHY_SIZE];
    jw_kv_string(w, "start", stem_possible(t, why) ? "clone" : "cold");
    jw_kv_string(w, "start_why", why[0] ? why : NULL);
    jw_key(w, "pool");
    jw_object_begin(w);
    jw_kv_uint(w, "min", t->pool_min);
    jw_kv_uint(w, "max", t->pool_max);
    jw_kv_uint(w, "idle_ms", t->pool_idle_ms);
    jw_object_end(w);
    jw_object_end(w);
}

void templates_write_json(const struct templates *t, struct json_writer *w)
{
    jw_key(w, "templates");
    jw_array_begin(w);
    for (size_t i = 0; i < t->count; i++)
        write_one(t->items[i], w);
    jw_array_end(w);
}
