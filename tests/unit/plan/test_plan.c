/* The plan between host and init: what is encoded comes out again, and nothing malformed comes in.
 */
#include "base/cleanup.h"
#include "plan/plan.h"
#include "plan/wire.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

static void finish(struct plan *p)
{
    cr_assert_eq(plan_finish(p, NULL), 0);
}

static int read_all(const void *bytes, size_t len, struct err *err)
{
    struct plan_reader r;
    struct op op;
    int got = plan_read_begin(&r, bytes, len, err);
    while (got >= 0 && (got = plan_read_next(&r, &op, err)) > 0)
        ;
    return got;
}

static void refused(const void *bytes, size_t len)
{
    struct err err = ERR_INIT;
    cr_assert_lt(read_all(bytes, len, &err), 0);
    cr_assert_eq(err.code, ERR_PROTOCOL);
    cr_assert(strncmp(err.message, "plan", 4) == 0, "%s", err.message);
}

/* ---- round trip ---- */

static void same_text(const char *a, const char *b)
{
    cr_assert_eq(!a, !b);
    if (a)
        cr_assert_str_eq(a, b);
}

Test(plan, every_kind_with_every_part_comes_back)
{
    struct plan p;
    plan_init(&p);
    static const char data[] = "\0odd\xff";
    struct op want[OP_KIND_COUNT];
    for (int kind = 1; kind < OP_KIND_COUNT; kind++) {
        want[kind] = (struct op){.kind = (enum op_kind)kind,
                                 .num = {0, 1, UINT64_MAX, (uint64_t)kind << 40},
                                 .a = kind % 3 ? "/some path/\xc3\xa4" : NULL,
                                 .b = kind % 2 ? "" : NULL,
                                 .data = kind % 5 ? data : NULL,
                                 .data_len = kind % 5 ? (size_t)kind % sizeof data : 0};
        plan_add(&p, &want[kind]);
    }
    finish(&p);
    struct plan_reader r;
    struct op op;
    cr_assert_eq(plan_read_begin(&r, p.bytes.data, p.bytes.len, NULL), 0);
    for (int kind = 1; kind < OP_KIND_COUNT; kind++) {
        cr_assert_eq(plan_read_next(&r, &op, NULL), 1);
        cr_assert_eq(op.kind, want[kind].kind);
        cr_assert_arr_eq(op.num, want[kind].num, sizeof op.num);
        same_text(op.a, want[kind].a);
        same_text(op.b, want[kind].b);
        cr_assert_eq(op.data_len, want[kind].data_len);
        cr_assert(op.data_len == 0 || memcmp(op.data, want[kind].data, op.data_len) == 0);
    }
    cr_assert_eq(plan_read_next(&r, &op, NULL), 0);
    cr_assert_eq(plan_read_next(&r, &op, NULL), 0, "the end stays the end");
    plan_done(&p);
}

Test(plan, an_empty_plan_is_a_plan)
{
    struct plan p;
    plan_init(&p);
    finish(&p);
    cr_assert_eq(read_all(p.bytes.data, p.bytes.len, NULL), 0);
    plan_done(&p);
}

Test(plan, shorthands)
{
    struct plan p;
    struct plan_reader r;
    struct op op;
    plan_init(&p);
    plan_op(&p, OP_PIVOT);
    plan_num(&p, OP_ROOT, 1, 2, 3);
    plan_str(&p, OP_SYMLINK, "/a", "b", 0);
    finish(&p);
    plan_read_begin(&r, p.bytes.data, p.bytes.len, NULL);
    cr_assert(plan_read_next(&r, &op, NULL) == 1 && op.kind == OP_PIVOT && !op.a && !op.b &&
              !op.data);
    cr_assert(plan_read_next(&r, &op, NULL) == 1 && op.num[0] == 1 && op.num[2] == 3 &&
              op.num[3] == 0);
    cr_assert(plan_read_next(&r, &op, NULL) == 1 && strcmp(op.b, "b") == 0);
    plan_done(&p);
}

Test(plan, too_many_operations_are_refused_with_advice)
{
    struct plan p;
    struct err err = ERR_INIT;
    plan_init(&p);
    for (unsigned i = 0; i < PLAN_MAX_OPS; i++)
        plan_op(&p, OP_PIVOT);
    finish(&p);
    plan_op(&p, OP_PIVOT);
    cr_assert_lt(plan_finish(&p, &err), 0);
    cr_assert(err.code == ERR_LIMIT && err.hint[0]);
    plan_done(&p);
}

Test(plan, too_many_bytes_are_refused)
{
    struct plan p;
    struct err err = ERR_INIT;
    cleanup_free char *big = calloc(1, PLAN_MAX_BYTES + 16);
    plan_init(&p);
    memset(big, 'x', PLAN_MAX_BYTES + 8);
    plan_arg(&p, big);
    cr_assert_lt(plan_finish(&p, &err), 0);
    cr_assert_eq(err.code, ERR_LIMIT);
    plan_done(&p);
}

/* ---- malformed ---- */

/* One operation, with a header whose fields a test can bend. */
struct bytes {
    struct wire_head head;
    struct wire_op op;
    char body[32];
};

static struct bytes one_op(void)
{
    struct bytes b = {.head = {PLAN_MAGIC, 1},
                      .op = {.kind = OP_SYMLINK, .a_len = 3, .b_len = 2, .data_len = 3}};
    memcpy(b.body, "/a\0b\0xyz", 8);
    return b;
}

#define ONE_OP_LEN (sizeof(struct wire_head) + sizeof(struct wire_op) + 8)

Test(plan, control_the_operation_that_the_next_tests_bend_is_well_formed)
{
    struct bytes b = one_op();
    cr_assert_eq(read_all(&b, ONE_OP_LEN, NULL), 0);
}

