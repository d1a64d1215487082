/* Building the filter for a set of options and asking it about single calls. */
#pragma once

#include "bpf_sim.h"
#include "kernel/process/filter.h"
#include "os/syscalls.h"

#include <errno.h>

#define ARCH_X86_64 0xC000003Eu
#define ARCH_I386   0x40000003u
#define X32         0x40000000

#define ALLOW   SECCOMP_RET_ALLOW
#define SEEN    SECCOMP_RET_USER_NOTIF
#define QUIET   (SECCOMP_RET_ERRNO | EPERM)
#define ABSENT  (SECCOMP_RET_ERRNO | ENOSYS)
#define NOPROTO (SECCOMP_RET_ERRNO | EPROTONOSUPPORT)
#define NOTSUP  (SECCOMP_RET_ERRNO | EOPNOTSUPP)

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

static struct filter_program program;

static inline void build(const struct filter_options *o)
{
    struct err err = ERR_INIT;
    cr_assert_eq(filter_build(o, &program, &err), 0, "%s", err.message);
}

static inline struct sim_result run(uint32_t arch, int nr, const uint64_t args[6])
{
    struct seccomp_data data = {.nr = nr, .arch = arch, .instruction_pointer = 0xdeadbeef};
    if (args)
        memcpy(data.args, args, sizeof(data.args));
    return sim_run(program.code, program.len, &data);
}

static inline uint32_t verdict(const struct filter_options *o, int nr, uint64_t a, uint64_t b,
                               uint64_t c)
{
    build(o);
    return run(ARCH_X86_64, nr, (const uint64_t[6]){a, b, c}).ret;
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
                                   .brokered_net = bits & 2048};
}
#define OPTION_SETS 4096
