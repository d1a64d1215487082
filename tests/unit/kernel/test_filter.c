/* The filter against its table: every number under every set of options, then the argument checks
 * with the values that truncation and sign extension make interesting. */
#include "filter_fixture.h"

/* What each rule of the table comes down to when all arguments are zero: written down a second
 * time, so that a slip in one place is seen. */
enum {
    R_ALLOW,
    R_SEEN,
    R_ABSENT,
    R_PRETEND,
    R_CLONE,
    R_UNSHARE,
    R_CLOSE_RANGE,
    R_MMAP,
    R_MADVISE,
    R_COUNTED,
    R_SOCKET,
    R_SOCKETPAIR,
    R_SOCKET_USE,
    R_SOCKET_IO,
    R_CONNECT,
    R_SENDTO,
    R_SENDMSG,
    R_SOCKOPT,
    R_IOCTL,
    R_FCNTL,
    R_UNJOINED,
    R_PRCTL,
    R_PERSONALITY,
    R_SECCOMP,
    R_MKNOD,
    R_MKNODAT,
    R_OWN_PID,
    R_SETRLIMIT,
    R_PRLIMIT,
    R_PRIORITY,
    R_IOPRIO,
    R_KILL,
    R_SIGNAL,
    R_PIDFD_SIGNAL,
    R_PIDFD_OPEN,
    R_IPC,
    R_META,
    R_MEMFD,
    R_TRACE,
    R_SHM,
    R_QUEUE,
    R_CHMOD,
    R_CHMODAT,
    R_CREAT,
    R_OWNER,
    R_OWNERAT,
    R_ATTR,
    R_XATTR,
    R_WATCH,
    R_WATCH_ADD,
    R_TRUNCATE,
    R_OPEN,
    R_OPENAT,
    R_NAME,
    R_NAMEAT,
    R_OPENAT2
};

static const int rules[CALLS] = {
#define CALL(name, x86_64, aarch64, rule, group, why) R_##rule,
#include "kernel/process/calls.def"
#undef CALL
};
#define MAX_NR 1024

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
    case R_PRETEND:
        return PRETEND;
    case R_UNJOINED:
        return INVALID;
    case R_SOCKET_USE:
        return sockets ? ALLOW : seen;
    case R_CONNECT:
        return sockets && !brokered ? ALLOW : seen;
    case R_SOCKOPT: /* IPPROTO_IP, option 0 */
        return NOOPT;
    case R_SIGNAL:
        return signals_stay ? ALLOW : seen;
    case R_PIDFD_SIGNAL:
        return signals_stay ? ALLOW : ABSENT;
    case R_PIDFD_OPEN:
        return o->isolated_pids ? ALLOW : ABSENT;
    case R_IPC:
        return o->isolated_ipc ? ALLOW : seen;
    case R_MEMFD:
        return o->counted_memory || o->tracer ? ALLOW : ABSENT;
    case R_TRACE:
        return o->tracer && o->isolated_pids ? ALLOW : seen;
    case R_COUNTED:
        return o->strict_memory ? QUIET : ALLOW;
    case R_SHM:
        return o->isolated_ipc && o->counted_memory ? ALLOW : seen;
    case R_QUEUE:
        return o->isolated_ipc && !o->strict_memory ? ALLOW : seen;
    case R_META:
    case R_CHMOD:
    case R_CHMODAT:
        return own_files ? ALLOW : seen;
    case R_OWNER:
    case R_OWNERAT:
        if (o->one_owner)
            return PRETEND;
        return own_files ? ALLOW : QUIET;
    case R_ATTR:
        return own_files ? ALLOW : QUIET;
    case R_XATTR:
        return own_files ? ALLOW : NOTSUP;
    case R_WATCH:
    case R_WATCH_ADD: /* an empty mask */
        return o->own_view ? ALLOW : QUIET;
    case R_TRUNCATE:
        return own_files || o->scoped_truncate ? ALLOW : seen;
    case R_OPENAT2:
        return (own_files || o->scoped_truncate) && !o->host_writable ? ALLOW : ABSENT;
    default: /* plain calls, and checks that let zeros pass */
        return ALLOW;
    }
}

/* The rules by number: R_ABSENT where the architecture has no call. */
static void rules_by_number(int by_number[MAX_NR])
{
    for (int nr = 0; nr < MAX_NR; nr++)
        by_number[nr] = R_ABSENT;
    for (enum call c = 0; c < CALLS; c++)
        if (number(c) >= 0)
            by_number[number(c)] = rules[c];
}

/* What is true of the filter of every option set. Building one takes most of the time: each is
 * built once, and asked for all of it. */

static void as_the_table_says(unsigned bits, const struct filter_options *o)
{
    static int by_number[MAX_NR];
    if (!bits)
        rules_by_number(by_number);
    for (int nr = 0; nr < MAX_NR; nr++) {
        if (!in_part((uint64_t)bits * MAX_NR + (unsigned)nr))
            continue;
        uint32_t got = run(arch, nr, NULL).ret, want = expect_zero_args(by_number[nr], o);
        cr_assert_eq(got, want, "options %#x, call %d: %#x, not %#x", bits, nr, got, want);
    }
}

/* Where the answer is the same for every number, each is tried with a part of the option sets. */
#define STEP 16

