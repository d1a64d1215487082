/* A set of environment variables by name. */
#include "warden/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VARIABLES_MAX 4096

void environment_done(struct environment *e)
{
    while (e->count)
        free(e->items[--e->count]);
    free(e->items);
    *e = (struct environment){0};
}

bool environment_name_ok(const char *name)
{
    return name[0] && !strchr(name, '=');
}

static size_t find(const struct environment *e, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < e->count; i++)
        if (strncmp(e->items[i], name, len) == 0 && e->items[i][len] == '=')
            return i;
    return e->count;
}

bool environment_has(const struct environment *e, const char *name)
{
    return find(e, name) < e->count;
}

static bool make_room(struct environment *e)
{
    if (e->count < e->room)
        return true;
    size_t room = e->room ? e->room * 2 : 32;
    char **items = room <= VARIABLES_MAX ? reallocarray(e->items, room, sizeof *items) : NULL;
    if (!items)
        return false;
    e->items = items;
    e->room = room;
    return true;
}

int environment_set(struct environment *e, const char *name, const char *value)
{
    size_t size = strlen(name) + strlen(value) + 2;
    size_t at = find(e, name);
    char *entry = at < e->count || make_room(e) ? malloc(size) : NULL;
    if (!entry)
        return -ERR_LIMIT;
    snprintf(entry, size, "%s=%s", name, value);
    if (at < e->count)
        free(e->items[at]);
    else
        e->count++;
    e->items[at] = entry;
    return 0;
}
