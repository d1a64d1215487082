/* The page about the filter. It shows the numbers of both architectures, so that it is the same
 * page wherever it is made. */
#include "kernel/process/filter_doc.h"

#include "kernel/process/filter_rules.h"

static const char intro[] =
    "# System calls\n"
    "\n"
    "Made by `tools/gen-seccomp-doc` from `src/kernel/process/calls.def`; a test holds this page "
    "against "
    "the table, and another holds the table against the filter.\n"
    "\n"
    "Inside a sandbox a system call is allowed if it is listed as such below. The filter looks at "
    "the "
    "call's number and at register values, never at memory.\n"
    "\n"
    "| verdict | what the code gets | what is recorded |\n"
    "|---|---|---|\n"
    "| allow | the call | nothing; the kernel (5.11 and newer) answers from a table, without "
    "running the filter |\n"
    "| deny, seen | `EPERM` | a denial with the call's name, a rule and a hint |\n"
    "| deny, quiet | `EPERM` | nothing: ordinary libraries try it and do without |\n"
    "| pretended | nothing happens, and the call says that it did | nothing |\n"
    "| absent | `ENOSYS`, as on a kernel without it, so that libraries fall back | nothing |\n"
    "| not for these descriptors | `EINVAL`, as of files and sockets that the call cannot join, so "
    "that programs copy instead | nothing |\n"
    "| brokered | the supervisor does it itself, on its own copy of the arguments, if it concerns "
    "the "
    "sandbox alone; else `EPERM` | a denial, if refused |\n"
    "\n"
    "A number that is not on this page is absent. So is every call that comes by another door than "
    "the "
    "native 64-bit one (32-bit programs of either architecture; on x86-64 also `int 0x80` and "
    "x32), and those are recorded.\n"
    "\n"
    "Some verdicts depend on what else holds the code:\n"
    "\n"
    "- **own pids**: a pid namespace of its own (container tier). Without it a pid may name a "
    "process of the "
    "host.\n"
    "- **own ipc**, **own network**: namespaces of their own (container tier).\n"
    "- **the network is brokered**: some hosts are allowed and there is no own network (process "
    "tier). The supervisor "
    "makes each connection, to the proxy and nowhere else.\n"
    "- **unix sockets**: no socket file of the host is in view (container tier).\n"
    "- **scoped signals**: Landlock keeps signals inside (Linux 6.12 and newer).\n"
    "- **own view**: a mount namespace of its own (container tier).\n"
    "- **own uid**: a host uid that owns nothing (brig started by root).\n"
    "- **/dev/shm is private**: a folder of the workspace takes its place (process tier). Calls "
    "that "
    "name a file are shown to the "
    "supervisor, which does what is asked there and lets all others go on.\n"
    "- **host folders are writable**: `--rw` or a project folder. A set-id file left there would "
    "give its owner's rights "
    "to whoever runs it later.\n"
    "- **memory is counted**: by a memory cgroup. Without one, a memfd or a System V segment that "
    "nobody maps would be "
    "memory that no limit sees.\n"
    "- **memory is strict**: the caller set a limit of memory, and no cgroup counts it. brig looks "
    "at the processes instead, "
    "and what a look would not find (large shared memory without a file, queues, large pipes) is "
    "refused.\n"
    "- **the code is a module**: of the wasm tiers. It has no sockets; its runner, which makes "
    "system calls in its place, tells "
    "of a module that tried one by a call on the descriptor -1.\n"
    "- **descriptors are looked at**: the limit of memory or disk is only watched, or the code "
    "sees an overlay that it can change (a writable root, a review), and what the code holds open "
    "counts. "
    "/proc shows one table of descriptors per process, hence each may have only one.\n"
    "- **Landlock guards truncation**: ABI 3 (Linux 6.2 and newer).\n";

