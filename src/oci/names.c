/* The names that a configuration uses for numbers of the kernel. */
#include "base/cleanup.h"
#include "base/num.h"
#include "oci/config.h"

#include <signal.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>

static const char *const cap_names[] = {
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_DAC_READ_SEARCH",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETPCAP",
    "CAP_LINUX_IMMUTABLE",
    "CAP_NET_BIND_SERVICE",
    "CAP_NET_BROADCAST",
    "CAP_NET_ADMIN",
    "CAP_NET_RAW",
    "CAP_IPC_LOCK",
    "CAP_IPC_OWNER",
    "CAP_SYS_MODULE",
    "CAP_SYS_RAWIO",
    "CAP_SYS_CHROOT",
    "CAP_SYS_PTRACE",
    "CAP_SYS_PACCT",
    "CAP_SYS_ADMIN",
    "CAP_SYS_BOOT",
    "CAP_SYS_NICE",
    "CAP_SYS_RESOURCE",
    "CAP_SYS_TIME",
    "CAP_SYS_TTY_CONFIG",
    "CAP_MKNOD",
    "CAP_LEASE",
    "CAP_AUDIT_WRITE",
    "CAP_AUDIT_CONTROL",
    "CAP_SETFCAP",
    "CAP_MAC_OVERRIDE",
    "CAP_MAC_ADMIN",
    "CAP_SYSLOG",
    "CAP_WAKE_ALARM",
    "CAP_BLOCK_SUSPEND",
    "CAP_AUDIT_READ",
    "CAP_PERFMON",
    "CAP_BPF",
    "CAP_CHECKPOINT_RESTORE",
};

struct named {
    const char *name;
    int number;
};

static const struct named rlimits[] = {
    {"RLIMIT_AS", RLIMIT_AS},
    {"RLIMIT_CORE", RLIMIT_CORE},
    {"RLIMIT_CPU", RLIMIT_CPU},
    {"RLIMIT_DATA", RLIMIT_DATA},
    {"RLIMIT_FSIZE", RLIMIT_FSIZE},
    {"RLIMIT_LOCKS", 10},
    {"RLIMIT_MEMLOCK", RLIMIT_MEMLOCK},
    {"RLIMIT_MSGQUEUE", 12},
    {"RLIMIT_NICE", 13},
    {"RLIMIT_NOFILE", RLIMIT_NOFILE},
    {"RLIMIT_NPROC", RLIMIT_NPROC},
    {"RLIMIT_RSS", RLIMIT_RSS},
    {"RLIMIT_RTPRIO", 14},
    {"RLIMIT_RTTIME", 15},
    {"RLIMIT_SIGPENDING", 11},
    {"RLIMIT_STACK", RLIMIT_STACK},
};

static const struct named signals[] = {
    {"HUP", SIGHUP},     {"INT", SIGINT},   {"QUIT", SIGQUIT},     {"ILL", SIGILL},
    {"TRAP", SIGTRAP},   {"ABRT", SIGABRT}, {"IOT", SIGIOT},       {"BUS", SIGBUS},
    {"FPE", SIGFPE},     {"KILL", SIGKILL}, {"USR1", SIGUSR1},     {"SEGV", SIGSEGV},
    {"USR2", SIGUSR2},   {"PIPE", SIGPIPE}, {"ALRM", SIGALRM},     {"TERM", SIGTERM},
    {"STKFLT", 16},      {"CHLD", SIGCHLD}, {"CONT", SIGCONT},     {"STOP", SIGSTOP},
    {"TSTP", SIGTSTP},   {"TTIN", SIGTTIN}, {"TTOU", SIGTTOU},     {"URG", SIGURG},
    {"XCPU", SIGXCPU},   {"XFSZ", SIGXFSZ}, {"VTALRM", SIGVTALRM}, {"PROF", SIGPROF},
    {"WINCH", SIGWINCH}, {"IO", SIGIO},     {"PWR", 30},           {"SYS", SIGSYS},
    {"RTMIN", 34},       {"RTMAX", 64},
};

static const char *const ns_names[] = {
    [OCI_NS_PID] = "pid",       [OCI_NS_NETWORK] = "network", [OCI_NS_MOUNT] = "mount",
    [OCI_NS_IPC] = "ipc",       [OCI_NS_UTS] = "uts",         [OCI_NS_USER] = "user",
    [OCI_NS_CGROUP] = "cgroup", [OCI_NS_TIME] = "time",
};

const char *oci_ns_name(enum oci_ns ns)
{
    return ns_names[ns];
}

int oci_cap_number(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(cap_names); i++)
        if (strcasecmp(cap_names[i], name) == 0)
            return (int)i;
    return -1;
}

const char *oci_cap_name(int number)
{
    return number >= 0 && (size_t)number < ARRAY_LEN(cap_names) ? cap_names[number] : "unknown";
}

int oci_rlimit_number(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(rlimits); i++)
        if (strcmp(rlimits[i].name, name) == 0)
            return rlimits[i].number;
    return -1;
}

const char *oci_rlimit_name(int number)
{
    for (size_t i = 0; i < ARRAY_LEN(rlimits); i++)
        if (rlimits[i].number == number)
            return rlimits[i].name;
    return "unknown";
}

int oci_signal_number(const char *name)
{
    uint64_t number;
    if (num_parse_uint(name, &number, NULL) == 0)
        return number >= 1 && number <= 64 ? (int)number : -1;
    if (strncasecmp(name, "SIG", 3) == 0)
        name += 3;
    for (size_t i = 0; i < ARRAY_LEN(signals); i++)
        if (strcasecmp(signals[i].name, name) == 0)
            return signals[i].number;
    return -1;
}
