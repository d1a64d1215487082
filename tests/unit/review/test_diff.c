/* Comparing texts: patching one with what was found gives the other, and small differences are
 * found as what they are. */
#include "review/diff.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct patch {
    struct buf old, new, text;
    size_t changed;
};

static void collect(void *ctx, char kind, const char *text, size_t len, bool unended)
{
    struct patch *p = ctx;
    buf_chr(&p->text, kind);
    buf_add(&p->text, text, len);
    buf_str(&p->text, unended ? "$" : "\n");
    p->changed += kind == '-' || kind == '+';
    for (int i = 0; i < 2; i++) {
        struct buf *side = i ? &p->new : &p->old;
        if (kind == ' ' || kind == (i ? '+' : '-')) {
            buf_add(side, text, len);
            buf_str(side, unended ? "" : "\n");
        }
    }
}

/* With a context as large as the text, the hunks hold both texts whole. */
static size_t check(const char *a, size_t a_len, const char *b, size_t b_len, struct buf *out)
{
    struct diff d;
    struct err err = ERR_INIT;
    struct patch p = {0};
    buf_init(&p.old, 1u << 26);
    buf_init(&p.new, 1u << 26);
    buf_init(&p.text, 1u << 26);
    cr_assert_eq(diff_make(&d, a, a_len, b, b_len, &err), 0, "%s", err.message);
    diff_walk(&d, a_len + b_len, collect, &p);
    if (p.changed) {
        cr_assert(p.old.len == a_len && memcmp(buf_text(&p.old), a, a_len) == 0, "old text");
        cr_assert(p.new.len == b_len &&memcmp(buf_text(&p.new), b, b_len) == 0, "new text");
    } else {
        cr_assert(a_len == b_len && memcmp(a, b, a_len) == 0, "differ, but no change found");
    }
    if (out)
        *out = p.text;
    else
        buf_done(&p.text);
    buf_done(&p.old);
    buf_done(&p.new);
    diff_done(&d);
    return p.changed;
}

static size_t check_text(const char *a, const char *b)
{
    return check(a, strlen(a), b, strlen(b), NULL);
}

Test(diff, finds_the_fewest_lines)
{
    cr_assert_eq(check_text("", ""), 0);
    cr_assert_eq(check_text("a\n", "a\n"), 0);
    cr_assert_eq(check_text("", "a\n"), 1);
    cr_assert_eq(check_text("a\n", ""), 1);
    cr_assert_eq(check_text("a", "a\n"), 2);
    cr_assert_eq(check_text("a\nb\nc\n", "a\nc\n"), 1);
    cr_assert_eq(check_text("a\nb\nc\na\nb\nb\na\n", "c\nb\na\nb\na\nc\n"), 5);
    cr_assert_eq(check_text("a\nb\n", "b\na\n"), 2);
    cr_assert_eq(check_text("x\n\n\ny\n", "x\n\ny\n"), 1);
}

Test(diff, hunks_have_their_context)
{
    struct diff d;
    struct patch p = {0};
    buf_init(&p.old, 4096);
    buf_init(&p.new, 4096);
    buf_init(&p.text, 4096);
    const char *a = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n",
               *b = "1\n2\n3\n4\nx\n6\n7\n8\n9\n10\n11\ny";
    cr_assert_eq(diff_make(&d, a, strlen(a), b, strlen(b), NULL), 0);
    diff_walk(&d, 1, collect, &p);
    cr_assert_str_eq(buf_text(&p.text),
                     "@@@ -4,3 +4,3 @@\n 4\n-5\n+x\n 6\n@@@ -11,2 +11,2 @@\n 11\n-12\n+y$");
    buf_done(&p.old);
    buf_done(&p.new);
    buf_done(&p.text);
    diff_done(&d);
}

static uint32_t next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static size_t random_text(char *out, size_t lines, unsigned kinds, uint32_t *state)
{
    size_t len = 0;
    for (size_t i = 0; i < lines; i++)
        len += (size_t)sprintf(out + len, "%u\n", next(state) % kinds);
    return len;
}

/* The length of the longest common subsequence, the slow way. */
static size_t shortest(const char *a, const char *b)
{
    static uint16_t table[64][64];
    const char *x[64], *y[64];
    size_t n = 0, m = 0;
    for (const char *p = a; *p; p = strchr(p, '\n') + 1)
        x[n++] = p;
    for (const char *p = b; *p; p = strchr(p, '\n') + 1)
        y[m++] = p;
    for (size_t i = 0; i <= n; i++)
        for (size_t j = 0; j <= m; j++) {
            bool same = i && j && strcspn(x[i - 1], "\n") == strcspn(y[j - 1], "\n") &&
                        strncmp(x[i - 1], y[j - 1], strcspn(x[i - 1], "\n")) == 0;
            uint16_t up = i ? table[i - 1][j] : 0, left = j ? table[i][j - 1] : 0;
            table[i][j] = same ? (uint16_t)(table[i - 1][j - 1] + 1) : up > left ? up : left;
        }
    return n + m - 2u * table[n][m];
}

Test(diff, agrees_with_the_slow_way)
{
    uint32_t state = 7;
    char a[512], b[512];
    for (int round = 0; round < 3000; round++) {
        unsigned kinds = 1 + next(&state) % 6;
        size_t a_len = random_text(a, next(&state) % 40, kinds, &state);
        size_t b_len = random_text(b, next(&state) % 40, kinds, &state);
        a[a_len] = b[b_len] = '\0';
        cr_assert_eq(check(a, a_len, b, b_len, NULL), shortest(a, b), "round %d\n%s---\n%s", round,
                     a, b);
    }
}

/* Nothing in common, everything alike, two lines in turn: right, and soon. */
Test(diff, large_and_hostile)
{
    size_t lines = 60000;
    char *a = malloc(lines * 8), *b = malloc(lines * 8);
    uint32_t state = 3;
    size_t a_len = random_text(a, lines, 1000000, &state),
           b_len = random_text(b, lines, 1000000, &state);
    check(a, a_len, b, b_len, NULL);
    a_len = random_text(a, lines, 2, &state);
    b_len = random_text(b, lines, 2, &state);
    check(a, a_len, b, b_len, NULL);
    a_len = random_text(a, lines, 1, &state);
    b_len = random_text(b, lines / 2, 1, &state);
    cr_assert_eq(check(a, a_len, b, b_len, NULL), lines - lines / 2);
    memset(a, '\n', lines);
    memset(b, 'x', lines);
    check(a, lines, b, lines, NULL);
    free(a);
    free(b);
}

Test(diff, tells_binary_from_text)
{
    cr_assert(!diff_is_binary("", 0));
    cr_assert(!diff_is_binary("text\n", 5));
    cr_assert(!diff_is_binary("\xff\xfe\x1b", 3));
    cr_assert(diff_is_binary("a\0b", 3));
}
