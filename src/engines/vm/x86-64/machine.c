/* x86-64: interrupt controllers in the kernel, ACPI, no firmware, no PCI, no timer but the
 * processor's own. A bzImage is put where it wants to lie and entered in 64-bit mode; the initramfs
 * lies at the end of the first part of memory. */
#include "engines/vm/machine.h"

#include "engines/vm/cmdline.h"
#include "engines/vm/x86-64/acpi.h"
#include "engines/vm/x86-64/boot.h"
#include "engines/vm/x86-64/cpuid.h"
#include "engines/vm/x86-64/msrs.h"
#include "engines/vm/x86-64/ports.h"

#include <linux/kvm.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define KVM_OWN_PAGES_AT 0xfffbc000ull /* four pages in the gap, which Intel's processors need */
#define FIRST_LINE       16u           /* of the controller; those below are for old devices */
#define LINE_0           0x350u        /* registers of a processor's own controller */
#define LINE_1           0x360u
#define LINE_EXTERNAL    0x700u
#define LINE_NMI         0x400u
#define MSR_MISC_ENABLE  0x1a0u
#define MSR_MTRR_DEFAULT 0x2ffu
#define FAST_STRINGS     1u
#define MTRR_WRITE_BACK  0x806u /* switched on; all memory is cached */
#define CPUID_MAX        256u

#define COMMAND_LINE                                                                               \
    GUEST_COMMAND_LINE " reboot=a pci=off 8250.nr_uarts=0 nowatchdog no_timer_check -- guest"

const uint64_t arch_memory_base = 0, arch_device_base = BOOT_GAP_AT;
const uint64_t arch_gap_at = BOOT_GAP_AT, arch_gap_end = BOOT_GAP_END;

/* struct kvm_cpuid2 and struct kvm_msrs with their entries: a struct that ends without a size
 * cannot stand in another one. */
struct cpuid {
    uint32_t count, padding;
    struct kvm_cpuid_entry2 entries[CPUID_MAX];
};
struct msrs {
    uint32_t count, padding;
    struct kvm_msr_entry entries[2];
};
_Static_assert(offsetof(struct cpuid, entries) == sizeof(struct kvm_cpuid2) &&
                   offsetof(struct msrs, entries) == sizeof(struct kvm_msrs),
               "the entries follow what KVM reads first");
_Static_assert(sizeof(struct cpuid_entry) == sizeof(struct kvm_cpuid_entry2) &&
                   offsetof(struct cpuid_entry, eax) == offsetof(struct kvm_cpuid_entry2, eax) &&
                   offsetof(struct cpuid_entry, edx) == offsetof(struct kvm_cpuid_entry2, edx),
               "they are the same");

/* VM-21 */
static int close_counters(struct machine *m, struct err *err)
{
    static uint8_t none[8]; /* no bit is set: none of them may be read or written */
    struct kvm_msr_filter filter = {.flags = KVM_MSR_FILTER_DEFAULT_ALLOW};
    for (size_t i = 0; i < MSR_COUNTER_RANGES; i++)
        filter.ranges[i] =
            (struct kvm_msr_filter_range){.flags = KVM_MSR_FILTER_READ | KVM_MSR_FILTER_WRITE,
                                          .base = msr_counters[i].first,
                                          .nmsrs = msr_counters[i].count,
                                          .bitmap = none};
    if (ioctl(m->vm, KVM_X86_SET_MSR_FILTER, &filter) < 0)
        return err_sys(err, "close the counters of the guest's processors (Linux 5.10)");
    return 0;
}

/* VM-21: KVM's extras that are not in the processor's description would be there all the same. */
static int close_extras(struct machine *m, unsigned cpu, struct err *err)
{
    const struct kvm_enable_cap described = {.cap = KVM_CAP_ENFORCE_PV_FEATURE_CPUID, .args = {1}};
    if (ioctl(m->cpus[cpu], KVM_ENABLE_CAP, &described) < 0)
        return err_sys(err, "close what KVM adds to processor %u (Linux 5.10)", cpu);
    return 0;
}

unsigned arch_line(unsigned device)
{
    return FIRST_LINE + device;
}

