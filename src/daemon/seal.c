/* The daemon's front reads what anybody may send. What it needs for that: descriptors that it has,
 * that it accepts, and that wardens hand to it. No path, no new socket, no process, no code. */
#include "daemon/seal.h"

#include "base/cleanup.h"
#include "os/seal.h"
#include "os/sys.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <termios.h>

static const int allowed[] = {
    /* the loop */
    SYS_epoll_ctl,
    SYS_epoll_pwait,
#ifdef SYS_epoll_wait
    SYS_epoll_wait,
#endif
    /* connections, pipes, terminals */
    SEAL_CALLS_STREAMS,
    SEAL_CALLS_LIFE,
};

static const struct seal_choice choices[] = {
    {SYS_fcntl,
     1,
     UINT32_MAX,
     {F_GETFL, F_SETFL, F_GETFD, F_SETFD, F_SETPIPE_SZ, F_GETPIPE_SZ, F_DUPFD_CLOEXEC},
     7},
    {SYS_ioctl, 1, UINT32_MAX, {FIONREAD}, 1},
    SEAL_CHOICES_NO_CODE,
};

int front_seal_calls(struct err *err)
{
    return seal_calls(SEAL_LISTS(allowed, choices), "brig-daemon", err);
}

int front_seal(struct front_seal *ret, struct err *err)
{
    static const char who[] = "brig-daemon";
    if (seal_identity(FRONT_UID, FRONT_UID, who, err) < 0 || seal_tie(who, err) < 0)
        return err_number(err);
    int paths = seal_paths(-1, 0, who, err);
    int ports = paths < 0 ? paths : seal_ports(who, err);
    unsigned uid = geteuid();
    if (ports < 0 || front_seal_calls(err) < 0)
        return err_number(err);
    *ret = (struct front_seal){.paths = paths > 0, .ports = ports > 0, .uid = uid};
    return 0;
}
