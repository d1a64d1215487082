/* The view `own` of /proc: what free, nproc, uptime and the like read there says what the sandbox
 * has, not what the machine has. Each file is a plain one on a tmpfs that only init could write to,
 * mounted read-only over the kernel's name. Those whose numbers change are written again by the
 * supervisor, through descriptors that init handed out before the code ran: nobody waits for the
 * code, and the code waits for nobody. */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

enum proc_file {
    PROC_FILE_MEMINFO,
    PROC_FILE_STAT,
    PROC_FILE_LOADAVG,
    PROC_FILE_UPTIME, /* only where the kernel cannot give the sandbox a clock of its own */
    PROC_FILES_LIVE,  /* those above are written again */
    PROC_FILE_CPUINFO = PROC_FILES_LIVE,
    PROC_FILE_BOOT_ID,
    PROC_FILE_MMAP_MIN, /* only for an engine that is a kernel in user space */
    PROC_FILE_COUNT,
};
/* Below /proc. */
const char *proc_file_path(enum proc_file f);

#define PROC_LOAD_ONE 2048u /* a load of 1.00 */

struct proc_numbers {
    unsigned cpus;
    uint64_t memory, used, cache; /* bytes; cache: of what is used, the contents of files */
    uint64_t spare;               /* of the cache, what the kernel gives up by itself */
    uint64_t cpu_usec, alive_usec;
    uint64_t booted;  /* seconds since 1970 */
    uint64_t tasks;   /* that there are */
    uint64_t load[3]; /* over 1, 5 and 15 minutes, times PROC_LOAD_ONE */
};

/* The text of one that has numbers: those that are written again. */
void proc_own_text(enum proc_file f, const struct proc_numbers *n, struct buf *out);
/* The first `cpus` processors of the host's own file, numbered from 0. False: what is there
 * of the text is used up; read on. */
bool proc_own_cpuinfo(const char *host, unsigned cpus, struct buf *out);
/* From 16 random bytes, in the form that the kernel's has. */
void proc_own_boot_id(const uint8_t random[static 16], struct buf *out);
/* The five steps of the averages that have passed, each with `busy` CPUs (times PROC_LOAD_ONE). */
void proc_own_load(uint64_t load[static 3], uint64_t busy, uint64_t steps);
#define PROC_LOAD_STEP_US UINT64_C(5000000)
/* A text never becomes shorter: it is filled up with blanks in its last line, so that a reader who
 * has it mapped, or reads it while it is written, finds whole lines of one length. */
void proc_own_pad(struct buf *text, size_t len);
