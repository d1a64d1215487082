/* How an image says that it is run: taken from the base, changed by instructions, written anew. */
#include "images/build/build.h"

#include "base/cleanup.h"
#include "base/quote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int take_all(struct words *w, const char *const *items, size_t count, struct err *err)
{
    for (size_t i = 0; i < count; i++)
        if (words_add(w, items[i], strlen(items[i]), err) < 0)
            return err_number(err);
    return 0;
}

static int edit_text(char **slot, const char *text, struct err *err)
{
    char *copy = text ? strdup(text) : NULL;
    if (text && !copy)
        return err_memory(err);
    free(*slot);
    *slot = copy;
    return 0;
}

static int take_list(struct words *w, const struct json *list, struct err *err)
{
    for (size_t i = 0; i < json_count(list); i++) {
        const char *text = json_string(json_at(list, i));
        if (text && words_add(w, text, strlen(text), err) < 0)
            return err_number(err);
    }
    return 0;
}

int edit_begin(struct edit *e, const struct image_config *base, struct err *err)
{
    *e = (struct edit){.user = NULL};
    if (!base)
        return 0;
    const struct json *run = json_get(base->tree, "config");
    if (take_all(&e->env, base->env, base->env_count, err) < 0 ||
        take_all(&e->entrypoint, base->entrypoint, base->entrypoint_count, err) < 0 ||
        take_all(&e->command, base->command, base->command_count, err) < 0 ||
        take_list(&e->shell, json_get(run, "Shell"), err) < 0 ||
        edit_text(&e->user, base->user, err) < 0 || edit_text(&e->folder, base->folder, err) < 0)
        return err_number(err);
    return edit_text(&e->stop_signal, json_text(run, "StopSignal"), err);
}

void edit_done(struct edit *e)
{
    struct words *lists[] = {&e->env,    &e->entrypoint, &e->command, &e->shell,
                             &e->labels, &e->ports,      &e->volumes};
    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        words_done(lists[i]);
    free(e->user);
    free(e->folder);
    free(e->stop_signal);
    *e = (struct edit){.user = NULL};
}

int edit_copy(struct edit *to, const struct edit *from, struct err *err)
{
    edit_done(to);
    struct words *const lists[] = {&to->env,    &to->entrypoint, &to->command, &to->shell,
                                   &to->labels, &to->ports,      &to->volumes};
    const struct words *const olds[] = {&from->env,    &from->entrypoint, &from->command,
                                        &from->shell,  &from->labels,     &from->ports,
                                        &from->volumes};
    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        if (take_all(lists[i], (const char *const *)olds[i]->items, olds[i]->count, err) < 0)
            return err_number(err);
    if (edit_text(&to->user, from->user, err) < 0 || edit_text(&to->folder, from->folder, err) < 0)
        return err_number(err);
    return edit_text(&to->stop_signal, from->stop_signal, err);
}

static char **find_entry(const struct words *list, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = list->count; i-- > 0;)
        if (strncmp(list->items[i], name, len) == 0 && list->items[i][len] == '=')
            return &list->items[i];
    return NULL;
}

const char *edit_variable(const struct edit *e, const char *name)
{
    char **entry = find_entry(&e->env, name);
    return entry ? *entry + strlen(name) + 1 : NULL;
}

int edit_set(struct words *list, const char *name, const char *value, struct err *err)
{
    char *entry = NULL, **old = find_entry(list, name);
    if (asprintf(&entry, "%s=%s", name, value) < 0)
        return err_memory(err);
    if (old)
        return words_replace(list, old, entry, err);
    int r = words_add(list, entry, strlen(entry), err);
    free(entry);
    return r;
}

/* ---- instructions ---- */

struct applying {
    const struct instruction *i;
    char escape;
    docker_find *find;
    void *ctx;
};

static int expand(const struct applying *a, const char *word, struct buf *out, struct err *err)
{
    buf_init(out, 1u << 20);
    return docker_expand(word, a->escape, a->find, a->ctx, out, err);
}

/* Values of one line do not see each other. */
static int apply_pairs(const struct applying *a, struct words *list, struct err *err)
{
    struct words fresh = {.count = 0};
    int r = 0;
    for (size_t n = 0; r >= 0 && n < a->i->args.count; n++) {
        cleanup_buf struct buf text;
        r = expand(a, a->i->args.items[n], &text, err);
        if (r >= 0)
            r = words_add(&fresh, buf_text(&text), text.len, err);
        if (r >= 0 && n % 2 == 0 && (!text.len || strchr(buf_text(&text), '=')))
            r = err_set(err, ERR_USAGE, "a name that is empty, or has = in it");
    }
    for (size_t n = 0; r >= 0 && n + 1 < fresh.count; n += 2)
        r = edit_set(list, fresh.items[n], fresh.items[n + 1], err);
    words_done(&fresh);
    return r;
}

