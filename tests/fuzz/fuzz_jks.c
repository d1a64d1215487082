/* Any bytes as a Java keystore: what is accepted ends 20 bytes before its end and holds no more
 * entries than there is room for. */
#include "trust/stores.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    uint32_t count;
    size_t end;
    if (!copy)
        abort();
    memcpy(copy, data, size);
    if (jks_check(copy, size, &count, &end, NULL) == 0 &&
        (end + 20 != size || (size - 32) / 25 < count || memcmp(copy, "\xfe\xed\xfe\xed", 4) != 0))
        abort();
    free(copy);
    return 0;
}
