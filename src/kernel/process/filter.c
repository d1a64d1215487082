/* From the table and the options to a program: what each number comes down to, as ranges. The
 * compiler in filter_compile.c turns ranges into instructions. */
#include "kernel/process/filter_rules.h"

#include "os/weaken.h"

#include <errno.h>
#include <linux/seccomp.h>

/* No architecture is near this many calls. */
#define MAX_NR 1024

/* A rule whose condition the options already answer needs no argument check: such calls are either
 * in the kernel's table of always-allowed numbers, where the filter costs nothing, or refused at
 * once. */
static filter_target filter_resolve(enum filter_rule rule, const struct filter_options *o)
{
    bool contained = o->isolated_pids || o->scoped_signals; /* no signal can leave */
    bool own_files = o->own_view || o->own_uid; /* every file it owns is the sandbox's */
    bool truncation = own_files || o->scoped_truncate;
    bool sockets = o->isolated_net || o->unix_sockets;
    bool brokered = o->brokered_net && !o->isolated_net;

    switch (rule) {
    case RULE_ALLOW:
        return VERDICT_ALLOW;
    case RULE_SEEN:
        return VERDICT_SEEN;
    case RULE_PRETEND: /* K-14 */
        return VERDICT_PRETEND;
    case RULE_UNJOINED: /* K-18 */
        return guard_left_out(GUARD_PIPES) ? VERDICT_ALLOW : VERDICT_INVALID;
    case RULE_SOCKET:
        return sockets || brokered ? TARGET_CHECK(rule) : (filter_target)VERDICT_SEEN;
    case RULE_SOCKET_USE:
        if (!sockets)
            return VERDICT_SEEN;
        return o->module ? TARGET_CHECK(rule) : (filter_target)VERDICT_ALLOW;
    case RULE_SOCKET_IO:
        return o->module ? TARGET_CHECK(rule) : (filter_target)VERDICT_ALLOW;
    case RULE_CONNECT: /* where it goes is behind a pointer */
        return sockets && !brokered && !o->watched_net ? VERDICT_ALLOW : VERDICT_SEEN;
    case RULE_SENDTO:
        return brokered || o->module ? TARGET_CHECK(rule) : (filter_target)VERDICT_ALLOW;
    case RULE_SENDMSG:
        return brokered ? TARGET_CHECK(rule) : (filter_target)VERDICT_ALLOW;
    case RULE_SOCKOPT:
        return guard_left_out(GUARD_SOCKET_OPTIONS) ? (filter_target)VERDICT_ALLOW
                                                    : TARGET_CHECK(rule);
    case RULE_OWN_PID:
    case RULE_PRIORITY:
    case RULE_IOPRIO:
        return o->isolated_pids ? (filter_target)VERDICT_ALLOW : TARGET_CHECK(rule);
    case RULE_SETRLIMIT: /* LC-9 */
    case RULE_PRLIMIT:
        return TARGET_CHECK(rule);
    case RULE_PIDFD_OPEN:
        return o->isolated_pids ? VERDICT_ALLOW : VERDICT_ABSENT;
    case RULE_PIDFD_SIGNAL:
        return contained ? VERDICT_ALLOW : VERDICT_ABSENT;
    case RULE_SIGNAL:
        return contained ? VERDICT_ALLOW : VERDICT_SEEN;
    case RULE_KILL:
        return contained ? (filter_target)VERDICT_ALLOW : TARGET_CHECK(rule);
    case RULE_CLOSE_RANGE:
        return o->looked_at ? TARGET_CHECK(rule) : (filter_target)VERDICT_ALLOW;
    case RULE_COUNTED:
        return o->strict_memory ? VERDICT_QUIET : VERDICT_ALLOW;
    case RULE_IPC:
        return o->isolated_ipc ? VERDICT_ALLOW : VERDICT_SEEN;
    case RULE_TRACE: /* GV-1 */
        return o->tracer && o->isolated_pids ? VERDICT_ALLOW : VERDICT_SEEN;
    case RULE_MEMFD:
        return o->counted_memory || o->tracer ? TARGET_CHECK(rule) : (filter_target)VERDICT_ABSENT;
    case RULE_SHM:
        return o->isolated_ipc && o->counted_memory ? VERDICT_ALLOW : VERDICT_SEEN;
    case RULE_QUEUE:
        return o->isolated_ipc && !o->strict_memory ? VERDICT_ALLOW : VERDICT_SEEN;
    case RULE_META:
        return own_files ? VERDICT_ALLOW : VERDICT_SEEN;
    case RULE_OWNER:
    case RULE_OWNERAT:
        if (o->one_owner)
            return VERDICT_PRETEND;
        if (o->other_owner)
            return TARGET_CHECK(rule);
        return own_files ? VERDICT_ALLOW : VERDICT_QUIET;
    case RULE_ATTR:
        return own_files ? VERDICT_ALLOW : VERDICT_QUIET;
    case RULE_XATTR:
        return own_files ? VERDICT_ALLOW : VERDICT_NOTSUP;
    case RULE_WATCH:
        return o->own_view ? VERDICT_ALLOW : VERDICT_QUIET;
    case RULE_WATCH_ADD:
        return o->own_view ? TARGET_CHECK(rule) : (filter_target)VERDICT_QUIET;
    case RULE_TRUNCATE:
        return truncation ? VERDICT_ALLOW : VERDICT_SEEN;
    case RULE_OPEN:
    case RULE_OPENAT:
        return truncation && !o->host_writable && !o->private_shm ? (filter_target)VERDICT_ALLOW
                                                                  : TARGET_CHECK(rule);
    case RULE_NAME:
        return o->private_shm ? VERDICT_REPORT : VERDICT_ALLOW;
    case RULE_NAMEAT:
        return o->private_shm ? TARGET_CHECK(rule) : (filter_target)VERDICT_ALLOW;
    case RULE_OPENAT2: /* its flags and mode are behind a pointer */
        return truncation && !o->host_writable ? VERDICT_ALLOW : VERDICT_ABSENT;
    case RULE_CREAT:
        return o->host_writable ? TARGET_CHECK(rule) : (filter_target)VERDICT_ALLOW;
    case RULE_CHMOD:
    case RULE_CHMODAT:
        if (!own_files)
            return VERDICT_SEEN;
        return o->host_writable ? TARGET_CHECK(rule) : (filter_target)VERDICT_ALLOW;
    case RULE_CLONE:
    case RULE_UNSHARE:
    case RULE_MMAP:
    case RULE_MADVISE:
    case RULE_SOCKETPAIR:
    case RULE_IOCTL:
    case RULE_FCNTL:
    case RULE_PRCTL:
    case RULE_PERSONALITY:
    case RULE_SECCOMP:
    case RULE_MKNOD:
    case RULE_MKNODAT:
        return TARGET_CHECK(rule);
    case RULE_ABSENT:
    case RULE_COUNT:
        break;
    }
    return VERDICT_ABSENT;
}

