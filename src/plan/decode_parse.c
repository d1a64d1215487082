/* Reads a plan. No heap, no I/O: it runs in init, and its fuzzer is tests/fuzz/fuzz_plan.c. */
#include "plan/plan.h"
#include "plan/wire.h"

#include <string.h>

int plan_read_begin(struct plan_reader *r, const void *bytes, size_t len, struct err *err)
{
    struct wire_head head;
    if (len < sizeof head || len > PLAN_MAX_BYTES)
        return err_set(err, ERR_PROTOCOL, "plan of %zu bytes", len);
    memcpy(&head, bytes, sizeof head);
    if (head.magic != PLAN_MAGIC || head.count > PLAN_MAX_OPS)
        return err_set(err, ERR_PROTOCOL, "plan with a wrong header");
    r->at = (const uint8_t *)bytes + sizeof head;
    r->end = (const uint8_t *)bytes + len;
    r->left = head.count;
    return 0;
}

/* A string field: present, long enough for its NUL, with exactly one NUL at its end. */
static int take_string(const uint8_t **at, uint32_t len, const char **ret)
{
    *ret = NULL;
    if (len == 0)
        return 0;
    const char *s = (const char *)*at;
    if (memchr(s, '\0', len) != s + len - 1)
        return -ERR_PROTOCOL;
    *ret = s;
    *at += len;
    return 0;
}

int plan_read_next(struct plan_reader *r, struct op *op, struct err *err)
{
    if (r->left == 0)
        return r->at == r->end ? 0 : err_set(err, ERR_PROTOCOL, "plan with trailing bytes");
    struct wire_op w;
    size_t room = (size_t)(r->end - r->at);
    if (room < sizeof w)
        return err_set(err, ERR_PROTOCOL, "plan is cut short");
    memcpy(&w, r->at, sizeof w);
    uint64_t body = (uint64_t)w.a_len + w.b_len + w.data_len;
    uint64_t padded = (body + 7) & ~(uint64_t)7;
    if (w.kind == OP_NONE || w.kind >= OP_KIND_COUNT || padded > room - sizeof w)
        return err_set(err, ERR_PROTOCOL, "plan with a malformed operation %u", w.kind);

    const uint8_t *at = r->at + sizeof w;
    *op = (struct op){.kind = w.kind, .data_len = w.data_len};
    memcpy(op->num, w.num, sizeof op->num);
    if (take_string(&at, w.a_len, &op->a) < 0 || take_string(&at, w.b_len, &op->b) < 0)
        return err_set(err, ERR_PROTOCOL, "plan with a malformed string in %s", op_name(op->kind));
    op->data = w.data_len ? at : NULL;
    r->at += sizeof w + padded;
    r->left--;
    return 1;
}

struct op_info {
    const char *name;
    enum boundary_id boundary;
};

static const struct op_info infos[OP_KIND_COUNT] = {
#define OP(id, text, owner, ...) [OP_##id] = {text, BOUNDARY_##owner},
    PLAN_OPS(OP)
#undef OP
};

const char *op_name(enum op_kind kind)
{
    return kind > OP_NONE && kind < OP_KIND_COUNT ? infos[kind].name : "?";
}

enum boundary_id op_boundary(enum op_kind kind)
{
    return kind > OP_NONE && kind < OP_KIND_COUNT ? infos[kind].boundary : BOUNDARY_NONE;
}