static int apply_words(const struct applying *a, struct words *list, struct err *err)
{
    for (size_t n = 0; n < a->i->args.count; n++) {
        cleanup_buf struct buf text;
        if (expand(a, a->i->args.items[n], &text, err) < 0 ||
            words_add(list, buf_text(&text), text.len, err) < 0)
            return err_number(err);
    }
    return 0;
}

/* In the shell's form, the shell comes first. */
static int apply_command(const struct edit *e, const struct instruction *i, struct words *list,
                         struct err *err)
{
    static const char *const usual[] = {"/bin/sh", "-c"};
    words_done(list);
    const struct words *shell = &e->shell;
    if (!i->exec && take_all(list, shell->count ? (const char *const *)shell->items : usual,
                             shell->count ? shell->count : ARRAY_LEN(usual), err) < 0)
        return err_number(err);
    return take_all(list, (const char *const *)i->args.items, i->args.count, err);
}

static int apply_one(const struct applying *a, char **slot, struct err *err)
{
    cleanup_buf struct buf text;
    if (expand(a, a->i->args.items[0], &text, err) < 0)
        return err_number(err);
    return text.len ? edit_text(slot, buf_text(&text), err)
                    : err_set(err, ERR_USAGE, "nothing is left of it");
}

/* From the folder before. */
static int apply_folder(const struct applying *a, struct edit *e, struct err *err)
{
    char place[PATH_MAX];
    cleanup_free char *text = NULL;
    if (apply_one(a, &text, err) < 0 ||
        context_place(e->folder ? e->folder : "/", text, place, err) < 0)
        return err_number(err);
    size_t len = strlen(place);
    if (len > 1 && place[len - 1] == '/')
        place[len - 1] = '\0';
    return edit_text(&e->folder, place, err);
}

static int apply(struct edit *e, const struct applying *a, struct err *err)
{
    const struct instruction *i = a->i;
    switch (i->op) {
    case DOCKER_ENV:
        return apply_pairs(a, &e->env, err);
    case DOCKER_LABEL:
        return apply_pairs(a, &e->labels, err);
    case DOCKER_EXPOSE:
        return apply_words(a, &e->ports, err);
    case DOCKER_VOLUME:
        return apply_words(a, &e->volumes, err);
    case DOCKER_WORKDIR:
        return apply_folder(a, e, err);
    case DOCKER_USER:
        return apply_one(a, &e->user, err);
    case DOCKER_STOPSIGNAL:
        return apply_one(a, &e->stop_signal, err);
    case DOCKER_CMD:
        e->command_chosen = true;
        return apply_command(e, i, &e->command, err);
    case DOCKER_ENTRYPOINT:
        if (!e->command_chosen)
            words_done(&e->command); /* it belonged to the base's entry point */
        return apply_command(e, i, &e->entrypoint, err);
    case DOCKER_SHELL:
        words_done(&e->shell);
        return take_all(&e->shell, (const char *const *)i->args.items, i->args.count, err);
    default:
        return 1;
    }
}

int edit_apply(struct edit *e, const struct instruction *i, char escape, docker_find *find,
               void *ctx, struct err *err)
{
    struct applying a = {.i = i, .escape = escape, .find = find, .ctx = ctx};
    int r = apply(e, &a, err);
    return r < 0 ? r : r == 0;
}

static const char *find_in_edit(void *ctx, const char *name)
{
    return edit_variable(ctx, name);
}

int edit_change(struct edit *e, const char *text, struct err *err)
{
    struct quoted q;
    struct dockerfile d;
    if (dockerfile_parse(text, strlen(text), &d, err) < 0)
        return err_wrap(err, "--change %s", quote(&q, text));
    int r = d.count == 1 ? edit_apply(e, &d.items[0], d.escape, find_in_edit, e, err) : 0;
    dockerfile_done(&d);
    if (r == 0) {
        err_set(err, ERR_USAGE, "--change %s is no change of a config", quote(&q, text));
        return err_hint(err, "one of ENV, WORKDIR, USER, ENTRYPOINT, CMD, LABEL, EXPOSE, VOLUME, "
                             "STOPSIGNAL, SHELL");
    }
    return r < 0 ? err_wrap(err, "--change %s", quote(&q, text)) : 0;
}
