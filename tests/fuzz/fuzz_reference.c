/* Names of images. What is taken has one spelling, which is taken again, and nothing in it that a
 * path or another program could understand otherwise. */
#include "policy/reference.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = ERR_INIT;
    struct reference ref, again;
    char *text = strndup((const char *)data, size);
    if (!text)
        return 0;
    if (reference_parse(text, &ref, &err) < 0) {
        if (!err.message[0])
            abort();
        free(text);
        return 0;
    }
    if (reference_parse(ref.name, &again, &err) < 0 || strcmp(ref.name, again.name) != 0 ||
        ref.name[0] == '-' || ref.name[0] == '/' || strstr(ref.name, "/.") ||
        strstr(ref.name, "./") || strpbrk(ref.name, "@ \t\n\\") ||
        (ref.digest[0] && !digest_valid(ref.digest)))
        abort();
    free(text);
    return 0;
}
