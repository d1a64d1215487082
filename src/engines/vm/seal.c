/* What system calls are left to the threads of brig-vmm.
 *
 * VM-13  Of KVM's calls only KVM_RUN is left, to a processor's thread; of a monitor that parks also
 * those that read a processor's state, to the thread of the devices, after the guest has stopped
 * for good. Nothing is executed, and files are opened below folders that are open. No socket is
 * made; with network rules, those of one family and type. */
#include "os/seal.h"
#include "base/cleanup.h"
#include "engines/vm/monitor.h"
#include "os/sys.h"

#include <fcntl.h>
#include <linux/kvm.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* A processor runs, and says when it has ended. */
int seal_processor(struct err *err)
{
    static const int allowed[] = {SEAL_CALLS_LIFE, SYS_write, SYS_writev, SYS_ppoll};
    static const struct seal_choice choices[] = {SEAL_CHOICES_NO_CODE,
                                                 {SYS_ioctl, 1, ~0u, {KVM_RUN}, 1}};
    return seal_calls(
        &(struct seal_calls){allowed, ARRAY_LEN(allowed), choices, ARRAY_LEN(choices)},
        "a processor of the guest", err);
}

/* Reading, writing what is open, looking at files. */
#define CALLS_LOOK                                                                                 \
    SEAL_CALLS_LIFE, SYS_read, SYS_write, SYS_writev, SYS_preadv, SYS_close, SYS_fstat,            \
        SYS_newfstatat, SYS_statx, SYS_fstatfs, SYS_lseek, SYS_getdents64, SYS_readlinkat,         \
        SYS_ppoll, SYS_rt_sigaction
#ifdef SYS_poll
#define CALLS_POLL SYS_poll,
#else
#define CALLS_POLL
#endif
#ifdef SYS_renameat
#define CALLS_RENAME SYS_renameat,
#else
#define CALLS_RENAME
#endif

/* No code of anybody's runs in such a guest: it looks at the view, and changes nothing. */
static int seal_parking(struct err *err)
{
    static const int allowed[] = {CALLS_POLL CALLS_LOOK};
    struct seal_choice choices[] = {
        SEAL_CHOICES_NO_CODE,
        {SYS_openat, 0, 0x80000000u, {0}, 1, true},
        {SYS_openat, 2, O_WRONLY | O_RDWR | O_CREAT | O_TRUNC, {0}, 1},
        {SYS_tgkill, 0, ~0u, {(uint32_t)getpid()}, 1},
        {SYS_ioctl, 1, ~0u, {0}, arch_save_call_count},
    };
    struct seal_choice *calls = &choices[ARRAY_LEN(choices) - 1];
    if (arch_save_call_count > ARRAY_LEN(calls->values))
        return err_set(err, ERR_INTERNAL, "the filter has no room for the calls that save");
    memcpy(calls->values, arch_save_calls, arch_save_call_count * sizeof *arch_save_calls);
    return seal_calls(
        &(struct seal_calls){allowed, ARRAY_LEN(allowed), choices, ARRAY_LEN(choices)},
        "the monitor", err);
}

/* Where the code's connections lead is up to the network that the monitor stands in: there every
 * address ends at brig-proxy, or nowhere. */
int seal_devices(const struct monitor *m, struct err *err)
{
    bool carry = m->vsock.carried_max > 0;
    static const int allowed[] = {
        CALLS_POLL CALLS_RENAME CALLS_LOOK,
        SYS_pwritev,
        SYS_mkdirat,
        SYS_unlinkat,
        SYS_symlinkat,
        SYS_linkat,
        SYS_renameat2,
        SYS_fchmodat,
        SYS_utimensat,
        SYS_ftruncate,
        SYS_fallocate,
        SYS_fsync,
        SYS_connect,
        SYS_shutdown, /* the last two: with network rules alone */
    };
    const size_t allowed_count = ARRAY_LEN(allowed) - (carry ? 0 : 2);
    const uint32_t listener = (uint32_t)m->joins.listener;
    struct seal_choice choices[] = {
        SEAL_CHOICES_NO_CODE,
        {SYS_openat, 0, 0x80000000u, {0}, 1},        /* below an open folder */
        {SYS_kill, 0, ~0u, {(uint32_t)getpid()}, 1}, /* to end as the code ended */
        {SYS_ioctl, 1, ~0u, {TIOCGWINSZ, TCGETS, TCSETS}, m->session.terminal ? 3 : 0},
        {SYS_socket, 0, ~0u, {(uint32_t)m->egress.family}, 1, true},
        {SYS_socket, 2, ~0u, {0}, 1, true},
        {SYS_socket, 1, ~0u, {SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC}, carry ? 1 : 0},
        {SYS_accept4, 0, ~0u, {listener}, m->joins.listener >= 0 ? 1 : 0},
    };
    if (m->mode == MONITOR_PARKS)
        return seal_parking(err);
    return seal_calls(&(struct seal_calls){allowed, allowed_count, choices, ARRAY_LEN(choices)},
                      "the monitor", err);
}
