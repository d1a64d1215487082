/* Finds the known word that is nearest to a mistyped one. */
#include "cli/suggest.h"

#include <string.h>

#define WORD_MAX 32

static unsigned smallest(unsigned a, unsigned b, unsigned c)
{
    unsigned m = a < b ? a : b;
    return m < c ? m : c;
}

/* Edits between two short words; neighbouring letters swapped count once, since that is how fingers
 * err. */
static unsigned distance(const char *a, unsigned la, const char *b, unsigned lb)
{
    unsigned row[WORD_MAX + 1][WORD_MAX + 1];
    for (unsigned i = 0; i <= la; i++)
        row[i][0] = i;
    for (unsigned j = 0; j <= lb; j++)
        row[0][j] = j;
    for (unsigned i = 1; i <= la; i++) {
        for (unsigned j = 1; j <= lb; j++) {
            unsigned cost = a[i - 1] != b[j - 1];
            row[i][j] = smallest(row[i - 1][j] + 1, row[i][j - 1] + 1, row[i - 1][j - 1] + cost);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                row[i - 2][j - 2] + 1 < row[i][j])
                row[i][j] = row[i - 2][j - 2] + 1;
        }
    }
    return row[la][lb];
}

void suggest_init(struct suggest *s, const char *word)
{
    /* A third of the letters may be wrong, and at least one. */
    size_t len = strlen(word);
    unsigned allowed = len < 4 ? 1 : (unsigned)(len > WORD_MAX ? 0 : len / 3 + 1);
    *s = (struct suggest){.word = word, .distance = allowed + 1};
}

void suggest_offer(struct suggest *s, const char *candidate)
{
    size_t lw = strlen(s->word);
    size_t lc = strlen(candidate);
    if (lw == 0 || lw > WORD_MAX || lc == 0 || lc > WORD_MAX)
        return;
    unsigned d;
    if (lw >= 2 && strncmp(candidate, s->word, lw) == 0)
        d = 1; /* an abbreviation */
    else
        d = distance(s->word, (unsigned)lw, candidate, (unsigned)lc);
    /* A word with no letter in common with the candidate is no typing error. */
    if (d < s->distance && d < lw && d < lc) {
        s->distance = d;
        s->best = candidate;
    }
}

const char *suggest_from_words(const char *word, const char *words, char *out, unsigned size)
{
    struct suggest s;
    char candidate[WORD_MAX + 1];
    suggest_init(&s, word);
    out[0] = '\0';
    for (const char *w = words; *w;) {
        size_t len = strcspn(w, " ");
        if (len > 0 && len <= WORD_MAX && len < size) {
            memcpy(candidate, w, len);
            candidate[len] = '\0';
            s.best = NULL;
            suggest_offer(&s, candidate);
            if (s.best)
                memcpy(out, candidate, len + 1);
        }
        w += len;
        w += strspn(w, " ");
    }
    return out[0] ? out : NULL;
}