struct builder {
    filter_target same[VERDICT_COUNT]; /* of the verdicts that return the same, the first */
    filter_target targets[MAX_NR];
    struct filter_range ranges[MAX_NR + 4]; /* the last stays zero: the end of the list */
    size_t count;
};

/* Two verdicts that return the same are one, so that their ranges merge. */
static void merge_verdicts(struct builder *b, const struct filter_options *options)
{
    for (filter_target v = 0; v < VERDICT_COUNT; v++) {
        filter_target first = 0;
        while (filter_return(first, options) != filter_return(v, options))
            first++;
        b->same[v] = first;
    }
}

static filter_target merged(const struct builder *b, filter_target target)
{
    return target < VERDICT_COUNT ? b->same[target] : target;
}

static void add_range(struct builder *b, uint32_t first, filter_target target)
{
    target = merged(b, target);
    if (b->count == 0 || b->ranges[b->count - 1].target != target)
        b->ranges[b->count++] = (struct filter_range){first, target};
}

/* In report mode a call that names a path and would be allowed, always or after a look at its
 * arguments, is shown first. The supervisor runs the plain program over the same registers to find
 * out which of the two it is. */
static filter_target reported(uint32_t arch, int nr, filter_target target,
                              const struct filter_options *options)
{
    bool may_pass = target == VERDICT_ALLOW || target >= VERDICT_COUNT;
    bool shown = (options->report && filter_is_reported(arch, nr)) ||
                 (options->learn && filter_is_learned(arch, nr));
    return shown && may_pass ? VERDICT_REPORT : target;
}

static int place_calls(struct builder *b, uint32_t arch, const struct filter_options *options,
                       struct err *err)
{
    for (unsigned nr = 0; nr < MAX_NR; nr++)
        b->targets[nr] = VERDICT_ABSENT; /* K-1 */
    for (size_t i = 0; i < filter_table_len; i++) {
        const struct filter_entry *e = &filter_table[i];
        int nr = filter_number(e, arch);
        if (nr >= MAX_NR)
            return err_set(err, ERR_INTERNAL, "system call filter: %s has number %d", e->name, nr);
        if (nr >= 0)
            b->targets[nr] = reported(arch, nr, filter_resolve(e->rule, options), options);
    }
    return 0;
}

int filter_build_for(uint32_t arch, const struct filter_options *options,
                     struct filter_program *ret, struct err *err)
{
    struct builder b = {.count = 0};

    merge_verdicts(&b, options);
    int r = place_calls(&b, arch, options, err);
    if (r < 0)
        return r;
    for (unsigned nr = 0; nr < MAX_NR; nr++)
        add_range(&b, nr, b.targets[nr]);
    add_range(&b, MAX_NR, VERDICT_ABSENT);
    if (arch == FILTER_X86_64) {
        add_range(&b, FILTER_X32_BIT, VERDICT_FOREIGN); /* K-3 */
        add_range(&b, FILTER_X32_BIT << 1, VERDICT_ABSENT);
    }
    return filter_compile(arch, b.ranges, b.count, options, ret, err);
}

int filter_build(const struct filter_options *options, struct filter_program *ret, struct err *err)
{
    return filter_build_for(FILTER_NATIVE, options, ret, err);
}
