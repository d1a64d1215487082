/* Any bytes as what a daemon answers, in pieces of any size: the same messages come out however it
 * was cut. */
#include "mcp/answer.h"

#include <stdlib.h>
#include <string.h>

static void require(int condition)
{
    if (!condition)
        abort();
}

struct sum {
    uint64_t value;
    unsigned count;
};

static void on_message(void *ctx, const char *text, size_t len)
{
    struct sum *s = ctx;
    require(len > 0 && text[len] == '\0');
    s->count++;
    for (size_t i = 0; i < len; i++)
        s->value = (s->value ^ (unsigned char)text[i]) * 1099511628211u;
}

static struct sum feed(const uint8_t *data, size_t size, size_t piece, int *ret_good)
{
    struct mcp_answer a;
    struct sum s = {0};
    int r = 0;
    answer_init(&a, on_message, &s);
    for (size_t at = 0, n; at < size && r >= 0; at += n) {
        n = size - at < piece ? size - at : piece;
        r = answer_feed(&a, (const char *)data + at, n, NULL);
    }
    *ret_good = r >= 0 && answer_close(&a, NULL) >= 0;
    require(!*ret_good || (a.done && a.status >= 200 && a.status <= 999));
    answer_done(&a);
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first byte says how large the pieces are. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int whole_good, cut_good;
    if (size < 1)
        return 0;
    struct sum whole = feed(data + 1, size - 1, size, &whole_good);
    struct sum cut = feed(data + 1, size - 1, (size_t)data[0] + 1, &cut_good);
    require(whole_good == cut_good);
    require(!whole_good || (whole.value == cut.value && whole.count == cut.count));
    return 0;
}
