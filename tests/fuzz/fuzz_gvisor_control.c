/* Any bytes as what the Sentry answers, in pieces of any size: the answer does not depend on how it
 * was cut, and what is printed of it is printable. And as the word of a leader. */
#include "engines/gvisor/gvisor.h"
#include "engines/gvisor/lead.h"

#include <stdlib.h>
#include <string.h>

static void try_word(const uint8_t *data, size_t size)
{
    struct lead_word word;
    if (lead_word_parse(data, size, &word) < 0)
        return;
    if (size != sizeof word || word.stage < LEAD_STARTED || word.stage >= LEAD_STAGE_COUNT ||
        word.why <= 0 || !strerror(word.why))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct control_answer whole, part;
    int all = control_parse((const char *)data, size, &whole);
    for (const char *c = whole.why; *c; c++)
        if (*c < ' ' || *c > '~')
            abort();
    if (strlen(whole.why) >= sizeof whole.why || whole.len > size || (all > 0) != (whole.len > 0))
        abort();
    for (size_t n = 0; n <= size && n <= sizeof(struct lead_word) + 1; n++)
        try_word(data, n);
    /* What a piece already decides stays. */
    for (size_t n = size > 256 ? size - 256 : 0; n < size; n++) {
        int some = control_parse((const char *)data, n, &part);
        if (some == 0)
            continue;
        if ((some > 0) != (all > 0) || part.success != whole.success ||
            part.result != whole.result || part.len != whole.len ||
            strcmp(part.why, whole.why) != 0)
            abort();
    }
    return 0;
}
