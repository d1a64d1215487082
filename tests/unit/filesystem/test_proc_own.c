/* The texts of the view `own` of /proc: what readers look for is there, and a text never becomes
 * shorter. */
#include "filesystem/proc_own.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)

static const struct proc_numbers some = {.cpus = 2,
                                         .memory = 256 * MIB,
                                         .used = 100 * MIB,
                                         .cache = 60 * MIB,
                                         .spare = 20 * MIB,
                                         .cpu_usec = 3000000,
                                         .alive_usec = 10000000,
                                         .booted = 1700000000,
                                         .tasks = 7,
                                         .load = {PROC_LOAD_ONE, PROC_LOAD_ONE / 2, 0}};

static void has(enum proc_file f, const struct proc_numbers *n, const char *line)
{
    cleanup_buf struct buf out;
    buf_init(&out, 1 << 16);
    proc_own_text(f, n, &out);
    cr_assert(strstr(buf_text(&out), line), "%s is not in\n%s", line, buf_text(&out));
}

Test(proc_own, memory)
{
    has(PROC_FILE_MEMINFO, &some, "MemTotal:         262144 kB\n");
    has(PROC_FILE_MEMINFO, &some, "MemFree:          159744 kB\n");
    has(PROC_FILE_MEMINFO, &some, "MemAvailable:     180224 kB\n");
    has(PROC_FILE_MEMINFO, &some, "Cached:            61440 kB\n");
    has(PROC_FILE_MEMINFO, &some, "SwapTotal:             0 kB\n");
}

Test(proc_own, more_than_all_of_it)
{
    struct proc_numbers n = some;
    n.used = 300 * MIB;
    n.spare = 400 * MIB;
    has(PROC_FILE_MEMINFO, &n, "MemFree:               0 kB\n");
    has(PROC_FILE_MEMINFO, &n, "MemAvailable:     262144 kB\n");
    n.cpu_usec = UINT64_C(90000000);
    has(PROC_FILE_STAT, &n, "cpu  9000 0 0 0 0 0 0 0 0 0\n");
}

Test(proc_own, cpus)
{
    has(PROC_FILE_STAT, &some, "cpu  300 0 0 1700 0 0 0 0 0 0\ncpu0 150 0 0 850 ");
    has(PROC_FILE_STAT, &some, "cpu1 150 ");
    has(PROC_FILE_STAT, &some, "btime 1700000000\n");
    has(PROC_FILE_UPTIME, &some, "10.00 17.00\n");
    has(PROC_FILE_LOADAVG, &some, "1.00 0.50 0.00 1/7 1\n");
}

static bool first_cpus(const char *host, unsigned cpus, const char *want)
{
    cleanup_buf struct buf out;
    buf_init(&out, 1 << 16);
    bool all = proc_own_cpuinfo(host, cpus, &out);
    cr_assert_str_eq(buf_text(&out), want);
    return all;
}

Test(proc_own, cpuinfo)
{
    static const char host[] =
        "processor\t: 4\nmodel name\t: A\n\nprocessor\t: 5\nmodel name\t: B\n"
        "processors: x\n\nprocessor\t: 6\nmodel name\t: C\n\n";
    cr_assert(first_cpus(host, 1, "processor\t: 0\nmodel name\t: A\n\n"));
    cr_assert(first_cpus(host, 2,
                         "processor\t: 0\nmodel name\t: A\n\nprocessor\t: 1\nmodel name\t: B\n"
                         "processors: x\n\n"));
    /* Cut in the middle of a line: read on. */
    cr_assert_not(first_cpus("processor\t: 0\nmodel na", 1, "processor\t: 0\n"));
    cr_assert_not(first_cpus("", 1, ""));
}

Test(proc_own, boot_id)
{
    static const uint8_t ones[16] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                     0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    cleanup_buf struct buf out;
    buf_init(&out, 64);
    proc_own_boot_id(ones, &out);
    cr_assert_str_eq(buf_text(&out), "ffffffff-ffff-4fff-bfff-ffffffffffff\n");
}

Test(proc_own, load_comes_and_goes)
{
    uint64_t load[3] = {0};
    proc_own_load(load, 2 * PROC_LOAD_ONE, 12);
    cr_assert(load[0] > PROC_LOAD_ONE && load[0] < 2 * PROC_LOAD_ONE, "%" PRIu64, load[0]);
    cr_assert(load[0] > load[1] && load[1] > load[2] && load[2] > 0);
    proc_own_load(load, 0, UINT64_MAX);
    cr_assert(load[0] == 0 && load[1] == 0 && load[2] == 0);
}

Test(proc_own, a_text_never_becomes_shorter)
{
    cleanup_buf struct buf text;
    buf_init(&text, 64);
    buf_str(&text, "a 1\nb 2\n");
    proc_own_pad(&text, 12);
    cr_assert_str_eq(buf_text(&text), "a 1\nb 2    \n");
    proc_own_pad(&text, 4);
    cr_assert_eq(text.len, 12u);
    buf_reset(&text);
    proc_own_pad(&text, 4);
    cr_assert_eq(text.len, 0u, "nothing stays nothing");
}
