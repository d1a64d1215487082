/* What a machine on x86-64 is made of, on every architecture: what the guest's kernel is told, what
 * its processors say about themselves, what answers at its ports. */
#include "engines/vm/x86-64/acpi.h"
#include "engines/vm/x86-64/boot.h"
#include "engines/vm/x86-64/cpuid.h"
#include "engines/vm/x86-64/ports.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static uint64_t number(const uint8_t *bytes, size_t width)
{
    uint64_t value = 0;
    for (size_t i = width; i-- > 0;)
        value = value << 8 | bytes[i];
    return value;
}

static void set(uint8_t *bytes, uint64_t value, size_t width)
{
    for (size_t i = 0; i < width; i++)
        bytes[i] = (uint8_t)(value >> 8 * i);
}

/* ---- the image ---- */

static uint8_t head[BZIMAGE_HEAD];
#define HEAD_LEN 0x26cu

static void good_head(void)
{
    memset(head, 0, sizeof head);
    head[0x1f1] = 27;
    set(head + 0x1fe, 0xaa55, 2);
    head[0x201] = HEAD_LEN - 0x202;
    memcpy(head + 0x202, "HdrS", 4);
    set(head + 0x206, 0x20f, 2);
    head[0x211] = 1;
    set(head + 0x22c, 0x7fffffff, 4);
    set(head + 0x230, 0x200000, 4);
    set(head + 0x236, 0x3f, 2);
    set(head + 0x238, 2047, 4);
    set(head + 0x258, 0x1000000, 8);
    set(head + 0x260, 60 << 20, 4);
}

Test(vm_bzimage, what_its_header_says)
{
    struct bzimage b;
    char why_not[128];
    good_head();
    cr_assert(bzimage_parse(head, sizeof head, &b, why_not));
    cr_assert_eq(b.payload, 28 * 512);
    cr_assert_eq(b.at, 0x1000000);
    cr_assert_eq(b.room, 60u << 20);
    cr_assert_eq(b.entry, 0x200);
    cr_assert_eq(b.header_len, HEAD_LEN - 0x1f1);
}

Test(vm_bzimage, headers_that_do_not_fit_are_refused)
{
    static const struct {
        size_t at, width;
        uint64_t value;
    } rows[] = {
        {0x1fe, 2, 0},          /* no boot sector */
        {0x202, 4, 0},          /* no magic */
        {0x206, 2, 0x20b},      /* too old */
        {0x236, 2, 0},          /* no entry in 64-bit mode */
        {0x211, 1, 0},          /* loaded low */
        {0x201, 1, 2},          /* a header that ends before what is read of it */
        {0x230, 4, 0},          /* aligned to nothing */
        {0x230, 4, 0x300000},   /* to no power of two */
        {0x258, 8, 0x1000800},  /* not aligned */
        {0x258, 8, 0},          /* on top of what the monitor writes */
        {0x258, 8, 1ull << 62}, /* out of reach */
        {0x260, 4, 0},          /* needs nothing */
        {0x260, 4, 0xffffffff}, /* needs too much */
    };
    struct bzimage b;
    char why_not[128];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        good_head();
        set(head + rows[i].at, rows[i].value, rows[i].width);
        cr_assert_not(bzimage_parse(head, sizeof head, &b, why_not), "row %zu", i);
    }
    good_head();
    unsigned accepted = 0; /* an assertion is dear: one for all */
    for (size_t len = 0; len < HEAD_LEN; len++)
        accepted += bzimage_parse(head, len, &b, why_not);
    cr_assert_eq(accepted, 0);
    cr_assert(bzimage_parse(head, HEAD_LEN, &b, why_not));
}

/* ---- memory ---- */

