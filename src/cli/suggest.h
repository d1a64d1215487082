/* "Did you mean …?": the candidate nearest to a mistyped word, if any is near enough to be worth
 * saying. */
#pragma once

struct suggest {
    const char *word;
    const char *best;
    unsigned distance;
};

void suggest_init(struct suggest *s, const char *word);
void suggest_offer(struct suggest *s, const char *candidate);
/* Offers each of the words, which are separated by spaces; returns the nearest in `out`, or NULL.
 */
const char *suggest_from_words(const char *word, const char *words, char *out, unsigned size);
