/* Writes operations into the block of bytes that init reads. */
#include "plan/plan.h"
#include "plan/wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Most plans are smaller: one allocation instead of seven. */
#define PLAN_USUAL_BYTES (24u << 10)

void plan_init(struct plan *p)
{
    buf_init(&p->bytes, PLAN_MAX_BYTES);
    p->count = 0;
    struct wire_head head = {.magic = PLAN_MAGIC};
    buf_room(&p->bytes, PLAN_USUAL_BYTES);
    buf_add(&p->bytes, &head, sizeof head);
}

void plan_done(struct plan *p)
{
    buf_done(&p->bytes);
}

static uint32_t string_len(const char *s)
{
    size_t len = s ? strlen(s) + 1 : 0;
    return len > PLAN_MAX_BYTES ? PLAN_MAX_BYTES + 1 : (uint32_t)len;
}

void plan_add(struct plan *p, const struct op *op)
{
    struct wire_op w = {
        .kind = op->kind,
        .a_len = string_len(op->a),
        .b_len = string_len(op->b),
        .data_len = op->data_len > PLAN_MAX_BYTES ? PLAN_MAX_BYTES + 1 : (uint32_t)op->data_len,
    };
    memcpy(w.num, op->num, sizeof w.num);
    buf_add(&p->bytes, &w, sizeof w);
    buf_add(&p->bytes, op->a, w.a_len);
    buf_add(&p->bytes, op->b, w.b_len);
    buf_add(&p->bytes, op->data, w.data_len);
    static const char zeros[8];
    buf_add(&p->bytes, zeros, -p->bytes.len & 7);
    p->count++;
}

int plan_finish(struct plan *p, struct err *err)
{
    if (p->bytes.failed || p->count > PLAN_MAX_OPS) {
        err_set(err, ERR_LIMIT, "the plan for this sandbox is too large (%u operations)", p->count);
        return err_hint(err, "pass fewer or shorter arguments, environment variables or folders");
    }
    struct wire_head head = {.magic = PLAN_MAGIC, .count = p->count};
    memcpy(p->bytes.data, &head, sizeof head);
    return 0;
}

void plan_op(struct plan *p, enum op_kind kind)
{
    plan_add(p, &(struct op){.kind = kind});
}

void plan_num(struct plan *p, enum op_kind kind, uint64_t n0, uint64_t n1, uint64_t n2)
{
    plan_add(p, &(struct op){.kind = kind, .num = {n0, n1, n2}});
}

void plan_arg(struct plan *p, const char *text)
{
    plan_str(p, OP_ARG, text, NULL, 0);
}

void plan_arg_number(struct plan *p, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    plan_arg(p, text);
}

void plan_str(struct plan *p, enum op_kind kind, const char *a, const char *b, uint64_t n0)
{
    plan_add(p, &(struct op){.kind = kind, .a = a, .b = b, .num = {n0}});
}