Test(vm_memory, a_gap_is_no_memory)
{
    static uint8_t host[0x3000];
    struct guest_memory m = {.host = host, .size = 0x3000, .gap_at = 0x2000, .gap_end = 0x8000};
    cr_assert_eq(memory_range(&m, 0, 0x2000), host);
    cr_assert_eq(memory_range(&m, 0x1fff, 1), host + 0x1fff);
    cr_assert_null(memory_range(&m, 0x1fff, 2));
    cr_assert_null(memory_range(&m, 0x2000, 1));
    cr_assert_null(memory_range(&m, 0x7fff, 1));
    cr_assert_null(memory_range(&m, 0x7fff, 2));
    cr_assert_eq(memory_range(&m, 0x8000, 0x1000), host + 0x2000);
    cr_assert_eq(memory_range(&m, 0x8fff, 1), host + 0x2fff);
    cr_assert_null(memory_range(&m, 0x8fff, 2));
    cr_assert_null(memory_range(&m, 0x8000, 0x1001));
    cr_assert_null(memory_range(&m, UINT64_MAX, 2));
    cr_assert_null(memory_range(&m, 0x8000, UINT64_MAX));
    cr_assert_null(memory_range(&m, 0x8000, 0));
    m.gap_at = 0x4000; /* more than there is: no second part */
    cr_assert_eq(memory_range(&m, 0x2fff, 1), host + 0x2fff);
    cr_assert_null(memory_range(&m, 0x8000, 1));
}

#define SIZE (128ull << 20)

static struct guest_memory memory;

static void boot(struct boot *b)
{
    struct err err = ERR_INIT;
    char why_not[128];
    good_head();
    memory = (struct guest_memory){
        .host = calloc(1, SIZE), .size = SIZE, .gap_at = 96ull << 20, .gap_end = BOOT_GAP_END};
    cr_assert(memory.host);
    memset(memory.host, 0xee, 1 << 20);
    *b = (struct boot){.head = head, .line = "quiet", .initramfs_len = 5000};
    memset(b->seed, 0x5e, sizeof b->seed);
    cr_assert(bzimage_parse(head, sizeof head, &b->image, why_not));
    b->initramfs = boot_initramfs_at(&memory, &b->image, b->initramfs_len);
    cr_assert(boot_write(&memory, b, &err) == 0, "%s", err.message);
}

Test(vm_boot, the_kernel_is_told_of_its_machine)
{
    struct boot b;
    boot(&b);
    const uint8_t *p = memory.host + BOOT_PARAMS_AT;
    cr_assert_arr_eq(p + 0x202, "HdrS", 4);
    cr_assert_eq(p[0x210], 0xff);
    cr_assert_eq(number(p + 0x70, 8), ACPI_AT);
    cr_assert_eq(number(p + 0x218, 4), b.initramfs);
    cr_assert_eq(number(p + 0x21c, 4), 5000);
    cr_assert_str_eq((char *)memory.host + number(p + 0x228, 4), "quiet");
    const uint8_t *seed = memory.host + number(p + 0x250, 8);
    cr_assert_eq(number(seed, 8), 0); /* the last of the list */
    cr_assert_eq(number(seed + 8, 4), 9);
    cr_assert_eq(number(seed + 12, 4), BOOT_SEED);
    cr_assert_arr_eq(seed + 16, b.seed, BOOT_SEED);
    cr_assert_eq(p[0], 0, "what was in memory is not passed on");
}

Test(vm_boot, memory_has_its_ranges)
{
    static const uint64_t want[4][3] = {{0, 0x9fc00, 1},
                                        {ACPI_AT, ACPI_ROOM, 3},
                                        {0x100000, (96ull << 20) - 0x100000, 1},
                                        {BOOT_GAP_END, 32ull << 20, 1}};
    struct boot b;
    boot(&b);
    const uint8_t *p = memory.host + BOOT_PARAMS_AT;
    cr_assert_eq(p[0x1e8], 4);
    for (size_t i = 0; i < 4; i++) {
        cr_assert_eq(number(p + 0x2d0 + 20 * i, 8), want[i][0], "row %zu", i);
        cr_assert_eq(number(p + 0x2d0 + 20 * i + 8, 8), want[i][1], "row %zu", i);
        cr_assert_eq(number(p + 0x2d0 + 20 * i + 16, 4), want[i][2], "row %zu", i);
    }
}

