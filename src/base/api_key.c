/* Tells what an API key of the daemon looks like, and where one stands in a text. */
#include "base/api_key.h"

#include <string.h>

#define DIGITS_MIN 32 /* fewer than 128 bits can be guessed */
#define DIGITS_MAX 96
#define OLD_PREFIX "brig_"
#define OLD_CHARS  43
#define CUT_MIN    16 /* of a cut one so much is left that it is worth hiding */

static const char hex[] = "0123456789abcdef";
static const char base64url[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

_Static_assert(API_KEY_SIZE > sizeof API_KEY_PREFIX + DIGITS_MAX, "the longest fits");

static const char *after(const char *text, const char *prefix)
{
    size_t len = strlen(prefix);
    return strncmp(text, prefix, len) == 0 ? text + len : NULL;
}

bool api_key_ok(const char *text)
{
    const char *rest = after(text, API_KEY_PREFIX);
    if (rest) {
        size_t len = strspn(rest, hex);
        return !rest[len] && len >= DIGITS_MIN && len <= DIGITS_MAX;
    }
    rest = after(text, OLD_PREFIX);
    return rest && strspn(rest, base64url) == OLD_CHARS && !rest[OLD_CHARS];
}

size_t api_key_at(const char *p)
{
    const char *rest = after(p, API_KEY_PREFIX);
    size_t len = rest ? strspn(rest, hex) : 0;
    if (!rest && (rest = after(p, OLD_PREFIX)))
        len = strspn(rest, base64url);
    return len >= CUT_MIN ? (size_t)(rest - p) + len : 0;
}

bool api_key_within(const char *text)
{
    for (; *text; text++) {
        if (api_key_at(text))
            return true;
    }
    return false;
}
