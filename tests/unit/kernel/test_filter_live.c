/* The program in a real kernel: it loads, and refused calls come back with the errno that the
 * simulation says. Every attempt has a control run without the filter, in which the kernel gives
 * another answer. The machine's own architecture only: no kernel runs the other's calls. */
#include "verify/entry32.h"

#include "filter_fixture.h"
#include "os/sys.h"

#include <linux/capability.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_RESULTS 2048

/* Filled in by the child. */
static int *results;

static void share_results(void)
{
    results = mmap(NULL, MAX_RESULTS * sizeof(int), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(results, MAP_FAILED);
}

static int load(unsigned flags)
{
    struct sock_fprog fprog = {.len = program.len, .filter = program.code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -1;
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &fprog);
}

static int call(int nr, const long args[4])
{
    errno = 0;
    return syscall(nr, args[0], args[1], args[2], args[3]) < 0 ? errno : 0;
}

/* Runs `body` in a child, with the filter or without, and returns its wait status. */
static int in_child(void (*body)(void), bool filtered)
{
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        if (filtered && load(0) < 0)
            _exit(99);
        body();
        _exit(0);
    }
    int status;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    return status;
}

static uint32_t simulated[1024];

/* The kernel asks no filter about these and ends a program that makes them. x86-64 only. */
static bool is_probe(int nr)
{
    return nr >= 0 && (nr == number(CALL_uretprobe) || nr == number(CALL_uprobe));
}

static void call_all_refused(void)
{
    for (int nr = 0; nr < 1024; nr++) {
        if ((simulated[nr] & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO)
            results[nr] = call(nr, (const long[4]){0});
    }
}

static void call_all_x32(void)
{
    for (int nr = 0; nr < 1024; nr++)
        results[nr] = call(nr | X32, (const long[4]){0});
}

static void check_all(const struct filter_options *o)
{
    build(o);
    for (int nr = 0; nr < 1024; nr++)
        simulated[nr] = is_probe(nr) ? ALLOW : run(arch, nr, NULL).ret;
    memset(results, 0, MAX_RESULTS * sizeof(int));
    cr_assert_eq(in_child(call_all_refused, true), 0);
    for (int nr = 0; nr < 1024; nr++) {
        int want = simulated[nr] == ALLOW ? 0 : (int)(simulated[nr] & SECCOMP_RET_DATA);
        cr_assert_eq(results[nr], want, "call %d: errno %d, not %d", nr, results[nr], want);
    }
}

Test(filter_live, every_refused_number_gets_its_errno)
{
    struct filter_options o = container;
    share_results();
    o.notify = false;
    check_all(&o);
    check_all(&(struct filter_options){0});
    check_all(&(struct filter_options){.brokered_net = true});
}

/* x86-64 with the bit that makes a number one of x32; on aarch64 a number like any other that is
 * not in the table. No control: where the kernel serves x32 at all is a matter of how it was built,
 * and the number alone would get ENOSYS elsewhere too. */
Test(filter_live, every_number_with_the_x32_bit_gets_its_errno)
{
    share_results();
    build(&(struct filter_options){.brokered_net = true});
    cr_assert_eq(in_child(call_all_x32, true), 0);
    for (int nr = 0; nr < 1024; nr++)
        cr_assert_eq(results[nr], ENOSYS, "x32 call %d: errno %d", nr, results[nr]);
}

enum { NO_CAP = -1 };

/* Arguments that do no harm where the call is let through. */
static const struct attempt {
    int nr;
    long args[4];
    int want;
    int cap; /* which the kernel asks for: no control where the test has it not */
} attempts[] = {
    {SYS_unshare, {CLONE_NEWUTS}, EPERM, CAP_SYS_ADMIN},
    {SYS_ptrace, {PTRACE_TRACEME}, EPERM, NO_CAP},
    {SYS_mount, {0}, EPERM, CAP_SYS_ADMIN},
    {SYS_umount2, {0}, EPERM, CAP_SYS_ADMIN},
    {SYS_fsopen, {0}, EPERM, CAP_SYS_ADMIN},
    {SYS_setns, {-1}, EPERM, NO_CAP},
    {SYS_open_by_handle_at, {-1}, EPERM, CAP_DAC_READ_SEARCH},
    {SYS_keyctl, {-1}, EPERM, NO_CAP},
    {SYS_add_key, {0}, EPERM, NO_CAP},
    {SYS_bpf, {-1}, EPERM, CAP_SYS_ADMIN},
    {SYS_perf_event_open, {0}, EPERM, NO_CAP},
    {SYS_reboot, {0}, EPERM, CAP_SYS_BOOT},
    {SYS_settimeofday, {0}, EPERM, CAP_SYS_TIME},
    {SYS_sethostname, {0, -1}, EPERM, CAP_SYS_ADMIN},
    {SYS_socket, {AF_PACKET, SOCK_RAW, 0}, EPERM, CAP_NET_RAW},
    {SYS_socket, {AF_INET, SOCK_RAW, 1}, EPERM, CAP_NET_RAW},
    {SYS_socket, {AF_NETLINK, SOCK_RAW, 9}, EPERM, NO_CAP},
    {SYS_socket, {AF_INET, SOCK_STREAM, 9999}, EPROTONOSUPPORT, NO_CAP},
    {SYS_personality, {0x400000}, EPERM, NO_CAP},
    {SYS_ioctl, {-1, TIOCSTI}, EPERM, NO_CAP},
    {SYS_prctl, {PR_SET_MM, 0, 0, 0}, EPERM, CAP_SYS_RESOURCE},
    {SYS_clone3, {0}, ENOSYS, NO_CAP},
    {SYS_io_uring_enter, {-1}, ENOSYS, NO_CAP},
    {SYS_get_mempolicy, {0}, ENOSYS, NO_CAP},
};
#define ATTEMPTS (sizeof(attempts) / sizeof(attempts[0]))

static void call_attempts(void)
{
    for (size_t i = 0; i < ATTEMPTS; i++)
        results[i] = call(attempts[i].nr, attempts[i].args);
}

/* Root need not have all of them. */
static bool has_cap(int cap)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    cr_assert_eq(syscall(SYS_capget, &head, data), 0);
    return data[cap / 32].effective & (1u << cap % 32);
}

