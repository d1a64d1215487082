/* FROM: a stage of a build begins with an image, with an earlier stage, or with nothing. */
#include "images/build/builder.h"

#include "base/cleanup.h"
#include "base/quote.h"
#include "base/text.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

struct stage *builder_stage(const struct building *b, const char *name)
{
    for (unsigned n = b->count; n-- > 0;) {
        char number[16];
        snprintf(number, sizeof number, "%u", n);
        if ((b->stages[n]->name && strcasecmp(b->stages[n]->name, name) == 0) ||
            strcmp(number, name) == 0)
            return b->stages[n];
    }
    return NULL;
}

/* What the base's maker wanted to be done now is nothing that the caller has read. */
static int check_base(const struct derived *d, struct err *err)
{
    const struct json *triggers = json_get(json_get(d->base.config.tree, "config"), "OnBuild");
    if (!triggers || json_type(triggers) != JSON_ARRAY || !json_count(triggers))
        return 0;
    err_set(err, ERR_UNSUPPORTED, "the base has instructions of its own (ONBUILD)");
    return err_hint(err, "write them into this file, and use a base without them");
}

/* The base's own files are there already: they go, and come back with the stage's. */
static int copy_stage_files(struct derived *d, const struct derived *from, struct err *err)
{
    if (renameat(d->root.fd, "tree", d->scratch.fd, "base") < 0 ||
        mkdirat(d->root.fd, "tree", 0755) < 0)
        return err_sys(err, "make room for the files of a stage");
    cleanup_fd int files = openat(from->root.fd, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cleanup_fd int to = openat(d->root.fd, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (files < 0 || to < 0)
        return err_sys(err, "open the files of a stage");
    return merge_root(files, to, &d->room, err);
}

/* They were there a moment ago: the other stage holds them. */
static int hold_layers(struct derived *d, const struct derived *from, struct err *err)
{
    for (unsigned i = 0; i < from->added_count; i++) {
        int making;
        const struct layer_name name = {.blob = from->added[i].digest,
                                        .diff_id = from->added[i].digest};
        int r = layers_take(&d->store, &d->held, &name, &making, err);
        if (making >= 0)
            close(making);
        if (r <= 0)
            return r < 0 ? r : err_set(err, ERR_INTERNAL, "a layer of a stage is gone");
    }
    return 0;
}

/* A stage that begins where another one ended. */
static int continue_stage(struct derived *d, const struct derived *from, struct err *err)
{
    if (edit_copy(&d->edit, &from->edit, err) < 0)
        return err_number(err);
    for (size_t i = 0; i < from->step_count; i++)
        if (derive_note(d, from->steps[i].text, from->steps[i].layer, err) < 0)
            return err_number(err);
    memcpy(d->added, from->added, sizeof d->added);
    d->added_count = from->added_count;
    d->sum = from->sum;
    d->room = (struct merge_room){.entries = d->max_entries, .bytes = d->max_bytes};
    if (hold_layers(d, from, err) < 0)
        return err_number(err);
    return copy_stage_files(d, from, err);
}

int builder_derive(struct building *b, struct derived *d, const struct derived *from,
                   struct err *err)
{
    char pinned[REFERENCE_SIZE + DIGEST_SIZE + 2];
    const struct image_name *base = &from->base.name;
    snprintf(pinned, sizeof pinned, "%s@%s", base->name, base->manifest);
    if (derive_begin(d, from->base.root_fd < 0 ? NULL : pinned, b->request->max_bytes,
                     b->request->max_entries, err) < 0)
        return err_number(err);
    return continue_stage(d, from, err);
}

static int begin_stage(struct building *b, const char *base, const char *name, struct err *err)
{
    const struct stage *from = builder_stage(b, base);
    const char *reference = strcmp(base, "scratch") == 0 ? NULL : base;
    struct stage *s = calloc(1, sizeof *s);
    if (!s)
        return err_memory(err);
    s->image.store.fd = s->image.base.root_fd = -1;
    b->stages[b->count++] = s;
    if (name && !(s->name = strdup(name)))
        return err_memory(err);
    if (from)
        return builder_derive(b, &s->image, &from->image, err);
    if (derive_begin(&s->image, reference, b->request->max_bytes, b->request->max_entries, err) < 0)
        return err_number(err);
    return reference ? check_base(&s->image, err) : 0;
}

static int check_platform(const char *platform, struct err *err)
{
    struct quoted q;
    char ours[32];
    snprintf(ours, sizeof ours, "linux/%s", image_architecture());
    if (!platform || text_begins(platform, ours))
        return 0;
    return err_set(err, ERR_UNSUPPORTED, "--platform=%s: this machine builds images for %s",
                   quote(&q, platform), ours);
}

int builder_from(struct building *b, const struct instruction *i, struct err *err)
{
    static const char *const known[] = {"platform", NULL}, *const none[] = {NULL};
    const struct words *args = &i->args;
    if (builder_check_flags(b, i, known, none, err) < 0 ||
        check_platform(instruction_flag(i, "platform"), err) < 0)
        return err_number(err);
    bool named = args->count == 3 && strcasecmp(args->items[1], "as") == 0;
    if (args->count != 1 && !named)
        return err_set(err, ERR_USAGE, "expected FROM IMAGE or FROM IMAGE AS NAME");
    if (b->count == STAGES_MAX)
        return err_set(err, ERR_LIMIT, "more than %d stages", STAGES_MAX);
    cleanup_buf struct buf base;
    buf_init(&base, 4096);
    if (docker_expand(args->items[0], b->file.escape, builder_global, b, &base, err) < 0)
        return err_number(err);
    words_done(&b->args);
    return begin_stage(b, buf_text(&base), named ? args->items[2] : NULL, err);
}
