/* Lays out the memory of a machine on x86-64 for a bzImage that is entered in 64-bit mode.
 *
 * The kernel unpacks itself: that costs the guest's time and no exit, and so neither brig nor the
 * monitor has a decompressor for each of the formats that distributions use. It also moves itself
 * to a random place, which nobody who only loads it could do as well. */
#include "engines/vm/x86-64/boot.h"

#include "engines/vm/x86-64/acpi.h"

#include <stdio.h>
#include <string.h>

enum {
    PARAM_ACPI = 0x70,
    PARAM_RANGES = 0x1e8,
    PARAM_LOADER = 0x210,
    PARAM_INITRAMFS = 0x218,
    PARAM_INITRAMFS_LEN = 0x21c,
    PARAM_LINE = 0x228,
    PARAM_MORE = 0x250,
    PARAM_RANGE = 0x2d0,
};
enum { RANGE_MEMORY = 1, RANGE_RESERVED = 2, RANGE_ACPI = 3 };

#define LOADER_UNNAMED 0xffu
#define MORE_SEED      9u
#define LOW_END        0x9fc00ull
#define HIGH_START     0x100000ull
#define PAGE           4096ull
#define PRESENT        3ull    /* and may be written */
#define LARGE          0x83ull /* so, and 2 MiB */

static void put(const struct guest_memory *m, uint64_t at, uint64_t value, unsigned width)
{
    uint8_t *to = memory_range(m, at, width);
    for (unsigned i = 0; to && i < width; i++)
        to[i] = (uint8_t)(value >> 8 * i);
}

static void add_range(const struct guest_memory *m, uint64_t from, uint64_t to, uint32_t kind)
{
    uint8_t *count = memory_range(m, BOOT_PARAMS_AT + PARAM_RANGES, 1);
    uint64_t at = BOOT_PARAMS_AT + PARAM_RANGE + 20ull * *count;
    put(m, at, from, 8);
    put(m, at + 8, to - from, 8);
    put(m, at + 16, kind, 4);
    ++*count;
}

static uint64_t low_size(const struct guest_memory *m)
{
    return m->gap_at && m->size > m->gap_at ? m->gap_at : m->size;
}

static void write_ranges(const struct guest_memory *m)
{
    add_range(m, 0, LOW_END, RANGE_MEMORY);
    add_range(m, ACPI_AT, ACPI_AT + ACPI_ROOM, RANGE_ACPI);
    add_range(m, HIGH_START, low_size(m), RANGE_MEMORY);
    if (m->size > low_size(m))
        add_range(m, m->gap_end, m->gap_end + (m->size - low_size(m)), RANGE_MEMORY);
}

/* The first gigabyte, each address at itself; the kernel makes better tables first of all. */
static void write_pages(const struct guest_memory *m)
{
    put(m, BOOT_PAGES_AT, (BOOT_PAGES_AT + PAGE) | PRESENT, 8);
    put(m, BOOT_PAGES_AT + PAGE, (BOOT_PAGES_AT + 2 * PAGE) | PRESENT, 8);
    for (uint64_t i = 0; i < 512; i++)
        put(m, BOOT_PAGES_AT + 2 * PAGE + 8 * i, i << 21 | LARGE, 8);
}

static void write_segments(const struct guest_memory *m)
{
    put(m, BOOT_TABLES_AT + BOOT_CODE, 0x00af9b000000ffffull, 8);
    put(m, BOOT_TABLES_AT + BOOT_DATA, 0x00cf93000000ffffull, 8);
}

/* The kernel's random numbers begin with a seed that is fresh for each machine. */
static void write_seed(const struct guest_memory *m, const struct boot *b)
{
    put(m, BOOT_SEED_AT + 8, MORE_SEED, 4);
    put(m, BOOT_SEED_AT + 12, BOOT_SEED, 4);
    memcpy(memory_range(m, BOOT_SEED_AT + 16, BOOT_SEED), b->seed, BOOT_SEED);
    put(m, BOOT_PARAMS_AT + PARAM_MORE, BOOT_SEED_AT, 8);
}

static void write_params(const struct guest_memory *m, const struct boot *b)
{
    memcpy(memory_range(m, BOOT_PARAMS_AT + BZIMAGE_HEADER, b->image.header_len),
           b->head + BZIMAGE_HEADER, b->image.header_len);
    put(m, BOOT_PARAMS_AT + PARAM_LOADER, LOADER_UNNAMED, 1);
    put(m, BOOT_PARAMS_AT + PARAM_INITRAMFS, b->initramfs, 4);
    put(m, BOOT_PARAMS_AT + PARAM_INITRAMFS_LEN, b->initramfs_len, 4);
    put(m, BOOT_PARAMS_AT + PARAM_LINE, BOOT_LINE_AT, 4);
    put(m, BOOT_PARAMS_AT + PARAM_ACPI, ACPI_AT, 8);
    write_ranges(m);
}

uint64_t boot_initramfs_at(const struct guest_memory *m, const struct bzimage *image, uint64_t len)
{
    uint64_t end = low_size(m);
    if (end > image->initrd_limit)
        end = image->initrd_limit;
    end &= ~(PAGE - 1);
    uint64_t first = image->at + image->room;
    if (len == 0 || end < first || len > end - first)
        return 0;
    uint64_t at = (end - len) & ~(PAGE - 1);
    return at >= first ? at : 0;
}

int boot_write(const struct guest_memory *m, const struct boot *b, struct err *err)
{
    size_t len = strlen(b->line) + 1;
    if (m->base != 0 || m->size < 2 * HIGH_START)
        return err_set(err, ERR_LIMIT, "the guest's memory is too small");
    if (len > BOOT_LINE_MAX || len > (size_t)b->image.command_line + 1)
        return err_set(err, ERR_UNSUPPORTED, "this kernel takes no command line of %zu bytes", len);
    memset(memory_range(m, BOOT_TABLES_AT, BOOT_SEED_AT), 0, BOOT_SEED_AT);
    write_params(m, b);
    write_seed(m, b);
    write_segments(m);
    write_pages(m);
    memcpy(memory_range(m, BOOT_LINE_AT, len), b->line, len);
    return 0;
}
