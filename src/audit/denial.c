/* The list of denials: collects equal ones, and writes them as JSON or as a line for people. */
#include "audit/denial.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const struct denial *denial_put(struct denial_list *list, const struct denial *d)
{
    for (size_t i = 0; i < list->count; i++) {
        struct denial *known = &list->items[i];
        if (known->boundary == d->boundary && strcmp(known->what, d->what) == 0) {
            known->count += d->count;
            return known;
        }
    }
    if (list->count == DENIAL_KINDS_MAX) {
        list->dropped += d->count;
        return NULL;
    }
    list->items[list->count] = *d;
    return &list->items[list->count++];
}

void denial_add(struct denial_list *list, enum boundary_id boundary, const char *what,
                const char *rule, const char *hint)
{
    struct denial d = {.boundary = boundary, .count = 1};
    snprintf(d.what, sizeof d.what, "%s", what);
    snprintf(d.rule, sizeof d.rule, "%s", rule ? rule : "");
    snprintf(d.hint, sizeof d.hint, "%s", hint ? hint : "");
    denial_put(list, &d);
}

void denial_write_json(const struct denial_list *list, struct json_writer *w)
{
    jw_array_begin(w);
    for (size_t i = 0; i < list->count; i++) {
        const struct denial *d = &list->items[i];
        jw_object_begin(w);
        jw_kv_string(w, "boundary", boundary_name(d->boundary));
        jw_kv_string(w, "what", d->what);
        jw_kv_string(w, "rule", d->rule);
        jw_kv_uint(w, "count", d->count);
        jw_kv_string(w, "hint", d->hint);
        jw_object_end(w);
    }
    jw_array_end(w);
}

void denial_line(const struct denial *d, struct buf *out)
{
    buf_fmt(out, "denied: %s: %s", boundary_name(d->boundary), d->what);
    if (d->count > 1)
        buf_fmt(out, " (%" PRIu64 " times)", d->count);
    buf_fmt(out, ": %s", d->rule);
    if (d->hint[0])
        buf_fmt(out, "; %s", d->hint);
}
