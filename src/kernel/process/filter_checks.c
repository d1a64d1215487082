/* The argument checks, one small function per rule.
 *
 * K-4 holds by construction: a step can load a register word, mask it and compare it, nothing else.
 * Where the kernel declares an argument as a 32-bit (or shorter) number only the low word is looked
 * at, as the kernel does: comparing the high word as well would let `1 << 32 | x` past a check for
 * x. */
#include "kernel/process/filter_rules.h"

#include "os/sys.h"

#include <fcntl.h>
#include <linux/ioprio.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* The headers that we build with are of one architecture, the filter may be for the other: what is
 * compared must be the same on both. Some neighbours of these flags differ. */
_Static_assert(O_CREAT == 0100 && O_EXCL == 0200 && O_NOCTTY == 0400 && O_TRUNC == 01000 &&
                   O_PATH == 010000000 && (O_TMPFILE & ~O_DIRECTORY) == 020000000,
               "open flags");
_Static_assert(MAP_SHARED == 1 && MAP_TYPE == 0xf && MAP_ANONYMOUS == 0x20 &&
                   MAP_HUGETLB == 0x40000 && MADV_MERGEABLE == 12,
               "flags of mappings");

/* Newer than some headers that we build with. */
#ifndef PR_SCHED_CORE
#define PR_SCHED_CORE 62
#endif

/* The C library shows them to some programs only. */
#define OFD_SETLK  37
#define OFD_SETLKW 38

#define CLONE_NEW_ANY                                                                              \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |  \
     CLONE_NEWNET)
#define UNSHARE_HARMLESS                                                                           \
    (CLONE_FS | CLONE_FILES | CLONE_SYSVSEM | CLONE_VM | CLONE_SIGHAND | CLONE_THREAD)
#define SOCKET_TYPE_MASK 0xf /* the rest of the type is flags */

#define ALLOW   CHECK_END(ALLOW)
#define SEEN    CHECK_END(SEEN)
#define QUIET   CHECK_END(QUIET)
#define NOPROTO CHECK_END(NOPROTO)
#define NOTSUP  CHECK_END(NOTSUP)
#define NOOPT   CHECK_END(NOOPT)
#define PRETEND CHECK_END(PRETEND)
#define INVALID CHECK_END(INVALID)
#define SHOW    CHECK_END(REPORT)
#define NEXT    CHECK_NEXT

static void add(struct filter_check *c, uint16_t code, uint32_t k, int yes, int no)
{
    /* All checks are constants of this file, and a test builds each of them. */
    if (c->count < CHECK_MAX_STEPS)
        c->steps[c->count++] = (struct check_step){code, k, yes, no};
}

static void load_low(struct filter_check *c, unsigned arg)
{
    add(c, BPF_LD | BPF_W | BPF_ABS,
        (uint32_t)(offsetof(struct seccomp_data, args) + arg * sizeof(uint64_t)), 0, 0);
}

static void load_high(struct filter_check *c, unsigned arg)
{
    load_low(c, arg);
    c->steps[c->count - 1].k += sizeof(uint32_t); /* both architectures are little endian */
}

static void mask(struct filter_check *c, uint32_t bits)
{
    add(c, BPF_ALU | BPF_AND | BPF_K, bits, 0, 0);
}

static void if_equal(struct filter_check *c, uint32_t k, int yes, int no)
{
    add(c, BPF_JMP | BPF_JEQ | BPF_K, k, yes, no);
}

static void if_greater(struct filter_check *c, uint32_t k, int yes, int no)
{
    add(c, BPF_JMP | BPF_JGT | BPF_K, k, yes, no);
}

static void if_any_bit(struct filter_check *c, uint32_t bits, int yes, int no)
{
    add(c, BPF_JMP | BPF_JSET | BPF_K, bits, yes, no);
}

/* The last of the values decides for `otherwise`. */
static void one_of(struct filter_check *c, const uint32_t *values, size_t count, int yes,
                   int otherwise)
{
    for (size_t i = 0; i < count; i++)
        if_equal(c, values[i], yes, i + 1 == count ? otherwise : NEXT);
}
#define ONE_OF(c, yes, otherwise, ...)                                                             \
    one_of(c, (const uint32_t[]){__VA_ARGS__},                                                     \
           sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t), yes, otherwise)

