/* kernel.tier as a list: an ordered wish. The policy's tier is then the weakest of the list, which
 * is what everything that must hold on every one of them is checked against. */
#include "policy/wish.h"

#include "policy/words.h"

#include <string.h>

static int add_tier(struct tier_wish *w, const char *word, struct err *err)
{
    uint64_t tier = 0;
    int r = word_parse(TYPE_TIER, word, &tier, err);
    if (r < 0)
        return r;
    for (unsigned i = 0; i < w->count; i++)
        if (w->tiers[i] == (enum tier)tier)
            return err_set(err, ERR_USAGE, "%s is there twice", word);
    w->tiers[w->count++] = (enum tier)tier;
    return 0;
}

int wish_parse(const char *text, struct tier_wish *ret, struct err *err)
{
    *ret = (struct tier_wish){0};
    for (const char *at = text;;) {
        char word[32];
        at += strspn(at, " ");
        size_t len = strcspn(at, ", ");
        if (len >= sizeof word)
            len = sizeof word - 1;
        memcpy(word, at, len);
        word[len] = '\0';
        int r = add_tier(ret, word, err);
        if (r < 0)
            return r;
        at += len + strspn(at + len, " ");
        if (!*at)
            return 0;
        if (*at++ != ',')
            return word_parse(TYPE_TIER, text, &(uint64_t){0}, err);
    }
}

enum tier wish_weakest(const struct tier_wish *w)
{
    enum tier weakest = w->tiers[0];
    for (unsigned i = 1; i < w->count; i++)
        if (w->tiers[i] < weakest)
            weakest = w->tiers[i];
    return weakest;
}

bool wish_same(const struct tier_wish *a, const struct tier_wish *b)
{
    return a->count == b->count && memcmp(a->tiers, b->tiers, a->count * sizeof a->tiers[0]) == 0;
}

void wish_text(const struct tier_wish *w, struct buf *out)
{
    for (unsigned i = 0; i < w->count; i++)
        buf_fmt(out, "%s%s", i ? ", " : "", tier_name(w->tiers[i]));
}
