/* An escape never claims more text than there is, and what is cut short is never read in another
 * way: more text can only decide what was open. */
#include "credentials/escape_parse.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

static int heads;
static char first, second;

static void on_head(void *ctx, char a, char b)
{
    (void)ctx;
    heads += a == first && b == second;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    uint8_t whole = 0, part = 0;
    int len = escape_read(text, size, &whole);
    require(len <= (int)size && len <= ESCAPE_MAX && len != 1);
    require(len >= 0 || size < ESCAPE_MAX);
    if (size > 0 && len != 0)
        require(escape_starts(data[0]));
    for (size_t cut = 0; cut < size && cut <= ESCAPE_MAX; cut++) {
        int shorter = escape_read(text, cut, &part);
        require(shorter <= (int)cut);
        require(shorter <= 0 ? shorter < 0 || len == 0 || cut == 0
                             : shorter == len && part == whole);
    }
    /* The filter in front of the automaton knows how it begins; line breaks begin nothing. */
    if (len > 0 && whole != '\n' && whole != '\r') {
        heads = 0;
        first = text[0];
        second = text[1];
        escape_heads(whole, on_head, NULL);
        require(heads > 0);
    }
    return 0;
}