Test(vm_boot, the_initramfs_lies_in_the_first_part)
{
    struct boot b;
    boot(&b);
    cr_assert_eq(b.initramfs % 4096, 0);
    cr_assert(b.initramfs >= b.image.at + b.image.room);
    cr_assert(b.initramfs + b.initramfs_len <= 96u << 20);
    cr_assert_eq(boot_initramfs_at(&memory, &b.image, 0), 0);
    cr_assert_eq(boot_initramfs_at(&memory, &b.image, 21ull << 20), 0);
    cr_assert_eq(boot_initramfs_at(&memory, &b.image, UINT64_MAX - 100), 0);
    b.image.initrd_limit = 80u << 20;
    uint64_t at = boot_initramfs_at(&memory, &b.image, 4096);
    cr_assert(at > 0 && at + 4096 <= 80u << 20);
    b.image.initrd_limit = 1 << 20;
    cr_assert_eq(boot_initramfs_at(&memory, &b.image, 4096), 0);
}

Test(vm_boot, each_address_is_at_itself)
{
    struct boot b;
    boot(&b);
    const uint8_t *top = memory.host + BOOT_PAGES_AT;
    const uint8_t *middle = memory.host + (number(top, 8) & ~0xfffull);
    const uint8_t *low = memory.host + (number(middle, 8) & ~0xfffull);
    unsigned wrong = 0;
    for (uint64_t i = 0; i < 512; i++)
        wrong += number(low + 8 * i, 8) != (i << 21 | 0x83);
    cr_assert_eq(wrong, 0);
    cr_assert_eq(number(memory.host + BOOT_TABLES_AT + BOOT_CODE, 8) >> 53 & 1, 1, "64-bit code");
}

/* ---- tables ---- */

static uint8_t tables[ACPI_ROOM];
static const struct acpi_machine two = {
    .cpus = 2, .devices = 2, .windows = {{0xd0000000, 0x200, 16}, {0xd0001000, 0x200, 17}}};

static const uint8_t *table(uint64_t address, const char *signature)
{
    cr_assert(address >= ACPI_AT && address < ACPI_AT + ACPI_ROOM);
    const uint8_t *t = tables + (address - ACPI_AT);
    uint8_t sum = 0;
    cr_assert_arr_eq(t, signature, 4);
    for (size_t i = 0; i < number(t + 4, 4); i++)
        sum = (uint8_t)(sum + t[i]);
    cr_assert_eq(sum, 0, "%s", signature);
    return t;
}

Test(vm_acpi, one_leads_to_the_other)
{
    uint8_t sum = 0;
    size_t len = acpi_write(&two, tables, sizeof tables);
    cr_assert(len > 0 && len < 1024);
    for (size_t i = 0; i < 36; i++)
        sum = (uint8_t)(sum + tables[i]);
    cr_assert_arr_eq(tables, "RSD PTR ", 8);
    cr_assert_eq(sum, 0);
    const uint8_t *xsdt = table(number(tables + 24, 8), "XSDT");
    const uint8_t *fadt = table(number(xsdt + 36, 8), "FACP");
    const uint8_t *madt = table(number(xsdt + 44, 8), "APIC");
    const uint8_t *dsdt = table(number(fadt + 140, 8), "DSDT");
    cr_assert_eq(number(fadt + 4, 4), 276);
    cr_assert_eq(number(fadt + 40, 4), number(fadt + 140, 8));
    cr_assert(number(fadt + 112, 4) & 1 << 20, "hardware reduced");
    cr_assert_eq(number(fadt + 120, 8), PORT_RESET);
    cr_assert_eq(number(fadt + 248, 8), PORT_SLEEP);
    cr_assert_eq(number(fadt + 260, 8), PORT_SLEEP_STATUS);
    cr_assert_eq(number(madt + 4, 4), 44 + 2 * 8 + 12);
    cr_assert_eq(madt[44 + 8 + 3], 1, "the second processor's number");
    cr_assert(memmem(dsdt, number(dsdt + 4, 4), "LNRO0005", 8));
}

