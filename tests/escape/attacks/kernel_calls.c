/* K-13 to K-15, K-23, R-06: system calls that administer the machine. The arguments are chosen so
 * that a permitted caller gets a harmless answer (EINVAL, ENOENT, EBADF): outside, that shows that
 * the kernel's own code is reached; inside, anything but a refusal is a finding. What only one
 * architecture has is named in the table on the others too, as theirs. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <linux/ioprio.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#define NOWHERE ((long)"/nonexistent/brig-escape")

static int run_settimeofday(void)
{
    struct timeval tv = {.tv_sec = 0, .tv_usec = -1};
    return outcome(syscall(SYS_settimeofday, &tv, NULL));
}

static int run_clock_settime(void)
{
    struct timespec ts = {.tv_sec = 0, .tv_nsec = -1};
    return outcome(syscall(SYS_clock_settime, CLOCK_REALTIME, &ts));
}

static int run_adjtimex(void)
{
    struct timex tx = {.modes = ADJ_TICK, .tick = 1}; /* out of range: EINVAL for who may */
    return outcome(syscall(SYS_adjtimex, &tx));
}

static int run_clock_adjtime(void)
{
    struct timex tx = {.modes = ADJ_TICK, .tick = 1};
    return outcome(syscall(SYS_clock_adjtime, CLOCK_REALTIME, &tx));
}

static int run_vhangup(void)
{
    setsid();
    return outcome(syscall(SYS_vhangup));
}

static int run_open_by_handle(void)
{
    struct {
        struct file_handle head;
        unsigned char bytes[8];
    } handle = {.head = {.handle_bytes = 0}};
    return outcome(syscall(SYS_open_by_handle_at, AT_FDCWD, &handle, O_RDONLY));
}

static int run_add_key(void)
{
    return outcome(syscall(SYS_add_key, "user", "brig-escape", "x", 1, -1 /* process keyring */));
}

static int run_request_key(void)
{
    return outcome(syscall(SYS_request_key, "user", "brig-escape-decoy", NULL, -3));
}

static int run_keyctl_read_session(void)
{
    char buf[256];
    return outcome(syscall(SYS_keyctl, 11 /* read */, -3 /* session */, buf, sizeof buf));
}

static int run_keyctl_join(void)
{
    return outcome(syscall(SYS_keyctl, 1 /* join session */, NULL));
}

static int run_uring_setup(void)
{
    struct io_uring_params p = {0};
    return outcome(syscall(SYS_io_uring_setup, 4, &p));
}

static int run_bpf_map(void)
{
    union bpf_attr attr = {
        .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};
    return outcome(syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof attr));
}

static int run_bpf_program(enum bpf_prog_type type)
{
    struct bpf_insn code[2] = {
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0},
        {.code = BPF_JMP | BPF_EXIT},
    };
    union bpf_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.prog_type = type;
    attr.insns = (unsigned long)code;
    attr.insn_cnt = 2;
    attr.license = (unsigned long)"GPL";
    return outcome(syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof attr));
}

static int run_bpf_socket_filter(void)
{
    return run_bpf_program(BPF_PROG_TYPE_SOCKET_FILTER);
}

static int run_bpf_kprobe(void)
{
    return run_bpf_program(BPF_PROG_TYPE_KPROBE);
}

static int run_bpf_tracepoint(void)
{
    return run_bpf_program(BPF_PROG_TYPE_TRACEPOINT);
}

static int run_perf(pid_t pid, int cpu)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE, .size = sizeof attr, .config = PERF_COUNT_SW_TASK_CLOCK};
    return outcome(syscall(SYS_perf_event_open, &attr, pid, cpu, -1, 0));
}

static int run_perf_self(void)
{
    return run_perf(0, -1);
}

static int run_perf_cpu(void)
{
    return run_perf(-1, 0);
}

static int run_perf_pid1(void)
{
    return run_perf(1, -1);
}

static int run_nice(void)
{
    return outcome(setpriority(PRIO_PROCESS, 0, -5));
}

static int run_fifo(void)
{
    struct sched_param p = {.sched_priority = 1};
    return outcome(sched_setscheduler(0, SCHED_FIFO, &p));
}

static int run_round_robin(void)
{
    struct sched_param p = {.sched_priority = 1};
    return outcome(sched_setscheduler(0, SCHED_RR, &p));
}

static int run_deadline(void)
{
    struct {
        unsigned size, policy;
        unsigned long flags;
        int nice;
        unsigned priority;
        unsigned long runtime, deadline, period;
    } attr = {
        .size = 48, .policy = 6, .runtime = 1000000, .deadline = 10000000, .period = 10000000};
    return outcome(syscall(SYS_sched_setattr, 0, &attr, 0));
}

