/* Steps of a small filter of system calls that is written by hand, for programs that narrow
 * themselves. */
#pragma once

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>

#if defined(__x86_64__)
#define STEP_NATIVE AUDIT_ARCH_X86_64
#else
#define STEP_NATIVE AUDIT_ARCH_AARCH64
#endif

#define STEP_LOAD(field)      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define STEP_IS(value, yes)   BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), (yes), 0)
#define STEP_NOT(value, no)   BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, (no))
#define STEP_WITHOUT(bit, no) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (bit), 0, (no))
#define STEP_ANSWER(verdict)  BPF_STMT(BPF_RET | BPF_K, (verdict))
