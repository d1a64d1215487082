/* What a guest's kernel meets in a machine that the monitor has made, by KVM itself (VM-21): a few
 * instructions with all rights of the guest's, in the place of a kernel. */
#include "base/cleanup.h"
#include "engines/vm/machine.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__x86_64__)
#define MEMORY   (2u << 20)
#define CODE_AT  0x1000u
#define FAULT_AT 0x2000u
#define PORT     0x10u
#define PLAIN    65536 /* less than a program has */

static int kvm = -1;

static void setup(void)
{
    kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
    if (kvm < 0)
        cr_skip_test("this machine has no /dev/kvm that may be used");
}
TestSuite(vm_kvm, .init = setup);

/* One write to a register of the processor's: is it taken? In the mode of old, where a table at 0
 * says what comes after a fault. */
static bool takes(int cpu, struct kvm_run *run, uint8_t *memory, uint32_t number, uint32_t value)
{
    /* mov ecx, number; mov eax, value; xor edx, edx; wrmsr; mov al, 1; out PORT, al */
    uint8_t code[] = {0x66, 0xb9, 0,    0,    0,    0,    0x66, 0xb8, 0,    0,   0,
                      0,    0x66, 0x31, 0xd2, 0x0f, 0x30, 0xb0, 1,    0xe6, PORT};
    static const uint8_t fault[] = {0xb0, 0, 0xe6, PORT}; /* mov al, 0; out PORT, al */
    const uint32_t to_fault = FAULT_AT;
    struct kvm_sregs s;
    struct kvm_regs r = {.rip = CODE_AT, .rsp = 0x8000, .rflags = 2};
    memcpy(code + 2, &number, 4);
    memcpy(code + 8, &value, 4);
    memcpy(memory + CODE_AT, code, sizeof code);
    memcpy(memory + FAULT_AT, fault, sizeof fault);
    memcpy(memory + 13 * 4, &to_fault, 4);
    cr_assert_eq(ioctl(cpu, KVM_GET_SREGS, &s), 0);
    s.cs.base = s.cs.selector = s.ss.base = s.ss.selector = s.ds.base = s.ds.selector = 0;
    s.idt.base = 0;
    s.idt.limit = 0x3ff;
    cr_assert_eq(ioctl(cpu, KVM_SET_SREGS, &s), 0);
    cr_assert_eq(ioctl(cpu, KVM_SET_REGS, &r), 0);
    cr_assert_eq(ioctl(cpu, KVM_RUN, 0), 0);
    cr_assert_eq(run->exit_reason, KVM_EXIT_IO, "%u", run->exit_reason);
    return *((uint8_t *)run + run->io.data_offset) == 1;
}

/* A machine as anybody makes it, with all that KVM offers. */
static void make_plain(int *cpu, struct kvm_run **run, uint8_t **memory)
{
    static _Alignas(8)
        uint8_t room[sizeof(struct kvm_cpuid2) + 256 * sizeof(struct kvm_cpuid_entry2)];
    struct kvm_cpuid2 *all = (struct kvm_cpuid2 *)(void *)room;
    all->nent = 256;
    int vm = ioctl(kvm, KVM_CREATE_VM, 0), size = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
    *memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct kvm_userspace_memory_region region = {.memory_size = MEMORY,
                                                 .userspace_addr = (uint64_t)(uintptr_t)*memory};
    cr_assert_eq(ioctl(vm, KVM_SET_TSS_ADDR, 0xfffbd000ul), 0);
    cr_assert_eq(ioctl(vm, KVM_CREATE_IRQCHIP, 0), 0);
    cr_assert_eq(ioctl(vm, KVM_SET_USER_MEMORY_REGION, &region), 0);
    *cpu = ioctl(vm, KVM_CREATE_VCPU, 0);
    *run = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, *cpu, 0);
    cr_assert(*cpu >= 0 && *run != MAP_FAILED);
    cr_assert_eq(ioctl(kvm, KVM_GET_SUPPORTED_CPUID, all), 0);
    cr_assert_eq(ioctl(*cpu, KVM_SET_CPUID2, all), 0);
}

