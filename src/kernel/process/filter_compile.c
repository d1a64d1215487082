/* Ranges to classic BPF: a balanced tree of comparisons over the call number, then the argument
 * checks, then the returns. Loading costs time per instruction, so equal ends are shared.
 *
 * Jumps go forward only and reach 255 instructions. The program is therefore laid from its last
 * instruction to its first: where every target lies is known when the jump to it is laid, and a
 * target that has come out of reach gets a copy (a return) or a stepping stone (an unlimited jump)
 * right there. */
#include "kernel/process/filter_rules.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <string.h>

/* One less than 255 for each stepping stone that can be laid between choosing a target and the
 * jump. */
#define REACH 250
/* Up to this many single numbers in a row of equal neighbours are compared one by one. */
#define CHAIN_MAX 4

uint32_t filter_return(enum filter_verdict verdict, const struct filter_options *options)
{
    switch (verdict) {
    case VERDICT_ALLOW:
        return SECCOMP_RET_ALLOW;
    case VERDICT_SEEN: /* K-2 */
        return options->notify ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ERRNO | EPERM;
    case VERDICT_FOREIGN: /* K-3 */
        return options->notify ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ERRNO | ENOSYS;
    case VERDICT_QUIET:
        return SECCOMP_RET_ERRNO | EPERM;
    case VERDICT_NOPROTO:
        return SECCOMP_RET_ERRNO | EPROTONOSUPPORT;
    case VERDICT_REPORT:
        return options->notify ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ALLOW;
    case VERDICT_NOTSUP:
        return SECCOMP_RET_ERRNO | EOPNOTSUPP;
    case VERDICT_NOOPT:
        return SECCOMP_RET_ERRNO | ENOPROTOOPT;
    case VERDICT_INVALID:
        return SECCOMP_RET_ERRNO | EINVAL;
    case VERDICT_PRETEND:
        return SECCOMP_RET_ERRNO; /* no error: the call returns 0 */
    case VERDICT_ABSENT:          /* K-1 */
    case VERDICT_COUNT:
        break;
    }
    return SECCOMP_RET_ERRNO | ENOSYS;
}

struct layer {
    struct sock_filter code[FILTER_MAX_INSNS];
    size_t top; /* index of the instruction laid last; the next one goes below it */
    size_t at[TARGET_COUNT];
    bool placed[TARGET_COUNT];
    bool full;
    uint32_t arch;
    const struct filter_options *options;
};

/* A place to jump to: an instruction, or a target that may not have been laid yet. */
struct spot {
    bool is_code;
    size_t index;
    filter_target target;
};

static size_t lay(struct layer *l, uint16_t code, uint32_t k, size_t yes, size_t no)
{
    if (l->top == 0) {
        l->full = true;
        return 0;
    }
    size_t here = --l->top;
    bool jump = BPF_CLASS(code) == BPF_JMP && BPF_OP(code) != BPF_JA;
    l->code[here] = (struct sock_filter){
        .code = code,
        .k = k,
        .jt = jump ? (uint8_t)(yes - here - 1) : 0,
        .jf = jump ? (uint8_t)(no - here - 1) : 0,
    };
    return here;
}

static bool in_reach(const struct layer *l, size_t index)
{
    return index - l->top <= REACH;
}

static size_t lay_stone(struct layer *l, size_t to)
{
    /* The jump itself will stand one below the present top. */
    return lay(l, BPF_JMP | BPF_JA, (uint32_t)(to - l->top), 0, 0);
}

static size_t reach(struct layer *l, struct spot spot)
{
    if (spot.is_code)
        return in_reach(l, spot.index) ? spot.index : lay_stone(l, spot.index);
    filter_target t = spot.target;
    if (!l->placed[t] || !in_reach(l, l->at[t])) {
        l->at[t] = t < VERDICT_COUNT ? lay(l, BPF_RET | BPF_K, filter_return(t, l->options), 0, 0)
                                     : lay_stone(l, l->at[t]);
        l->placed[t] = true;
    }
    return l->at[t];
}

static struct spot lay_jump(struct layer *l, uint16_t op, uint32_t k, struct spot yes,
                            struct spot no)
{
    size_t y = reach(l, yes);
    size_t n = reach(l, no);
    return (struct spot){
        .is_code = true,
        .index = lay(l, BPF_JMP | op | BPF_K, k, y, n),
    };
}

