/* A hash table of files by device and inode number, for sampling. */
#include "lifecycle/inodes.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 256

/* The code cannot choose inode numbers, so the hash needs no random seed. */
static size_t place_of(const struct inodes *t, uint64_t dev, uint64_t ino)
{
    uint64_t mixed = (ino ^ dev << 32) * UINT64_C(0x9e3779b97f4a7c15);
    size_t at = (size_t)(mixed >> 20) & (t->room - 1);
    while (t->items[at].used && (t->items[at].ino != ino || t->items[at].dev != dev))
        at = (at + 1) & (t->room - 1);
    return at;
}

static bool grow(struct inodes *t)
{
    struct inodes bigger = {.room = t->room ? t->room * 2 : FIRST_ROOM};
    bigger.items = calloc(bigger.room, sizeof *bigger.items);
    if (!bigger.items)
        return false;
    for (size_t i = 0; i < t->room; i++)
        if (t->items[i].used)
            bigger.items[place_of(&bigger, t->items[i].dev, t->items[i].ino)] = t->items[i];
    bigger.count = t->count;
    free(t->items);
    *t = bigger;
    return true;
}

struct inode_seen *inodes_put(struct inodes *t, uint64_t dev, uint64_t ino, bool *ret_fresh)
{
    /* Half of it stays empty, so that every search ends. */
    if (t->count >= t->room / 2 && !grow(t))
        return NULL;
    struct inode_seen *i = &t->items[place_of(t, dev, ino)];
    *ret_fresh = !i->used;
    if (!i->used) {
        *i = (struct inode_seen){.dev = dev, .ino = ino, .used = true};
        t->count++;
    }
    return i;
}

const struct inode_seen *inodes_find(const struct inodes *t, uint64_t dev, uint64_t ino)
{
    if (!t->room)
        return NULL;
    const struct inode_seen *i = &t->items[place_of(t, dev, ino)];
    return i->used ? i : NULL;
}

void inodes_clear(struct inodes *t)
{
    if (t->room)
        memset(t->items, 0, t->room * sizeof *t->items);
    t->count = 0;
}

void inodes_done(struct inodes *t)
{
    free(t->items);
    *t = (struct inodes){0};
}