static const struct {
    const char *what;
    uint32_t number, value;
    bool open;
} registers[] = {
    {"the clock, which it has", 0x4b564d01, 0x4001, true},
    {"stolen time", 0x4b564d03, 0x4001, false},
    {"ends of interrupts", 0x4b564d04, 0x4001, false},
    {"how it polls", 0x4b564d05, 1, false},
    {"AMD's first counter", 0xc0010000, 0, false},
    {"AMD's counters behind it", 0xc0010004, 0, false},
};

Test(vm_kvm, its_kernel_has_no_more_of_kvm_than_it_was_told_of)
{
    int plain;
    struct kvm_run *run;
    uint8_t *memory;
    static struct machine m;
    struct err err = ERR_INIT;
    make_plain(&plain, &run, &memory);
    const struct machine_wish wish = {.kvm = kvm, .memory = MEMORY, .cpus = 1, .file = -1};
    cr_assert_eq(machine_make(&m, &wish, &err), 0, "%s", err.message);
    unsigned controls = 0;
    for (size_t i = 0; i < ARRAY_LEN(registers); i++) {
        bool there = takes(plain, run, memory, registers[i].number, registers[i].value);
        bool mine =
            takes(m.cpus[0], m.runs[0], m.memory.host, registers[i].number, registers[i].value);
        cr_expect_eq(mine, registers[i].open, "%s", registers[i].what);
        controls += there && !mine;
    }
    cr_expect_geq(controls, 3, "control: a plain machine takes them");
}
/* ---- parked machines ---- */

static uint8_t room[STATE_MAX];
static struct machine first, second;

