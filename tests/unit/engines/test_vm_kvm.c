/* What a guest's kernel meets in a machine that the monitor has made, by KVM itself (VM-21): a few
 * instructions with all rights of the guest's, in the place of a kernel. */
#include "base/cleanup.h"
#include "engines/vm/machine.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
#define MEMORY   (2u << 20)
#define CODE_AT  0x1000u
#define FAULT_AT 0x2000u
#define PORT     0x10u

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
    cr_assert_eq(machine_make(&m, kvm, MEMORY, 1, &err), 0, "%s", err.message);
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
#else
Test(vm_kvm, its_kernel_has_no_more_of_kvm_than_it_was_told_of)
{
    cr_skip_test("of x86-64 alone");
}
#endif
