/* Values that a request brings for secrets: kept until brig-proxy has them, then overwritten. */
#include "sandbox/sandbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int run_values_add(struct run_values *v, const char *name, const char *text, struct err *err)
{
    if (v->count == EGRESS_SECRETS_MAX || strlen(name) >= sizeof v->items[0].name)
        return err_set(err, ERR_LIMIT, "more than %d values", EGRESS_SECRETS_MAX);
    struct run_value *item = &v->items[v->count];
    if (!(item->text = strdup(text)))
        return err_memory(err);
    snprintf(item->name, sizeof item->name, "%s", name);
    v->count++;
    return 0;
}

const char *run_values_find(const struct run_values *v, const char *name)
{
    for (size_t i = 0; v && i < v->count; i++)
        if (strcmp(v->items[i].name, name) == 0)
            return v->items[i].text;
    return NULL;
}

void run_values_wipe(struct run_values *v)
{
    while (v && v->count) {
        char *text = v->items[--v->count].text;
        explicit_bzero(text, strlen(text));
        free(text);
    }
}
