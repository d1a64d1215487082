/* A machine without a system: one processor, one page of code that counts down as a kernel would,
 * with all rights of the guest's. How long that takes says what is behind /dev/kvm. */
#include "kernel/vm_speed.h"

#include "base/cleanup.h"

#include <errno.h>
#include <linux/kvm.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>

/* A processor needs less than 1 ns for each, an emulator of all of it (QEMU) 10 to 20, what
 * emulates a kernel's instructions one by one several hundred. */
#define MOST_NANOSECONDS 60u

bool vm_speed_imitated(uint64_t nanoseconds, uint64_t instructions)
{
    return nanoseconds / MOST_NANOSECONDS > instructions;
}

#if defined(__aarch64__)
bool vm_speed_probe(int kvm, char *why, unsigned long room)
{
    (void)kvm, (void)why, (void)room;
    return true;
}
#else

#define LOOPS     2500u /* between two looks at the clock, of two instructions each */
#define ROUNDS    4u
#define PAGE      4096u
#define MEMORY    (4 * PAGE) /* three of page tables, one of code */
#define CODE_AT   (3 * PAGE)
#define OWN_PAGES 0xfffbd000ul

struct trial {
    int kvm, vm, cpu;
    uint8_t *memory;
    struct kvm_run *run;
    size_t run_size;
};

static void trial_done(struct trial *t)
{
    if (t->run && t->run != MAP_FAILED)
        munmap(t->run, t->run_size);
    if (t->cpu >= 0)
        close(t->cpu);
    if (t->vm >= 0)
        close(t->vm);
    if (t->memory && t->memory != MAP_FAILED)
        munmap(t->memory, MEMORY);
}

static int make_memory(struct trial *t)
{
    /* mov ecx, LOOPS; 1: dec ecx; jnz 1b; out 0x10, al; jmp to the start */
    static const uint8_t code[] = {0xb9, LOOPS & 0xff, LOOPS >> 8, 0,    0,    0xff, 0xc9,
                                   0x75, 0xfc,         0xe6,       0x10, 0xeb, 0xf3};
    t->memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (t->memory == MAP_FAILED)
        return -errno;
    memcpy(t->memory, &(uint64_t){PAGE | 3}, 8);
    memcpy(t->memory + PAGE, &(uint64_t){2 * PAGE | 3}, 8);
    memcpy(t->memory + 2 * PAGE, &(uint64_t){0x83}, 8); /* the first 2 MiB, each at itself */
    memcpy(t->memory + CODE_AT, code, sizeof code);
    struct kvm_userspace_memory_region region = {.memory_size = MEMORY,
                                                 .userspace_addr = (uint64_t)(uintptr_t)t->memory};
    return ioctl(t->vm, KVM_SET_USER_MEMORY_REGION, &region) < 0 ? -errno : 0;
}

static int set_registers(struct trial *t)
{
    struct kvm_sregs s;
    struct kvm_regs r = {.rip = CODE_AT, .rflags = 2};
    struct kvm_segment code = {
        .limit = ~0u, .selector = 8, .type = 11, .present = 1, .s = 1, .l = 1, .g = 1};
    struct kvm_segment data = {
        .limit = ~0u, .selector = 16, .type = 3, .present = 1, .s = 1, .db = 1, .g = 1};
    if (ioctl(t->cpu, KVM_GET_SREGS, &s) < 0)
        return -errno;
    s.cs = code;
    s.ds = s.es = s.fs = s.gs = s.ss = data;
    s.cr0 = 0x80000001;
    s.cr3 = 0;
    s.cr4 = 0x20;
    s.efer = 0x500;
    return ioctl(t->cpu, KVM_SET_SREGS, &s) < 0 || ioctl(t->cpu, KVM_SET_REGS, &r) < 0 ? -errno : 0;
}

static int make(struct trial *t)
{
    int size = ioctl(t->kvm, KVM_GET_VCPU_MMAP_SIZE, 0), result;
    if (size < (int)sizeof *t->run || (t->vm = ioctl(t->kvm, KVM_CREATE_VM, 0)) < 0 ||
        ioctl(t->vm, KVM_SET_TSS_ADDR, OWN_PAGES) < 0)
        return errno ? -errno : -ENODEV;
    if ((result = make_memory(t)) < 0)
        return result;
    if ((t->cpu = ioctl(t->vm, KVM_CREATE_VCPU, 0)) < 0)
        return -errno;
    t->run_size = (size_t)size;
    t->run = mmap(NULL, t->run_size, PROT_READ | PROT_WRITE, MAP_SHARED, t->cpu, 0);
    if (t->run == MAP_FAILED)
        return -errno;
    return set_registers(t);
}

/* Of this thread: a host that is busy with others makes nothing slower. */
static uint64_t spent(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* 1: it is a processor; 0: an imitation. The quickest round tells: one may take long because a host
 * below this one had other things to do, which no clock here knows of. The first pays for pages and
 * is not counted. */
static int measure(struct trial *t)
{
    for (unsigned i = 0; i <= ROUNDS; i++) {
        int result;
        uint64_t start = spent();
        while ((result = ioctl(t->cpu, KVM_RUN, 0)) < 0 && errno == EINTR)
            ;
        if (result < 0)
            return -errno;
        if (t->run->exit_reason != KVM_EXIT_IO)
            return -ENOEXEC;
        if (i > 0 && !vm_speed_imitated(spent() - start, 2ull * LOOPS))
            return 1;
    }
    return 0;
}

bool vm_speed_probe(int kvm, char *why, unsigned long room)
{
    struct trial t = {.kvm = kvm, .vm = -1, .cpu = -1};
    errno = 0;
    int result = make(&t);
    if (result >= 0)
        result = measure(&t);
    trial_done(&t);
    if (result == 0)
        snprintf(why, room,
                 "the /dev/kvm of this host imitates a processor for a guest's kernel, which would "
                 "be hundreds of times too slow");
    else if (result < 0)
        snprintf(why, room, "/dev/kvm makes no machine that runs: %s", strerror(-result));
    return result > 0;
}
#endif
