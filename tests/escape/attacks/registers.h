/* What a tracer changes in a task that stands at a system call, on each architecture. Both
 * functions return 0, or -1 with errno. */
#pragma once

#include <elf.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/user.h>

/* One set of registers, by the name that core files have for it. */
static inline int registers_move(enum __ptrace_request request, pid_t pid, int set, void *data,
                                 size_t size)
{
    struct iovec room = {data, size};
    return ptrace(request, pid, (void *)(long)set, &room) < 0 ? -1 : 0;
}

/* On entry: the call is not made. */
static inline int registers_cancel_call(pid_t pid)
{
#if defined(__x86_64__)
    struct user_regs_struct regs;
    if (registers_move(PTRACE_GETREGSET, pid, NT_PRSTATUS, &regs, sizeof regs) < 0)
        return -1;
    regs.orig_rax = (unsigned long long)-1;
    return registers_move(PTRACE_SETREGSET, pid, NT_PRSTATUS, &regs, sizeof regs);
#elif defined(__aarch64__)
    /* The kernel has taken the number out of x8 by now; it looks here once more. */
    int none = -1;
    return registers_move(PTRACE_SETREGSET, pid, NT_ARM_SYSTEM_CALL, &none, sizeof none);
#else
#error "no registers of this architecture"
#endif
}

/* On exit: this is what the caller gets. */
static inline int registers_set_result(pid_t pid, long result)
{
    struct user_regs_struct regs;
    if (registers_move(PTRACE_GETREGSET, pid, NT_PRSTATUS, &regs, sizeof regs) < 0)
        return -1;
#if defined(__x86_64__)
    regs.rax = (unsigned long long)result;
#else
    regs.regs[0] = (unsigned long long)result;
#endif
    return registers_move(PTRACE_SETREGSET, pid, NT_PRSTATUS, &regs, sizeof regs);
}