/* Each processor has an entry of its own, with its number, and the controller comes after them. */
Test(vm_acpi, every_processor_is_named)
{
    for (unsigned cpus = 1; cpus <= 8; cpus++) {
        struct acpi_machine many = two;
        unsigned wrong = 0;
        many.cpus = cpus;
        cr_assert(acpi_write(&many, tables, sizeof tables) > 0);
        const uint8_t *xsdt = table(number(tables + 24, 8), "XSDT");
        const uint8_t *madt = table(number(xsdt + 44, 8), "APIC");
        cr_assert_eq(number(madt + 4, 4), 44 + 8 * cpus + 12);
        for (unsigned i = 0; i < cpus; i++) {
            const uint8_t *one = madt + 44 + 8 * (size_t)i;
            wrong += one[0] != 0 || one[1] != 8 || one[2] != i || one[3] != i;
            wrong += number(one + 4, 4) != 1; /* it may be used */
        }
        cr_assert_eq(wrong, 0, "%u processors", cpus);
        const uint8_t *controller = madt + 44 + 8 * (size_t)cpus;
        cr_assert(controller[0] == 1 && controller[1] == 12);
        cr_assert_not(memchr((const uint8_t[]){0, 1, 2, 3, 4, 5, 6, 7}, controller[2], cpus),
                      "its number is nobody else's");
    }
}

Test(vm_acpi, no_room_is_told)
{
    size_t len = acpi_write(&two, tables, sizeof tables);
    unsigned accepted = 0;
    for (size_t room = 0; room < len; room++) {
        uint8_t *exact = malloc(room ? room : 1); /* a sanitizer sees its end */
        accepted += acpi_write(&two, exact, room) != 0;
        free(exact);
    }
    cr_assert_eq(accepted, 0);
    uint8_t *exact = malloc(len + 2);
    cr_assert_eq(acpi_write(&two, exact, len + 2), len);
    free(exact);
}

/* ---- processors: VM-20, VM-21 ---- */

static struct cpuid_entry *leaf(struct cpuid_entry *entries, size_t n, uint32_t function,
                                uint32_t index)
{
    for (size_t i = 0; i < n; i++)
        if (entries[i].function == function && entries[i].index == index)
            return &entries[i];
    return NULL;
}

static const uint32_t offered[][2] = {
    {0, 0},          {1, 0},          {2, 0},          {3, 0},          {4, 0},
    {7, 0},          {0xa, 0},        {0xb, 0},        {0xb, 1},        {0xd, 0},
    {0x12, 0},       {0x14, 0},       {0x15, 0},       {0x16, 0},       {0x1f, 0},
    {0x40000000, 0}, {0x40000001, 0}, {0x80000000, 0}, {0x80000001, 0}, {0x80000002, 0},
    {0x80000003, 0}, {0x80000004, 0}, {0x80000007, 0}, {0x80000008, 0}, {0x8000000a, 0},
    {0x8000001e, 0}, {0x8000001f, 0},
};
#define OFFERED (sizeof offered / sizeof *offered)

/* A host that has everything: every bit is set. */
static size_t narrow(struct cpuid_entry *entries, unsigned cpu, unsigned cpus)
{
    for (size_t i = 0; i < OFFERED; i++)
        entries[i] = (struct cpuid_entry){.function = offered[i][0],
                                          .index = offered[i][1],
                                          .eax = ~0u,
                                          .ebx = ~0u,
                                          .ecx = ~0u,
                                          .edx = ~0u};
    return cpuid_narrow(entries, OFFERED, OFFERED, cpu, cpus, 1);
}