static void label(struct filter_check *c, size_t name)
{
    c->labels[name] = c->count;
}

static bool signals_contained(const struct filter_options *o)
{
    return o->isolated_pids || o->scoped_signals;
}

/* The kernel takes the low word, less the lowest byte, which is the signal at exit: CLONE_NEWTIME
 * lies there and cannot be asked for. All other bits of the word are known flags. */
static void check_clone(struct filter_check *c, const struct filter_options *o)
{
    load_low(c, 0);
    if_any_bit(c, CLONE_NEW_ANY, SEEN, o->looked_at ? NEXT : ALLOW);
    if (!o->looked_at)
        return;
    /* /proc shows the table of a process's first thread. */
    mask(c, CLONE_THREAD | CLONE_FILES);
    if_equal(c, CLONE_THREAD, QUIET, ALLOW);
}

/* Here the kernel takes all 64 bits, and new kinds of namespace would be new bits: name what is
 * harmless. */
static void check_unshare(struct filter_check *c, const struct filter_options *o)
{
    load_high(c, 0);
    if_equal(c, 0, NEXT, SEEN);
    load_low(c, 0);
    if_any_bit(c, ~(uint32_t)UNSHARE_HARMLESS, SEEN, o->looked_at ? NEXT : ALLOW);
    if (o->looked_at)
        if_any_bit(c, CLONE_FILES, QUIET, ALLOW);
}

#define CLOSE_UNSHARES 2u /* CLOSE_RANGE_UNSHARE */

static void check_close_range(struct filter_check *c)
{
    load_low(c, 2);
    if_any_bit(c, CLOSE_UNSHARES, QUIET, ALLOW);
}

/* Huge pages are in no account of memory, neither a cgroup's nor a process's. Shared memory without
 * a file is held by a file that nobody sees: all of it stays as long as one page is mapped, and a
 * process is charged only for the pages that it has in use. A look counts each for the most that is
 * let through here. */
static void check_mmap(struct filter_check *c, const struct filter_options *o)
{
    load_low(c, 3);
    if_any_bit(c, MAP_HUGETLB, QUIET, o->strict_memory ? NEXT : ALLOW);
    if (!o->strict_memory)
        return;
    mask(c, MAP_TYPE | MAP_ANONYMOUS);
    if_equal(c, MAP_SHARED | MAP_ANONYMOUS, NEXT, ALLOW);
    load_high(c, 1);
    if_equal(c, 0, NEXT, SEEN);
    load_low(c, 1);
    if_greater(c, o->shared_max, SEEN, ALLOW);
}

/* K-21 */
static void check_madvise(struct filter_check *c)
{
    load_low(c, 2);
    if_equal(c, MADV_MERGEABLE, INVALID, ALLOW);
}

#define MEMFD_HUGE 4u /* MFD_HUGETLB */

static void check_memfd(struct filter_check *c)
{
    load_low(c, 1);
    if_any_bit(c, MEMFD_HUGE, QUIET, ALLOW);
}

/* Streams and datagrams only: SOCK_RAW sees what others send, and SOCK_PACKET (10) is AF_PACKET by
 * another name. Protocols beyond the usual bring in kernel modules that nobody audits; runtimes
 * that ask for one (Go asks for MPTCP) expect that a kernel may lack it. */
static void check_inet(struct filter_check *c)
{
    load_low(c, 1);
    mask(c, SOCKET_TYPE_MASK);
    if_equal(c, SOCK_STREAM, CHECK_TO(1), NEXT);
    if_equal(c, SOCK_DGRAM, NEXT, SEEN);
    label(c, 1);
    load_low(c, 2);
    ONE_OF(c, ALLOW, NOPROTO, 0, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMP, IPPROTO_ICMPV6);
}

static bool is_brokered(const struct filter_options *o)
{
    return o->brokered_net && !o->isolated_net;
}

/* On the host's network: TCP and nothing else. Any datagram could be sent anywhere without a
 * connect, and MPTCP or SCTP open connections by other means than the one that the supervisor looks
 * at. */
