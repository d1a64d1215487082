/* Seals the process that passes lines on: it keeps its open descriptors, memory and the clock, and
 * can open, start or connect to nothing. */
#include "base/cleanup.h"
#include "mcp/wrap_serve.h"
#include "os/seal.h"
#include "os/sys.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#define NOBODY 65534

static const int allowed[] = {
    SYS_read,     SYS_write,           SYS_close,          SYS_ppoll,
#ifdef SYS_poll
    SYS_poll,
#endif
    SYS_recvfrom, SYS_sendto,          SYS_munmap,         SYS_mremap,       SYS_brk,
    SYS_madvise,  SYS_clock_gettime,   SYS_futex,          SYS_rt_sigreturn, SYS_writev,
    SYS_getpid,   SYS_restart_syscall, SYS_rt_sigprocmask, SYS_exit,         SYS_exit_group,
};

static const struct seal_choice choices[] = {
    /* no code: neither a mapping nor a later change of one may be executable */
    {SYS_mmap, 2, PROT_EXEC, {0}, 1},
    {SYS_mprotect, 2, PROT_EXEC, {0}, 1},
};

int wrap_seal(struct err *err)
{
    static const char who[] = "the filter of the server's messages";
    if (seal_identity(NOBODY, NOBODY, who, err) < 0)
        return err_number(err);
    /* Set anew by the change of identity. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
        return err_sys(err, "tie %s to brig", who);
    if (seal_paths(-1, 0, who, err) < 0 || seal_ports(who, err) < 0)
        return err_number(err);
    return seal_calls(SEAL_LISTS(allowed, choices), who, err);
}
