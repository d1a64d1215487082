/* Any bytes as a kernel's file: what is accepted lies where the page tables of the start reach, and
 * its header is inside of what was given. */
#include "guests/bzimage.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1); /* of exactly that size: a sanitizer sees its end */
    struct bzimage image;
    char why_not[128] = "";
    if (!copy)
        abort();
    memcpy(copy, data, size);
    if (!bzimage_parse(copy, size, &image, why_not)) {
        if (!why_not[0])
            abort();
    } else if (BZIMAGE_HEADER + image.header_len > size || image.at < 1u << 20 ||
               image.at + image.room > 1u << 30 || image.payload % 512 ||
               BZIMAGE_HEADER + image.header_len > 0x2d0) /* what follows it in memory */
        abort();
    free(copy);
    return 0;
}
