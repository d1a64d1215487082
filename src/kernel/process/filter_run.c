/* An interpreter for the instructions that our own compiler emits. What it does not know it takes
 * for a refusal. */
#include "kernel/process/filter.h"

#include <linux/seccomp.h>
#include <string.h>

static bool jump(uint16_t op, uint32_t a, uint32_t k)
{
    switch (op) {
    case BPF_JEQ:
        return a == k;
    case BPF_JGT:
        return a > k;
    case BPF_JGE:
        return a >= k;
    default: /* BPF_JSET */
        return (a & k) != 0;
    }
}

uint32_t filter_run(const struct filter_program *program, const struct seccomp_data *data)
{
    uint32_t a = 0;
    for (size_t at = 0; at < program->len; at++) {
        const struct sock_filter *i = &program->code[at];
        switch (BPF_CLASS(i->code)) {
        case BPF_LD:
            if (i->k > sizeof(*data) - sizeof(a))
                return SECCOMP_RET_KILL_PROCESS;
            memcpy(&a, (const char *)data + i->k, sizeof(a));
            break;
        case BPF_ALU:
            a &= i->k; /* the only operation we use */
            break;
        case BPF_JMP:
            if (BPF_OP(i->code) == BPF_JA)
                at += i->k;
            else
                at += jump(BPF_OP(i->code), a, i->k) ? i->jt : i->jf;
            break;
        case BPF_RET:
            return i->k;
        default:
            return SECCOMP_RET_KILL_PROCESS;
        }
    }
    return SECCOMP_RET_KILL_PROCESS;
}
