/* A filter of the engine's own, on top of the sandbox's, for runsc and all that it starts.
 *
 * - chroot is pretended. The file server asks for it, to stand in the folder that it serves; what
 * it serves is the root that it has, and a sandbox has no right to change that.
 * - no more UNIX sockets. The sandbox's filter lets the engine make some, for its control socket;
 * it is there by now, and socket files of the host may lie in granted folders (GV-2).
 * - a second listener for refused calls gets EINVAL, as on a kernel without them: the Sentry asks
 *   whether there can be one, and does without. The sandbox's filter says EPERM, which ends it.
 *
 * All can only narrow: of two filters the stricter answer counts, and of two that refuse the words
 * of the younger. */
#include "engines/gvisor/gvisor.h"

#include "os/filter_steps.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

int seal_engine(void)
{
    struct sock_filter code[] = {
        STEP_LOAD(arch),
        STEP_IS(STEP_NATIVE, 1),
        STEP_ANSWER(SECCOMP_RET_ERRNO | ENOSYS),
        STEP_LOAD(nr),
        STEP_IS(SYS_chroot, 3),
        STEP_IS(SYS_socket, 3),
        STEP_IS(SYS_seccomp, 6),
        STEP_ANSWER(SECCOMP_RET_ALLOW),
        STEP_ANSWER(SECCOMP_RET_ERRNO), /* no error: it returns 0 */
        STEP_LOAD(args[0]),
        STEP_NOT(AF_UNIX, 1),
        STEP_ANSWER(SECCOMP_RET_ERRNO | EACCES),
        STEP_ANSWER(SECCOMP_RET_ALLOW),
        STEP_LOAD(args[1]),
        STEP_WITHOUT(SECCOMP_FILTER_FLAG_NEW_LISTENER, 1),
        STEP_ANSWER(SECCOMP_RET_ERRNO | EINVAL),
        STEP_ANSWER(SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0 ? -errno : 0;
}