static int run_ioprio_realtime(void)
{
    return outcome(syscall(SYS_ioprio_set, 1, 0, (IOPRIO_CLASS_RT << 13) | 4));
}

static int run_raise_rlimit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return errno;
    limit.rlim_max += 1;
    return outcome(setrlimit(RLIMIT_NOFILE, &limit));
}

#ifdef __x86_64__
#define CALL_X86_64 PROBE_CALL
#else
#define CALL_X86_64(row, name, ...) PROBE_ONLY(row, #name, "x86-64")
#endif

const struct probe kernel_calls[] = {
    PROBE("K-13", "add_key", run_add_key),
    PROBE("K-13", "request_key", run_request_key),
    PROBE("K-13", "keyctl_read_session", run_keyctl_read_session),
    PROBE("K-13", "keyctl_join_session", run_keyctl_join),

    PROBE("K-14", "io_uring_setup", run_uring_setup),
    PROBE_CALL("K-14", io_uring_enter, -1),
    PROBE_CALL("K-14", io_uring_register, -1),

    PROBE("K-15", "bpf_map_create", run_bpf_map),
    PROBE("K-15", "bpf_load_socket_filter", run_bpf_socket_filter),
    PROBE("K-15", "bpf_load_kprobe", run_bpf_kprobe),
    PROBE("K-15", "bpf_load_tracepoint", run_bpf_tracepoint),
    PROBE("K-15", "perf_self", run_perf_self),
    PROBE("K-15", "perf_cpu", run_perf_cpu),
    PROBE("K-15", "perf_pid1", run_perf_pid1),

    PROBE_CALL("K-23", acct, NOWHERE),
    PROBE_CALL("K-23", kexec_load, 0, 0, 0, 0xdead),
    PROBE_CALL("K-23", kexec_file_load, -1, -1, 0, 0, 0xdead),
    PROBE_CALL("K-23", init_module, 0, 0, 0),
    PROBE_CALL("K-23", finit_module, -1, NOWHERE, 0),
    PROBE_CALL("K-23", delete_module, (long)"brig_escape", O_NONBLOCK),
    PROBE_CALL("K-23", swapon, NOWHERE, 0),
    PROBE_CALL("K-23", swapoff, NOWHERE),
    PROBE_CALL("K-23", reboot, 1, 2, 3),
    PROBE_CALL("K-23", quotactl, 0, NOWHERE, 0, 0),
    PROBE("K-23", "settimeofday", run_settimeofday),
    PROBE("K-23", "clock_settime", run_clock_settime),
    PROBE("K-23", "adjtimex", run_adjtimex),
    PROBE("K-23", "clock_adjtime", run_clock_adjtime),
    CALL_X86_64("K-23", iopl, 3),
    CALL_X86_64("K-23", ioperm, 0x80, 1, 1),
    PROBE_CALL("K-23", sethostname, 0, -1),
    PROBE_CALL("K-23", setdomainname, 0, -1),
    PROBE_CALL("K-23", syslog, 10, 0, 0),
    PROBE("K-23", "vhangup", run_vhangup),
    CALL_X86_64("K-23", sysfs, 3),
    CALL_X86_64("K-23", ustat, 0, 0),
    PROBE("K-23", "open_by_handle_at", run_open_by_handle),
    PROBE_CALL("K-23", name_to_handle_at, AT_FDCWD, NOWHERE, 0, 0, 0),
    PROBE_CALL("K-23", userfaultfd, 0),
    PROBE_CALL("K-23", fanotify_init, 0, 0),
    PROBE_CALL("K-23", move_pages, 0, 0, 0, 0, 0, 0),
    PROBE_CALL("K-23", migrate_pages, 0, 0, 0, 0),
    PROBE_CALL("K-23", kcmp, -1, -1, 0, 0, 0),
    PROBE_CALL("K-23", process_madvise, -1, 0, 0, 0, 0),
    CALL_X86_64("K-23", modify_ldt, 1, 0, 0),
    PROBE_CALL("K-23", lookup_dcookie, 0, 0, 0),

    PROBE("R-06", "nice", run_nice),
    PROBE("R-06", "sched_fifo", run_fifo),
    PROBE("R-06", "sched_rr", run_round_robin),
    PROBE("R-06", "sched_deadline", run_deadline),
    PROBE("R-06", "ioprio_realtime", run_ioprio_realtime),
    PROBE("R-06", "raise_rlimit", run_raise_rlimit),
};
const size_t kernel_call_count = sizeof kernel_calls / sizeof *kernel_calls;
