/* Two texts, cut at the first NUL: the lines that are kept and added give the second, those that
 * are kept and removed the first. */
#include "review/diff.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct sides {
    struct buf old, new;
    size_t changed;
};

static void collect(void *ctx, char kind, const char *text, size_t len, bool unended)
{
    struct sides *s = ctx;
    s->changed += kind == '-' || kind == '+';
    if (kind == ' ' || kind == '-') {
        buf_add(&s->old, text, len);
        buf_str(&s->old, unended ? "" : "\n");
    }
    if (kind == ' ' || kind == '+') {
        buf_add(&s->new, text, len);
        buf_str(&s->new, unended ? "" : "\n");
    }
}

static void require(int condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct diff d;
    struct sides s = {0};
    const char *a = (const char *)data;
    const char *cut = size ? memchr(a, '\0', size) : NULL;
    size_t a_len = cut ? (size_t)(cut - a) : size / 2;
    const char *b = cut ? cut + 1 : a + a_len;
    size_t b_len = size - (size_t)(b - a);
    buf_init(&s.old, size + 16);
    buf_init(&s.new, size + 16);
    require(diff_make(&d, a, a_len, b, b_len, NULL) == 0);
    diff_walk(&d, size, collect, &s);
    if (s.changed) {
        require(s.old.len == a_len && (!a_len || memcmp(s.old.data, a, a_len) == 0));
        require(s.new.len == b_len && (!b_len || memcmp(s.new.data, b, b_len) == 0));
    } else {
        require(a_len == b_len && (!a_len || memcmp(a, b, a_len) == 0));
    }
    diff_walk(&d, 3, collect, &s);
    buf_done(&s.old);
    buf_done(&s.new);
    diff_done(&d);
    return 0;
}
