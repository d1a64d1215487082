/* The templates, as the launcher names them. What it says is checked like any other message. */
#include "base/cleanup.h"
#include "base/wall.h"
#include "daemon/core/core_internal.h"

#include <string.h>

/* E2B's clients may add the one tag that every template has. */
static bool is_text(const char *own, const char *name)
{
    size_t len = strlen(own);
    return strncmp(own, name, len) == 0 && (!name[len] || strcmp(name + len, ":default") == 0);
}

static bool is_named(const struct tmpl *t, const char *name)
{
    if (is_text(t->name, name))
        return true;
    for (unsigned i = 0; i < t->alias_count; i++)
        if (is_text(t->aliases[i], name))
            return true;
    return false;
}

struct tmpl *core_template(struct core *c, const char *name)
{
    for (struct tmpl *t = c->templates; t && name; t = t->next)
        if (t->listed && is_named(t, name))
            return t;
    return NULL;
}

bool core_has_template(struct core *c, const char *name)
{
    return core_template(c, name) != NULL;
}

bool core_template_public(struct core *c, const char *name)
{
    const struct tmpl *t = core_template(c, name);
    return t && t->public_ports;
}

size_t core_templates(struct core *c, void (*fn)(void *ctx, const struct template_info *t),
                      void *ctx)
{
    size_t count = 0;
    for (struct tmpl *t = c->templates; t; t = t->next) {
        if (!t->listed)
            continue;
        count++;
        const struct template_info info = {.json = t->json,
                                           .created_ms = t->created_ms,
                                           .updated_ms = t->updated_ms,
                                           .claims = t->pool.hits + t->pool.misses};
        if (fn)
            fn(ctx, &info);
    }
    return count;
}

static void command_rules_done(struct command_rules *r)
{
    for (size_t i = 0; i < r->root_count; i++)
        free(r->roots[i]);
    r->root_count = 0;
    commands_done(&r->commands);
}

void command_rules_free(struct command_rules *r)
{
    if (r)
        command_rules_done(r);
    free(r);
}

int command_rules_read(struct command_rules *r, const struct json *json, struct err *err)
{
    const struct json *commands = json_get(json, "commands"), *roots = json_get(json, "roots");
    command_rules_done(r);
    for (size_t i = 0; roots && i < json_count(roots) && r->root_count < ARRAY_LEN(r->roots); i++) {
        const char *root = json_string(json_at(roots, i));
        char *copy = root ? strdup(root) : NULL;
        if (copy)
            r->roots[r->root_count++] = copy;
    }
    return commands ? commands_read(&r->commands, commands, err) : 0;
}

static void drop_texts(struct tmpl *t)
{
    for (unsigned i = 0; i < t->alias_count; i++)
        free(t->aliases[i]);
    t->alias_count = 0;
    command_rules_done(&t->rules);
    free(t->json);
    t->json = NULL;
}

static void read_aliases(struct tmpl *t, const struct json *list)
{
    for (size_t i = 0; list && i < json_count(list) && t->alias_count < ARRAY_LEN(t->aliases);
         i++) {
        const char *alias = json_string(json_at(list, i));
        char *copy = alias ? strdup(alias) : NULL;
        if (copy)
            t->aliases[t->alias_count++] = copy;
    }
}

/* A template that changed gets a new version: what the pool has of the old one is not handed out.
 */
static int fill(struct tmpl *t, const struct json *json, char *text, struct err *err)
{
    if (t->json && strcmp(t->json, text) == 0) {
        free(text);
        return 0;
    }
    drop_texts(t);
    t->json = text;
    t->updated_ms = wall_ms();
    if (!t->created_ms)
        t->created_ms = t->updated_ms;
    read_aliases(t, json_get(json, "aliases"));
    t->cpus_milli = json_uint(json, "cpus_milli");
    t->memory = json_uint(json, "memory");
    t->disk = json_uint(json, "disk");
    t->boot_ms = json_uint(json, "boot_ms");
    t->boot_most_ms = json_uint(json, "boot_most_ms");
    t->public_ports = json_flag(json, "public_ports");
    t->root = json_flag(json, "root");
    t->root_beside = json_flag(json, "root_beside");
    t->pool.version++;
    t->core->config.boxes->template_changed(t, json_get(json, "pool"));
    /* Rules that cannot be read are no reason to have none. */
    return command_rules_read(&t->rules, json, err);
}

static struct tmpl *find_or_make(struct core *c, const char *name)
{
    struct tmpl **end = &c->templates;
    for (; *end; end = &(*end)->next)
        if (strcmp((*end)->name, name) == 0)
            return *end;
    if (c->template_count >= TEMPLATES_MAX)
        return NULL;
    struct tmpl *t = calloc(1, sizeof *t);
    if (!t || !(t->name = strdup(name))) {
        free(t);
        return NULL;
    }
    t->core = c;
    c->template_count++;
    *end = t;
    return t;
}

static int read_one(struct core *c, const struct json *json, struct err *err)
{
    const char *name = json_text(json, "name");
    if (!name || !*name || strlen(name) > 63)
        return err_set(err, ERR_PROTOCOL, "a template without a usable name");
    struct buf out;
    struct json_writer w;
    buf_init(&out, 64 * 1024);
    jw_init(&w, &out, false);
    jw_json(&w, json);
    struct tmpl *t = out.failed || !out.data ? NULL : find_or_make(c, name);
    if (!t) {
        buf_done(&out);
        return err_set(err, ERR_LIMIT, "too many templates, or one is too long");
    }
    if (fill(t, json, out.data, err) < 0)
        return err_number(err);
    t->listed = true;
    return 0;
}

int templates_read(struct core *c, const struct json *list, struct err *err)
{
    for (struct tmpl *t = c->templates; t; t = t->next)
        t->listed = false;
    int r = 0;
    for (size_t i = 0; i < json_count(list) && r >= 0; i++)
        r = read_one(c, json_at(list, i), err);
    for (struct tmpl *t = c->templates; t; t = t->next) {
        if (!t->listed)
            c->config.boxes->template_gone(t);
        else if (c->ready)
            c->config.boxes->template_poke(t);
    }
    return r;
}

void templates_free(struct core *c)
{
    while (c->templates) {
        struct tmpl *t = c->templates;
        c->templates = t->next;
        loop_timer_cancel(c->loop, &t->pool.tick);
        loop_timer_cancel(c->loop, &t->pool.refill);
        drop_texts(t);
        free(t->name);
        free(t);
    }
}
