/* Makes a system call by the kernel's entry for 32-bit programs. */
#include "verify/entry32.h"

#include "base/cleanup.h"
#include "os/fd.h"
#include "os/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__x86_64__)

int entry32_open(const char *folder)
{
    (void)folder;
    return openat(AT_FDCWD, "/", O_PATH | O_CLOEXEC); /* nothing is needed: any will do */
}

_Noreturn void entry32_run(int fd)
{
    long result;
    (void)fd;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(20L) : "memory", "r8", "r9", "r10", "r11");
    _exit((int)result < 0 ? -(int)result : 0);
}

/* A kernel without the entry faults the instruction. */
int entry32_result(int status)
{
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    return WTERMSIG(status) == SIGSEGV ? ENOEXEC : EPERM;
}

#else

/* Loaded at a multiple of the largest page that an arm64 kernel may have. */
#define BASE  0x10000u
#define START 0x54u /* after the two headers */
#define WORDS 10
#define SIZE  (START + 4 * WORDS)

/* ELF for 32-bit ARM: the file header, one segment, and the program. Where the entry is closed it
 * cannot even ask to end: it then dies by a signal that tells the two kinds of refusal apart. */
/* clang-format off */
static const uint32_t program[SIZE / 4] = {
    0x464c457f, 0x00010101, 0, 0,          /* \x7fELF, 32 bits, little endian */
    0x00280002, 1, BASE + START,           /* executable, ARM, entry */
    52, 0, 0x05000000,                     /* segments are at 52; no sections; EABI 5 */
    0x00200034, 0x00000001, 0x00000000,    /* sizes of headers, one segment */
    1, 0, BASE, BASE, SIZE, SIZE, 5, BASE, /* load, from 0, to BASE, readable and executable */
    0xe3a07014,                            /* mov r7, #20      getpid */
    0xef000000,                            /* svc #0 */
    0xe3700026,                            /* cmn r0, #38 */
    0x0a000004,                            /* beq the last     ENOSYS: SIGILL */
    0xe3500000,                            /* cmp r0, #0 */
    0xb5901000,                            /* ldrlt r1, [r0]   other errors: SIGSEGV */
    0xe3a07001,                            /* mov r7, #1       exit */
    0xe3a00000,                            /* mov r0, #0 */
    0xef000000,                            /* svc #0 */
    0xe7f000f0,                            /* udf #0 */
};
/* clang-format on */

/* A file that is open for writing cannot be run: it is opened anew. */
static int in_folder(const char *folder)
{
    char path[256];
    snprintf(path, sizeof path, "%s/entry32.%d", folder, (int)getpid());
    int out = openat(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0700);
    if (out < 0)
        return -1;
    bool written = write(out, program, sizeof program) == (ssize_t)sizeof program;
    close(out);
    int fd = written ? openat(AT_FDCWD, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
    unlinkat(AT_FDCWD, path, 0);
    return fd;
}

int entry32_open(const char *folder)
{
    cleanup_fd int fd = memfd_create("entry32", MFD_CLOEXEC);
    if (fd < 0)
        return in_folder(folder);
    if (write(fd, program, sizeof program) != (ssize_t)sizeof program)
        return -1;
    return fd_steal(&fd);
}

_Noreturn void entry32_run(int fd)
{
    char *const argv[] = {"entry32", NULL}, *const envp[] = {NULL};
    syscall(SYS_execveat, fd, "", argv, envp, AT_EMPTY_PATH);
    _exit(errno);
}

int entry32_result(int status)
{
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    return WTERMSIG(status) == SIGILL ? ENOSYS : EPERM;
}

#endif
