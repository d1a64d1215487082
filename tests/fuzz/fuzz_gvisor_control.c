/* Any bytes as what the Sentry answers, in pieces of any size: the answer does not depend on how it
 * was cut, and what is printed of it is printable. */
#include "engines/gvisor/gvisor.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct control_answer whole, part;
    int all = control_parse((const char *)data, size, &whole);
    for (const char *c = whole.why; *c; c++)
        if (*c < ' ' || *c > '~')
            abort();
    if (strlen(whole.why) >= sizeof whole.why)
        abort();
    /* What a piece already decides stays. */
    for (size_t n = size > 256 ? size - 256 : 0; n < size; n++) {
        int some = control_parse((const char *)data, n, &part);
        if (some == 0)
            continue;
        if ((some > 0) != (all > 0) || part.success != whole.success ||
            part.result != whole.result || strcmp(part.why, whole.why) != 0)
            abort();
    }
    return 0;
}