static struct spot at_target(filter_target target)
{
    return (struct spot){.target = target};
}

static struct spot check_end(const struct filter_check *c, const size_t *where, size_t i, int end)
{
    if (end < 0)
        return at_target((filter_target)(-1 - end));
    size_t step = end == CHECK_NEXT ? i + 1 : c->labels[end - 1];
    return (struct spot){.is_code = true, .index = where[step]};
}

static void lay_check(struct layer *l, enum filter_rule rule)
{
    struct filter_check c;
    size_t where[CHECK_MAX_STEPS + 1] = {0};

    filter_check_write(rule, l->arch, l->options, &c);
    for (size_t i = c.count; i-- > 0;) {
        const struct check_step *s = &c.steps[i];
        if (BPF_CLASS(s->code) != BPF_JMP)
            where[i] = lay(l, s->code, s->k, 0, 0);
        else
            where[i] = lay_jump(l, BPF_OP(s->code), s->k, check_end(&c, where, i, s->yes),
                                check_end(&c, where, i, s->no))
                           .index;
    }
    l->at[TARGET_CHECK(rule)] = where[0];
    l->placed[TARGET_CHECK(rule)] = true;
}

/* Does every range but those that lead to `base` hold a single number, and are they few? */
static bool is_chain(const struct filter_range *r, size_t count, filter_target base)
{
    size_t singles = 0;
    for (size_t i = 0; i < count; i++) {
        if (r[i].target == base)
            continue;
        if (r[i + 1].first != r[i].first + 1 || ++singles > CHAIN_MAX)
            return false;
    }
    return true;
}

static struct spot lay_chain(struct layer *l, const struct filter_range *r, size_t count,
                             filter_target base)
{
    struct spot next = at_target(base);
    for (size_t i = count; i-- > 0;) {
        if (r[i].target != base)
            next = lay_jump(l, BPF_JEQ, r[i].first, at_target(r[i].target), next);
    }
    return next;
}

static struct spot lay_tree(struct layer *l, const struct filter_range *r, size_t count)
{
    if (count == 1)
        return at_target(r[0].target);
    for (size_t i = 0; i < 2; i++) {
        if (is_chain(r, count, r[i].target))
            return lay_chain(l, r, count, r[i].target);
    }
    size_t half = count / 2;
    struct spot right = lay_tree(l, r + half, count - half);
    struct spot left = lay_tree(l, r, half);
    return lay_jump(l, BPF_JGE, r[half].first, right, left);
}

static void lay_checks(struct layer *l, const struct filter_range *ranges, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        filter_target t = ranges[i].target;
        if (t >= VERDICT_COUNT && !l->placed[t])
            lay_check(l, (enum filter_rule)(t - VERDICT_COUNT));
    }
}

static void lay_program(struct layer *l, uint32_t arch, const struct filter_range *ranges,
                        size_t count)
{
    lay_checks(l, ranges, count);
    lay_tree(l, ranges, count);
    /* A load falls through to what was laid before it: the tree's first comparison. */
    struct spot native = {
        .is_code = true,
        .index = lay(l, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0),
    };
    /* K-3 */
    lay_jump(l, BPF_JEQ, arch, native, at_target(VERDICT_FOREIGN));
    lay(l, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), 0, 0);
}

int filter_compile(uint32_t arch, const struct filter_range *ranges, size_t count,
                   const struct filter_options *options, struct filter_program *ret,
                   struct err *err)
{
    struct layer l = {.top = FILTER_MAX_INSNS, .arch = arch, .options = options};

    if (count < 2)
        return err_set(err, ERR_INTERNAL, "system call filter: nothing to compile");
    lay_program(&l, arch, ranges, count);
    if (l.full)
        return err_set(err, ERR_LIMIT, "system call filter: more than %d instructions",
                       FILTER_MAX_INSNS);
    size_t len = FILTER_MAX_INSNS - l.top;
    memcpy(ret->code, l.code + l.top, len * sizeof(l.code[0]));
    ret->len = (uint16_t)len;
    return 0;
}
