/* The set of files that the code asked for in learn mode: a bounded hash table with a random
 * seed. */
#include "audit/asked.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define SLOTS (ASKED_MAX * 2) /* never more than half full */

void asked_init(struct asked_set *s)
{
    *s = (struct asked_set){0};
    /* The code chooses the texts; it should not also choose where they collide. */
    if (getrandom(&s->seed, sizeof s->seed, GRND_NONBLOCK) != sizeof s->seed)
        s->seed = (uint64_t)(uintptr_t)s;
}

void asked_done(struct asked_set *s)
{
    for (size_t i = 0; i < s->count; i++)
        free(s->items[i].path);
    free(s->items);
    free(s->slots);
    *s = (struct asked_set){0};
}

static size_t slot_of(const struct asked_set *s, const char *path)
{
    uint64_t hash = s->seed ^ 0xcbf29ce484222325u;
    for (; *path; path++) {
        hash = (hash ^ (unsigned char)*path) * 0x100000001b3u;
        hash ^= hash >> 29;
    }
    return (size_t)(hash % SLOTS);
}

static bool make_room(struct asked_set *s)
{
    if (!s->slots && !(s->slots = calloc(SLOTS, sizeof *s->slots)))
        return false;
    if (s->count < s->room)
        return true;
    size_t room = s->room ? s->room * 2 : 128;
    struct asked *items = reallocarray(s->items, room, sizeof *items);
    if (!items)
        return false;
    s->items = items;
    s->room = room;
    return true;
}

static struct asked *insert(struct asked_set *s, size_t slot, const char *path, unsigned use)
{
    size_t len = strlen(path) + 1;
    char *copy = s->count < ASKED_MAX && s->bytes + len <= ASKED_BYTES_MAX ? strdup(path) : NULL;
    if (!copy) {
        s->dropped++;
        return NULL;
    }
    s->bytes += len;
    s->items[s->count++] = (struct asked){.path = copy, .uses = use, .count = 1};
    s->slots[slot] = (uint32_t)s->count;
    return &s->items[s->count - 1];
}

struct asked *asked_add(struct asked_set *s, const char *path, unsigned use)
{
    if (!make_room(s)) {
        s->dropped++;
        return NULL;
    }
    size_t slot = slot_of(s, path);
    for (; s->slots[slot]; slot = (slot + 1) % SLOTS) {
        struct asked *a = &s->items[s->slots[slot] - 1];
        if (strcmp(a->path, path) != 0)
            continue;
        a->uses |= use;
        a->count++;
        return a;
    }
    return insert(s, slot, path, use);
}