static void check_brokered_inet(struct filter_check *c)
{
    if_equal(c, AF_INET, CHECK_TO(0), NEXT);
    if_equal(c, AF_INET6, NEXT, SEEN);
    label(c, 0);
    load_low(c, 1);
    mask(c, SOCKET_TYPE_MASK);
    if_equal(c, SOCK_STREAM, NEXT, SEEN);
    load_low(c, 2);
    ONE_OF(c, ALLOW, NOPROTO, 0, IPPROTO_TCP);
}

static void check_socket(struct filter_check *c, const struct filter_options *o)
{
    load_low(c, 0);
    if (o->unix_sockets)
        if_equal(c, AF_UNIX, ALLOW, o->isolated_net || o->brokered_net ? NEXT : SEEN);
    if (is_brokered(o))
        return check_brokered_inet(c);
    if (!o->isolated_net)
        return;
    if_equal(c, AF_INET, CHECK_TO(0), NEXT);
    if_equal(c, AF_INET6, CHECK_TO(0), NEXT);
    if_equal(c, AF_NETLINK, NEXT, SEEN);
    load_low(
        c,
        2); /* 0 is NETLINK_ROUTE: lists of interfaces and addresses; changes need a capability */
    if_equal(c, 0, ALLOW, SEEN);
    label(c, 0);
    check_inet(c);
}

/* A pair of streams stays a pair. One of datagrams can be connected anew or sent from to any socket
 * file, and SOCK_RAW is another name for it. */
static void check_socketpair(struct filter_check *c, const struct filter_options *o)
{
    load_low(c, 0);
    if_equal(c, AF_UNIX, o->unix_sockets ? ALLOW : NEXT, SEEN);
    if (o->unix_sockets)
        return;
    load_low(c, 1);
    mask(c, SOCKET_TYPE_MASK);
    ONE_OF(c, ALLOW, SEEN, SOCK_STREAM, SOCK_SEQPACKET);
}

/* With MSG_FASTOPEN the address of a send is that of a connect. */
static void check_send(struct filter_check *c, unsigned flags_arg)
{
    load_low(c, flags_arg);
    if_any_bit(c, MSG_FASTOPEN, NOTSUP, ALLOW);
}

/* WA-6: nothing else inside names no descriptor, and to who does the kernel would say EBADF. */
static void check_descriptor(struct filter_check *c, int good)
{
    load_low(c, 0);
    if_equal(c, UINT32_MAX, SEEN, good);
}

static void check_sendto(struct filter_check *c, const struct filter_options *o)
{
    if (o->module)
        check_descriptor(c, is_brokered(o) ? NEXT : ALLOW);
    if (is_brokered(o))
        check_send(c, 3);
}

/* K-12  A socket option that is not in the table cannot be set, and no socket inside can linger.
 *
 * What is set on a socket also holds for the connect that the supervisor makes on it, and some
 * options decide where its packets go: source routes (IP_OPTIONS, IPV6_RTHDR), interfaces
 * (SO_BINDTODEVICE, IPV6_PKTINFO); others keep it from ever completing (filters, TCP_MD5SIG,
 * TCP_FASTOPEN_CONNECT) or speak to groups. With a network of its own none of this leads anywhere,
 * but most options have code of their own in the kernel, of which little is looked at and much was
 * wrong (TCP_ULP, UDP_ENCAP, multicast groups, packet filters). So: what programs use
 * (sockopts.def), and nothing else. */
#define SOCKOPTS_MAX 32

/* Those that are open at all, from the highest number of the last level down. */
static size_t open_sockopts(const struct filter_options *o, const struct filter_sockopt **ret)
{
    size_t count = 0;
    for (size_t i = filter_sockopts_len; i-- > 0 && count < SOCKOPTS_MAX;)
        if (filter_sockopts[i].who != WHO_OWN || o->isolated_net)
            ret[count++] = &filter_sockopts[i];
    return count;
}

