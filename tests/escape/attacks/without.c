/* K-27: runs a command on a kernel that seems to lack something.
 *
 *   without NR:ERRNO[:MASK]… -- CMD…    call NR answers ERRNO; with MASK, only if the first
 * argument has such bits
 *
 * Inherited by everything the command starts. */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE AUDIT_ARCH_AARCH64
#else
#error "no name of this architecture"
#endif

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))

int main(int argc, char **argv)
{
    struct sock_filter code[256];
    unsigned short n = 0;
    code[n++] = (struct sock_filter)LOAD(arch);
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE, 1, 0);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    int i = 1;
    for (; i < argc && strcmp(argv[i], "--") != 0 && n < 240; i++) {
        char *rest;
        unsigned nr = (unsigned)strtoul(argv[i], &rest, 10);
        unsigned error = *rest == ':' ? (unsigned)strtoul(rest + 1, &rest, 10) : 38;
        unsigned mask = *rest == ':' ? (unsigned)strtoul(rest + 1, &rest, 0) : 0;
        code[n++] = (struct sock_filter)LOAD(nr);
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, mask ? 3 : 1);
        if (mask) {
            code[n++] = (struct sock_filter)LOAD(args[0]);
            code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, mask, 0, 1);
        }
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    if (i + 1 >= argc)
        return 2;
    struct sock_fprog program = {n, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0) {
        perror("without: seccomp");
        return 3;
    }
    execvp(argv[i + 1], argv + i + 1);
    perror("without: exec");
    return 127;
}
