/* The words of a denial: which call, in which boundary, by which rule, and what to do instead. The
 * text names kinds of attempts, not their numbers (no pids, no addresses), so that a loop over all
 * pids is one entry. */
#include "kernel/process/filter_rules.h"

#include <linux/sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define AUDIT_I386 0x40000003u
#define AUDIT_ARM  0x40000028u

struct words {
    enum boundary_id boundary;
    const char *rule;
    const char *hint;
    enum filter_fix fix;
};

static const struct words group_words[GROUP_COUNT] = {
    [GROUP_FILES] =
        {BOUNDARY_FILESYSTEM, "kernel.seccomp: metadata and truncation of host files",
         "use --tier container, whose files are its own, or change files in the workspace",
         FIX_TIER},
    [GROUP_MEMORY] = {BOUNDARY_LIFECYCLE,
                      "kernel.seccomp: no shared memory without a file where no cgroup counts it",
                      "share a file in the workspace, or give brig a cgroup: `brig doctor` says "
                      "how"},
    [GROUP_SIGNALS] = {BOUNDARY_KERNEL, "kernel.seccomp: signals stay inside",
                       "signal only processes of this sandbox"},
    [GROUP_SOCKET] = {BOUNDARY_NETWORK, "kernel.seccomp: no sockets that lead outside",
                      "name the hosts with --allow; the container tier also gives a private "
                      "loopback network; raw "
                      "and special sockets stay closed",
                      FIX_TIER},
    [GROUP_IPC] = {BOUNDARY_KERNEL, "kernel.seccomp: IPC objects would be shared with the host",
                   "use --tier container, which has IPC of its own (what holds memory also needs a "
                   "cgroup that counts it), or pipes and files",
                   FIX_TIER},
    [GROUP_NAMESPACE] = {BOUNDARY_KERNEL, "kernel.seccomp: no new or other namespaces",
                         "no setting allows it; start a second sandbox from outside instead"},
    [GROUP_MOUNT] = {BOUNDARY_FILESYSTEM,
                     "kernel.seccomp: the view is fixed before the code starts",
                     "show it more with --ro DIR, --rw DIR or --root DIR"},
    [GROUP_HANDLE] = {BOUNDARY_FILESYSTEM, "kernel.seccomp: files are reached by path only",
                      "open the file by its path"},
    [GROUP_DEVICE] = {BOUNDARY_FILESYSTEM, "kernel.seccomp: no device nodes",
                      "use the nodes in /dev; FIFOs, sockets and plain files can be made"},
    [GROUP_WATCH] = {BOUNDARY_FILESYSTEM, "kernel.seccomp: no watching of whole file systems",
                     "use inotify"},
    [GROUP_ADMIN] = {BOUNDARY_KERNEL, "kernel.seccomp: system administration is closed",
                     "no setting allows it; do it on the host"},
    [GROUP_CLOCK] = {BOUNDARY_KERNEL, "kernel.seccomp: the clock is the host's",
                     "no setting allows it; for another time zone set TZ"},
    [GROUP_MODULE] = {BOUNDARY_KERNEL, "kernel.seccomp: no code into the kernel",
                      "no setting allows it; do it on the host"},
    [GROUP_TRACE] = {BOUNDARY_KERNEL,
                     "kernel.seccomp: no access to other processes' memory or files",
                     "debug outside of the sandbox"},
    [GROUP_KEYS] = {BOUNDARY_KERNEL, "kernel.seccomp: kernel keyrings are shared with the host",
                    "keep keys in memory or in a file"},
    [GROUP_SURFACE] = {BOUNDARY_KERNEL, "kernel.seccomp: interface with a history of kernel bugs",
                       "no setting allows it; profile or trace from outside"},
    [GROUP_LIMITS] =
        {BOUNDARY_LIFECYCLE, "kernel.seccomp: limits and priorities of other processes",
         "name the caller itself (pid 0), or use --tier container, which has pids of its own",
         FIX_TIER},
    [GROUP_TERMINAL] = {BOUNDARY_KERNEL, "kernel.seccomp: no typing into the terminal",
                        "no setting allows it; use -t for a private terminal"},
};

static const struct words unix_words = {BOUNDARY_FILESYSTEM,
                                        "kernel.seccomp: socket files cannot be confined by path",
                                        "use a stream socketpair; on the container tier "
                                        "--unix-sockets require allows them, also towards socket "
                                        "files in granted folders",
                                        FIX_UNIX_SOCKETS};
static const struct words special_words = {
    BOUNDARY_NETWORK, "kernel.seccomp: no raw or special sockets",
    "no setting allows it; use TCP, and name the hosts with --allow"};