/* What is above a range, and in none of those before, is in none. */
static void check_range(struct filter_check *c, const struct filter_sockopt *s,
                        const struct filter_options *o)
{
    bool pretended = s->who == WHO_PRETENDED || (s->who == WHO_COUNTED && o->strict_memory);
    int good = pretended ? PRETEND : ALLOW;
    if (s->first == s->last)
        return if_equal(c, s->first, good, NEXT);
    if_greater(c, s->last, NOOPT, NEXT);
    if_greater(c, s->first - 1, good, NEXT);
}

static void check_sockopt(struct filter_check *c, const struct filter_options *o)
{
    const struct filter_sockopt *list[SOCKOPTS_MAX];
    size_t count = open_sockopts(o, list), levels = 0;
    load_low(c, 1);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || list[i]->level != list[i - 1]->level)
            if_equal(c, list[i]->level, CHECK_TO((int)levels++), NEXT);
    levels = 0;
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || list[i]->level != list[i - 1]->level) {
            c->steps[c->count - 1].no = NOOPT; /* of the levels, or of the level before */
            label(c, levels++);
            load_low(c, 2);
        }
        check_range(c, list[i], o);
    }
    c->steps[c->count - 1].no = NOOPT;
}

/* Routes, interfaces and their addresses: of the host, where there is no network of its own. Any
 * socket answers them, also one of a pair. */
#define SIOC_FIRST 0x8908
#define SIOC_LAST  0x89ff

static void check_ioctl(struct filter_check *c, const struct filter_options *o)
{
    load_low(c, 1);
    if (!o->isolated_net) {
        if_greater(c, SIOC_LAST, CHECK_TO(0), NEXT);
        if_greater(c, SIOC_FIRST - 1, QUIET, NEXT);
        label(c, 0);
    }
    if (!signals_contained(o))
        ONE_OF(c, QUIET, NEXT, FIOSETOWN, SIOCSPGRP);
    ONE_OF(c, SEEN, ALLOW, TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD);
}

/* K-13: leases and directory notification tell what others open, and a lease makes them wait for
 * it; so do delegations, which are newer than F_SET_FILE_RW_HINT, the last of the harmless
 * commands. A larger pipe would hold more than a look counts it for. */
static void check_fcntl(struct filter_check *c, const struct filter_options *o)
{
    load_low(c, 1);
    if_greater(c, F_SET_FILE_RW_HINT, QUIET, NEXT);
    if (!signals_contained(o))
        ONE_OF(c, QUIET, NEXT, F_SETOWN, F_SETOWN_EX, F_SETSIG);
    if (o->strict_memory)
        if_equal(c, F_SETPIPE_SZ, QUIET, NEXT);
    /* Such a lock stays with a file that is only mapped, or in flight, where no look finds it.
     * EINVAL is what kernels without them say, and what programs fall back at. */
    if (o->looked_at)
        ONE_OF(c, INVALID, NEXT, OFD_SETLK, OFD_SETLKW);
    ONE_OF(c, QUIET, ALLOW, F_SETLEASE, F_NOTIFY);
}

/* K-13: with events of reading the supervisor sets the watch, without those. */
static void check_watch(struct filter_check *c)
{
    load_low(c, 2);
    if_any_bit(c, FILTER_READ_EVENTS, SEEN, ALLOW);
}

/* PR_SCHED_CORE reaches other processes and can idle the sibling CPU; PR_SET_MM fakes what /proc
 * says. K-21: PR_SET_MEMORY_MERGE. */
static void check_prctl(struct filter_check *c)
{
    load_low(c, 0);
    if_equal(c, SYS_PR_SET_MEMORY_MERGE, INVALID, NEXT);
    ONE_OF(c, QUIET, ALLOW, PR_SET_MM, PR_SCHED_CORE);
}

static void check_personality(struct filter_check *c)
{
    load_low(c, 0);
    ONE_OF(c, ALLOW, SEEN, 0, 0x8, 0x20000, 0x20008, 0x40000, 0xffffffff);
}

/* A second listener could answer "go on" to what our own filter wants to have refused. The kernel
 * allows one listener only, while ours is loaded; this does not rest on it. */
static void check_seccomp(struct filter_check *c)
{
    load_low(c, 0);
    if_equal(c, SECCOMP_SET_MODE_FILTER, NEXT, ALLOW);
    load_low(c, 1);
    if_any_bit(c, SECCOMP_FILTER_FLAG_NEW_LISTENER, QUIET, ALLOW);
}

