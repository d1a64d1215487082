/* Names of headers and of query members as the most lenient servers read them, so that one listed
 * name stands for all the ways to write it: without case; whatever is neither letter nor digit is
 * one '-' (CGI and its descendants turn both '-' and '_' into '_', some of them every other byte as
 * well); none at the ends. In queries also percent-decoded, '+' is a blank. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define NAME_MAX_FOLDED 192 /* what is longer is cut: no server knows such a name */

struct folded {
    char text[NAME_MAX_FOLDED];  /* "x-api-key" */
    char tight[NAME_MAX_FOLDED]; /* "xapikey" */
    bool marked; /* it began with something else than a letter, a digit or a blank: "_method" */
};
void name_fold(const char *name, size_t len, bool query, struct folded *ret);
bool name_same(const struct folded *a, const char *listed); /* as a whole */
/* Is this one of its words: "key" of "x-api-key", not of "x-keyboard"? */
bool name_has_word(const struct folded *a, const char *word);
/* Does it stand anywhere in it, borders aside: "apikey" in "x-api-key"? */
bool name_has_part(const struct folded *a, const char *part);

/* The members of a query, also parted by ';': the next one at *at, or false at the end. A member's
 * name reaches up to its first '='. */
struct query_member {
    const char *text;
    size_t len, name_len;
};
bool query_member_next(const char **at, struct query_member *ret);
