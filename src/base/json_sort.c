/* The members of an object in the order of their keys, a few at a time: runs that are in order are
 * merged to longer ones, and equal keys are found on the way, because neighbours in the order
 * cannot have been told apart without being compared. */
#include "base/json_build.h"

#include <stdlib.h>
#include <string.h>

#define A_STEP 16 /* takes as long as so many bytes of keys */

/* Equal keys in the order of the text: the items of one object stand in one array. */
static bool comes_first(struct json_sort *s, const struct json *a, const struct json *b)
{
    size_t same = 0;
    while (a->key[same] && a->key[same] == b->key[same])
        same++;
    s->work += A_STEP + same;
    if (a->key[same] != b->key[same])
        return (unsigned char)a->key[same] < (unsigned char)b->key[same];
    const struct json *again = a < b ? b : a;
    if (!s->again || again < s->again) {
        s->first = a < b ? a : b;
        s->again = again;
    }
    return a < b;
}

int json_sort_begin(struct json_sort *s, const struct json *object)
{
    *s = (struct json_sort){.count = object->count, .width = 1};
    s->from = reallocarray(NULL, s->count, sizeof *s->from);
    s->to = reallocarray(NULL, s->count, sizeof *s->to);
    if (!s->from || !s->to)
        return -1;
    for (size_t i = 0; i < s->count; i++)
        s->from[i] = &object->items[i];
    s->second = s->two = 1;
    return 0;
}

void json_sort_done(struct json_sort *s)
{
    free(s->from);
    free(s->to);
    s->from = s->to = NULL;
}

static size_t at_most(size_t at, size_t count)
{
    return at < count ? at : count;
}

/* The next two runs, or the next round with runs of twice the length. */
static void next_pair(struct json_sort *s)
{
    s->start += 2 * s->width;
    if (s->start >= s->count) {
        const struct json **swap = s->from;
        s->from = s->to;
        s->to = swap;
        s->start = 0;
        s->width *= 2;
    }
    s->one = s->start;
    s->second = s->two = at_most(s->start + s->width, s->count);
}

bool json_sort_some(struct json_sort *s, size_t *fuel)
{
    s->work = 0;
    while (s->width < s->count && s->work < *fuel) {
        size_t end = at_most(s->start + 2 * s->width, s->count);
        size_t at = s->one + (s->two - s->second);
        bool second = s->one == s->second ||
                      (s->two < end && comes_first(s, s->from[s->two], s->from[s->one]));
        s->to[at] = s->from[second ? s->two++ : s->one++];
        s->work++;
        if (at + 1 == end)
            next_pair(s);
    }
    *fuel -= s->work < *fuel ? s->work : *fuel;
    return s->width >= s->count;
}