#define SET_ID_BITS (S_ISUID | S_ISGID)

static void check_set_id(struct filter_check *c, unsigned mode_arg)
{
    load_low(c, mode_arg);
    if_any_bit(c, SET_ID_BITS, SEEN, ALLOW);
}

/* The kernel takes 16 bits of the mode; the type is in them. */
static void check_mknod(struct filter_check *c, unsigned mode_arg, const struct filter_options *o)
{
    load_low(c, mode_arg);
    if (o->host_writable)
        if_any_bit(c, SET_ID_BITS, SEEN, NEXT);
    mask(c, S_IFMT);
    ONE_OF(c, ALLOW, SEEN, 0, S_IFREG, S_IFIFO, S_IFSOCK);
}

/* Not the same on both architectures. */
static uint32_t flag_nofollow(uint32_t arch)
{
    return arch == FILTER_X86_64 ? 0400000 : 0100000;
}

static uint32_t flag_directory(uint32_t arch)
{
    return arch == FILTER_X86_64 ? 0200000 : 040000;
}

/* How libraries open what is in /dev/shm: as a new file, or not through a link, and always for
 * reading. To be shown costs a call ten times its time: what archivers, compilers and interpreters
 * do to many files has another shape. */
static void check_shm_open(struct filter_check *c, unsigned flags_arg, uint32_t arch)
{
    if (flags_arg > 1) {
        load_low(c, 0);
        if_equal(c, (uint32_t)AT_FDCWD, NEXT, ALLOW);
    }
    load_low(c, flags_arg);
    if_any_bit(c, O_WRONLY | O_NOCTTY | O_PATH | flag_directory(arch), ALLOW, NEXT);
    if_any_bit(c, flag_nofollow(arch), SHOW, NEXT);
    mask(c, O_CREAT | O_EXCL);
    if_equal(c, O_CREAT | O_EXCL, SHOW, ALLOW);
}

/* Opening for reading with O_TRUNC empties a file that Landlock was only asked to let be read. A
 * new file's mode follows the flags; without O_CREAT or O_TMPFILE that register is noise. */
static void check_open(struct filter_check *c, unsigned flags_arg, uint32_t arch,
                       const struct filter_options *o)
{
    int good = o->private_shm ? CHECK_TO(0) : ALLOW;
    bool truncation = o->own_view || o->own_uid || o->scoped_truncate;
    if (!truncation) {
        load_low(c, flags_arg);
        mask(c, O_ACCMODE | O_TRUNC);
        if_equal(c, O_RDONLY | O_TRUNC, SEEN, o->host_writable ? NEXT : good);
    }
    if (o->host_writable) {
        load_low(c, flags_arg);
        if_any_bit(c, O_CREAT | (O_TMPFILE & ~O_DIRECTORY), NEXT, good);
        load_low(c, flags_arg + 1);
        if_any_bit(c, SET_ID_BITS, SEEN, good);
    }
    label(c, 0);
    if (o->private_shm)
        check_shm_open(c, flags_arg, arch);
}

/* Installers give files to users of the system, who are not there; that is pretended. Whether a
 * file can be given to the one who is there, the kernel says. */
static void check_owner(struct filter_check *c, unsigned uid_arg, const struct filter_options *o)
{
    load_low(c, uid_arg);
    if_equal(c, o->other_owner, ALLOW, NEXT);
    load_low(c, uid_arg + 1);
    if_equal(c, o->other_owner, ALLOW, PRETEND);
}

/* What removes trees goes from folder to folder. The third argument: the flags of unlinkat, or
 * linkat's other folder. */
static void check_nameat(struct filter_check *c)
{
    load_low(c, 0);
    if_equal(c, (uint32_t)AT_FDCWD, NEXT, ALLOW);
    load_low(c, 2);
    ONE_OF(c, SHOW, ALLOW, 0, (uint32_t)AT_FDCWD);
}

static void check_caller(struct filter_check *c, unsigned pid_arg)
{
    load_low(c, pid_arg);
    if_equal(c, 0, ALLOW, SEEN);
}

