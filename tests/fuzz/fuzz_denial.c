/* A refused call, as the kernel tells of it: entry, number and registers are the code's to choose.
 * Its words are bounded and plain, and what the filter says about it is one of its verdicts, for
 * both architectures and any set of options. */
#include "kernel/process/filter.h"

#include <ctype.h>
#include <errno.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check_words(uint32_t arch, int nr, const uint64_t args[6])
{
    struct filter_denial d;
    filter_describe(arch, nr, args, &d);
    require(memchr(d.what, 0, sizeof d.what) && d.what[0]);
    for (const char *at = d.what; *at; at++)
        require(isprint((unsigned char)*at));
    require(d.boundary > BOUNDARY_NONE && d.boundary < BOUNDARY_COUNT);
    require(d.rule && d.rule[0] && d.hint && d.hint[0] && d.fix < FIX_COUNT);
    const char *name = filter_call_name(arch, nr);
    require(!name || (arch != FILTER_X86_64 && arch != FILTER_AARCH64) || strlen(name) < 40);
    (void)filter_is_reported(arch, nr);
    (void)filter_is_learned(arch, nr);
    (void)filter_is_brokered_signal(arch, nr);
    (void)filter_is_brokered_meta(arch, nr);
    (void)filter_is_brokered_connect(arch, nr);
}

/* Programs are the same for the same options: built once each. */
static const struct filter_program *program_for(uint32_t arch, unsigned bits)
{
    static struct filter_program *built[2][256];
    bool x86 = arch == FILTER_X86_64;
    struct filter_program **at = &built[x86][bits & 255];
    if (*at)
        return *at;
    struct filter_options o = {.isolated_pids = bits & 1,
                               .isolated_ipc = bits & 1,
                               .isolated_net = bits & 2,
                               .brokered_net = bits & 4,
                               .unix_sockets = bits & 8,
                               .own_view = bits & 1,
                               .own_uid = bits & 16,
                               .host_writable = bits & 32,
                               .counted_memory = bits & 64,
                               .looked_at = !(bits & 64),
                               .strict_memory = !(bits & 64),
                               .shared_max = 1u << 20,
                               .scoped_signals = bits & 128,
                               .notify = true};
    *at = malloc(sizeof **at);
    require(*at && filter_build_for(arch, &o, *at, NULL) == 0);
    return *at;
}

static void check_verdict(uint32_t arch, const struct seccomp_data *call, unsigned bits)
{
    uint32_t got = filter_run(program_for(arch, bits), call);
    uint32_t error = got & SECCOMP_RET_DATA;
    switch (got & SECCOMP_RET_ACTION_FULL) {
    case SECCOMP_RET_ALLOW:
        /* K-3: nothing comes in by another entry. */
        require(call->arch == arch && !(arch == FILTER_X86_64 && (call->nr & FILTER_X32_BIT)));
        break;
    case SECCOMP_RET_ERRNO:
        /* 0: a socket option that is said to be set. */
        require(error == EPERM || error == ENOSYS || error == EPROTONOSUPPORT ||
                error == EOPNOTSUPP || error == ENOPROTOOPT || error == EINVAL || error == 0);
        break;
    default:
        require(got == SECCOMP_RET_USER_NOTIF);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint32_t entries[] = {FILTER_X86_64, FILTER_AARCH64, 0x40000003u, 0x40000028u};
    struct seccomp_data call = {0};
    uint64_t args[6] = {0};
    if (size < 6)
        return 0;
    unsigned bits = data[1];
    int32_t nr;
    memcpy(&nr, data + 2, sizeof nr);
    memcpy(args, data + 6, size - 6 < sizeof args ? size - 6 : sizeof args);
    call.arch = data[0] & 4 ? (uint32_t)nr * 2654435761u : entries[data[0] & 3];
    call.nr = data[0] & 8 ? nr : nr & 511;
    memcpy(call.args, args, sizeof args);
    check_words(call.arch, call.nr, args);
    check_verdict(FILTER_X86_64, &call, bits);
    check_verdict(FILTER_AARCH64, &call, bits);
    return 0;
}
