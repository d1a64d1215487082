/* Builds an image as a Dockerfile says, stage by stage: its arguments and variables, and which
 * instruction goes where. */
#include "images/build/builder.h"

#include "base/cleanup.h"
#include "base/quote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define CACHE_BYTES (4ull << 30)
#define CACHE_STEPS 256

struct derived *builder_now(struct building *b)
{
    return &b->stages[b->count - 1]->image;
}

/* ---- variables ---- */

const char *builder_find_in(const struct words *list, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = list->count; i-- > 0;)
        if (strncmp(list->items[i], name, len) == 0 && list->items[i][len] == '=')
            return list->items[i] + len + 1;
    return NULL;
}

static const char *given_argument(const struct building *b, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = b->request->arg_count; i-- > 0;)
        if (strncmp(b->request->args[i], name, len) == 0 && b->request->args[i][len] == '=')
            return b->request->args[i] + len + 1;
    return NULL;
}

const char *builder_variable(void *ctx, const char *name)
{
    struct building *b = ctx;
    const char *value = b->count ? edit_variable(&builder_now(b)->edit, name) : NULL;
    return value ? value : builder_find_in(b->count ? &b->args : &b->global, name);
}

const char *builder_global(void *ctx, const char *name)
{
    return builder_find_in(&((struct building *)ctx)->global, name);
}

static int take_argument(struct building *b, const char *name, const char *value, struct err *err)
{
    struct words *list = b->count ? &b->args : &b->global;
    const char *given = given_argument(b, name);
    if (!given && value[0] == '!')
        given = b->count ? builder_find_in(&b->global, name) : NULL;
    if (given)
        return edit_set(list, name, given, err);
    if (value[0] == '!')
        return 0;
    cleanup_buf struct buf text;
    buf_init(&text, 1u << 20);
    if (docker_expand(value + 1, b->file.escape, builder_variable, b, &text, err) < 0)
        return err_number(err);
    return edit_set(list, name, buf_text(&text), err);
}

static int do_arg(struct building *b, const struct instruction *i, struct err *err)
{
    for (size_t n = 0; n + 1 < i->args.count; n += 2)
        if (take_argument(b, i->args.items[n], i->args.items[n + 1], err) < 0)
            return err_number(err);
    return 0;
}

int builder_expand(struct building *b, const struct instruction *i, struct words *ret,
                   struct err *err)
{
    for (size_t n = 0; n < i->args.count; n++) {
        cleanup_buf struct buf text;
        buf_init(&text, 1u << 20);
        if (docker_expand(i->args.items[n], b->file.escape, builder_variable, b, &text, err) < 0 ||
            words_add(ret, buf_text(&text), text.len, err) < 0)
            return err_number(err);
    }
    return 0;
}

/* Flags that are no help here are refused by their names (IM-13); some mean nothing here. */
int builder_check_flags(struct building *b, const struct instruction *i, const char *const *known,
                        const char *const *idle, struct err *err)
{
    struct quoted q;
    for (size_t n = 0; n < i->flags.count; n++) {
        const char *flag = i->flags.items[n] + 2;
        size_t len = strcspn(flag, "=");
        bool good = false;
        for (const char *const *k = known; *k && !good; k++)
            good = strlen(*k) == len && strncmp(*k, flag, len) == 0 && flag[len] == '=';
        for (const char *const *k = idle; *k && !good; k++)
            if ((good = strlen(*k) == len && strncmp(*k, flag, len) == 0) && b->request->note) {
                char text[120];
                snprintf(text, sizeof text, "--%s has no meaning here", *k);
                b->request->note(b->request->ctx, i->line, text);
            }
        if (!good)
            return err_set(err, ERR_USAGE, "%s is not known here", quote(&q, i->flags.items[n]));
    }
    return 0;
}

/* ---- steps ---- */

static int do_config(struct building *b, const struct instruction *i, struct err *err)
{
    if (edit_apply(&builder_now(b)->edit, i, b->file.escape, builder_variable, b, err) < 0)
        return err_number(err);
    return i->op == DOCKER_WORKDIR ? builder_workdir(b, i, err)
                                   : derive_note(builder_now(b), i->text, false, err);
}

