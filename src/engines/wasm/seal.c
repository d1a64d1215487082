/* A filter of the runner's own on top of the sandbox's: whoever asks for executable memory is
 * refused. The libraries are mapped by then. The engine finds that out when it starts, and
 * interprets. */
#include "engines/wasm/seal.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
#else
#define NATIVE AUDIT_ARCH_AARCH64
#endif

#define LOAD(field)     BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IS(value, yes)  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), (yes), 0)
#define ANSWER(verdict) BPF_STMT(BPF_RET | BPF_K, (verdict))
#define REFUSED         ANSWER(SECCOMP_RET_ERRNO | EPERM)

int seal_executable(void)
{
    struct sock_filter code[] = {
        LOAD(arch),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE, 1, 0),
        REFUSED,
        LOAD(nr),
        IS(SYS_mmap, 3),
        IS(SYS_mprotect, 2),
        IS(SYS_pkey_mprotect, 1),
        ANSWER(SECCOMP_RET_ALLOW),
        /* The protection is the third argument of all three. */
        LOAD(args[2]),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
        REFUSED,
        ANSWER(SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0 ? -errno : 0;
}