Test(vm_cpuid, says_nothing_of_the_host)
{
    struct cpuid_entry e[OFFERED];
    char name[49] = "";
    size_t n = narrow(e, 0, 1);
    for (unsigned i = 0; i < 3; i++)
        memcpy(name + 16 * i, &leaf(e, n, 0x80000002 + i, 0)->eax, 16);
    cr_assert_str_eq(name, "brig virtual processor");
    for (size_t i = 0; i < 3; i++)
        cr_assert_null(leaf(e, n, (uint32_t[]){3, 0x16, 0x15}[i], 0));
    cr_assert_not(leaf(e, n, 1, 0)->edx & 1 << 18, "a serial number");
    cr_assert_null(leaf(e, n, 0x8000001e, 0), "the host's topology");
    cr_assert_null(leaf(e, n, 0x1f, 0), "the host's topology");
}

Test(vm_cpuid, offers_no_way_deeper_into_kvm)
{
    static const uint32_t gone[] = {0xa, 0x12, 0x14, 0x8000000a, 0x8000001f};
    struct cpuid_entry e[OFFERED];
    size_t n = narrow(e, 0, 1);
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        cr_assert_null(leaf(e, n, gone[i], 0), "leaf %x", gone[i]);
    cr_assert_not(leaf(e, n, 1, 0)->ecx & 1 << 5, "VMX");
    cr_assert_not(leaf(e, n, 0x80000001, 0)->ecx & 1 << 2, "SVM");
    cr_assert_not(leaf(e, n, 7, 0)->ebx & (1 << 2 | 1 << 25), "SGX, tracing");
    cr_assert_eq(leaf(e, n, 0x40000001, 0)->eax, 0x0100000b, "KVM's clock alone");
    cr_assert(leaf(e, n, 1, 0)->ecx & 1u << 31, "the control: it is a guest");
    cr_assert(leaf(e, n, 1, 0)->ecx & 1u << 25, "the control: AES stays");
}

Test(vm_cpuid, each_processor_has_its_number)
{
    struct cpuid_entry e[OFFERED];
    for (unsigned cpu = 0; cpu < 3; cpu++) {
        size_t n = narrow(e, cpu, 3);
        cr_assert_eq(leaf(e, n, 1, 0)->ebx >> 24, cpu);
        cr_assert_eq(leaf(e, n, 1, 0)->ebx >> 16 & 0xff, 3);
        cr_assert_eq(leaf(e, n, 0xb, 0)->edx, cpu);
        cr_assert_eq(leaf(e, n, 0xb, 1)->eax, 2, "bits for three");
        cr_assert_eq(leaf(e, n, 0xb, 1)->ebx, 3);
        cr_assert_eq(leaf(e, n, 0x80000008, 0)->ecx & 0xff, 2);
        cr_assert(leaf(e, n, 0x80000001, 0)->ecx & 1 << 1, "cores, not threads");
        cr_assert(leaf(e, n, 1, 0)->edx & 1 << 28);
    }
    size_t n = narrow(e, 0, 1);
    cr_assert_not(leaf(e, n, 0x80000001, 0)->ecx & 1 << 1, "one has no others");
    cr_assert_not(leaf(e, n, 1, 0)->edx & 1 << 28);
}