static int do_instruction(struct building *b, const struct instruction *i, struct err *err)
{
    if (i->op == DOCKER_FROM)
        return builder_from(b, i, err);
    if (i->op == DOCKER_ARG)
        return do_arg(b, i, err);
    if (!b->count)
        return err_set(err, ERR_USAGE, "the first instruction must be FROM");
    switch (i->op) {
    case DOCKER_RUN:
        return builder_run(b, i, err);
    case DOCKER_COPY:
    case DOCKER_ADD:
        return builder_copy(b, i, err);
    case DOCKER_HEALTHCHECK:
    case DOCKER_MAINTAINER:
        if (b->request->note)
            b->request->note(b->request->ctx, i->line,
                             i->op == DOCKER_HEALTHCHECK ? "HEALTHCHECK has no meaning here"
                                                         : "MAINTAINER has no meaning here");
        return 0;
    default:
        return do_config(b, i, err);
    }
}

/* The stage that is asked for is the last that is built. */
static bool is_target_done(const struct building *b, size_t next)
{
    const char *target = b->request->target;
    return target && b->count && next < b->file.count && b->file.items[next].op == DOCKER_FROM &&
           b->stages[b->count - 1]->name && strcasecmp(b->stages[b->count - 1]->name, target) == 0;
}

static int check_args(const struct building *b, struct err *err)
{
    struct quoted q;
    for (size_t n = 0; n < b->request->arg_count; n++) {
        size_t len = strcspn(b->request->args[n], "=");
        bool known = false;
        for (size_t i = 0; i < b->file.count && !known; i++)
            for (size_t m = 0; b->file.items[i].op == DOCKER_ARG && m < b->file.items[i].args.count;
                 m += 2)
                known = known ||
                        (strlen(b->file.items[i].args.items[m]) == len &&
                         memcmp(b->file.items[i].args.items[m], b->request->args[n], len) == 0);
        if (!known) {
            char name[80];
            snprintf(name, sizeof name, "%.*s", (int)(len < 60 ? len : 60), b->request->args[n]);
            err_set(err, ERR_USAGE, "--build-arg: no ARG names %s", quote(&q, name));
            return err_hint(err, "write ARG %s into the Dockerfile where it is needed", name);
        }
    }
    return 0;
}

static int do_all(struct building *b, struct err *err)
{
    for (size_t n = 0; n < b->file.count; n++) {
        const struct instruction *i = &b->file.items[n];
        if (is_target_done(b, n))
            return 0;
        if (b->request->step)
            b->request->step(b->request->ctx, (unsigned)n + 1, (unsigned)b->file.count, i->text);
        if (do_instruction(b, i, err) < 0)
            return err_wrap(err, "line %u", i->line);
    }
    if (!b->count)
        return err_set(err, ERR_USAGE, "there is no FROM in it");
    const char *target = b->request->target, *last = b->stages[b->count - 1]->name;
    return target && (!last || strcasecmp(last, target) != 0)
               ? err_set(err, ERR_USAGE, "there is no stage %.60s in it", target)
               : 0;
}

static void building_done(struct building *b)
{
    while (b->count) {
        struct stage *s = b->stages[--b->count];
        derive_done(&s->image);
        free(s->name);
        free(s);
    }
    words_done(&b->global);
    words_done(&b->args);
    dockerfile_done(&b->file);
}

int build_image(const struct build_request *request, struct load_result *ret, struct err *err)
{
    struct reference ref;
    struct building b = {.request = request};
    if (reference_parse(request->name, &ref, err) < 0)
        return err_number(err);
    if (ref.digest[0])
        return err_set(err, ERR_USAGE, "a name for what is built has no @sha256:…");
    if (dockerfile_parse(request->dockerfile, request->dockerfile_len, &b.file, err) < 0)
        return err_number(err);
    int r = check_args(&b, err);
    if (r >= 0)
        r = do_all(&b, err);
    if (r >= 0)
        r = derive_finish(builder_now(&b), ref.name, ret, err);
    if (b.count) {
        uint64_t bytes = 0;
        (void)steps_trim(&builder_now(&b)->store, CACHE_BYTES, CACHE_STEPS, &bytes);
    }
    building_done(&b);
    return r;
}