int arch_before_cpus(struct machine *m, struct err *err)
{
    uint64_t identity = KVM_OWN_PAGES_AT;
    if (ioctl(m->vm, KVM_SET_IDENTITY_MAP_ADDR, &identity) < 0 ||
        ioctl(m->vm, KVM_SET_TSS_ADDR, (unsigned long)KVM_OWN_PAGES_AT + 4096) < 0)
        return err_sys(err, "give KVM its own pages");
    if (ioctl(m->vm, KVM_CREATE_IRQCHIP, 0) < 0)
        return err_sys(err, "make the interrupt controllers");
    return close_counters(m, err);
}

static int set_cpuid(struct machine *m, unsigned cpu, const struct cpuid *offered, struct err *err)
{
    struct cpuid mine = *offered;
    int deadline = ioctl(m->vm, KVM_CHECK_EXTENSION, KVM_CAP_TSC_DEADLINE_TIMER) > 0;
    mine.count = (uint32_t)cpuid_narrow((struct cpuid_entry *)mine.entries, mine.count, CPUID_MAX,
                                        cpu, m->cpu_count, deadline);
    if (ioctl(m->cpus[cpu], KVM_SET_CPUID2, &mine) < 0)
        return err_sys(err, "say what processor %u is", cpu);
    return 0;
}

/* Where firmware would have connected them; without it Linux finds no clock for minutes. */
static int set_lines(struct machine *m, unsigned cpu, struct err *err)
{
    struct kvm_lapic_state state;
    const uint32_t external = LINE_EXTERNAL, nmi = LINE_NMI;
    if (ioctl(m->cpus[cpu], KVM_GET_LAPIC, &state) < 0)
        return err_sys(err, "read the interrupt controller of processor %u", cpu);
    memcpy(state.regs + LINE_0, &external, sizeof external);
    memcpy(state.regs + LINE_1, &nmi, sizeof nmi);
    if (ioctl(m->cpus[cpu], KVM_SET_LAPIC, &state) < 0)
        return err_sys(err, "set the interrupt controller of processor %u", cpu);
    return 0;
}

static int set_msrs(struct machine *m, unsigned cpu, struct err *err)
{
    struct msrs msrs = {.count = 2,
                        .entries = {{.index = MSR_MISC_ENABLE, .data = FAST_STRINGS},
                                    {.index = MSR_MTRR_DEFAULT, .data = MTRR_WRITE_BACK}}};
    if (ioctl(m->cpus[cpu], KVM_SET_MSRS, &msrs) != 2)
        return err_sys(err, "set what firmware sets of processor %u", cpu);
    return 0;
}

int arch_after_cpus(struct machine *m, struct err *err)
{
    struct cpuid offered = {.count = CPUID_MAX};
    if (ioctl(m->kvm, KVM_GET_SUPPORTED_CPUID, &offered) < 0)
        return err_sys(err, "ask for the kind of processor");
    for (unsigned i = 0; i < m->cpu_count; i++)
        if (set_cpuid(m, i, &offered, err) < 0 || close_extras(m, i, err) < 0 ||
            set_lines(m, i, err) < 0 || set_msrs(m, i, err) < 0)
            return err_number(err);
    return 0;
}

static int write_tables(struct machine *m, struct err *err)
{
    struct acpi_machine a = {.cpus = m->cpu_count, .devices = m->device_count};
    for (unsigned i = 0; i < m->device_count; i++)
        a.windows[i] = (struct acpi_window){.at = (uint32_t)arch_device_base + i * MACHINE_SPACING,
                                            .len = DEVICE_WINDOW,
                                            .line = arch_line(i)};
    uint8_t *to = memory_range(&m->memory, ACPI_AT, ACPI_ROOM);
    if (!to || acpi_write(&a, to, ACPI_ROOM) == 0)
        return err_set(err, ERR_INTERNAL, "the tables of the machine are too large");
    return 0;
}

