/* The filter of a sealed process.
 *
 * What is not listed fails with EPERM; what only an attacker would try ends the process. */
#include "base/cleanup.h"
#include "os/seal.h"
#include "os/sys.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#endif

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

#define MAX_STEPS 384
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

/* One of several arguments that must all be right: with a wrong one this is the end; with the right
 * one the next choice of the call decides. */
static void emit_condition(struct program *p, const struct seal_choice *c)
{
    emit(p, UNLESS(c->call, 5));
    emit(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                         (uint32_t)offsetof(struct seccomp_data, args) +
                                             8 * c->argument));
    emit(p, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, c->mask));
    emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, c->values[0], 1, 0));
    emit(p, RETURN(SECCOMP_RET_ERRNO | EPERM));
    emit(p, LOAD(nr));
}

static void emit_choice(struct program *p, const struct seal_choice *c)
{
    if (c->more) {
        emit_condition(p, c);
        return;
    }
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

static void compile(struct program *p, const struct seal_calls *c)
{
    emit(p, LOAD(arch));
    emit(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0));
    emit(p, RETURN(SECCOMP_RET_KILL_PROCESS));
    emit(p, LOAD(nr));
    for (size_t i = 0; i < c->allowed_count; i++) {
        emit(p, UNLESS(c->allowed[i], 1));
        emit(p, RETURN(SECCOMP_RET_ALLOW));
    }
    for (size_t i = 0; i < c->choice_count; i++)
        emit_choice(p, &c->choices[i]);
    for (size_t i = 0; i < ARRAY_LEN(deadly); i++) {
        emit(p, UNLESS(deadly[i], 1));
        emit(p, RETURN(SECCOMP_RET_KILL_PROCESS));
    }
    /* The x32 numbers of the same calls are none of ours and end here as well. */
    emit(p, RETURN(SECCOMP_RET_ERRNO | EPERM));
}

int seal_calls(const struct seal_calls *calls, const char *who, struct err *err)
{
    struct program p = {.count = 0};
    compile(&p, calls);
    if (p.count >= MAX_STEPS)
        return err_set(err, ERR_INTERNAL, "the filter of %s is too long", who);
    struct sock_fprog prog = {.len = p.count, .filter = p.steps};
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0)
        return err_sys(err, "the system call filter of %s", who);
    return 0;
}

void seal_exit(int status)
{
    syscall(SYS_exit_group, status);
}
