/* Any bytes as a plan: refused, or every operation lies within the block and encodes to the same
 * bytes again. */
#include "plan/plan.h"
#include "plan/wire.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check_inside(const void *part, size_t len, const uint8_t *data, size_t size)
{
    const uint8_t *at = part;
    require(at >= data && len <= size && (size_t)(at - data) <= size - len);
}

static void check_op(const struct op *op, const uint8_t *data, size_t size)
{
    require(op->kind > OP_NONE && op->kind < OP_KIND_COUNT && strcmp(op_name(op->kind), "?") != 0);
    if (op->a)
        check_inside(op->a, strlen(op->a) + 1, data, size);
    if (op->b)
        check_inside(op->b, strlen(op->b) + 1, data, size);
    require(!op->data == !op->data_len);
    if (op->data)
        check_inside(op->data, op->data_len, data, size);
}

/* Two plans that decode to the same; the padding, which nobody reads, may differ. */
static void check_same(const struct plan *again, const uint8_t *data, size_t size)
{
    struct plan_reader r1, r2;
    struct op a, b;
    require(again->bytes.len == size);
    require(plan_read_begin(&r1, data, size, NULL) == 0 &&
            plan_read_begin(&r2, again->bytes.data, size, NULL) == 0);
    while (plan_read_next(&r1, &a, NULL) > 0) {
        require(plan_read_next(&r2, &b, NULL) == 1);
        require(a.kind == b.kind && a.data_len == b.data_len &&
                memcmp(a.num, b.num, sizeof a.num) == 0);
        require(!a.a == !b.a && (!a.a || strcmp(a.a, b.a) == 0) && !a.b == !b.b &&
                (!a.b || strcmp(a.b, b.b) == 0));
        require(!a.data_len || memcmp(a.data, b.data, a.data_len) == 0);
    }
    require(plan_read_next(&r2, &b, NULL) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct plan_reader reader;
    struct plan again;
    struct op op;
    struct err err = ERR_INIT;
    struct buf text;
    plan_init(&again);
    int got = plan_read_begin(&reader, data, size, &err);
    while (got >= 0 && (got = plan_read_next(&reader, &op, &err)) > 0) {
        check_op(&op, data, size);
        plan_add(&again, &op);
    }
    require(got == 0 || err.code == ERR_PROTOCOL);
    if (got == 0) {
        require(plan_finish(&again, NULL) == 0);
        check_same(&again, data, size);
    }
    buf_init(&text, 1 << 24);
    require((plan_text(data, size, &text, NULL) == 0) == (got == 0));
    buf_done(&text);
    plan_done(&again);
    return 0;
}