static int memory_file(int seals)
{
    int fd = memfd_create("memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    cr_assert_eq(ftruncate(fd, MEMORY), 0);
    cr_assert_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static void make_machine(struct machine *m, enum machine_memory kind, int file)
{
    struct err err = ERR_INIT;
    const struct machine_wish wish = {
        .kvm = kvm, .memory = MEMORY, .cpus = 2, .kind = kind, .file = file};
    cr_assert_eq(machine_make(m, &wish, &err), 0, "%s", err.message);
}

/* One in the middle of something, saved. */
static size_t park_machine(void)
{
    struct err err = ERR_INIT;
    struct kvm_regs r = {.rip = CODE_AT, .rsp = 0x8000, .rflags = 2, .rbx = 0x1234};
    struct state_writer w = {.data = room, .room = sizeof room};
    make_machine(&first, MACHINE_ALONE, -1);
    cr_assert_eq(ioctl(first.cpus[0], KVM_SET_REGS, &r), 0);
    cr_assert_eq(arch_save(&first, &w, &err), 0, "%s", err.message);
    cr_assert_not(w.failed);
    return w.len;
}

static int restore_machine(size_t len, struct err *err)
{
    struct state_reader r = {.data = room, .len = len};
    make_machine(&second, MACHINE_ALONE, -1);
    int result = arch_restore(&second, &r, err);
    cr_expect(result < 0 || state_ended(&r));
    return result;
}

static uint64_t time_of(const struct machine *m, unsigned cpu)
{
    struct {
        uint32_t count, padding;
        struct kvm_msr_entry entry;
    } one = {.count = 1, .entry = {.index = 0x10}};
    cr_assert_eq(ioctl(m->cpus[cpu], KVM_GET_MSRS, &one), 1);
    return one.entry.data;
}

Test(vm_kvm, a_machine_goes_on_in_another_one)
{
    struct err err = ERR_INIT;
    struct kvm_regs r;
    size_t len = park_machine();
    uint64_t then = time_of(&first, 0);
    cr_assert_eq(restore_machine(len, &err), 0, "%s", err.message);
    cr_assert_eq(ioctl(second.cpus[0], KVM_GET_REGS, &r), 0);
    cr_expect_eq(r.rip, CODE_AT);
    cr_expect_eq(r.rbx, 0x1234);
    /* It has the time of the first, which goes on there, and not its own, which has just begun. */
    uint64_t now = time_of(&second, 0);
    cr_expect_lt(now, time_of(&first, 0), "it stood still meanwhile");
    cr_expect_gt(now + (then >> 3), then, "%llu after %llu", (unsigned long long)now,
                 (unsigned long long)then);
    for (size_t i = 0; i < ARRAY_LEN(registers); i++)
        cr_expect_eq(takes(second.cpus[0], second.runs[0], second.memory.host, registers[i].number,
                           registers[i].value),
                     registers[i].open, "%s", registers[i].what);
}

/* The first block of this tag, and what is in it. */
static uint8_t *block(uint32_t tag, size_t len)
{
    uint8_t *at = memmem(room, len, &tag, sizeof tag);
    cr_assert(at);
    return at + 8;
}

/* VM-21: what a monitor could set, and no guest may have. */
Test(vm_kvm, a_state_brings_nothing_back_that_is_closed)
{
    const uint32_t closed[] = {0xc0010000, 0x4b564d03, 0xc0010117, 0xdeadbeef};
    struct err err = ERR_INIT;
    size_t len = park_machine();
    uint8_t *registers_at = block(STATE_TAG('m', 's', 'r', 's'), len);
    for (size_t i = 0; i < ARRAY_LEN(closed); i++) {
        uint32_t was;
        memcpy(&was, registers_at, sizeof was);
        memcpy(registers_at, &closed[i], sizeof closed[i]);
        cr_expect_lt(restore_machine(len, &err), 0, "%#x", closed[i]);
        memcpy(registers_at, &was, sizeof was);
    }
    /* Virtualization inside of the guest, by the bit that switches it on: AMD's, then Intel's. */
    size_t system = sizeof(struct kvm_mp_state);
    system = (system + 7) / 8 * 8 + sizeof(struct kvm_regs);
    uint8_t *processor_at = block(STATE_TAG('p', 'r', 'o', 'c'), len) + system;
    const struct {
        size_t at;
        uint8_t bit;
    } bits[] = {{offsetof(struct kvm_sregs, efer) + 1, 0x10},
                {offsetof(struct kvm_sregs, cr4) + 1, 0x20}};
    for (size_t i = 0; i < ARRAY_LEN(bits); i++) {
        processor_at[bits[i].at] ^= bits[i].bit;
        cr_expect_lt(restore_machine(len, &err), 0, "%zu", i);
        processor_at[bits[i].at] ^= bits[i].bit;
    }
    cr_expect_lt(restore_machine(len - 1, &err), 0, "cut off");
    cr_expect_eq(restore_machine(len, &err), 0, "control: %s", err.message);
}

/* VM-28 */
Test(vm_kvm, a_clone_is_made_of_what_nobody_can_change)
{
    const int seals = F_SEAL_WRITE | F_SEAL_SHRINK;
    int file = memory_file(seals);
    /* Of a file system that knows no seals, where there is one: brig itself lies on it. */
    int plain = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct stat sb;
    cr_assert(fstat(plain, &sb) == 0 && sb.st_size > PLAIN);
    const struct {
        const char *what;
        int file;
        uint64_t memory;
        bool works;
    } rows[] = {
        {"one that can be written", memory_file(F_SEAL_SHRINK), MEMORY, false},
        {"one that can be cut off", memory_file(F_SEAL_WRITE), MEMORY, false},
        {"more than it has", file, 2 * MEMORY, false},
        {"no file", kvm, MEMORY, false},
        {"a file that has no seals", plain, PLAIN, false},
        {"control", file, MEMORY, true},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = ERR_INIT;
        const struct machine_wish wish = {.kvm = kvm,
                                          .memory = rows[i].memory,
                                          .cpus = 1,
                                          .kind = MACHINE_CLONE,
                                          .file = rows[i].file};
        cr_expect_eq(machine_make(&first, &wish, &err) == 0, rows[i].works, "%s: %s", rows[i].what,
                     err.message);
    }
    uint8_t byte = 1;
    first.memory.host[5] = 7;
    cr_expect_eq(pread(file, &byte, 1, 5), 1);
    cr_expect_eq(byte, 0, "what it writes is its own");
}
#else
#define OF_X86(name)                                                                               \
    Test(vm_kvm, name)                                                                             \
    {                                                                                              \
        cr_skip_test("of x86-64 alone");                                                           \
    }
OF_X86(its_kernel_has_no_more_of_kvm_than_it_was_told_of)
OF_X86(a_machine_goes_on_in_another_one)
OF_X86(a_state_brings_nothing_back_that_is_closed)
OF_X86(a_clone_is_made_of_what_nobody_can_change)
#endif
