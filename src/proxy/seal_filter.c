/* The system calls of a running proxy, and no others. Everything it reads from files, and every
 * process it starts, comes before this.
 *
 * What is not listed fails with EPERM; what only an attacker would try ends the process. */
#include "base/cleanup.h"
#include "os/sys.h"
#include "proxy/proxy.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#endif

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

static const int deadly[] = {
    SYS_execve,
    SYS_execveat,
    SYS_clone,
    SYS_clone3,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_pidfd_getfd,
    SYS_bpf,
    SYS_mount,
    SYS_unshare,
    SYS_setns,
    SYS_io_uring_setup,
    SYS_init_module,
    SYS_finit_module,
    SYS_userfaultfd,
    SYS_keyctl,
    SYS_personality,
#ifdef SYS_fork
    SYS_fork,
    SYS_vfork,
#endif
};

/* Calls where one argument must be one of a few values. */
struct choice {
    int call;
    unsigned argument;
    uint32_t mask; /* bits that do not matter are cleared first */
    uint32_t values[6];
    unsigned count;
};
static const struct choice choices[] = {
    {SYS_socket, 0, UINT32_MAX, {AF_INET, AF_INET6}, 2},
    {SYS_fcntl, 1, UINT32_MAX, {F_GETFL, F_SETFL, F_GETFD, F_SETFD, F_SETPIPE_SZ, F_GET_SEALS}, 6},
    /* no code: neither a mapping nor a later change of one may be executable */
    {SYS_mmap, 2, PROT_EXEC, {0}, 1},
    {SYS_mprotect, 2, PROT_EXEC, {0}, 1},
};

#ifndef F_GET_SEALS
#error "F_GET_SEALS"
#endif

#define MAX_STEPS 256
struct program {
    struct sock_filter steps[MAX_STEPS];
    unsigned short count;
};

static void emit(struct program *p, struct sock_filter step)
{
    if (p->count < MAX_STEPS)
        p->steps[p->count++] = step;
}

#define LOAD(field)                                                                                \
    (struct sock_filter) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(what) (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, what)
/* Skip so many steps unless the accumulator is this. */
#define UNLESS(value, skip)                                                                        \
    (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(value), 0, (skip))

static void emit_choice(struct program *p, const struct choice *c)
{
    /* load, mask, two steps per value, deny */
    emit(p, UNLESS(c->call, (uint8_t)(3 + 2 * c->count)));
    emit(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                         (uint32_t)offsetof(struct seccomp_data, args) +
                                             8 * c->argument));
    emit(p, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, c->mask));
    for (unsigned i = 0; i < c->count; i++) {
        emit(p, UNLESS(c->values[i], 1));
        emit(p, RETURN(SECCOMP_RET_ALLOW));
    }
    emit(p, RETURN(SECCOMP_RET_ERRNO | EPERM));
}

static void compile(struct program *p)
{
    emit(p, LOAD(arch));
    emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0));
    emit(p, RETURN(SECCOMP_RET_KILL_PROCESS));
    emit(p, LOAD(nr));
    for (size_t i = 0; i < ARRAY_LEN(allowed); i++) {
        emit(p, UNLESS(allowed[i], 1));
        emit(p, RETURN(SECCOMP_RET_ALLOW));
    }
    for (size_t i = 0; i < ARRAY_LEN(choices); i++)
        emit_choice(p, &choices[i]);
    for (size_t i = 0; i < ARRAY_LEN(deadly); i++) {
        emit(p, UNLESS(deadly[i], 1));
        emit(p, RETURN(SECCOMP_RET_KILL_PROCESS));
    }
    /* The x32 numbers of the same calls are none of ours and end here as well. */
    emit(p, RETURN(SECCOMP_RET_ERRNO | EPERM));
}

int seal_filter_load(struct err *err)
{
    struct program p = {.count = 0};
    compile(&p);
    if (p.count >= MAX_STEPS)
        return err_set(err, ERR_INTERNAL, "the proxy's filter is too long");
    struct sock_fprog prog = {.len = p.count, .filter = p.steps};
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0)
        return err_sys(err, "the proxy's system call filter");
    return 0;
}
