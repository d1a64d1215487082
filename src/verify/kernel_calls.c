/* Attacks on the kernel boundary: system calls that administer the machine or are known for their
 * bugs. Arguments are such that a caller that is allowed gets a harmless answer; that answer,
 * instead of a refusal, is the finding. */
#include "verify/attack.h"

#include "base/cleanup.h"
#include "os/syscalls.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <linux/keyctl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define NOWHERE "/nonexistent/brig-verify"

/* Refusals of a filter, of missing rights, of a kernel that does not have it. */
static int reached(long result)
{
    int code = attack_result(result);
    return code == EPERM || code == EACCES || code == ENOSYS ? code : 0;
}

int attack_io_uring(struct attempt *a)
{
    (void)a;
    struct io_uring_params p = {0};
    cleanup_fd int fd = (int)syscall(SYS_io_uring_setup, 4, &p);
    return reached(fd);
}

int attack_bpf(struct attempt *a)
{
    (void)a;
    union bpf_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.map_type = BPF_MAP_TYPE_ARRAY;
    attr.key_size = attr.value_size = 4;
    attr.max_entries = 1;
    cleanup_fd int fd = (int)syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof attr);
    return reached(fd);
}

int attack_perf(struct attempt *a)
{
    (void)a;
    struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE, .size = sizeof attr, .config = PERF_COUNT_SW_TASK_CLOCK};
    attr.exclude_kernel = 1;
    cleanup_fd int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
    return reached(fd);
}

int attack_add_key(struct attempt *a)
{
    (void)a;
    return reached(
        syscall(SYS_add_key, "user", "brig-verify-mine", "x", 1, KEY_SPEC_PROCESS_KEYRING));
}

int attack_find_key(struct attempt *a)
{
    char text[100] = "";
    long key =
        syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_SESSION_KEYRING, "user", "brig-verify", 0);
    if (key < 0)
        return errno;
    long n = syscall(SYS_keyctl, KEYCTL_READ, key, text, sizeof text - 1);
    if (n < 0)
        return errno;
    attack_say(a, "%s", text);
    return 0;
}

int attack_reboot(struct attempt *a)
{
    (void)a;
    return reached(syscall(SYS_reboot, 1, 2, 3, NULL)); /* not the magic numbers */
}

int attack_kexec(struct attempt *a)
{
    (void)a;
    return reached(syscall(SYS_kexec_load, 0, 0, NULL, 0xdeadL));
}

int attack_module(struct attempt *a)
{
    (void)a;
    return reached(syscall(SYS_delete_module, "brig_verify", O_NONBLOCK));
}

int attack_swap(struct attempt *a)
{
    (void)a;
    return reached(syscall(SYS_swapoff, NOWHERE));
}

int attack_clock(struct attempt *a)
{
    (void)a;
    struct timespec never = {.tv_nsec = -1};
    int code = attack_result(syscall(SYS_clock_settime, CLOCK_REALTIME, &never));
    return code == EINVAL ? 0 : code;
}

int attack_acct(struct attempt *a)
{
    (void)a;
    return reached(syscall(SYS_acct, NOWHERE));
}

int attack_syslog(struct attempt *a)
{
    (void)a;
    return reached(syscall(SYS_syslog, 10 /* size of the buffer */, NULL, 0));
}

int attack_iopl(struct attempt *a)
{
    (void)a;
#ifdef SYS_iopl
    return reached(syscall(SYS_iopl, 3));
#else
    return ENOSYS;
#endif
}

int attack_userfault(struct attempt *a)
{
    (void)a;
    cleanup_fd int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | 1 /* user mode only */);
    return reached(fd);
}

int attack_handle(struct attempt *a)
{
    (void)a;
    return reached(syscall(SYS_name_to_handle_at, AT_FDCWD, NOWHERE, NULL, NULL, 0));
}

int attack_quota(struct attempt *a)
{
    (void)a;
    return reached(syscall(SYS_quotactl, 0x80000100 /* sync */, NOWHERE, 0, NULL));
}

int attack_hostname(struct attempt *a)
{
    (void)a;
    return attack_result(sethostname("verified", 8));
}

/* Addresses that can be guessed, pages that can be executed: old doors of old programs. */
int attack_personality(struct attempt *a)
{
    (void)a;
    return attack_result(syscall(SYS_personality, 0x0400000L /* READ_IMPLIES_EXEC */));
}

int attack_kcmp(struct attempt *a)
{
    (void)a;
    return reached(syscall(SYS_kcmp, getpid(), getpid(), 0, 0, 0));
}

int attack_modify_ldt(struct attempt *a)
{
    (void)a;
#ifdef SYS_modify_ldt
    char room[16];
    return reached(syscall(SYS_modify_ldt, 0, room, sizeof room));
#else
    return ENOSYS;
#endif
}
