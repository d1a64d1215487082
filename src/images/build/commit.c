/* The changes of a run as a new image. */
#include "images/build/build.h"

#include <stdlib.h>
#include <unistd.h>

static int put_changes(struct derived *d, const struct commit_request *request, struct err *err)
{
    struct tar t;
    if (derive_open(d, &t, err) < 0)
        return err_number(err);
    int r = changes_write(request->changes, NULL, &t, d->max_bytes, d->max_entries,
                          &d->sum.left_out, err);
    return derive_put(d, &t, r, request->text, err);
}

static int change_config(struct derived *d, const struct commit_request *request, struct err *err)
{
    for (size_t i = 0; i < request->edit_count; i++)
        if (edit_change(&d->edit, request->edits[i], err) < 0 ||
            derive_note(d, request->edits[i], false, err) < 0)
            return err_number(err);
    return 0;
}

int commit_image(const struct commit_request *request, struct load_result *ret, struct err *err)
{
    struct derived *d = malloc(sizeof *d);
    if (!d)
        return err_memory(err);
    int r = derive_begin(d, request->base, LOAD_MAX_BYTES, LOAD_MAX_ENTRIES, err);
    if (r >= 0)
        r = put_changes(d, request, err);
    if (r >= 0)
        r = change_config(d, request, err);
    if (r >= 0)
        r = derive_finish(d, request->name, ret, err);
    derive_done(d);
    free(d);
    return r;
}
