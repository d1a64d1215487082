/* Compiles a configuration's system call filter. Rules are tried in their order, the first that
 * fits decides, and the default action the rest; a chain of comparisons is enough, since the kernel
 * remembers which calls are always allowed. */
#include "oci/seccomp.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "kernel/process/filter.h"
#include "oci/fields.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>

#define DATA_ARCH 4u
#define DATA_NR   0u
#define FAILS_MAX 32u
#define ERRNO_MAX 4095u /* of the kernel */

/* One piece: the jumps that leave it when a condition does not hold are set once its end is known.
 */
struct piece {
    struct oci_filter *f;
    uint16_t fails_yes[FAILS_MAX], fails_no[FAILS_MAX];
    unsigned yes_count, no_count;
    bool full;
};

static uint16_t put(struct oci_filter *f, uint16_t code, uint32_t k, uint8_t yes, uint8_t no)
{
    if (f->len >= OCI_FILTER_MAX)
        return OCI_FILTER_MAX;
    f->code[f->len] = (struct sock_filter){.code = code, .k = k, .jt = yes, .jf = no};
    return f->len++;
}

static void load(struct piece *p, unsigned arg, bool high)
{
    put(p->f, BPF_LD | BPF_W | BPF_ABS,
        (uint32_t)offsetof(struct seccomp_data, args) + 8 * arg + (high ? 4 : 0), 0, 0);
}

/* Goes on if the comparison is `wanted`, else the piece fails. */
static void must(struct piece *p, uint16_t op, uint32_t k, bool wanted)
{
    uint16_t at = put(p->f, BPF_JMP | op | BPF_K, k, 0, 0);
    if (p->yes_count >= FAILS_MAX || p->no_count >= FAILS_MAX)
        p->full = true;
    else if (wanted)
        p->fails_no[p->no_count++] = at;
    else
        p->fails_yes[p->yes_count++] = at;
}

static void equal(struct piece *p, unsigned arg, uint64_t mask, uint64_t value)
{
    for (int high = 1; high >= 0; high--) {
        load(p, arg, high);
        if (mask != UINT64_MAX)
            put(p->f, BPF_ALU | BPF_AND | BPF_K, (uint32_t)(mask >> (high ? 32 : 0)), 0, 0);
        must(p, BPF_JEQ, (uint32_t)(value >> (high ? 32 : 0)), true);
    }
}

static void unequal(struct piece *p, unsigned arg, uint64_t value)
{
    load(p, arg, true);
    put(p->f, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(value >> 32), 0, 2); /* over the lower half */
    load(p, arg, false);
    must(p, BPF_JEQ, (uint32_t)value, false);
}

/* Above: more, or as much if `or_equal`; else below. */
static void ordered(struct piece *p, unsigned arg, uint64_t value, bool above, bool or_equal)
{
    load(p, arg, true);
    if (above) {
        put(p->f, BPF_JMP | BPF_JGT | BPF_K, (uint32_t)(value >> 32), 3, 0);
        must(p, BPF_JEQ, (uint32_t)(value >> 32), true);
    } else {
        must(p, BPF_JGT, (uint32_t)(value >> 32), false);
        put(p->f, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(value >> 32), 0, 2);
    }
    load(p, arg, false);
    must(p, above == or_equal ? BPF_JGE : BPF_JGT, (uint32_t)value, above);
}

static int condition(struct piece *p, const struct json *j, uint32_t *seen, struct err *err)
{
    static const char where[] = "linux.seccomp.syscalls[].args[]";
    uint64_t value = 0, second = 0;
    uint32_t index = 0;
    const char *op = "";
    if (field_u32(j, where, "index", &index, err) < 0 ||
        field_u64(j, where, "value", &value, err) < 0 ||
        field_u64(j, where, "valueTwo", &second, err) < 0 ||
        field_text(j, where, "op", &op, err) < 0)
        return err_number(err);
    if (index > 5)
        return field_wrong(where, "index", "from 0 to 5", err);
    if (*seen & 1u << index)
        return err_set(err, ERR_UNSUPPORTED,
                       "config: linux.seccomp: two conditions on one argument in one rule");
    *seen |= 1u << index;
    if (strcmp(op, "SCMP_CMP_EQ") == 0)
        equal(p, index, UINT64_MAX, value);
    else if (strcmp(op, "SCMP_CMP_MASKED_EQ") == 0)
        equal(p, index, value, second);
    else if (strcmp(op, "SCMP_CMP_NE") == 0)
        unequal(p, index, value);
    else if (strcmp(op, "SCMP_CMP_GT") == 0 || strcmp(op, "SCMP_CMP_GE") == 0)
        ordered(p, index, value, true, op[10] == 'E');
    else if (strcmp(op, "SCMP_CMP_LT") == 0 || strcmp(op, "SCMP_CMP_LE") == 0)
        ordered(p, index, value, false, op[10] == 'E');
    else
        return err_set(err, ERR_UNSUPPORTED,
                       "config: linux.seccomp: comparison \"%.40s\" is not known", op);
    return 0;
}

