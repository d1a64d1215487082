/* Placeholders: what the code inside sees instead of a secret. Random, so that the one of another
 * run is worth nothing, and recognisable, so that nobody takes it for a credential. */
#include "policy/egress/internal.h"

#include "base/hex.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define RANDOM_BYTES 20
#define PREFIX       "brig_placeholder_"

static int make_one(char **ret, struct err *err)
{
    uint8_t bytes[RANDOM_BYTES];
    size_t size = sizeof PREFIX + 2 * sizeof bytes;
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return err_sys(err, "getrandom");
    char *text = malloc(size);
    if (!text)
        return err_memory(err);
    memcpy(text, PREFIX, sizeof PREFIX);
    hex_encode(bytes, sizeof bytes, text + sizeof PREFIX - 1);
    free(*ret);
    *ret = text;
    return 0;
}

int egress_make_placeholders(struct egress *e, struct err *err)
{
    for (size_t i = 0; i < e->secret_count; i++) {
        if (e->secrets[i].hidden)
            continue;
        int r = make_one(&e->secrets[i].placeholder, err);
        if (r < 0)
            return r;
    }
    return 0;
}