/* Newer hosts offer one level of the topology, with nothing in it. */
Test(vm_cpuid, levels_are_there_whatever_is_offered)
{
    struct cpuid_entry e[3] = {{.function = 0xb, .flags = 1}};
    for (unsigned cpu = 0; cpu < 4; cpu++) {
        e[0] = (struct cpuid_entry){.function = 0xb, .flags = 1};
        size_t n = cpuid_narrow(e, 1, 3, cpu, 4, 1);
        cr_assert_eq(n, 2);
        cr_assert_eq(leaf(e, n, 0xb, 0)->ebx, 1);
        cr_assert_eq(leaf(e, n, 0xb, 0)->ecx, 0x100, "threads");
        cr_assert_eq(leaf(e, n, 0xb, 0)->edx, cpu);
        cr_assert_eq(leaf(e, n, 0xb, 1)->eax, 2);
        cr_assert_eq(leaf(e, n, 0xb, 1)->ebx, 4);
        cr_assert_eq(leaf(e, n, 0xb, 1)->ecx, 0x201, "cores");
        cr_assert_eq(leaf(e, n, 0xb, 1)->edx, cpu);
        cr_assert_eq(leaf(e, n, 0xb, 0)->flags & leaf(e, n, 0xb, 1)->flags, 1u);
    }
    e[0] = (struct cpuid_entry){.function = 0xb};
    cr_assert_eq(cpuid_narrow(e, 1, 1, 0, 4, 1), 0, "no room is not written beyond");
    e[0] = (struct cpuid_entry){.function = 1};
    cr_assert_eq(cpuid_narrow(e, 1, 3, 0, 4, 1), 1, "an old processor has none");
}

/* ---- ports ---- */

static enum machine_end port(uint16_t number_of, bool write, uint8_t value, uint8_t *ret)
{
    uint8_t data[4] = {value, 0, 0, 0};
    struct ports_access a = {
        .port = number_of, .write = write, .width = 1, .count = 1, .data = data, .room = 4};
    enum machine_end end = ports_access(&a);
    if (ret)
        *ret = data[0];
    return end;
}

Test(vm_ports, two_registers_end_the_machine)
{
    cr_assert_eq(port(PORT_SLEEP, true, 0x20 | 5 << 2, NULL), MACHINE_OFF);
    cr_assert_eq(port(PORT_SLEEP, true, 5 << 2, NULL), MACHINE_GOES_ON, "not enabled");
    cr_assert_eq(port(PORT_SLEEP, true, 0x20 | 3 << 2, NULL), MACHINE_GOES_ON, "another sleep");
    cr_assert_eq(port(PORT_RESET, true, 1, NULL), MACHINE_RESET);
    cr_assert_eq(port(PORT_RESET, true, 2, NULL), MACHINE_GOES_ON);
    cr_assert_eq(port(0x64, true, 0xfe, NULL), MACHINE_RESET);
    unsigned ends = 0;
    for (unsigned i = 0; i < 0x10000; i++)
        if (i != PORT_SLEEP && i != PORT_RESET && i != 0x64)
            ends += port((uint16_t)i, true, 0xff, NULL) != MACHINE_GOES_ON;
    cr_assert_eq(ends, 0);
}

Test(vm_ports, answers_make_no_kernel_wait)
{
    uint8_t value;
    for (size_t i = 0; i < 4; i++) {
        port((uint16_t[]){0x64, 0x71, PORT_SLEEP, PORT_SLEEP_STATUS}[i], false, 7, &value);
        cr_assert_eq(value, 0);
    }
    port(0x3f8, false, 7, &value);
    cr_assert_eq(value, 0xff);
}

Test(vm_ports, only_bytes_that_are_there_are_touched)
{
    uint8_t data[8] = {0};
    struct ports_access a = {.port = 0x3f8, .width = 2, .count = 3, .data = data, .room = 6};
    cr_assert_eq(ports_access(&a), MACHINE_GOES_ON);
    cr_assert_arr_eq(data, "\xff\xff\xff\xff\xff\xff\0\0", 8);
    a.room = 5;
    cr_assert_eq(ports_access(&a), MACHINE_BROKEN);
    a = (struct ports_access){.width = 4, .count = ~0u, .data = data, .room = 8};
    cr_assert_eq(ports_access(&a), MACHINE_BROKEN);
    a.width = 3, a.count = 1;
    cr_assert_eq(ports_access(&a), MACHINE_BROKEN);
    a.width = 0;
    cr_assert_eq(ports_access(&a), MACHINE_BROKEN);
}