Test(filter_live, attempts_that_the_kernel_alone_would_serve)
{
    struct filter_options o = container;
    o.notify = false;
    share_results();
    build(&o);
    cr_assert_eq(in_child(call_attempts, true), 0);
    for (size_t i = 0; i < ATTEMPTS; i++)
        cr_assert_eq(results[i], attempts[i].want, "attempt %zu: errno %d", i, results[i]);
    cr_assert_eq(in_child(call_attempts, false), 0);
    for (size_t i = 0; i < ATTEMPTS; i++) {
        bool controlled = attempts[i].cap == NO_CAP || has_cap(attempts[i].cap);
        /* A protocol that does not exist has the errno that we imitate. */
        if (controlled && attempts[i].want != EPROTONOSUPPORT)
            cr_assert_neq(results[i], attempts[i].want, "control of attempt %zu", i);
    }
}

static void try_merging(void)
{
    void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    results[0] = call(SYS_madvise, (const long[4]){(long)page, 4096, MADV_MERGEABLE});
    results[1] = call(SYS_prctl, (const long[4]){SYS_PR_SET_MEMORY_MERGE, 1});
    results[2] = call(SYS_madvise, (const long[4]){(long)page, 4096, MADV_DONTNEED});
}

/* K-21 */
Test(filter_live, no_page_is_merged_with_those_of_others)
{
    struct filter_options o = container;
    o.notify = false;
    share_results();
    build(&o);
    cr_assert_eq(in_child(try_merging, true), 0);
    cr_assert_eq(results[0], EINVAL);
    cr_assert_eq(results[1], EINVAL);
    cr_assert_eq(results[2], 0, "other advice is taken");
    cr_assert_eq(in_child(try_merging, false), 0);
    if (results[0] == EINVAL)
        cr_skip_test("this kernel merges no pages: no control");
    cr_assert_eq(results[0], 0);
    /* Linux 6.4 */
    cr_assert(results[1] == 0 || results[1] == EINVAL, "%d", results[1]);
}

