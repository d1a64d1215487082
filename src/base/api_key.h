/* What an API key of the daemon looks like. Used where one is made, where one is read from a file,
 * and where none may pass (records, requests to a sandbox's own ports). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* That are good at the same time; those that were revoked do not count. */
#define API_KEYS_MAX 4096

#define API_KEY_SIZE   112    /* of the longest, and its end */
#define API_KEY_PREFIX "e2b_" /* then hexadecimal digits: clients refuse anything else unasked */
#define API_KEY_DIGITS 40     /* of one that is made here: 160 random bits */

/* Is the text a key, whole? Either form: API_KEY_PREFIX and 32 to 96 digits in lower case, as brig
 * makes them or as an operator brings them, or "brig_" and 43 characters, as brig made them once.
 */
bool api_key_ok(const char *text);
/* How many bytes at p are a key, cut or whole; 0: it is none. */
size_t api_key_at(const char *p);
/* Does one stand anywhere in the text? */
bool api_key_within(const char *text);
