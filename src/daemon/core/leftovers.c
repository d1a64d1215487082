/* Boxes of an earlier life of the daemon: their rows are there, so it did not end in order. What is
 * left of them is removed by the launcher, which knows where to look; the row goes when it has. */
#include "daemon/core/core_internal.h"

#include <stdlib.h>
#include <string.h>

#define AT_ONCE  1000u
#define LEFT_MAX 100000u
#define CLEAN_MS 60000u

struct leftover {
    struct leftover *next;
    char id[BOX_ID_LEN + 1];
};

void leftovers_add(struct core *c, const char *id)
{
    struct leftover *l = NULL;
    if (box_id_valid(id) && c->leftover_count < LEFT_MAX)
        l = calloc(1, sizeof *l);
    if (!l)
        return;
    memcpy(l->id, id, BOX_ID_LEN);
    l->next = c->leftovers;
    c->leftovers = l;
    c->leftover_count++;
}

static void forget(struct core *c, unsigned count)
{
    for (; count > 0 && c->leftovers; count--) {
        struct leftover *l = c->leftovers;
        c->leftovers = l->next;
        core_record(c, "box.leftover", NULL, NULL, JSON_SMALL(JSON_TEXT("id", l->id)));
        core_put(c, "boxes", l->id, NULL);
        c->leftover_count--;
        free(l);
    }
}

static void on_cleaned(void *ctx, struct wire_msg *m, const struct err *err)
{
    struct core *c = ctx;
    if (err)
        return; /* the rows stay, for the next start */
    core_record(c, "daemon.cleaned", NULL, NULL, JSON_SMALL(JSON_NUMBER("count", m->value)));
    forget(c, AT_ONCE);
    leftovers_clean(c);
}

void leftovers_clean(struct core *c)
{
    struct buf *out = core_scratch(c);
    struct json_writer w;
    unsigned count = 0;
    if (!c->leftovers)
        return;
    jw_init(&w, out, false);
    jw_object_begin(&w);
    jw_kv_array(&w, "ids");
    for (const struct leftover *l = c->leftovers; l && count < AT_ONCE; l = l->next, count++)
        jw_string(&w, l->id);
    jw_array_end(&w);
    jw_object_end(&w);
    peer_ask(&c->launcher, WIRE_CLEAN, 0, out->data, out->len, CLEAN_MS, on_cleaned, c);
}

void leftovers_free(struct core *c)
{
    while (c->leftovers) {
        struct leftover *l = c->leftovers;
        c->leftovers = l->next;
        free(l);
    }
}