/* The errno that one member of `j` gives to an action, which only one of them takes. */
static int read_errno(const struct json *j, const char *where, const char *key, uint32_t act,
                      uint32_t *ret, struct err *err)
{
    uint32_t number = EPERM;
    if (field_u32(j, where, key, &number, err) < 0)
        return err_number(err);
    if (number > ERRNO_MAX)
        return field_wrong(where, key, "at most 4095", err);
    if (act != SECCOMP_RET_ERRNO && json_get(j, key) && json_type(json_get(j, key)) != JSON_NULL)
        return err_set(err, ERR_USAGE, "config: %s.%s is for the action SCMP_ACT_ERRNO alone",
                       where, key);
    *ret = act | (act == SECCOMP_RET_ERRNO ? number : 0);
    return 0;
}

static int action(const char *name, uint32_t *ret, struct err *err)
{
    static const struct {
        const char *name;
        uint32_t value;
    } actions[] = {
        {"SCMP_ACT_ALLOW", SECCOMP_RET_ALLOW},
        {"SCMP_ACT_LOG", SECCOMP_RET_LOG},
        {"SCMP_ACT_ERRNO", SECCOMP_RET_ERRNO},
        {"SCMP_ACT_TRAP", SECCOMP_RET_TRAP},
        {"SCMP_ACT_KILL", SECCOMP_RET_KILL_THREAD},
        {"SCMP_ACT_KILL_THREAD", SECCOMP_RET_KILL_THREAD},
        {"SCMP_ACT_KILL_PROCESS", SECCOMP_RET_KILL_PROCESS},
    };
    for (size_t i = 0; name && i < ARRAY_LEN(actions); i++) {
        if (strcmp(actions[i].name, name) != 0)
            continue;
        *ret = actions[i].value;
        return 0;
    }
    err_set(err, ERR_UNSUPPORTED, "config: linux.seccomp: action \"%.40s\" is not enforced",
            name ? name : "");
    return err_hint(err, "ALLOW, LOG, ERRNO, TRAP, KILL, KILL_THREAD and KILL_PROCESS are");
}

static int call_number(const char *name)
{
    for (size_t i = 0; i < filter_call_count(); i++) {
        struct filter_call call;
        filter_call_at(FILTER_NATIVE, i, &call);
        if (strcmp(call.name, name) == 0)
            return call.nr >= 0 ? call.nr : -2;
    }
    return -1;
}

static int rule_for(struct oci_filter *f, int number, const struct json *args, uint32_t act,
                    struct err *err)
{
    struct piece p = {.f = f};
    uint32_t seen = 0;
    must(&p, BPF_JEQ, (uint32_t)number, true);
    for (size_t i = 0; i < json_count(args); i++)
        if (condition(&p, json_at(args, i), &seen, err) < 0)
            return err_number(err);
    put(f, BPF_RET | BPF_K, act, 0, 0);
    /* The conditions loaded something else; without any, the next piece finds the number as it was.
     */
    uint16_t end = f->len;
    if (json_count(args))
        put(f, BPF_LD | BPF_W | BPF_ABS, DATA_NR, 0, 0);
    if (p.full || f->len >= OCI_FILTER_MAX)
        return err_set(err, ERR_LIMIT,
                       "config: linux.seccomp has more rules than a filter can hold");
    for (unsigned i = 0; i < p.yes_count; i++)
        f->code[p.fails_yes[i]].jt = (uint8_t)(end - p.fails_yes[i] - 1);
    for (unsigned i = 0; i < p.no_count; i++)
        f->code[p.fails_no[i]].jf = (uint8_t)(end - p.fails_no[i] - 1);
    return 0;
}

/* A name that is not known here: brig's own filter answers such a call with ENOSYS, but a slip of
 * the pen would be overlooked where the profile refuses by name what it otherwise allows. */
static int unknown_call(const char *name, uint32_t act, uint32_t rest, struct err *err)
{
    bool allows = act == SECCOMP_RET_ALLOW || act == SECCOMP_RET_LOG;
    bool rest_allows = rest == SECCOMP_RET_ALLOW || rest == SECCOMP_RET_LOG;
    if (allows || !rest_allows)
        return 0;
    return err_set(err, ERR_UNSUPPORTED,
                   "config: linux.seccomp: the system call \"%.40s\" is not known", name);
}

