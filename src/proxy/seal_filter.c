/* The system calls of a running proxy, and no others. Everything it reads from files, and every
 * process it starts, comes before this. */
#include "base/cleanup.h"
#include "os/seal.h"
#include "os/sys.h"
#include "proxy/proxy.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

static const int allowed[] = {
    /* the loop */
    SYS_epoll_ctl,
    SYS_epoll_pwait,
    SYS_epoll_pwait2,
    SYS_ppoll,
#ifdef SYS_epoll_wait
    SYS_epoll_wait,
    SYS_poll,
#endif
    /* connections */
    SYS_read,
    SYS_pread64,
    SYS_write,
    SYS_readv,
    SYS_writev,
    SYS_recvfrom,
    SYS_recvmsg,
    SYS_sendto,
    SYS_sendmsg,
    SYS_splice,
    SYS_pipe2,
    SYS_close,
    SYS_accept4,
    SYS_connect,
    SYS_shutdown,
    SYS_getsockname,
    SYS_getpeername,
    SYS_getsockopt,
    SYS_setsockopt,
    /* memory */
    SYS_munmap,
    SYS_mremap,
    SYS_brk,
    SYS_madvise,
    SYS_mlock,
    SYS_mlock2,
    SYS_munlock,
    /* time, randomness, the end */
    SYS_clock_gettime,
    SYS_gettimeofday,
    SYS_getrandom,
    SYS_futex,
    SYS_getpid,
    SYS_gettid,
    SYS_rt_sigreturn,
    SYS_rt_sigprocmask,
    SYS_restart_syscall,
    SYS_wait4,
    SYS_exit,
    SYS_exit_group,
};

static const struct seal_choice choices[] = {
    {SYS_socket, 0, UINT32_MAX, {AF_INET, AF_INET6}, 2},
    {SYS_fcntl, 1, UINT32_MAX, {F_GETFL, F_SETFL, F_GETFD, F_SETFD, F_SETPIPE_SZ, F_GET_SEALS}, 6},
    /* no code: neither a mapping nor a later change of one may be executable */
    {SYS_mmap, 2, PROT_EXEC, {0}, 1},
    {SYS_mprotect, 2, PROT_EXEC, {0}, 1},
};

#ifndef F_GET_SEALS
#error "F_GET_SEALS"
#endif

int seal_filter_load(struct err *err)
{
    struct seal_calls calls = {.allowed = allowed,
                               .allowed_count = ARRAY_LEN(allowed),
                               .choices = choices,
                               .choice_count = ARRAY_LEN(choices)};
    return seal_calls(&calls, "the proxy", err);
}
