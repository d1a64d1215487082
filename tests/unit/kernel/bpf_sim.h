/* Classic BPF as seccomp runs it, small enough to be believed. Aborts the test on anything that the
 * kernel would refuse to load. */
#pragma once

#include <criterion/criterion.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <string.h>

struct sim_result {
    uint32_t ret;
    unsigned steps;
    bool read_args; /* the kernel cannot answer such a call from its table of always-allowed ones */
};

static inline uint32_t sim_load(const struct seccomp_data *data, uint32_t offset)
{
    uint32_t word;
    cr_assert(offset % 4 == 0 && offset + 4 <= sizeof(*data), "load at %u", offset);
    memcpy(&word, (const char *)data + offset, sizeof(word));
    return word;
}

static inline bool sim_test(uint16_t code, uint32_t a, uint32_t k)
{
    switch (BPF_OP(code)) {
    case BPF_JEQ:
        return a == k;
    case BPF_JGE:
        return a >= k;
    case BPF_JGT:
        return a > k;
    case BPF_JSET:
        return (a & k) != 0;
    default:
        cr_assert_fail("jump %#x", code);
        return false;
    }
}

static inline struct sim_result sim_run(const struct sock_filter *code, size_t len,
                                        const struct seccomp_data *data)
{
    struct sim_result r = {0};
    uint32_t a = 0;
    for (size_t pc = 0;; pc++) {
        cr_assert_lt(pc, len, "ran off the end");
        const struct sock_filter *i = &code[pc];
        r.steps++;
        switch (i->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            a = sim_load(data, i->k);
            r.read_args |= i->k >= offsetof(struct seccomp_data, instruction_pointer);
            break;
        case BPF_ALU | BPF_AND | BPF_K:
            a &= i->k;
            break;
        case BPF_JMP | BPF_JA:
            pc += i->k;
            break;
        case BPF_RET | BPF_K:
            r.ret = i->k;
            return r;
        default:
            cr_assert_eq(BPF_CLASS(i->code), BPF_JMP, "code %#x", i->code);
            pc += sim_test(i->code, a, i->k) ? i->jt : i->jf;
        }
    }
}
