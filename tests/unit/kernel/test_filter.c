/* The filter against its table: every number under every set of options, then the argument checks
 * with the values that truncation and sign extension make interesting. */
#include "filter_fixture.h"

/* What each rule of the table comes down to when all arguments are zero: written down a second
 * time, so that a slip in one place is seen. */
enum {
    R_ALLOW,
    R_SEEN,
    R_ABSENT,
    R_CLONE,
    R_UNSHARE,
    R_SOCKET,
    R_SOCKETPAIR,
    R_SOCKET_USE,
    R_CONNECT,
    R_SENDTO,
    R_SENDMSG,
    R_SOCKOPT,
    R_IOCTL,
    R_FCNTL,
    R_PRCTL,
    R_PERSONALITY,
    R_SECCOMP,
    R_MKNOD,
    R_MKNODAT,
    R_OWN_PID,
    R_PRIORITY,
    R_IOPRIO,
    R_KILL,
    R_SIGNAL,
    R_PIDFD_SIGNAL,
    R_PIDFD_OPEN,
    R_IPC,
    R_META,
    R_MEMFD,
    R_SHM,
    R_CHMOD,
    R_CHMODAT,
    R_CREAT,
    R_ATTR,
    R_XATTR,
    R_WATCH,
    R_TRUNCATE,
    R_OPEN,
    R_OPENAT,
    R_OPENAT2
};

static const struct {
    const char *name;
    int nr;
    int rule;
} table[] = {
#define CALL(name, x86_64, aarch64, rule, group, why) {#name, x86_64, R_##rule},
#include "kernel/process/calls.def"
#undef CALL
};
#define TABLE_LEN (sizeof(table) / sizeof(table[0]))

static uint32_t expect_zero_args(int rule, const struct filter_options *o)
{
    uint32_t seen = o->notify ? SEEN : QUIET;
    bool signals_stay = o->isolated_pids || o->scoped_signals;
    bool sockets = o->isolated_net || o->unix_sockets;
    bool own_files = o->own_view || o->own_uid;
    bool brokered = o->brokered_net && !o->isolated_net;

    switch (rule) {
    case R_SEEN:
    case R_SOCKET:     /* family 0 */
    case R_SOCKETPAIR: /* family 0 */
        return seen;
    case R_ABSENT:
        return ABSENT;
    case R_SOCKET_USE:
        return sockets ? ALLOW : seen;
    case R_CONNECT:
        return sockets && !brokered ? ALLOW : seen;
    case R_SOCKOPT: /* IPPROTO_IP, option 0 */
        return brokered ? QUIET : ALLOW;
    case R_SIGNAL:
        return signals_stay ? ALLOW : seen;
    case R_PIDFD_SIGNAL:
        return signals_stay ? ALLOW : ABSENT;
    case R_PIDFD_OPEN:
        return o->isolated_pids ? ALLOW : ABSENT;
    case R_IPC:
        return o->isolated_ipc ? ALLOW : seen;
    case R_MEMFD:
        return o->counted_memory ? ALLOW : ABSENT;
    case R_SHM:
        return o->isolated_ipc && o->counted_memory ? ALLOW : seen;
    case R_META:
    case R_CHMOD:
    case R_CHMODAT:
        return own_files ? ALLOW : seen;
    case R_ATTR:
        return own_files ? ALLOW : QUIET;
    case R_XATTR:
        return own_files ? ALLOW : NOTSUP;
    case R_WATCH:
        return o->own_view ? ALLOW : QUIET;
    case R_TRUNCATE:
        return own_files || o->scoped_truncate ? ALLOW : seen;
    case R_OPENAT2:
        return (own_files || o->scoped_truncate) && !o->host_writable ? ALLOW : ABSENT;
    default: /* plain calls, and checks that let zeros pass */
        return ALLOW;
    }
}

static uint32_t expect_number(int nr, const struct filter_options *o)
{
    for (size_t i = 0; i < TABLE_LEN; i++) {
        if (table[i].nr == nr)
            return expect_zero_args(table[i].rule, o);
    }
    return ABSENT;
}

Test(filter, every_number_under_every_option_set_is_as_the_table_says)
{
    for (unsigned bits = 0; bits < OPTION_SETS; bits++) {
        struct filter_options o = option_set(bits);
        build(&o);
        for (int nr = 0; nr < 1024; nr++) {
            uint32_t got = run(ARCH_X86_64, nr, NULL).ret, want = expect_number(nr, &o);
            cr_assert_eq(got, want, "options %#x, call %d: %#x, not %#x", bits, nr, got, want);
        }
    }
}

Test(filter, numbers_beyond_the_table_are_absent)
{
    static const int numbers[] = {1024, 4096, 65536, 0x3fffffff, -1, INT32_MIN, -1000};
    build(&container);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        cr_assert_eq(run(ARCH_X86_64, numbers[i], NULL).ret, ABSENT, "%d", numbers[i]);
}

Test(filter, other_entries_are_closed_whatever_the_number)
{
    for (unsigned bits = 0; bits < OPTION_SETS; bits++) {
        struct filter_options o = option_set(bits);
        uint32_t want = o.notify ? SEEN : ABSENT;
        build(&o);
        for (int nr = 0; nr < 1024; nr++) {
            cr_assert_eq(run(ARCH_I386, nr, NULL).ret, want);
            cr_assert_eq(run(ARCH_X86_64, X32 | nr, NULL).ret, want);
        }
        cr_assert_eq(run(ARCH_X86_64, 0x7fffffff, NULL).ret, want);
        cr_assert_eq(run(0, 0, NULL).ret, want);
        cr_assert_eq(run(~0u, 0, NULL).ret, want);
        cr_assert_eq(run(ARCH_X86_64 & 0xffff, 0, NULL).ret, want);
    }
}

Test(filter, is_short_shallow_and_loads_arguments_only_where_it_must)
{
    for (unsigned bits = 0; bits < OPTION_SETS; bits++) {
        struct filter_options o = option_set(bits);
        build(&o);
        cr_assert_leq(program.len, 300, "options %#x: %u instructions", bits, program.len);
        for (size_t i = 0; i < TABLE_LEN; i++) {
            struct sim_result r = run(ARCH_X86_64, table[i].nr, NULL);
            cr_assert_leq(r.steps, 32, "%s takes %u steps", table[i].name, r.steps);
            cr_assert(table[i].rule != R_ALLOW || !r.read_args, "%s", table[i].name);
        }
    }
}
