/* A packed upload in pieces, of sizes that the first two bytes choose: each step takes or makes
 * something or says that it needs more, what comes out fits, and after an error or the end nothing
 * more comes. */
#include "daemon/e2b/gunzip.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A bomb unpacks to a thousand times its size; that is its reader's to limit. */
#define OUT_MAX (4u << 20)

static void require(int condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gunzip *g;
    char out[4096];
    size_t made_in_all = 0;
    if (size < 2 || gunzip_new(&g, NULL) < 0)
        return 0;
    size_t piece = 1 + data[0], room = 1 + data[1] * 16u;
    for (size_t at = 2; (at < size || gunzip_has_more(g)) && made_in_all < OUT_MAX;) {
        size_t len = size - at < piece ? size - at : piece, taken = 0, made = 0;
        bool more = gunzip_has_more(g);
        struct err err = ERR_INIT;
        if (gunzip_step(g, (const char *)data + at, len, &taken, out, room, &made, &err) < 0) {
            require(err.code != ERR_NONE && err.message[0]);
            break;
        }
        require(taken <= len && made <= room);
        require(taken > 0 || made > 0 || more); /* it goes on */
        at += taken;
        made_in_all += made;
        if (gunzip_complete(g))
            require(!gunzip_has_more(g));
    }
    gunzip_free(g);
    return 0;
}