Test(plan, every_shorter_and_longer_block_is_refused)
{
    struct bytes b = one_op();
    for (size_t len = 0; len < sizeof b; len++)
        if (len != ONE_OP_LEN)
            refused(&b, len);
}

Test(plan, a_wrong_header_is_refused)
{
    struct bytes b = one_op();
    b.head.magic ^= 1;
    refused(&b, ONE_OP_LEN);
    static const uint32_t counts[] = {0, 2, PLAN_MAX_OPS, PLAN_MAX_OPS + 1, UINT32_MAX};
    for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
        b = one_op();
        b.head.count = counts[i];
        refused(&b, ONE_OP_LEN);
    }
}

Test(plan, an_unknown_kind_is_refused)
{
    static const uint32_t kinds[] = {OP_NONE, OP_KIND_COUNT, 0x80000001, UINT32_MAX};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        struct bytes b = one_op();
        b.op.kind = kinds[i];
        refused(&b, ONE_OP_LEN);
    }
}

Test(plan, a_length_that_leads_outside_is_refused)
{
    static const uint32_t lengths[] = {9, 1000, 0x7fffffff, 0x80000000, UINT32_MAX - 7, UINT32_MAX};
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++)
        for (int part = 0; part < 4; part++) {
            struct bytes b = one_op();
            if (part == 0 || part == 3)
                b.op.a_len = lengths[i];
            if (part == 1 || part == 3)
                b.op.b_len = lengths[i];
            if (part == 2 || part == 3)
                b.op.data_len = lengths[i];
            refused(&b, ONE_OP_LEN);
        }
}

Test(plan, a_string_without_its_end_or_with_two_is_refused)
{
    struct bytes b = one_op();
    b.body[2] = 'x'; /* no NUL in a */
    refused(&b, ONE_OP_LEN);
    b = one_op();
    b.body[1] = '\0'; /* a NUL within a */
    refused(&b, ONE_OP_LEN);
    b = one_op();
    b.body[4] = 'x'; /* no NUL in b */
    refused(&b, ONE_OP_LEN);
}

Test(plan, a_block_larger_than_any_plan_is_refused)
{
    cleanup_free char *big = calloc(1, PLAN_MAX_BYTES + 1);
    struct wire_head head = {PLAN_MAGIC, 0};
    memcpy(big, &head, sizeof head);
    refused(big, PLAN_MAX_BYTES + 1);
}

/* ---- text ---- */

static void add_for_text(struct plan *p)
{
    plan_init(p);
    plan_str(p, OP_HOSTNAME, "brig", NULL, 0);
    plan_str(p, OP_DIR, "/tmp", NULL, 01777);
    plan_add(p, &(struct op){
                    .kind = OP_BIND, .a = "/a \"b\\\n", .b = "/d", .num = {5, UINT64_MAX, 7, 9}});
    plan_add(p, &(struct op){.kind = OP_SECCOMP, .num = {1}, .data = "12345678", .data_len = 8});
}

Test(plan, text_has_one_line_for_each_operation)
{
    struct plan p;
    cleanup_buf struct buf out;
    buf_init(&out, 4096);
    add_for_text(&p);
    finish(&p);
    cr_assert_eq(plan_text(p.bytes.data, p.bytes.len, &out, NULL), 0);
    cr_assert_str_eq(
        buf_text(&out),
        "kernel      hostname name=\"brig\"\n"
        "filesystem  dir path=\"/tmp\" mode=1777\n"
        "filesystem  bind source=\"/a \\\"b\\\\\\x0a\" dest=\"/d\" flags=0x5 fd=- dev=7 ino=9\n"
        "kernel      seccomp notify=1 (8 bytes)\n");
    plan_done(&p);
}

Test(plan, text_of_a_broken_plan_is_an_error)
{
    cleanup_buf struct buf out;
    struct bytes b = one_op();
    struct err err = ERR_INIT;
    buf_init(&out, 4096);
    b.op.kind = 9999;
    cr_assert_lt(plan_text(&b, ONE_OP_LEN, &out, &err), 0);
}

Test(plan, every_kind_has_a_name_and_an_owner)
{
    for (int kind = 1; kind < OP_KIND_COUNT; kind++) {
        cr_assert_str_neq(op_name((enum op_kind)kind), "?");
        cr_assert(kind == OP_ARG || op_boundary((enum op_kind)kind) != BOUNDARY_NONE);
    }
    cr_assert_str_eq(op_name(OP_NONE), "?");
    cr_assert_str_eq(op_name(OP_KIND_COUNT), "?");
    cr_assert_eq(op_boundary((enum op_kind)12345), BOUNDARY_NONE);
}

Test(plan, what_only_a_template_process_has_is_shown_where_it_is)
{
    struct plan p;
    cleanup_buf struct buf text;
    buf_init(&text, 4096);
    plan_init(&p);
    plan_op(&p, OP_DROP_CAPS);
    plan_num(&p, OP_DROP_CAPS, 192, 0, 0);
    plan_str(&p, OP_PROC, "/proc", NULL, 1);
    plan_add(&p, &(struct op){.kind = OP_PROC, .a = "/proc", .num = {0, 1}});
    finish(&p);
    cr_assert_eq(plan_text(p.bytes.data, p.bytes.len, &text, NULL), 0);
    cr_assert_str_eq(buf_text(&text), "kernel      drop-caps\n"
                                      "kernel      drop-caps keep=192\n"
                                      "filesystem  proc dest=\"/proc\" view=1\n"
                                      "filesystem  proc dest=\"/proc\" view=0 whole=1\n");
    plan_done(&p);
}
