/* brig-tls reads what strangers send, and has a key. What it needs besides memory: connections that
 * it accepts on sockets that it was given, and pairs of sockets for the front. No path, no other
 * socket, no process, no code. */
#include "tls/gate.h"

#include "base/cleanup.h"
#include "os/seal.h"
#include "os/sys.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>

static const int allowed[] = {
    /* the loop */
    SYS_epoll_ctl,
    SYS_epoll_pwait,
#ifdef SYS_epoll_wait
    SYS_epoll_wait,
#endif
    /* connections; the sealed files of a pair */
    SYS_read,
    SYS_write,
    SYS_pread64,
    SYS_recvfrom,
    SYS_recvmsg,
    SYS_sendto,
    SYS_sendmsg,
    SYS_close,
    SYS_accept4,
    SYS_shutdown,
    SYS_getsockopt,
    SEAL_CALLS_LIFE,
};

static const struct seal_choice choices[] = {
    {SYS_socketpair, 0, UINT32_MAX, {AF_UNIX}, 1},
    /* No F_SETFL, no setsockopt: what it shares with the front and the launcher stays as these have
     * it. */
    {SYS_fcntl, 1, UINT32_MAX, {F_GETFL}, 1},
    SEAL_CHOICES_NO_CODE,
};

int gate_seal_calls(struct err *err)
{
    return seal_calls(SEAL_LISTS(allowed, choices), "brig-tls", err);
}

/* A key that was swapped out would outlive us. Where locked memory is limited every later
 * allocation could fail, so it is left at that: the key lies in a file on the same machine. */
static void lock_memory(void)
{
    struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
    if (setrlimit(RLIMIT_MEMLOCK, &all) == 0)
        mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT);
}

int gate_seal(struct err *err)
{
    static const char who[] = "brig-tls";
    lock_memory();
    if (seal_identity(GATE_UID, GATE_UID, who, err) < 0 || seal_tie(who, err) < 0)
        return err_number(err);
    if (seal_paths(-1, 0, who, err) < 0 || seal_ports(who, err) < 0)
        return err_number(err);
    return gate_seal_calls(err);
}