static const char sockets[] =
    "### Families of sockets\n"
    "\n"
    "| family | open if |\n"
    "|---|---|\n"
    "| `AF_UNIX` | unix sockets; `socketpair` of streams and of sequenced packets always |\n"
    "| `AF_INET`, `AF_INET6` | own network, and `SOCK_STREAM` or `SOCK_DGRAM`; protocols other "
    "than TCP, UDP "
    "and ICMP get `EPROTONOSUPPORT` |\n"
    "| `AF_INET`, `AF_INET6` | the network is brokered, and `SOCK_STREAM`; protocols other than "
    "TCP get "
    "`EPROTONOSUPPORT` |\n"
    "| `AF_NETLINK` | own network, and `NETLINK_ROUTE` |\n"
    "| all others | never |\n"
    "\n"
    "### Options of sockets\n"
    "\n"
    "Most options have code of their own in the kernel, of which little is looked at. Those that "
    "programs use can be set; all others get `ENOPROTOOPT`, as on a kernel that does not know "
    "them. "
    "Where the network is brokered they are fewer: an option holds for the connection that the "
    "supervisor makes, and some decide where packets go.\n"
    "\n"
    "| level | options | numbers | open if | why |\n"
    "|---|---|---|---|---|\n";

static void sockopt_row(struct buf *out, const struct filter_sockopt *s)
{
    static const char *const who[] = {[WHO_ANY] = "always",
                                      [WHO_OWN] = "own network",
                                      [WHO_COUNTED] =
                                          ("unless memory is strict: then the call says "
                                           "that it was set"),
                                      [WHO_PRETENDED] = "never; the call says that it was set"};
    buf_fmt(out, "| `%s` | %s | %u", s->level_name, s->names, s->first);
    if (s->last != s->first)
        buf_fmt(out, "–%u", s->last);
    buf_fmt(out, " | %s | %s |\n", who[s->who], s->why);
}

static void number(struct buf *out, int nr)
{
    if (nr < 0)
        buf_str(out, " – |");
    else
        buf_fmt(out, " %d |", nr);
}

static bool is_conditional(enum filter_rule rule)
{
    return rule != RULE_ALLOW && rule != RULE_SEEN && rule != RULE_ABSENT && rule != RULE_UNJOINED;
}

static void section_row(struct buf *out, size_t i, bool conditional)
{
    struct filter_call call;
    filter_call_at(FILTER_X86_64, i, &call);
    buf_fmt(out, "| `%s` |", call.name);
    number(out, call.nr);
    filter_call_at(FILTER_AARCH64, i, &call);
    number(out, call.nr);
    if (conditional)
        buf_fmt(out, " %s |", call.verdict);
    buf_fmt(out, " %s |\n", call.why);
}

/* One of the plain rules, or, for RULE_COUNT, all that have a condition. */
static void section(struct buf *out, const char *title, enum filter_rule rule)
{
    bool conditional = rule == RULE_COUNT;
    size_t count = 0;

    for (size_t i = 0; i < filter_call_count(); i++)
        count += conditional ? is_conditional(filter_table[i].rule) : filter_table[i].rule == rule;
    buf_fmt(out, "\n## %s (%zu)\n\n", title, count);
    buf_fmt(out, "| call | x86-64 | aarch64 |%s why |\n", conditional ? " verdict |" : "");
    buf_fmt(out, "|---|---|---|%s---|\n", conditional ? "---|" : "");
    for (size_t i = 0; i < filter_call_count(); i++) {
        if (conditional ? is_conditional(filter_table[i].rule) : filter_table[i].rule == rule)
            section_row(out, i, conditional);
    }
}

void filter_doc_write(struct buf *out)
{
    buf_str(out, intro);
    section(out, "Allowed", RULE_ALLOW);
    section(out, "Allowed on conditions", RULE_COUNT);
    buf_chr(out, '\n');
    buf_str(out, sockets);
    for (size_t i = 0; i < filter_sockopts_len; i++)
        sockopt_row(out, &filter_sockopts[i]);
    section(out, "Not for these descriptors", RULE_UNJOINED);
    section(out, "Denied and seen", RULE_SEEN);
    section(out, "Absent", RULE_ABSENT);
}