static int rule(struct oci_filter *f, const struct json *j, uint32_t rest, struct err *err)
{
    static const char where[] = "linux.seccomp.syscalls[]";
    const struct json *names = NULL, *args = NULL;
    const char *what = NULL;
    uint32_t act = 0;
    if (json_type(j) != JSON_OBJECT)
        return field_wrong("linux.seccomp", "syscalls", "a list of objects", err);
    if (field_texts(j, where, "names", &names, err) < 0 ||
        field_list(j, where, "args", &args, err) < 0 ||
        field_text(j, where, "action", &what, err) < 0 || action(what, &act, err) < 0 ||
        read_errno(j, where, "errnoRet", act, &act, err) < 0)
        return err_number(err);
    if (json_count(names) == 0)
        return field_wrong(where, "names", "a list of at least one system call", err);
    for (size_t i = 0; i < json_count(names); i++) {
        const char *name = json_string(json_at(names, i));
        int nr = call_number(name);
        if (nr == -1 && unknown_call(name, act, rest, err) < 0)
            return err_number(err);
        if (nr >= 0 && rule_for(f, nr, args, act, err) < 0)
            return err_number(err);
    }
    return 0;
}

static int read_flags(const struct json *list, struct oci_filter *f, struct err *err)
{
    for (size_t i = 0; i < json_count(list); i++) {
        const char *flag = json_string(json_at(list, i));
        if (strcmp(flag, "SECCOMP_FILTER_FLAG_LOG") == 0)
            f->flags |= SECCOMP_FILTER_FLAG_LOG;
        else if (strcmp(flag, "SECCOMP_FILTER_FLAG_TSYNC") != 0) /* there is one thread */
            return err_set(err, ERR_UNSUPPORTED,
                           "config: linux.seccomp: flag %.60s is not supported", flag);
    }
    return 0;
}

/* Only the native entry is open (K-3): what is said about others holds already, if they are known.
 */
static int check_archs(const struct json *list, struct err *err)
{
    static const char *const known[] = {
        "X86",       "X86_64", "X32",      "ARM",         "AARCH64", "MIPS",        "MIPS64",
        "MIPS64N32", "MIPSEL", "MIPSEL64", "MIPSEL64N32", "PPC",     "PPC64",       "PPC64LE",
        "S390",      "S390X",  "PARISC",   "PARISC64",    "RISCV64", "LOONGARCH64", "NATIVE"};
    for (size_t i = 0; i < json_count(list); i++) {
        const char *name = json_string(json_at(list, i));
        bool found = false;
        for (size_t k = 0; text_begins(name, "SCMP_ARCH_") && k < ARRAY_LEN(known); k++)
            found |= strcmp(known[k], name + 10) == 0;
        if (!found)
            return err_set(err, ERR_UNSUPPORTED,
                           "config: linux.seccomp: architecture %.40s is not known", name);
    }
    return 0;
}

int oci_filter_compile(const struct json *s, struct oci_filter *f, struct err *err)
{
    static const char *const unknown[] = {"listenerPath", "listenerMetadata", NULL};
    const struct json *archs = NULL, *flags = NULL, *rules = NULL;
    const char *what = NULL;
    uint32_t rest = 0;
    f->len = 0;
    f->flags = 0;
    if (!s)
        return 0;
    if (field_refuse(s, "linux.seccomp", unknown, "no other process decides about calls", err) <
            0 ||
        field_text(s, "linux.seccomp", "defaultAction", &what, err) < 0 ||
        action(what, &rest, err) < 0 ||
        read_errno(s, "linux.seccomp", "defaultErrnoRet", rest, &rest, err) < 0 ||
        field_texts(s, "linux.seccomp", "architectures", &archs, err) < 0 ||
        check_archs(archs, err) < 0 || field_texts(s, "linux.seccomp", "flags", &flags, err) < 0 ||
        read_flags(flags, f, err) < 0 ||
        field_list(s, "linux.seccomp", "syscalls", &rules, err) < 0)
        return err_number(err);
    put(f, BPF_LD | BPF_W | BPF_ABS, DATA_ARCH, 0, 0);
    put(f, BPF_JMP | BPF_JEQ | BPF_K, FILTER_NATIVE, 1, 0);
    put(f, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0); /* refused by brig's own filter */
    put(f, BPF_LD | BPF_W | BPF_ABS, DATA_NR, 0, 0);
    for (size_t i = 0; i < json_count(rules); i++)
        if (rule(f, json_at(rules, i), rest, err) < 0)
            return err_number(err);
    put(f, BPF_RET | BPF_K, rest, 0, 0);
    return f->len < OCI_FILTER_MAX
               ? 0
               : err_set(err, ERR_LIMIT, "config: linux.seccomp is too long for a filter");
}
