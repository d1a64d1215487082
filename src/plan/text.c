/* A plan as text: one operation per line with the names of its parts. */
#include "plan/plan.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

struct labels {
    const char *a, *b, *num[4];
};

static const struct labels labels[OP_KIND_COUNT] = {
#define OP(id, text, owner, la, lb, n0, n1, n2, n3) [OP_##id] = {la, lb, {n0, n1, n2, n3}},
    PLAN_OPS(OP)
#undef OP
};

static void quoted(struct buf *out, const char *s)
{
    buf_chr(out, '"');
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            buf_fmt(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            buf_fmt(out, "\\x%02x", c);
        else
            buf_chr(out, *s);
    }
    buf_chr(out, '"');
}

static void number(struct buf *out, const char *label, uint64_t n)
{
    if (strcmp(label, "mode") == 0)
        buf_fmt(out, " %s=%04" PRIo64, label, n);
    else if (strcmp(label, "fs") == 0 || strcmp(label, "access") == 0 ||
             strcmp(label, "flags") == 0)
        buf_fmt(out, " %s=0x%" PRIx64, label, n);
    else if (n == UINT64_MAX)
        buf_fmt(out, " %s=-", label);
    else
        buf_fmt(out, " %s=%" PRIu64, label, n);
}

/* Parts that almost no plan has are printed only where they are set. */
static bool is_rare(const char *label)
{
    return strcmp(label, "keep") == 0 || strcmp(label, "whole") == 0 ||
           strcmp(label, "own-clock") == 0 || strcmp(label, "code") == 0 ||
           strcmp(label, "socket-buffer") == 0 || strcmp(label, "writable") == 0 ||
           strcmp(label, "anew") == 0 || strcmp(label, "owner") == 0 ||
           strcmp(label, "for-now") == 0;
}

static void line(struct buf *out, const struct op *op)
{
    const struct labels *l = &labels[op->kind];
    buf_fmt(out, "%-11s %s", boundary_name(op_boundary(op->kind)), op_name(op->kind));
    if (l->a && op->a) {
        buf_fmt(out, " %s=", l->a);
        quoted(out, op->a);
    }
    if (l->b && op->b) {
        buf_fmt(out, " %s=", l->b);
        quoted(out, op->b);
    }
    for (int i = 0; i < 4; i++)
        if (l->num[i] && (op->num[i] || !is_rare(l->num[i])))
            number(out, l->num[i], op->num[i]);
    if (op->data_len)
        buf_fmt(out, " (%zu bytes)", op->data_len);
    buf_chr(out, '\n');
}

int plan_text(const void *bytes, size_t len, struct buf *out, struct err *err)
{
    struct plan_reader r;
    struct op op;
    int got = plan_read_begin(&r, bytes, len, err);
    while (got >= 0 && (got = plan_read_next(&r, &op, err)) > 0)
        line(out, &op);
    return got;
}
