/* The texts of the view `own` of /proc (proc_own.h). Pure. */
#include "filesystem/proc_own.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *proc_file_path(enum proc_file f)
{
    static const char *const paths[PROC_FILE_COUNT] = {
        [PROC_FILE_MEMINFO] = "meminfo",
        [PROC_FILE_STAT] = "stat",
        [PROC_FILE_LOADAVG] = "loadavg",
        [PROC_FILE_UPTIME] = "uptime",
        [PROC_FILE_CPUINFO] = "cpuinfo",
        [PROC_FILE_BOOT_ID] = "sys/kernel/random/boot_id",
        [PROC_FILE_MMAP_MIN] = "sys/vm/mmap_min_addr",
    };
    return paths[f];
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* What readers look for: procps, psutil, node, Java and Go each give up without some of these. */
static void write_meminfo(const struct proc_numbers *n, struct buf *out)
{
    uint64_t free = less(n->memory, n->used);
    uint64_t available = free + n->spare < n->memory ? free + n->spare : n->memory;
    uint64_t programs = less(n->used, n->cache), memory_files = less(n->cache, n->spare);
    const struct {
        const char *name;
        uint64_t bytes;
    } rows[] = {{"MemTotal:", n->memory},
                {"MemFree:", free},
                {"MemAvailable:", available},
                {"Buffers:", 0},
                {"Cached:", n->cache},
                {"SwapCached:", 0},
                {"Active:", programs},
                {"Inactive:", n->cache},
                {"SwapTotal:", 0},
                {"SwapFree:", 0},
                {"Dirty:", 0},
                {"Writeback:", 0},
                {"AnonPages:", programs},
                {"Mapped:", 0},
                {"Shmem:", memory_files},
                {"KReclaimable:", 0},
                {"Slab:", 0},
                {"SReclaimable:", 0},
                {"SUnreclaim:", 0},
                {"CommitLimit:", n->memory},
                {"Committed_AS:", n->used}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        buf_fmt(out, "%-15s %8" PRIu64 " kB\n", rows[i].name, rows[i].bytes / 1024);
}

/* In hundredths of a second, whatever the kernel's own unit is. All that was used counts as
 * programs' own (user) time, in equal parts of all CPUs. */
static void write_cpu(const char *name, unsigned cpus, const struct proc_numbers *n,
                      struct buf *out)
{
    uint64_t used = n->cpu_usec / n->cpus * cpus / 10000;
    uint64_t idle = less(n->alive_usec / 10000 * cpus, used);
    buf_fmt(out, "%s %" PRIu64 " 0 0 %" PRIu64 " 0 0 0 0 0 0\n", name, used, idle);
}

static void write_stat(const struct proc_numbers *n, struct buf *out)
{
    write_cpu("cpu ", n->cpus, n, out);
    for (unsigned i = 0; i < n->cpus; i++) {
        char name[16];
        snprintf(name, sizeof name, "cpu%u", i);
        write_cpu(name, 1, n, out);
    }
    buf_fmt(out, "intr 0\nctxt 0\nbtime %" PRIu64 "\nprocesses %" PRIu64 "\n", n->booted, n->tasks);
    buf_str(out, "procs_running 1\nprocs_blocked 0\nsoftirq 0 0 0 0 0 0 0 0 0 0 0\n");
}

static void write_loadavg(const struct proc_numbers *n, struct buf *out)
{
    for (int i = 0; i < 3; i++) {
        uint64_t hundredths = (n->load[i] * 100 + PROC_LOAD_ONE / 2) / PROC_LOAD_ONE;
        buf_fmt(out, "%" PRIu64 ".%02u ", hundredths / 100, (unsigned)(hundredths % 100));
    }
    buf_fmt(out, "1/%" PRIu64 " 1\n", n->tasks);
}

static void write_seconds(uint64_t usec, char end, struct buf *out)
{
    buf_fmt(out, "%" PRIu64 ".%02u%c", usec / 1000000, (unsigned)(usec / 10000 % 100), end);
}

static void write_uptime(const struct proc_numbers *n, struct buf *out)
{
    write_seconds(n->alive_usec, ' ', out);
    write_seconds(less(n->alive_usec * n->cpus, n->cpu_usec), '\n', out);
}

void proc_own_text(enum proc_file f, const struct proc_numbers *n, struct buf *out)
{
    static void (*const writers[PROC_FILES_LIVE])(const struct proc_numbers *, struct buf *) = {
        [PROC_FILE_MEMINFO] = write_meminfo,
        [PROC_FILE_STAT] = write_stat,
        [PROC_FILE_LOADAVG] = write_loadavg,
        [PROC_FILE_UPTIME] = write_uptime,
    };
    writers[f](n, out);
}

bool proc_own_cpuinfo(const char *host, unsigned cpus, struct buf *out)
{
    static const char key[] = "processor";
    unsigned seen = 0;
    for (const char *line = host, *end; *line; line = end + 1) {
        if (!(end = strchr(line, '\n')))
            return false;
        if (text_begins(line, key) && strchr(" \t:", line[sizeof key - 1])) {
            if (seen == cpus)
                return true;
            buf_fmt(out, "processor\t: %u\n", seen++);
        } else if (seen) {
            buf_add(out, line, (size_t)(end + 1 - line));
        }
    }
    return false;
}

void proc_own_boot_id(const uint8_t random[static 16], struct buf *out)
{
    for (int i = 0; i < 16; i++) {
        uint8_t byte = random[i];
        if (i == 6)
            byte = (uint8_t)((byte & 0x0f) | 0x40); /* version 4: random */
        if (i == 8)
            byte = (uint8_t)((byte & 0x3f) | 0x80);
        buf_fmt(out, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", byte);
    }
    buf_chr(out, '\n');
}

/* As the kernel does it: each step an average forgets a fixed part of itself. */
void proc_own_load(uint64_t load[static 3], uint64_t busy, uint64_t steps)
{
    static const uint64_t keeps[3] = {1884, 2014, 2037}; /* exp(-5/60), exp(-5/300), exp(-5/900) */
    uint64_t most = 4096; /* after that many nothing of what was is left */
    for (uint64_t step = 0; step < (steps < most ? steps : most); step++)
        for (int i = 0; i < 3; i++)
            load[i] = (load[i] * keeps[i] + busy * (PROC_LOAD_ONE - keeps[i])) / PROC_LOAD_ONE;
}

void proc_own_pad(struct buf *text, size_t len)
{
    if (!text->len || text->len >= len || text->failed)
        return;
    text->data[--text->len] = '\0';
    while (text->len + 1 < len && !text->failed)
        buf_chr(text, ' ');
    buf_chr(text, '\n');
}
