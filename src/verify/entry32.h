/* A system call by the entry for 32-bit programs, which has numbers of its own: a filter that looks
 * at numbers alone takes them for others. From 64-bit code the entry of x86-64 is open (int 0x80);
 * on aarch64 it takes a 32-bit program, which is carried along. */
#pragma once

/* What entry32_run needs: a descriptor, or -1 with errno. `folder` is where a program may be
 * written if memory will not do. */
int entry32_open(const char *folder);

/* getpid by that entry. Ends the process: what came of it is in its status. */
_Noreturn void entry32_run(int fd);

/* 0: the call was served. ENOSYS: it was refused as unknown. ENOEXEC: this kernel has no such
 * entry. Any other: it was refused in another way. */
int entry32_result(int status);
