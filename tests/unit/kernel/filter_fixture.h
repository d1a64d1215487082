/* Building the filter for a set of options and asking it about single calls. A program is only
 * numbers: that of either architecture is built and asked on either machine. */
#pragma once

#include "../../lib/unit/part.h"
#include "bpf_sim.h"
#include "kernel/process/filter.h"
#include "os/syscalls.h"

#include <errno.h>

#define ARCH_I386 0x40000003u /* AUDIT_ARCH_I386 */
#define ARCH_ARM  0x40000028u /* AUDIT_ARCH_ARM */
#define X32       ((int)FILTER_X32_BIT)

#define ALLOW   SECCOMP_RET_ALLOW
#define SEEN    SECCOMP_RET_USER_NOTIF
#define QUIET   (SECCOMP_RET_ERRNO | EPERM)
#define ABSENT  (SECCOMP_RET_ERRNO | ENOSYS)
#define NOPROTO (SECCOMP_RET_ERRNO | EPROTONOSUPPORT)
#define NOTSUP  (SECCOMP_RET_ERRNO | EOPNOTSUPP)
#define INVALID (SECCOMP_RET_ERRNO | EINVAL)
#define NOOPT   (SECCOMP_RET_ERRNO | ENOPROTOOPT)
#define PRETEND SECCOMP_RET_ERRNO

/* The two ends: everything isolated, nothing isolated. */
__attribute__((unused)) static const struct filter_options container = {.isolated_pids = true,
                                                                        .isolated_ipc = true,
                                                                        .isolated_net = true,
                                                                        .unix_sockets = true,
                                                                        .scoped_signals = true,
                                                                        .own_view = true,
                                                                        .counted_memory = true,
                                                                        .own_uid = true,
                                                                        .scoped_truncate = true,
                                                                        .notify = true};
__attribute__((unused)) static const struct filter_options process = {.notify = true};

/* The calls by name, for both numberings. */
enum call {
#define CALL(name, x86_64, aarch64, rule, group, why) CALL_##name,
#include "kernel/process/calls.def"
#undef CALL
    CALLS,
};
static const struct {
    const char *name;
    int x86_64, aarch64;
} call_numbers[CALLS] = {
#define CALL(name, x86_64, aarch64, rule, group, why) {#name, x86_64, aarch64},
#include "kernel/process/calls.def"
#undef CALL
};

/* The architecture whose filter a test is about. */
static uint32_t arch = FILTER_NATIVE;

/* Its number of a call, -1 if it has none. */
static inline int number(enum call call)
{
    return arch == FILTER_X86_64 ? call_numbers[call].x86_64 : call_numbers[call].aarch64;
}

/* Two tests of one body, with `arch` set to either. */
#define TestBoth(suite, name)                                                                      \
    static void suite##_##name(void);                                                              \
    Test(suite, name##_x86_64)                                                                     \
    {                                                                                              \
        arch = FILTER_X86_64;                                                                      \
        suite##_##name();                                                                          \
    }                                                                                              \
    Test(suite, name##_aarch64)                                                                    \
    {                                                                                              \
        arch = FILTER_AARCH64;                                                                     \
        suite##_##name();                                                                          \
    }                                                                                              \
    static void suite##_##name(void)

static struct filter_program program;

static inline void build(const struct filter_options *o)
{
    struct err err = ERR_INIT;
    cr_assert_eq(filter_build_for(arch, o, &program, &err), 0, "%s", err.message);
}

static inline struct sim_result run(uint32_t entry, int nr, const uint64_t args[6])
{
    struct seccomp_data data = {.nr = nr, .arch = entry, .instruction_pointer = 0xdeadbeef};
    if (args)
        memcpy(data.args, args, sizeof(data.args));
    return sim_run(program.code, program.len, &data);
}

static inline struct filter_options option_set(unsigned bits)
{
    return (struct filter_options){.isolated_pids = bits & 1,
                                   .isolated_ipc = bits & 2,
                                   .isolated_net = bits & 4,
                                   .unix_sockets = bits & 8,
                                   .scoped_signals = bits & 16,
                                   .notify = bits & 32,
                                   .own_view = bits & 64,
                                   .own_uid = bits & 128,
                                   .scoped_truncate = bits & 256,
                                   .host_writable = bits & 512,
                                   .counted_memory = bits & 1024,
                                   .brokered_net = bits & 2048,
                                   .looked_at = bits & 4096,
                                   .strict_memory = bits & 8192,
                                   .shared_max = 1u << 20};
}
#define OPTION_SETS 16384