static const struct words set_id_words = {
    BOUNDARY_FILESYSTEM, "kernel.seccomp: no set-id files while host folders are writable",
    "leave the set-id bits out, or work in the workspace without --rw"};
static const struct words watch_words = {
    BOUNDARY_FILESYSTEM, "kernel.seccomp: who reads a file is not told",
    "watch for changes instead (IN_MODIFY, IN_CLOSE_WRITE, IN_CREATE, …)"};
static const struct words foreign_words = {BOUNDARY_KERNEL,
                                           "kernel.seccomp: only the native 64-bit entry is open",
                                           "use a native 64-bit build of the program"};
static const struct words module_words = {
    BOUNDARY_NETWORK, "kernel.tier: a module has no sockets",
    "no setting gives it any; a program of the system has them: --tier container --allow HOST"};
static const struct words other_words = {BOUNDARY_KERNEL, "kernel.seccomp: not an allowed call",
                                         "see docs/seccomp.md"};

struct name {
    uint32_t value;
    const char *text;
};

static const struct name families[] = {
    {AF_UNIX, "AF_UNIX"},
    {AF_INET, "AF_INET"},
    {AF_AX25, "AF_AX25"},
    {AF_IPX, "AF_IPX"},
    {AF_INET6, "AF_INET6"},
    {AF_KEY, "AF_KEY"},
    {AF_NETLINK, "AF_NETLINK"},
    {AF_PACKET, "AF_PACKET"},
    {AF_RDS, "AF_RDS"},
    {AF_CAN, "AF_CAN"},
    {AF_TIPC, "AF_TIPC"},
    {AF_BLUETOOTH, "AF_BLUETOOTH"},
    {AF_ALG, "AF_ALG"},
    {AF_NFC, "AF_NFC"},
    {AF_VSOCK, "AF_VSOCK"},
    {43, "AF_SMC"},
    {44, "AF_XDP"},
    {45, "AF_MCTP"},
};
static const struct name types[] = {
    {SOCK_STREAM, "SOCK_STREAM"}, {SOCK_DGRAM, "SOCK_DGRAM"},         {SOCK_RAW, "SOCK_RAW"},
    {SOCK_RDM, "SOCK_RDM"},       {SOCK_SEQPACKET, "SOCK_SEQPACKET"}, {6, "SOCK_DCCP"},
    {10, "SOCK_PACKET"},
};
static const struct name namespaces[] = {
    {CLONE_NEWUSER, "CLONE_NEWUSER"},     {CLONE_NEWNS, "CLONE_NEWNS"},
    {CLONE_NEWPID, "CLONE_NEWPID"},       {CLONE_NEWNET, "CLONE_NEWNET"},
    {CLONE_NEWIPC, "CLONE_NEWIPC"},       {CLONE_NEWUTS, "CLONE_NEWUTS"},
    {CLONE_NEWCGROUP, "CLONE_NEWCGROUP"}, {0x80, "CLONE_NEWTIME"},
};
static const struct name ioctls[] = {
    {TIOCSTI, "TIOCSTI"},
    {TIOCLINUX, "TIOCLINUX"},
    {TIOCCONS, "TIOCCONS"},
    {TIOCSETD, "TIOCSETD"},
};
#define LOOKUP(table, value) lookup(table, sizeof(table) / sizeof(table[0]), value)

static const char *lookup(const struct name *names, size_t count, uint32_t value)
{
    for (size_t i = 0; i < count; i++) {
        if (names[i].value == value)
            return names[i].text;
    }
    return NULL;
}

static void say(struct filter_denial *d, const struct words *words)
{
    d->boundary = words->boundary;
    d->rule = words->rule;
    d->hint = words->hint;
    d->fix = words->fix;
}

/* Adds to `what`, which cuts off rather than overflows. */
__attribute__((format(printf, 2, 3))) static void append(struct filter_denial *d, const char *fmt,
                                                         ...)
{
    size_t len = strlen(d->what);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(d->what + len, sizeof(d->what) - len, fmt, ap);
    va_end(ap);
}

static void describe_namespaces(struct filter_denial *d, uint32_t flags)
{
    char sep = '(';
    for (size_t i = 0; i < sizeof(namespaces) / sizeof(namespaces[0]); i++) {
        if (!(flags & namespaces[i].value))
            continue;
        append(d, "%c%s", sep, namespaces[i].text);
        sep = '|';
    }
    if (sep == '|')
        append(d, ")");
}