static void other_entries_are_closed_whatever_the_number(unsigned bits, uint32_t want)
{
    const uint32_t entries[] = {
        ARCH_I386,
        ARCH_ARM,
        arch == FILTER_X86_64 ? FILTER_AARCH64 : FILTER_X86_64,
        arch & 0xffff,       /* the machine alone, neither 64 bits wide nor little endian */
        arch & ~0x40000000u, /* the other order of bytes */
        arch & ~0x80000000u, /* 32 bits wide */
        0,
        ~0u,
    };
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        int step = i < 2 ? STEP : 6 * STEP;
        for (int nr = (int)(bits % STEP); nr < MAX_NR; nr += step)
            cr_assert_eq(run(entries[i], nr, NULL).ret, want, "%#x, call %d", entries[i], nr);
    }
}

/* x32 has the same architecture as the native entry and is told by a bit of the number. To aarch64
 * such a number is none at all. */
static void x32_numbers_are_closed(unsigned bits, uint32_t want)
{
    for (int nr = (int)(bits % STEP); nr < MAX_NR; nr += STEP)
        cr_assert_eq(run(arch, X32 | nr, NULL).ret, want, "options %#x, call %d", bits, nr);
    cr_assert_eq(run(arch, 0x7fffffff, NULL).ret, want, "options %#x", bits);
}

static void is_short_shallow_and_loads_arguments_only_where_it_must(unsigned bits)
{
    cr_assert_leq(program.len, 344, "options %#x: %u instructions", bits, program.len);
    for (enum call c = 0; c < CALLS; c++) {
        if (number(c) < 0 || !in_part((uint64_t)bits * CALLS + c))
            continue;
        struct sim_result r = run(arch, number(c), NULL);
        cr_assert_leq(r.steps, 32, "%s takes %u steps", call_numbers[c].name, r.steps);
        cr_assert(rules[c] != R_ALLOW || !r.read_args, "%s", call_numbers[c].name);
    }
}

TestBoth(filter, under_every_option_set)
{
    for (unsigned bits = 0; bits < OPTION_SETS; bits++) {
        struct filter_options o = option_set(bits);
        uint32_t closed = o.notify ? SEEN : ABSENT;
        build(&o);
        as_the_table_says(bits, &o);
        other_entries_are_closed_whatever_the_number(bits, closed);
        x32_numbers_are_closed(bits, arch == FILTER_X86_64 ? closed : ABSENT);
        is_short_shallow_and_loads_arguments_only_where_it_must(bits);
    }
}

TestBoth(filter, numbers_beyond_the_table_are_absent)
{
    static const int numbers[] = {1024, 4096, 65536, 0x3fffffff, -1, INT32_MIN, -1000};
    build(&container);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        cr_assert_eq(run(arch, numbers[i], NULL).ret, ABSENT, "%d", numbers[i]);
}

/* WA-6: what the runner of a module tells of sockets is seen. All else is as without: init, behind
 * the same filter, speaks over a socket. */
TestBoth(filter, a_module_has_no_sockets_and_its_runner_says_so)
{
    static const enum call told[] = {CALL_accept, CALL_recvfrom, CALL_sendto, CALL_shutdown};
    struct filter_options plain = container, module = container;
    const uint64_t nothing[6] = {UINT64_MAX}, high[6] = {0xffffffff00000003ull}, some[6] = {3};
    static uint32_t before[MAX_NR];
    module.module = true;
    build(&plain);
    for (int nr = 0; nr < MAX_NR; nr++)
        before[nr] = run(arch, nr, some).ret;
    for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++)
        cr_assert_eq(run(arch, number(told[i]), nothing).ret, ALLOW, "the control: %zu", i);
    build(&module);
    for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++)
        cr_assert_eq(run(arch, number(told[i]), nothing).ret, SEEN, "call %zu", i);
    cr_assert_eq(run(arch, number(CALL_recvfrom), high).ret, ALLOW, "a descriptor has 32 bits");
    cr_assert_eq(run(arch, number(CALL_recvmsg), nothing).ret, ALLOW);
    for (int nr = 0; nr < MAX_NR; nr++)
        cr_assert_eq(run(arch, nr, some).ret, before[nr], "call %d", nr);
}

/* GV-1: to an engine that is a kernel in user space, and to it only among pids of its own. */
TestBoth(filter, an_engine_traces_its_own_processes_and_nothing_else_is_open)
{
    struct filter_options plain = {.isolated_pids = true, .own_view = true, .notify = true};
    struct filter_options engine = plain, outside = {.tracer = true, .notify = true};
    static uint32_t before[MAX_NR];
    unsigned opened = 0;
    engine.tracer = true;
    build(&outside);
    for (enum call c = 0; c < CALLS; c++)
        if (rules[c] == R_TRACE)
            cr_assert_eq(run(arch, number(c), NULL).ret, SEEN);
    build(&plain);
    for (int nr = 0; nr < MAX_NR; nr++)
        before[nr] = run(arch, nr, NULL).ret;
    build(&engine);
    for (int nr = 0; nr < MAX_NR; nr++)
        opened += run(arch, nr, NULL).ret != before[nr];
    cr_assert_eq(opened, 2, "ptrace and memfd_create, not %u calls", opened);
}
