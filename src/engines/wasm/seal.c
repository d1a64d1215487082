/* A filter of the runner's own on top of the sandbox's: whoever asks for executable memory is
 * refused. The libraries are mapped by then. The engine finds that out when it starts, and
 * interprets. */
#include "engines/wasm/seal.h"

#include "os/filter_steps.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REFUSED STEP_ANSWER(SECCOMP_RET_ERRNO | EPERM)

int seal_executable(void)
{
    struct sock_filter code[] = {
        STEP_LOAD(arch),
        STEP_IS(STEP_NATIVE, 1),
        REFUSED,
        STEP_LOAD(nr),
        STEP_IS(SYS_mmap, 3),
        STEP_IS(SYS_mprotect, 2),
        STEP_IS(SYS_pkey_mprotect, 1),
        STEP_ANSWER(SECCOMP_RET_ALLOW),
        /* The protection is the third argument of all three. */
        STEP_LOAD(args[2]),
        STEP_WITHOUT(PROT_EXEC, 1),
        REFUSED,
        STEP_ANSWER(SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0 ? -errno : 0;
}
