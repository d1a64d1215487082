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
    SEAL_CALLS_STREAMS,
    SYS_pread64,
    SYS_connect,
    SYS_getsockname,
    SYS_getpeername,
    SEAL_CALLS_LIFE,
    /* memory that is locked */
    SYS_mlock,
    SYS_mlock2,
    SYS_munlock,
    /* the keeper */
    SYS_wait4,
};

static const struct seal_choice choices[] = {
    {SYS_socket, 0, UINT32_MAX, {AF_INET, AF_INET6}, 2},
    {SYS_fcntl, 1, UINT32_MAX, {F_GETFL, F_SETFL, F_GETFD, F_SETFD, F_SETPIPE_SZ, F_GET_SEALS}, 6},
    SEAL_CHOICES_NO_CODE,
};

#ifndef F_GET_SEALS
#error "F_GET_SEALS"
#endif

int seal_filter_load(struct err *err)
{
    return seal_calls(SEAL_LISTS(allowed, choices), "the proxy", err);
}
