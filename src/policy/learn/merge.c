/* Fewer lines that allow the same, or hardly more. */
#include "policy/learn/learn.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "policy/paths.h"

#include <stdlib.h>
#include <string.h>

static bool is_grant(const struct learn_line *line)
{
    return line->kind == LEARN_RO || line->kind == LEARN_RW;
}

static int compare_texts(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "");
}

static int by_line(const void *x, const void *y)
{
    const struct learn_line *a = x, *b = y;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->kind == LEARN_FIELD)
        return a->field < b->field ? -1 : a->field > b->field;
    int r = strcmp(a->value, b->value);
    return r ? r : compare_texts(a->dest, b->dest);
}

static int by_refusal(const void *x, const void *y)
{
    const struct learn_refusal *a = x, *b = y;
    return strcmp(a->what, b->what);
}

static const char *place_of(const struct learn_line *line)
{
    return line->dest ? line->dest : line->value;
}

/* Does what `outer` gives contain `inner`, in the host and inside alike? */
static bool covers(const struct learn_line *outer, const struct learn_line *inner)
{
    if (!is_grant(outer) || !is_grant(inner) || outer == inner || outer->looked)
        return false;
    if (outer->kind == LEARN_RO && inner->kind == LEARN_RW)
        return false;
    if (!path_covered(inner->value, outer->value) ||
        !path_covered(place_of(inner), place_of(outer)))
        return false;
    bool same = strcmp(inner->value, outer->value) == 0;
    if (same)
        return outer->kind == LEARN_RW && inner->kind == LEARN_RO;
    return outer->is_dir && strcmp(inner->value + strlen(outer->value),
                                   place_of(inner) + strlen(place_of(outer))) == 0;
}

static void drop_covered(struct learn *l)
{
    for (size_t i = 0; i < l->line_count; i++) {
        for (size_t k = 0; k < l->line_count; k++) {
            if (!covers(&l->lines[k], &l->lines[i]))
                continue;
            l->lines[k].count += l->lines[i].count;
            l->lines[k].looked = false;
            learn_drop(l, i--);
            break;
        }
    }
}

/* A folder that was looked at on the way to what lies in it comes into being with that. */
static void drop_ways(struct learn *l)
{
    for (size_t i = 0; i < l->line_count; i++) {
        const struct learn_line *way = &l->lines[i];
        bool needed = true;
        for (size_t k = 0; way->looked && is_grant(way) && k < l->line_count && needed; k++)
            needed = k == i || !is_grant(&l->lines[k]) ||
                     !path_covered(place_of(&l->lines[k]), place_of(way));
        if (!needed)
            learn_drop(l, i--);
    }
}

/* Length of the folder that a path lies in; 0: the root. */
static size_t parent_len(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) : 0;
}

static bool same_parent(const struct learn_line *a, const struct learn_line *b)
{
    size_t len = parent_len(a->value), dest_len = parent_len(place_of(a));
    return a->kind == b->kind && parent_len(b->value) == len &&
           strncmp(a->value, b->value, len) == 0 && parent_len(place_of(b)) == dest_len &&
           strncmp(place_of(a), place_of(b), dest_len) == 0;
}

static unsigned count_siblings(const struct learn *l, const struct learn_line *line)
{
    unsigned n = 0;
    for (size_t i = 0; i < l->line_count; i++)
        n += same_parent(line, &l->lines[i]);
    return n;
}

/* Turns the line into its folder; what else lies in that is then covered. */
static bool raise(struct learn *l, struct learn_line *line, unsigned siblings)
{
    cleanup_buf struct buf asked;
    buf_init(&asked, 512);
    buf_fmt(&asked, "%u entries of it, among them %s", siblings, strrchr(line->value, '/') + 1);
    cleanup_free char *text = strdup(buf_text(&asked));
    if (!text)
        return false;
    line->value[parent_len(line->value)] = '\0';
    if (line->dest)
        line->dest[parent_len(line->dest)] = '\0';
    free(line->asked);
    line->asked = text;
    text = NULL;
    line->is_dir = true;
    line->looked = false;
    line->merged = siblings;
    line->risk = line->kind == LEARN_RW ? "high: everything in this folder can be changed"
                                        : "medium: everything in this folder can be read";
    drop_covered(l);
    return true;
}

/* The deepest first: a folder that was merged may be one of many in its own. */
static bool merge_one(struct learn *l, unsigned from, learn_may *may, void *ctx)
{
    struct learn_line *best = NULL;
    unsigned best_count = 0;
    for (size_t i = 0; i < l->line_count; i++) {
        struct learn_line *line = &l->lines[i];
        size_t len = is_grant(line) ? parent_len(line->value) : 0;
        if (len < 2 || (line->dest && parent_len(line->dest) < 2) ||
            (best && len <= parent_len(best->value)))
            continue;
        unsigned count = count_siblings(l, line);
        cleanup_free char *folder = count >= from ? strndup(line->value, len) : NULL;
        if (!folder || !may(ctx, folder))
            continue;
        best = line;
        best_count = count;
    }
    return best && raise(l, best, best_count);
}

static unsigned count_grants(const struct learn *l)
{
    unsigned n = 0;
    for (size_t i = 0; i < l->line_count; i++)
        n += is_grant(&l->lines[i]);
    return n;
}

/* Too many even so: the last go, and it is said. */
static void cut_grants(struct learn *l)
{
    for (size_t i = l->line_count; i-- > 0 && count_grants(l) > LEARN_GRANTS_MAX;) {
        if (!is_grant(&l->lines[i]))
            continue;
        learn_refuse(l, l->lines[i].value, "there are too many places: grant their folder by hand",
                     l->lines[i].count);
        learn_drop(l, i);
    }
}

void learn_merge(struct learn *l, learn_may *may, void *ctx)
{
    drop_ways(l);
    drop_covered(l);
    qsort(l->lines, l->line_count, sizeof l->lines[0], by_line);
    for (unsigned from = LEARN_MERGE_FROM; from >= 2; from--) {
        while (merge_one(l, from, may, ctx))
            ;
        if (count_grants(l) <= LEARN_GRANTS_MAX)
            break;
    }
    cut_grants(l);
    qsort(l->lines, l->line_count, sizeof l->lines[0], by_line);
    qsort(l->refusals, l->refusal_count, sizeof l->refusals[0], by_refusal);
}