static void describe_socket(struct filter_denial *d, const uint64_t args[6])
{
    uint32_t family = (uint32_t)args[0], type = (uint32_t)args[1] & 0xf;
    const char *name = LOOKUP(families, family);
    const char *type_name = LOOKUP(types, type);

    if (family == AF_UNIX)
        say(d, &unix_words);
    if (name)
        append(d, "(%s", name);
    else
        append(d, "(family %u", family);
    if (family == AF_NETLINK)
        append(d, ", protocol %u", (uint32_t)args[2]);
    else if ((family == AF_UNIX || family == AF_INET || family == AF_INET6) && type_name)
        append(d, ", %s", type_name);
    append(d, ")");
    if ((family != AF_UNIX && family != AF_INET && family != AF_INET6) ||
        (type != SOCK_STREAM && type != SOCK_DGRAM && family != AF_UNIX))
        say(d, &special_words);
}

static void describe_ioctl(struct filter_denial *d, uint32_t cmd)
{
    const char *name = LOOKUP(ioctls, cmd);
    if (name)
        append(d, "(%s)", name);
}

static void describe_set_id(struct filter_denial *d, uint32_t mode)
{
    if (!(mode & (S_ISUID | S_ISGID)))
        return;
    append(d, "(set-id)");
    say(d, &set_id_words);
}

static void describe_mknod(struct filter_denial *d, uint32_t mode)
{
    if (S_ISCHR(mode))
        append(d, "(character device)");
    else if (S_ISBLK(mode))
        append(d, "(block device)");
    else
        describe_set_id(d, mode);
}

static void describe_arguments(struct filter_denial *d, enum filter_rule rule,
                               const uint64_t args[6])
{
    switch (rule) {
    case RULE_CLONE:
        return describe_namespaces(d, (uint32_t)args[0] & ~0xffu); /* the low byte is a signal */
    case RULE_UNSHARE:
        return describe_namespaces(d, (uint32_t)args[0]);
    case RULE_SOCKET:
    case RULE_SOCKETPAIR:
        return describe_socket(d, args);
    case RULE_IOCTL:
        return describe_ioctl(d, (uint32_t)args[1]);
    case RULE_MKNOD:
        return describe_mknod(d, (uint32_t)args[1]);
    case RULE_MKNODAT:
        return describe_mknod(d, (uint32_t)args[2]);
    case RULE_OPEN:
    case RULE_CHMODAT:
        return describe_set_id(d, (uint32_t)args[2]);
    case RULE_OPENAT:
        return describe_set_id(d, (uint32_t)args[3]);
    case RULE_CHMOD:
    case RULE_CREAT:
        return describe_set_id(d, (uint32_t)args[1]);
    case RULE_WATCH_ADD:
        return say(d, &watch_words);
    case RULE_OWN_PID:
    case RULE_PRLIMIT:
    case RULE_PRIORITY:
    case RULE_IOPRIO:
    case RULE_KILL:
    case RULE_SIGNAL:
        return append(d, "(other process)");
    default:
        return;
    }
}

/* True if the call came by another door than the native one. */
static bool describe_foreign(struct filter_denial *d, uint32_t arch, uint32_t nr)
{
    if (arch == AUDIT_I386)
        append(d, "i386 call %u", nr);
    else if (arch == AUDIT_ARM)
        append(d, "32-bit arm call %u", nr);
    else if (arch != FILTER_X86_64 && arch != FILTER_AARCH64)
        append(d, "call %u of architecture %#x", nr, arch);
    else if (arch == FILTER_X86_64 && nr / FILTER_X32_BIT == 1)
        append(d, "x32 call %u", nr & ~FILTER_X32_BIT);
    else
        return false;
    return true;
}

void filter_describe(uint32_t arch, int nr, const uint64_t args[6], struct filter_denial *ret)
{
    memset(ret, 0, sizeof(*ret));
    if (describe_foreign(ret, arch, (uint32_t)nr))
        return say(ret, &foreign_words);

    const struct filter_entry *e = filter_find(arch, nr);
    if (!e) {
        append(ret, "call %u", (unsigned)nr);
        return say(ret, &other_words);
    }
    append(ret, "%s", e->name);
    say(ret, group_words[e->group].rule ? &group_words[e->group] : &other_words);
    describe_arguments(ret, e->rule, args);
}

void filter_describe_module(struct filter_denial *d)
{
    static const struct {
        const char *call, *of_module;
    } calls[] = {{"accept", "sock_accept"},
                 {"recvfrom", "sock_recv"},
                 {"sendto", "sock_send"},
                 {"shutdown", "sock_shutdown"}};
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        if (strcmp(d->what, calls[i].call) != 0)
            continue;
        snprintf(d->what, sizeof(d->what), "%s", calls[i].of_module);
        return say(d, &module_words);
    }
}