/* As a boot loader leaves it: 64-bit mode, flat segments, each address at itself. */
static int enter(struct machine *m, const struct bzimage *image, struct err *err)
{
    enum { PROTECTED = 1, PAGING = 1u << 31, PHYSICAL_EXTENSION = 1 << 5, LONG = 0x500 };
    struct kvm_sregs s;
    struct kvm_segment code = {.limit = 0xffffffff,
                               .selector = BOOT_CODE,
                               .type = 11,
                               .present = 1,
                               .s = 1,
                               .l = 1,
                               .g = 1};
    struct kvm_segment data = {.limit = 0xffffffff,
                               .selector = BOOT_DATA,
                               .type = 3,
                               .present = 1,
                               .s = 1,
                               .db = 1,
                               .g = 1};
    struct kvm_regs r = {
        .rip = image->at + image->entry, .rsi = BOOT_PARAMS_AT, .rsp = BOOT_PARAMS_AT, .rflags = 2};
    if (ioctl(m->cpus[0], KVM_GET_SREGS, &s) < 0)
        return err_sys(err, "read the registers");
    s.cs = code;
    s.ds = s.es = s.fs = s.gs = s.ss = data;
    s.gdt.base = BOOT_TABLES_AT;
    s.gdt.limit = BOOT_DATA + 7;
    s.idt.limit = 0;
    s.cr0 = PROTECTED | PAGING;
    s.cr3 = BOOT_PAGES_AT;
    s.cr4 = PHYSICAL_EXTENSION;
    s.efer = LONG;
    if (ioctl(m->cpus[0], KVM_SET_SREGS, &s) < 0 || ioctl(m->cpus[0], KVM_SET_REGS, &r) < 0)
        return err_sys(err, "set the registers");
    return 0;
}

static int read_head(int kernel, uint8_t head[static BZIMAGE_HEAD], struct bzimage *ret,
                     struct err *err)
{
    char why_not[128];
    ssize_t n = pread(kernel, head, BZIMAGE_HEAD, 0);
    if (n < 0)
        return err_sys(err, "read the guest kernel");
    if (!bzimage_parse(head, (size_t)n, ret, why_not))
        return err_set(err, ERR_UNSUPPORTED, "this kernel cannot be booted: %s", why_not);
    return 0;
}

static int too_small(struct err *err)
{
    err_set(err, ERR_LIMIT, "kernel and initramfs do not fit into the guest's memory");
    return err_hint(err, "give it more: --memory 512M");
}

int arch_load(struct machine *m, int kernel, int initramfs, struct err *err)
{
    struct stat sb;
    uint8_t head[BZIMAGE_HEAD] = {0};
    struct boot b = {.head = head, .line = COMMAND_LINE};
    if (read_head(kernel, head, &b.image, err) < 0)
        return err_number(err);
    if (fstat(initramfs, &sb) < 0)
        return err_sys(err, "look at the initramfs");
    b.initramfs_len = (uint64_t)sb.st_size;
    b.initramfs = boot_initramfs_at(&m->memory, &b.image, b.initramfs_len);
    if (b.initramfs == 0)
        return too_small(err);
    int64_t len = machine_read(m, b.image.at, kernel, b.image.payload, "guest kernel", err);
    if (len < 0)
        return err_number(err);
    if ((uint64_t)len > b.image.room || (uint64_t)len <= b.image.entry)
        return err_set(err, ERR_UNSUPPORTED, "this kernel's header does not fit its size");
    if (machine_read(m, b.initramfs, initramfs, 0, "initramfs", err) < 0)
        return err_number(err);
    if (getrandom(b.seed, sizeof b.seed, 0) != sizeof b.seed)
        return err_sys(err, "get random numbers");
    if (boot_write(&m->memory, &b, err) < 0 || write_tables(m, err) < 0)
        return err_number(err);
    explicit_bzero(b.seed, sizeof b.seed);
    return enter(m, &b.image, err);
}

static enum machine_end access_port(struct machine *m, struct kvm_run *run)
{
    uint64_t at = run->io.data_offset;
    struct ports_access a = {.port = run->io.port,
                             .write = run->io.direction == KVM_EXIT_IO_OUT,
                             .width = run->io.size,
                             .count = run->io.count};
    if (at >= m->run_size)
        return MACHINE_BROKEN;
    a.data = (uint8_t *)run + at;
    a.room = m->run_size - at;
    return ports_access(&a);
}

enum machine_end arch_exit(struct machine *m, unsigned cpu)
{
    struct kvm_run *run = m->runs[cpu];
    switch (run->exit_reason) {
    case KVM_EXIT_IO:
        return access_port(m, run);
    case KVM_EXIT_SHUTDOWN:
        return MACHINE_FAULT;
    default:
        return MACHINE_BROKEN;
    }
}
