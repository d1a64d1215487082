/* The names of a folder in order, with memory for some of them.
 *
 * A pass over the folder finds the first BATCH names behind the last one that was told; when these
 * are told, the next pass finds those behind them. Names only grow from pass to pass, so that it
 * ends whatever the code makes and removes in the meantime. */
#include "files/worker_child.h"

#include <limits.h>
#include <string.h>

#define BATCH 512u

struct batch {
    unsigned count, told;
    bool begun, more;        /* more: a pass left names out */
    char last[NAME_MAX + 1]; /* told last */
    uint16_t order[BATCH];   /* a heap with the greatest on top; then sorted */
    char names[BATCH][NAME_MAX + 1];
};
static struct batch batches[FILES_DEPTH_MAX];

static const char *name_at(const struct batch *b, unsigned i)
{
    return b->names[b->order[i]];
}

static void exchange(struct batch *b, unsigned i, unsigned k)
{
    uint16_t kept = b->order[i];
    b->order[i] = b->order[k];
    b->order[k] = kept;
}

static void sift_down(struct batch *b, unsigned i, unsigned count)
{
    for (;;) {
        unsigned child = 2 * i + 1;
        if (child + 1 < count && strcmp(name_at(b, child), name_at(b, child + 1)) < 0)
            child++;
        if (child >= count || strcmp(name_at(b, i), name_at(b, child)) >= 0)
            return;
        exchange(b, i, child);
        i = child;
    }
}

static void sift_up(struct batch *b, unsigned i)
{
    for (; i > 0 && strcmp(name_at(b, (i - 1) / 2), name_at(b, i)) < 0; i = (i - 1) / 2)
        exchange(b, i, (i - 1) / 2);
}

static void consider(struct batch *b, const char *name)
{
    size_t len = strlen(name);
    if (len > NAME_MAX || (b->begun && strcmp(name, b->last) <= 0))
        return;
    if (b->count < BATCH) {
        b->order[b->count] = (uint16_t)b->count;
        memcpy(b->names[b->count], name, len + 1);
        sift_up(b, b->count++);
        return;
    }
    b->more = true;
    if (strcmp(name, name_at(b, 0)) >= 0)
        return;
    memcpy(b->names[b->order[0]], name, len + 1);
    sift_down(b, 0, b->count);
}

static void pass(struct batch *b, struct files_dir *d)
{
    const char *name;
    b->count = b->told = 0;
    b->more = false;
    files_dir_rewind(d);
    while ((name = files_dir_next(d)))
        consider(b, name);
    for (unsigned left = b->count; left > 1;) {
        exchange(b, 0, --left);
        sift_down(b, 0, left);
    }
}

void files_sorted_begin(unsigned level)
{
    struct batch *b = &batches[level];
    b->count = b->told = 0;
    b->begun = false;
    b->more = true;
}

const char *files_sorted_next(unsigned level, struct files_dir *d)
{
    struct batch *b = &batches[level];
    if (b->told == b->count && b->more)
        pass(b, d);
    if (b->told == b->count)
        return NULL;
    const char *name = name_at(b, b->told++);
    memcpy(b->last, name, strlen(name) + 1);
    b->begun = true;
    return name;
}