/* LC-9: one that is 0 is no limit. */
static void check_setrlimit(struct filter_check *c)
{
    load_low(c, 0);
    if_equal(c, RLIMIT_CORE, PRETEND, ALLOW);
}

/* A call that also asks for the old setting would get none, and take that for an answer. */
static void check_prlimit(struct filter_check *c, const struct filter_options *o)
{
    if (!o->isolated_pids) {
        load_low(c, 0);
        if_equal(c, 0, NEXT, SEEN);
    }
    load_low(c, 1);
    if_equal(c, RLIMIT_CORE, NEXT, ALLOW);
    load_low(c, 2);
    if_equal(c, 0, NEXT, CHECK_TO(0));
    load_high(c, 2);
    if_equal(c, 0, ALLOW, NEXT);
    label(c, 0);
    load_low(c, 3);
    if_equal(c, 0, NEXT, QUIET);
    load_high(c, 3);
    if_equal(c, 0, PRETEND, QUIET);
}

/* Process and process group have the two lowest numbers; beyond them are all processes of a user.
 */
static void check_caller_or_group(struct filter_check *c, uint32_t group)
{
    load_low(c, 0);
    if_greater(c, group, SEEN, NEXT);
    check_caller(c, 1);
}

void filter_check_write(enum filter_rule rule, uint32_t arch, const struct filter_options *o,
                        struct filter_check *ret)
{
    memset(ret, 0, sizeof(*ret));
    switch (rule) {
    case RULE_CLONE:
        return check_clone(ret, o);
    case RULE_UNSHARE:
        return check_unshare(ret, o);
    case RULE_CLOSE_RANGE:
        return check_close_range(ret);
    case RULE_MMAP:
        return check_mmap(ret, o);
    case RULE_MADVISE:
        return check_madvise(ret);
    case RULE_MEMFD:
        return check_memfd(ret);
    case RULE_SOCKET:
        return check_socket(ret, o);
    case RULE_SOCKETPAIR:
        return check_socketpair(ret, o);
    case RULE_SOCKOPT:
        return check_sockopt(ret, o);
    case RULE_SOCKET_USE:
    case RULE_SOCKET_IO:
        return check_descriptor(ret, ALLOW);
    case RULE_SENDTO: /* and sendmmsg */
        return check_sendto(ret, o);
    case RULE_SENDMSG:
        return check_send(ret, 2);
    case RULE_IOCTL:
        return check_ioctl(ret, o);
    case RULE_FCNTL:
        return check_fcntl(ret, o);
    case RULE_WATCH_ADD:
        return check_watch(ret);
    case RULE_PRCTL:
        return check_prctl(ret);
    case RULE_PERSONALITY:
        return check_personality(ret);
    case RULE_SECCOMP:
        return check_seccomp(ret);
    case RULE_MKNOD:
        return check_mknod(ret, 1, o);
    case RULE_MKNODAT:
        return check_mknod(ret, 2, o);
    case RULE_OPEN:
        return check_open(ret, 1, arch, o);
    case RULE_OPENAT:
        return check_open(ret, 2, arch, o);
    case RULE_NAMEAT:
        return check_nameat(ret);
    case RULE_OWNER:
        return check_owner(ret, 1, o);
    case RULE_OWNERAT:
        return check_owner(ret, 2, o);
    case RULE_CREAT:
    case RULE_CHMOD:
        return check_set_id(ret, 1);
    case RULE_CHMODAT:
        return check_set_id(ret, 2);
    case RULE_SETRLIMIT:
        return check_setrlimit(ret);
    case RULE_PRLIMIT:
        return check_prlimit(ret, o);
    case RULE_OWN_PID:
    case RULE_KILL: /* 0 is the own process group */
        return check_caller(ret, 0);
    case RULE_PRIORITY:
        return check_caller_or_group(ret, PRIO_PGRP);
    case RULE_IOPRIO:
        return check_caller_or_group(ret, IOPRIO_WHO_PGRP);
    default:
        /* filter_resolve gives no check for these: refuse, if ever it does. */
        load_low(ret, 0);
        return if_equal(ret, 0, SEEN, SEEN);
    }
}