static int entry32 = -1;

static void call_entry32(void)
{
    signal(SIGSEGV, SIG_DFL); /* the sanitizer's: so ends int 0x80 where there is no such entry */
    entry32_run(entry32);
}

/* The control: is there such an entry at all? */
static bool has_entry32(void)
{
    entry32 = entry32_open("/tmp");
    cr_assert_geq(entry32, 0);
    int result = entry32_result(in_child(call_entry32, false));
    cr_assert(result == 0 || result == ENOEXEC, "%d", result);
    return result == 0;
}

Test(filter_live, the_32_bit_entry_is_closed)
{
    if (!has_entry32())
        cr_skip_test("this kernel has no 32-bit entry: no control");
    build(&(struct filter_options){0});
    cr_assert_eq(entry32_result(in_child(call_entry32, true)), ENOSYS);
}

static void try_listener(void)
{
    struct sock_filter allow = {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW};
    struct sock_fprog fprog = {.len = 1, .filter = &allow};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    results[0] = call(SYS_seccomp, (const long[4]){SECCOMP_SET_MODE_FILTER, 0, (long)&fprog});
    results[1] = call(SYS_seccomp, (const long[4]){SECCOMP_SET_MODE_FILTER,
                                                   SECCOMP_FILTER_FLAG_NEW_LISTENER, (long)&fprog});
}

Test(filter_live, the_code_may_filter_itself_but_not_listen)
{
    struct filter_options o = container;
    o.notify = false; /* with a listener the kernel itself refuses a second one */
    share_results();
    build(&o);
    cr_assert_eq(in_child(try_listener, true), 0);
    cr_assert_eq(results[0], 0);
    cr_assert_eq(results[1], EPERM);
    cr_assert_eq(in_child(try_listener, false), 0);
    cr_assert_eq(results[1], 0);
}

/* The child shares its descriptors with us, so the number of its listener is enough. */
static int watched_child(bool foreign)
{
    int listener = load(SECCOMP_FILTER_FLAG_NEW_LISTENER);
    __atomic_store_n(&results[0], listener, __ATOMIC_RELEASE);
    if (listener < 0)
        return 99;
    results[1] = call(SYS_mount, (const long[4]){0});
    results[2] = call(SYS_getppid, (const long[4]){0});
    if (foreign)
        entry32_run(entry32);
    return 0;
}

static void answer(int listener, const char *what, int error)
{
    struct seccomp_notif req = {0};
    struct pollfd p = {.fd = listener, .events = POLLIN};
    cr_assert_eq(poll(&p, 1, 5000), 1);
    cr_assert_eq(ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &req), 0);

    struct filter_denial d;
    uint64_t args[6];
    memcpy(args, req.data.args, sizeof(args));
    filter_describe(req.data.arch, req.data.nr, args, &d);
    cr_assert_str_eq(d.what, what);
    struct seccomp_notif_resp resp = {.id = req.id, .error = error};
    cr_assert_eq(ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &resp), 0);
}

Test(filter_live, the_supervisor_sees_what_was_refused)
{
    int listener, status;

    bool foreign = has_entry32();
    share_results();
    build(&container);
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0)
        _exit(watched_child(foreign));
    cr_assert_gt(pid, 0);
    while ((listener = __atomic_load_n(&results[0], __ATOMIC_ACQUIRE)) == 0)
        usleep(1000);
    cr_assert_gt(listener, 0);
    answer(listener, "mount", -EPERM);
    if (foreign)
        answer(listener, arch == FILTER_X86_64 ? "i386 call 20" : "32-bit arm call 20", -ENOSYS);
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert_eq(results[1], EPERM);
    cr_assert_eq(results[2], 0);
    cr_assert_eq(entry32_result(status), foreign ? ENOSYS : 0);
}
