/* System calls without libc, for code that runs in a process which shares memory and TLS with a
 * supervisor that may be dead in the middle of any libc function: no errno, no locks, no
 * cancellation points. Every call returns the result or -errno. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#ifndef __NR_pidfd_send_signal
#define __NR_pidfd_send_signal 424
#endif
#ifndef __NR_pidfd_open
#define __NR_pidfd_open 434
#endif

/* What getdents64 writes. */
struct raw_dirent {
    uint64_t ino;
    int64_t off;
    uint16_t reclen;
    uint8_t type;
    char name[];
};

struct raw_timespec {
    int64_t sec;
    int64_t nsec;
};

#if defined(__x86_64__)
/* Inlined always: a call that returns twice must not come back to a frame that is gone. */
static inline __attribute__((always_inline)) long raw_syscall5(long nr, long a, long b, long c,
                                                               long d, long e)
{
    long ret;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    __asm__ volatile("syscall"
                     : "=a"(ret)
                     : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return ret;
}
#elif defined(__aarch64__)
static inline __attribute__((always_inline)) long raw_syscall5(long nr, long a, long b, long c,
                                                               long d, long e)
{
    register long x8 __asm__("x8") = nr;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
    return x0;
}
#else
#error "raw_child.h: no system call entry for this architecture"
#endif

static inline __attribute__((always_inline)) long raw_syscall(long nr, long a, long b, long c,
                                                              long d)
{
    return raw_syscall5(nr, a, b, c, d, 0);
}

static inline int raw_openat(int dir, const char *path, int flags)
{
    return (int)raw_syscall(__NR_openat, dir, (long)path, flags, 0);
}

static inline long raw_read(int fd, void *data, size_t size)
{
    return raw_syscall(__NR_read, fd, (long)data, (long)size, 0);
}

static inline long raw_write(int fd, const void *data, size_t size)
{
    return raw_syscall(__NR_write, fd, (long)data, (long)size, 0);
}

static inline void raw_close(int fd)
{
    raw_syscall(__NR_close, fd, 0, 0, 0);
}

static inline int raw_unlinkat(int dir, const char *path, int flags)
{
    return (int)raw_syscall(__NR_unlinkat, dir, (long)path, flags, 0);
}

static inline int raw_kill(int pid, int sig)
{
    return (int)raw_syscall(__NR_kill, pid, sig, 0, 0);
}

static inline int raw_pidfd_open(int pid)
{
    return (int)raw_syscall(__NR_pidfd_open, pid, 0, 0, 0);
}

static inline int raw_pidfd_send_signal(int pidfd, int sig)
{
    return (int)raw_syscall(__NR_pidfd_send_signal, pidfd, sig, 0, 0);
}

static inline int64_t raw_now_us(void)
{
    struct raw_timespec ts = {0, 0};
    raw_syscall(__NR_clock_gettime, 1 /* CLOCK_MONOTONIC */, (long)&ts, 0, 0);
    return ts.sec * 1000000 + ts.nsec / 1000;
}

static inline void raw_sleep_us(int64_t us)
{
    struct raw_timespec ts = {us / 1000000, us % 1000000 * 1000};
    raw_syscall(__NR_nanosleep, (long)&ts, 0, 0, 0);
}
