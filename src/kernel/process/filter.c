/* From the table and the options to a program: what each number comes down to, as ranges. The
 * compiler in filter_compile.c turns ranges into instructions. */
#include "kernel/process/filter_rules.h"

#include <errno.h>
#include <linux/seccomp.h>

/* No architecture is near this many calls. */
#define MAX_NR 1024

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
    case VERDICT_ABSENT: /* K-1 */
    case VERDICT_COUNT:
        break;
    }
    return SECCOMP_RET_ERRNO | ENOSYS;
}

/* A rule whose condition the options already answer needs no argument check: such calls are either
 * in the kernel's table of always-allowed numbers, where the filter costs nothing, or refused at
 * once. */
filter_target filter_resolve(enum filter_rule rule, const struct filter_options *o)
{
    bool contained = o->isolated_pids || o->scoped_signals; /* no signal can leave */

    switch (rule) {
    case RULE_ALLOW:
        return VERDICT_ALLOW;
    case RULE_SEEN:
        return VERDICT_SEEN;
    case RULE_SOCKET:
        return o->isolated_net || o->unix_sockets ? TARGET_CHECK(rule)
                                                  : (filter_target)VERDICT_SEEN;
    case RULE_SOCKET_USE:
        return o->isolated_net || o->unix_sockets ? VERDICT_ALLOW : VERDICT_SEEN;
    case RULE_SOCKOPT:
        return o->isolated_net ? TARGET_CHECK(rule) : (filter_target)VERDICT_ALLOW;
    case RULE_OWN_PID:
    case RULE_PRIORITY:
    case RULE_IOPRIO:
        return o->isolated_pids ? (filter_target)VERDICT_ALLOW : TARGET_CHECK(rule);
    case RULE_PIDFD_OPEN:
        return o->isolated_pids ? VERDICT_ALLOW : VERDICT_ABSENT;
    case RULE_PIDFD_SIGNAL:
        return contained ? VERDICT_ALLOW : VERDICT_ABSENT;
    case RULE_SIGNAL:
        return contained ? VERDICT_ALLOW : VERDICT_SEEN;
    case RULE_KILL:
    case RULE_FCNTL:
        return contained ? (filter_target)VERDICT_ALLOW : TARGET_CHECK(rule);
    case RULE_IPC:
        return o->isolated_ipc ? VERDICT_ALLOW : VERDICT_SEEN;
    case RULE_CLONE:
    case RULE_UNSHARE:
    case RULE_SOCKETPAIR:
    case RULE_IOCTL:
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

/* Two verdicts that return the same are one, so that their ranges merge. */
static filter_target canonical(filter_target target, const struct filter_options *options)
{
    if (target >= VERDICT_COUNT)
        return target;
    filter_target v = 0;
    while (filter_return(v, options) != filter_return(target, options))
        v++;
    return v;
}

struct range_list {
    struct filter_range items[MAX_NR + 4]; /* the last stays zero: the end of the list */
    size_t count;
};

static void add_range(struct range_list *list, uint32_t first, filter_target target)
{
    if (list->count == 0 || list->items[list->count - 1].target != target)
        list->items[list->count++] = (struct filter_range){first, target};
}

int filter_build(const struct filter_options *options, struct filter_program *ret, struct err *err)
{
    filter_target targets[MAX_NR];
    struct range_list list = {.count = 0};

    for (unsigned nr = 0; nr < MAX_NR; nr++)
        targets[nr] = canonical(VERDICT_ABSENT, options);
    for (size_t i = 0; i < filter_table_len; i++) {
        const struct filter_entry *e = &filter_table[i];
        if (e->nr >= MAX_NR)
            return err_set(err, ERR_INTERNAL, "system call filter: %s has number %d", e->name,
                           e->nr);
        if (e->nr >= 0)
            targets[e->nr] = canonical(filter_resolve(e->rule, options), options);
    }
    for (unsigned nr = 0; nr < MAX_NR; nr++)
        add_range(&list, nr, targets[nr]);
    add_range(&list, MAX_NR, canonical(VERDICT_ABSENT, options));
#ifdef FILTER_X32_BIT
    add_range(&list, FILTER_X32_BIT, canonical(VERDICT_FOREIGN, options)); /* K-3 */
    add_range(&list, FILTER_X32_BIT << 1, canonical(VERDICT_ABSENT, options));
#endif
    return filter_compile(list.items, list.count, options, ret, err);
}
